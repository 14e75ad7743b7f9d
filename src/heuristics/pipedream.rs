//! PipeDream's optimiser without replication: a straight pipeline.
#![doc = include_str!("../../formulations/pipedream.md")]

use super::antichains::{self, Devices, Laid, StageSums};
use super::{Effort, Heuristic, MustStop, Run};
use crate::model::words::Words;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "pipedream",
    summary: "PipeDream's program for stages on one device each: the least bottleneck of stages and links, cuts tied",
    source: "PipeDream, D. Narayanan et al., SOSP 2019, section 3.1",
    exact_for: "the period without communication, with tied cuts",
    effort: Effort::Baseline,
    run: Run::Homogeneous(applies, run),
};

fn applies(problem: &Problem) -> Result<(), Words> {
    antichains::has_few_states(&problem.tied().0)
}

fn run(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    Some(lay(problem, must_stop)?.assignment)
}

/// The plan with tied cuts whose bottleneck is least, as PipeDream counts it, and that bottleneck.
pub fn lay(problem: &Problem, must_stop: MustStop<'_>) -> Option<Laid> {
    let devices = Devices {
        stages: problem.stages(),
        all_stages: problem.settings.all_stages,
        count: problem.stages(),
        extra: 0,
        memory_bytes: problem.settings.memory_limit.unwrap_or(u64::MAX),
    };
    lay_tied(problem, |tied| {
        let stage_ns = |sums: &StageSums, _| sums.forward_ns + sums.backward_ns;
        antichains::lay(tied, devices, stage_ns, must_stop)
    })
}

/// Lays a problem with its cuts tied.
pub(super) fn lay_tied(problem: &Problem, lay: impl FnOnce(&Problem) -> Option<Laid>) -> Option<Laid> {
    let (tied, item_of) = problem.tied();
    let laid = lay(&tied)?;
    Some(Laid {
        assignment: item_of.iter().map(|&item| laid.assignment[item]).collect(),
        ..laid
    })
}
