//! What a plan says of itself: status, bound and gap against each other, and how the search went.
//!
//! A bound cannot be recomputed without a solver. What can be told is whether the claims fit each other.

use super::costs::TIME_TOLERANCE_MS;
use super::{Checker, Violation};
use crate::plan::{Plan, PlanStage, Status, StoppedBy};
use crate::settings::Settings;

/// How far a stated gap may lie from the recomputed one: the rounding of two divisions.
const GAP_TOLERANCE: f64 = 1e-9;

/// Whether a bound proves an objective, both in ms.
pub(crate) fn is_met(settings: &Settings, objective_ms: f64, bound_ms: f64) -> bool {
    // Objectives are whole ns, but for those of stages with modes, which are whole ticks.
    let unit_ms = match settings.modal {
        true => TIME_TOLERANCE_MS / settings.ticks_per_ns as f64,
        false => TIME_TOLERANCE_MS,
    };
    objective_ms - bound_ms <= unit_ms / 2.0
}

impl Checker<'_> {
    /// Status, bound, gap and statistics against each other.
    pub(super) fn claims(&mut self, plan: &Plan) {
        self.proof(plan);
        self.statistics(plan);
    }

    fn claim(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation::Claim(text()));
        }
    }

    fn proof(&mut self, plan: &Plan) {
        let Plan {
            status, stopped_by, ..
        } = plan;
        let has_plan = matches!(status, Status::Optimal | Status::Feasible);
        let is_proof = matches!(status, Status::Optimal | Status::Infeasible);
        let stages = plan.stages.len();
        self.claim(has_plan == (stages > 0), || {
            format!("status `{status}` with {stages} stages")
        });
        self.claim(!is_proof || *stopped_by == StoppedBy::Completed, || {
            format!("status `{status}` is a proof, but the search stopped by `{stopped_by}`")
        });
        let numbers = [
            ("objective_ms", plan.objective_ms, has_plan),
            ("bound_ms", plan.bound_ms, *status != Status::Infeasible),
            ("gap", plan.gap, has_plan),
        ];
        for (name, stated, is_expected) in numbers {
            let given = if stated.is_some() { "with" } else { "without" };
            self.claim(stated.is_some() == is_expected, || {
                format!("status `{status}` {given} `{name}`")
            });
            // False for NaN too.
            self.claim(
                stated.is_none_or(|stated| stated >= 0.0 && stated.is_finite()),
                || format!("`{name}` of {}", stated.unwrap_or_default()),
            );
        }
        self.claim(
            plan.least_memory.is_none() || *status == Status::Infeasible,
            || format!("status `{status}` with the least memory that a plan needs"),
        );
        let (Some(objective), Some(bound)) = (plan.objective_ms, plan.bound_ms) else {
            return;
        };
        self.claim(bound <= objective + TIME_TOLERANCE_MS, || {
            format!("bound {bound} above the objective {objective}")
        });
        let is_met = is_met(self.settings, objective, bound);
        self.claim(is_met || *status != Status::Optimal, || {
            format!("status `optimal` with objective {objective} above the bound {bound}")
        });
        self.claim(!is_met || *status != Status::Feasible, || {
            format!(
                "status `feasible` with objective {objective} at the bound {bound}, which makes it optimal"
            )
        });
        let gap = match objective > 0.0 {
            true => (objective - bound) / objective,
            false => 0.0,
        };
        let agrees = plan
            .gap
            .is_none_or(|stated| (stated - gap).abs() <= GAP_TOLERANCE);
        self.claim(agrees, || {
            format!("gap {} stated, {gap} recomputed", plan.gap.unwrap_or_default())
        });
    }

    /// What the search says of itself, as far as it can be told to be wrong.
    fn statistics(&mut self, plan: &Plan) {
        let statistics = &plan.statistics;
        let (items, after) = (statistics.items, statistics.items_after_presolve);
        // Passes that may lie apart are items of their own; a plan that no search made has counted none.
        let most = 2 * self.instance.network.layers.len();
        let is_used = |stage: &&PlanStage| !stage.forward.is_empty() || !stage.backward.is_empty();
        let used = plan.stages.iter().filter(is_used).count();
        self.claim(items == 0 || (used..=most).contains(&items), || {
            format!(
                "statistics: {items} items for {used} stages of {} layers",
                most / 2
            )
        });
        self.claim(after <= items, || {
            format!("statistics: {after} items after presolve, {items} before")
        });
        self.claim(
            statistics.seconds >= 0.0 && statistics.seconds.is_finite(),
            || format!("statistics: {} seconds", statistics.seconds),
        );
        let source = plan.bound_source;
        let bounds = &statistics.bounds_ms;
        for (name, &ms) in bounds {
            let most = plan.bound_ms.unwrap_or(f64::INFINITY);
            self.claim((0.0..=most + TIME_TOLERANCE_MS).contains(&ms), || {
                format!("statistics: the bound `{name}` of {ms} ms, the best is {most} ms")
            });
        }
        // A bound of 0 has no source, and a proof that there is no plan is no bound in ms.
        let has_bound = plan.bound_ms.is_some_and(|ms| ms > 0.0);
        let is_listed = bounds.is_empty() || bounds.contains_key(&source);
        self.claim(!has_bound || is_listed, || {
            format!("the bound is from `{source}`, which is not among the bounds of the statistics")
        });
        let is_proof = matches!(plan.status, Status::Optimal | Status::Infeasible);
        self.claim(is_proof || statistics.confirmed_by.is_none(), || {
            format!("status `{}` confirmed by another method", plan.status)
        });
    }
}
