//! The shortest iteration of all cuts into chunks and all orders, from layers and tensors alone.
//!
//! It knows nothing of the library. Cuts are listed one by one. The orders of a cut are tried all together: what is done on the devices, by kind of
//! operation and how often, with every way there that is not worse than another one in all times. Micro-batches are alike, so that those of each
//! kind of operation may be numbered as they run.

use std::collections::{BTreeMap, HashMap};

/// A network and the devices that run it, in whole ns and bytes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Times of every layer: forward pass, backward pass without the gradients of weights, gradients of weights.
    pub layers: Vec<[u64; 3]>,
    /// What every layer holds for good and for each micro-batch in flight.
    pub bytes: Vec<[u64; 2]>,
    /// Producer, readers behind it, and ns from one device to another.
    pub tensors: Vec<(usize, Vec<usize>, u64)>,
    pub devices: usize,
    pub chunks_of_a_device: usize,
    /// Every other round goes backwards.
    pub is_v: bool,
    pub micro_batches: usize,
    /// Transfers are delays; else both devices wait for them.
    pub overlapped: bool,
    /// Whether gradients of weights may run apart.
    pub may_split: bool,
    /// A part of the backward pass in place of what layers say of gradients of weights.
    pub weight_share: Option<f64>,
    /// Bytes of a device.
    pub memory: Option<u64>,
    /// Activations that a device may hold, in place of bytes.
    pub room: Option<u64>,
}

/// An operation of a chunk.
struct Kind {
    device: usize,
    takes_ns: u64,
    /// Operations before it, and ns from their ends.
    before: Vec<(usize, u64)>,
    /// What the device holds more from its start on, and less from its end on.
    held: [u64; 2],
}

impl Asked {
    fn chunks(&self) -> usize {
        self.devices * self.chunks_of_a_device
    }

    fn device(&self, chunk: usize) -> usize {
        let (round, place) = (chunk / self.devices, chunk % self.devices);
        match self.is_v && round % 2 == 1 {
            true => self.devices - 1 - place,
            false => place,
        }
    }

    /// The shortest iteration below a limit, in ns; `None` where there is none.
    pub fn shortest_below(&self, limit_ns: u64) -> Option<u64> {
        let mut limit = limit_ns;
        self.extend(&mut Vec::new(), &mut limit);
        (limit < limit_ns).then_some(limit)
    }

    /// What an order of a cut takes in ns, by device the operations as chunk, letter and micro-batch; `None` where it cannot be run.
    ///
    /// An order that names no gradients of weights computes them in the backward pass.
    pub fn runs(&self, cut: &[usize], order: &[Vec<(usize, char, usize)>]) -> Option<u64> {
        let may_split = order.iter().flatten().any(|&(_, letter, _)| letter == 'W');
        if self.may_split && !may_split {
            let together = Self {
                may_split,
                ..self.clone()
            };
            return together.runs(cut, order);
        }
        let (kinds, room) = self.kinds(cut)?;
        let orders = Orders::new(self, &kinds, &room);
        let n = self.chunks();
        let mut way = orders.start();
        let mut next = vec![0; order.len()];
        // Operations of a kind are numbered as they run.
        let kind = |(chunk, letter, _): (usize, char, usize)| match letter {
            'F' => chunk,
            'W' => 2 * n + chunk,
            _ => n + chunk,
        };
        let all: usize = order.iter().map(Vec::len).sum();
        for _ in 0..all {
            let counts: Vec<u8> = way.ends_ns.iter().map(|ends| ends.len() as u8).collect();
            let can = |device: &usize| {
                let operation = order[*device].get(next[*device]);
                operation.is_some_and(|&operation| {
                    let kind = kind(operation);
                    kinds[kind].device == *device && orders.may_run(&counts, kind)
                })
            };
            let device = (0..order.len()).find(can)?;
            way = orders.after(&way, kind(order[device][next[device]]));
            next[device] += 1;
        }
        let is_whole = way.ends_ns.iter().all(|ends| ends.len() == self.micro_batches);
        is_whole.then(|| way.free_ns.iter().copied().max().unwrap_or(0))
    }

    /// Lowers the limit to the shortest iteration of all cuts that begin so.
    fn extend(&self, cut: &mut Vec<usize>, limit_ns: &mut u64) {
        let layer = cut.len();
        if layer == self.layers.len() {
            if (0..self.chunks()).all(|chunk| cut.contains(&chunk))
                && let Some((kinds, room)) = self.kinds(cut)
                && let Some(ns) = Orders::new(self, &kinds, &room).shortest_below(*limit_ns)
            {
                *limit_ns = ns;
            }
            return;
        }
        let feeds = self
            .tensors
            .iter()
            .filter(|(_, readers, _)| readers.contains(&layer));
        let first = feeds.map(|&(producer, ..)| cut[producer]).max().unwrap_or(0);
        for chunk in first..self.chunks() {
            cut.push(chunk);
            self.extend(cut, limit_ns);
            cut.pop();
        }
    }

