//! The program of intervals, solved again and again for a placement that carries more, until there is none.

use super::Known;
use super::covers::Covers;
use crate::formulations::placement::{Asked, Intervals, entries};
use crate::formulations::solver::{self, Report, SolverError, Stop};
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Entries of a program's rows beyond which it is not built.
const MOST_ENTRIES: usize = 3_000_000;

/// A better placement carries more by this part at least: a hundred times what HiGHS tells apart.
pub(super) const PART: u64 = 10_000_000;

/// Looks for better placements. Only a run that ends without any proves the best one: see `exact::program_runs`.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn run(covers: &Covers, known: &mut Known, control: &Control) -> Result<StoppedBy, SolverError> {
    while !known.is_proved() {
        if let Some(stopped_by) = control.must_stop() {
            return Ok(stopped_by);
        }
        let (serving, most) = (known.serving, known.bound);
        if entries(serving, most) > MOST_ENTRIES {
            return Ok(StoppedBy::SizeLimit);
        }
        let least = known.best.rate + known.best.rate / PART + 1;
        if least > most {
            return Ok(StoppedBy::Completed);
        }
        let prices = covers.prices(least, control)?;
        let asked = Asked {
            least,
            most,
            prices: (&prices.of_a_machine, prices.of_a_layer(least)),
        };
        let intervals = Intervals::build(serving, &asked);
        let upper = |objective: f64| (most as f64 * (1.0 - objective) * (1.0 + 1e-9)).ceil() as u64;
        let best = known.best.rate;
        let watch = |report: Report| (known.watch)(best, upper(report.dual_bound.max(0.0)).max(best));
        let solved = solver::solve(intervals.program.clone(), None, None, control, &watch)?;
        let found = solved
            .values
            .as_ref()
            .map(|values| known.take(&intervals.held(values)));
        match (solved.stop, found) {
            (Stop::Infeasible, _) => known.lower(least - 1),
            (Stop::Limit(stopped_by), found) => {
                if found.is_none() && solved.bound.is_finite() {
                    known.lower(upper(solved.bound).max(least - 1));
                }
                return Ok(stopped_by);
            }
            (Stop::Optimal, Some(rate)) if rate >= least => {}
            (Stop::Optimal, _) => return Ok(StoppedBy::SizeLimit),
        }
    }
    Ok(StoppedBy::Completed)
}
