//! `compare`.

use std::time::Instant;

use crate::app::report::{self, ComparisonRow, Standing};
use crate::model::units::ms_to_ns;
use crate::problem::Problem;
use crate::problem::control::{Control, Progress};
use crate::solve::methods::{self, Method};

use super::args::{CompareArgs, Format};
use super::progress::{StatusLine, catch_interrupts, control, of_search};
use super::{CliError, Ending, output, solve};

/// Runs the methods one after the other and reports them side by side.
pub(super) fn compare(args: &CompareArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let format = args.output.format()?;
    let (instance, problem) = args.problem.problem(args.output.quiet)?;
    catch_interrupts();
    let methods = args.methods.clone().unwrap_or_else(|| default_methods(&problem));
    let whole = control(&args.search, None);
    let rows = methods::in_turn(&methods, &problem, whole.time_limit, |method, time_limit| {
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
            Ok(()) if whole.is_interrupted() => row.leave_out(),
            Ok(()) => {
                let line = StatusLine::new(args.output.quiet);
                let show = |progress: &Progress| line.show(|| of_search(progress, &problem.settings));
                let control = Control {
                    progress: Some(&show),
                    ..whole.with_time(time_limit)
                };
                let plan = method.run(&instance, &problem, &control);
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
        Ok::<_, CliError>(row)
    })?;
    let path = args.output.output.as_deref();
    let text = match format {
        Format::Text => report::comparison(&rows, &output::style(path)),
        Format::Json => report::comparison_json(&rows),
        Format::Csv => report::comparison_csv(&rows).map_err(|error| CliError::Usage(error.to_string()))?,
    };
    output::write(&text, path)?;
    if let Some(what) = contradiction(&rows) {
        return Err(CliError::Contradiction(what));
    }
    let any = |status: Standing| rows.iter().any(|row| row.status == status);
    Ok(if any(Standing::Optimal) || any(Standing::Feasible) {
        Ending::Done
    } else if any(Standing::Infeasible) {
        Ending::Infeasible
    } else {
        Ending::NothingFound
    })
}

/// Exact, every heuristic, tied cuts if there are others, and Piper if there are modes.
pub(crate) fn default_methods(problem: &Problem) -> Vec<Method> {
    let is_baseline = |method: &Method| matches!(method, Method::TiedCuts | Method::Piper);
    methods::beside_each_other()
        .into_iter()
        .filter(|method| !is_baseline(method) || method.applies(problem).is_ok())
        .collect()
}

/// Why not all of these can be right, if so: all bounds hold for the same problem, whoever proved them, and every plan has been
/// checked.
pub(crate) fn contradiction(rows: &[ComparisonRow]) -> Option<String> {
    let ns = |ms: f64| ms_to_ns(ms).unwrap_or(u64::MAX);
    let with_plan = rows.iter().filter_map(|row| Some((row.objective_ms?, row)));
    let (objective_ms, best) = with_plan.min_by(|a, b| a.0.total_cmp(&b.0))?;
    if let Some(other) = rows.iter().find(|row| row.status == Standing::Infeasible) {
        return Some(format!(
            "`{}` proves that there is no plan, and `{}` has one of {objective_ms} ms that passes its check",
            other.method, best.method
        ));
    }
    let with_bound = rows.iter().filter_map(|row| Some((row.bound_ms?, row)));
    let (bound_ms, other) = with_bound.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (ns(bound_ms) > ns(objective_ms)).then(|| {
        format!(
            "`{}` proves that no plan takes less than {bound_ms} ms, and `{}` has one of {objective_ms} ms that passes its check",
            other.method, best.method
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        method: &str,
        status: Standing,
        objective_ms: Option<f64>,
        bound_ms: Option<f64>,
    ) -> ComparisonRow {
        ComparisonRow {
            method: method.into(),
            source: String::new(),
            status,
            objective_ms,
            bound_ms,
            stopped_by: None,
            seconds: 0.0,
            note: None,
        }
    }

    #[test]
    fn a_plan_below_a_bound_is_a_contradiction() {
        let proved = row("exact", Standing::Optimal, Some(2.0), Some(2.0));
        let worse = row("lpt", Standing::Feasible, Some(2.5), Some(1.0));
        assert_eq!(contradiction(&[proved.clone(), worse]), None);
        let better = row("alternate", Standing::Feasible, Some(1.5), Some(1.0));
        let what = contradiction(&[proved, better.clone()]).expect("a contradiction");
        assert!(
            what.contains("`exact` proves that no plan takes less than 2 ms"),
            "{what}"
        );
        assert!(what.contains("`alternate` has one of 1.5 ms"), "{what}");
        let infeasible = row("milp", Standing::Infeasible, None, None);
        assert!(contradiction(&[infeasible.clone(), better]).is_some());
        assert_eq!(contradiction(&[infeasible]), None);
    }
}
