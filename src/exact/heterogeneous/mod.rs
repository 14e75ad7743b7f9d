//! The exact engine for heterogeneous workers: the steps of each method, and their order.

mod anchored;
mod choices;
mod coarse;
pub(crate) mod ideals;
mod levels;
mod parallel;
pub mod program;
mod search;
mod stage;
pub(crate) mod tree;

use self::program::{Form, Kind};
use self::search::HeterogeneousSearch;
use crate::exact::incumbent::Incumbent;
use crate::exact::method::Method;
use crate::exact::portfolio::Portfolio;
use crate::exact::tuning::TUNING;
use crate::formulations::solver::SolverError;
use crate::heuristics::Effort;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::switches::Switches;
use crate::problem::workers::Workers;

/// What methods are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Heuristics of one kind.
    Incumbents(Effort),
    /// Levels of ideals and free devices, for periods of single devices without transfers, with so many nodes at most.
    Levels(u64),
    /// The anchored stage bound, for periods.
    Anchored,
    /// Passes over ideals of the ordered items, sets of the others, and devices, for periods of single devices, with so many steps at most.
    UnorderedItems(u64),
    /// Passes over ideals and devices, with so many steps at most.
    Ideals(u64),
    /// The same, and beside them passes over cells of ideals from coarse to fine.
    CellsBesideIdeals(u64),
    /// One pass over ideals and devices for an iteration.
    Iteration,
    /// Exhaustive search, with so many steps at most.
    Tree(u64),
    /// The mixed-integer program.
    Program {
        /// Whether the problem is reduced and windows are narrowed.
        presolve: bool,
    },
}

impl Step {
    /// Whether a problem has use for it, and no switch is off that it needs.
    fn applies(self, problem: &Problem, switches: &Switches) -> bool {
        let is_period = problem.formula().is_bottleneck();
        match self {
            Self::Incumbents(_) => switches.incumbents,
            Self::Levels(_) => switches.device_levels && is_period && problem.confined.is_none(),
            Self::Anchored => switches.anchored && is_period,
            Self::UnorderedItems(_) => switches.unordered_items && is_period,
            Self::Ideals(_) => switches.ideals,
            Self::CellsBesideIdeals(_) => {
                switches.coarse_to_fine && is_period && workers_are_monotone(problem)
            }
            Self::Iteration => switches.labelled_ideals,
            Self::Tree(_) => switches.exhaustive,
            Self::Program { presolve } => switches.program || !presolve,
        }
    }
}

/// What all methods but the textbook's begin with. Levels find better plans than thorough heuristics wherever they apply, and sooner.
const FIRST: [Step; 4] = [
    Step::Incumbents(Effort::Quick),
    Step::Levels(TUNING.nodes_of_levels[0]),
    Step::Incumbents(Effort::Thorough),
    Step::Anchored,
];

/// What comes first of passes over ideals and devices: the few that need no second thread, then both kinds.
const FEW_IDEALS: Step = Step::Ideals(TUNING.steps_before_cells);
const UNORDERED: Step = Step::UnorderedItems(TUNING.steps_of_unordered_items);
const CELLS: Step = Step::CellsBesideIdeals(TUNING.steps_beside_cells);

