//! The exact engine where every stage runs on one device like any other: the steps of each method, and their order.

mod chain;
pub(crate) mod destructive;
mod diagram;
mod exhaustive;
pub(crate) mod ideals;
mod limits;
pub(crate) mod parallel;
pub mod pendant;
pub(crate) mod program;
pub(crate) mod quick;
pub(crate) mod relaxed;
mod resumed;
pub(crate) mod search;
pub(crate) mod stage_bounds;
pub(crate) mod tree;

use self::program::Extent;
use self::search::HomogeneousSearch;
use crate::exact::incumbent::Incumbent;
use crate::exact::joint_memory;
use crate::exact::method::Method;
use crate::exact::portfolio::Portfolio;
use crate::exact::tuning::{Round, TUNING};
use crate::formulations::solver::SolverError;
use crate::model::options::Communication;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::switches::Switches;
use crate::problem::{Assignment, Problem};

/// What methods are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Quick heuristics.
    Incumbents,
    /// The anchored stage bound.
    Anchored,
    /// What the first stages can carry, for periods with blocking transfers, with so many relaxations a boundary, and steps, at most.
    BoundaryChain([u64; 2]),
    /// The three-block bound.
    ThreeBlock,
    /// What can be proved without pendant items, with so many pairs of ideals at most.
    PendantItems(u64),
    /// The dynamic program over ideals of the ordered items and sets of the others, for periods, with so many steps at most.
    UnorderedItems(u64),
    /// The dynamic program over ideals, for periods, with so many steps at most.
    Ideals(u64),
    /// The dynamic program over ideals with labels, for iterations.
    LabelledIdeals,
    /// The thorough heuristic, and the anchored bound again if it finds a better plan.
    Evolution,
    /// The tree search over ideals, for periods without transfers, with so much work at most.
    IdealTree(u64),
    /// Every assignment, with so many steps at most.
    Exhaustive(u64),
    /// The mixed-integer program.
    Program(Extent),
    /// All searches over ideals that apply, in turn.
    Searches(Round),
    /// The same and the mixed-integer program at the same time.
    Parallel(Round),
}

impl Step {
    /// Whether a problem has use for it, and no switch is off that it needs.
    fn applies(self, problem: &Problem, switches: &Switches) -> bool {
        // What a stage holds may depend on stages that an ideal says nothing of: plans over ideals would break memory.
        let by_ideals = !problem.memory_is_joint();
        let is_accounted = joint_memory::allows_ideals(problem, switches);
        match self {
            Self::Incumbents => switches.incumbents,
            Self::Anchored => switches.anchored,
            Self::BoundaryChain(_) => switches.boundary_chain,
            Self::ThreeBlock => true,
            Self::PendantItems(_) => switches.pendant_items,
            Self::UnorderedItems(_) => switches.unordered_items && by_ideals,
            Self::Ideals(_) => switches.ideals && is_accounted,
            Self::LabelledIdeals => switches.labelled_ideals && by_ideals,
            Self::Evolution => switches.evolution,
            Self::IdealTree(_) => switches.ideal_tree,
            Self::Exhaustive(_) => switches.exhaustive,
            Self::Program(Extent::Textbook) => true,
            Self::Program(Extent::Presolved(_)) => switches.program,
            Self::Searches(_) | Self::Parallel(_) => true,
        }
    }
}

