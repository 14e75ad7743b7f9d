//! What is known of states that came up: their best plans, solved once.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::scenario::Scenario;
use super::states::State;
use crate::problem::hybrid::Slot;
use crate::problem::hybrid::counts::TooMany;
use crate::problem::hybrid::exact::Front;
use crate::problem::hybrid::plan::HybridPlan;

/// The best plans of every state that came up.
///
/// States that differ by swaps of devices of one kind share their plans, see `State::key`.
pub struct Known<'a> {
    scenario: &'a Scenario,
    positions: HashMap<Vec<[u64; 4]>, usize>,
    states: Vec<Vec<HybridPlan>>,
}

/// Plans of a state of which none is beaten in time and all costs by another.
pub struct Frontier<'a> {
    plans: &'a [HybridPlan],
    /// The device of the slot for each device that plans name.
    devices: Vec<usize>,
}

impl<'a> Known<'a> {
    /// Nothing is known yet.
    pub fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            positions: HashMap::new(),
            states: Vec::new(),
        }
    }

    /// A number that a state shares with those that are like it, and its plans; solved if it is new.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where the slot has too many classes of devices.
    pub fn plans(&mut self, state: &State) -> Result<(usize, Frontier<'_>), TooMany> {
        let kinds = self.scenario.kinds();
        let order = state.order(&kinds);
        let key = state.key(&kinds);
        let at = match self.positions.get(&key) {
            Some(&at) => at,
            None => {
                let queues = vec![0.0; self.scenario.budgets.len()];
                let mut slot = self.scenario.slot(state, 1.0, queues);
                // In the order of the key, so that equal plans are told apart alike whichever state comes up first.
                slot.devices = order.iter().map(|&device| slot.devices[device].clone()).collect();
                self.states.push(frontier(&slot)?);
                self.positions.insert(key, self.states.len() - 1);
                self.states.len() - 1
            }
        };
        let frontier = Frontier {
            plans: &self.states[at],
            devices: order,
        };
        Ok((at, frontier))
    }
}

impl Frontier<'_> {
    /// Time in ms and cost by budget of each plan.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, &[f64])> {
        self.plans.iter().map(|plan| (plan.time_ms, &plan.costs[..]))
    }

    /// The plan of least `V time + Σ Q cost`.
    pub(crate) fn best(&self, slot: &Slot) -> Option<HybridPlan> {
        let plans = self.plans.iter();
        let best = plans.min_by(|a, b| a.value(slot).total_cmp(&b.value(slot)));
        best.map(|plan| self.told(plan))
    }

    /// The plan of least time whose cost keeps the budgets, else the one that exceeds them by the least factor.
    pub(crate) fn best_within(&self, per_slot: &[f64]) -> Option<HybridPlan> {
        let excess = |plan: &HybridPlan| {
            let costs = plan.costs.iter().zip(per_slot);
            costs.map(|(cost, budget)| cost / budget).fold(1.0, f64::max)
        };
        let key = |plan: &HybridPlan| (excess(plan), plan.time_ms);
        let plans = self.plans.iter();
        let best = plans.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal));
        best.map(|plan| self.told(plan))
    }

    /// A plan with the devices of the slot.
    fn told(&self, plan: &HybridPlan) -> HybridPlan {
        let mut plan = plan.clone();
        for device in plan
            .layout
            .iter_mut()
            .flatten()
            .flat_map(|stage| &mut stage.devices)
        {
            *device = self.devices[*device];
        }
        plan
    }
}

/// The plans of a slot of which none is beaten: enough for every `V, Q >= 0`, as prices are not negative.
fn frontier(slot: &Slot) -> Result<Vec<HybridPlan>, TooMany> {
    if slot.devices.is_empty() {
        return Ok(Vec::new());
    }
    let front = Front::new(slot)?;
    let mut points: Vec<(usize, f64, Vec<f64>)> = front
        .points()
        .map(|(n, time_ms)| (n, time_ms, front.counts.costs(slot, n)))
        .collect();
    points.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut kept: Vec<(usize, f64, Vec<f64>)> = Vec::new();
    for point in points {
        let beats = |other: &(usize, f64, Vec<f64>)| other.2.iter().zip(&point.2).all(|(a, b)| a <= b);
        if !kept.iter().any(beats) {
            kept.push(point);
        }
    }
    Ok(kept.iter().filter_map(|(n, ..)| front.plan(slot, *n)).collect())
}
