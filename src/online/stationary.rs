//! The stationary randomised optimum, by column generation.
#![doc = include_str!("../../formulations/stationary.md")]

use super::controller::OnlineError;
use super::known::Known;
use super::scenario::Scenario;
use super::states::State;
use crate::formulations::horizon::{BUDGET_SCALE, Goal, Kind, build};
use crate::formulations::solver::{self, Stop};
use crate::model::units::NS_PER_MS;
use crate::problem::control::Control;
use crate::problem::hybrid::tentative;

/// By how much, relative to what the master has, a plan must be worth less to become a column: rows and duals hold to 1e-9.
const TOLERANCE: f64 = 1e-8;

/// A state and its share of the slots, with the plans that the master has of it.
struct Column<'a> {
    state: &'a State,
    kind: Kind,
}

/// The least mean time in ms of policies that draw plans by the state alone and keep the budgets; none if there are none.
///
/// `states` have their shares of slots in the long run. Means are over slots that have a plan.
///
/// # Errors
///
/// [`OnlineError`] where a slot is too large or HiGHS breaks down.
pub fn optimum_ms(
    scenario: &Scenario,
    known: &mut Known,
    states: &[(State, f64)],
    control: &Control,
) -> Result<Option<f64>, OnlineError> {
    let mut columns = Vec::new();
    for (state, share) in states {
        let slot = scenario.slot(state, 1.0, vec![0.0; scenario.budgets.len()]);
        let found = match slot.devices.is_empty() {
            true => None,
            false => tentative::search(&slot, None),
        };
        let (_, frontier) = known.plans(state)?;
        if let Some(first) = found.or_else(|| frontier.best(&slot)) {
            let kind = Kind {
                slots: *share,
                plans: vec![(first.time_ms, first.costs)],
            };
            columns.push(Column { state, kind });
        }
    }
    let served: f64 = columns.iter().map(|column| column.kind.slots).sum();
    if served == 0.0 {
        return Ok(None);
    }
    let excess = generate(scenario, known, &mut columns, Goal::Excess, control)?;
    if excess.is_none_or(|excess| excess > TOLERANCE) {
        return Ok(None);
    }
    let total_ms = generate(scenario, known, &mut columns, Goal::Time, control)?;
    Ok(total_ms.map(|total_ms| total_ms / served))
}

/// Solves the master, adds the plan of each state that is worth least at its prices, and again until none is worth less
/// than what the master has. Returns the excess, or the time in ms; none if it was stopped.
fn generate(
    scenario: &Scenario,
    known: &mut Known,
    columns: &mut [Column],
    goal: Goal,
    control: &Control,
) -> Result<Option<f64>, OnlineError> {
    loop {
        let kinds: Vec<Kind> = columns.iter().map(|column| column.kind.clone()).collect();
        let program = build(&kinds, &scenario.per_slot, goal);
        let unit = match goal {
            Goal::Time | Goal::WholeSlots => program.scale_ns / NS_PER_MS,
            Goal::Excess => 1.0,
        };
        let names = program.row_names();
        let solved = solver::solve(program, None, None, control, &|_| {})?;
        let (Stop::Optimal, Some(duals)) = (solved.stop, solved.duals) else {
            return Ok(None);
        };
        // What a unit of cost is worth: rows divide costs by budgets, and duals of upper limits are not positive.
        let price = |i: usize| {
            let row = names.iter().position(|name| *name == format!("budget[{i}]"));
            row.map_or(0.0, |row| {
                -duals[row] * BUDGET_SCALE * unit / scenario.per_slot[i]
            })
            .max(0.0)
        };
        let prices: Vec<f64> = (0..scenario.budgets.len()).map(price).collect();
        let time_weight = if goal == Goal::Excess { 0.0 } else { 1.0 };
        let mut is_done = true;
        for column in columns.iter_mut() {
            let slot = scenario.slot(column.state, time_weight, prices.clone());
            let (_, frontier) = known.plans(column.state)?;
            let Some(plan) = frontier.best(&slot) else {
                continue;
            };
            let value = |(time_ms, costs): &(f64, Vec<f64>)| {
                let paid = costs.iter().zip(&prices).map(|(cost, price)| cost * price);
                time_weight * time_ms + paid.sum::<f64>()
            };
            let has = column.kind.plans.iter().map(value).fold(f64::INFINITY, f64::min);
            let new = (plan.time_ms, plan.costs);
            if value(&new) < has - TOLERANCE * has.abs() {
                column.kind.plans.push(new);
                is_done = false;
            }
        }
        if is_done {
            return Ok(Some(solved.bound * unit));
        }
    }
}
