//! The result of a task: the row of a study.

use serde::{Deserialize, Serialize};

use super::collect::Judged;
use super::task::{Task, json};
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::Status;

/// A row: the task, and what came of it. What does not apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// How it ended.
    pub status: RowStatus,
    /// Why the search stopped, where it came to that.
    pub stopped_by: Option<String>,
    /// Objective of the plan in ms.
    pub objective_ms: Option<f64>,
    /// The method's own lower bound in ms.
    pub bound_ms: Option<f64>,
    /// The bound that proves most.
    pub bound_source: Option<BoundSource>,
    /// (objective - bound) / objective, by the method's own bound.
    pub gap: Option<f64>,
    /// Stages that were allowed, with every default decided.
    pub stages: Option<usize>,
    /// Stages that the plan uses.
    pub stages_used: Option<usize>,
    /// Layers of the network.
    pub layers: Option<usize>,
    /// Items of the problem.
    pub items: Option<usize>,
    /// Items after presolve.
    pub items_after_presolve: Option<usize>,
    /// Binaries of the program that was solved.
    pub binaries: Option<usize>,
    /// Branch-and-bound nodes.
    pub nodes: Option<u64>,
    /// Ideals that a dynamic program visited.
    pub ideals: Option<usize>,
    /// Hash of the plan's stages, the name under which the store keeps them.
    pub plan: Option<String>,
    /// A remark, such as why the method does not apply or what a crash said last.
    pub note: Option<String>,
    /// Wall-clock seconds of the method alone.
    pub seconds: Option<f64>,
    /// Seconds before them that a command from outside took to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_seconds: Option<f64>,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
    /// A plan that the method's own bound proves.
    Optimal,
    /// A plan without a proof.
    Feasible,
    /// Proved that there is no plan.
    Infeasible,
    /// Neither a plan nor a proof.
    Unknown,
    /// The method is not made for this problem.
    Inapplicable,
    /// The instance or its options are faulty.
    Invalid,
    /// The search went on beyond its limit and was ended.
    OverLimit,
    /// The process ran out of memory.
    OutOfMemory,
    /// The process died of something else, or its answer failed the checker.
    Crashed,
}

impl RowStatus {
    /// The word that files use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::Unknown => "unknown",
            Self::Inapplicable => "inapplicable",
            Self::Invalid => "invalid",
            Self::OverLimit => "over-limit",
            Self::OutOfMemory => "out-of-memory",
            Self::Crashed => "crashed",
        }
    }

    /// Whether the method was stopped by what should not have happened.
    pub fn is_failure(self) -> bool {
        self >= Self::Invalid
    }
}

impl std::fmt::Display for RowStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl From<Status> for RowStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Optimal => Self::Optimal,
            Status::Feasible => Self::Feasible,
            Status::Infeasible => Self::Infeasible,
            Status::Unknown => Self::Unknown,
        }
    }
}

impl Row {
    /// A row with nothing but an ending.
    pub fn ended(task: Task, status: RowStatus, note: Option<String>) -> Self {
        Self {
            task,
            status,
            stopped_by: None,
            objective_ms: None,
            bound_ms: None,
            bound_source: None,
            gap: None,
            stages: None,
            stages_used: None,
            layers: None,
            items: None,
            items_after_presolve: None,
            binaries: None,
            nodes: None,
            ideals: None,
            plan: None,
            note,
            seconds: None,
            startup_seconds: None,
        }
    }

    /// The row as one line of JSON, without the newline.
    pub fn line(&self) -> String {
        json(self)
    }
}

/// A row as CSV has it, where nothing is nested.
#[derive(Serialize)]
struct Flat<'a> {
    id: &'a str,
    instance: &'a str,
    family: &'a str,
    source: String,
    content: &'a str,
    cluster: Option<&'a str>,
    options: String,
    method: &'a str,
    seed: u64,
    time_limit_s: f64,
    memory_limit_bytes: Option<u64>,
    program: &'a str,
    status: RowStatus,
    stopped_by: Option<&'a str>,
    objective_ms: Option<f64>,
    bound_ms: Option<f64>,
    bound_source: Option<BoundSource>,
    gap: Option<f64>,
    stages: Option<usize>,
    stages_used: Option<usize>,
    layers: Option<usize>,
    items: Option<usize>,
    items_after_presolve: Option<usize>,
    binaries: Option<usize>,
    nodes: Option<u64>,
    ideals: Option<usize>,
    plan: Option<&'a str>,
    note: Option<&'a str>,
    seconds: Option<f64>,
    startup_seconds: Option<f64>,
    best_bound_ms: Option<f64>,
    gap_to_best_bound: Option<f64>,
}

/// Rows as CSV; columns are the names of the JSON, with `options` as `name=value` and `source` as JSON.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub(crate) fn csv(rows: &[Judged]) -> Result<String, ::csv::Error> {
    crate::app::report::to_csv(rows.iter().map(
        |&Judged {
             row,
             best_bound_ms,
             gap_to_best_bound,
         }| Flat {
            id: &row.task.id,
            instance: &row.task.instance,
            family: &row.task.family,
            source: json(&row.task.source),
            content: &row.task.content,
            cluster: row.task.cluster.as_deref(),
            options: row.task.options_text(),
            method: &row.task.method,
            seed: row.task.seed,
            time_limit_s: row.task.time_limit_s,
            memory_limit_bytes: row.task.memory_limit_bytes,
            program: &row.task.program,
            status: row.status,
            stopped_by: row.stopped_by.as_deref(),
            objective_ms: row.objective_ms,
            bound_ms: row.bound_ms,
            bound_source: row.bound_source,
            gap: row.gap,
            stages: row.stages,
            stages_used: row.stages_used,
            layers: row.layers,
            items: row.items,
            items_after_presolve: row.items_after_presolve,
            binaries: row.binaries,
            nodes: row.nodes,
            ideals: row.ideals,
            plan: row.plan.as_deref(),
            note: row.note.as_deref(),
            seconds: row.seconds,
            startup_seconds: row.startup_seconds,
            best_bound_ms,
            gap_to_best_bound,
        },
    ))
}
