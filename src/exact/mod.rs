//! The exact engine: incumbents, bounds, windows, a mixed-integer program on what is left, and a dynamic program over
//! ideals beside it.

pub mod anchored;
pub mod bounds;
pub mod control;
pub mod highs;
mod highs_c;
pub mod ideals;
pub mod presolve;
mod program;
pub mod reach;
mod search;
pub mod windows;

use self::control::Control;
use self::highs::SolverError;
use self::ideals::{IdealSearch, Pass};
use self::search::Search;
use crate::heuristics::{self, Effort};
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

/// Extensions of a stage that the portfolio tries before anything slower: hundredths of a second's work.
const STEPS_AT_FIRST: u64 = 200_000;

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
        let stopped_by = program::search(&mut search, false, labels)?;
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
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    if method != Method::Ideals {
        anchored::raise(&mut search, &plans, labels)?;
        if search.is_done() {
            return Ok(search.finish(StoppedBy::Completed));
        }
    }
    if method == Method::Ideals {
        let stopped_by = match problem.iteration_micro_batches() {
            None => search_ideals(&mut search, u64::MAX),
            Some(_) => search_labelled_ideals(&mut search),
        };
        return Ok(search.finish(stopped_by));
    }
    let may_use_ideals =
        method == Method::Exact && control.reductions.ideals && problem.iteration_micro_batches().is_none();
    if may_use_ideals {
        let stopped_by = search_ideals(&mut search, STEPS_AT_FIRST);
        if stopped_by != StoppedBy::SizeLimit {
            return Ok(search.finish(stopped_by));
        }
    }
    evolve(&mut search, plans, labels)?;
    if search.is_done() {
        return Ok(search.finish(StoppedBy::Completed));
    }
    if may_use_ideals {
        let stopped_by = search_ideals(&mut search, STEPS_OF_PORTFOLIO);
        if stopped_by != StoppedBy::SizeLimit {
            return Ok(search.finish(stopped_by));
        }
    }
    let stopped_by = program::search(&mut search, true, labels)?;
    Ok(search.finish(stopped_by))
}

/// Lower bounds alone, without a search for plans.
pub fn bound(problem: &Problem, control: &Control) -> Outcome {
    let mut search = Search::new(problem, control);
    find_bounds(&mut search);
    search.finish(StoppedBy::Completed)
}

/// Runs every quick heuristic; returns all plans, the best of which is the incumbent.
fn find_incumbents(search: &mut Search) -> Vec<Assignment> {
    let mut plans = Vec::new();
    for heuristic in heuristics::METHODS
        .iter()
        .filter(|heuristic| heuristic.effort == Effort::Quick)
    {
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

/// The thorough heuristic, and the anchored bound again where it found a better plan.
fn evolve(search: &mut Search, plans: Vec<Assignment>, labels: &[String]) -> Result<(), SolverError> {
    let before_ns = search.upper_ns;
    let better = heuristics::brkga::evolve(search.problem, search.control.seed, &plans);
    better.into_iter().for_each(|plan| search.offer(plan));
    if search.upper_ns == before_ns {
        return Ok(());
    }
    let all: Vec<Assignment> = plans.into_iter().chain(search.incumbent.clone()).collect();
    anchored::raise(search, &all, labels)
}

fn find_bounds(search: &mut Search) {
    for bound in bounds::simple(search.problem) {
        search.raise_bottleneck(bound);
    }
}

/// Passes over the ideals, each for a better plan than the last, until there is none.
fn search_ideals(search: &mut Search, most_steps: u64) -> StoppedBy {
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    let mut ideals = IdealSearch::new(&reduced.problem, search.control, most_steps);
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
            Pass::Found(assignment) => search.offer_reduced(&assignment),
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
