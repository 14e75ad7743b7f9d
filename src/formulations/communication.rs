//! Which transfers each stage pays for.
#![doc = include_str!("../../formulations/communication.md")]

use std::ops::Range;

use good_lp::{Expression, variable};

use super::staging::Staging;
use super::{Column, Program};
use crate::problem::cost::Side;
use crate::problem::{Assignment, Problem};

/// The charges of every transfer at every stage, where windows leave one possible.
#[derive(Debug)]
pub(crate) struct Charges {
    /// `sent[t][k]`: stage `k` holds the producer of `t`, and some consumer is elsewhere.
    sent: Vec<Vec<Option<Column>>>,
    /// `received[t][k]`: stage `k` holds a consumer of `t`, and the producer is elsewhere.
    received: Vec<Vec<Option<Column>>>,
}

impl Charges {
    /// Declares the charges at `stages` that some assignment within the windows could pay.
    pub(crate) fn declare(
        program: &mut Program,
        problem: &Problem,
        staging: &Staging,
        stages: Range<usize>,
    ) -> Self {
        let mut of_side = |name: &str, possible: &dyn Fn(usize, usize) -> bool| -> Vec<Vec<Option<Column>>> {
            let mut charges = Vec::with_capacity(problem.transfers.len());
            for t in 0..problem.transfers.len() {
                let at_stage = (0..problem.stages()).map(|k| {
                    let charge = variable()
                        .bounds(0.0..=1.0)
                        .name(format!("{name}[{t},{}]", k + 1));
                    (stages.contains(&k) && possible(t, k)).then(|| program.declare(charge))
                });
                charges.push(at_stage.collect());
            }
            charges
        };
        let sent = of_side("sent", &|t, k| {
            let transfer = &problem.transfers[t];
            let leaves = |&to: &usize| !staging.is_fixed_to(to, k);
            staging.allows(transfer.producer, k) && transfer.consumers.iter().any(leaves)
        });
        let received = of_side("received", &|t, k| {
            let transfer = &problem.transfers[t];
            let enters = |&to: &usize| staging.allows(to, k);
            !staging.is_fixed_to(transfer.producer, k) && transfer.consumers.iter().any(enters)
        });
        Self { sent, received }
    }

    /// Declares the charges of every transfer at every one of so many devices, which hold several stages each.
    pub(crate) fn at_devices(program: &mut Program, problem: &Problem, devices: usize) -> Self {
        let mut of_side = |name: &str| -> Vec<Vec<Option<Column>>> {
            let transfers = 0..problem.transfers.len();
            let mut at = |t: usize, device: usize| {
                let charge = variable().bounds(0.0..=1.0);
                program.declare(charge.name(format!("{name}[{t},{}]", device + 1)))
            };
            transfers
                .map(|t| (0..devices).map(|device| Some(at(t, device))).collect())
                .collect()
        };
        Self {
            sent: of_side("sent"),
            received: of_side("received"),
        }
    }

    /// The charge of a transfer at a stage, on one side.
    pub(crate) fn charge(&self, transfer: usize, stage: usize, side: Side) -> Option<Column> {
        match side {
            Side::Producer => self.sent[transfer][stage],
            Side::Consumer => self.received[transfer][stage],
        }
    }

    /// Writes the column values of an assignment.
    pub(crate) fn write(&self, problem: &Problem, assignment: &Assignment, values: &mut [f64]) {
        for (t, transfer) in problem.transfers.iter().enumerate() {
            let home = assignment[transfer.producer];
            let leaves = transfer.consumers.iter().any(|&to| assignment[to] != home);
            for k in 0..problem.stages() {
                let enters = transfer.consumers.iter().any(|&to| assignment[to] == k);
                if let Some(sent) = self.sent[t][k] {
                    sent.set(values, f64::from(home == k && leaves));
                }
                if let Some(received) = self.received[t][k] {
                    received.set(values, f64::from(home != k && enters));
                }
            }
        }
    }
}

/// Families `sent` and `received`: a charge is 1 where producer and consumer lie on different sides of a stage's border.
pub(crate) fn charges(
    program: &mut Program,
    problem: &Problem,
    staging: &Staging,
    charges: &Charges,
    labels: &[String],
) {
    charges_of(program, problem, charges, labels, &|here, elsewhere, k| {
        staging.x(here, k) - staging.x(elsewhere, k)
    });
}

/// The same for any measure of one item being inside a stage and another not, given in this order, such as that of `groups`
/// less what makes the stage's transfers free, or for charges of devices in place of stages.
pub(crate) fn charges_of(
    program: &mut Program,
    problem: &Problem,
    charges: &Charges,
    labels: &[String],
    apart: &dyn Fn(usize, usize, usize) -> Expression,
) {
    for (t, transfer) in problem.transfers.iter().enumerate() {
        for k in 0..charges.sent[t].len() {
            for &to in &transfer.consumers {
                let from = transfer.producer;
                let indices = format!("{t},{},{}", labels[to], k + 1);
                if let Some(sent) = charges.sent[t][k] {
                    program.add_row(format!("sent[{indices}]"), apart(from, to, k), sent.expression());
                }
                if let Some(received) = charges.received[t][k] {
                    let name = format!("received[{indices}]");
                    program.add_row(name, apart(to, from, k), received.expression());
                }
            }
        }
    }
}
