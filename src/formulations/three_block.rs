//! Three blocks of stages: those before one stage, that stage, and those after it.
#![doc = include_str!("../../formulations/three_block.md")]

use std::ops::Range;

use super::Program;
use super::communication::{Charges, charges};
use super::load::{BottleneckColumns, Placement, load, objective};
use super::staging::{Staging, Windows, monotone, precedence};
use crate::problem::Problem;

/// Builds the program of the three blocks around a stage, for bottlenecks of at most `at_most_ns`. Its objective is the
/// bottleneck.
///
/// * `three`: the problem on three stages, [`Problem::before_in_after`];
/// * `before`, `after`: stages before and after the one in the middle;
/// * `labels`: a name for each item.
pub fn build(three: &Problem, before: usize, after: usize, at_most_ns: u64, labels: &[String]) -> Program {
    let mut windows = Windows::all(three);
    if before == 0 {
        windows.earliest.fill(1);
    }
    if after == 0 {
        windows.latest.fill(1);
    }
    let blocks = [before, 1, after];
    let capacity = |k: usize| blocks[k] as f64;
    build_within(three, &windows, at_most_ns, labels, (0..3, &capacity)).0
}

/// The same with items in windows, and loads of some blocks alone, each of so many stages; and what its columns mean.
pub(super) fn build_within(
    three: &Problem,
    windows: &Windows,
    at_most_ns: u64,
    labels: &[String],
    (blocks, capacity): (Range<usize>, &dyn Fn(usize) -> f64),
) -> (Program, Staging) {
    let mut program = Program::new(at_most_ns.max(1) as f64);
    let staging = Staging::declare(&mut program, three, windows, labels);
    let paid = Charges::declare(&mut program, three, &staging, blocks.clone());
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
    load(&mut program, placement, &bottlenecks, blocks, capacity);
    program.objective = objective(&program, placement, &bottlenecks);
    (program, staging)
}
