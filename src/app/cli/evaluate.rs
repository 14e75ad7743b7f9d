//! `check --evaluate`.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::app::flags::as_flags;
use crate::app::report;
use crate::app::report::format::{Digits, count};
use crate::export::megatron_stages;
use crate::formulations::solver::SolverError;
use crate::model::fault::{InputError, printable};
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::words::Writer;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::bare::BarePlan;
use crate::problem::plan::{ChunkSize, Overrun, Plan, PlanStage, Status, bare};
use crate::solve::evaluate::{self, Evaluation};
use crate::solve::methods;
use crate::solve::posed::options_by_size;

use super::args::{CheckArgs, ReportFormat};
use super::check::{Line, failed};
use super::progress::{StatusLine, catch_interrupts, interrupt_control, of_search};
use super::{CliError, Ending, output};

/// Costs stages that somebody else chose, and lists what is wrong with them.
pub(super) fn evaluate(args: &CheckArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.as_deref())?;
    let Asked {
        instance,
        stages,
        options,
    } = Asked::read(args)?;
    let search = |problem: &Problem| bound(args, &instance, problem);
    let bounding: Option<Bounding> = if args.bound { Some(&search) } else { None };
    let from_file = (&stages, args.plan.as_deref());
    let (evaluation, bound) = evaluated(&instance, &options, from_file, bounding)?;
    let passes = evaluation.violations.is_empty();
    let text = match args.format {
        ReportFormat::Text => text(args, &instance, &evaluation, bound.as_ref()),
        ReportFormat::Json => json(&evaluation, bound.is_some(), as_flags)?,
    };
    output::write(&text, None)?;
    if !passes {
        return Ok(Ending::CheckFailed);
    }
    if let Some(path) = &args.output {
        output::write(&report::json(&evaluation.plan), Some(path))?;
    }
    Ok(Ending::Done)
}

/// Stages that are to be costed, and of what.
struct Asked {
    instance: Instance,
    stages: BarePlan,
    options: PipelineOptions,
}

impl Asked {
    /// Reads them from a file, or takes those of a layout.
    fn read(args: &CheckArgs) -> Result<Self, CliError> {
        let options = &args.problem.options;
        if let Some(layout) = &args.layout {
            let instance = args.problem.read(args.quiet)?;
            let (stages, options) = megatron_stages::stages(&instance, layout, options)?;
            return Ok(Self {
                instance,
                stages,
                options,
            });
        }
        let path = args.plan.as_deref().unwrap_or(Path::new(""));
        let (stages, carried) = bare::read_with_cluster(path)?;
        Ok(Self {
            instance: args.problem.read_for(carried.as_ref(), args.quiet)?,
            stages,
            options: options.clone(),
        })
    }

    /// What the stages are called.
    fn name(args: &CheckArgs) -> String {
        let file = args.plan.as_ref().map(|path| path.display().to_string());
        args.layout.clone().or(file).unwrap_or_default()
    }
}

/// Finds a bound of a problem.
pub(crate) type Bounding<'a> = &'a dyn Fn(&Problem) -> Result<Plan, SolverError>;

/// What stages, from a file if that has a name, come to, held against a bound where one is to be found; at the best size of chunks of a prompt,
/// where one is to be chosen.
pub(crate) fn evaluated(
    instance: &Instance,
    options: &PipelineOptions,
    stages: (&BarePlan, Option<&Path>),
    bounding: Option<Bounding>,
) -> Result<(Evaluation, Option<Plan>), CliError> {
    let (mut each, mut bounds) = (Vec::new(), Vec::new());
    for options in &options_by_size(instance, options)? {
        let (evaluation, bound) = evaluated_as_given(instance, options, stages, bounding)?;
        each.push(evaluation);
        bounds.extend(bound);
    }
    let bound = match bounds.len() {
        0 | 1 => bounds.pop(),
        _ => Plan::best_of_sizes(bounds),
    };
    let best = Evaluation::best_of_sizes(each);
    Ok((best.expect("a size at least"), bound))
}

/// The same with nothing left to choose.
fn evaluated_as_given(
    instance: &Instance,
    options: &PipelineOptions,
    (stages, path): (&BarePlan, Option<&Path>),
    bounding: Option<Bounding>,
) -> Result<(Evaluation, Option<Plan>), CliError> {
    let settings = evaluate::settings(instance, options, stages)?;
    let problem = Problem::new(instance, settings.clone());
    let in_file = |error: InputError| InputError {
        path: path.map(Path::to_owned),
        ..error
    };
    let evaluated = evaluate::evaluate(instance, &settings, problem.as_ref().ok(), stages);
    let mut evaluation = evaluated.map_err(in_file)?;
    let bound = match (bounding, problem) {
        (None, _) => None,
        (Some(bounding), Ok(problem)) => Some(bounding(&problem)?),
        (Some(_), Err(error)) if error.is_infeasible() => {
            Some(Plan::infeasible(instance, &settings, methods::BOUND))
        }
        (Some(_), Err(error)) => return Err(error.into()),
    };
    if let Some(bound) = &bound {
        contradiction(&evaluation, bound)?;
        evaluation.hold_against(&settings, bound);
    }
    Ok((evaluation, bound))
}

/// The best bound that the time allows.
fn bound(args: &CheckArgs, instance: &Instance, problem: &Problem) -> Result<Plan, SolverError> {
    catch_interrupts();
    let line = StatusLine::new(args.quiet);
    let show =
        |progress: &crate::problem::control::Progress| line.show(|| of_search(progress, &problem.settings));
    let control = Control {
        time_limit: Some(Duration::from_secs_f64(args.time_limit)),
        progress: Some(&show),
        ..interrupt_control()
    };
    let bound = methods::bounded(instance, problem, &control);
    line.clear();
    bound
}

