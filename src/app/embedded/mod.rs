//! What other languages call: the commands of the program as functions, with documents in JSON as the command line writes them.
//!
//! Nothing is decided here. A binding passes names and values on, gets the same plans, checks and reports, and is told what is wrong
//! as a [`Failure`]. Options have the names of the command line with `_` for `-`, see [`options()`].

mod asked;
mod failure;
mod network;
mod plan;
mod study;
mod what_if;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use asked::{names, options, request};
pub use failure::{Failure, Kind, Told};
pub use network::{Cluster, Network};
pub use plan::plan;
pub use study::{Study, toml_of};
pub use what_if::what_if;

use crate::app::cli;
use crate::app::report::{self, ComparisonRow, Standing};
use crate::check::pose;
use crate::export;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::model::words::BY_FIELD;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Status, bare, parse};
use crate::schedule::simulate::{Request, simulate as run};
use crate::solve::error::Error;
use crate::solve::methods;
use crate::solve::planning::{self, Options, Watch};
use crate::solve::posed::{MethodResult, Posed};

/// `solve`: the plan, in JSON; where there is none for lack of memory, with how much one would need.
///
/// # Errors
///
/// [`Failure`].
pub fn solve(instance: &Instance, options: &Options, watch: Watch) -> Result<String, Failure> {
    let posed = Posed::new(instance, &options.pipeline)?;
    let search = |control: &Control| posed.solve(options.method, control);
    let mut plan = options.watched(&posed.settings, watch, search)?;
    if plan.status == Status::Infeasible {
        let control = options.control(watch.interrupt);
        let remedies = posed.help(&options.pipeline, &mut plan, &control, &|_| ())?;
        plan.remedies = remedies.iter().map(|remedy| remedy.written(BY_FIELD)).collect();
    }
    plan.unrestricted = posed.unrestricted(&plan, &options.control(watch.interrupt))?;
    Ok(report::json(&plan))
}

/// What `solve --confirm` tells.
#[derive(Serialize)]
struct Confirmed {
    /// The plan, with the method that confirms it.
    plan: Plan,
    /// Why none does.
    note: Option<String>,
}

/// `solve --confirm`, of the plan that [`solve`] gave back: the plan with what a second method says, in JSON.
///
/// # Errors
///
/// [`Failure`]; a second method that proves something else among them.
pub fn confirm(instance: &Instance, options: &Options, plan: &str, watch: Watch) -> Result<String, Failure> {
    let mut plan = read_plan(plan)?;
    let posed = Posed::new(instance, &options.pipeline)?;
    let search = |control: &Control| posed.confirm(&mut plan, control);
    let note = options.watched(&posed.settings, watch, search)?;
    let note = note.map(|note| note.to_string());
    Ok(json(&Confirmed { plan, note }))
}

/// `bound`: a plan without stages, in JSON.
///
/// # Errors
///
/// [`Failure`].
pub fn bound(instance: &Instance, options: &Options, watch: Watch) -> Result<String, Failure> {
    Ok(report::json(&planning::bound(instance, options, watch)?))
}

/// Stages that a function of the caller found, as a method beside ours.
#[derive(Debug, Deserialize)]
pub struct Other {
    /// What it is called.
    method: String,
    /// What it found, as `evaluate` gives it back; absent without one.
    plan: Option<Box<Plan>>,
    /// How long it took.
    seconds: f64,
    /// Why there is no plan.
    note: Option<String>,
}

/// What `compare` tells.
#[derive(Serialize)]
struct Comparison {
    /// As `compare --format json` writes them.
    rows: Value,
    /// Plans of the methods that have one.
    plans: std::collections::BTreeMap<String, Plan>,
}

