//! The pairs of ideals that a search over them has reached.

use std::iter;

use crate::exact::ideal_pairs::part::{Ideal, Towards};
use crate::exact::ideal_pairs::set::PairSet;

/// A pair of ideals between two stages, and the one it was reached from.
#[derive(Clone, Copy)]
pub struct State {
    /// The pair.
    pub at: [Ideal; 2],
    /// Position of the other one, if any.
    pub parent: Option<u32>,
}

/// The pairs that a direction has reached.
pub struct Reached {
    /// The direction.
    pub towards: Towards,
    /// They, layer after layer.
    pub states: Vec<State>,
    /// Where the last layer starts.
    pub layer: usize,
    /// Stages taken.
    pub stages: usize,
    /// The pairs that need no second look.
    pub seen: PairSet,
    /// Whether dominated pairs are left out.
    pub prunes: bool,
}

impl Reached {
    /// The end of the pipeline that a search starts from.
    pub fn new(towards: Towards, at: [Ideal; 2], mut seen: PairSet) -> Self {
        seen.insert(at);
        Self {
            towards,
            states: vec![State { at, parent: None }],
            layer: 0,
            stages: 0,
            seen,
            prunes: false,
        }
    }

    /// The pairs on the way to a state, that one first.
    pub fn way_to(&self, state: usize) -> Vec<[Ideal; 2]> {
        let first = self.states.get(state);
        let way = iter::successors(first, |state| self.states.get(state.parent? as usize));
        way.map(|state| state.at).collect()
    }

    /// So many pairs of the last layer, and where they come from.
    pub fn thinned(&self, width: usize, seen: PairSet) -> Self {
        let mut states = self.states.clone();
        let waiting = states.split_off(self.layer);
        states.extend(waiting.iter().step_by(waiting.len().div_ceil(width).max(1)));
        Self {
            states,
            seen,
            ..*self
        }
    }
}
