//! What no policy can beat: the clairvoyant optimum of the horizon and its Lagrangian bound (`formulations/horizon.md`).

use super::known::Frontier;
use super::record::{Yardsticks, rounded};
use crate::formulations::horizon::{Goal, Kind, build};
use crate::formulations::solver::{self, SolverError, Stop};
use crate::model::units::NS_PER_MS;
use crate::problem::control::Control;

/// Slots of a horizon, counted by state. States without any plan are left out: no policy is served there.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    positions: Vec<usize>,
    kinds: Vec<Kind>,
}

impl Kinds {
    /// Counts slots, or a share of them, in a state, which is known by its number.
    pub fn add(&mut self, position: usize, slots: f64, plans: &Frontier) {
        if plans.points().next().is_none() {
            return;
        }
        match self.positions.iter().position(|known| *known == position) {
            Some(at) => self.kinds[at].slots += slots,
            None => {
                self.positions.push(position);
                let plans = plans.points().map(|(time_ms, costs)| (time_ms, costs.to_vec()));
                self.kinds.push(Kind {
                    slots,
                    plans: plans.collect(),
                });
            }
        }
    }

    /// The slots by state.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }
}

/// Nodes of branch and bound after which the clairvoyant optimum is given up and its bound stands.
const MOST_NODES: u64 = 2_000;

/// Solves both programs over a horizon of so many slots; the rest is left to the controller.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn yardsticks(
    counted: &Kinds,
    per_slot: &[f64],
    slots: usize,
    control: &Control,
) -> Result<Yardsticks, SolverError> {
    Ok(Yardsticks {
        clairvoyant_ms: solve(counted, per_slot, slots, Goal::WholeSlots, control)?.map(rounded),
        lagrangian_ms: bound_ms(counted, per_slot, slots, control)?.map(rounded),
        stationary_ms: None,
        held_ms: Vec::new(),
    })
}

/// The Lagrangian bound on the mean time of any plans whose mean costs are so much; none if no plans cost so little.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn bound_ms(
    counted: &Kinds,
    per_slot: &[f64],
    slots: usize,
    control: &Control,
) -> Result<Option<f64>, SolverError> {
    solve(counted, per_slot, slots, Goal::Time, control)
}

fn solve(
    counted: &Kinds,
    per_slot: &[f64],
    slots: usize,
    goal: Goal,
    control: &Control,
) -> Result<Option<f64>, SolverError> {
    let served: f64 = counted.kinds.iter().map(|kind| kind.slots).sum();
    if served == 0.0 {
        return Ok(None);
    }
    let total: Vec<f64> = per_slot.iter().map(|budget| budget * slots as f64).collect();
    let program = build(&counted.kinds, &total, goal);
    let scale = program.scale_ns / NS_PER_MS / served;
    // A node limit, not a clock: the same run gives the same lines. Bounds are read, not incumbents.
    let control = Control {
        time_limit: None,
        ..control.clone()
    };
    let most_nodes = (goal == Goal::WholeSlots).then_some(MOST_NODES);
    let solved = solver::solve(program, None, most_nodes, &control, &|_| {})?;
    Ok((solved.stop == Stop::Optimal).then_some(solved.bound * scale))
}
