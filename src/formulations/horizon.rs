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

/// Builds the program; its objective is the sum of times over slots, in units of `scale_ns`.
///
/// * `total`: what each budget may pay over the horizon;
/// * `whole`: whether slots use whole plans; without, it is the relaxation whose value is that of the Lagrangian dual.
pub fn build(kinds: &[Kind], total: &[f64], whole: bool) -> Program {
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
            let definition = variable()
                .min(0)
                .max(kind.slots)
                .name(format!("slots_with[{s},{p}]"));
            let column: Column = program.declare(if whole { definition.integer() } else { definition });
            column.add_to(&mut used, 1.0);
            column.add_to(&mut objective, time_ms / largest_ms);
            for ((spent, cost), total) in spent.iter_mut().zip(costs).zip(total) {
                column.add_to(spent, cost / total);
            }
        }
        let slots = Expression::from(kind.slots);
        program.add_row(format!("one_plan[{s}]"), slots, used);
    }
    for (i, spent) in spent.into_iter().enumerate() {
        program.add_row(format!("budget[{i}]"), spent, Expression::from(1.0));
    }
    program.objective = objective;
    program
}
