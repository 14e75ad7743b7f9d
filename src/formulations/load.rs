//! What each stage's worker and links are busy with, and what that means for the objective.
#![doc = include_str!("../../formulations/load.md")]

use std::ops::Range;

use good_lp::{Expression, variable};

use super::communication::Charges;
use super::staging::Staging;
use super::{Column, Program};
use crate::model::schedule::Bottlenecks;
use crate::problem::Problem;
use crate::problem::cost::{PhaseCost, Side, StageCost};

/// A phase, or both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Forward and backward propagation.
    Both,
    /// Forward propagation.
    Forward,
    /// Backward propagation.
    Backward,
}

impl Phase {
    fn cost_in(self, cost: &StageCost) -> PhaseCost {
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
pub(super) type Resource = fn(&PhaseCost) -> u64;

pub(super) const RESOURCES: [(&str, Resource); 3] = [
    ("load", PhaseCost::load_ns),
    ("link_in", |cost| cost.link_in_ns),
    ("link_out", |cost| cost.link_out_ns),
];

/// The bottlenecks that the objective weighs: one, or one a phase.
#[derive(Debug)]
pub(crate) struct BottleneckColumns {
    columns: Vec<(Phase, Column)>,
}

impl BottleneckColumns {
    /// Declares `T`, or `T_forward` and `T_backward`, with an upper bound in units of the program's scale.
    pub(crate) fn declare(program: &mut Program, problem: &Problem, at_most: f64) -> Self {
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
    pub(crate) fn sum(&self) -> Expression {
        self.columns.iter().map(|(_, column)| column.expression()).sum()
    }

    /// Writes the column values of an assignment's stages.
    pub(crate) fn write(&self, scale_ns: f64, costs: &[StageCost], values: &mut [f64]) {
        for &(phase, column) in &self.columns {
            let most = costs.iter().map(|cost| phase.cost_in(cost).bottleneck_ns()).max();
            column.set(values, most.unwrap_or(0) as f64 / scale_ns);
        }
    }
}

/// What loads are linear in: where items lie, and which transfers are paid.
#[derive(Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// What is placed.
    pub problem: &'a Problem,
    /// Where items lie.
    pub staging: &'a Staging,
    /// Which transfers are paid.
    pub charges: &'a Charges,
}

/// Families `load`, `link_in` and `link_out` (by phase for GPipe): no worker and no link of `stages` is busier than the
/// bottleneck, or `capacity(k)` times it where `k` stands for that many stages.
pub(crate) fn load(
    program: &mut Program,
    placement: Placement,
    bottlenecks: &BottleneckColumns,
    stages: Range<usize>,
    capacity: impl Fn(usize) -> f64,
) {
    for &(phase, bottleneck) in &bottlenecks.columns {
        for (family, resource) in RESOURCES {
            for k in stages.clone() {
                let busy = placement.busy(k, program.scale_ns, |cost| resource(&phase.cost_in(cost)));
                let name = format!("{}{family}[{}]", phase.prefix(), k + 1);
                program.add_row(name, busy, capacity(k) * bottleneck.expression());
            }
        }
    }
}

/// What to minimise: the bottleneck, or the loads of all stages once and the bottlenecks M - 1 times.
pub(crate) fn objective(
    program: &Program,
    placement: Placement,
    bottlenecks: &BottleneckColumns,
) -> Expression {
    let mut objective = Expression::default();
    let formula = placement.problem.formula();
    if formula.counts_loads {
        for k in 0..placement.problem.stages() {
            objective += placement.busy(k, program.scale_ns, StageCost::load_ns);
        }
    }
    for &(_, bottleneck) in &bottlenecks.columns {
        bottleneck.add_to(&mut objective, formula.weight as f64);
    }
    objective
}

impl Placement<'_> {
    /// What stage `k` is busy with, in units of `scale_ns`. The coefficients are those of [`crate::problem::cost`]: the cost of an
    /// item alone, and of one side of a transfer alone.
    fn busy(&self, k: usize, scale_ns: f64, resource: impl Fn(&StageCost) -> u64) -> Expression {
        let mut busy = Expression::default();
        let scaled = |cost: &StageCost| resource(cost) as f64 / scale_ns;
        for i in 0..self.problem.items.len() {
            let mut alone = StageCost::default();
            alone.add_item(self.problem, i);
            let work = scaled(&alone);
            if work > 0.0 {
                self.staging.add_x(&mut busy, work, i, k);
            }
        }
        add_transfers(&mut busy, self.problem, self.charges, k, scaled);
        busy
    }
}

/// Adds what the transfers of stage `k` keep busy, linear in charges; `scaled` is the part of a cost that counts, in units of
/// the program's scale.
pub(crate) fn add_transfers(
    busy: &mut Expression,
    problem: &Problem,
    charges: &Charges,
    k: usize,
    scaled: impl Fn(&StageCost) -> f64,
) {
    for (t, transfer) in problem.transfers.iter().enumerate() {
        for side in [Side::Producer, Side::Consumer] {
            let Some(charge) = charges.charge(t, k, side) else {
                continue;
            };
            let mut alone = StageCost::default();
            alone.add_transfer(problem.settings.communication, transfer, side);
            let paid = scaled(&alone);
            if paid > 0.0 {
                charge.add_to(busy, paid);
            }
        }
    }
}
