//! Heuristics: methods that give a plan without a proof, each in one file with its source.
//!
//! [`METHODS`] is the one list of them; the command line, the tests and the studies walk it.

pub mod accelerate;
pub(crate) mod alternate;
pub mod antichains;
mod beam_search;
pub(crate) mod bi_partition;
pub(crate) mod binary_search;
pub mod block_counts;
pub(crate) mod block_partition;
pub mod brkga;
mod chunk_even;
pub(crate) mod chunk_exchange;
pub mod deepspeed;
pub mod duan_wu;
pub mod duan_wu_exact_groups;
pub(crate) mod duan_wu_local;
pub(crate) mod equal_layers;
pub mod equal_size;
pub mod fitting;
mod frameworks;
pub mod global_shares;
pub mod grouping;
pub mod intervals;
pub mod local_moves;
pub(crate) mod lpt;
pub mod orders;
pub mod pipedream;
pub mod pipedream_replicated;
pub mod rebalance;
mod recomputed;
pub mod sapp;
pub mod slicing;
pub mod slicing_for;
pub mod torchgpipe;
mod uniform;

use crate::model::units::NS_PER_MS;
use crate::model::words::Words;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// How long a heuristic takes, and so where it is worth running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A few passes over the items: the exact engine runs all of these first.
    Quick,
    /// A search of its own: for problems that quick plans and simple bounds leave open.
    Thorough,
    /// Whatever it takes: a method to compare with, which the exact engine never runs.
    Baseline,
}

/// A method that returns a plan or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Heuristic {
    /// Name on the command line, unique.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// For which problems its plan is optimal, in words.
    pub exact_for: &'static str,
    /// How long it takes.
    pub effort: Effort,
    /// The method itself.
    pub run: Run,
}

/// Asked in every loop that may take long, from any thread: whether to stop with the best plan so far, or with none.
pub(crate) type MustStop<'a> = &'a (dyn Fn() -> bool + Sync);

