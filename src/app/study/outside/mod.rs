//! Methods from outside: a command that reads a problem as JSON on stdin and writes stages to stdout, as JSON or CSV.
//!
//! It runs in a process of its own below the worker, with the worker's limit of memory, and ends with it, as does whatever it
//! starts. What it answers is costed and checked like stages of `check --evaluate`. Its own time begins where it first reads its stdin: the first byte is
//! sent alone, and the system says when it is gone. So interpreters and imports count as start-up, of which the command need
//! not know. It ends where stdout is closed.

mod process;
#[cfg(unix)]
mod supervisor;

pub(super) use process::overheard;

#[cfg(not(unix))]
pub(crate) use process::become_command;
#[cfg(unix)]
pub(crate) use supervisor::become_command;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use toml::Spanned;

use super::content::{digest, of_bytes};
use super::faults::Text;
use super::globs;
use super::grid::HEURISTICS;
use super::row::{Row, RowStatus};
use super::solve::filled;
use super::spec::MethodsSpec;
use super::task::{Outside, Task, json};
use crate::app::flags::as_flags;
use crate::input::intake;
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::model::spec::InstanceSpec;
use crate::problem::Problem;
use crate::problem::plan::{Plan, StoppedBy, bare};
use crate::solve::evaluate::evaluate;
use crate::solve::methods;

/// The command that an entry of a study asks for, under its name; `None` where it names methods of the registry.
///
/// # Errors
///
/// Parts that do not go together, a name that is taken, files that are not there.
pub(super) fn asked(
    spec: &MethodsSpec,
    text: &Text,
    base: &Path,
) -> Result<Option<(String, Outside)>, Vec<Fault>> {
    let (name, command) = match (&spec.name, &spec.command) {
        (None, None) if spec.files.is_empty() => {
            let kind = FaultKind::Missing {
                what: "method".into(),
                expected: "`names`, or `name` and `command`".into(),
                remedy: "add `names = [\"heuristics\"]`".into(),
            };
            let is_named = !spec.names.is_empty() || !spec.except.is_empty();
            return if is_named {
                Ok(None)
            } else {
                Err(vec![Fault::new("methods", kind)])
            };
        }
        (Some(name), Some(command)) if spec.names.is_empty() && spec.except.is_empty() => (name, command),
        (name, command) => {
            let kind = FaultKind::Conflict {
                found: "a part of a command among others".into(),
                expected: "`name` and `command` together, without `names` and `except`".into(),
                remedy: "give methods of the registry an entry `[[methods]]` of their own".into(),
            };
            let of_name = name.as_ref().map(Spanned::span);
            let of_command = command.as_ref().map(Spanned::span);
            let of_files = spec.files.first().map(Spanned::span);
            let span = of_name.or(of_command).or(of_files);
            return Err(vec![text.fault(span.unwrap_or(0..0), kind)]);
        }
    };
    let mut faults = Vec::new();
    let is_taken = methods::may_be_named(name.get_ref()) || name.get_ref() == HEURISTICS;
    if is_taken || name.get_ref().trim().is_empty() {
        let kind = FaultKind::Conflict {
            found: format!("the name `{}`", name.get_ref()).into(),
            expected: "one that no method of the registry has".into(),
            remedy: "call it otherwise; `stagecut solve --help` lists the names that are taken".into(),
        };
        faults.push(text.fault(name.span(), kind));
    }
    if command.get_ref().is_empty() {
        let kind = FaultKind::Missing {
            what: "program".into(),
            expected: "one, and its arguments".into(),
            remedy: "write `command = [\"python3\", \"mine.py\"]`".into(),
        };
        faults.push(text.fault(command.span(), kind));
    }
    let content = content(spec, command.get_ref(), (text, base));
    match (faults.is_empty(), content) {
        (true, Ok(content)) => {
            let command = command.get_ref().clone();
            Ok(Some((name.get_ref().clone(), Outside { command, content })))
        }
        (_, content) => {
            faults.extend(content.err().unwrap_or_default());
            Err(faults)
        }
    }
}

/// Hash of the files that a command names, and of those that its entry lists beside it.
fn content(
    spec: &MethodsSpec,
    command: &[String],
    (text, base): (&Text, &Path),
) -> Result<String, Vec<Fault>> {
    let mut hashes = Vec::new();
    let mut faults = Vec::new();
    for word in command {
        let path = base.join(word);
        if path.is_file() {
            match intake::read_large(&path) {
                Ok(bytes) => hashes.push(of_bytes(&bytes)),
                Err(error) => faults.push(Fault::unreadable(&path, &error)),
            }
        }
    }
    for pattern in &spec.files {
        let found = match globs::files(base, pattern.get_ref()) {
            Ok(found) => found,
            Err(error) => {
                faults.push(text.fault(pattern.span(), error.into()));
                continue;
            }
        };
        let mut read: Vec<String> = (found.iter())
            .filter_map(|path| Some(of_bytes(&intake::read_large(path).ok()?)))
            .collect();
        if read.is_empty() {
            let kind = FaultKind::Unreadable {
                reason: "no file matches".into(),
                similar: None,
            };
            faults.push(text.fault(pattern.span(), kind));
        }
        hashes.append(&mut read);
    }
    match faults.is_empty() {
        true => Ok(digest(&hashes.iter().collect::<Vec<_>>())),
        false => Err(faults),
    }
}

