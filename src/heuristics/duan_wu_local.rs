//! Duan and Wu's two steps, then local search.
//!
//! Source: as [`duan_wu`]; that a local search follows the greedy grouping is from the paper's own description of it, how
//! it moves is our reconstruction: a device changes its group, or two devices swap. Ours as an extension: items move
//! between neighbouring stages, see [`local_moves`], in turn with the groups until neither improves.

use super::grouping::Grouping;
use super::{Effort, Heuristic, MustStop, Run, better, duan_wu, global_shares, if_runs, local_moves};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::Workers;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "duan-wu-local",
    summary: "duan-wu, then devices change groups and items change stages while that helps",
    source: "Duan and Wu, ICPADS 2022 (reconstruction); moves of items ours",
    exact_for: "what duan-wu is",
    effort: Effort::Quick,
    run: Run::Heterogeneous(|_, _| Ok(()), run),
};

/// Turns of both searches after which it ends even if it could go on; most end after two.
const MOST_TURNS: usize = 20;

fn run(problem: &Problem, workers: &Workers, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let start = duan_wu::partition_and_group(problem, workers)?;
    let start = if_runs(
        problem,
        workers,
        global_shares::fill(problem, workers, start, must_stop),
    )?;
    let improved = improve(problem, workers, start.clone(), must_stop);
    Some(match if_runs(problem, workers, improved) {
        Some(improved) => better(problem, workers, improved, start),
        None => start,
    })
}

/// A plan no worse than a feasible one, apart from a global share, which is filled in anew.
pub(crate) fn improve(
    problem: &Problem,
    workers: &Workers,
    allocation: Allocation,
    must_stop: MustStop<'_>,
) -> Allocation {
    let mut plan = allocation;
    plan.global.clear();
    for _ in 0..MOST_TURNS {
        let assignment = local_moves::improve_on(problem, workers, &plan, must_stop);
        let mut choices = plan.choices.clone();
        Grouping::new(problem, workers, &assignment, choices.len()).improve(&mut choices, must_stop);
        if (&assignment, &choices) == (&plan.assignment, &plan.choices) {
            break;
        }
        (plan.assignment, plan.choices) = (assignment, choices);
    }
    global_shares::fill(problem, workers, plan, must_stop)
}
