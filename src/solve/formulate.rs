//! The textbook program of a problem as a file that any MILP solver reads.

use std::io;
use std::path::Path;

use crate::exact::bounds;
use crate::exact::heterogeneous::program::Form;
use crate::formulations::Program;
use crate::formulations::modal_program::{self, Asked, ModalProgram};
use crate::formulations::partition::{Interest, Partition, item_labels};
use crate::formulations::solver::{self, SolverError};
use crate::formulations::staging::Windows;
use crate::formulations::virtual_stages::ChunkProgram;
use crate::input::whole;
use crate::model::fault::printable;
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::Problem;
use crate::problem::modes::Modes;
use crate::solve::error::Error;
use crate::solve::methods::near_iterations;
use crate::solve::posed::refuse_most_tokens;

/// A program as a file holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Formulated {
    /// One unit of time in the program, in ns.
    pub unit_ns: f64,
    /// Integer variables.
    pub binaries: usize,
    /// Rows.
    pub rows: usize,
}

/// Writes the program of a problem, as LP or MPS by the extension of the file's name.
pub(crate) fn write(instance: &Instance, problem: &Problem, path: &Path) -> Result<Formulated, Error> {
    refuse_most_tokens(&problem.settings, "formulate")?;
    let mark = comment_mark(path)?;
    let program = program(problem, &item_labels(instance, problem))?;
    let formulated = Formulated {
        unit_ns: program.scale_ns / problem.settings.ticks_per_ns as f64,
        binaries: program.binaries(),
        rows: program.rows.len(),
    };
    let comments = comments(instance, problem, &program, mark);
    whole::made(path, |_, path| {
        solver::write(program, &instance.name, path).map_err(Unwritten::Solver)?;
        let text = std::fs::read_to_string(path).map_err(Unwritten::Io)?;
        std::fs::write(path, comments + &text).map_err(Unwritten::Io)
    })
    .map_err(|unwritten| match unwritten {
        Unwritten::Io(source) => Error::Write {
            path: path.to_owned(),
            source,
        },
        Unwritten::Solver(error) => error.into(),
    })?;
    Ok(formulated)
}

/// What begins a comment in the format that the file's name promises: LP or MPS.
pub(crate) fn comment_mark(path: &Path) -> Result<char, Error> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("lp") => Ok('\\'),
        Some("mps") => Ok('*'),
        _ => Err(Error::UnknownProgramFormat {
            path: path.to_owned(),
        }),
    }
}

/// How to make stages of what a solver finds.
const STAGES: [&str; 2] = [
    "`prefix` of a layer and k is 1 where the layer, and what is tied to it, lies in stages 1 to k: its stage is the least such k, and the \
     last stage where there is none",
    "`stagecut check --evaluate INSTANCE stages.json` costs and checks stages, written as [[layers of the first], [of the next], ...]",
];

/// What a reader of the file needs to know, as comments of its format.
fn comments(instance: &Instance, problem: &Problem, program: &Program, mark: char) -> String {
    // A name may hold what ends a comment.
    let name = printable(&instance.name);
    let settings = &problem.settings;
    let asked = format!(
        "stagecut: least {} of `{name}`, at most {} stages",
        settings.objective, settings.stages
    );
    let lines = [asked].into_iter().chain(program.reading(settings.ticks_per_ns));
    let names = program.variable_names();
    let has_prefix = names.iter().any(|name| name.starts_with("prefix["));
    let lines = lines.chain(
        has_prefix
            .then(|| STAGES.into_iter().map(str::to_owned))
            .into_iter()
            .flatten(),
    );
    lines.map(|line| format!("{mark} {line}\n")).collect()
}

/// Why a file was not written.
enum Unwritten {
    Io(io::Error),
    Solver(SolverError),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the programs of stages do not know, if a problem asks for it.
fn unknown_to_programs(problem: &Problem) -> Option<&'static str> {
    let unknown = [
        (
            problem.confined.is_some(),
            "it does not know what is to lie apart, and how many layers a stage may have",
        ),
        (
            problem.is_told_apart(),
            "what a forward pass has of a shared table depends on three passes, and is no single program",
        ),
        (
            problem.has_ordered_rows(),
            "it does not know the order of kinds of devices",
        ),
    ];
    let mut unknown = unknown.into_iter().filter(|(is_asked, _)| *is_asked);
    unknown.next().map(|(_, reason)| reason)
}

/// The program of the problem's workers, whatever they are.
fn program(problem: &Problem, labels: &[String]) -> Result<Program, Error> {
    if problem.settings.is_simulated() {
        let reason = words!(
            "no program tells the time of an iteration; {} comes near it",
            setting::OBJECTIVE.given(near_iterations(problem))
        );
        return Err(Error::NoProgram { reason });
    }
    if let Some(reason) = unknown_to_programs(problem) {
        let reason = reason.into();
        return Err(Error::NoProgram { reason });
    }
    let has_choice = |modes: &Modes| modes.kinds().count() > 1 || problem.settings.target.is_some();
    let is_alike = problem.settings.uniform || problem.settings.target.is_some();
    if is_alike && problem.modes.as_ref().is_some_and(has_choice) {
        let reason = words!(
            "it gives every stage a degree of its own; with {} name one of {} and one of {}",
            setting::UNIFORM,
            setting::TENSOR,
            setting::REPLICAS
        );
        return Err(Error::NoProgram { reason });
    }
    if let Some(modes) = &problem.modes {
        modal_program::too_large(problem, modes).map_err(|reason| Error::NoProgram {
            reason: reason.into(),
        })?;
        let asked = Asked::anything(modes);
        return Ok(ModalProgram::build(problem, modes, asked, labels).program);
    }
    if let Some(of) = &problem.virtual_stages {
        let most_ns = bounds::all_in_one_ns(problem) as f64;
        return Ok(ChunkProgram::build(problem, of, most_ns, labels).program);
    }
    if let Some(workers) = &problem.workers {
        let form = Form::new(problem, workers).map_err(|reason| Error::NoProgram {
            reason: reason.into(),
        })?;
        return Ok(form.program(labels));
    }
    let interest = Interest::up_to(bounds::all_in_one_ns(problem));
    Ok(Partition::build(problem, &Windows::all(problem), interest, labels).program)
}
