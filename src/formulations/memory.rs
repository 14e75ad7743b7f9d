//! What each stage's device must hold.
#![doc = include_str!("../../formulations/memory.md")]

use good_lp::{Expression, variable};

use super::Program;
use super::staging::Staging;
use crate::problem::{Pair, Problem};

/// Family `memory`: what the items of a stage hold, with the micro-batches in flight there, fits its device.
///
/// Passes that may lie apart add what depends on both places (`away`, `together`): see [`Problem::bytes_apart`]. Left out
/// where no stage could ever be full.
pub fn memory(program: &mut Program, problem: &Problem, staging: &Staging, labels: &[String]) {
    let Some(limit) = problem.settings.memory_limit else {
        return;
    };
    if problem.memory_never_binds() {
        return;
    }
    // In units of the limit, so that the row's numbers lie near 1; a limit of 0 bytes keeps bytes.
    let unit = limit.max(1) as f64;
    let mut held = vec![Expression::default(); problem.stages()];
    for pair in &problem.pairs {
        apart(program, problem, staging, (pair, labels), unit, &mut held);
    }
    for (k, mut held) in held.into_iter().enumerate() {
        for (i, item) in problem.items.iter().enumerate() {
            let bytes = problem.memory_bytes(item, problem.stages() - k);
            staging.add_x(&mut held, bytes as f64 / unit, i, k);
        }
        program.add_row(format!("memory[{}]", k + 1), held, (limit as f64 / unit).into());
    }
}

/// Families `away` and `together`: what a pair adds to the stages of its passes.
///
/// The stash of a backward pass on stage `k` grows by a step for every stage `j` by whose end the forward pass is done:
/// `away` is at least `z_fj + x_bk - 1`. A forward pass needs weights of its own where it is not `together` with the
/// backward pass, which is at most `x_fk` and at most `x_bk`.
fn apart(
    program: &mut Program,
    problem: &Problem,
    staging: &Staging,
    (pair, labels): (&Pair, &[String]),
    unit: f64,
    held: &mut [Expression],
) {
    let stages = problem.stages();
    let (f, b) = (pair.forward, pair.backward);
    if f == b {
        return;
    }
    let x = |item: usize, k: usize| {
        let mut x = Expression::default();
        staging.add_x(&mut x, 1.0, item, k);
        x
    };
    for (k, held) in held.iter_mut().enumerate() {
        // As if the forward pass were on the last stage, and a step for each stage before that it is.
        let bytes = |from_end: usize| problem.bytes_apart(pair, from_end, stages - k).0 as f64 / unit;
        staging.add_x(held, bytes(1), b, k);
        for j in 0..stages - 1 {
            let step = bytes(stages - j) - bytes(stages - j - 1);
            if step > 0.0 {
                let name = format!("away[{},{},{},{}]", labels[f], labels[b], j + 1, k + 1);
                let away = program.declare(variable().bounds(0.0..=1.0).name(name.clone()));
                let mut both = x(b, k);
                staging.add_z(&mut both, 1.0, f, j + 1);
                program.add_row(name, both, away.expression() + 1.0);
                away.add_to(held, step);
            }
        }
        if pair.parameter_bytes > 0 {
            let name = |of: &str| format!("together[{},{},{}{of}]", labels[f], labels[b], k + 1);
            let together = program.declare(variable().bounds(0.0..=1.0).name(name("")));
            program.add_row(name(",forward"), together.expression(), x(f, k));
            program.add_row(name(",backward"), together.expression(), x(b, k));
            staging.add_x(held, pair.parameter_bytes as f64 / unit, f, k);
            together.add_to(held, -(pair.parameter_bytes as f64) / unit);
        }
    }
}
