//! The search: the cuts between two devices are chosen again, all at once, against a limit on the period that sinks.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Effort;
use super::joint::{Choice, Joint, MOST_SUMS, Places, Shape};
use super::loads::Loads;
use crate::heuristics::MustStop;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Cuts between two devices that are chosen at once, at most; of more some are drawn.
const MOST_CUTS: usize = 8;
/// Exchanges for each pair of devices before a limit is taken to be out of reach.
const PATIENCE: u64 = 24;
/// Parts of what is open that a limit is lowered by: half, or after failures less and less.
const FIRST_PART: u64 = 2;
const SMALLER_PART: u64 = 4;
/// How often neighbouring cuts move together instead.
const SHIFTS: f64 = 0.25;
/// How often a search goes on from where rows of cuts are moved at random, once a limit is out of reach: how many rows, and as far as the items
/// of how many chunks.
const KICKS: f64 = 0.9;
const KICKED_ROWS: usize = 3;
const KICKED_CHUNKS: usize = 2;
/// Steps for every plan there is: where plans are few, a search has seen them all long before it has spent its effort.
const STEPS_OF_A_PLAN: u64 = 32;
/// No limit on a row, small enough to be added to.
const NO_LIMIT: i64 = i64::MAX / 4;

/// What a plan is judged by, the less the better: bytes beyond memory, then the busiest device.
pub(super) type Worth = (u64, u64);

/// Two devices, and cuts between chunks of theirs: the numbers of the chunks behind them. No two cuts have a chunk in common.
struct Pair {
    devices: [usize; 2],
    cuts: Vec<usize>,
}

/// All pairs of devices with neighbouring chunks.
fn pairs(of: &VirtualStages) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for cut in 1..of.chunks() {
        let mut devices = [of.device_of[cut - 1], of.device_of[cut]];
        devices.sort_unstable();
        if devices[0] == devices[1] {
            continue;
        }
        let known = pairs.iter_mut().find(|pair| {
            let last = pair.cuts.last().is_some_and(|&last| last + 1 < cut);
            pair.devices == devices && last
        });
        match known {
            Some(pair) => pair.cuts.push(cut),
            None => pairs.push(Pair {
                devices,
                cuts: vec![cut],
            }),
        }
    }
    pairs
}

/// A plan that is changed by exchanges.
pub(super) struct ExchangeSearch<'a> {
    problem: &'a Problem,
    loads: Loads<'a>,
    /// Items of every chunk, in a topological order.
    chunks: Vec<Vec<usize>>,
    pairs: Vec<Pair>,
    /// Whether items have one order alone.
    is_chain: bool,
    rng: ChaCha8Rng,
    /// Steps that are left.
    left: u64,
    must_stop: MustStop<'a>,
}

impl<'a> ExchangeSearch<'a> {
    /// A search from a plan, whose items come in this order.
    pub fn new(
        problem: &'a Problem,
        loads: Loads<'a>,
        order: &[usize],
        seed: u64,
        must_stop: MustStop<'a>,
    ) -> Option<Self> {
        let of = problem.virtual_stages.as_ref()?;
        let mut chunks = vec![Vec::new(); of.chunks()];
        order
            .iter()
            .for_each(|&item| chunks[loads.chunk_of[item]].push(item));
        let follows = |pair: &[usize]| {
            let [from, to] = [pair[0], pair[1]].map(|item| (item as u32).into());
            problem.order.contains_edge(from, to)
        };
        Some(Self {
            problem,
            loads,
            chunks,
            pairs: pairs(of),
            is_chain: order.windows(2).all(follows),
            rng: ChaCha8Rng::seed_from_u64(seed),
            left: 0,
            must_stop,
        })
    }

    /// Looks for plans until the effort is spent, or there is none better; the best plan found.
    pub fn improve(&mut self, effort: Effort) -> (Worth, Assignment) {
        let floor_ns = effort.floor_ns;
        self.left = effort.steps.min(self.plans().saturating_mul(STEPS_OF_A_PLAN));
        let mut best = (self.worth(), self.loads.chunk_of.clone(), self.chunks.clone());
        let (mut part, mut failures) = (FIRST_PART, 0);
        while failures < effort.failures && !self.is_over() && best.0 > (0, floor_ns) {
            let limit_ns = match best.0 {
                (0, ns) => ns - ((ns - floor_ns) / part).max(1),
                (_, _) => NO_LIMIT as u64,
            };
            if self.reach(limit_ns) {
                best = (self.worth(), self.loads.chunk_of.clone(), self.chunks.clone());
                (part, failures) = ((part / 2).max(FIRST_PART), 0);
            } else {
                self.restore(&best.1, &best.2);
                failures += 1;
                part = if part > best.0.1 {
                    FIRST_PART
                } else {
                    SMALLER_PART * part
                };
                if self.rng.random_bool(KICKS) {
                    self.kick();
                }
            }
        }
        (best.0, best.1)
    }

