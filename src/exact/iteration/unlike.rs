//! Runs on workers that differ, and of one micro-batch on any.

use std::time::Duration;

use super::arcs::{Arcs, Least};
use super::depth_first::DepthFirst;
use super::rest::Rest;
use super::simple::is_alternating;
use super::{SHARE_OF_GUIDES, TIME_OF_GUIDES, latency, moves};
use crate::exact::bounds::Bound;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::exact::solve_by;
use crate::formulations::solver::SolverError;
use crate::heuristics::{self, Effort};
use crate::model::options::{Objective, WorkerMode};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::workers::Workers;

/// Partial plans that are looked at before other objectives' plans are asked for, and in all: a second, and some minutes.
const FIRST_NODES: u64 = 2_000;
const MOST_NODES: u64 = 5_000_000;

/// Solves a problem whose objective is simulated.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut incumbent = Incumbent::new(problem, control);
    if method != Method::Exact {
        return Ok(incumbent.finish(StoppedBy::NoMethod));
    }
    let (bound, bound_ns) = simple_bound(problem);
    incumbent.raise(bound.source, bound_ns);
    take_quick_plans(&mut incumbent);
    let is_latency = problem.settings.objective == Objective::Latency;
    if is_latency {
        moves::improve(&mut incumbent);
        let stopped_by = latency::search(&mut incumbent);
        // Where memory depends on where other passes lie, its best plan may have none.
        let is_proved = stopped_by == StoppedBy::Completed && incumbent.is_over();
        if is_proved || control.must_stop().is_some() {
            return Ok(incumbent.finish(control.must_stop().unwrap_or(stopped_by)));
        }
    }
    let arcs = Arcs::new(&incumbent);
    let rest = arcs.as_ref().map_err(|stopped_by| *stopped_by);
    let rest = rest.and_then(|arcs| Rest::new(arcs, control));
    if let (Ok(arcs), Ok(Some(rest))) = (&arcs, &rest) {
        let [_, run_ns] = rest.behind_ns(0, &arcs.untaken());
        incumbent.raise(BoundSource::ChainsOfIdeals, run_ns);
    }
    let look = |most_nodes: u64, incumbent: &mut Incumbent| match (&arcs, &rest) {
        (Ok(arcs), Ok(rest)) => DepthFirst::new(arcs, rest.as_ref(), most_nodes).run(incumbent),
        (Err(stopped_by), _) | (_, Err(stopped_by)) => *stopped_by,
    };
    let mut stopped_by = look(FIRST_NODES, &mut incumbent);
    if stopped_by != StoppedBy::Completed && control.must_stop().is_none() && !incumbent.is_over() {
        ask_guides(&mut incumbent, labels)?;
        moves::improve(&mut incumbent);
        stopped_by = look(MOST_NODES, &mut incumbent);
    }
    Ok(incumbent.finish(control.must_stop().unwrap_or(stopped_by)))
}

/// Lower bounds alone.
pub(super) fn bound(problem: &Problem, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem);
    incumbent.raise(bound.source, bound_ns);
    incumbent.finish(StoppedBy::Completed)
}

/// Takes the plans of heuristics that take no time.
pub(super) fn take_quick_plans(incumbent: &mut Incumbent) {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let must_stop = || control.must_stop().is_some();
    let guides = [problem.for_the_formula(), problem.for_the_period()];
    let quick = heuristics::METHODS
        .iter()
        .filter(|heuristic| heuristic.effort == Effort::Quick);
    for (heuristic, guide) in quick.flat_map(|heuristic| guides.iter().map(move |guide| (heuristic, guide))) {
        if incumbent.is_over() || must_stop() {
            return;
        }
        if let Some(plan) = heuristic.plan(guide, control.seed, &must_stop) {
            incumbent.offer(plan);
        }
    }
}

/// Takes the plans of least latency, period and formula, and what the first two say of a run.
fn ask_guides(incumbent: &mut Incumbent, labels: &[String]) -> Result<(), SolverError> {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let mut least = Parts::new(problem);
    let guides = [
        problem.for_the_latency(),
        problem.for_the_period(),
        problem.for_the_formula(),
    ];
    // Of what runs both phases at once there are periods alone.
    let is_known = |guide: &&Problem| {
        let settings = &guide.settings;
        settings.objective != problem.settings.objective
            && (settings.worker == WorkerMode::Sequential || settings.objective == Objective::Period)
    };
    for guide in guides.iter().filter(is_known) {
        let share = control
            .remaining()
            .map_or(TIME_OF_GUIDES, |left: Duration| left.mul_f64(SHARE_OF_GUIDES));
        let within = Control {
            gap: 0.0,
            ..control.elsewhere().with_time(Some(share))
        };
        let outcome = solve_by(Method::Exact, Incumbent::new(guide, &within), labels)?;
        if let Some(plan) = outcome.allocation {
            incumbent.offer(plan);
        }
        let bound_ns = outcome.bound_ns;
        match guide.settings.objective {
            // What is infeasible is so under any objective.
            _ if bound_ns == u64::MAX => incumbent.raise(outcome.bound_source, u64::MAX),
            Objective::Latency => least.alone_ns = least.alone_ns.max(bound_ns),
            Objective::Period => {
                incumbent.raise(
                    BoundSource::Period,
                    problem.settings.run_micro_batches() * bound_ns,
                );
                if !problem.settings.communication.has_links() {
                    least.busiest_ns = least.busiest_ns.max(bound_ns);
                }
            }
            Objective::Iteration | Objective::Tokens | Objective::Formula => {}
        }
        incumbent.raise(BoundSource::Period, least.bound_ns(problem));
    }
    Ok(())
}

/// The best bound that takes no search, and what it says of the objective in ns.
pub(super) fn simple_bound(problem: &Problem) -> (Bound, u64) {
    let Some(workers) = &problem.workers else {
        return super::simple::simple_bound(problem);
    };
    let [work, item] = Parts::bounds(problem, workers);
    let least = Parts::new(problem);
    let bound = match item.bottleneck_ns > work.bottleneck_ns {
        true => item,
        false => work,
    };
    (bound, least.bound_ns(problem))
}

/// What any plan takes at least: for one micro-batch alone, and on its busiest worker.
struct Parts {
    alone_ns: u64,
    busiest_ns: u64,
}

impl Parts {
    fn bounds(problem: &Problem, workers: &Workers) -> [Bound; 2] {
        Capacity::new(problem, workers).bounds(problem, workers)
    }

    fn new(problem: &Problem) -> Self {
        let busiest = problem
            .workers
            .as_ref()
            .map(|workers| Self::bounds(problem, workers));
        Self {
            alone_ns: Least::new(problem).of(0..problem.items.len()),
            busiest_ns: busiest
                .into_iter()
                .flatten()
                .map(|bound| bound.bottleneck_ns)
                .max()
                .unwrap_or(0),
        }
    }

    /// The page's bounds of all plans.
    fn bound_ns(&self, problem: &Problem) -> u64 {
        let settings = &problem.settings;
        let (m, stages) = (settings.run_micro_batches(), problem.stages() as u64);
        let (alone_ns, busiest_ns) = (self.alone_ns, self.busiest_ns);
        if settings.schedule.is_all_forward_first() || !settings.mode.trains() {
            return alone_ns + (m - 1) * busiest_ns;
        }
        let again_ns = match m.checked_sub(stages + 1) {
            Some(more) if is_alternating(problem) && !settings.communication.has_links() => {
                2 * alone_ns + more * busiest_ns
            }
            _ => 0,
        };
        alone_ns.max(m * busiest_ns).max(again_ns)
    }
}
