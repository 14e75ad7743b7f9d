//! `compare`.

use std::time::Instant;

use crate::exact::control::Progress;
use crate::heuristics;
use crate::methods::{self, Method};
use crate::problem::Problem;
use crate::report::{self, ComparisonRow, Standing};
use crate::tied_cuts;

use super::args::{CompareArgs, Format};
use super::progress::{StatusLine, catch_interrupts, control, of_search};
use super::{CliError, Ending, output, solve};

/// Runs the methods one after the other and reports them side by side.
pub fn compare(args: &CompareArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let (instance, problem) = args.problem.problem(args.output.quiet)?;
    catch_interrupts();
    let mut rows = Vec::new();
    for method in args.methods.clone().unwrap_or_else(|| default_methods(&problem)) {
        let started = Instant::now();
        let mut row = ComparisonRow {
            method: method.name().into(),
            source: method.source().into(),
            status: Standing::Inapplicable,
            objective_ms: None,
            bound_ms: None,
            stopped_by: None,
            seconds: 0.0,
            note: None,
        };
        match method.applies(&problem) {
            Err(reason) => row.note = Some(reason.into()),
            Ok(()) => {
                let line = StatusLine::new(args.output.quiet);
                let show = |progress: &Progress| line.show(|| of_search(progress));
                let plan = method.run(&instance, &problem, &control(&args.search, Some(&show)));
                line.clear();
                let plan = plan?;
                solve::accept(&instance, &problem, &plan)?;
                row.status = Standing::of(&plan);
                row.objective_ms = plan.objective_ms;
                row.bound_ms = plan.bound_ms;
                row.stopped_by = Some(plan.stopped_by);
            }
        }
        row.seconds = args.output.seconds(started.elapsed().as_secs_f64());
        rows.push(row);
    }
    let path = args.output.output.as_deref();
    let text = match args.output.format {
        Format::Text => report::comparison(&rows, &output::style(path)),
        Format::Json => report::comparison_json(&rows),
        Format::Csv => report::comparison_csv(&rows).map_err(|error| CliError::Usage(error.to_string()))?,
    };
    output::write(&text, path)?;
    let any = |status: Standing| rows.iter().any(|row| row.status == status);
    Ok(if any(Standing::Optimal) || any(Standing::Feasible) {
        Ending::Done
    } else if any(Standing::Infeasible) {
        Ending::Infeasible
    } else {
        Ending::NothingFound
    })
}

/// Exact, every heuristic, and tied cuts if there are others.
fn default_methods(problem: &Problem) -> Vec<Method> {
    let exact = methods::find(methods::DEFAULT);
    let baseline = tied_cuts::applies(problem).map(|()| Method::TiedCuts);
    exact
        .into_iter()
        .chain(heuristics::METHODS.iter().map(Method::Heuristic))
        .chain(baseline)
        .collect()
}
