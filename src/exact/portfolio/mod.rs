//! What methods are made of: steps, and their order.

pub(crate) mod beside;
pub(crate) mod passes;
pub(crate) mod period;
pub(crate) mod program;
pub mod relaxed;

use self::program::Extent;
use crate::control::Control;
use crate::exact::Method;
use crate::exact::bounds::{self, anchored, three_block};
use crate::exact::presolve::Reduced;
use crate::exact::search::Search;
use crate::heuristics::{self, Effort};
use crate::options::Communication;
use crate::plan::{Outcome, StoppedBy};
use crate::problem::{Assignment, Problem};
use crate::solver::SolverError;

/// Extensions of a stage that the portfolio tries before anything slower: hundredths of a second's work.
const STEPS_AT_FIRST: u64 = 200_000;

/// Pairs of slices that the portfolio passes over before anything slower: seconds of work.
const STEPS_OF_PAIRS: u64 = 20_000_000_000;

/// Pairs of slices that it passes over beside the program.
const STEPS_OF_PAIRS_BESIDE: u64 = 100_000_000_000;

/// Extensions after which the portfolio leaves the rest to the program beside the ideals: some tenths of a second's work.
const STEPS_BESIDE: u64 = 5_000_000;

/// Places for items, stages times items, beyond which a program takes longer to build than ideals to search: it comes last
/// and alone. A transformer of 20,000 operators takes 0.5 s so, 2.2 s with a program beside.
const MOST_PLACES: usize = 100_000;

/// What methods are made of. A step ends the search, or leaves it to the next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Quick heuristics.
    Incumbents,
    /// The anchored stage bound.
    Anchored,
    /// What can be proved of the period, for iterations.
    Period,
    /// The three-block bound.
    ThreeBlock,
    /// What can be proved without transfers, for overlapped ones.
    WorkAlone,
    /// What can be proved without items that take no time and hang on one other.
    DeadEnds,
    /// The dynamic program over pairs of ideals, for periods of problems in two parts, with so many steps at most.
    IdealPairs(u64),
    /// The dynamic program over ideals, for periods, with so many steps at most.
    Ideals(u64),
    /// The dynamic program over ideals with labels, for iterations.
    LabelledIdeals,
    /// The thorough heuristic, and the anchored bound again if it finds a better plan.
    Evolution,
    /// The mixed-integer program.
    Program(Extent),
    /// The dynamic program over ideals, with so many steps at most, and the mixed-integer program at the same time.
    Beside(u64),
}

/// The steps of a method in their order. What comes after the whole program is for what the solver's tolerance leaves open.
fn steps(method: Method, problem: &Problem) -> &'static [Step] {
    use Step::*;
    let is_period = problem.formula().is_bottleneck();
    // Ideals are of no use then, and so is the order that suits them.
    let is_joint = problem.memory_is_joint();
    let is_blocking = problem.settings.communication == Communication::Blocking;
    match method {
        Method::Ideals if is_joint => &[Incumbents],
        Method::Exact if is_period && !is_joint && problem.items.len() * problem.stages() > MOST_PLACES => &[
            Incumbents,
            Anchored,
            Ideals(STEPS_AT_FIRST),
            Evolution,
            Ideals(STEPS_BESIDE),
            Program(Extent::Presolved),
            Ideals(u64::MAX),
        ],
        // Fronts tell much where transfers are blocking.
        Method::Exact if is_period && !is_joint && is_blocking => &[
            Incumbents,
            Anchored,
            IdealPairs(STEPS_OF_PAIRS),
            Program(Extent::Few),
            DeadEnds,
            Ideals(STEPS_AT_FIRST),
            Evolution,
            Beside(STEPS_BESIDE),
            Ideals(u64::MAX),
        ],
        Method::Exact if is_period && !is_joint => &[
            Incumbents,
            Anchored,
            Program(Extent::Few),
            WorkAlone,
            IdealPairs(STEPS_OF_PAIRS),
            DeadEnds,
            Ideals(STEPS_AT_FIRST),
            Evolution,
            Beside(STEPS_BESIDE),
            Ideals(u64::MAX),
        ],
        Method::Exact => &[
            Incumbents,
            Period,
            Anchored,
            Evolution,
            Program(Extent::Presolved),
            LabelledIdeals,
        ],
        Method::Milp => &[
            Incumbents,
            Period,
            Anchored,
            Evolution,
            Program(Extent::Presolved),
        ],
        Method::Ideals if is_period => &[Incumbents, Ideals(u64::MAX)],
        Method::Ideals => &[Incumbents, LabelledIdeals],
        Method::Textbook => &[Program(Extent::Textbook)],
    }
}

/// Solves a problem whose workers are alike.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down; never for a limit or an infeasible problem.
pub(crate) fn solve(
    problem: &Problem,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut search = Search::new(problem, control);
    // Bounds cost nothing; a plan there is to be even without time, so quick heuristics start before the clock is looked at.
    if method != Method::Textbook {
        find_bounds(&mut search);
    }
    let mut stopped_by = StoppedBy::Completed;
    for &step in steps(method, problem) {
        stopped_by = take(step, &mut search, labels)?;
        if search.is_done() {
            stopped_by = StoppedBy::Completed;
        }
        if search.is_over() {
            break;
        }
        if let Some(limit) = control.must_stop() {
            stopped_by = limit;
            break;
        }
    }
    Ok(search.finish(stopped_by))
}

