//! `formulate`.

use crate::exact::bounds;
use crate::exact::heterogeneous::program::Form;
use crate::fault::printable;
use crate::formulations::Program;
use crate::formulations::partition::{Interest, Partition, item_labels};
use crate::formulations::staging::Windows;
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solver;
use crate::whole;

use super::args::FormulateArgs;
use super::{CliError, Ending};

/// Writes the textbook program of a problem.
pub fn formulate(args: &FormulateArgs) -> Result<Ending, CliError> {
    let extension = args.output.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("lp" | "mps")) {
        return Err(CliError::Usage(format!(
            "found output `{}`, expected a name that ends in `.lp` or `.mps`",
            args.output.display()
        )));
    }
    let (instance, problem) = args.problem.problem(args.quiet)?;
    let labels = item_labels(&instance, &problem);
    let program = program(&problem, &labels)?;
    if !args.quiet {
        super::output::note(&format!(
            "one unit of time in the program is {} ns; {} binaries, {} rows; comments in the file say how to read its objective",
            program.scale_ns / problem.settings.ticks_per_ns as f64,
            program.binaries(),
            program.rows.len()
        ));
    }
    let comments = comments(&instance, &problem, &program, extension);
    whole::made(&args.output, |path| {
        std::fs::write(path, "").map_err(Unwritten::Io)?;
        solver::write(program, &instance.name, path).map_err(Unwritten::Solver)?;
        let text = std::fs::read_to_string(path).map_err(Unwritten::Io)?;
        std::fs::write(path, comments + &text).map_err(Unwritten::Io)
    })
    .map_err(|unwritten| match unwritten {
        Unwritten::Io(error) => CliError::write(&args.output, error),
        Unwritten::Solver(error) => error.into(),
    })?;
    Ok(Ending::Done)
}

/// What a reader of the file needs to know, as comments of its format.
fn comments(instance: &Instance, problem: &Problem, program: &Program, extension: Option<&str>) -> String {
    let mark = if extension == Some("lp") { '\\' } else { '*' };
    // A name may hold what ends a comment.
    let name = printable(&instance.name);
    let settings = &problem.settings;
    let asked = format!(
        "stagecut: least {} of `{name}`, at most {} stages",
        settings.objective, settings.stages
    );
    let lines = [asked].into_iter().chain(program.reading(settings.ticks_per_ns));
    lines.map(|line| format!("{mark} {line}\n")).collect()
}

/// Why a file was not written.
enum Unwritten {
    Io(std::io::Error),
    Solver(solver::SolverError),
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The program of the problem's workers, whatever they are.
fn program(problem: &Problem, labels: &[String]) -> Result<Program, CliError> {
    if let Some(workers) = &problem.workers {
        let form = Form::new(problem, workers)
            .map_err(|reason| CliError::Usage(format!("no program can say this: {reason}")))?;
        return Ok(form.program(labels));
    }
    let interest = Interest::up_to(bounds::all_in_one_ns(problem));
    Ok(Partition::build(problem, &Windows::all(problem), interest, labels).program)
}
