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
    match &problem.with_tied_cuts {
        Some(tied) => item_labels(instance, tied),
        None => item_labels(instance, &problem.tied().0),
    }
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
    let (bound_source, bound_ns) = match &problem.modes {
        Some(_) => {
            let bound = exact::bound(problem, &[], &control.elsewhere())?;
            (bound.bound_source, bound.bound_ns)
        }
        None => {
            let (bound, bound_ns) = exact::simple_bound(problem);
            (bound.source, bound_ns)
        }
    };
    control.show_bound(bound_source, bound_ns);
    // Plans with tied cuts are not shown as they are.
    let of_tied = Control {
        known: None,
        ..control.clone()
    };
    let solve = |tied: &Problem| exact::solve(tied, exact::Method::Exact, labels, &of_tied);
    let (outcome, assignment) = match &problem.with_tied_cuts {
        Some(tied) => {
            let outcome = solve(tied)?;
            let found = outcome.allocation.as_ref();
            let assignment = found.map(|plan| problem.over_passes(tied, &plan.assignment));
            (outcome, assignment)
        }
        None => {
            let tied = Reduced::tied(problem);
            let outcome = solve(&tied.problem)?;
            let found = outcome.allocation.as_ref();
            let assignment = found.map(|plan| tied.lift(&plan.assignment));
            (outcome, assignment)
        }
    };
    let allocation = outcome.allocation.zip(assignment);
    let allocation = allocation.map(|(plan, assignment)| Allocation { assignment, ..plan });
    Ok(Outcome {
        allocation,
        bound_ns,
        bound_source,
        stopped_by: outcome.stopped_by,
        statistics: Statistics {
            // They hold for tied cuts only.
            bounds_ms: BTreeMap::new(),
            ..outcome.statistics
        },
    })
}
