//! Growth of a stage off the end of what is left, and what it costs.

use crate::exact::bits;
use crate::exact::modal::items::{Room, Sum};
use crate::modes::{BETWEEN, INSIDE, Modes, StageMode};

/// A stage that grows item by item.
pub(super) struct Stage<'a> {
    modes: &'a Modes,
    /// Its items, in the order they were added.
    pub items: Vec<usize>,
    /// The same as a set.
    inside: Box<[u64]>,
    /// Sums of the first so many items, by degree.
    sums: Vec<Vec<Sum>>,
    /// Least times within memory that are known of this very set, by degree, micro-batches in flight and bytes.
    known: Vec<((usize, u64, u64), Option<u64>)>,
}

/// What tensors that cross take of a stage's time, by level of the link, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossing {
    /// Those that enter.
    pub entering: [u64; 2],
    /// Those that leave.
    pub leaving: [u64; 2],
}

impl Crossing {
    /// The sum with one part of it replaced by another.
    pub(super) fn with(mut self, part: Self, before: Self) -> Self {
        for level in 0..2 {
            self.entering[level] = self.entering[level] + part.entering[level] - before.entering[level];
            self.leaving[level] = self.leaving[level] + part.leaving[level] - before.leaving[level];
        }
        self
    }
}

impl<'a> Stage<'a> {
    /// An empty stage.
    pub(super) fn new(modes: &'a Modes) -> Self {
        Self {
            modes,
            items: Vec::new(),
            inside: bits::from_members(bits::words(modes.items.len()), []),
            sums: vec![vec![Sum::default(); modes.degrees.len()]],
            known: Vec::new(),
        }
    }

    /// What it takes at each degree.
    pub(super) fn sums(&self) -> &[Sum] {
        &self.sums[self.items.len()]
    }

    /// Whether it holds an item.
    pub(super) fn holds(&self, item: usize) -> bool {
        bits::contains(&self.inside, item)
    }

    /// Adds an item.
    pub(super) fn push(&mut self, item: usize, adds: &[Sum]) {
        let next = self
            .sums()
            .iter()
            .zip(adds)
            .map(|(sum, adds)| sum.plus(adds))
            .collect();
        self.sums.push(next);
        self.items.push(item);
        bits::insert(&mut self.inside, item);
        self.known.clear();
    }

    /// Takes the last item out again.
    pub(super) fn pop(&mut self) {
        self.sums.pop();
        if let Some(item) = self.items.pop() {
            bits::remove(&mut self.inside, item);
        }
        self.known.clear();
    }

    /// What crosses its ends at a degree. What enters is paid at the level of the boundary in front, what leaves at that of the
    /// boundary behind: no more than a plan pays.
    pub(super) fn crossing(&self, degree: usize) -> Crossing {
        let mut sum = Crossing::default();
        for &item in &self.items {
            for &t in &self.modes.transfers_of[item] {
                self.add_transfer(t, item, degree, &mut sum);
            }
        }
        sum
    }

    /// What a transfer takes at a degree, if it crosses.
    pub(super) fn crossing_of(&self, t: usize, degree: usize) -> Crossing {
        let transfer = &self.modes.transfers[t];
        let mut sum = Crossing::default();
        let ends = transfer.consumers.iter().copied();
        let mut inside = [transfer.producer]
            .into_iter()
            .chain(ends)
            .filter(|&end| self.holds(end));
        if let Some(end) = inside.next() {
            self.add_transfer(t, end, degree, &mut sum);
        }
        sum
    }

    /// Adds a transfer, if `item` is the one of its items through which the stage pays for it: the producer, or the first consumer.
    fn add_transfer(&self, t: usize, item: usize, degree: usize, sum: &mut Crossing) {
        let transfer = &self.modes.transfers[t];
        let inside = |to: &usize| self.holds(*to);
        let (beside, counted, paid) = match item == transfer.producer {
            true => (&transfer.leaving, false, &mut sum.leaving),
            false if inside(&transfer.producer) => return,
            false if transfer.consumers.iter().find(|to| inside(to)) != Some(&item) => return,
            false => (&transfer.entering, true, &mut sum.entering),
        };
        let ends = transfer.consumers.iter().zip(&beside[degree]);
        let ends = ends.filter(|(to, _)| inside(to) == counted);
        let most = |level: usize| {
            let beside = ends.clone().map(|(_, ticks)| ticks[level]).max()?;
            Some(transfer.ticks[level] + beside)
        };
        if let (Some(inside), Some(between)) = (most(INSIDE), most(BETWEEN)) {
            // Beyond a boundary inside of a node the next one may end, between links that may be faster.
            paid[INSIDE] += inside.min(between);
            paid[BETWEEN] += between;
        }
    }

    /// The least time of its layers in a mode that fits the memory with so many micro-batches in flight.
    pub(super) fn time_within(&mut self, mode: StageMode, in_flight: u64) -> Option<u64> {
        let StageMode { degree, replicas } = mode;
        let limit = match self.sums()[degree].room(self.modes.memory_bytes, replicas, in_flight) {
            Room::Choose(limit) => limit,
            Room::Known(time) => return time,
        };
        let asked = (degree, in_flight, limit);
        if let Some((_, time)) = self.known.iter().find(|(known, _)| *known == asked) {
            return *time;
        }
        let layers = self.modes.layers_of(&self.items, degree)?;
        let time = self
            .modes
            .knapsack
            .within(&layers, in_flight, limit)
            .map(|ways| ways.time);
        self.known.push((asked, time));
        time
    }
}