    /// Times sent and received by chunk, forwards and backwards.
    fn moved(&self, cut: &[usize]) -> Vec<[[u64; 2]; 2]> {
        let mut moved = vec![[[0u64; 2]; 2]; self.chunks()];
        for (producer, readers, ns) in &self.tensors {
            let home = cut[*producer];
            let mut first: BTreeMap<usize, usize> = BTreeMap::new();
            for &reader in readers {
                let chunk = first.entry(self.device(cut[reader])).or_insert(cut[reader]);
                *chunk = cut[reader].min(*chunk);
            }
            first.remove(&self.device(home));
            if !first.is_empty() {
                moved[home][0][0] += ns;
                moved[home][1][1] += ns;
            }
            for &chunk in first.values() {
                moved[chunk][0][1] += ns;
                moved[chunk][1][0] += ns;
            }
        }
        moved
    }

    /// The operations of a cut; `None` where weights leave no room.
    fn kinds(&self, cut: &[usize]) -> Option<(Vec<Kind>, Vec<u64>)> {
        let n = self.chunks();
        let mut work = vec![[0u64; 3]; n];
        let mut held = vec![0u64; n];
        let mut for_good = vec![0u64; self.devices];
        for (layer, &chunk) in cut.iter().enumerate() {
            (0..3).for_each(|phase| work[chunk][phase] += self.layers[layer][phase]);
            held[chunk] += self.bytes[layer][1];
            for_good[self.device(chunk)] += self.bytes[layer][0];
        }
        if let Some(share) = self.weight_share {
            for [_, input, weights] in &mut work {
                let all = *input + *weights;
                *weights = (share * all as f64).round() as u64;
                *input = all - *weights;
            }
        }
        let moved = self.moved(cut);
        let waits = |chunk: usize, phase: usize| match self.overlapped {
            true => 0,
            false => moved[chunk][phase].iter().sum(),
        };
        let delay = |from: usize, to: usize, phase: usize| {
            let is_near = self.device(from) == self.device(to);
            match self.overlapped && !is_near {
                true => moved[from][phase][0].max(moved[to][phase][1]),
                false => 0,
            }
        };
        let room: Option<Vec<u64>> = (0..self.devices)
            .map(|device| match (self.room, self.memory) {
                (Some(room), _) => Some(room),
                (None, Some(bytes)) => bytes.checked_sub(for_good[device]),
                (None, None) => Some(u64::MAX),
            })
            .collect();
        let stash = |chunk: usize| if self.room.is_some() { 1 } else { held[chunk] };
        let forward = (0..n).map(|chunk| Kind {
            device: self.device(chunk),
            takes_ns: work[chunk][0] + waits(chunk, 0),
            before: chunk
                .checked_sub(1)
                .map(|before| (before, delay(before, chunk, 0)))
                .into_iter()
                .collect(),
            held: [stash(chunk), 0],
        });
        let backward = (0..n).map(|chunk| {
            let own = work[chunk][1] + waits(chunk, 1);
            let mut before = vec![(chunk, 0)];
            if chunk + 1 < n {
                before.push((n + chunk + 1, delay(chunk + 1, chunk, 1)));
            }
            Kind {
                device: self.device(chunk),
                takes_ns: if self.may_split { own } else { own + work[chunk][2] },
                before,
                held: [0, if self.may_split { 0 } else { stash(chunk) }],
            }
        });
        let weights = (0..n).filter(|_| self.may_split).map(|chunk| Kind {
            device: self.device(chunk),
            takes_ns: work[chunk][2],
            before: vec![(n + chunk, 0)],
            held: [0, stash(chunk)],
        });
        Some((forward.chain(backward).chain(weights).collect(), room?))
    }
}

/// The orders of a cut.
struct Orders<'a> {
    asked: &'a Asked,
    kinds: &'a [Kind],
    room: &'a [u64],
    /// What comes behind every kind of operation at least, in ns.
    tails_ns: Vec<u64>,
}

/// When devices are free, and the ends of the operations of every kind.
#[derive(Clone)]
struct Way {
    free_ns: Vec<u64>,
    ends_ns: Vec<Vec<u64>>,
}

/// What is done, by kind of operation, and the ways there with the times that what comes later depends on.
type Level = HashMap<Vec<u8>, Vec<(Vec<u64>, Way)>>;

impl<'a> Orders<'a> {
    fn new(asked: &'a Asked, kinds: &'a [Kind], room: &'a [u64]) -> Self {
        let mut tails_ns = vec![0; kinds.len()];
        // Every kind waits for few others, so that as many passes as there are kinds are enough.
        for _ in 0..kinds.len() {
            for (kind, of) in kinds.iter().enumerate() {
                for &(before, ns) in &of.before {
                    tails_ns[before] = tails_ns[before].max(ns + of.takes_ns + tails_ns[kind]);
                }
            }
        }
        Self {
            asked,
            kinds,
            room,
            tails_ns,
        }
    }

