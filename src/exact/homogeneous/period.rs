//! Bounds an iteration by what is proved of the period: whatever a plan costs in all, its busiest stage is one of a plan.

use crate::bound_source::BoundSource;
use crate::exact::bounds::Bound;
use crate::exact::homogeneous::program::Extent;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::{ideals, program, quick, stage_bounds};
use crate::exact::tuning::TUNING;
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
pub(crate) fn raise(search: &mut HomogeneousSearch, labels: &[String]) -> Result<(), SolverError> {
    let problem = search.problem().for_the_period().in_ticks();
    let control = search.control().elsewhere();
    let mut period = HomogeneousSearch::new(&problem, &control);
    period.raise_simple_bounds();
    prove(&mut period, labels)?;
    if period.incumbent.is_infeasible() {
        search.incumbent.raise(BoundSource::Period, u64::MAX);
    } else if period.incumbent.is_proved() {
        search.raise_bottleneck(Bound {
            source: BoundSource::Period,
            bottleneck_ns: period.incumbent.lower_ns,
        });
    }
    for plan in period.plans {
        search.offer(plan);
    }
    Ok(())
}

/// Proves what quick steps can.
fn prove(period: &mut HomogeneousSearch, labels: &[String]) -> Result<(), SolverError> {
    let switches = period.control().switches;
    if switches.incumbents {
        quick::find_incumbents(period);
    }
    if !period.incumbent.is_over() && switches.anchored {
        stage_bounds::raise_by_anchors(period, labels)?;
    }
    if !period.incumbent.is_over() && switches.program && switches.few_binaries {
        program::search(period, Extent::Few, labels)?;
    }
    if !period.incumbent.is_over() && switches.ideals && !period.problem().memory_is_joint() {
        ideals::over_ideals(period, TUNING.steps_of_ideals_first);
    }
    Ok(())
}
