//! Running a task in this process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::outside;
use super::places::resolved_cluster;
use super::row::{Row, RowStatus};
use super::store::Store;
use super::task::{Source, Task};
use crate::app::flags::as_flags;
use crate::input::generate;
use crate::model::fault::InputError;
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::Plan;
use crate::solve::error::Error;
use crate::solve::methods;
use crate::solve::posed::accepted;

/// Runs tasks one after the other and keeps the last instance and problem: tasks of one problem come together, and reading a
/// model takes longer than most heuristics.
pub(crate) struct Solver {
    base: PathBuf,
    instance: Option<(String, Instance)>,
    problem: Option<(PipelineOptions, Problem)>,
}

impl Solver {
    /// A solver for a study in the folder `base`.
    pub(crate) fn new(base: &Path) -> Self {
        Self {
            base: base.to_owned(),
            instance: None,
            problem: None,
        }
    }

    /// Runs a task and keeps its row and plan.
    ///
    /// # Errors
    ///
    /// Where the store cannot be written. Whatever goes wrong with the task is its row.
    pub(crate) fn run(&mut self, task: &Task, store: &Store) -> io::Result<Row> {
        let row = match self.solved(task) {
            Err(error) => {
                let status = match error.is_infeasible() {
                    true => RowStatus::Infeasible,
                    false => RowStatus::Invalid,
                };
                Row::ended(task.clone(), status, Some(error.written(as_flags)))
            }
            Ok(Err(row)) => *row,
            Ok(Ok((mut row, plan))) => {
                if !plan.stages.is_empty() {
                    row.plan = Some(store.keep_plan(&plan.stages)?);
                }
                row
            }
        };
        store.keep(&row)?;
        Ok(row)
    }

    /// A row with its plan, or a row without one.
    fn solved(&mut self, task: &Task) -> Result<Result<(Row, Plan), Box<Row>>, InputError> {
        let base = self.base.clone();
        let (instance, problem) = self.prepare(task)?;
        let row = Row {
            stages: Some(problem.settings.stages),
            layers: Some(instance.network.layers.len()),
            items: Some(problem.items.len()),
            ..Row::ended(task.clone(), RowStatus::Inapplicable, None)
        };
        Ok(match &task.outside {
            None => by_registry(row, instance, problem),
            Some(outside) => outside::row(row, outside, (instance, problem), &base),
        })
    }

    /// The task's problem, from memory where it was the last one too.
    fn prepare(&mut self, task: &Task) -> Result<(&Instance, &Problem), InputError> {
        if self
            .instance
            .as_ref()
            .is_none_or(|(content, _)| *content != task.content)
        {
            self.problem = None;
            self.instance = Some((task.content.clone(), read(task, &self.base)?));
        }
        let (_, instance) = self.instance.as_ref().expect("the instance was just read");
        if self
            .problem
            .as_ref()
            .is_none_or(|(options, _)| *options != task.options)
        {
            let settings = Settings::resolve(instance, &task.options)?;
            self.problem = Some((task.options.clone(), Problem::new(instance, settings)?));
        }
        let (_, problem) = self.problem.as_ref().expect("the problem was just formed");
        Ok((instance, problem))
    }
}

/// What a method of the registry finds.
fn by_registry(mut row: Row, instance: &Instance, problem: &Problem) -> Result<(Row, Plan), Box<Row>> {
    let Some(method) = methods::find(&row.task.method) else {
        row.note = Some(format!("there is no method `{}`", row.task.method));
        return Err(Box::new(row));
    };
    let control = Control {
        time_limit: Some(Duration::from_secs_f64(row.task.time_limit_s)),
        seed: row.task.seed,
        ..Control::default()
    };
    let started = Instant::now();
    let outcome = accepted(instance, problem, method, &control);
    if let Err(Error::Inapplicable { reason, .. }) = outcome {
        row.note = Some(reason.written(as_flags));
        return Err(Box::new(row));
    }
    row.seconds = Some(started.elapsed().as_secs_f64());
    match outcome {
        Ok(plan) => Ok((filled(row, &plan), plan)),
        Err(error) => {
            row.status = RowStatus::Crashed;
            row.note = Some(error.words().written(as_flags));
            Err(Box::new(row))
        }
    }
}

/// Reads or makes the instance of a task; paths are relative to `base`.
///
/// # Errors
///
/// Every fault of the instance.
pub(crate) fn read(task: &Task, base: &Path) -> Result<Instance, InputError> {
    let cluster = task.cluster.as_deref().map(|name| resolved_cluster(name, base));
    match &task.source {
        Source::File(file) => Instance::read(&base.join(file), cluster.as_deref()),
        Source::Generator(name, parameters) => {
            let mut spec = generated(name, parameters);
            if let Some(cluster) = cluster {
                let given = crate::input::import::given_cluster(&cluster)?;
                crate::input::read::fits(&spec, &given)?;
                spec.cluster = Some(given.content);
            }
            Instance::from_spec(&spec)
        }
    }
}

/// Makes what a generator makes of its parameters, which were checked when the task was listed.
fn generated(
    name: &str,
    parameters: &BTreeMap<String, serde_json::Value>,
) -> crate::model::spec::InstanceSpec {
    let pairs = parameters
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), toml::Value::try_from(value).ok()?)));
    let family = generate::find(name);
    let spec = family.and_then(|family| (family.build)(pairs.collect()).ok());
    spec.unwrap_or_default()
}

/// The row with what the plan says.
pub(super) fn filled(row: Row, plan: &Plan) -> Row {
    let statistics = &plan.statistics;
    let has_plan = !plan.stages.is_empty();
    Row {
        status: plan.status.into(),
        stopped_by: Some(plan.stopped_by.to_string()),
        objective_ms: plan.objective_ms,
        bound_ms: plan.bound_ms,
        bound_source: Some(plan.bound_source),
        gap: plan.gap,
        stages_used: has_plan.then_some(plan.stages.len()),
        items_after_presolve: Some(statistics.items_after_presolve),
        binaries: Some(statistics.binaries),
        nodes: Some(statistics.nodes),
        ideals: statistics.ideals,
        ..row
    }
}