/// A plan that can be run, and a proof that there is none so good, cannot both be right.
fn contradiction(evaluation: &Evaluation, bound: &Plan) -> Result<(), CliError> {
    let (true, Some(objective_ms)) = (evaluation.violations.is_empty(), evaluation.plan.objective_ms) else {
        return Ok(());
    };
    /// Times are whole ns on either path, up to the rounding of a share.
    const TOLERANCE_MS: f64 = 2e-6;
    let is_beaten = bound
        .bound_ms
        .is_some_and(|bound_ms| bound_ms > objective_ms + TOLERANCE_MS);
    match is_beaten || bound.status == Status::Infeasible {
        false => Ok(()),
        true => Err(CliError::Broken(format!(
            "two results contradict each other: the stages take {objective_ms} ms and pass their check, and it is proved that no plan takes less than {:?} ms",
            bound.bound_ms
        ))),
    }
}

fn text(args: &CheckArgs, instance: &Instance, evaluation: &Evaluation, bound: Option<&Plan>) -> String {
    let Evaluation { plan, violations, .. } = evaluation;
    let shown = Asked::name(args);
    let stages = count(plan.stages.len(), "stage");
    let objective = match plan.objective_ms {
        Some(ms) => format!("{ms:.6} ms"),
        None => "none, since not every stage has a time".into(),
    };
    let mut lines: Vec<String> = plan
        .overruns
        .iter()
        .map(|overrun| format!("note: {overrun}"))
        .collect();
    if violations.is_empty() {
        lines.push(format!(
            "`{shown}` passes: {stages} of `{}`, objective {objective}",
            instance.name
        ));
    } else {
        lines.extend(failed(&shown, violations));
        lines.push(format!("objective if it could be run: {objective}"));
    }
    lines.extend(plan.stages.iter().map(stage));
    if violations.is_empty() {
        let digits = Digits::for_ms(plan.objective_ms.unwrap_or(0.0));
        lines.extend(report::how_it_runs(plan, digits));
        lines.extend(report::sizes(plan, digits).map(|sizes| format!("chunks of {sizes}")));
    }
    if bound.is_some() {
        lines.push(bound_line(plan, violations.is_empty(), bound));
    }
    lines.iter().map(|line| printable(line) + "\n").collect()
}

/// What a stage comes to, in a line.
fn stage(stage: &PlanStage) -> String {
    let names = if stage.forward.is_empty() {
        &stage.backward
    } else {
        &stage.forward
    };
    let layers = match names.as_slice() {
        [] => "no layer".to_owned(),
        [only] => only.clone(),
        [first, .., last] => format!("{first} .. {last} ({})", names.len()),
    };
    format!(
        "  stage {}: {layers} on {}: load {:.6} ms, transfers {:.6} ms, {} bytes",
        stage.index,
        stage.devices.join(" "),
        stage.load_ms,
        stage.communication_ms,
        stage.memory_bytes
    )
}

/// The bound, and how far the stages are from it.
fn bound_line(plan: &Plan, passes: bool, bound: Option<&Plan>) -> String {
    if bound.is_some_and(|bound| bound.status == Status::Infeasible) {
        return "bound: it is proved that there is no plan".into();
    }
    let bound_ms = plan.bound_ms.unwrap_or(0.0);
    let source = plan.bound_source.name();
    let stands = match (passes, plan.status) {
        (false, _) => String::new(),
        (true, Status::Optimal) => ", so it is proved that no plan is better".into(),
        (true, _) => format!(", {:.2} % below the objective", 100.0 * plan.gap.unwrap_or(0.0)),
    };
    format!("bound: {bound_ms:.6} ms, by `{source}`{stands}")
}

/// What stages come to, for programs.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    instance: &'a str,
    passes: bool,
    /// What it takes, or would if it could be run.
    objective_ms: Option<f64>,
    /// No plan takes less; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_source: Option<BoundSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    violations: Vec<Line>,
    /// Stages that hold more than their memory if transfers are to be hidden.
    overruns: &'a [Overrun],
    /// What is known of each size that chunks of a prompt were chosen from.
    #[serde(skip_serializing_if = "<[ChunkSize]>::is_empty")]
    chunk_sizes: &'a [ChunkSize],
    /// The stages with their numbers, as plans have them.
    stages: &'a [PlanStage],
}

/// What stages come to, for programs.
pub(crate) fn json(evaluation: &Evaluation, with_bound: bool, writer: Writer) -> Result<String, CliError> {
    let Evaluation { plan, violations, .. } = evaluation;
    let passes = violations.is_empty();
    let report = Report {
        schema: "stagecut-evaluation/1",
        instance: &plan.instance,
        passes,
        objective_ms: plan.objective_ms,
        bound_ms: plan.bound_ms.filter(|_| with_bound),
        bound_source: with_bound.then_some(plan.bound_source),
        gap: plan.gap.filter(|_| with_bound && passes),
        violations: (violations.iter())
            .map(|violation| Line::new(violation, writer))
            .collect(),
        overruns: &plan.overruns,
        chunk_sizes: &plan.chunk_sizes,
        stages: &plan.stages,
    };
    let text =
        serde_json::to_string_pretty(&report).map_err(|error| CliError::Usage(error.to_string().into()))?;
    Ok(text + "\n")
}
