//! One iteration as tasks: kinds of operation, each once a micro-batch.

use crate::schedule::{Chunks, Operation, Order, Phase};

/// An operation of a chunk, whichever the micro-batch.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub chunk: usize,
    pub phase: Phase,
    pub device: usize,
    pub duration_ns: u64,
    /// Kinds that must be done before, of the same micro-batch, and ns from their ends.
    pub before: Vec<(usize, u64)>,
    /// Kinds that wait for it, and ns from its end.
    pub after: Vec<(usize, u64)>,
    /// What the device holds more once it starts.
    pub takes: u64,
    /// What it holds less once it ends.
    pub frees: u64,
}

/// All tasks of an iteration.
///
/// Micro-batches are alike, so that the m-th operation of a kind may be that of micro-batch m: sort the starts of every kind, and
/// whatever waited for something else still does. So an order is a list of kinds a device, each kind as often as there are
/// micro-batches.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    /// Kinds; each comes after those that it waits for.
    pub kinds: Vec<Kind>,
    pub devices: usize,
    /// Kinds of every device, in their order.
    pub of_device: Vec<Vec<usize>>,
    pub micro_batches: usize,
    pub room: Vec<Option<u64>>,
}

impl Kind {
    /// When the operation of a micro-batch can start on a device that is free from then on, where all that it waits for has an end.
    pub(super) fn start_ns(&self, micro_batch: usize, free_ns: u64, ends: &[Vec<u64>]) -> Option<u64> {
        let mut start_ns = free_ns;
        for &(before, delay_ns) in &self.before {
            start_ns = start_ns.max(*ends[before].get(micro_batch)? + delay_ns);
        }
        Some(start_ns)
    }
}

/// A list of kinds a device.
pub(super) type Lists = Vec<Vec<usize>>;

impl Tasks {
    pub(super) fn new(chunks: &Chunks, micro_batches: usize) -> Self {
        let count = chunks.len();
        let back = match chunks.may_split {
            true => Phase::InputGradient,
            false => Phase::Backward,
        };
        let forward = (0..count).map(|chunk| (chunk, Phase::Forward));
        let backward = (0..count).rev().map(|chunk| (chunk, back));
        let weight = (0..count).rev().map(|chunk| (chunk, Phase::WeightGradient));
        let of_weights = weight.filter(|_| chunks.may_split);
        let kinds: Vec<(usize, Phase)> = forward.chain(backward).chain(of_weights).collect();
        let kinds: Vec<Kind> = kinds
            .iter()
            .map(|&(chunk, phase)| kind(chunks, chunk, phase))
            .collect();
        let of_device = (0..chunks.devices()).map(|device| {
            let own = kinds.iter().enumerate().filter(|(_, kind)| kind.device == device);
            own.map(|(k, _)| k).collect()
        });
        let mut tasks = Self {
            of_device: of_device.collect(),
            kinds,
            devices: chunks.devices(),
            micro_batches,
            room: chunks.room.clone(),
        };
        let of = &chunks.chunks;
        for chunk in 0..count {
            let (own, own_back) = (chunk, 2 * count - 1 - chunk);
            tasks.wait(own, own_back, 0);
            if chunk + 1 < count {
                tasks.wait(own, own + 1, of[chunk].forward_transfer_ns);
                tasks.wait(own_back - 1, own_back, of[chunk + 1].backward_transfer_ns);
            }
            if chunks.may_split {
                tasks.wait(own_back, own_back + count, 0);
            }
        }
        tasks
    }

    fn wait(&mut self, before: usize, after: usize, delay_ns: u64) {
        self.kinds[after].before.push((before, delay_ns));
        self.kinds[before].after.push((after, delay_ns));
    }

    /// Operations in all.
    pub(super) fn count(&self) -> usize {
        self.kinds.len() * self.micro_batches
    }

    /// The lists of an order. Orders of whole backward passes are split where backward passes may be.
    pub(super) fn lists(&self, order: &Order) -> Option<Lists> {
        let is_split = self.kinds.iter().any(|kind| kind.phase == Phase::WeightGradient);
        let order = if is_split { order.split() } else { order.clone() };
        let position = |operation: &Operation| self.kind_of(*operation);
        let devices = order.devices.iter();
        devices.map(|list| list.iter().map(position).collect()).collect()
    }

    /// Where the kind of an operation stands: forward passes in the order of chunks, then the others, each from the last chunk on.
    fn kind_of(&self, operation: Operation) -> Option<usize> {
        let is_split = self.kinds.last()?.phase == Phase::WeightGradient;
        let chunks = self.kinds.len() / if is_split { 3 } else { 2 };
        let turned = || chunks.checked_sub(1 + operation.chunk);
        let at = match operation.phase {
            Phase::Forward => operation.chunk,
            Phase::Backward | Phase::InputGradient => chunks + turned()?,
            Phase::WeightGradient => 2 * chunks + turned()?,
        };
        let is_there = |kind: &Kind| (kind.chunk, kind.phase) == (operation.chunk, operation.phase);
        self.kinds.get(at).is_some_and(is_there).then_some(at)
    }

