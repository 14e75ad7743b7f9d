//! What each stage's device must hold.
#![doc = include_str!("../../formulations/memory.md")]

use good_lp::Expression;

use super::Program;
use super::staging::Staging;
use crate::problem::Problem;

/// Family `memory`: what the items of a stage hold, with the micro-batches in flight there, fits its device.
///
/// Left out where no stage could ever be full.
pub fn memory(program: &mut Program, problem: &Problem, staging: &Staging) {
    let Some(limit) = problem.settings.memory_limit else {
        return;
    };
    if problem.memory_never_binds() {
        return;
    }
    // In units of the limit, so that the row's numbers lie near 1; a limit of 0 bytes keeps bytes.
    let unit = limit.max(1) as f64;
    for k in 0..problem.stages() {
        let mut held = Expression::default();
        for (i, item) in problem.items.iter().enumerate() {
            let bytes = problem.memory_bytes(item, problem.stages() - k);
            staging.add_x(&mut held, bytes as f64 / unit, i, k);
        }
        program.add_row(format!("memory[{}]", k + 1), held, (limit as f64 / unit).into());
    }
}
