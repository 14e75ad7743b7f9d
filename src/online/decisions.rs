//! One slot of one policy: the plan that it takes, checked, and what it carries on.

use super::controller::{OnlineError, TOLERANCE};
use super::fixed::Fixed;
use super::known::Frontier;
use super::moving::{Held, moving_ms, present};
use super::policies::{self, Choice, Policy, View};
use super::record::{SlotRecord, StageRecord, all_rounded, rounded};
use super::scenario::Scenario;
use super::states::State;
use crate::problem::hybrid::check::violations;
use crate::problem::hybrid::plan::{HybridPlan, Layout, Stage};
use crate::problem::hybrid::{Reading, Slot};

/// What a policy carries from slot to slot.
pub(crate) struct Last {
    /// The virtual queues, by budget.
    pub queues: Vec<f64>,
    /// The last layout, by position in the scenario; none before the first plan.
    layout: Option<Layout>,
    /// Whether a device has been there ever since that layout, and so still holds its layers.
    stayed: Vec<bool>,
}

impl Last {
    /// The queues of the first slot, and nothing moves into the first plan.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            queues: scenario.start_queues(),
            layout: None,
            stayed: vec![true; scenario.devices.len()],
        }
    }

    /// What devices hold; none before the first plan.
    fn held(&self) -> Option<Held<'_>> {
        let layout = self.layout.as_ref()?;
        Some(Held {
            layout,
            stayed: &self.stayed,
        })
    }

    /// Time that moving to a layout of the slot adds to each batch, in ms.
    pub(crate) fn moving_ms(&self, scenario: &Scenario, slot: &Slot, layout: &Layout) -> f64 {
        moving_ms(scenario, slot, self.held(), layout)
    }

    /// Goes on from a slot of that state.
    pub(crate) fn take(&mut self, scenario: &Scenario, state: &State, record: &SlotRecord) {
        self.queues.clone_from(&record.queues);
        let position = |name: &String| scenario.devices.iter().position(|device| device.name == *name);
        let stage = |stage: &StageRecord| Stage {
            layers: stage.layers[0]..stage.layers[1],
            devices: stage.devices.iter().filter_map(position).collect(),
        };
        let pipelines = record.pipelines.iter();
        let layout: Layout = pipelines
            .map(|stages| stages.iter().map(stage).collect())
            .collect();
        if layout.is_empty() {
            // Nobody had a plan, and who went away in the meantime lost what it held.
            let stayed = self.stayed.iter_mut().zip(&state.available);
            stayed.for_each(|(stayed, is_there)| *stayed &= is_there);
        } else {
            self.layout = Some(layout);
            self.stayed.fill(true);
        }
    }
}

/// A slot of a run as a policy finds it.
pub(crate) struct Situation<'a> {
    /// Number of the slot, from 0.
    pub t: usize,
    /// The state, with `V` and the policy's queues before the slot.
    pub slot: &'a Slot<'a>,
    /// The plans of the state of which none is beaten, with the proved optimum among them.
    pub frontier: &'a Frontier<'a>,
    /// What the policy carries into the slot.
    pub last: &'a Last,
}

/// Takes a policy's plan in a slot.
///
/// # Errors
///
/// `Broken` if the plan fails the checker, or is worth less than the optimum.
pub(crate) fn decide(
    scenario: &Scenario,
    policy: &Policy,
    fixed: &Fixed,
    situation: &Situation,
) -> Result<SlotRecord, OnlineError> {
    let &Situation {
        t,
        slot,
        frontier,
        last,
    } = situation;
    let moving = |layout: &Layout| last.moving_ms(scenario, slot, layout);
    let there = |layout: &Layout| present(scenario, slot, layout);
    let view = View {
        slot,
        frontier,
        last: last.layout.as_ref().and_then(there),
        fixed: match policy.choice {
            Choice::Static(which, _) => there(fixed.layout(which)),
            _ => None,
        },
        per_slot: &scenario.per_slot,
        moving_ms: &moving,
    };
    let plan = policies::choose(policy.choice, &view);
    let mut record = SlotRecord {
        policy: policy.name.into(),
        slot: t,
        devices: slot.devices.len(),
        time_ms: None,
        moving_ms: 0.0,
        costs: vec![0.0; scenario.budgets.len()],
        queues: Vec::new(),
        value: 0.0,
        optimum: 0.0,
        pipelines: Vec::new(),
    };
    if let (Some(plan), Some(best)) = (&plan, frontier.best(slot)) {
        let wrong = violations(slot, plan);
        if !wrong.is_empty() {
            let text = format!("slot {t} of `{}`: {}", policy.name, wrong.join("; "));
            return Err(OnlineError::Broken(text));
        }
        let (value, optimum) = (plan.value(slot), best.value(slot));
        if optimum > value * (1.0 + TOLERANCE) {
            let text = format!(
                "slot {t} of `{}` is worth {value}, below the optimum {optimum}",
                policy.name
            );
            return Err(OnlineError::Broken(text));
        }
        let moving_ms = moving(&plan.layout);
        record.time_ms = Some(rounded(plan.time_ms + moving_ms));
        record.moving_ms = rounded(moving_ms);
        record.costs = all_rounded(&plan.costs);
        (record.value, record.optimum) = (rounded(value), rounded(optimum));
        record.pipelines = pipelines(slot, plan);
    }
    record.queues = queues_after(scenario, last, &record.costs);
    Ok(record)
}

/// The virtual queues after a slot of these costs.
pub(crate) fn queues_after(scenario: &Scenario, last: &Last, costs: &[f64]) -> Vec<f64> {
    let queues = last.queues.iter().zip(costs).zip(&scenario.per_slot);
    queues
        .map(|((queue, cost), budget)| rounded((queue + cost - budget).max(0.0)))
        .collect()
}

fn pipelines(slot: &Slot, plan: &HybridPlan) -> Vec<Vec<StageRecord>> {
    let is_parallel = slot.reading == Reading::ParallelPipelines;
    let name = |&device: &usize| slot.devices[device].name.clone();
    let stage = |p: usize, k: usize, stage: &Stage| StageRecord {
        layers: [stage.layers.start, stage.layers.end],
        devices: stage.devices.iter().map(name).collect(),
        samples: match is_parallel {
            true => vec![rounded(plan.samples[0][p])],
            false => all_rounded(&plan.samples[k]),
        },
    };
    let stages =
        |(p, stages): (usize, &Vec<Stage>)| stages.iter().enumerate().map(|(k, s)| stage(p, k, s)).collect();
    plan.layout.iter().enumerate().map(stages).collect()
}
