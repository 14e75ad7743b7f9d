//! The best plan with tied cuts, laid out over separate passes: the baseline of separate cuts.
//!
//! With every layer's passes joined again, the problem with separate cuts is the one with tied cuts. Its best plan is a plan for
//! separate cuts, costs the same there, and is never better than theirs: `formulations/cuts.md` has the argument.

use std::collections::BTreeMap;

use crate::exact;
use crate::exact::presolve::Reduced;
use crate::formulations::partition::item_labels;
use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::options::Cuts;
use crate::model::words::Words;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::{Outcome, Statistics};

/// Name on the command line.
pub(crate) const NAME: &str = "tied-cuts";

/// What it does, in one sentence.
pub(crate) const SUMMARY: &str = "the best plan with tied cuts, by `exact`: what separate cuts have to beat";

/// Where it comes from.
pub(crate) const SOURCE: &str = "ours";

/// Whether it can be asked at all, or why not.
///
/// # Errors
///
/// Cuts that are tied already.
pub(crate) fn applies(problem: &Problem) -> Result<(), Words> {
    match problem.settings.cuts {
        Cuts::Separate => Ok(()),
        Cuts::Tied => Err("its cuts are tied already".into()),
    }
}

/// A name for each item of the problem with tied cuts.
pub(crate) fn labels(instance: &Instance, problem: &Problem) -> Vec<String> {
    item_labels(instance, &problem.tied().0)
}

/// Finds the best plan with tied cuts by the exact engine.
///
/// * `labels`: see [`labels`].
///
/// Where the search completes, no plan with tied cuts is better. The bound is one for separate cuts.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn solve(problem: &Problem, labels: &[String], control: &Control) -> Result<Outcome, SolverError> {
    let (bound, bound_ns) = exact::simple_bound(problem);
    control.show_bound(bound.source, bound_ns);
    let tied = Reduced::tied(problem);
    // Plans with tied cuts are not shown as they are.
    let of_tied = Control {
        known: None,
        ..control.clone()
    };
    let outcome = exact::solve(&tied.problem, exact::Method::Exact, labels, &of_tied)?;
    Ok(Outcome {
        allocation: outcome.allocation.map(|plan| Allocation {
            assignment: tied.lift(&plan.assignment),
            ..plan
        }),
        bound_ns,
        bound_source: bound.source,
        stopped_by: outcome.stopped_by,
        statistics: Statistics {
            // They hold for tied cuts only.
            bounds_ms: BTreeMap::new(),
            ..outcome.statistics
        },
    })
}
