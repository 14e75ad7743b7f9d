//! How a slot's plan is chosen: one registry of policies.

use super::known::Frontier;
use crate::problem::hybrid::plan::{HybridPlan, Layout, Rule, plan_of};
use crate::problem::hybrid::{Slot, tentative};

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

/// A layout that is planned once, in the mean state.
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
        summary: "the layout that is best at mean speeds, links and prices within the budgets, with the best data shares in each slot",
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
pub(crate) struct View<'a> {
    /// The slot, with weights.
    pub slot: &'a Slot<'a>,
    /// Plans of which none is beaten in time and all costs by another; at least one.
    pub frontier: &'a Frontier<'a>,
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
pub(crate) fn choose(choice: Choice, view: &View) -> Option<HybridPlan> {
    let best = view.frontier.best(view.slot)?;
    Some(match choice {
        Choice::Exact => kept(view, best),
        Choice::Tentative => {
            let found = tentative::search(view.slot, view.last.clone());
            // Where no start of the search fits in memory, the exact plan is taken.
            kept(view, found.unwrap_or(best))
        }
        Choice::Myopic => view.frontier.best_within(view.per_slot)?,
        Choice::Static(_, rule) => {
            let fixed = view.fixed.clone();
            let plan = fixed.and_then(|fixed| {
                plan_of(view.slot, fixed.clone(), rule).or_else(|| plan_of(view.slot, fixed, Rule::Best))
            });
            match plan {
                Some(plan) => plan,
                None => view.frontier.best_within(view.per_slot)?,
            }
        }
    })
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
