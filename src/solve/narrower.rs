//! Narrower settings: whatever a plan may do under them it may do as asked, so that no plan of theirs beats an optimum.
//!
//! Shares that are prescribed, even or the same everywhere are shares that `best` may choose, and even shares are one share for
//! all stages. Passes of a layer that share a stage may do so where they need not. So a proved optimum is held against the
//! best plans of all narrower settings: these are found by other branches of the engine, and a mistake in what a setting means
//! shows here although every method makes it.

use crate::exact;
use crate::exact::tied_cuts;
use crate::formulations::partition::item_labels;
use crate::formulations::solver::SolverError;
use crate::model::instance::Instance;
use crate::model::options::{Cuts, Shares, WorkerMode};
use crate::model::setting;
use crate::model::units::{ms_to_ns, ns_to_ms};
use crate::model::words::Asked;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::Plan;
use crate::problem::workers::Workers;

/// A plan of narrower settings that is better than a proved optimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Beaten {
    /// The settings.
    pub by: Asked,
    /// What its plan costs in ms.
    pub objective_ms: f64,
}

/// A time on shares is one over a sum of doubles: where it lies half-way between two ns, its rounding may go either way.
const ROUNDING_NS: u64 = 1;

/// Whether a plan of narrower settings beats a proved result, or exists where none should.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn beaten(
    instance: &Instance,
    problem: &Problem,
    proved: &Plan,
    control: &Control,
) -> Result<Option<Beaten>, SolverError> {
    let proved_ns = proved.objective_ms.and_then(ms_to_ns).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    if let Some(workers) = &problem.workers {
        for &shares in narrower_shares(problem) {
            let ns = objective_with(instance, problem, workers, shares, control)?;
            found.push((setting::SHARES.given(shares), ns.map(|ns| ns + ROUNDING_NS)));
        }
    }
    if tied_cuts::applies(problem).is_ok() {
        let outcome = tied_cuts::solve(problem, &tied_cuts::labels(instance, problem), control)?;
        let plan = Plan::new(instance, problem, tied_cuts::NAME, outcome);
        found.push((
            setting::CUTS.given(Cuts::Tied),
            plan.objective_ms.and_then(ms_to_ns),
        ));
    }
    let better = found
        .into_iter()
        .filter_map(|(by, ns)| ns.filter(|&ns| ns < proved_ns).map(|ns| (by, ns)));
    Ok(better.min_by_key(|&(_, ns)| ns).map(|(by, ns)| Beaten {
        by,
        objective_ms: ns_to_ms(ns),
    }))
}

/// The share policies whose every plan is one of the policy that is asked for.
fn narrower_shares(problem: &Problem) -> &'static [Shares] {
    match (problem.settings.worker, problem.settings.shares) {
        (WorkerMode::Concurrent, Shares::Best) => &[Shares::Even, Shares::Theorem, Shares::Global],
        (WorkerMode::Concurrent, Shares::Global) => &[Shares::Even],
        _ => &[],
    }
}

/// What the best plan of a narrower policy costs in ns, there or as asked, whichever is less; `None` without a plan.
fn objective_with(
    instance: &Instance,
    problem: &Problem,
    workers: &Workers,
    shares: Shares,
    control: &Control,
) -> Result<Option<u64>, SolverError> {
    let mut narrower = problem.clone();
    narrower.settings.shares = shares;
    let labels = item_labels(instance, problem);
    let outcome = exact::solve(&narrower, exact::Method::Exact, &labels, control)?;
    Ok(outcome.allocation.map(|plan| {
        let there_ns = workers.objective_ns(&narrower, &plan);
        let global = match problem.settings.shares {
            // Even shares, the only narrower ones.
            Shares::Global => vec![0.5; workers.resource_names.len()],
            _ => Vec::new(),
        };
        let here_ns = workers.objective_ns(problem, &Allocation { global, ..plan });
        there_ns.min(here_ns) / problem.settings.ticks_per_ns
    }))
}
