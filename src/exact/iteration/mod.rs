//! Iterations as they run: plans in the order of what no run of theirs can beat, each simulated.
#![doc = include_str!("../../../formulations/iteration.md")]

mod arcs;
mod cells;
pub(super) mod chunks;
mod depth_first;
mod kinds;
mod latency;
mod loose;
pub(crate) mod modal;
mod moves;
mod neighbours;
mod options;
mod prefix;
mod prompt;
mod relaxation;
mod rest;
mod row;
mod search;
mod simple;
mod sums;
mod unlike;

use std::sync::Arc;
use std::time::Duration;

use self::cells::Cells;
use self::loose::Loose;
use self::options::{Alike, StageOptions};
use self::relaxation::Relaxation;
use self::search::PlanSearch;
use super::bounds::Bound;
use super::homogeneous;
use super::incumbent::Incumbent;
use super::method::Method;
use crate::formulations::solver::SolverError;
use crate::model::options::Objective;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};

/// Partial plans that are looked at before the plans of the formula and of the period are asked for: a tenth of a second.
const FIRST_NODES: u64 = 20_000;

/// What either of these plans may take: a share of the time that is left, and where there is no limit so long.
const SHARE_OF_GUIDES: f64 = 0.25;
const TIME_OF_GUIDES: Duration = Duration::from_secs(20);

/// Solves a problem whose objective is simulated.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn solve(known: Incumbent, method: Method, labels: &[String]) -> Result<Outcome, SolverError> {
    let (problem, control) = (known.problem, known.control);
    if let Some(reads) = problem.reads() {
        return Ok(prompt::solve(known, reads, method));
    }
    if is_unlike(problem) {
        return unlike::solve(problem, method, labels, control);
    }
    let mut incumbent = known;
    // The programs and dynamic programs of the other methods know formulas alone.
    if method != Method::Exact {
        return Ok(incumbent.finish(StoppedBy::NoMethod));
    }
    let (bound, bound_ns) = simple_bound(problem);
    incumbent.raise(bound.source, bound_ns);
    let mut formula = problem.for_the_formula();
    // What it proves without constraints holds with them; of its plans those count that keep them.
    formula.confined = None;
    for plan in homogeneous::quick_plans(&formula, &control.elsewhere()) {
        incumbent.offer(plan.into());
    }
    let mut search = laid(problem, &incumbent)
        .map(|(relaxation, options)| PlanSearch::new(relaxation, options, &incumbent));
    let mut stopped_by = match &mut search {
        Ok(search) => search.run(&mut incumbent, FIRST_NODES),
        Err(stopped_by) => *stopped_by,
    };
    if stopped_by != StoppedBy::Completed && control.must_stop().is_none() {
        ask_guides(&mut incumbent, &formula, labels)?;
        match &mut search {
            Ok(search) => stopped_by = search.run(&mut incumbent, u64::MAX),
            Err(_) => {
                raise_by_cells(&mut incumbent);
                neighbours::improve(&mut incumbent);
            }
        }
    }
    if stopped_by == StoppedBy::NoMethod {
        // With loose items anywhere there are too many plans; some of those nearby may be better.
        neighbours::improve(&mut incumbent);
        stopped_by = StoppedBy::SizeLimit;
    }
    let stopped_by = control.must_stop().unwrap_or(stopped_by);
    Ok(incumbent.finish(stopped_by))
}

/// Whether it is left to the search for workers that differ, which looks at the runs of one micro-batch on any.
fn is_unlike(problem: &Problem) -> bool {
    problem.workers.is_some() || problem.settings.objective == Objective::Latency
}

/// The best bound that takes no search, and what it says of the objective in ns.
pub(crate) fn simple_bound(problem: &Problem) -> (Bound, u64) {
    if let Some(reads) = problem.reads() {
        return prompt::simple_bound(problem, reads);
    }
    match is_unlike(problem) {
        true => unlike::simple_bound(problem),
        false => simple::simple_bound(problem),
    }
}

/// Lower bounds alone.
pub(crate) fn bound(problem: &Problem, control: &Control) -> Outcome {
    if let Some(reads) = problem.reads() {
        return prompt::bound(problem, reads, control);
    }
    if is_unlike(problem) {
        return unlike::bound(problem, control);
    }
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem);
    incumbent.raise(bound.source, bound_ns);
    let stopped_by = match laid(problem, &incumbent) {
        Ok((relaxation, _)) => {
            let bound_ns = relaxation.bound_ns().min(relaxation.others_ns);
            incumbent.raise(BoundSource::ChainsOfIdeals, bound_ns);
            StoppedBy::Completed
        }
        Err(stopped_by) => {
            raise_by_cells(&mut incumbent);
            stopped_by
        }
    };
    incumbent.finish(stopped_by)
}

/// What bounds plans, and what their stages may be; loose items lie with their readers where there are too many ideals with them.
fn laid<'a>(
    problem: &'a Problem,
    incumbent: &Incumbent,
) -> Result<(Relaxation, Arc<dyn StageOptions + 'a>), StoppedBy> {
    let switches = incumbent.control.switches;
    let all = match switches.iteration_ideals {
        true => Relaxation::new(&Alike(problem), incumbent),
        false => Err(StoppedBy::SizeLimit),
    };
    let all = all.map(|relaxation| {
        let options: Arc<dyn StageOptions> = Arc::new(Alike(problem));
        (relaxation, options)
    });
    match (all, Loose::new(problem).filter(|_| switches.loose_items)) {
        (Err(StoppedBy::SizeLimit), Some(loose)) => Relaxation::new(&loose, incumbent)
            .map(|relaxation| -> (_, Arc<dyn StageOptions>) { (relaxation, Arc::new(loose)) }),
        (all, _) => all,
    }
}

/// Raises the bound to that of paths over cells of ideals, for which stages between ideals may be too many.
fn raise_by_cells(incumbent: &mut Incumbent) {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let ideals = Relaxation::ideals(problem, control).ok();
    let Some(ideals) = ideals.filter(|_| control.switches.ideal_cells) else {
        return;
    };
    let cells = Cells::new(problem, &ideals);
    if let Ok(paths) = Relaxation::over_cells(&cells, &Alike(problem), incumbent) {
        incumbent.raise(
            BoundSource::ChainsOfIdeals,
            paths.bound_ns().min(incumbent.upper_ns),
        );
    }
}

/// Takes the plans of least formula and of least period, and what the period says of an iteration.
fn ask_guides(incumbent: &mut Incumbent, formula: &Problem, labels: &[String]) -> Result<(), SolverError> {
    let control = incumbent.control;
    let period = incumbent.problem.for_the_period();
    for guide in [formula, &period] {
        let share = control
            .remaining()
            .map_or(TIME_OF_GUIDES, |left| left.mul_f64(SHARE_OF_GUIDES));
        let within = Control {
            gap: 0.0,
            ..control.elsewhere().with_time(Some(share))
        };
        let outcome = homogeneous::solve(guide, Method::Exact, labels, &within)?;
        if let Some(plan) = outcome.allocation {
            incumbent.offer(plan);
        }
        if outcome.bound_ns == u64::MAX {
            // What is infeasible is so under any objective.
            incumbent.raise(outcome.bound_source, u64::MAX);
        } else if std::ptr::eq(guide, &period) {
            let bound_ns = simple::from_period_ns(incumbent.problem, outcome.bound_ns);
            incumbent.raise(BoundSource::Period, bound_ns);
        }
    }
    Ok(())
}
