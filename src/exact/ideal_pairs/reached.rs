//! The pairs of ideals that a search over them has reached.

use std::iter;
use std::ops::Range;

use crate::exact::components::ideal::{Ideal, Towards};
use crate::exact::ideal_pairs::set::PairSet;

/// A pair of ideals between two stages, and the one it was reached from.
#[derive(Clone, Copy)]
pub(super) struct ReachedPair {
    /// The pair.
    pub at: [Ideal; 2],
    /// Position of the other one, if any.
    pub parent: Option<u32>,
}

/// A pair that one more stage leads to.
pub(super) struct Successor {
    /// The pair.
    pub reached: ReachedPair,
    /// Whether no other pair dominates it.
    pub is_kept: bool,
    /// Whether it completes a plan.
    pub meets: bool,
}

/// The pairs that a search from one end of the pipeline has reached, layer after layer.
pub(super) struct ReachedLayers {
    /// The direction of the search.
    pub towards: Towards,
    /// All of them.
    pub pairs: Vec<ReachedPair>,
    /// Where the last layer starts.
    pub layer: usize,
    /// Stages taken.
    pub stages: usize,
    /// The pairs that need no second look.
    pub seen: PairSet,
    /// Whether dominated pairs are left out.
    pub prunes: bool,
}

impl ReachedLayers {
    /// The end of the pipeline that a search starts from.
    pub(super) fn new(towards: Towards, at: [Ideal; 2], mut seen: PairSet) -> Self {
        seen.insert(at);
        Self {
            towards,
            pairs: vec![ReachedPair { at, parent: None }],
            layer: 0,
            stages: 0,
            seen,
            prunes: false,
        }
    }

    /// Begins another layer; the positions of the last one.
    pub(super) fn begin_layer(&mut self) -> Range<usize> {
        let last = self.layer..self.pairs.len();
        self.layer = self.pairs.len();
        self.stages += 1;
        last
    }

    /// Adds pairs that were not seen before to the last layer, as far as they are kept; the position of the first one that completes
    /// a plan, which ends it.
    pub(super) fn add(&mut self, successors: Vec<Successor>) -> Option<u32> {
        for successor in successors {
            let at = successor.reached.at;
            if self.seen.contains(at) {
                continue;
            }
            self.seen.insert(at);
            if successor.is_kept {
                self.pairs.push(successor.reached);
            }
            if successor.meets {
                return Some((self.pairs.len() - 1) as u32);
            }
        }
        None
    }

    /// The pairs on the way to one, that one first.
    pub(super) fn way_to(&self, position: usize) -> Vec<[Ideal; 2]> {
        let first = self.pairs.get(position);
        let way = iter::successors(first, |pair| self.pairs.get(pair.parent? as usize));
        way.map(|pair| pair.at).collect()
    }

    /// The same with so many pairs of the last layer.
    pub(super) fn thinned(&self, width: usize, seen: PairSet) -> Self {
        let mut pairs = self.pairs.clone();
        let waiting = pairs.split_off(self.layer);
        pairs.extend(waiting.iter().step_by(waiting.len().div_ceil(width).max(1)));
        Self { pairs, seen, ..*self }
    }
}
