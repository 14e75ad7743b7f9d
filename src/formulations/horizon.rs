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

/// Budgets hold to this part of them: costs are counted in such parts.
///
/// HiGHS takes costs for equal that differ by less than its own tolerance, and then drops the plan that was a little cheaper:
/// it called 32.7 ms optimal where two slots of 26.0 ms kept the budget to the last digit. So costs that are not equal must
/// differ by far more than the solver could overlook.
pub(crate) const BUDGET_TOLERANCE: f64 = 1e-9;

/// By what rows of budgets are multiplied, so that a part lies a thousand times above the solver's tolerance.
pub(crate) const BUDGET_SCALE: f64 = 1e3;

/// A plan that costs more than so many whole budgets counts as one that costs as much: it is used for no more than a
/// millionth of a slot either way, and HiGHS refuses much larger numbers.
const MOST_BUDGETS: f64 = 1e6;

/// A cost as a part of a budget over the horizon, in whole parts of [`BUDGET_TOLERANCE`], rounded down: the program never
/// refuses plans that keep the budgets.
fn part(cost: f64, total: f64) -> f64 {
    /// Sums of doubles that fall short of a whole part by so little mean the part.
    const SLIP: f64 = 1e-3;
    let parts = (cost / total).min(MOST_BUDGETS) / BUDGET_TOLERANCE;
    (parts + SLIP).floor() * BUDGET_TOLERANCE * BUDGET_SCALE
}

/// Builds the program; `total` is what each budget may pay over the horizon.
pub fn build(kinds: &[Kind], total: &[f64], goal: Goal) -> Program {
    let times = kinds
        .iter()
        .flat_map(|kind| &kind.plans)
        .map(|(time_ms, _)| *time_ms);
    let largest_ms = times.fold(f64::MIN_POSITIVE, f64::max);
    let mut program = Program::new(largest_ms * crate::model::units::NS_PER_MS);
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
                column.add_to(spent, part(*cost, *total));
            }
        }
        let slots = Expression::from(kind.slots);
        program.add_row(format!("one_plan[{s}]"), slots, used);
    }
    let mut limit = Expression::from(BUDGET_SCALE * (1.0 + BUDGET_TOLERANCE));
    if goal == Goal::Excess {
        let excess = program.declare(variable().min(0).name("excess"));
        excess.add_to(&mut objective, 1.0);
        excess.add_to(&mut limit, BUDGET_SCALE);
    }
    for (i, spent) in spent.into_iter().enumerate() {
        program.add_row(format!("budget[{i}]"), spent, limit.clone());
    }
    program.objective = objective;
    program
}