/// The steps of a method in their order.
fn steps(method: Method, problem: &Problem) -> Vec<Step> {
    use Step::*;
    let is_period = problem.formula().is_bottleneck();
    if problem.confined.is_some() {
        // Other steps exchange items between stages, or join them.
        let by_ideals = if is_period {
            Ideals(u64::MAX)
        } else {
            LabelledIdeals
        };
        return vec![Incumbents, by_ideals];
    }
    match method {
        Method::Exact if is_period && !problem.memory_is_joint() => steps_of_period(problem),
        Method::Exact => {
            // Where memory ties stages together quick plans are bad: better ones come before anything that takes a second. The program finds
            // most of them, and is not interrupted; searches beside it begin with little effort.
            let [longer, _, last] = TUNING.rounds;
            let begun = Round {
                nodes: None,
                ..longer
            };
            let quick = [Incumbents, Anchored, Searches(TUNING.short_rounds[0]), Evolution];
            let [few, all] = TUNING.steps_of_assignments.map(Exhaustive);
            let longer = [few, Parallel(begun), Parallel(last), all];
            quick.into_iter().chain(longer).collect()
        }
        Method::Milp => vec![Incumbents, Anchored, Evolution, Program(Extent::Presolved(None))],
        Method::Ideals if is_period => vec![
            Incumbents,
            UnorderedItems(TUNING.steps_of_unordered_items),
            Ideals(u64::MAX),
        ],
        Method::Ideals => vec![Incumbents, LabelledIdeals],
        Method::Textbook => vec![Program(Extent::Textbook)],
    }
}

/// The steps of [`Method::Exact`] for a period, where ideals are of use. What comes after the last round is for what the solver's
/// tolerance leaves open.
///
/// Where any step may be hopeless and another take no time, steps take turns, each with about ten times the effort of the last.
fn steps_of_period(problem: &Problem) -> Vec<Step> {
    use Step::*;
    let places = problem.items.len() * problem.stages();
    let [least_pairs, few_pairs, many_pairs] = TUNING.steps_of_relaxed_pairs;
    let is_small = places <= TUNING.places_of_small_programs;
    let of_relaxed = if is_small { least_pairs } else { few_pairs };
    let short = short_round(problem, of_relaxed);
    const LONGER: Step = Parallel(TUNING.rounds[0]);
    const LONG: Step = Parallel(TUNING.rounds[1]);
    const LAST: Step = Parallel(TUNING.rounds[2]);
    if places > TUNING.places_of_programs {
        return vec![
            Incumbents,
            Anchored,
            Ideals(TUNING.steps_of_ideals_first),
            Evolution,
            Ideals(TUNING.steps_of_ideals_next),
            Program(Extent::Presolved(None)),
            Ideals(u64::MAX),
        ];
    }
    // Without transfers and ties the tree search is mostly over before a program is built.
    if tree::is_line(problem) && problem.ties.is_empty() {
        return vec![
            Incumbents,
            Anchored,
            IdealTree(TUNING.work_of_tree[0]),
            IdealTree(TUNING.work_of_tree[1]),
            LONGER,
            LONG,
            LAST,
            Ideals(u64::MAX),
        ];
    }
    // Few ideals take less time than anything else. Passes that may lie apart have fewer pairs of them, of which many are looked at before
    // a large program takes half of the threads; a small one is soon done.
    let short_ones = match problem.ties.is_empty() {
        true => vec![Ideals(TUNING.steps_of_ideals_first), Searches(short)],
        false if is_small => vec![Searches(short)],
        false => vec![Searches(before_large_programs(problem, short))],
    };
    let first = [
        Incumbents,
        Anchored,
        UnorderedItems(TUNING.steps_of_unordered_items),
    ];
    let [early, late] = with_chain(LONGER, problem);
    // Few pairs without pendant items prove in a tenth of a second what chains of boundaries take seconds for.
    let others = [
        PendantItems(least_pairs),
        BoundaryChain(TUNING.efforts_of_chains[0]),
    ];
    let again = (!is_small).then_some(PendantItems(few_pairs));
    let slow = [
        Evolution,
        early,
        late,
        PendantItems(many_pairs),
        LONG,
        BoundaryChain(TUNING.efforts_of_chains[2]),
        LAST,
        Ideals(u64::MAX),
        Exhaustive(TUNING.steps_of_assignments[1]),
    ];
    let quick = first.into_iter().chain(short_ones).chain(others);
    quick.chain(again).chain(slow).collect()
}

/// A step and the chain of boundaries with its second effort, in the order that is better for the problem.
fn with_chain(step: Step, problem: &Problem) -> [Step; 2] {
    let chain = Step::BoundaryChain(TUNING.efforts_of_chains[1]);
    match problem.items.len() * problem.stages() > TUNING.places_of_chains_first {
        true => [chain, step],
        false => [step, chain],
    }
}

