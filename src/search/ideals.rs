//! Ideals: the sets of items that the first stages of some plan can hold together.
//!
//! An ideal holds every predecessor of its members. A plan is a chain of ideals from the empty set to all items, and its
//! stages are the differences.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;
use petgraph::Direction::{Incoming, Outgoing};
use petgraph::graph::NodeIndex;

use crate::problem::Problem;

/// Why they were not enumerated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdealsError {
    /// More ideals than allowed.
    #[error("found more than {cap} ideals, expected fewer; raise the cap or use another method")]
    TooManyIdeals {
        /// The cap.
        cap: usize,
    },
    /// The caller asked to stop.
    #[error("stopped by the caller before the end")]
    Interrupted,
}

/// All ideals, or those of one order, by size: the empty one first, all items last.
pub(crate) struct Ideals {
    /// The items of each.
    pub(crate) sets: Vec<FixedBitSet>,
    /// For each, those with one item less.
    below: Vec<Vec<usize>>,
}

impl Ideals {
    /// Breadth-first from the empty ideal, adding one item at a time.
    ///
    /// # Errors
    ///
    /// More than `cap`, or `stop`.
    pub(crate) fn enumerate(
        problem: &Problem,
        cap: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, IdealsError> {
        Self::of_items(problem, &|_| true, cap, stop)
    }

    /// Those of some items, which no others come before.
    ///
    /// # Errors
    ///
    /// As [`enumerate`](Self::enumerate).
    pub(crate) fn of_items(
        problem: &Problem,
        includes: &dyn Fn(usize) -> bool,
        cap: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, IdealsError> {
        let n = problem.items.len();
        let empty = FixedBitSet::with_capacity(n);
        let order = &problem.order;
        let is_free = |set: &FixedBitSet, vertex| {
            let mut before = order.neighbors_directed(vertex, Incoming);
            before.all(|u| set.contains(u.index()))
        };
        // Of each ideal, the items that may join it, by number.
        let first = order.node_indices().filter(|&vertex| is_free(&empty, vertex));
        let first = first.map(NodeIndex::index).filter(|&item| includes(item));
        let mut joining: Vec<Vec<usize>> = vec![first.collect()];
        let mut found = Self {
            sets: vec![empty.clone()],
            below: vec![Vec::new()],
        };
        let mut number = HashMap::from([(empty, 0)]);
        let mut next = 0;
        while next < found.sets.len() {
            if stop() {
                return Err(IdealsError::Interrupted);
            }
            let may_join = std::mem::take(&mut joining[next]);
            for &item in &may_join {
                let mut larger = found.sets[next].clone();
                larger.insert(item);
                let id = *number.entry(larger).or_insert_with_key(|larger| {
                    let freed = order.neighbors_directed((item as u32).into(), Outgoing);
                    let freed = freed.filter(|&vertex| is_free(larger, vertex));
                    let others = may_join.iter().copied().filter(|&other| other != item);
                    let mut all: Vec<usize> = others.chain(freed.map(NodeIndex::index)).collect();
                    all.sort_unstable();
                    all.dedup();
                    joining.push(all);
                    found.sets.push(larger.clone());
                    found.below.push(Vec::new());
                    found.sets.len() - 1
                });
                found.below[id].push(next);
                if found.sets.len() > cap {
                    return Err(IdealsError::TooManyIdeals { cap });
                }
            }
            next += 1;
        }
        Ok(found)
    }

    /// The ideals that hold the first items of an order, which goes with that of the problem; these are a chain.
    pub(crate) fn along(order: &[usize]) -> Self {
        let mut set = FixedBitSet::with_capacity(order.len());
        let mut sets = vec![set.clone()];
        for &item in order {
            set.insert(item);
            sets.push(set.clone());
        }
        let below = |ideal: usize| ideal.checked_sub(1).into_iter().collect();
        Self {
            below: (0..sets.len()).map(below).collect(),
            sets,
        }
    }

    /// So many, of which nothing is said.
    pub(crate) fn unknown(count: usize) -> Self {
        Self {
            below: vec![Vec::new(); count],
            sets: vec![FixedBitSet::new(); count],
        }
    }

    /// For every ideal, the items that may join it, and the ideals that they make of it.
    pub(crate) fn successors(&self) -> Vec<Vec<(usize, usize)>> {
        let mut successors = vec![Vec::new(); self.sets.len()];
        for (larger, below) in self.below.iter().enumerate() {
            for &smaller in below {
                let joined = self.sets[larger].difference(&self.sets[smaller]);
                successors[smaller].extend(joined.map(|item| (item, larger)));
            }
        }
        successors
    }

    /// All ideals strictly inside one: everything that removing items one by one leads to.
    pub(crate) fn inside(&self, ideal: usize) -> Vec<usize> {
        self.inside_while(ideal, |_| true)
    }

    /// All ideals strictly inside one that pass a test. What fails must have nothing inside that passes.
    pub(crate) fn inside_while(&self, ideal: usize, test: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut seen = FixedBitSet::with_capacity(ideal);
        let mut reached = Vec::new();
        let mut open = vec![ideal];
        while let Some(next) = open.pop() {
            for &smaller in &self.below[next] {
                if !seen.put(smaller) && test(smaller) {
                    reached.push(smaller);
                    open.push(smaller);
                }
            }
        }
        reached
    }

    /// Items of the larger ideal that the smaller one lacks.
    pub(crate) fn between(&self, smaller: usize, larger: usize) -> Vec<usize> {
        self.sets[larger].difference(&self.sets[smaller]).collect()
    }
}
