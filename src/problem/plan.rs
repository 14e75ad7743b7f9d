//! The answer: a plan, what is proved of it, and how it was found.

pub mod bare;
mod cluster;
#[cfg(feature = "cli")]
mod held;
mod modal;
mod order;
mod read;
mod room;
mod run;
mod sizes;
pub mod split;
mod stage;
mod throughput;
mod times;
mod virtual_stages;
mod weights;

#[cfg(feature = "cli")]
pub(crate) use cluster::{agreed, difference, read_on};
#[cfg(feature = "cli")]
pub use held::Held;
pub use order::PlanOrder;
#[cfg(feature = "cli")]
pub(crate) use read::Form;
pub use read::{parse, read};
pub use run::PlanRun;
pub use sizes::ChunkSize;
pub use stage::{Moved, PlanMode, PlanStage, Transfers};
pub use throughput::Throughput;
pub use times::{PlanTimes, TimesBasis};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::instance::Instance;
use crate::model::options::{Cuts, PipelineOptions};
use crate::model::settings::Settings;
use crate::model::spec::GivenCluster;
pub use crate::model::spec::PLAN_SCHEMA as SCHEMA;
use crate::problem::Problem;
pub use crate::problem::TooLarge;
pub use crate::problem::bound_source::BoundSource;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use split::Split;
use stage::plan_stages;

/// A plan as files and reports hold it.
///
/// Plans of other planners may be built in code and checked, so its fields are open; a later version may have more of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The format's version.
    pub schema: String,
    /// Name of the instance.
    pub instance: String,
    /// Method that was asked for.
    pub method: String,
    /// What was found.
    pub status: Status,
    /// Why the search stopped.
    pub stopped_by: StoppedBy,
    /// Objective in ms; absent without a plan.
    pub objective_ms: Option<f64>,
    /// No plan can be better than this, in ms; absent where infeasible.
    pub bound_ms: Option<f64>,
    /// (objective - bound) / objective; absent where either is.
    pub gap: Option<f64>,
    /// The bound that proves most.
    pub bound_source: BoundSource,
    /// Tokens that every device has room for in its cache, those that were asked for among them: what is left of the memory of the fullest
    /// decides. Absent in training, without a plan, and where no layer says what it keeps of a token or no memory is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// No plan has room for more tokens than this; absent unless the most are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_bound: Option<u64>,
    /// What is known of each size that the chunks of the prompt were chosen from; empty where none was to be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_sizes: Vec<ChunkSize>,
    /// The problem, with nothing left open.
    pub problem: PipelineOptions,
    /// The cluster that took the place of the instance's own; absent where the plan runs on that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<GivenCluster>,
    /// How it runs: iteration, period, fill and drain. Absent without a plan, where the schedule never flushes, where nobody says how many
    /// micro-batches there are or they are too many to be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<PlanRun>,
    /// Tokens a second, and the part of peak, of `run` where that is told and by the objective elsewhere; absent where the network does not say
    /// what a micro-batch is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Of which kind the times of layers are, on each kind of device: peak, calibrated or measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<PlanTimes>,
    /// The stages, in pipeline order; empty without a plan.
    pub stages: Vec<PlanStage>,
    /// The order in which devices run the stages, where it was chosen together with them: what stages hold is then a matter of this order, and
    /// the schedule of the problem has no say. Absent where the schedule tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<PlanOrder>,
    /// Layers that separate cuts split; absent with tied cuts and without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Why there is no plan, where the options alone say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Options with which a plan was found where there is none as it was asked, each as the command line has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// What is known of plans that keep to no region, where one is asked for (`target`, `uniform`): absent where there was no time to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestricted: Option<Unrestricted>,
    /// How much memory a plan would need; absent unless there is no plan for lack of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_memory: Option<LeastMemory>,
    /// Stages that hold more than their memory once so many micro-batches are in flight as hide overlapped transfers: the plan
    /// runs with the schedule's own number of them and a longer period. Absent where all stages fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overruns: Vec<Overrun>,
    /// How it was found.
    pub statistics: Statistics,
}

/// A stage that has no room for as many micro-batches as hide its transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Overrun {
    /// The stage, from 1.
    pub stage: usize,
    /// Micro-batches in flight that hide its transfers.
    pub in_flight: u64,
    /// Bytes that it would hold then.
    pub memory_bytes: u64,
    /// By how much they exceed its memory.
    pub over_bytes: u64,
}

