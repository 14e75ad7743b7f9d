//! What is known of states that came up: their best plans, solved once.

use super::scenario::Scenario;
use super::states::State;
use crate::hybrid::Slot;
use crate::hybrid::counts::TooMany;
use crate::hybrid::exact::Front;
use crate::hybrid::plan::HybridPlan;

/// Plans of a state of which none is beaten in time and all costs by another, kept for every state that came up.
pub struct Known<'a> {
    scenario: &'a Scenario,
    states: Vec<(State, Vec<HybridPlan>)>,
}

impl<'a> Known<'a> {
    /// Nothing is known yet.
    pub fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            states: Vec::new(),
        }
    }

    /// The position of a state, and its plans; solved if it is new.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where the slot has too many classes of devices.
    pub fn plans(&mut self, state: &State) -> Result<(usize, &[HybridPlan]), TooMany> {
        let at = match self.states.iter().position(|(known, _)| known == state) {
            Some(at) => at,
            None => {
                let queues = vec![0.0; self.scenario.budgets.len()];
                let slot = self.scenario.slot(state, 1.0, queues);
                self.states.push((state.clone(), frontier(&slot)?));
                self.states.len() - 1
            }
        };
        Ok((at, &self.states[at].1))
    }
}

/// The plans of a slot of which none is beaten: enough for every `V, Q >= 0`, as prices are not negative.
///
/// # Errors
///
/// [`TooMany`] where the slot has too many classes of devices.
pub fn frontier(slot: &Slot) -> Result<Vec<HybridPlan>, TooMany> {
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
