//! The horizon program: which plan each slot of a known horizon uses, under budgets.
#![doc = include_str!("../../formulations/horizon.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};

/// Slots of equal state: how many, and their plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Slots in the state, or its share of them.
    pub slots: f64,
    /// Time of each plan in ms, and its cost by budget.
    pub plans: Vec<(f64, Vec<f64>)>,
}

/// What is asked of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The least sum of times over slots, in units of `scale_ns`, where each slot uses one plan.
    WholeSlots,
    /// The same where slots may be divided among plans: the relaxation, whose value is that of the Lagrangian dual.
    Time,
    /// The least excess of the relaxation over its budgets, as a part of them.
    Excess,
}

/// Builds the program; `total` is what each budget may pay over the horizon.
pub fn build(kinds: &[Kind], total: &[f64], goal: Goal) -> Program {
    let times = kinds
        .iter()
        .flat_map(|kind| &kind.plans)
        .map(|(time_ms, _)| *time_ms);
    let largest_ms = times.fold(f64::MIN_POSITIVE, f64::max);
    let mut program = Program::new(largest_ms * crate::units::NS_PER_MS);
    let mut spent = vec![Expression::default(); total.len()];
    let mut objective = Expression::default();
    for (s, kind) in kinds.iter().enumerate() {
        let mut used = Expression::default();
        for (p, (time_ms, costs)) in kind.plans.iter().enumerate() {
            // Times and costs are not negative, so no optimum needs more than all slots; a limit would have a dual of its own.
            let definition = variable().min(0).name(format!("slots_with[{s},{p}]"));
            let column: Column = program.declare(match goal {
                Goal::WholeSlots => definition.integer().max(kind.slots),
                Goal::Time | Goal::Excess => definition,
            });
            column.add_to(&mut used, 1.0);
            if goal != Goal::Excess {
                column.add_to(&mut objective, time_ms / largest_ms);
            }
            for ((spent, cost), total) in spent.iter_mut().zip(costs).zip(total) {
                column.add_to(spent, cost / total);
            }
        }
        let slots = Expression::from(kind.slots);
        program.add_row(format!("one_plan[{s}]"), slots, used);
    }
    let mut limit = Expression::from(1.0);
    if goal == Goal::Excess {
        let excess = program.declare(variable().min(0).name("excess"));
        for sum in [&mut objective, &mut limit] {
            excess.add_to(sum, 1.0);
        }
    }
    for (i, spent) in spent.into_iter().enumerate() {
        program.add_row(format!("budget[{i}]"), spent, limit.clone());
    }
    program.objective = objective;
    program
}