impl std::fmt::Display for Overrun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            stage,
            in_flight,
            memory_bytes,
            over_bytes,
        } = self;
        write!(
            f,
            "stage {stage} needs {in_flight} micro-batches in flight to hide its transfers, and {memory_bytes} bytes for \
             them, {over_bytes} more than it has"
        )
    }
}

/// What a search found. Whether it is proved has one answer: `optimal` and `infeasible` are, the others are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A plan whose objective meets the bound.
    Optimal,
    /// A plan without a proof.
    Feasible,
    /// Proved that there is no plan.
    Infeasible,
    /// Neither a plan nor a proof that there is none.
    Unknown,
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StoppedBy {
    /// It was done: the method has nothing left to try.
    Completed,
    /// The gap asked for was reached.
    Gap,
    /// The time limit.
    TimeLimit,
    /// Ctrl-C, or a caller's interrupt.
    Interrupt,
    /// The memory that the search may take.
    MemoryLimit,
    /// A cap of the method, such as the number of ideals.
    SizeLimit,
    /// No method proves this kind of problem at its size: plans are found, and that is all.
    NoMethod,
    /// HiGHS broke down on a part of the search; the other parts are done.
    SolverError,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::Unknown => "unknown",
        })
    }
}

impl std::fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Completed => "completed",
            Self::Gap => "gap",
            Self::TimeLimit => "time-limit",
            Self::Interrupt => "interrupt",
            Self::SizeLimit => "size-limit",
            Self::MemoryLimit => "memory-limit",
            Self::NoMethod => "no-method",
            Self::SolverError => "solver-error",
        })
    }
}

/// Plans of the same problem without its region.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Unrestricted {
    /// The best one that was found, in ms; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective_ms: Option<f64>,
    /// None takes less, in ms.
    pub bound_ms: f64,
}

/// How much memory a plan needs, the same for every stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LeastMemory {
    /// It is proved that no plan fits less, in bytes.
    pub at_least_bytes: u64,
    /// There is a plan that fits this, in bytes; absent where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_bytes: Option<u64>,
    /// Layers that no stage could hold, even if it held nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<TooLarge>,
    /// Where devices differ and each has its own memory: what one kind would need if all others stayed as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_kind: Vec<KindMemory>,
}

/// How much memory a kind of device needs for there to be a plan, while all others keep theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KindMemory {
    /// The kind.
    pub kind: String,
    /// What a device of it has, in bytes.
    pub has_bytes: u64,
    /// It is proved that less is not enough, in bytes.
    pub at_least_bytes: u64,
    /// There is a plan with so much, in bytes; absent where none was found, however much it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_bytes: Option<u64>,
}

/// How a plan was found. What does not apply to a method is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Statistics {
    /// Wall-clock seconds from the problem to the plan.
    pub seconds: f64,
    /// Branch-and-bound nodes.
    pub nodes: u64,
    /// How often the search looked at the clock, which it does after as many steps of its own: with one thread the same on every machine,
    /// where nothing but the work that is done ends the search.
    #[serde(default)]
    pub looks: u64,
    /// Items before presolve.
    pub items: usize,
    /// Items after presolve.
    pub items_after_presolve: usize,
    /// Binaries of the program that was solved.
    pub binaries: usize,
    /// Ideals that a dynamic program visited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideals: Option<usize>,
    /// The second exact method that proves the same, where one was asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// What the method's own model makes of the plan, in ms, where it minimises something else than the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_ms: Option<f64>,
    /// Lower bounds that were computed, by name, in ms.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds_ms: BTreeMap<BoundSource, f64>,
}

/// What a search knows when it stops, in the problem's own terms.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The best plan found: stages of items and, where workers differ, what they run on.
    pub allocation: Option<Allocation>,
    /// No assignment costs less than this many ns; `u64::MAX` when there is none at all.
    pub bound_ns: u64,
    /// The bound that gave `bound_ns`.
    pub bound_source: BoundSource,
    /// Why the search stopped.
    pub stopped_by: StoppedBy,
    /// How it went.
    pub statistics: Statistics,
}

impl Outcome {
    /// The one conservative answer to what was found.
    pub fn status(&self, problem: &Problem) -> Status {
        match &self.allocation {
            Some(allocation) => {
                let objective_ns = objective_ns(problem, allocation);
                match is_proved(objective_ns, self.bound_ns) {
                    true => Status::Optimal,
                    false => Status::Feasible,
                }
            }
            None if self.bound_ns == u64::MAX => Status::Infeasible,
            None => Status::Unknown,
        }
    }
}

/// Whether a bound proves an objective, both in whole ns: whatever a solver's tolerance is, it stays inside the solver.
#[doc(hidden)]
pub fn is_proved(objective_ns: u64, bound_ns: u64) -> bool {
    bound_ns >= objective_ns
}