    /// How many plans there are at most: places of the cuts in the one order of items, or a chunk for each item.
    fn plans(&self) -> u64 {
        let (items, chunks) = (self.problem.items.len() as u64, self.chunks.len() as u64);
        if !self.is_chain {
            return chunks.saturating_pow(u32::try_from(items).unwrap_or(u32::MAX));
        }
        // Of items and cuts in a row, which are cuts; the product is a binomial coefficient after every factor.
        (1..chunks).fold(1u64, |ways, cut| match ways.checked_mul(items + cut) {
            Some(product) => product / cut,
            None => u64::MAX,
        })
    }

    fn is_over(&self) -> bool {
        self.left == 0 || (self.must_stop)()
    }

    fn restore(&mut self, chunk_of: &Assignment, chunks: &[Vec<usize>]) {
        for (item, &chunk) in chunk_of.iter().enumerate() {
            self.loads.place(item, chunk);
        }
        self.chunks.clone_from_slice(chunks);
    }

    fn worth(&self) -> Worth {
        let devices = 0..self.of().devices;
        let excess = devices.clone().map(|device| self.loads.excess_bytes(device));
        let busiest = devices.map(|device| self.loads.bottleneck_ns(device)).max();
        (excess.sum(), busiest.unwrap_or(0))
    }