/// What a command is asked.
#[derive(Serialize)]
struct Question<'a> {
    schema: &'static str,
    /// The instance in the native format, with all times decided.
    instance: InstanceSpec,
    /// The problem, with nothing left open.
    options: PipelineOptions,
    seed: u64,
    /// Absent where there is no limit.
    time_limit_s: Option<f64>,
    /// The method's name in the study.
    method: &'a str,
}

/// What a method is asked, in JSON: seed, time limit in seconds, and its own name.
pub(crate) fn question(
    instance: &Instance,
    settings: &Settings,
    (seed, time_limit_s, method): (u64, Option<f64>, &str),
) -> String {
    json(&Question {
        schema: "stagecut-question/1",
        instance: instance.to_spec(),
        options: settings.to_options(instance),
        seed,
        time_limit_s,
        method,
    })
}

/// Runs a command on a problem; its row with the plan, or a row without one.
pub(super) fn row(
    mut row: Row,
    outside: &Outside,
    (instance, problem): (&Instance, &Problem),
    base: &Path,
) -> Result<(Row, Plan), Box<Row>> {
    let task = &row.task;
    let settings = &problem.settings;
    let asked = (task.seed, Some(task.time_limit_s), task.method.as_str());
    let question = question(instance, settings, asked);
    row.status = RowStatus::Crashed;
    let ran = match process::run(outside, base, question, allowed(task)) {
        Ok(ran) => ran,
        Err(error) => {
            row.note = Some(format!(
                "`{}` could not be run: {error}",
                outside.command.join(" ")
            ));
            return Err(Box::new(row));
        }
    };
    row.seconds = Some(ran.seconds);
    row.startup_seconds = ran.startup_seconds;
    row.note = Some(ran.stderr.clone()).filter(|said| !said.is_empty());
    if let Some((status, ending)) = ran.failure(allowed(&row.task)) {
        row.status = status;
        row.note = Some(with_stderr(&ending, &ran.stderr));
        return Err(Box::new(row));
    }
    let answer = bare::parse(&ran.stdout).map_err(|faults| {
        sentence("its answer is no plan: ", &faults, |fault| {
            fault.written(as_flags)
        })
    });
    let answer = match answer {
        Ok(answer) if answer.stages.is_empty() => {
            row.status = RowStatus::Unknown;
            row.stopped_by = Some(StoppedBy::Completed.to_string());
            return Err(Box::new(row));
        }
        answer => answer,
    };
    let evaluated = answer.and_then(|bare| {
        evaluate(instance, settings, Some(problem), &bare).map_err(|error| {
            sentence("its answer is no plan: ", &error.faults, |fault| {
                fault.written(as_flags)
            })
        })
    });
    let evaluated = evaluated.and_then(|evaluation| match evaluation.violations.as_slice() {
        [] => Ok(evaluation.plan),
        wrong => Err(sentence("its plan fails the check: ", wrong, |violation| {
            violation.written(as_flags)
        })),
    });
    match evaluated {
        Ok(plan) => {
            let filled = filled(row, &plan);
            // It has no program and no presolve that anybody knows of.
            let row = Row {
                items_after_presolve: None,
                binaries: None,
                nodes: None,
                ..filled
            };
            Ok((row, plan))
        }
        Err(wrong) => {
            row.note = Some(with_stderr(&wrong, &ran.stderr));
            Err(Box::new(row))
        }
    }
}

/// How long a command may take, its start-up included: half of the grace is left for its worker to say how it ended.
fn allowed(task: &Task) -> Duration {
    Duration::from_secs_f64(task.time_limit_s + task.grace_s / 2.0)
}

/// The first things that are wrong, in a line.
fn sentence<T>(start: &str, wrong: &[T], written: impl Fn(&T) -> String) -> String {
    /// More have one cause.
    const MOST_SAID: usize = 5;
    let said: Vec<String> = wrong.iter().take(MOST_SAID).map(written).collect();
    let more = match wrong.len().saturating_sub(MOST_SAID) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{start}{}{more}", said.join("; "))
}

fn with_stderr(ending: &str, stderr: &str) -> String {
    match stderr.is_empty() {
        true => ending.to_owned(),
        false => format!("{ending}: {stderr}"),
    }
}
