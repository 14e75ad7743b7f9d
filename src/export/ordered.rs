//! The order in which devices run the passes of a plan's stages, for frameworks that take one.

use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::Mode;
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::plan::Plan;
use crate::schedule::rules::{Rule, Shape};
use crate::schedule::{Chunk, Chunks, Order, Phase, Placement, knows_memory, run, take_memory};

/// An order of operations that is one of a plan and can be run: its chunks are the stages, and each lies on the device whose line
/// has its forward passes.
#[derive(Debug)]
pub struct Ordered {
    /// Where it stands, for settings that name the file.
    pub name: String,
    /// The order.
    pub order: Order,
    /// Micro-batches of an iteration.
    pub micro_batches: usize,
    /// The device of every stage, by its line, from 0.
    pub ranks: Vec<usize>,
}

impl Ordered {
    /// The order of a file, for a plan.
    ///
    /// # Errors
    ///
    /// An order of another plan: of other chunks, micro-batches or devices; and one that cannot be run, with the operations that
    /// wait for each other, or with the one that devices have no room for, where [`take_memory`] knows what stages hold.
    pub fn new(instance: &Instance, plan: &Plan, name: String, order: Order) -> Result<Self, Fault> {
        let at_order = |kind| Fault::new("the order", kind);
        let stages = plan.stages.len();
        refuse_other(plan, &order).map_err(at_order)?;
        let mut ranks = vec![0; stages];
        for (device, list) in order.devices.iter().enumerate() {
            let forward = list.iter().filter(|operation| operation.phase == Phase::Forward);
            forward.for_each(|operation| ranks[operation.chunk] = device);
        }
        let mut chunks = Chunks {
            placement: Placement::Loop,
            chunks: ranks
                .iter()
                .map(|&device| Chunk {
                    device,
                    ..Chunk::default()
                })
                .collect(),
            room: vec![None; order.devices.len()],
            may_split: true,
            trains: true,
        };
        // Other plans have no bytes by stage: modes, separate cuts, workers that differ.
        if knows_memory(plan, instance).map_err(first)? {
            take_memory(&mut chunks, plan, instance).map_err(first)?;
        }
        let micro_batches = order.micro_batches();
        run(&chunks, &order, micro_batches).map_err(|fault| at_order(fault.kind()))?;
        refuse_other_devices(plan, &ranks).map_err(at_order)?;
        Ok(Self {
            name,
            order,
            micro_batches,
            ranks,
        })
    }

    /// Devices.
    pub(super) fn devices(&self) -> usize {
        self.order.devices.len()
    }

    /// How stages lie on devices, if as one of the placements; a stage a device in order is both, and a loop.
    pub(super) fn placement(&self) -> Option<Placement> {
        [Placement::Loop, Placement::V].into_iter().find(|placement| {
            let is_there = |(stage, &rank): (usize, &usize)| placement.device(stage, self.devices()) == rank;
            self.ranks.iter().enumerate().all(is_there)
        })
    }

    /// Whether it is what a rule writes.
    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        let shape = self.placement().map(|placement| Shape {
            devices: self.devices(),
            virtual_stages: self.ranks.len() / self.devices(),
            placement,
            micro_batches: self.micro_batches,
        });
        let is_even = self.ranks.len().is_multiple_of(self.devices());
        is_even && shape.and_then(|shape| rule.order(&shape)).as_ref() == Some(&self.order)
    }
}

/// The first fault; there is one at least.
fn first(mut error: InputError) -> Fault {
    error.faults.remove(0)
}

/// Other chunks or micro-batches than the plan's, and devices without a stage.
fn refuse_other(plan: &Plan, order: &Order) -> Result<(), FaultKind> {
    let contradiction = |found: String, expected: Words| {
        let found = found.into();
        Err(FaultKind::Contradiction { found, expected })
    };
    if plan.problem.mode == Some(Mode::Inference) {
        return contradiction(
            "one for a plan for inference".into(),
            words!("one for {}", setting::MODE.given("training")),
        );
    }
    let stages = plan.stages.len();
    let named = order.devices.iter().flatten();
    let chunks = named.map(|operation| operation.chunk.saturating_add(1));
    let chunks = chunks.max().unwrap_or(0);
    if chunks != stages {
        return contradiction(
            format!("an order of {chunks} chunks"),
            format!("{stages}, one for each stage of the plan").into(),
        );
    }
    let micro_batches = order.micro_batches() as u64;
    if let Some(expected) = plan
        .problem
        .micro_batches
        .filter(|&of_plan| of_plan != micro_batches)
    {
        return contradiction(
            format!("an order of {micro_batches} micro-batches"),
            format!("the plan's {expected}").into(),
        );
    }
    match order.devices.iter().position(Vec::is_empty) {
        Some(line) => contradiction(
            format!("no operation on line {}", line + 1),
            "a stage at least on every device".into(),
        ),
        None => Ok(()),
    }
}

/// A plan whose stages share devices says itself which lie together.
fn refuse_other_devices(plan: &Plan, ranks: &[usize]) -> Result<(), FaultKind> {
    let of = |stage: usize| &plan.stages[stage].devices;
    let stages = 0..ranks.len();
    let shares = stages
        .clone()
        .any(|b| (0..b).any(|a| !of(a).is_empty() && of(a) == of(b)));
    let wrong = stages
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .find(|&(a, b)| shares && (of(a) == of(b)) != (ranks[a] == ranks[b]));
    let Some((a, b)) = wrong else {
        return Ok(());
    };
    let words = |together: bool| if together { "one device" } else { "two devices" };
    Err(FaultKind::Contradiction {
        found: format!("chunks {a} and {b} on {}", words(ranks[a] == ranks[b])).into(),
        expected: format!("them on {}, as in the plan", words(of(a) == of(b))).into(),
    })
}
