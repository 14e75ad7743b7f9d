//! Nothing recomputed: every layer keeps what its backward pass needs.

use super::uniform::{self, StageLayers};
use super::{Effort, Heuristic, MustStop, Run};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;

/// The registry's entry.
pub(super) const METHOD: Heuristic = Heuristic {
    name: "recompute-none",
    summary: "equal layers, one degree and number of replicas for all stages, and nothing computed again",
    source: "the default of Megatron-LM, D. Narayanan et al., SC 2021, and of every framework",
    exact_for: "the period of chains of equal layers that fit the memory, on stages that are alike",
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

/// The fastest way of each layer, where that fits.
fn ways(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    uniform::where_they_fit(stages, |stage| stage.fastest())
}