impl Plan {
    /// Its stages, each as many times as it has replicas.
    pub fn workers(&self) -> usize {
        let replicas = self.stages.iter().map(PlanStage::replicas);
        replicas.fold(0, usize::saturating_add)
    }

    /// Chunks of every device where they are several; `None` where each stage is a device's own.
    pub fn virtual_stages(&self) -> Option<usize> {
        let chunks = self.problem.virtual_stages.as_ref()?.only_one();
        chunks.filter(|&chunks| chunks > 1)
    }

    /// Replicas of all stages together where each is a row of devices by itself, which runs its part of the micro-batches as if it were alone: those
    /// of plans with virtual stages. Else 1.
    pub fn replicas_of_rows(&self) -> usize {
        let chunks = self.virtual_stages().and(self.stages.first());
        chunks.map_or(1, PlanStage::replicas)
    }

    /// What is asked of the plan: what is asked of all, and what it chose of virtual stages where there is a choice.
    #[doc(hidden)]
    pub fn settled(settings: &Settings, stages: &[PlanStage]) -> Settings {
        let of_first = |first: &PlanStage| {
            stages
                .iter()
                .filter(|stage| stage.devices == first.devices)
                .count()
        };
        let chunks = stages.first().map_or(0, of_first);
        match settings.modal && settings.may_have_virtual_stages() && chunks > 0 {
            true => settings.with_chunks(stages.len() / chunks, chunks),
            false => settings.clone(),
        }
    }

    /// Lifts an outcome to layers, costs every stage again and states what is proved.
    #[doc(hidden)]
    pub fn new(instance: &Instance, problem: &Problem, method: &str, outcome: Outcome) -> Self {
        let status = outcome.status(problem);
        let objective_ns = outcome
            .allocation
            .as_ref()
            .map(|allocation| objective_ns(problem, allocation));
        // A bound above the objective stays as it is, for the check to find: one of the two is wrong.
        let bound_ns = (status != Status::Infeasible).then_some(outcome.bound_ns);
        let gap = match (objective_ns, bound_ns) {
            (Some(0), Some(_)) => Some(0.0),
            (Some(objective), Some(bound)) => Some(objective.saturating_sub(bound) as f64 / objective as f64),
            _ => None,
        };
        let stages = match &outcome.allocation {
            None => Vec::new(),
            Some(allocation) => stages_of(instance, problem, allocation),
        };
        let is_split = problem.settings.cuts == Cuts::Separate && !stages.is_empty();
        let objective_ms = objective_ns.map(|ns| problem.settings.ms(ns));
        Self {
            schema: SCHEMA.into(),
            instance: instance.name.clone(),
            method: method.into(),
            status,
            // A proof completes the search, even one that comes with the limit.
            stopped_by: match status {
                Status::Optimal | Status::Infeasible => StoppedBy::Completed,
                Status::Feasible | Status::Unknown => outcome.stopped_by,
            },
            objective_ms,
            bound_ms: bound_ns.map(|ns| problem.settings.ms(ns)),
            gap,
            bound_source: outcome.bound_source,
            tokens: room::tokens(instance, &problem.settings, &stages),
            tokens_bound: None,
            chunk_sizes: Vec::new(),
            problem: Self::settled(&problem.settings, &stages).to_options(instance),
            cluster: instance.given_cluster.clone(),
            run: None,
            throughput: Throughput::new(instance, &problem.settings, (objective_ms, None), &stages),
            times: PlanTimes::of(instance, &problem.settings),
            order: None,
            split: is_split.then(|| Split::new(instance, &problem.settings, &stages)),
            stages,
            reasons: match status {
                Status::Infeasible => problem.settings.reasons(instance),
                _ => Vec::new(),
            },
            remedies: Vec::new(),
            unrestricted: None,
            least_memory: None,
            overruns: Vec::new(),
            statistics: match status {
                // What no plan reaches says nothing of how long one takes.
                Status::Infeasible => Statistics {
                    bounds_ms: BTreeMap::new(),
                    ..outcome.statistics
                },
                _ => outcome.statistics,
            },
        }
    }

    /// Says how it runs, if that is known, and what it comes to in tokens a second, where its objective has become known.
    pub(crate) fn state_run(&mut self, instance: &Instance, settings: &Settings, run: Option<PlanRun>) {
        self.run = run;
        self.throughput = Throughput::new(instance, settings, (self.objective_ms, run), &self.stages);
    }

