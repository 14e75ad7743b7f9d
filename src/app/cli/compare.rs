//! `compare`.

use crate::app::flags::as_flags;
use crate::app::report::{self, ComparisonRow, Standing};
use crate::problem::control::Control;
use crate::problem::plan::PlanTimes;
use crate::solve::error::Error;
use crate::solve::methods;
use crate::solve::posed::Posed;

use super::args::{CompareArgs, Format};
use super::solve::searched;
use super::{CliError, Ending, output};

/// Runs the methods one after the other and reports them side by side.
pub(super) fn compare(args: &CompareArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.output.as_deref())?;
    let format = args.output.format()?;
    let instance = args.problem.read(args.output.quiet)?;
    let posed = Posed::new(&instance, &args.problem.options)?;
    let methods = match &args.methods {
        Some(methods) => methods.clone(),
        None => methods::beside_each_other(posed.problem()?),
    };
    let search = |control: &Control| posed.compare(&methods, control);
    let compared = searched(&args.output, &args.search, &posed, search)?;
    let mut rows: Vec<ComparisonRow> = (compared.iter())
        .map(|compared| ComparisonRow::new(compared, as_flags))
        .collect();
    rows.iter_mut()
        .for_each(|row| row.seconds = args.output.seconds(row.seconds));
    let path = args.output.output.as_deref();
    let text = match format {
        Format::Text => {
            let style = output::style(path);
            let times = report::times(&PlanTimes::of(&instance, &posed.settings), &style);
            report::comparison(&rows, &style) + "\n" + &times
        }
        Format::Json => report::comparison_json(&rows),
        Format::Csv => {
            report::comparison_csv(&rows).map_err(|error| CliError::Usage(error.to_string().into()))?
        }
    };
    output::write(&text, path)?;
    if let Some(what) = report::contradiction(&rows) {
        return Err(Error::Contradiction(what.into()).into());
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
