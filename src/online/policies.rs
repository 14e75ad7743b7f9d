//! How a slot's plan is chosen: one registry of policies.

use crate::hybrid::plan::{HybridPlan, Layout, Rule, plan_of};
use crate::hybrid::{Slot, tentative};

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// How it chooses.
    pub choice: Choice,
}

/// How a policy chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Tentative search of `V time + Σ Q cost`, from the last slot's plan.
    Tentative,
    /// The exact optimum of `V time + Σ Q cost`.
    Exact,
    /// The least time whose cost keeps every budget in the slot itself.
    Myopic,
    /// One layout for all slots, with samples divided by a rule.
    Static(Layouts, Rule),
}

/// A layout that is planned once, in the nominal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layouts {
    /// The myopic one.
    Myopic,
    /// PipeDream's, on the devices of the myopic one.
    PipeDream,
}

/// Every policy. The first one is Ling et al.'s, reconstructed; drift plus penalty is Neely's.
pub const POLICIES: &[Policy] = &[
    Policy {
        name: "tentative",
        summary: "tentative search with linear solving, drift plus penalty (Ling et al. 2025, our reconstruction)",
        choice: Choice::Tentative,
    },
    Policy {
        name: "exact",
        summary: "the per-slot program solved exactly, drift plus penalty",
        choice: Choice::Exact,
    },
    Policy {
        name: "myopic",
        summary: "the least time whose cost keeps every budget in each slot",
        choice: Choice::Myopic,
    },
    Policy {
        name: "static",
        summary: "the myopic layout of the nominal state, with the best data shares in each slot",
        choice: Choice::Static(Layouts::Myopic, Rule::Best),
    },
    Policy {
        name: "even",
        summary: "the same layout, with even data shares",
        choice: Choice::Static(Layouts::Myopic, Rule::Even),
    },
    Policy {
        name: "proportional",
        summary: "the same layout, with data shares by speed of computation",
        choice: Choice::Static(Layouts::Myopic, Rule::Proportional),
    },
    Policy {
        name: "pipedream",
        summary: "PipeDream's plan for equal devices of mean speed, on the devices of that layout, with even data shares",
        choice: Choice::Static(Layouts::PipeDream, Rule::Even),
    },
];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.name == name)
}

/// What a choice can look at.
pub struct View<'a> {
    /// The slot, with weights.
    pub slot: &'a Slot<'a>,
    /// Plans of which none is beaten in time and all costs by another; at least one.
    pub frontier: &'a [HybridPlan],
    /// The last slot's layout without the devices that have gone.
    pub last: Option<Layout>,
    /// The layout of static policies without the devices that have gone.
    pub fixed: Option<Layout>,
    /// The most that each budget may pay per slot.
    pub per_slot: &'a [f64],
    /// Time added to a batch by moving to a layout, in ms.
    pub moving_ms: &'a dyn Fn(&Layout) -> f64,
}

/// The plan that a policy takes in a slot; `None` only if the frontier is empty.
///
/// Drift plus penalty keeps the last layout where moving to the chosen one would cost more than it gains.
pub fn choose(choice: Choice, view: &View) -> Option<HybridPlan> {
    let best = best(view.slot, view.frontier)?;
    Some(match choice {
        Choice::Exact => kept(view, best.clone()),
        Choice::Tentative => {
            let found = tentative::search(view.slot, view.last.clone());
            // Where no start of the search fits in memory, the exact plan is taken.
            kept(view, found.unwrap_or_else(|| best.clone()))
        }
        Choice::Myopic => within(view.frontier, view.per_slot)?.clone(),
        Choice::Static(_, rule) => {
            let fixed = view.fixed.clone();
            let plan = fixed.and_then(|fixed| {
                plan_of(view.slot, fixed.clone(), rule).or_else(|| plan_of(view.slot, fixed, Rule::Best))
            });
            match plan {
                Some(plan) => plan,
                None => within(view.frontier, view.per_slot)?.clone(),
            }
        }
    })
}

/// The plan of least `V time + Σ Q cost`.
pub fn best<'a>(slot: &Slot, frontier: &'a [HybridPlan]) -> Option<&'a HybridPlan> {
    frontier
        .iter()
        .min_by(|a, b| a.value(slot).total_cmp(&b.value(slot)))
}

/// The plan of least time whose cost keeps the budgets, else the one that exceeds them by the least factor.
pub fn within<'a>(frontier: &'a [HybridPlan], per_slot: &[f64]) -> Option<&'a HybridPlan> {
    let excess = |plan: &HybridPlan| {
        let factors = plan
            .costs
            .iter()
            .zip(per_slot)
            .map(|(cost, budget)| cost / budget);
        factors.fold(1.0, f64::max)
    };
    let key = |plan: &HybridPlan| (excess(plan), plan.time_ms);
    frontier
        .iter()
        .min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal))
}

/// The last layout with new shares, if that is worth at least as much as a plan that must first move layers.
fn kept(view: &View, plan: HybridPlan) -> HybridPlan {
    let total =
        |plan: &HybridPlan| plan.value(view.slot) + view.slot.time_weight * (view.moving_ms)(&plan.layout);
    let last = view
        .last
        .clone()
        .and_then(|last| plan_of(view.slot, last, Rule::Best));
    match last {
        Some(last) if total(&last) <= total(&plan) => last,
        _ => plan,
    }
}
