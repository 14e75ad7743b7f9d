//! `plan`.

use std::path::Path;

use crate::app::flags::as_flags;
use crate::app::report::{self, Chosen};
use crate::export::{self, Target};
use crate::input::import::config::Asked;
use crate::input::import::given_cluster;
use crate::input::transformer::Precision;
use crate::model::fault::InputError;
use crate::model::options::{Degrees, PipelineOptions, Region, StatePrecision};
use crate::model::spec::{InstanceSpec, SCHEMA};
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Status};
use crate::solve::global_batch::{self, Answer, OfSize, Question, Step};
use crate::solve::posed::Posed;

use super::args::{PlanArgs, ReportFormat};
use super::progress::{StatusLine, catch_interrupts, control};
use super::{CliError, Ending, output};

/// Finds the best plan of a model for a batch and what a framework is told of it.
pub(super) fn plan(args: &PlanArgs) -> Result<Ending, CliError> {
    let files = [&args.plan_output, &args.instance_output];
    files
        .into_iter()
        .flatten()
        .try_for_each(|path| output::check_path(Some(path.as_path())))?;
    let path = args.output.as_deref();
    output::check_path(path)?;
    let format = output::format_of(path, args.format, ReportFormat::Text)?;
    let question = question(args)?;
    catch_interrupts();
    let line = StatusLine::new(args.quiet);
    let show = |step: &Step| line.show(|| in_words(step));
    let control = Control {
        time_limit: Some(args.time_limit()),
        ..control(&args.search, None)
    };
    let answer = global_batch::search(&args.config, &question, &control, &show);
    line.clear();
    let answer = answer?;
    let told = answer.best().map(|best| told(args.options.target, best));
    let chosen = Chosen::new(&answer, args.global_batch, told.transpose()?.flatten());
    tell(args, &answer);
    let (Some(chosen), Some(best)) = (&chosen, answer.best()) else {
        return without_plan(args, &answer, format);
    };
    if let Some(path) = &args.plan_output {
        output::write_file(&report::json(&best.plan), path)?;
    }
    if let Some(path) = &args.instance_output {
        let text = serde_json::to_string_pretty(&instance_of(best))
            .map_err(|error| CliError::Usage(error.to_string().into()))?;
        output::write_file(&(text + "\n"), path)?;
    }
    let text = match format {
        ReportFormat::Text => chosen.text(&output::style(path)),
        ReportFormat::Json => chosen.json(),
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// What is asked.
fn question(args: &PlanArgs) -> Result<Question, InputError> {
    Ok(Question {
        model: Asked {
            sequence: args.sequence,
            precision: Some(precision(&args.options)),
            attention: args.attention.unwrap_or_default(),
            tensor: tensor(&args.options),
            sequence_parallel: true,
            mtp: args.mtp,
            ..Asked::default()
        },
        cluster: args.devices.cluster.as_deref().map(given_cluster).transpose()?,
        efficiency: args.devices.efficiency,
        global_batch: args.global_batch,
        sizes: args.micro_batch.clone(),
        options: args.options.clone(),
    })
}

/// Numbers that the model computes with where training keeps such.
pub(crate) fn precision(options: &PipelineOptions) -> Precision {
    match options.precision {
        Some(StatePrecision::Fp32) => Precision::Fp32,
        Some(StatePrecision::Uniform | StatePrecision::Bf16Mixed | StatePrecision::Fp16Mixed) | None => {
            Precision::Bf16
        }
    }
}

/// Degrees that blocks need modes for.
pub(crate) fn tensor(options: &PipelineOptions) -> Option<Vec<u32>> {
    let Some(Degrees::Only(degrees)) = &options.tensor else {
        return None;
    };
    degrees.iter().map(|&degree| u32::try_from(degree).ok()).collect()
}

fn in_words(step: &Step) -> String {
    let what = match step.otherwise {
        None => format!("micro-batch {}", step.micro_batch),
        Some(choice) => format!("micro-batch {}, {} another", step.micro_batch, choice.name()),
    };
    let bound = format!("bound {:.3} ms", step.bound_ms);
    match step.best_ms {
        None => format!("{:.1} s  no plan yet  {what}: {bound}", step.seconds),
        Some(ms) => format!(
            "{:.1} s  plan {ms:.3} ms  {what}: {bound}  Ctrl-C keeps the plan",
            step.seconds
        ),
    }
}

/// What the framework reads that the plan is for, if it is for one.
pub(crate) fn told(
    target: Option<Region>,
    best: &OfSize,
) -> Result<Option<(&'static Target, String)>, InputError> {
    let Some(target) = target.and_then(|region| export::find(&region.to_string())) else {
        return Ok(None);
    };
    let faulty = |fault| InputError {
        path: None,
        faults: vec![fault],
    };
    let text = (target.write)(&best.instance, &best.plan).map_err(faulty)?;
    Ok(Some((target, text)))
}

/// Notes of the instance, once.
fn tell(args: &PlanArgs, answer: &Answer) {
    let Some(size) = answer.best().or(answer.sizes.first()) else {
        return;
    };
    let notes = size.instance.notes.iter().filter(|_| !args.quiet);
    notes.for_each(|note| output::note(&note.written(as_flags)));
    size.instance
        .warnings
        .iter()
        .for_each(|warning| output::warning(warning));
}

/// The instance of a plan as a file has it.
pub(crate) fn instance_of(size: &OfSize) -> InstanceSpec {
    InstanceSpec {
        schema: Some(SCHEMA.into()),
        name: Some(size.instance.name.clone()),
        ..size.spec.clone()
    }
}

/// Says why there is no plan of the size that needs least, and what would help.
fn without_plan(args: &PlanArgs, answer: &Answer, format: ReportFormat) -> Result<Ending, CliError> {
    let Some(size) = answer.sizes.first() else {
        return Ok(Ending::NothingFound);
    };
    let (instance, mut plan) = (&size.instance, size.plan.clone());
    let line = StatusLine::new(args.quiet);
    helped(args, (size, &mut plan), &line)?;
    line.clear();
    let path: Option<&Path> = args.output.as_deref();
    let text = match format {
        ReportFormat::Text => {
            let mut text = report::text(instance, &plan, &output::style(path));
            let experts = instance.notes.iter().map(|note| note.written(as_flags));
            experts
                .filter(|note| note.starts_with("experts"))
                .for_each(|note| text += &format!("\n{note}\n"));
            text
        }
        ReportFormat::Json => report::json(&plan),
    };
    output::write(&text, path)?;
    Ok(match plan.status {
        Status::Infeasible => Ending::Infeasible,
        _ => Ending::NothingFound,
    })
}

/// Finds out how much memory a plan would need, and with which options there would be one.
fn helped(args: &PlanArgs, (size, plan): (&OfSize, &mut Plan), line: &StatusLine) -> Result<(), CliError> {
    if plan.status != Status::Infeasible {
        return Ok(());
    }
    let posed = Posed::new(&size.instance, &size.options)?;
    let show = |known: &crate::problem::plan::LeastMemory| line.show(|| report::least_memory(known));
    let control = Control {
        time_limit: None,
        ..control(&args.search, None)
    };
    let remedies = posed.help(&size.options, plan, &control, &show)?;
    plan.remedies = remedies.iter().map(|remedy| remedy.written(as_flags)).collect();
    Ok(())
}
