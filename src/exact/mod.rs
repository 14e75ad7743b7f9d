//! The exact engine: incumbents, bounds, windows, a mixed-integer program on what is left, and a dynamic program over
//! ideals beside it.

pub mod anchored;
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
use crate::oracles;
use crate::plan::{Outcome, StoppedBy};
use crate::problem::{Assignment, Problem};

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
        summary: "incumbents, bounds, ideals, and the program within windows",
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

/// Extensions of a stage after which the portfolio leaves the ideals to the program: some tenths of a second's work.
const STEPS_OF_PORTFOLIO: u64 = 5_000_000;

/// Solves a problem.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down; never for a limit or an infeasible problem.
pub fn solve(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut search = Search::new(problem, control);
    if method == Method::Textbook {
        let stopped_by = search_program(&mut search, None, labels)?;
        return Ok(search.finish(stopped_by));
    }
    let plans = find_incumbents(&mut search);
    find_bounds(&mut search);
    if search.is_done() {
        return Ok(search.finish(StoppedBy::Completed));
    }
    if let Some(stopped_by) = control.must_stop() {
        return Ok(search.finish(stopped_by));
    }
    if method != Method::Ideals {
        anchored::raise(&mut search, &plans, labels)?;
        if search.is_done() {
            return Ok(search.finish(StoppedBy::Completed));
        }
    }
    let reach = Reach::new(problem);
    if method != Method::Milp {
        let stopped_by = match (problem.iteration_micro_batches(), method) {
            (None, Method::Ideals) => search_ideals(&mut search, u64::MAX),
            (None, _) => search_ideals(&mut search, STEPS_OF_PORTFOLIO),
            (Some(_), Method::Ideals) => search_labelled_ideals(&mut search),
            (Some(_), _) => StoppedBy::SizeLimit,
        };
        if method == Method::Ideals || stopped_by != StoppedBy::SizeLimit {
            return Ok(search.finish(stopped_by));
        }
    }
    let stopped_by = search_program(&mut search, Some(&reach), labels)?;
    Ok(search.finish(stopped_by))
}

/// Lower bounds alone, without a search for plans.
pub fn bound(problem: &Problem, control: &Control) -> Outcome {
    let mut search = Search::new(problem, control);
    find_bounds(&mut search);
    search.finish(StoppedBy::Completed)
}

/// Runs every heuristic; returns all plans, the best of which is the incumbent.
fn find_incumbents(search: &mut Search) -> Vec<Assignment> {
    let mut plans = Vec::new();
    for heuristic in heuristics::METHODS {
        if (heuristic.applies)(search.problem).is_ok()
            && let Some(assignment) = (heuristic.run)(search.problem, search.control.seed)
        {
            search.offer(assignment.clone());
            plans.push(assignment);
        }
        if search.control.must_stop().is_some() {
            break;
        }
    }
    plans
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
        search.control.report(
            (search.upper_ns < u64::MAX).then_some(search.upper_ns),
            search.lower_ns,
        );
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

/// The oracle over ideals, which weighs sums and maxima together: iterations need that, and pay for it.
fn search_labelled_ideals(search: &mut Search) -> StoppedBy {
    let control = search.control;
    let solved = oracles::ideals::solve(search.problem, oracles::ideals::DEFAULT_CAP, &|| {
        control.must_stop().is_some()
    });
    match solved {
        Ok(solution) => {
            search.statistics.ideals = Some(solution.ideals);
            if let Some((assignment, _)) = solution.best {
                search.offer(assignment);
            }
            search.exhausted("ideals");
            StoppedBy::Completed
        }
        Err(_) => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}

/// Solves the mixed-integer program again and again, each time for a plan better than the last, until there is none.
///
/// Only a run that ends without any solution proves the incumbent. HiGHS 1.11 to 1.15.1 sometimes call a solution optimal
/// that is not, when their own heuristics found it during the run (6 of 20,000 small random programs, such as seed 1199
/// of `tests/exact.rs`); asked for anything better than that solution, they find it.
///
/// `reach` gives windows; without it the program is the textbook's, and its first run has no cut-off.
fn search_program(
    search: &mut Search,
    reach: Option<&Reach>,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    loop {
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return Ok(StoppedBy::Completed);
        };
        let windows = match reach {
            Some(reach) => windows::from_work(search.problem, reach, limit_ns),
            None => Windows::all(search.problem),
        };
        if windows.some_is_empty() {
            search.exhausted("windows");
            return Ok(StoppedBy::Completed);
        }
        let solved = run_program(search, &windows, limit_ns, labels)?;
        match solved {
            Stop::Limit(stopped_by) => return Ok(stopped_by),
            Stop::Infeasible => return Ok(StoppedBy::Completed),
            Stop::Optimal if search.is_done() => return Ok(StoppedBy::Completed),
            Stop::Optimal => {}
        }
    }
}

/// One run of the program, for plans of at most the search's target.
fn run_program(
    search: &mut Search,
    windows: &Windows,
    limit_ns: u64,
    labels: &[String],
) -> Result<Stop, SolverError> {
    let problem = search.problem;
    let (incumbent_ns, lower_ns, target_ns) = (search.upper_ns, search.lower_ns, search.target_ns());
    let Partition { program, columns } =
        Partition::build(problem, windows, limit_ns, Some(target_ns), labels);
    search.statistics.binaries = program.binaries();
    let scale_ns = program.scale_ns;
    let watch = |report: highs_c::Report| {
        let found = report
            .primal_bound
            .is_finite()
            .then_some(report.primal_bound * scale_ns);
        let best = found.map_or(incumbent_ns, |ns| incumbent_ns.min(ns as u64));
        let bound_ns = (report.dual_bound * scale_ns).max(0.0) as u64;
        let bound_ns = bound_ns.max(lower_ns).min(best);
        search.control.report((best < u64::MAX).then_some(best), bound_ns);
    };
    let solved = highs::solve(program, None, search.control, &watch)?;
    search.statistics.nodes += solved.nodes;
    if let Some(assignment) = solved
        .values
        .as_deref()
        .and_then(|values| columns.assignment(values))
    {
        search.offer(assignment);
    }
    let improved = search.upper_ns < incumbent_ns;
    match solved.stop {
        Stop::Infeasible => search.exhausted("program"),
        // A solution of at most the target that costs no less than the incumbent: rounding, beyond which nothing is left.
        Stop::Optimal if !improved && search.incumbent.is_some() => search.exhausted("program"),
        _ => {
            let bound_ns = integral_bound(solved.bound, scale_ns).min(target_ns);
            search.raise("program", bound_ns.min(search.unproved_ns()));
        }
    }
    Ok(solved.stop)
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
