//! Everything recomputed: every layer keeps as little as it can.

use super::uniform::{self, StageLayers};
use super::{Effort, Heuristic, MustStop, Run};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;

/// The registry's entry.
pub(super) const METHOD: Heuristic = Heuristic {
    name: "recompute-all",
    summary: "equal layers, one degree and number of replicas for all stages, and everything computed again",
    source: "T. Chen et al., Training deep nets with sublinear memory cost, 2016; `--recompute-method uniform --recompute-num-layers 1` of \
             Megatron-LM, and activation checkpointing of every layer elsewhere",
    exact_for: "nothing",
    effort: Effort::Baseline,
    run: Run::Modal {
        applies: |_, _| Ok(()),
        run,
        estimate: None,
    },
};

fn run(problem: &Problem, modes: &Modes, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    uniform::best(problem, modes, ways, must_stop)
}

/// The way of each layer that keeps least, where that fits.
fn ways(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    uniform::where_they_fit(stages, |stage| stage.smallest())
}
