//! `solve` and `bound`.

use crate::check;
use crate::exact;
use crate::exact::control::Progress;
use crate::exact::highs::SolverError;
use crate::formulations::partition::item_labels;
use crate::instance::Instance;
use crate::methods::{self, Confirmation};
use crate::plan::{Plan, Status};
use crate::problem::Problem;
use crate::report;

use super::args::{Format, OutputArgs, SolveArgs};
use super::progress::{ProgressLine, catch_interrupts, control};
use super::{CliError, Ending, output};

/// Finds a plan and reports it, once the checker has accepted it.
pub fn solve(args: &SolveArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let (instance, problem) = args.problem.problem(args.output.quiet)?;
    if let Err(reason) = args.method.applies(&problem) {
        return Err(CliError::Usage(format!(
            "method `{}` does not apply: {reason}",
            args.method.name()
        )));
    }
    let mut plan = searched(args, |control| args.method.run(&instance, &problem, control))?;
    accept(&instance, &problem, &plan)?;
    if args.confirm {
        confirm(args, &instance, &problem, &mut plan)?;
    }
    plan.statistics.seconds = args.output.seconds(plan.statistics.seconds);
    write(&instance, &plan, &args.output)?;
    Ok(match plan.status {
        Status::Optimal | Status::Feasible => Ending::Done,
        Status::Infeasible => Ending::Infeasible,
        Status::Unknown => Ending::NothingFound,
    })
}

/// Asks a second method, and records that it agrees.
fn confirm(
    args: &SolveArgs,
    instance: &Instance,
    problem: &Problem,
    plan: &mut Plan,
) -> Result<(), CliError> {
    if !matches!(plan.status, Status::Optimal | Status::Infeasible) {
        output::note("nothing to confirm: the result is not proved");
        return Ok(());
    }
    match searched(args, |control| methods::confirm(instance, problem, plan, control))? {
        Confirmation::Confirmed(method) => plan.statistics.confirmed_by = Some(method.into()),
        Confirmation::Undecided(method, stopped_by) => output::note(&format!(
            "not confirmed: `{method}` stopped before it could tell ({stopped_by}); raise `--time-limit`"
        )),
        Confirmation::Contradicted(method, other) => {
            return Err(CliError::BadPlan(format!(
                "`{}` finds {} at {:?} ms, `{method}` finds {} at {:?} ms",
                plan.method, plan.status, plan.objective_ms, other.status, other.objective_ms
            )));
        }
    }
    Ok(())
}

/// Computes bounds and reports them.
pub fn bound(args: &SolveArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let (instance, problem) = args.problem.problem(args.output.quiet)?;
    let labels = item_labels(&instance, &problem);
    let outcome = searched(args, |control| exact::bound(&problem, &labels, control))?;
    let mut plan = Plan::new(&instance, &problem, "bound", outcome);
    plan.statistics.seconds = args.output.seconds(plan.statistics.seconds);
    match args.output.format {
        Format::Text => output::write(&report::bounds(&plan), args.output.output.as_deref())?,
        _ => write(&instance, &plan, &args.output)?,
    }
    Ok(match plan.status {
        Status::Infeasible => Ending::Infeasible,
        _ => Ending::Done,
    })
}

/// Runs a search with a progress line and Ctrl-C.
fn searched<T>(
    args: &SolveArgs,
    search: impl FnOnce(&exact::control::Control) -> Result<T, SolverError>,
) -> Result<T, CliError> {
    catch_interrupts();
    let line = ProgressLine::new(args.output.quiet);
    let show = |progress: &Progress| line.show(progress);
    let result = search(&control(&args.search, Some(&show)));
    line.clear();
    Ok(result?)
}

/// Every plan goes through the checker before anyone sees it.
pub fn accept(instance: &Instance, problem: &Problem, plan: &Plan) -> Result<(), CliError> {
    match check::check(instance, &problem.settings, plan).first() {
        None => Ok(()),
        Some(violation) => Err(CliError::BadPlan(violation.to_string())),
    }
}

fn write(instance: &Instance, plan: &Plan, args: &OutputArgs) -> Result<(), CliError> {
    let path = args.output.as_deref();
    let text = match args.format {
        Format::Text => report::text(instance, plan, &output::style(path)),
        Format::Json => report::json(plan),
        Format::Csv => report::csv(plan).map_err(|error| CliError::Usage(error.to_string()))?,
    };
    output::write(&text, path)
}
