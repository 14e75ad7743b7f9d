//! Bounds an iteration by what is proved of the period: whatever a plan costs in all, its busiest stage is one of a plan.

use super::bounds::Bound;
use super::highs::SolverError;
use super::program::Extent;
use super::search::Search;
use super::{STEPS_AT_FIRST, Step, take};

/// Raises the bound of an iteration by the least period, if quick steps prove one, and takes the plans they find.
///
/// The same plans are feasible for both objectives, so no plan's bottleneck is below the least period `T*`: an iteration
/// costs at least `W + (M - 1) T*`, see [`super::bounds::objective_from_bottleneck`], and its program may ask for
/// bottlenecks of at least `T*`.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn raise(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let is_iteration = search.problem.iteration_micro_batches().is_some();
    if !is_iteration || !search.control.reductions.period {
        return Ok(());
    }
    let mut problem = search.problem.for_the_period();
    // Its objective stands for a bottleneck, which is not rounded up to whole ns.
    problem.settings.ticks_per_ns = 1;
    let control = search.control.elsewhere();
    let mut period = Search::new(&problem, &control);
    for step in [
        Step::Incumbents,
        Step::Bounds,
        Step::Anchored,
        Step::Program(Extent::Few),
        Step::Ideals(STEPS_AT_FIRST),
    ] {
        take(step, &mut period, labels)?;
        if period.is_over() {
            break;
        }
    }
    if period.is_infeasible() {
        search.raise("period", u64::MAX);
    } else if period.is_proved() {
        search.raise_bottleneck(Bound {
            source: "period",
            bottleneck_ns: period.lower_ns,
        });
    }
    period.plans.into_iter().for_each(|plan| search.offer(plan));
    Ok(())
}
