//! The exact engine: incumbents, bounds, windows, a mixed-integer program on what is left, and a dynamic program over
//! ideals beside it.

pub mod bounds;
pub mod control;
pub mod highs;
mod highs_c;
pub mod ideals;
pub mod reach;
mod search;
pub mod windows;

use self::control::Control;
use self::highs::{SolverError, Stop};
use self::ideals::{IdealSearch, Pass};
use self::reach::Reach;
use self::search::Search;
use crate::formulations::partition::Partition;
use crate::formulations::staging::Windows;
use crate::heuristics;
use crate::plan::{Outcome, StoppedBy};
use crate::problem::Problem;

/// An exact method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Everything: incumbents, bounds, windows, then ideals and program.
    Exact,
    /// The same without the dynamic program over ideals.
    Milp,
    /// The same without the mixed-integer program.
    Ideals,
    /// The program alone, as a textbook would have it: the yardstick.
    Textbook,
}

/// An exact method as the command line lists it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The method.
    pub method: Method,
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// All exact methods.
pub const METHODS: &[Entry] = &[
    Entry {
        method: Method::Exact,
        name: "exact",
        summary: "incumbents, bounds and windows, then ideals and program",
        source: "ours",
    },
    Entry {
        method: Method::Milp,
        name: "milp",
        summary: "the mixed-integer program behind incumbents, bounds and windows",
        source: "ours, on HiGHS",
    },
    Entry {
        method: Method::Ideals,
        name: "ideals",
        summary: "the dynamic program over ideals behind incumbents and bounds",
        source: "after Tarnawski et al., NeurIPS 2020",
    },
    Entry {
        method: Method::Textbook,
        name: "textbook",
        summary: "the mixed-integer program alone, without presolve: a yardstick",
        source: "textbook, on HiGHS",
    },
];

impl Method {
    /// Its entry in [`METHODS`].
    pub fn entry(self) -> &'static Entry {
        let own = METHODS.iter().find(|entry| entry.method == self);
        own.unwrap_or(&METHODS[0])
    }
}

/// Extensions of a stage after which the portfolio leaves the ideals to the program: some seconds' work.
const STEPS_OF_PORTFOLIO: u64 = 50_000_000;

/// Solves a problem.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down; never for a limit or an infeasible problem.
pub fn solve(problem: &Problem, method: Method, labels: &[String], control: &Control) -> Result<Outcome, SolverError> {
    let mut search = Search::new(problem, control);
    if method == Method::Textbook {
        let stopped_by = search_program(&mut search, &Windows::all(problem), labels, false)?;
        return Ok(search.finish(stopped_by));
    }
    find_incumbents(&mut search);
    find_bounds(&mut search);
    if search.is_done() {
        return Ok(search.finish(StoppedBy::Completed));
    }
    if let Some(stopped_by) = control.must_stop() {
        return Ok(search.finish(stopped_by));
    }
    let reach = Reach::new(problem);
    if method != Method::Milp && problem.iteration_micro_batches().is_none() {
        let most_steps = match method {
            Method::Ideals => u64::MAX,
            _ => STEPS_OF_PORTFOLIO,
        };
        let stopped_by = search_ideals(&mut search, most_steps);
        if method == Method::Ideals || stopped_by != StoppedBy::SizeLimit {
            return Ok(search.finish(stopped_by));
        }
    } else if method == Method::Ideals {
        // The pruned program looks for one number a stage; iterations weigh sums, which only the program does.
        return Ok(search.finish(StoppedBy::SizeLimit));
    }
    let stopped_by = search_windows(&mut search, &reach, labels)?;
    Ok(search.finish(stopped_by))
}

/// Lower bounds alone, without a search for plans.
pub fn bound(problem: &Problem, control: &Control) -> Outcome {
    let mut search = Search::new(problem, control);
    find_bounds(&mut search);
    search.finish(StoppedBy::Completed)
}

fn find_incumbents(search: &mut Search) {
    for heuristic in heuristics::METHODS {
        if (heuristic.applies)(search.problem).is_ok()
            && let Some(assignment) = (heuristic.run)(search.problem, search.control.seed)
        {
            search.offer(assignment);
        }
        if search.control.must_stop().is_some() {
            return;
        }
    }
}