/// A method where stages have modes.
type ModalRun = fn(&Problem, &Modes, u64, MustStop<'_>) -> Option<Allocation>;

/// A method where devices have several chunks.
type ChunkRun = fn(&Problem, &VirtualStages, u64, MustStop<'_>) -> Option<Assignment>;

/// What a heuristic takes and returns: with a seed, a feasible plan or nothing, the same for the same problem and seed unless
/// it is stopped.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// For problems whose workers are alike, with what it asks of them beyond that.
    Homogeneous(
        fn(&Problem) -> Result<(), Words>,
        fn(&Problem, u64, MustStop<'_>) -> Option<Assignment>,
    ),
    /// For problems whose workers differ or run both phases at once, likewise.
    Heterogeneous(
        fn(&Problem, &Workers) -> Result<(), Words>,
        fn(&Problem, &Workers, u64, MustStop<'_>) -> Option<Allocation>,
    ),
    /// For problems of both kinds, likewise.
    Any(
        fn(&Problem) -> Result<(), Words>,
        fn(&Problem, u64, MustStop<'_>) -> Option<Allocation>,
    ),
    /// For problems whose workers are alike, without modes of stages and with them.
    HomogeneousOrModal(fn(&Problem, u64, MustStop<'_>) -> Option<Assignment>, ModalRun),
    /// For problems whose devices have several chunks.
    Chunks(ChunkRun),
    /// For problems whose stages have modes.
    Modal {
        /// What it asks of them beyond that.
        applies: fn(&Problem, &Modes) -> Result<(), Words>,
        /// The method itself.
        run: ModalRun,
        /// What its own model makes of a plan, in ticks, where it minimises something else than the problem's objective.
        estimate: Option<Estimate>,
    },
}

/// The objective of a method's own model, in ticks.
type Estimate = fn(&Problem, &Modes, &Allocation) -> Option<u128>;

impl Heuristic {
    /// Whether it can be asked at all, or why not.
    pub fn applies(&self, problem: &Problem) -> Result<(), Words> {
        match (self.run, &problem.virtual_stages) {
            (Run::Chunks(_), Some(_)) => return Ok(()),
            (Run::Chunks(_), None) => return Err("every device has one chunk".into()),
            (_, Some(_)) => return Err("it knows no devices of several chunks".into()),
            (_, None) => {}
        }
        if let Some(modes) = &problem.modes {
            return match self.run {
                Run::Modal { applies, .. } => applies(problem, modes),
                Run::HomogeneousOrModal(..) => Ok(()),
                Run::Homogeneous(..) | Run::Heterogeneous(..) | Run::Any(..) | Run::Chunks(_) => {
                    Err("it knows no modes of stages".into())
                }
            };
        }
        match (self.run, &problem.workers) {
            (Run::Modal { .. }, _) => Err("stages have no modes to choose from".into()),
            (Run::Chunks(_), _) => Err("every device has one chunk".into()),
            (Run::HomogeneousOrModal(..), None) => Ok(()),
            (Run::Any(applies, _), _) | (Run::Homogeneous(applies, _), None) => applies(problem),
            (Run::Homogeneous(..) | Run::HomogeneousOrModal(..), Some(_)) => {
                Err("its workers differ or run both phases at once".into())
            }
            (Run::Heterogeneous(..), None) => Err("its workers are all alike".into()),
            (Run::Heterogeneous(applies, _), Some(workers)) => applies(problem, workers),
        }
    }

    /// Runs it where it applies. What it returns is a plan: one that is not feasible, or never ends, is none.
    pub fn plan(&self, problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
        self.applies(problem).ok()?;
        if let Some(modes) = &problem.modes {
            let plan = self.allocate(problem, seed, must_stop)?;
            return cost::modal_ns(problem, modes, &plan).map(|_| plan);
        }
        let Some(workers) = &problem.workers else {
            let plan = self.allocate(problem, seed, must_stop)?;
            return cost::is_feasible(problem, &plan.assignment).then_some(plan);
        };
        // They compare busiest stages where workers differ; an iteration adds up all of them.
        let plan = match problem.formula().is_bottleneck() {
            true => self.allocate(problem, seed, must_stop)?,
            false => self.allocate(&problem.for_the_period(), seed, must_stop)?,
        };
        if_runs(problem, workers, plan)
    }

    /// What its own model makes of a plan, in ms, where that is something else than the problem's objective.
    pub fn estimate_ms(&self, problem: &Problem, plan: &Allocation) -> Option<f64> {
        match self.run {
            Run::Modal {
                estimate: Some(estimate),
                ..
            } => {
                let ticks = estimate(problem, problem.modes.as_ref()?, plan)?;
                Some(ticks as f64 / (problem.settings.ticks_per_ns as f64 * NS_PER_MS))
            }
            _ => None,
        }
    }

    fn allocate(&self, problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
        match self.run {
            Run::Homogeneous(_, run) => run(problem, seed, must_stop).map(Allocation::from),
            Run::Heterogeneous(_, run) => run(problem, problem.workers.as_ref()?, seed, must_stop),
            Run::Any(_, run) => run(problem, seed, must_stop),
            Run::HomogeneousOrModal(run, modal) => match &problem.modes {
                Some(modes) => modal(problem, modes, seed, must_stop),
                None => run(problem, seed, must_stop).map(Allocation::from),
            },
            Run::Modal { run, .. } => run(problem, problem.modes.as_ref()?, seed, must_stop),
            Run::Chunks(run) => {
                let chunks = problem.virtual_stages.as_ref()?;
                run(problem, chunks, seed, must_stop).map(Allocation::from)
            }
        }
    }
}

/// All heuristics: those for workers that are alike, then those for workers that differ or of any kind, each the cheapest first and
/// baselines last; then those for stages with modes, and those for devices of several chunks.
pub const METHODS: &[Heuristic] = &[
    equal_layers::METHOD,
    block_partition::METHOD,
    binary_search::METHOD,
    slicing::METHOD,
    local_moves::METHOD,
    brkga::METHOD,
    bi_partition::METHOD,
    pipedream::METHOD,
    deepspeed::UNIFORM,
    deepspeed::PARAMETERS,
    deepspeed::TYPE,
    block_counts::MEGATRON,
    block_counts::MEGATRON_COUNTED,
    block_counts::MEGATRON_ENDS,
    block_counts::TORCHTITAN,
    block_counts::VLLM,
    block_counts::SGLANG,
    torchgpipe::TIME,
    torchgpipe::SIZE,
    equal_size::METHOD,
    accelerate::METHOD,
    duan_wu::METHOD,
    duan_wu_exact_groups::METHOD,
    duan_wu_local::METHOD,
    lpt::METHOD,
    beam_search::METHOD,
    alternate::METHOD,
    pipedream_replicated::METHOD,
    recomputed::NONE,
    recomputed::ALL,
    recomputed::BLOCK,
    sapp::METHOD,
    chunk_even::METHOD,
    chunk_exchange::METHOD,
];

/// A baseline of a name and a summary.
const fn baseline(
    [name, summary]: [&'static str; 2],
    source: &'static str,
    exact_for: &'static str,
    run: Run,
) -> Heuristic {
    Heuristic {
        name,
        summary,
        source,
        exact_for,
        effort: Effort::Baseline,
        run,
    }
}

/// The heuristic of that name.
pub fn find(name: &str) -> Option<&'static Heuristic> {
    METHODS.iter().find(|method| method.name == name)
}

/// The plan, if it is one.
fn if_feasible(problem: &Problem, assignment: Assignment) -> Option<Assignment> {
    cost::is_feasible(problem, &assignment).then_some(assignment)
}

/// The plan where workers differ, if it is one and ever ends.
fn if_runs(problem: &Problem, workers: &Workers, plan: Allocation) -> Option<Allocation> {
    let runs = workers.is_feasible(problem, &plan) && workers.objective_ns(problem, &plan) < u64::MAX;
    runs.then_some(plan)
}

/// The better of two plans where workers differ; of equals the second.
fn better(problem: &Problem, workers: &Workers, first: Allocation, second: Allocation) -> Allocation {
    match workers.objective_ns(problem, &first) < workers.objective_ns(problem, &second) {
        true => first,
        false => second,
    }
}

/// The plan that lays stages along an order: the item `order[k]` goes to stage `stages[k]`, and stages never go down.
/// Stages nobody uses are skipped.
///
/// Where every stage must be used, items at the end get stages of their own until all are: that splits stages and never
/// joins any, so no stage's work grows.
fn along(problem: &Problem, order: &[usize], stages: &[usize]) -> Assignment {
    let mut assignment = vec![0; order.len()];
    let mut stage = 0;
    for (position, &item) in order.iter().enumerate() {
        if position > 0 && stages[position] > stages[position - 1] {
            stage += 1;
        }
        let left = order.len() - position;
        assignment[item] = match problem.settings.all_stages {
            true => stage.max(problem.stages().saturating_sub(left)),
            false => stage,
        };
    }
    assignment
}
