//! `solve` and `bound`.

use std::time::Duration;

use crate::app::report;
use crate::check;
use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::control::{Control, Progress};
use crate::problem::plan::{LeastMemory, Overrun, Plan, Status, StoppedBy};
use crate::solve::least_memory;
use crate::solve::methods::{self, Confirmation};
use crate::solve::narrower::{self, Beaten};
use crate::solve::remedies;

use super::args::{BoundArgs, Format, OutputArgs, SearchArgs, SolveArgs};
use super::progress::{StatusLine, catch_interrupts, control, of_search};
use super::{CliError, Ending, output};

/// Finds a plan and reports it, once the checker has accepted it.
pub(super) fn solve(args: &SolveArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    args.output.format()?;
    let instance = args.problem.read(args.output.quiet)?;
    let settings = args.problem.settings(&instance)?;
    let problem = match Problem::new(&instance, settings.clone()) {
        Ok(problem) => problem,
        Err(error) if error.is_infeasible() => {
            let plan = Plan::infeasible(&instance, &settings, args.method.name());
            return infeasible(args, &instance, &settings, plan);
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(reason) = args.method.applies(&problem) {
        return Err(CliError::Usage(format!(
            "method `{}` does not apply: {reason}",
            args.method.name()
        )));
    }
    let mut plan = searched(&args.output, &args.search, &settings, |control| {
        args.method.run(&instance, &problem, control)
    })?;
    plan.overruns = accept(&instance, &problem, &plan)?;
    if args.confirm {
        confirm(args, &instance, &problem, &mut plan)?;
    }
    if plan.status == Status::Infeasible {
        return infeasible(args, &instance, &settings, plan);
    }
    args.output.settle(&mut plan.statistics);
    written(&instance, &plan, &args.output)?;
    Ok(match plan.status {
        Status::Unknown => Ending::NothingFound,
        Status::Optimal | Status::Feasible | Status::Infeasible => Ending::Done,
    })
}

/// Reports that there is no plan, with which options there is one, and how much memory one would need.
fn infeasible(
    args: &SolveArgs,
    instance: &Instance,
    settings: &Settings,
    mut plan: Plan,
) -> Result<Ending, CliError> {
    let mut control = control(&args.search, None);
    // What the search has taken is gone.
    let spent = Duration::try_from_secs_f64(plan.statistics.seconds).unwrap_or_default();
    control.time_limit = control.time_limit.map(|limit| limit.saturating_sub(spent));
    catch_interrupts();
    plan.remedies = remedies::search(instance, &args.problem.options, settings, &control)?;
    let is_limited = least_memory::least_limit(instance, settings).is_some();
    if is_limited && plan.reasons.is_empty() {
        let line = StatusLine::new(args.output.quiet);
        let show = |known: &LeastMemory| line.show(|| report::least_memory(known));
        let known = least_memory::search(instance, settings, &control, &show);
        line.clear();
        plan.least_memory = known?;
        if let Some(known) = &plan.least_memory
            && let Some(most) = known.at_most_bytes.filter(|&most| most < known.at_least_bytes)
        {
            return Err(CliError::BadPlan(format!(
                "it is proved that no plan fits less than {} bytes, and one holds {most}",
                known.at_least_bytes
            )));
        }
    }
    args.output.settle(&mut plan.statistics);
    written(instance, &plan, &args.output)?;
    Ok(Ending::Infeasible)
}

/// Asks a second method, and records that it agrees; then looks for a better plan under narrower settings.
fn confirm(
    args: &SolveArgs,
    instance: &Instance,
    problem: &Problem,
    plan: &mut Plan,
) -> Result<(), CliError> {
    if !is_proved(plan) {
        output::note(NOT_PROVED);
        return Ok(());
    }
    let confirmation = searched(&args.output, &args.search, &problem.settings, |control| {
        methods::confirm(instance, problem, plan, control)
    })?;
    if let Some(note) = judged(plan, confirmation)? {
        output::note(&note);
    }
    let better = searched(&args.output, &args.search, &problem.settings, |control| {
        narrower::beaten(instance, problem, plan, control)
    })?;
    unbeaten(plan, better)
}

/// What is said where there is nothing to confirm.
pub(crate) const NOT_PROVED: &str = "nothing to confirm: the result is not proved";

/// Whether a second method has something to confirm.
pub(crate) fn is_proved(plan: &Plan) -> bool {
    matches!(plan.status, Status::Optimal | Status::Infeasible)
}

/// Records that a second method agrees, or returns why it does not tell.
///
/// # Errors
///
/// [`CliError::Contradiction`] where it proves something else.
pub(crate) fn judged(plan: &mut Plan, confirmation: Confirmation) -> Result<Option<String>, CliError> {
    match confirmation {
        Confirmation::Confirmed(method) => {
            plan.statistics.confirmed_by = Some(method.into());
            Ok(None)
        }
        Confirmation::Undecided(_, StoppedBy::NoMethod) => Ok(Some(
            "not confirmed: no second method proves this kind of problem".into(),
        )),
        Confirmation::Undecided(method, stopped_by) => Ok(Some(format!(
            "not confirmed: `{method}` stopped before it could tell ({stopped_by}); raise `--time-limit`"
        ))),
        Confirmation::Contradicted(method, other) => Err(CliError::Contradiction(format!(
            "`{}` finds {} at {:?} ms, `{method}` finds {} at {:?} ms",
            plan.method, plan.status, plan.objective_ms, other.status, other.objective_ms
        ))),
    }
}

/// Nothing, unless a plan of narrower settings is better than a proved one.
///
/// # Errors
///
/// [`CliError::Contradiction`] where one is.
pub(crate) fn unbeaten(plan: &Plan, better: Option<Beaten>) -> Result<(), CliError> {
    match better {
        None => Ok(()),
        Some(better) => Err(CliError::Contradiction(format!(
            "`{}` finds {} at {:?} ms, and with `{}`, which allows no more, a plan takes {:?} ms",
            plan.method, plan.status, plan.objective_ms, better.by, better.objective_ms
        ))),
    }
}

/// Computes bounds and reports them.
pub(super) fn bound(args: &BoundArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let format = args.output.format()?;
    let (instance, problem) = args.problem.problem(args.output.quiet)?;
    let mut plan = searched(&args.output, &args.search, &problem.settings, |control| {
        methods::bounded(&instance, &problem, control)
    })?;
    args.output.settle(&mut plan.statistics);
    match format {
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
    output: &OutputArgs,
    asked: &SearchArgs,
    settings: &Settings,
    search: impl FnOnce(&Control) -> Result<T, SolverError>,
) -> Result<T, CliError> {
    catch_interrupts();
    let line = StatusLine::new(output.quiet);
    let show = |progress: &Progress| line.show(|| of_search(progress, settings));
    let result = search(&control(asked, Some(&show)));
    line.clear();
    Ok(result?)
}

/// Every plan goes through the checker before anyone sees it.
///
/// Returns what it overruns once its transfers are hidden.
pub(super) fn accept(instance: &Instance, problem: &Problem, plan: &Plan) -> Result<Vec<Overrun>, CliError> {
    let verdict = check::examine(instance, &problem.settings, plan);
    match verdict.violations.first() {
        None => Ok(verdict.overruns),
        Some(violation) => Err(CliError::BadPlan(violation.to_string())),
    }
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
        Format::Csv => report::csv(plan).map_err(|error| CliError::Usage(error.to_string()))?,
    };
    output::write(&text, path)
}
