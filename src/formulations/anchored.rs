//! The cheapest stage that could hold a given item.
#![doc = include_str!("../../formulations/anchored.md")]

use std::ops::Range;

use super::Program;
use super::communication::{Charges, charges};
use super::load::{BottleneckColumns, Placement, load, objective};
use super::staging::{Staging, Windows, monotone, precedence};
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
        let mut program = Program::new(at_most_ns.max(1) as f64);
        let mut windows = Windows::all(three);
        windows.earliest[anchor] = IN.start;
        windows.latest[anchor] = IN.start;
        let staging = Staging::declare(&mut program, three, &windows, labels);
        let paid = Charges::declare(&mut program, three, &staging, IN);
        // Midway to the next whole ns, so that the solver's tolerance decides nothing.
        let at_most = (at_most_ns as f64 + 0.5) / program.scale_ns;
        let bottlenecks = BottleneckColumns::declare(&mut program, three, at_most);
        monotone(&mut program, three, &staging, labels);
        precedence(&mut program, three, &staging, labels);
        charges(&mut program, three, &staging, &paid, labels);
        let placement = Placement {
            problem: three,
            staging: &staging,
            charges: &paid,
        };
        load(&mut program, placement, &bottlenecks, IN, |_| 1.0);
        program.objective = objective(&program, placement, &bottlenecks);
        Self { program, staging }
    }

    /// The items of the stage of a solution; `None` if its binaries are not whole.
    pub(crate) fn stage(staging: &Staging, values: &[f64]) -> Option<Vec<usize>> {
        let assignment = staging.assignment(values)?;
        let in_stage = |&item: &usize| IN.contains(&assignment[item]);
        Some((0..assignment.len()).filter(in_stage).collect())
    }
}
