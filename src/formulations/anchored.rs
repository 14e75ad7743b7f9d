//! The cheapest stage that could hold a given item.
#![doc = include_str!("../../formulations/anchored.md")]

use std::ops::Range;

use super::Program;
use super::staging::{Staging, Windows};
use super::three_block::build_within;
use crate::problem::Problem;

/// The anchored stage among *before*, *in* and *after*.
const IN: Range<usize> = 1..2;

/// An anchored-stage program, with what is needed to read its solutions.
pub(crate) struct Anchored {
    /// The program: its objective is the bottleneck of the stage.
    pub program: Program,
    /// What its columns mean.
    pub staging: Staging,
}

impl Anchored {
    /// Builds the program of the stage that holds `anchor`, for stages of at most `at_most_ns`.
    ///
    /// * `three`: the problem on three stages, [`Problem::before_in_after`];
    /// * `labels`: a name for each item.
    pub(crate) fn build(three: &Problem, anchor: usize, at_most_ns: u64, labels: &[String]) -> Self {
        let mut windows = Windows::all(three);
        windows.earliest[anchor] = IN.start;
        windows.latest[anchor] = IN.start;
        let (program, staging) = build_within(three, &windows, at_most_ns, labels, (IN, &|_| 1.0));
        Self { program, staging }
    }

    /// The items of the stage of a solution; `None` if its binaries are not whole.
    pub(crate) fn stage(staging: &Staging, values: &[f64]) -> Option<Vec<usize>> {
        let assignment = staging.assignment(values)?;
        let in_stage = |&item: &usize| IN.contains(&assignment[item]);
        Some((0..assignment.len()).filter(in_stage).collect())
    }
}
