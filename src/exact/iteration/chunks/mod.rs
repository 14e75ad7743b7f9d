//! Iterations of devices that hold several chunks: plans measured as the order of their schedule runs them, and what none of them beats.

mod every;
mod moves;
mod paths;
mod starts;

use petgraph::Direction::Incoming;

use self::paths::PathSearch;
use super::super::incumbent::Incumbent;
use super::super::method::Method;
use super::super::virtual_stages;
use super::{SHARE_OF_GUIDES, TIME_OF_GUIDES};
use crate::exact::bounds::Bound;
use crate::formulations::solver::SolverError;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::virtual_stages::VirtualStages;

/// Moves take such a part of the time that is left, before and behind the programs.
const SHARE_OF_MOVES: f64 = 0.1;

/// The same control with such a part of the time that is left, where that has an end.
fn within<'a>(control: &Control<'a>, share: f64) -> Control<'a> {
    match control.remaining() {
        Some(left) => control.with_time(Some(left.mul_f64(share))),
        None => control.with_time(None),
    }
}

/// Solves a problem whose devices have several chunks and whose objective is an iteration.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(in crate::exact) fn solve(
    problem: &Problem,
    of: &VirtualStages,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    if method != Method::Exact {
        return Ok(incumbent.finish(StoppedBy::NoMethod));
    }
    starts::offer(&mut incumbent, of);
    if control.switches.exhaustive && every::applies(problem, of) {
        let stopped_by = every::look_at_all(&mut incumbent, of);
        return Ok(incumbent.finish(stopped_by));
    }
    moves::improve(&mut incumbent, SHARE_OF_MOVES);
    ask_period(&mut incumbent, of, labels)?;
    let mut paths = PathSearch::new(problem, of).filter(|_| control.switches.program);
    for is_whole in [false, true] {
        if let Some(paths) = &mut paths {
            paths.run(&mut incumbent, is_whole)?;
            moves::improve(&mut incumbent, SHARE_OF_MOVES);
        }
    }
    moves::improve(&mut incumbent, 1.0);
    let stopped_by = control.must_stop().unwrap_or(StoppedBy::Completed);
    Ok(incumbent.finish(stopped_by))
}

/// Lower bounds alone.
pub(in crate::exact) fn bound(problem: &Problem, of: &VirtualStages, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    let guide = period_without_links(problem);
    let period = virtual_stages::bound(&guide, of, &control.elsewhere());
    incumbent.raise(
        period.bound_source,
        micro_batches(problem).saturating_mul(period.bound_ns),
    );
    incumbent.finish(StoppedBy::Completed)
}

/// The best bound that takes no search, and what it says of an iteration in ns: the page's `busy`, and the way of one micro-batch.
pub(in crate::exact) fn simple_bound(problem: &Problem, of: &VirtualStages) -> (Bound, u64) {
    let (bound, period_ns) = virtual_stages::simple_bound(&period_without_links(problem), of);
    let way_ns: u64 = (problem.items.iter())
        .map(|item| item.work_ns() - item.weight_ns)
        .sum();
    (bound, way_ns.max(micro_batches(problem) * period_ns))
}

/// Whether items follow each other in a row, so that plans are where it is cut.
fn is_row(problem: &Problem) -> bool {
    (1..problem.items.len()).all(|item| {
        let before = problem.order.neighbors_directed((item as u32).into(), Incoming);
        before.into_iter().any(|u| u.index() + 1 == item)
    })
}

fn micro_batches(problem: &Problem) -> u64 {
    problem.settings.micro_batches.unwrap_or(1)
}

/// The problem of the period, in which links are never busy: in a run, any number of transfers may be under way.
fn period_without_links(problem: &Problem) -> Problem {
    match problem.settings.communication.has_links() {
        true => problem.for_the_period().without_transfers(),
        false => problem.for_the_period(),
    }
}

/// Takes the plan of the least period, and what that says of iterations: some device is busy for as long with each micro-batch.
fn ask_period(incumbent: &mut Incumbent, of: &VirtualStages, labels: &[String]) -> Result<(), SolverError> {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let mut within = within(&control.elsewhere(), SHARE_OF_GUIDES);
    within.gap = 0.0;
    if within.time_limit.is_none() {
        within = within.with_time(Some(TIME_OF_GUIDES));
    }
    let guide = period_without_links(problem);
    let period = virtual_stages::solve(&guide, of, Method::Exact, labels, &within)?;
    if let Some(plan) = period.allocation {
        incumbent.offer(plan);
    }
    // What is infeasible is so under any objective.
    match period.bound_ns {
        u64::MAX => incumbent.raise(period.bound_source, u64::MAX),
        bound_ns => incumbent.raise(
            BoundSource::Period,
            micro_batches(problem).saturating_mul(bound_ns),
        ),
    }
    Ok(())
}
