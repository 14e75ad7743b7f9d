//! `solve` and `bound`.

use crate::app::flags::as_flags;
use crate::app::report;
use crate::model::instance::Instance;
use crate::problem::control::{Control, Progress};
use crate::problem::plan::{LeastMemory, Plan, Status};
use crate::solve::error::Error;
use crate::solve::posed::Posed;

use super::args::{BoundArgs, Format, OutputArgs, SearchArgs, SolveArgs};
use super::progress::{StatusLine, catch_interrupts, control, of_search};
use super::{CliError, Ending, output};

/// Finds a plan and reports it, once the checker has accepted it.
pub(super) fn solve(args: &SolveArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    args.output.format()?;
    let instance = args.problem.read(args.output.quiet)?;
    let posed = Posed::new(&instance, &args.problem.options)?;
    let search = |control: &Control| posed.solve(args.method, control);
    let mut plan = searched(&args.output, &args.search, &posed, search)?;
    if args.confirm {
        let confirm = |control: &Control| posed.confirm(&mut plan, control);
        if let Some(note) = searched(&args.output, &args.search, &posed, confirm)? {
            output::note(&note.written(as_flags));
        }
    }
    if plan.status == Status::Infeasible {
        help(args, &posed, &mut plan)?;
    }
    let search = |control: &Control| posed.unrestricted(&plan, control);
    plan.unrestricted = searched(&args.output, &args.search, &posed, search)?;
    args.output.settle(&mut plan.statistics);
    written(&instance, &plan, &args.output)?;
    Ok(match plan.status {
        Status::Unknown => Ending::NothingFound,
        Status::Infeasible => Ending::Infeasible,
        Status::Optimal | Status::Feasible => Ending::Done,
    })
}

/// Finds out with which options there would be a plan, and how much memory one would need.
fn help(args: &SolveArgs, posed: &Posed, plan: &mut Plan) -> Result<(), CliError> {
    catch_interrupts();
    let line = StatusLine::new(args.output.quiet);
    let show = |known: &LeastMemory| line.show(|| report::least_memory(known));
    let helped = posed.help(&args.problem.options, plan, &control(&args.search, None), &show);
    line.clear();
    plan.remedies = helped?.iter().map(|remedy| remedy.written(as_flags)).collect();
    Ok(())
}

/// Computes bounds and reports them.
pub(super) fn bound(args: &BoundArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let format = args.output.format()?;
    let instance = args.problem.read(args.output.quiet)?;
    let posed = Posed::new(&instance, &args.problem.options)?;
    // A layer that fits nowhere is told as such.
    posed.problem()?;
    let search = |control: &Control| posed.bound(control);
    let mut plan = searched(&args.output, &args.search, &posed, search)?;
    args.output.settle(&mut plan.statistics);
    match format {
        Format::Text => {
            let path = args.output.output.as_deref();
            let times = report::times(&plan.times, &output::style(path));
            output::write(&(report::bounds(&plan) + "\n" + &times), path)?;
        }
        _ => write(&instance, &plan, &args.output)?,
    }
    Ok(match plan.status {
        Status::Infeasible => Ending::Infeasible,
        _ => Ending::Done,
    })
}

/// Runs a search with a progress line and Ctrl-C.
pub(super) fn searched<T>(
    output: &OutputArgs,
    asked: &SearchArgs,
    posed: &Posed,
    search: impl FnOnce(&Control) -> Result<T, Error>,
) -> Result<T, CliError> {
    catch_interrupts();
    let line = StatusLine::new(output.quiet);
    let show = |progress: &Progress| line.show(|| of_search(progress, &posed.settings));
    let result = search(&control(asked, Some(&show)));
    line.clear();
    Ok(result?)
}

/// Writes a report. That there is no plan, and what would help, is said on stderr too where the report lies in a file.
fn written(instance: &Instance, plan: &Plan, args: &OutputArgs) -> Result<(), CliError> {
    write(instance, plan, args)?;
    if plan.stages.is_empty() && args.output.is_some() && !args.quiet {
        output::note(&report::in_short(instance, plan));
    }
    Ok(())
}

fn write(instance: &Instance, plan: &Plan, args: &OutputArgs) -> Result<(), CliError> {
    let path = args.output.as_deref();
    let text = match args.format()? {
        Format::Text => report::text(instance, plan, &output::style(path)),
        Format::Json => report::json(plan),
        Format::Csv => report::csv(plan).map_err(|error| CliError::Usage(error.to_string().into()))?,
    };
    output::write(&text, path)
}
