//! What each stage's worker and links are busy with, and what that means for the objective.
#![doc = include_str!("../../formulations/load.md")]

use std::ops::Range;

use good_lp::{Expression, variable};

use super::communication::Charges;
use super::staging::Staging;
use super::{Column, Program};
use crate::cost::{PhaseCost, Side, StageCost};
use crate::problem::Problem;
use crate::schedule::Bottlenecks;

/// A phase, or both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Forward and backward propagation.
    Both,
    /// Forward propagation.
    Forward,
    /// Backward propagation.
    Backward,
}

impl Phase {
    fn of(self, cost: &StageCost) -> PhaseCost {
        match self {
            Self::Both => cost.both(),
            Self::Forward => cost.forward,
            Self::Backward => cost.backward,
        }
    }

    /// Prefix of the names of this phase's rows and bottleneck.
    fn prefix(self) -> &'static str {
        match self {
            Self::Both => "",
            Self::Forward => "forward_",
            Self::Backward => "backward_",
        }
    }
}

/// One of the things a stage can be busy with.
type Resource = fn(&PhaseCost) -> u64;

const RESOURCES: [(&str, Resource); 3] = [
    ("load", PhaseCost::load_ns),
    ("link_in", |cost| cost.link_in_ns),
    ("link_out", |cost| cost.link_out_ns),
];

/// The bottlenecks that the objective weighs: one, or one a phase.
#[derive(Debug)]
pub struct BottleneckColumns {
    columns: Vec<(Phase, Column)>,
}

impl BottleneckColumns {
    /// Declares `T`, or `T_forward` and `T_backward`, with an upper bound in units of the program's scale.
    pub fn declare(program: &mut Program, problem: &Problem, at_most: f64) -> Self {
        let phases: &[Phase] = match problem.formula().bottlenecks {
            Bottlenecks::Together => &[Phase::Both],
            Bottlenecks::ByPhase => &[Phase::Forward, Phase::Backward],
        };
        let mut declare = |phase: Phase| {
            let bottleneck = variable().bounds(0.0..=at_most);
            program.declare(bottleneck.name(format!("{}bottleneck", phase.prefix())))
        };
        Self {
            columns: phases.iter().map(|&phase| (phase, declare(phase))).collect(),
        }
    }

    /// Their sum: at least the bottleneck of both phases together.
    pub fn sum(&self) -> Expression {
        self.columns.iter().map(|(_, column)| column.expression()).sum()
    }

    /// Writes the column values of an assignment's stages.
    pub fn write(&self, scale_ns: f64, costs: &[StageCost], values: &mut [f64]) {
        for &(phase, column) in &self.columns {
            let most = costs.iter().map(|cost| phase.of(cost).bottleneck_ns()).max();
            column.set(values, most.unwrap_or(0) as f64 / scale_ns);
        }
    }
}

/// Families `load`, `link_in` and `link_out` (by phase for GPipe): no worker and no link of `stages` is busier than the
/// bottleneck, or `capacity(k)` times it where `k` stands for that many stages.
pub fn load(
    program: &mut Program,
    problem: &Problem,
    staging: &Staging,
    charges: &Charges,
    bottlenecks: &BottleneckColumns,
    stages: Range<usize>,
    capacity: impl Fn(usize) -> f64,
) {
    for &(phase, bottleneck) in &bottlenecks.columns {
        for (family, resource) in RESOURCES {
            for k in stages.clone() {
                let busy = busy(program, problem, staging, charges, k, |cost| {
                    resource(&phase.of(cost))
                });
                let name = format!("{}{family}[{}]", phase.prefix(), k + 1);
                program.add_row(name, busy, capacity(k) * bottleneck.expression());
            }
        }
    }
}

/// What to minimise: the bottleneck, or the loads of all stages once and the bottlenecks M - 1 times.
pub fn objective(
    program: &Program,
    problem: &Problem,
    staging: &Staging,
    charges: &Charges,
    bottlenecks: &BottleneckColumns,
) -> Expression {
    let mut objective = Expression::default();
    let formula = problem.formula();
    if formula.counts_loads {
        for k in 0..problem.stages() {
            objective += busy(program, problem, staging, charges, k, StageCost::load_ns);
        }
    }
    for &(_, bottleneck) in &bottlenecks.columns {
        bottleneck.add_to(&mut objective, formula.weight as f64);
    }
    objective
}

/// What stage `k` is busy with, linear in placements and charges. The coefficients are those of [`crate::cost`]: the cost
/// of an item alone, and of one side of a transfer alone.
fn busy(
    program: &Program,
    problem: &Problem,
    staging: &Staging,
    charges: &Charges,
    k: usize,
    resource: impl Fn(&StageCost) -> u64,
) -> Expression {
    let mut busy = Expression::default();
    for i in 0..problem.items.len() {
        let mut alone = StageCost::default();
        alone.add_item(problem, i);
        let work = resource(&alone) as f64 / program.scale_ns;
        if work > 0.0 {
            staging.add_x(&mut busy, work, i, k);
        }
    }
    add_transfers(&mut busy, program, problem, charges, k, resource);
    busy
}

/// Adds what the transfers of stage `k` keep busy, linear in charges.
pub fn add_transfers(
    busy: &mut Expression,
    program: &Program,
    problem: &Problem,
    charges: &Charges,
    k: usize,
    resource: impl Fn(&StageCost) -> u64,
) {
    for (t, transfer) in problem.transfers.iter().enumerate() {
        for side in [Side::Producer, Side::Consumer] {
            let Some(charge) = charges.at(t, k, side) else {
                continue;
            };
            let mut alone = StageCost::default();
            alone.add_transfer(problem.settings.communication, transfer, side);
            let paid = resource(&alone) as f64 / program.scale_ns;
            if paid > 0.0 {
                charge.add_to(busy, paid);
            }
        }
    }
}