fn find_bounds(search: &mut Search) {
    for bound in bounds::simple(search.problem) {
        search.raise_bottleneck(bound);
    }
}

/// Passes over the ideals, each for a better plan than the last, until there is none.
fn search_ideals(search: &mut Search, most_steps: u64) -> StoppedBy {
    let mut ideals = IdealSearch::new(search.problem, search.control, most_steps);
    loop {
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        let pass = ideals.pass(limit_ns);
        search.statistics.ideals = Some(ideals.ideals);
        match pass {
            Pass::Found(assignment) => search.offer(assignment),
            Pass::Exhausted => {
                search.exhausted("ideals");
                return StoppedBy::Completed;
            }
            Pass::Stopped(stopped_by) => return stopped_by,
        }
        if search.is_done() {
            return StoppedBy::Completed;
        }
    }
}

/// The program inside the windows of the incumbent.
fn search_windows(search: &mut Search, reach: &Reach, labels: &[String]) -> Result<StoppedBy, SolverError> {
    let windows = search
        .target_bottleneck_ns()
        .map(|limit_ns| windows::from_work(search.problem, reach, limit_ns));
    match windows {
        Some(windows) if !windows.some_is_empty() => search_program(search, &windows, labels, true),
        _ => {
            search.exhausted("windows");
            Ok(StoppedBy::Completed)
        }
    }
}

/// The mixed-integer program, with the incumbent's objective as a cut-off where `cut_off` is set.
fn search_program(
    search: &mut Search,
    windows: &Windows,
    labels: &[String],
    cut_off: bool,
) -> Result<StoppedBy, SolverError> {
    let problem = search.problem;
    let limit_ns = match cut_off {
        true => search.target_bottleneck_ns().unwrap_or(0),
        false => bounds::all_in_one_ns(problem),
    };
    let Partition { program, columns } = Partition::build(problem, windows, limit_ns, labels);
    search.statistics.binaries = program.binaries();
    let scale_ns = program.scale_ns;
    let (incumbent_ns, lower_ns) = (search.upper_ns, search.lower_ns);
    let watch = |report: highs_c::Report| {
        let found = report.primal_bound.is_finite().then_some(report.primal_bound * scale_ns);
        let best = found.map_or(incumbent_ns, |ns| incumbent_ns.min(ns as u64));
        let bound_ns = (report.dual_bound * scale_ns).max(0.0) as u64;
        let bound_ns = bound_ns.max(lower_ns).min(best);
        search.control.report((best < u64::MAX).then_some(best), bound_ns);
    };
    let solved = highs::solve(program, None, search.control, &watch)?;
    search.statistics.nodes += solved.nodes;
    let target_ns = search.target_ns();
    if let Some(assignment) = solved.values.as_deref().and_then(|values| columns.assignment(values)) {
        search.offer(assignment);
    }
    let bound_ns = integral_bound(solved.bound, scale_ns);
    match solved.stop {
        // Everything of at most the target was searched.
        Stop::Infeasible => search.raise("program", target_ns.saturating_add(1)),
        _ => search.raise("program", bound_ns.min(target_ns.saturating_add(1))),
    }
    Ok(match solved.stop {
        Stop::Optimal | Stop::Infeasible => StoppedBy::Completed,
        Stop::Limit(stopped_by) => stopped_by,
    })
}

/// A bound in whole nanoseconds from one in doubles: every plan costs a whole number, so it may be rounded up, once the
/// solver's own tolerance has been taken off.
fn integral_bound(bound: f64, scale_ns: f64) -> u64 {
    const SOLVER_ERROR: f64 = 2e-9;
    let safe = (bound - SOLVER_ERROR * bound.abs().max(1.0)) * scale_ns;
    match safe {
        safe if safe.is_nan() || safe <= 0.0 => 0,
        safe if safe.is_infinite() => u64::MAX,
        safe => safe.ceil() as u64,
    }
}
