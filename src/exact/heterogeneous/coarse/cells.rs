//! Cells of ideals that are taken for one, and halved where that is too coarse.

use crate::exact::heterogeneous::coarse::crossings::{Crossing, StageEnd};
use crate::exact::heterogeneous::coarse::ideals::Ideal;

/// Ideals that are taken for one.
pub(super) struct Cell {
    /// Positions of the ideals.
    pub members: Vec<u32>,
    /// The least and the most that their totals are.
    pub least: Box<[u64]>,
    pub most: Box<[u64]>,
    /// Items of all, and of any.
    pub common: Box<[u64]>,
    pub any: Box<[u64]>,
    /// Transfers that leave them.
    pub crossing: Crossing,
    /// For each number of stages behind, the device states that may be part of a plan.
    pub may: Vec<u64>,
}

impl Cell {
    pub(super) fn new(ideals: &[Ideal], members: Vec<u32>, crossing: Crossing, may: Vec<u64>) -> Self {
        let first = &ideals[members[0] as usize];
        let mut cell = Self {
            least: first.totals.clone(),
            most: first.totals.clone(),
            common: first.items.clone(),
            any: first.items.clone(),
            crossing,
            may,
            members: Vec::new(),
        };
        for ideal in members.iter().map(|&member| &ideals[member as usize]) {
            for (at, &total) in ideal.totals.iter().enumerate() {
                cell.least[at] = cell.least[at].min(total);
                cell.most[at] = cell.most[at].max(total);
            }
            for (at, &word) in ideal.items.iter().enumerate() {
                cell.common[at] &= word;
                cell.any[at] |= word;
            }
        }
        cell.members = members;
        cell
    }

    /// Whether it is one ideal.
    pub(super) fn is_single(&self) -> bool {
        self.members.len() == 1
    }

    /// It as an end of stages.
    pub(super) fn end(&self) -> StageEnd<'_> {
        StageEnd {
            crossing: &self.crossing,
            common: &self.common,
            any: &self.any,
        }
    }
}
