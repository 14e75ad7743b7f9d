//! Spans: stages along the numbering of the items, each a run of items that follow each other, with what they take. They are the same
//! in every pass; a chain has no other stages.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::exact::modal::items::{Room, Sum};
use crate::exact::modal::stage::{Crossing, Stage};
use crate::modes::{Modes, StageMode};

/// The most spans times degrees that are listed.
const MOST: usize = 1 << 20;

/// Every run of items.
pub(super) struct Spans<'a> {
    modes: &'a Modes,
    /// By first item, by length, by degree.
    costs: Vec<Vec<Vec<(Sum, Crossing)>>>,
    /// Least times within memory that are known: first item, item behind the last, degree, replicas, micro-batches in flight.
    known: RefCell<HashMap<Asked, Option<u64>>>,
}

type Asked = ([usize; 4], u64);

impl<'a> Spans<'a> {
    /// Those of items with these sums; `None` where there are too many.
    pub(super) fn new(modes: &'a Modes, sums: &[Vec<Sum>]) -> Option<Self> {
        let items = sums.len();
        if items * items * modes.degrees.len() > MOST {
            return None;
        }
        Some(Self {
            modes,
            costs: (0..items).map(|first| from(modes, sums, first)).collect(),
            known: RefCell::new(HashMap::new()),
        })
    }

    /// Items in all.
    pub(super) fn items(&self) -> usize {
        self.costs.len()
    }

    /// What the items from `first` on, before `behind`, take at a degree.
    pub(super) fn cost(&self, first: usize, behind: usize, degree: usize) -> &(Sum, Crossing) {
        &self.costs[first][behind - first - 1][degree]
    }

    /// The least time of the layers of a span that fits the memory with so many micro-batches in flight.
    pub(super) fn time_within(
        &self,
        first: usize,
        behind: usize,
        mode: StageMode,
        in_flight: u64,
    ) -> Option<u64> {
        let StageMode { degree, replicas } = mode;
        let (sum, _) = self.cost(first, behind, degree);
        let limit = match sum.room(self.modes.memory_bytes, replicas, in_flight) {
            Room::Choose(limit) => limit,
            Room::Known(time) => return time,
        };
        let asked = ([first, behind, degree, replicas], in_flight);
        if let Some(time) = self.known.borrow().get(&asked) {
            return *time;
        }
        let items: Vec<usize> = (first..behind).collect();
        let layers = self.modes.layers_of(&items, degree)?;
        let time = self
            .modes
            .knapsack
            .within(&layers, in_flight, limit)
            .map(|ways| ways.time);
        self.known.borrow_mut().insert(asked, time);
        time
    }
}

/// By length and degree, what the items from `first` on take.
fn from(modes: &Modes, sums: &[Vec<Sum>], first: usize) -> Vec<Vec<(Sum, Crossing)>> {
    let degrees = modes.degrees.len();
    let mut stage = Stage::new(modes);
    let mut lengths = Vec::with_capacity(sums.len() - first);
    let mut crossing = vec![Crossing::default(); degrees];
    // What each transfer takes so far; only those that touch a new item change.
    let mut parts: HashMap<usize, Vec<Crossing>> = HashMap::new();
    for (item, sums) in sums.iter().enumerate().skip(first) {
        stage.push(item, sums);
        for &t in &modes.transfers_of[item] {
            let parts = parts
                .entry(t)
                .or_insert_with(|| vec![Crossing::default(); degrees]);
            for (degree, part) in parts.iter_mut().enumerate() {
                let now = stage.crossing_of(t, degree);
                crossing[degree] = crossing[degree].with(now, *part);
                *part = now;
            }
        }
        let at_degree = |degree: usize| (stage.sums()[degree], crossing[degree]);
        lengths.push((0..degrees).map(at_degree).collect());
    }
    lengths
}