/// `compare`: the rows and the plans, in JSON.
///
/// * `methods`: their names; by default those of the command line;
/// * `others`: what the caller's own methods found, in JSON.
///
/// # Errors
///
/// [`Failure`]; two results that cannot both be right among them.
pub fn compare(
    instance: &Instance,
    options: &Options,
    (methods, others): (Option<&[String]>, &str),
    watch: Watch,
) -> Result<String, Failure> {
    let posed = Posed::new(instance, &options.pipeline)?;
    let methods = match methods {
        None => methods::beside_each_other(posed.problem()?),
        Some(names) => {
            let known =
                |name: &String| asked::method(name).map_err(|kind| InputError::option("methods", kind));
            names.iter().map(known).collect::<Result<_, _>>()?
        }
    };
    let others: Vec<Other> = asked::document(others, "the methods")?;
    let mut rows = Vec::new();
    let mut plans = std::collections::BTreeMap::new();
    for other in others {
        let row = ComparisonRow::of_method(&other.method, "the caller", other.seconds);
        rows.push(match &other.plan {
            Some(plan) => row.with_plan(plan),
            None => ComparisonRow {
                status: Standing::NoPlan,
                note: other.note,
                ..row
            },
        });
        plans.extend(other.plan.map(|plan| (other.method, *plan)));
    }
    let search = |control: &Control| posed.compare(&methods, control);
    for compared in options.watched(&posed.settings, watch, search)? {
        rows.push(ComparisonRow::new(&compared, BY_FIELD));
        if let MethodResult::Plan(plan) = compared.result {
            plans.insert(compared.method.name().to_owned(), *plan);
        }
    }
    if let Some(what) = report::contradiction(&rows) {
        return Err(Error::Contradiction(what.into()).into());
    }
    let rows = serde_json::from_str(&report::comparison_json(&rows)).unwrap_or_default();
    Ok(json(&Comparison { rows, plans }))
}

/// `check`: what is wrong with a plan, in JSON, on the cluster that it carries. `options` are those asked; by default what the plan states.
///
/// # Errors
///
/// [`Failure`].
pub fn check(network: &Network, options: Option<&Options>, plan: &str) -> Result<String, Failure> {
    let there = network.of_plan(plan)?;
    let instance = there.instance();
    let plan = read_plan(plan)?;
    let asked = options.map_or(&plan.problem, |options| &options.pipeline);
    let mut posed = pose(instance, asked, &plan)?;
    if network.instance().given_cluster.is_none() {
        posed.claimed.splice(0..0, cli::check::claimed_cluster(&plan));
    }
    let verdict = cli::plans::verdict(instance, &posed, &plan);
    Ok(cli::check::json(&plan, &posed, &verdict, BY_FIELD)?)
}

/// What `evaluate` tells: what stages come to, and the same as a whole plan.
#[derive(Serialize)]
struct Evaluated<'a> {
    evaluation: Value,
    plan: &'a Plan,
}

/// `check --evaluate`: what stages cost, in JSON, held against a bound where `with_bound`.
///
/// # Errors
///
/// [`Failure`].
pub fn evaluate(
    instance: &Instance,
    options: &Options,
    (stages, with_bound): (&str, bool),
    watch: Watch,
) -> Result<String, Failure> {
    let stages = bare::parse(stages.as_bytes()).map_err(of_document)?;
    let bound = |problem: &Problem| {
        let search = |control: &Control| methods::bounded(instance, problem, control);
        options.watched(&problem.settings, watch, search)
    };
    let bound: Option<cli::evaluate::Bounding> = if with_bound { Some(&bound) } else { None };
    let (evaluation, _) = cli::evaluate::evaluated(instance, &options.pipeline, (&stages, None), bound)?;
    let text = cli::evaluate::json(&evaluation, with_bound, BY_FIELD)?;
    Ok(json(&Evaluated {
        evaluation: serde_json::from_str(&text).unwrap_or_default(),
        plan: &evaluation.plan,
    }))
}