    /// Takes what another search of the same problem has found: its plan where that is better, and its bound where that says more.
    #[cfg(feature = "cli")]
    pub(crate) fn learn(&mut self, other: Self) {
        let objective_ms = |plan: &Self| plan.objective_ms.unwrap_or(f64::INFINITY);
        // Without a bound there is proved to be no plan.
        let bound_ms = |plan: &Self| plan.bound_ms.unwrap_or(f64::INFINITY);
        let is_better = objective_ms(&other) < objective_ms(self);
        let (mut kept, left) =
            match is_better || (self.stages.is_empty() && bound_ms(&other) > bound_ms(self)) {
                true => (other.clone(), &*self),
                false => (self.clone(), &other),
            };
        if bound_ms(left) > bound_ms(&kept) && left.bound_ms.is_some() {
            (kept.bound_ms, kept.bound_source) = (left.bound_ms, left.bound_source);
        }
        kept.statistics.seconds = self.statistics.seconds + other.statistics.seconds;
        kept.stopped_by = other.stopped_by;
        if let (Some(objective_ms), Some(bound_ms)) = (kept.objective_ms, kept.bound_ms) {
            let is_proved = bound_ms >= objective_ms;
            (kept.status, kept.stopped_by) = match is_proved {
                true => (Status::Optimal, StoppedBy::Completed),
                false => (kept.status, other.stopped_by),
            };
            // A plan to beat is no better than what it bounds.
            kept.bound_ms = Some(bound_ms.min(objective_ms));
            kept.gap = Some(if objective_ms > 0.0 {
                ((objective_ms - bound_ms) / objective_ms).max(0.0)
            } else {
                0.0
            });
        }
        *self = kept;
    }

    /// Whether it says what gradients of weights take.
    pub fn says_weights(&self) -> bool {
        self.weight_share().is_some() || self.stages.iter().any(|stage| stage.weight_ms.is_some())
    }

    /// The part of every backward pass that is gradients of weights, where its order was chosen for one.
    pub fn weight_share(&self) -> Option<f64> {
        self.order.as_ref().and_then(|order| order.weight_share)
    }

    /// The plan that there is not, because some layer fits no stage.
    #[doc(hidden)]
    pub fn infeasible(instance: &Instance, settings: &Settings, method: &str) -> Self {
        Self {
            schema: SCHEMA.into(),
            instance: instance.name.clone(),
            method: method.into(),
            status: Status::Infeasible,
            stopped_by: StoppedBy::Completed,
            objective_ms: None,
            bound_ms: None,
            gap: None,
            bound_source: BoundSource::MemoryOfALayer,
            tokens: None,
            tokens_bound: None,
            chunk_sizes: Vec::new(),
            problem: settings.to_options(instance),
            cluster: instance.given_cluster.clone(),
            run: None,
            throughput: None,
            times: PlanTimes::of(instance, settings),
            stages: Vec::new(),
            order: None,
            split: None,
            reasons: settings.reasons(instance),
            remedies: Vec::new(),
            unrestricted: None,
            least_memory: None,
            overruns: Vec::new(),
            statistics: Statistics::default(),
        }
    }
}

/// The case that a plan is of, where problems are told apart, with the plan there.
fn case_of<'a>(problem: &'a Problem, plan: &Allocation) -> Option<(&'a Problem, Allocation)> {
    let (case, assignment) = problem.case_of(&plan.assignment)?;
    let plan = Allocation {
        assignment,
        ..plan.clone()
    };
    Some((case, plan))
}

fn stages_of(instance: &Instance, problem: &Problem, allocation: &Allocation) -> Vec<PlanStage> {
    if let Some((case, allocation)) = case_of(problem, allocation) {
        return stages_of(instance, case, &allocation);
    }
    match (&problem.modes, &problem.virtual_stages) {
        (Some(modes), _) => modal::stages(instance, problem, modes, allocation),
        (None, Some(of)) => virtual_stages::stages(instance, problem, of, allocation),
        (None, None) => plan_stages(instance, problem, allocation),
    }
}

/// The objective of a plan in ns.
#[doc(hidden)]
pub fn objective_ns(problem: &Problem, allocation: &Allocation) -> u64 {
    if let Some((case, allocation)) = case_of(problem, allocation) {
        return objective_ns(case, &allocation);
    }
    if let Some(modes) = &problem.modes {
        return cost::modal_ns(problem, modes, allocation).unwrap_or(u64::MAX);
    }
    match &problem.workers {
        None => cost::assignment_ns(problem, &allocation.assignment),
        Some(workers) => workers.objective_ns(problem, allocation),
    }
}