/// Takes a step; returns why it stopped.
fn take(step: Step, search: &mut Search, labels: &[String]) -> Result<StoppedBy, SolverError> {
    let switches = search.control.switches;
    match step {
        Step::Incumbents if switches.incumbents => find_incumbents(search),
        Step::Incumbents => {}
        Step::Anchored => anchored::raise(search, labels)?,
        Step::Period => period::raise(search, labels)?,
        Step::ThreeBlock => three_block::raise(search, labels)?,
        Step::WorkAlone => relaxed::work_alone(search, labels)?,
        Step::DeadEnds => relaxed::dead_ends(search, labels)?,
        // What a stage holds may depend on stages that an ideal says nothing of: plans over ideals would break memory.
        Step::IdealPairs(_) | Step::Ideals(_) | Step::LabelledIdeals if search.problem.memory_is_joint() => {
            return Ok(StoppedBy::SizeLimit);
        }
        Step::IdealPairs(most_steps) => {
            let all = switches
                .ideal_pairs
                .then(|| passes::over_ideal_pairs(search, most_steps));
            return Ok(match all {
                Some(Some(stopped_by)) => stopped_by,
                _ if switches.coarse => passes::over_coarse_pairs(search),
                _ => StoppedBy::SizeLimit,
            });
        }
        Step::Ideals(most_steps) if switches.ideals => return Ok(passes::over_ideals(search, most_steps)),
        Step::LabelledIdeals if switches.labelled_ideals => return Ok(passes::over_labelled_ideals(search)),
        Step::Evolution if switches.evolution => evolve(search, labels)?,
        Step::Evolution => {}
        Step::Program(Extent::Few) if !switches.few_binaries => {}
        Step::Program(Extent::Textbook) => return program::search(search, Extent::Textbook, labels),
        Step::Program(extent) if switches.program => return program::search(search, extent, labels),
        Step::Beside(most_steps) if switches.beside && switches.ideals && switches.program => {
            return beside::search(search, most_steps, labels);
        }
        Step::Beside(most_steps) => {
            take(Step::Ideals(most_steps), search, labels)?;
            if search.is_over() || search.control.must_stop().is_some() {
                return Ok(StoppedBy::Completed);
            }
            return take(Step::Program(Extent::Presolved), search, labels);
        }
        // Switched off: left to other steps.
        Step::Ideals(_) | Step::LabelledIdeals | Step::Program(_) => return Ok(StoppedBy::SizeLimit),
    }
    Ok(StoppedBy::Completed)
}

/// Lower bounds alone, where workers are alike. Quick plans tell the bounds what would be of interest; they are not reported.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn bound(problem: &Problem, labels: &[String], control: &Control) -> Result<Outcome, SolverError> {
    use Step::*;
    let mut search = Search::new(problem, control);
    find_bounds(&mut search);
    for step in [Incumbents, Anchored, Period, ThreeBlock] {
        take(step, &mut search, labels)?;
    }
    let outcome = search.finish(control.must_stop().unwrap_or(StoppedBy::Completed));
    Ok(Outcome {
        allocation: None,
        ..outcome
    })
}

/// Runs every quick heuristic; with separate cuts also on the problem with tied ones, whose plans are plans for both.
fn find_incumbents(search: &mut Search) {
    let problem = search.problem;
    offer_quick_plans(search, problem, |plan| plan);
    if !problem.ties.is_empty() {
        let tied = Reduced::tied(problem);
        offer_quick_plans(search, &tied.problem, |plan| tied.lift(&plan));
    }
}

fn offer_quick_plans(search: &mut Search, problem: &Problem, lift: impl Fn(Assignment) -> Assignment) {
    let quick = |heuristic: &&heuristics::Heuristic| heuristic.effort == Effort::Quick;
    for heuristic in heuristics::METHODS.iter().filter(quick) {
        let control = search.control;
        if let Some(plan) = heuristic.plan(problem, control.seed, &|| control.must_stop().is_some()) {
            search.offer(lift(plan.assignment));
        }
        if control.must_stop().is_some() {
            return;
        }
    }
}

fn find_bounds(search: &mut Search) {
    for bound in bounds::simple(search.problem) {
        search.raise_bottleneck(bound);
    }
}

/// Runs the thorough heuristic from all plans so far.
fn evolve(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let before_ns = search.upper_ns;
    let must_stop = || search.control.must_stop().is_some();
    let better = heuristics::brkga::evolve(search.problem, search.control.seed, &search.plans, &must_stop);
    better.into_iter().for_each(|plan| search.offer(plan));
    match search.upper_ns < before_ns {
        true => anchored::raise(search, labels),
        false => Ok(()),
    }
}