/// What a method is asked, in JSON: the instance and the problem with nothing left open, as commands of studies get them.
///
/// # Errors
///
/// [`Failure`].
pub fn question(instance: &Instance, options: &Options, method: &str) -> Result<String, Failure> {
    let settings = Settings::resolve(instance, &options.pipeline)?;
    let time_limit_s = options.time_limit.map(|limit| limit.as_secs_f64());
    let asked = (options.seed, time_limit_s, method);
    Ok(crate::app::study::outside::question(instance, &settings, asked))
}

/// `simulate`: the run, in JSON.
///
/// # Errors
///
/// [`Failure`].
pub fn simulate(plan: &str, asked: &str) -> Result<String, Failure> {
    let plan = read_plan(plan)?;
    let request: Request = request(asked, &plan)?;
    Ok(report::simulation_json(&run(&plan, &request)?))
}

/// `simulate --format svg`: the timeline.
///
/// # Errors
///
/// [`Failure`].
pub fn timeline(plan: &str, asked: &str) -> Result<String, Failure> {
    let plan = read_plan(plan)?;
    let request: Request = request(asked, &plan)?;
    Ok(report::timeline(&run(&plan, &request)?))
}

/// `show`: the network as `svg` or `dot`, coloured by stage where there is a plan.
///
/// # Errors
///
/// [`Failure`].
pub fn show(network: &Network, plan: Option<&str>, format: &str) -> Result<String, Failure> {
    let there = plan.map(|plan| network.of_plan(plan)).transpose()?;
    let instance = there.as_ref().unwrap_or(network).instance();
    let plan = plan.map(read_plan).transpose()?;
    if let Some(plan) = &plan {
        cli::plans::refuse_foreign(instance, Path::new("the network"), plan, Path::new("the plan"))?;
    }
    match format {
        "svg" => Ok(report::svg(instance, plan.as_ref())),
        "dot" => Ok(report::dot(instance, plan.as_ref())),
        _ => {
            let known = vec!["svg".into(), "dot".into()];
            let found = format.into();
            Err(InputError::option("format", FaultKind::UnknownValue { found, known }).into())
        }
    }
}

/// `export`: what a framework reads; with the order of a file, where that is given.
///
/// # Errors
///
/// [`Failure`].
pub fn export(network: &Network, plan: &str, target: &str, order: Option<&Path>) -> Result<String, Failure> {
    let there = network.of_plan(plan)?;
    let plan = read_plan(plan)?;
    let target = export::find(target).ok_or_else(|| {
        let known = export::TARGETS.iter().map(|target| target.name.into()).collect();
        let found = target.into();
        InputError::option("target", FaultKind::UnknownValue { found, known })
    })?;
    let places = (Path::new("the network"), Path::new("the plan"));
    Ok(cli::export::exported(
        target,
        there.instance(),
        &plan,
        places,
        order,
    )?)
}

/// What a program looks like in a file.
#[derive(Serialize)]
struct Formulated {
    unit_ns: f64,
    binaries: usize,
    rows: usize,
}

/// `formulate`: writes the program and tells its size, in JSON.
///
/// # Errors
///
/// [`Failure`].
pub fn formulate(instance: &Instance, options: &Options, path: &Path) -> Result<String, Failure> {
    let planning = planning::formulate(instance, options, path)?;
    Ok(json(&Formulated {
        unit_ns: planning.unit_ns,
        binaries: planning.binaries,
        rows: planning.rows,
    }))
}

/// Runs the command line; returns its exit code.
pub fn program(arguments: Vec<String>) -> u8 {
    let words = std::iter::once("stagecut".to_owned()).chain(arguments);
    let cli = match cli::parse(words.map(Into::into)) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli::run(cli) {
        Ok(ending) => ending.code(),
        Err(error) => {
            error.print();
            error.code()
        }
    }
}

fn read_plan(text: &str) -> Result<Plan, Failure> {
    parse(text.as_bytes()).map_err(of_document)
}

/// Faults of a document that is in no file.
fn of_document(faults: Vec<crate::model::fault::Fault>) -> Failure {
    InputError { path: None, faults }.into()
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("documents have string keys alone")
}
