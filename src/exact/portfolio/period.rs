//! Bounds an iteration by what is proved of the period: whatever a plan costs in all, its busiest stage is one of a plan.

use crate::exact::bounds::Bound;
use crate::exact::portfolio::STEPS_AT_FIRST;
use crate::exact::portfolio::Step;
use crate::exact::portfolio::find_bounds;
use crate::exact::portfolio::program::Extent;
use crate::exact::portfolio::take;
use crate::exact::search::Search;
use crate::solver::SolverError;

/// Raises the bound of an iteration by the least period, if quick steps prove one, and takes the plans they find.
///
/// The same plans are feasible for both objectives, so no plan's bottleneck is below the least period `T*`: an iteration
/// costs at least `W + (M - 1) T*`, see [`crate::exact::bounds::objective_from_bottleneck`], and its program may ask for
/// bottlenecks of at least `T*`.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn raise(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let is_iteration = !search.problem.formula().is_bottleneck();
    if !is_iteration || !search.control.switches.period {
        return Ok(());
    }
    let problem = search.problem.for_the_period().in_ticks();
    let control = search.control.elsewhere();
    let mut period = Search::new(&problem, &control);
    find_bounds(&mut period);
    for step in [
        Step::Incumbents,
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