    fn start(&self) -> Way {
        Way {
            free_ns: vec![0; self.asked.devices],
            ends_ns: vec![Vec::new(); self.kinds.len()],
        }
    }

    fn shortest_below(&self, limit_ns: u64) -> Option<u64> {
        let all = self.kinds.len() * self.asked.micro_batches;
        let mut level = Level::from([(vec![0u8; self.kinds.len()], vec![(Vec::new(), self.start())])]);
        for _ in 0..all {
            let mut next = Level::new();
            for (counts, ways) in level {
                for kind in (0..self.kinds.len()).filter(|&kind| self.may_run(&counts, kind)) {
                    let mut more = counts.clone();
                    more[kind] += 1;
                    self.go_on(
                        next.entry(more.clone()).or_default(),
                        &ways,
                        (kind, &more),
                        limit_ns,
                    );
                }
            }
            level = next;
        }
        let ways = level.values().flatten();
        ways.map(|(_, way)| way.free_ns.iter().copied().max().unwrap_or(0))
            .min()
    }

    /// The ways on by one operation of a kind to what is done then, but for those that are not below the limit.
    fn go_on(
        &self,
        next: &mut Vec<(Vec<u64>, Way)>,
        ways: &[(Vec<u64>, Way)],
        to: (usize, &[u8]),
        limit_ns: u64,
    ) {
        let (kind, counts) = to;
        for way in ways.iter().map(|(_, way)| self.after(way, kind)) {
            let ended = way.free_ns[self.kinds[kind].device] + self.tails_ns[kind];
            if ended.max(self.least_ns(&way, counts)) < limit_ns {
                keep(next, self.times(&way, counts), way);
            }
        }
    }

    /// Whether the next operation of a kind has all that it needs, and room.
    fn may_run(&self, counts: &[u8], kind: usize) -> bool {
        let of = &self.kinds[kind];
        let has_ended = |&(before, _): &(usize, u64)| counts[before] > counts[kind];
        usize::from(counts[kind]) < self.asked.micro_batches
            && of.before.iter().all(has_ended)
            && self.held(counts, of.device) + of.held[0] <= self.room[of.device]
    }

    /// What a device holds for micro-batches in flight.
    fn held(&self, counts: &[u8], device: usize) -> u64 {
        let own = self.kinds.iter().zip(counts);
        let own = own.filter(|(of, _)| of.device == device);
        let sum = |of: usize| -> u64 {
            let each = own.clone().map(|(kind, &count)| u64::from(count) * kind.held[of]);
            each.sum()
        };
        sum(0) - sum(1)
    }

    fn after(&self, way: &Way, kind: usize) -> Way {
        let of = &self.kinds[kind];
        let micro_batch = way.ends_ns[kind].len();
        let ready = of
            .before
            .iter()
            .map(|&(before, ns)| way.ends_ns[before][micro_batch] + ns);
        let start_ns = ready.fold(way.free_ns[of.device], u64::max);
        let mut way = way.clone();
        way.free_ns[of.device] = start_ns + of.takes_ns;
        way.ends_ns[kind].push(start_ns + of.takes_ns);
        way
    }

    /// What is still to do on the devices.
    fn least_ns(&self, way: &Way, counts: &[u8]) -> u64 {
        let mut ends_ns = way.free_ns.clone();
        for (kind, &count) in self.kinds.iter().zip(counts) {
            ends_ns[kind.device] += (self.asked.micro_batches - usize::from(count)) as u64 * kind.takes_ns;
        }
        ends_ns.into_iter().max().unwrap_or(0)
    }

    /// The times that what comes later depends on.
    fn times(&self, way: &Way, counts: &[u8]) -> Vec<u64> {
        let mut times = way.free_ns.clone();
        for (kind, ends) in way.ends_ns.iter().enumerate() {
            let readers = self.kinds.iter().zip(counts);
            let readers = readers.filter(|(of, _)| of.before.iter().any(|&(before, _)| before == kind));
            let used = readers
                .map(|(_, &count)| usize::from(count))
                .min()
                .unwrap_or(ends.len());
            times.extend(&ends[used.min(ends.len())..]);
        }
        times
    }
}

/// Adds a way, unless another one is no later in any time.
fn keep(ways: &mut Vec<(Vec<u64>, Way)>, times: Vec<u64>, way: Way) {
    let no_later = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(one, other)| one <= other);
    if ways.iter().any(|(other, _)| no_later(other, &times)) {
        return;
    }
    ways.retain(|(other, _)| !no_later(&times, other));
    ways.push((times, way));
}