    fn of(&self) -> &'a VirtualStages {
        self.problem.virtual_stages.as_ref().expect("checked in `new`")
    }

    /// Exchanges until memory has room and no device takes longer than the limit; whether that comes about. Where a device is beyond
    /// the limit it is brought down as far as it goes; others are drawn anew within it.
    fn reach(&mut self, limit_ns: u64) -> bool {
        let rounds = PATIENCE * self.pairs.len() as u64 + PATIENCE;
        for _ in 0..rounds {
            let worth = self.worth();
            if worth.0 == 0 && worth.1 <= limit_ns {
                return true;
            }
            if self.is_over() {
                return false;
            }
            if self.pairs.is_empty() || self.rng.random_bool(SHIFTS) {
                self.shift(limit_ns);
                continue;
            }
            let pair = self.draw_pair(worth);
            self.exchange(pair, limit_ns);
        }
        let worth = self.worth();
        worth.0 == 0 && worth.1 <= limit_ns
    }

    /// Moves rows of neighbouring cuts by some items, whatever that costs.
    fn kick(&mut self) {
        let most = KICKED_CHUNKS * self.loads.chunk_of.len().div_ceil(self.chunks.len());
        for _ in 0..self.rng.random_range(1..=KICKED_ROWS) {
            let (cuts, ahead) = self.draw_row();
            for _ in 0..self.rng.random_range(1..=most) {
                if self.may_move(&cuts, ahead) {
                    self.move_cuts(cuts.clone(), ahead);
                }
            }
        }
    }

    /// Neighbouring cuts, and a way to move them.
    fn draw_row(&mut self) -> (RangeInclusive<usize>, bool) {
        let last = self.chunks.len() - 1;
        let (a, b) = (self.rng.random_range(1..=last), self.rng.random_range(1..=last));
        (a.min(b)..=a.max(b), self.rng.random_bool(0.5))
    }

    /// Whether the chunk that gives an item has one to give.
    fn may_move(&self, cuts: &RangeInclusive<usize>, ahead: bool) -> bool {
        let giver = if ahead { *cuts.end() } else { cuts.start() - 1 };
        self.chunks[giver].len() > usize::from(self.problem.settings.all_stages)
    }

    /// Moves some neighbouring cuts by an item the same way, unless that is worse: a chunk gives to one far away while those between keep
    /// their sizes.
    fn shift(&mut self, limit_ns: u64) {
        let (cuts, ahead) = self.draw_row();
        if !self.may_move(&cuts, ahead) {
            return;
        }
        let before = self.excess(limit_ns);
        let moved = self.move_cuts(cuts.clone(), ahead);
        self.left = self.left.saturating_sub(cuts.count() as u64);
        if self.excess(limit_ns) > before {
            for cut in moved.into_iter().rev() {
                self.move_cut(cut, !ahead);
            }
        }
    }

    /// Moves cuts by an item, those that have one to move; which.
    fn move_cuts(&mut self, cuts: RangeInclusive<usize>, ahead: bool) -> Vec<usize> {
        let mut cuts: Vec<usize> = cuts.collect();
        if !ahead {
            cuts.reverse();
        }
        cuts.retain(|&cut| self.move_cut(cut, ahead));
        cuts
    }

    /// Moves a cut by an item, if there is one.
    fn move_cut(&mut self, cut: usize, ahead: bool) -> bool {
        let [from, to] = if ahead { [cut, cut - 1] } else { [cut - 1, cut] };
        if self.chunks[from].is_empty() {
            return false;
        }
        if ahead {
            let item = self.chunks[from].remove(0);
            self.chunks[to].push(item);
            self.loads.place(item, to);
        } else if let Some(item) = self.chunks[from].pop() {
            self.chunks[to].insert(0, item);
            self.loads.place(item, to);
        }
        true
    }

    /// Bytes beyond memory, and time beyond a limit.
    fn excess(&self, limit_ns: u64) -> (u64, u64) {
        let devices = 0..self.of().devices;
        let bytes = devices.clone().map(|device| self.loads.excess_bytes(device));
        let ns = devices.map(|device| self.loads.bottleneck_ns(device).saturating_sub(limit_ns));
        (bytes.sum(), ns.sum())
    }

    /// A pair with the worst device, every other time; or any.
    fn draw_pair(&mut self, worth: Worth) -> usize {
        if self.rng.random_bool(0.5) {
            return self.rng.random_range(0..self.pairs.len());
        }
        let is_worst = |device: usize| match worth.0 {
            0 => self.loads.bottleneck_ns(device) == worth.1,
            _ => self.loads.excess_bytes(device) > 0,
        };
        let with_worst = |pair: &Pair| pair.devices.iter().any(|&device| is_worst(device));
        let own: Vec<usize> = (0..self.pairs.len())
            .filter(|&pair| with_worst(&self.pairs[pair]))
            .collect();
        match own.is_empty() {
            true => self.rng.random_range(0..self.pairs.len()),
            false => own[self.rng.random_range(0..own.len())],
        }
    }

    /// Chooses the cuts of a pair again.
    fn exchange(&mut self, pair: usize, limit_ns: u64) {
        let devices = self.pairs[pair].devices;
        let mut cuts = self.pairs[pair].cuts.clone();
        if cuts.len() > MOST_CUTS {
            cuts.shuffle(&mut self.rng);
            cuts.truncate(MOST_CUTS);
        }
        if !self.is_chain && self.rng.random_bool(0.5) {
            cuts.iter().for_each(|&cut| self.reorder(cut));
        }
        let (base, shape) = self.rows(devices);
        let most = most_places(cuts.len());
        let places = cuts.iter().map(|&cut| self.places((cut, most), devices, &base));
        let (firsts, places): (Vec<usize>, Vec<Places>) = places.unzip();
        let joint = Joint::new(base.clone(), &places, shape);
        self.left = self.left.saturating_sub(joint.size() as u64);
        let Some(choice) = self.choose(&joint, (shape, &base), limit_ns) else {
            return;
        };
        let before: Vec<usize> = cuts.iter().map(|&cut| self.chunks[cut - 1].len()).collect();
        let to = firsts.iter().zip(&choice.picks).map(|(first, pick)| first + pick);
        let to: Vec<usize> = to.collect();
        self.set(&cuts, &to);
        // Effects of places add up but where a transfer has ends in several of them, or chunks are empty.
        let expected = (self.beyond(&choice.rows, shape), shape.bottleneck(&choice.rows));
        let (rows, _) = self.rows(devices);
        if (self.beyond(&rows, shape), shape.bottleneck(&rows)) > expected {
            self.set(&cuts, &before);
        }
    }

    fn choose(&mut self, joint: &Joint, (shape, base): (Shape, &[i64]), limit_ns: u64) -> Option<Choice> {
        let limits = |time: i64| -> Vec<i64> {
            let memory = self.memory_limit();
            let is_time = |row: usize| shape.times().any(|time| time == row);
            (0..shape.width)
                .map(|row| if is_time(row) { time } else { memory })
                .collect()
        };
        if self.beyond(base, shape) > 0 {
            return joint.least_excess(&limits(NO_LIMIT), &mut self.rng);
        }
        let limit = i64::try_from(limit_ns).unwrap_or(NO_LIMIT).min(NO_LIMIT);
        let within = limits(limit);
        let now = shape.bottleneck(base);
        let shorter = limits(now - 1);
        let found = joint.any(&within, &mut self.rng);
        if found.is_none() && now > limit {
            return joint.least(&shorter, &mut self.rng);
        }
        found
    }

    fn memory_limit(&self) -> i64 {
        let limit = self.problem.settings.memory_limit.unwrap_or(u64::MAX);
        i64::try_from(limit).unwrap_or(NO_LIMIT).min(NO_LIMIT)
    }

    /// Bytes beyond memory in rows.
    fn beyond(&self, rows: &[i64], shape: Shape) -> i64 {
        let limit = self.memory_limit();
        let is_time = |row: usize| shape.times().any(|time| time == row);
        let bytes = rows.iter().enumerate().filter(|&(row, _)| !is_time(row));
        bytes.map(|(_, bytes)| (bytes - limit).max(0)).sum()
    }

    /// What two devices have limits for.
    fn rows(&self, devices: [usize; 2]) -> (Vec<i64>, Shape) {
        let mut rows = Vec::new();
        self.loads.rows(devices[0], &mut rows);
        let second = rows.len();
        self.loads.rows(devices[1], &mut rows);
        let shape = Shape {
            width: rows.len(),
            second,
            times: self.loads.times(),
        };
        (rows, shape)
    }

    /// The places of a cut nearest to where it is, and how many items lie before the first of them.
    fn places(&mut self, (cut, most): (usize, usize), devices: [usize; 2], base: &[i64]) -> (usize, Places) {
        let now = self.chunks[cut - 1].len();
        let items = [&self.chunks[cut - 1][..], &self.chunks[cut]].concat();
        let held = usize::from(self.problem.settings.all_stages);
        let (least, last) = (held, items.len() - held);
        let first = now.saturating_sub(most / 2).max(least);
        let last = last.min(first + most - 1).max(now);
        let width = base.len();
        let mut changes = vec![0; (last + 1 - first) * width];
        let mut rows = Vec::with_capacity(width);
        let mut note = |loads: &Loads, at: usize| {
            rows.clear();
            devices.iter().for_each(|&device| loads.rows(device, &mut rows));
            let changed = rows.iter().zip(base).map(|(row, base)| row - base);
            let to = &mut changes[(at - first) * width..][..width];
            to.iter_mut().zip(changed).for_each(|(to, change)| *to = change);
        };
        for at in (first..now).rev() {
            self.loads.place(items[at], cut);
            note(&self.loads, at);
        }
        items[first..now]
            .iter()
            .for_each(|&item| self.loads.place(item, cut - 1));
        for (at, &item) in items[now..last].iter().enumerate() {
            self.loads.place(item, cut - 1);
            note(&self.loads, now + at + 1);
        }
        items[now..last]
            .iter()
            .for_each(|&item| self.loads.place(item, cut));
        self.left = self.left.saturating_sub(2 * (last - first) as u64 + 1);
        (first, Places { changes })
    }

    /// Moves cuts to where so many items of their two chunks lie before them.
    fn set(&mut self, cuts: &[usize], before: &[usize]) {
        for (&cut, &before) in cuts.iter().zip(before) {
            let mut items = std::mem::take(&mut self.chunks[cut - 1]);
            items.append(&mut self.chunks[cut]);
            let behind = items.split_off(before);
            items.iter().for_each(|&item| self.loads.place(item, cut - 1));
            behind.iter().for_each(|&item| self.loads.place(item, cut));
            self.chunks[cut - 1] = items;
            self.chunks[cut] = behind;
        }
    }

    /// Draws other topological orders of the two chunks at a cut.
    fn reorder(&mut self, cut: usize) {
        for chunk in [cut - 1, cut] {
            let items = std::mem::take(&mut self.chunks[chunk]);
            self.chunks[chunk] = self.drawn_order(items, chunk);
        }
    }

    /// A topological order of a chunk's items, by random priorities.
    fn drawn_order(&mut self, items: Vec<usize>, chunk: usize) -> Vec<usize> {
        let mut waits: HashMap<usize, usize> = items.iter().map(|&item| (item, 0)).collect();
        for &item in &items {
            for next in self.followers(item, chunk) {
                *waits.entry(next).or_default() += 1;
            }
        }
        let mut ready: Vec<usize> = items.iter().copied().filter(|item| waits[item] == 0).collect();
        let follows_branches = self.rng.random_bool(0.5);
        let mut order = Vec::with_capacity(items.len());
        while !ready.is_empty() {
            // The last of the ready ones goes on with its branch.
            let at = match follows_branches && self.rng.random_bool(0.9) {
                true => ready.len() - 1,
                false => self.rng.random_range(0..ready.len()),
            };
            let item = ready.remove(at);
            order.push(item);
            for next in self.followers(item, chunk) {
                let left = waits.entry(next).or_default();
                *left -= 1;
                if *left == 0 {
                    ready.push(next);
                }
            }
        }
        order
    }

    /// What must not come before an item in its chunk.
    fn followers(&self, item: usize, chunk: usize) -> Vec<usize> {
        let all = self.problem.order.neighbors((item as u32).into());
        let all = all.map(|next| next.index());
        all.filter(|&next| self.loads.chunk_of[next] == chunk).collect()
    }
}

/// Places that each of so many cuts may choose from, such that neither half has too many sums.
fn most_places(cuts: usize) -> usize {
    let of_half = cuts.div_ceil(2).max(1) as u32;
    let fits = |places: &usize| places.checked_pow(of_half).is_some_and(|sums| sums <= MOST_SUMS);
    (1..=MOST_SUMS).take_while(fits).last().unwrap_or(1).max(2)
}
