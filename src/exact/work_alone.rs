//! Bounds overlapped periods by what is proved of work alone: a stage is at least as busy as its work keeps it.

use super::bounds::Bound;
use super::control::Control;
use super::highs::SolverError;
use super::search::Search;
use super::{Step, take};
use crate::heuristics::local_moves;
use crate::options::Communication;

/// Pairs of slices that are passed over: some seconds of work.
const MOST_STEPS: u64 = 4_000_000_000;

/// Raises the bound of a period with overlapped transfers by the search over pairs of ideals for the least period without
/// them, and takes the plans that it finds.
///
/// The same plans are feasible for both. A stage with overlapped transfers is as busy as the busiest of its worker and its
/// links, so no plan's busiest stage is below the least period without transfers. Where links are fast enough, the plan that
/// attains it often keeps them less busy than its workers, and is best for both. Without transfers problems are smaller:
/// more items follow others freely (`presolve.md`), and bounds are whole grains.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn raise(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let overlaps = search.problem.settings.communication == Communication::Overlapped;
    if !overlaps || search.problem.transfers.is_empty() || !search.control.reductions.work_alone {
        return Ok(());
    }
    let problem = search.problem.without_transfers();
    let control = Control {
        progress: None,
        ..search.control.clone()
    };
    let mut alone = Search::new(&problem, &control);
    search.plans.iter().for_each(|plan| alone.offer(plan.clone()));
    for step in [Step::Bounds, Step::IdealPairs(MOST_STEPS)] {
        take(step, &mut alone, labels)?;
        if alone.is_over() {
            break;
        }
    }
    search.raise_bottleneck(Bound {
        source: "work alone",
        bottleneck_ns: alone.lower_ns,
    });
    for plan in alone.plans.split_off(search.plans.len().min(alone.plans.len())) {
        search.offer(plan.clone());
        search.offer(local_moves::improve(search.problem, plan));
    }
    Ok(())
}