/// The steps of a method for a problem behind [`FIRST`]; none where the method cannot prove anything.
///
/// One share for all stages ties them together, and so does memory that depends on both passes of a layer: states of one stage
/// after the other cannot say that. For shares there is the program, for either exhaustive search while items are few.
/// Otherwise ideals come first, from coarse to fine. Where they are many and places for items are few, the program of single devices is soon the
/// better one: `layer_gnmt_inference` with its CPU takes 0.9 s so, and minutes with ideals alone. With many places, or for
/// groups, it comes last: `operator_bert_l-12_inference` takes 1.5 s with ideals, and minutes with the program.
fn steps(method: Method, problem: &Problem, workers: &Workers) -> &'static [Step] {
    let places = problem.items.len() * problem.stages() * workers.choices.len();
    let is_tied = problem.shares_are_global() || problem.memory_is_joint();
    let is_small = problem.items.len() <= tree::MOST_ITEMS;
    let form = Form::new(problem, workers).ok();
    match (method, form.map(|form| form.kind())) {
        (Method::Textbook | Method::Milp, None) => &[],
        (Method::Textbook, Some(_)) => &[Step::Program { presolve: false }],
        (Method::Milp, Some(_)) => &[Step::Program { presolve: true }],
        (Method::Ideals, _) if is_tied => &[],
        (Method::Exact | Method::Ideals, _) if !is_tied && !problem.formula().is_bottleneck() => {
            &[Step::Iteration]
        }
        // Others join items, or exchange them between stages.
        (Method::Exact | Method::Ideals, _) if !is_tied && problem.confined.is_some() => {
            &[Step::Ideals(u64::MAX)]
        }
        (Method::Exact, _) if is_small && problem.confined.is_some() => &[Step::Tree(u64::MAX)],
        (_, _) if problem.confined.is_some() => &[],
        (Method::Ideals, _) => &[UNORDERED, Step::Ideals(u64::MAX)],
        (Method::Exact, None) if is_tied && is_small => &[Step::Tree(u64::MAX)],
        (Method::Exact, None) if is_tied => &[],
        (Method::Exact, None) => &[UNORDERED, FEW_IDEALS, CELLS, Step::Ideals(u64::MAX)],
        (Method::Exact, Some(_)) if is_tied && is_small => &[
            Step::Tree(TUNING.stages_of_tree_first),
            Step::Program { presolve: true },
            Step::Tree(u64::MAX),
        ],
        (Method::Exact, Some(_)) if is_tied => &[Step::Program { presolve: true }],
        // What comes after the program is for what the solver's tolerance leaves open.
        (Method::Exact, Some(_)) if levels::applies(problem, workers) => &[
            UNORDERED,
            FEW_IDEALS,
            CELLS,
            Step::Levels(TUNING.nodes_of_levels[1]),
            Step::Ideals(TUNING.steps_of_devices),
            Step::Program { presolve: true },
            Step::Ideals(u64::MAX),
        ],
        (Method::Exact, Some(Kind::Devices)) if places <= TUNING.few_places_of_devices => &[
            UNORDERED,
            FEW_IDEALS,
            CELLS,
            Step::Ideals(TUNING.steps_of_devices_first),
            Step::Program { presolve: true },
            Step::Ideals(u64::MAX),
        ],
        (Method::Exact, Some(_)) => &[
            UNORDERED,
            FEW_IDEALS,
            CELLS,
            Step::Ideals(TUNING.steps_of_devices),
            Step::Program { presolve: true },
            Step::Ideals(u64::MAX),
        ],
    }
}

/// Whether a method has steps for a problem.
pub(crate) fn applies(method: Method, problem: &Problem, workers: &Workers) -> bool {
    !steps(method, problem, workers).is_empty()
}

/// Whether a stage never takes less time with more items in it.
fn workers_are_monotone(problem: &Problem) -> bool {
    let workers = problem.workers.as_ref();
    workers.is_none_or(|workers| workers.is_monotone(&problem.settings))
}

impl Portfolio for HeterogeneousSearch<'_> {
    type Step = Step;

    fn incumbent(&self) -> &Incumbent<'_> {
        &self.incumbent
    }

    fn take(&mut self, step: Step) -> Result<StoppedBy, SolverError> {
        if !step.applies(self.incumbent.problem, &self.incumbent.control.switches) {
            // Left to other steps.
            return Ok(StoppedBy::SizeLimit);
        }
        match step {
            Step::Incumbents(effort) => self.find_incumbents(effort),
            Step::Levels(most_nodes) => return Ok(self.use_levels(most_nodes)),
            Step::Anchored => self.use_anchors()?,
            Step::UnorderedItems(most_steps) => return Ok(self.use_unordered_items(most_steps)),
            Step::Ideals(most_steps) => return Ok(self.use_ideals(most_steps)),
            Step::CellsBesideIdeals(most_steps) => return Ok(parallel::search(self, most_steps)),
            Step::Iteration => return Ok(self.use_labels()),
            Step::Tree(most_steps) => return Ok(self.use_tree(most_steps)),
            Step::Program { presolve } => return self.use_program(presolve),
        }
        Ok(StoppedBy::Completed)
    }
}

/// Solves a problem.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn solve(
    problem: &Problem,
    workers: &Workers,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut search = HeterogeneousSearch::new(problem, workers, labels, control);
    if method != Method::Textbook {
        search.raise_simple_bounds();
        search.take_all(&FIRST, control)?;
    }
    let steps = steps(method, problem, workers);
    let stopped_by = match (search.incumbent.is_over(), control.must_stop()) {
        (true, _) => StoppedBy::Completed,
        (false, Some(limit)) => limit,
        (false, None) if steps.is_empty() => StoppedBy::NoMethod,
        (false, None) => search.take_all(steps, control)?,
    };
    Ok(search.incumbent.finish(stopped_by))
}

/// Bounds alone.
pub(crate) fn bound(problem: &Problem, workers: &Workers, control: &Control) -> Outcome {
    let mut search = HeterogeneousSearch::new(problem, workers, &[], control);
    search.raise_simple_bounds();
    search.incumbent.finish(StoppedBy::Completed)
}
