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
pub(crate) fn memory(program: &mut Program, problem: &Problem, staging: &Staging, labels: &[String]) {
    let Some(limit) = problem.settings.memory_limit else {
        return;
    };
    if problem.memory_never_binds() {
        return;
    }
    let mut bytes = HeldBytes {
        problem,
        staging,
        labels,
        // Units of the limit let the rows' numbers lie near 1; a limit of 0 bytes keeps bytes.
        unit: limit.max(1) as f64,
        by_stage: vec![Expression::default(); problem.stages()],
    };
    for pair in problem.pairs.iter().filter(|pair| pair.forward != pair.backward) {
        bytes.apart(program, pair);
    }
    let unit = bytes.unit;
    for (k, mut held) in bytes.by_stage.into_iter().enumerate() {
        for (i, item) in problem.items.iter().enumerate() {
            let bytes = problem.memory_bytes(item, problem.stages() - k);
            staging.add_x(&mut held, bytes as f64 / unit, i, k);
        }
        program.add_row(format!("memory[{}]", k + 1), held, (limit as f64 / unit).into());
    }
}

/// What each stage holds, as it adds up.
struct HeldBytes<'a> {
    problem: &'a Problem,
    staging: &'a Staging,
    labels: &'a [String],
    /// Bytes that count as 1.
    unit: f64,
    /// Held by each stage, in units.
    by_stage: Vec<Expression>,
}

impl HeldBytes<'_> {
    /// What a pair adds to the stages of its passes, which may lie apart.
    fn apart(&mut self, program: &mut Program, pair: &Pair) {
        for k in 0..self.problem.stages() {
            self.away(program, pair, k);
            if pair.weight_bytes > 0 {
                self.together(program, pair, k);
            }
        }
    }

    /// Family `away`: the stash of a backward pass on stage `k` grows by a step for every stage `j` by whose end the forward
    /// pass is done; `away` is at least `z_fj + x_bk - 1`.
    fn away(&mut self, program: &mut Program, pair: &Pair, k: usize) {
        let stages = self.problem.stages();
        let (f, b) = (pair.forward, pair.backward);
        // As if the forward pass were on the last stage, and a step for each stage before that it is.
        let bytes =
            |from_end: usize| self.problem.bytes_apart(pair, from_end, stages - k).0 as f64 / self.unit;
        self.staging.add_x(&mut self.by_stage[k], bytes(1), b, k);
        for j in 0..stages - 1 {
            let step = bytes(stages - j) - bytes(stages - j - 1);
            if step > 0.0 {
                let (forward, backward) = (&self.labels[f], &self.labels[b]);
                let name = format!("away[{forward},{backward},{},{}]", j + 1, k + 1);
                let away = program.declare(variable().bounds(0.0..=1.0).name(name.clone()));
                let mut both = self.staging.x(b, k);
                self.staging.add_z(&mut both, 1.0, f, j + 1);
                program.add_row(name, both, away.expression() + 1.0);
                away.add_to(&mut self.by_stage[k], step);
            }
        }
    }

    /// Family `together`: a forward pass on stage `k` needs weights of its own where it is not `together` with the backward
    /// pass, which is at most `x_fk` and at most `x_bk`.
    fn together(&mut self, program: &mut Program, pair: &Pair, k: usize) {
        let (f, b) = (pair.forward, pair.backward);
        let (forward, backward) = (&self.labels[f], &self.labels[b]);
        let name = |of: &str| format!("together[{forward},{backward},{}{of}]", k + 1);
        let together = program.declare(variable().bounds(0.0..=1.0).name(name("")));
        program.add_row(name(",forward"), together.expression(), self.staging.x(f, k));
        program.add_row(name(",backward"), together.expression(), self.staging.x(b, k));
        let weights = pair.weight_bytes as f64 / self.unit;
        self.staging.add_x(&mut self.by_stage[k], weights, f, k);
        together.add_to(&mut self.by_stage[k], -weights);
    }
}
