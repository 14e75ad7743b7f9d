//! What a plan says of itself: status, bound and gap against each other, and how the search went.
//!
//! A bound cannot be recomputed without a solver. What can be told is whether the claims fit each other.

use std::collections::BTreeSet;

use super::costs::TIME_TOLERANCE_MS;
use super::{Checker, Violation};
use crate::model::options::{Mode, Objective};
use crate::model::settings::Settings;
use crate::problem::plan::{Plan, PlanRun, PlanStage, PlanTimes, Status, StoppedBy};

/// How far a stated gap may lie from the recomputed one: the rounding of two divisions.
const GAP_TOLERANCE: f64 = 1e-9;

/// The same for parts of what a device could do: the rounding of a few products.
const THROUGHPUT_TOLERANCE: f64 = 1e-9;

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
        self.chosen_size(plan);
        self.reasons(plan);
        self.throughput(plan);
        self.basis_of_times(plan);
        self.statistics(plan);
    }

    /// Of which kind times are: a plan need not say so, but must not say so wrongly.
    fn basis_of_times(&mut self, plan: &Plan) {
        let known = PlanTimes::of(self.instance, self.settings);
        let is_right = plan.times.is_empty() || plan.times == known;
        self.claim(is_right, || {
            let told = |times: &[PlanTimes]| {
                let told: Vec<String> = times.iter().map(PlanTimes::to_string).collect();
                told.join(", ")
            };
            format!(
                "times that are {}, where they are {}",
                told(&plan.times),
                told(&known)
            )
        });
    }

    /// Tokens a second and the part of peak, recomputed from the objective.
    fn throughput(&mut self, plan: &Plan) {
        let Some(stated) = plan.throughput else {
            return;
        };
        let rounds = match self.settings.objective {
            Objective::Period | Objective::Latency | Objective::Tokens => 1.0,
            Objective::Iteration | Objective::Formula => self.settings.micro_batches.unwrap_or(1) as f64,
        };
        let by_objective = plan.objective_ms.map(|ms| 1e3 * rounds / ms);
        let per_s = plan.run.map(|run| run.micro_batches_per_s).or(by_objective);
        let (Some(of), Some(per_s)) = (self.instance.network.micro_batch, per_s) else {
            return self.claim(false, || {
                "a throughput of a network that says no tokens, or without a plan".into()
            });
        };
        let forward = of.forward_flops;
        let flops = match self.settings.mode {
            Mode::Training => forward.and_then(|forward| Some(forward + of.backward_flops?)),
            Mode::Inference => forward,
        };
        let names: BTreeSet<&str> = plan
            .stages
            .iter()
            .flat_map(|s| &s.devices)
            .map(String::as_str)
            .collect();
        let cluster = &self.instance.cluster;
        let kinds = names
            .iter()
            .map(|name| name.rsplit_once(':').map_or(*name, |(kind, _)| kind));
        let peaks = kinds.map(|name| {
            let kind = cluster.kinds.iter().find(|kind| kind.name == name)?;
            if kind.resources.is_empty() {
                kind.flops_per_s
            } else {
                None
            }
        });
        let peak: Option<f64> = peaks.sum();
        let mfu = flops.and_then(|flops| Some(flops * per_s / peak?));
        let pairs = [
            ("tokens_per_s", Some(stated.tokens_per_s), Some(of.tokens * per_s)),
            ("mfu", stated.mfu, mfu),
        ];
        for (name, stated, expected) in pairs {
            let agrees = match (stated, expected) {
                (Some(one), Some(other)) => (one - other).abs() <= THROUGHPUT_TOLERANCE * other.abs(),
                (one, other) => one == other,
            };
            self.claim(agrees, || {
                format!("{name} of {stated:?} stated, {expected:?} recomputed from the run or the objective")
            });
        }
    }

    /// A plan need not say how it runs, but must not say so wrongly.
    pub(super) fn stated_run(&mut self, plan: &Plan, run: Option<PlanRun>) {
        let Some(stated) = plan.run else {
            return;
        };
        let Some(run) = run else {
            return self.claim(false, || "how a plan runs of which that is not known".into());
        };
        let pairs = [
            ("iteration_ms", stated.iteration_ms, run.iteration_ms),
            ("period_ms", stated.period_ms, run.period_ms),
            ("bubble_share", stated.bubble_share, run.bubble_share),
            (
                "micro_batches_per_s",
                stated.micro_batches_per_s,
                run.micro_batches_per_s,
            ),
        ];
        for (name, stated, recomputed) in pairs {
            let agrees = (stated - recomputed).abs() <= THROUGHPUT_TOLERANCE * recomputed.abs().max(1.0);
            self.claim(agrees, || {
                format!("`run.{name}` of {stated}, {recomputed} as simulated")
            });
        }
    }

    pub(super) fn claim(&mut self, holds: bool, text: impl FnOnce() -> String) {
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
        let may_be_better = Self::may_have_more_room(plan);
        self.claim(!is_met || may_be_better || *status != Status::Feasible, || {
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

    /// Why there is no plan: only what the options say themselves.
    fn reasons(&mut self, plan: &Plan) {
        if plan.reasons.is_empty() {
            return;
        }
        // Each of them once, in the same order.
        let known = self.settings.reasons(self.instance);
        let mut left = known.iter();
        let wrong = plan
            .reasons
            .iter()
            .find(|reason| !left.any(|known| known == *reason));
        self.claim(wrong.is_none(), || {
            let wrong = wrong.map_or("", String::as_str);
            format!("a reason for no plan that the options do not give: {wrong}")
        });
        self.claim(plan.stages.is_empty(), || {
            "stages, and reasons why there are none".into()
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