/// Searches over ideals before anything slower, with so many pairs without transfers.
fn short_round(problem: &Problem, work_alone: u64) -> Round {
    let round = match problem.settings.communication {
        Communication::Blocking => TUNING.short_rounds[1],
        Communication::Ignored | Communication::Overlapped => TUNING.short_rounds[0],
    };
    Round { work_alone, ..round }
}

/// The same with more pairs for passes that may lie apart: without transfers where they say something of those with them.
fn before_large_programs(problem: &Problem, short: Round) -> Round {
    let [_, few, many] = TUNING.steps_of_relaxed_pairs;
    match problem.settings.communication {
        Communication::Ignored => Round { pairs: many, ..short },
        Communication::Overlapped => Round {
            pairs: few,
            work_alone: many,
            ..short
        },
        Communication::Blocking => short,
    }
}

/// A search, and names for the items of its problem.
struct Steps<'a> {
    search: HomogeneousSearch<'a>,
    labels: &'a [String],
}

impl Portfolio for Steps<'_> {
    type Step = Step;

    fn incumbent(&self) -> &Incumbent<'_> {
        &self.search.incumbent
    }

    fn take(&mut self, step: Step) -> Result<StoppedBy, SolverError> {
        let Self { search, labels } = self;
        if !step.applies(search.problem(), &search.control().switches) {
            // Left to other steps.
            return Ok(StoppedBy::SizeLimit);
        }
        match step {
            Step::Incumbents => quick::find_incumbents(search),
            Step::Anchored => stage_bounds::raise_by_anchors(search, labels)?,
            Step::BoundaryChain(effort) => return Ok(chain::along_boundaries(search, effort)),
            Step::ThreeBlock => stage_bounds::raise_by_three_blocks(search, labels)?,
            Step::PendantItems(most_pairs) => relaxed::without_pendant_items(search, most_pairs),
            Step::UnorderedItems(most_steps) => return Ok(ideals::over_unordered_items(search, most_steps)),
            Step::Ideals(most_steps) => return Ok(ideals::over_ideals(search, most_steps)),
            Step::LabelledIdeals => return Ok(ideals::over_labelled_ideals(search)),
            Step::Evolution => quick::evolve(search, labels)?,
            Step::IdealTree(most_work) => return Ok(tree::over_ideals(search, most_work)),
            Step::Exhaustive(most_steps) => return Ok(exhaustive::over_assignments(search, most_steps)),
            Step::Program(extent) => return program::search(search, extent, labels),
            Step::Searches(round) => {
                parallel::over_ideals(search, round);
                return Ok(StoppedBy::SizeLimit);
            }
            Step::Parallel(round) => return parallel::search(search, round, labels),
        }
        Ok(StoppedBy::Completed)
    }
}

/// Solves a problem.
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
    let mut search = HomogeneousSearch::new(problem, control);
    // Bounds cost nothing; a plan there is to be even without time, so quick heuristics start before the clock is looked at.
    if method != Method::Textbook {
        search.raise_simple_bounds();
    }
    let mut steps_of = Steps { search, labels };
    let stopped_by = steps_of.take_all(&steps(method, problem), control)?;
    Ok(steps_of.search.incumbent.finish(stopped_by))
}

/// Plans that are found at once.
pub(crate) fn quick_plans(problem: &Problem, control: &Control) -> Vec<Assignment> {
    let mut search = HomogeneousSearch::new(problem, control);
    quick::find_incumbents(&mut search);
    search.plans
}

/// Lower bounds alone. Quick plans tell the bounds what would be of interest; they are not reported.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn bound(problem: &Problem, labels: &[String], control: &Control) -> Result<Outcome, SolverError> {
    let mut search = HomogeneousSearch::new(problem, control);
    search.raise_simple_bounds();
    let mut steps = Steps { search, labels };
    let bounds = [Step::Incumbents, Step::Anchored, Step::ThreeBlock];
    let stopped_by = steps.take_all(&bounds, control)?;
    let outcome = steps.search.incumbent.finish(stopped_by);
    Ok(Outcome {
        allocation: None,
        ..outcome
    })
}
