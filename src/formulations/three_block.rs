//! Three blocks of stages: those before one stage, that stage, and those after it.
#![doc = include_str!("../../formulations/three_block.md")]

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
    let mut program = Program::new(at_most_ns.max(1) as f64);
    let mut windows = Windows::all(three);
    if before == 0 {
        windows.earliest.fill(1);
    }
    if after == 0 {
        windows.latest.fill(1);
    }
    let blocks = [before, 1, after];
    let staging = Staging::declare(&mut program, three, &windows, labels);
    let paid = Charges::declare(&mut program, three, &staging, 0..3);
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
    load(&mut program, placement, &bottlenecks, 0..3, |k| blocks[k] as f64);
    program.objective = objective(&program, placement, &bottlenecks);
    program
}