    /// The order of lists.
    pub(super) fn order(&self, lists: &Lists) -> Order {
        let mut next = vec![0; self.kinds.len()];
        let mut operation = |&kind: &usize| {
            let Kind { chunk, phase, .. } = self.kinds[kind];
            next[kind] += 1;
            Operation::new(chunk, phase, next[kind] - 1)
        };
        Order {
            devices: lists
                .iter()
                .map(|list| list.iter().map(&mut operation).collect())
                .collect(),
        }
    }

    /// When the last operation of lists ends, each as soon as it can; `None` where they cannot be run: a
    /// deadlock, no room, or operations that are not in them.
    pub(super) fn makespan_ns(&self, lists: &Lists) -> Option<u64> {
        self.times(lists).map(|times| times.makespan_ns)
    }

    /// When every operation of lists starts.
    pub(super) fn times(&self, lists: &Lists) -> Option<Times> {
        let mut times = Times::new(self);
        let has_room = (0..self.devices).all(|device| self.has_room(device, &lists[device]));
        (has_room && self.run(lists, &mut times, |_, _| u64::MAX)).then_some(times)
    }

    /// Runs lists for which devices have room, as long as no operation ends later than it may; says whether all of them were run.
    ///
    /// * `latest`: when an operation may end at the latest, by kind and micro-batch.
    pub(super) fn run(&self, lists: &Lists, times: &mut Times, latest: impl Fn(usize, usize) -> u64) -> bool {
        times.clear();
        let m_all = self.micro_batches;
        times.open.extend(0..self.devices);
        while let Some(device) = times.open.pop() {
            while let Some(&k) = lists[device].get(times.starts[device].len()) {
                let (kind, m) = (&self.kinds[k], times.done[k]);
                if kind.before.iter().any(|&(before, _)| times.done[before] <= m) {
                    break;
                }
                let mut start_ns = times.free_ns[device];
                for &(before, delay_ns) in &kind.before {
                    start_ns = start_ns.max(times.ends[before * m_all + m] + delay_ns);
                }
                let end_ns = start_ns + kind.duration_ns;
                if m == m_all || end_ns > latest(k, m) {
                    return false;
                }
                times.starts[device].push(start_ns);
                times.ends[k * m_all + m] = end_ns;
                times.free_ns[device] = end_ns;
                times.done[k] += 1;
                let waiting = kind.after.iter().map(|&(after, _)| self.kinds[after].device);
                times.open.extend(waiting.filter(|&other| other != device));
            }
        }
        times.makespan_ns = times.free_ns.iter().copied().max().unwrap_or(0);
        // Lists that leave something out are none either.
        times.done.iter().all(|&done| done == m_all)
    }

    /// Whether a device has room for what its list holds at any time.
    pub(super) fn has_room(&self, device: usize, list: &[usize]) -> bool {
        let Some(room) = self.room[device] else {
            return true;
        };
        let (mut held, mut fits) = (0u64, true);
        for &k in list {
            held += self.kinds[k].takes;
            fits &= held <= room;
            held = held.saturating_sub(self.kinds[k].frees);
        }
        fits
    }

    /// The same iteration from its end to its start: what waits for something is what that waits for.
    ///
    /// Room is left out, as are kinds' stashes: bounds use both in forward direction alone.
    pub(super) fn reversed(&self) -> Self {
        let last = self.kinds.len() - 1;
        let turn = |waits: &[(usize, u64)]| waits.iter().map(|&(k, delay_ns)| (last - k, delay_ns)).collect();
        let kinds = self.kinds.iter().rev().map(|kind| Kind {
            before: turn(&kind.after),
            after: turn(&kind.before),
            ..kind.clone()
        });
        let turned = |own: &Vec<usize>| own.iter().rev().map(|k| last - k).collect();
        Self {
            kinds: kinds.collect(),
            of_device: self.of_device.iter().map(turned).collect(),
            ..self.clone()
        }
    }
}

/// When operations start, as they stand in their lists.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub starts: Vec<Vec<u64>>,
    pub makespan_ns: u64,
    /// By kind and micro-batch.
    ends: Vec<u64>,
    done: Vec<usize>,
    free_ns: Vec<u64>,
    /// Devices that may have something to start.
    open: Vec<usize>,
}

impl Times {
    /// Nothing yet.
    pub(super) fn new(tasks: &Tasks) -> Self {
        Self {
            starts: vec![Vec::new(); tasks.devices],
            makespan_ns: 0,
            ends: vec![0; tasks.count()],
            done: vec![0; tasks.kinds.len()],
            free_ns: vec![0; tasks.devices],
            open: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.starts.iter_mut().for_each(Vec::clear);
        self.done.fill(0);
        self.free_ns.fill(0);
        self.open.clear();
    }
}

fn kind(chunks: &Chunks, chunk: usize, phase: Phase) -> Kind {
    let of = &chunks.chunks[chunk];
    let (takes, frees) = match phase {
        Phase::Forward => (of.stash, 0),
        Phase::Backward => (0, of.stash),
        Phase::InputGradient => (0, of.stash - of.kept),
        Phase::WeightGradient => (0, of.kept),
    };
    Kind {
        chunk,
        phase,
        device: of.device,
        duration_ns: chunks.duration_ns(chunk, phase),
        before: Vec::new(),
        after: Vec::new(),
        takes,
        frees,
    }
}
