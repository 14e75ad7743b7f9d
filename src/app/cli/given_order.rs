//! Orders that are there already: those of published rules, and those of files.

use std::path::{Path, PathBuf};

use crate::exact::best_schedule::answer::Answer;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::schedule::rules::{Rule, Shape};
use crate::schedule::{Chunks, Order, OrderFault, Placement, read_order};

use super::args::GivenArgs;

/// What was given.
pub(super) enum Given {
    Rule(&'static Rule),
    File(PathBuf, Order),
}

/// An order, and where it comes from.
pub(super) struct GivenOrder {
    order: Order,
    from: Origin,
}

enum Origin {
    Rule(&'static str),
    File(PathBuf),
}

impl Given {
    /// What the flags name, if they name anything.
    pub fn read(args: &GivenArgs) -> Result<Option<Self>, InputError> {
        let of_file = |path: &PathBuf| Ok(Self::File(path.clone(), read_order(path)?));
        match args.rule {
            Some(rule) => Ok(Some(Self::Rule(rule))),
            None => args.order.as_ref().map(of_file).transpose(),
        }
    }

    /// Micro-batches, where they are said.
    pub fn micro_batches(&self) -> Option<u64> {
        match self {
            Self::Rule(_) => None,
            Self::File(_, order) => Some(order.micro_batches() as u64),
        }
    }

    /// The order for so many micro-batches.
    pub fn order(self, chunks: &Chunks, micro_batches: usize) -> Result<GivenOrder, InputError> {
        let (order, from) = match self {
            Self::Rule(rule) => (of_rule(rule, chunks, micro_batches)?, Origin::Rule(rule.name)),
            Self::File(path, order) => (order, Origin::File(path)),
        };
        let given = GivenOrder { order, from };
        if given.order.splits() && !chunks.may_split {
            return Err(given.fault(FaultKind::Conflict {
                found: "gradients of inputs and weights apart".into(),
                expected: "the time of each".into(),
                remedy: "give `--weight-share` of a plan's backward passes, or `--weight` of even chunks"
                    .into(),
            }));
        }
        Ok(given)
    }
}

impl GivenOrder {
    /// What becomes of it.
    pub fn run(&self, of: &str, chunks: &Chunks, micro_batches: usize) -> Result<Answer, InputError> {
        let name = match &self.from {
            Origin::Rule(name) => (*name).to_owned(),
            Origin::File(path) => path.display().to_string(),
        };
        Answer::of_order(of, chunks, (&name, &self.order), micro_batches)
            .map_err(|fault: OrderFault| self.fault(fault.kind()))
    }

    fn fault(&self, kind: FaultKind) -> InputError {
        match &self.from {
            Origin::Rule(name) => InputError::option(format!("--rule {name}"), kind),
            Origin::File(path) => in_order(path, kind),
        }
    }
}

/// A fault of an order that stands in a file.
pub(super) fn in_order(path: &Path, kind: FaultKind) -> InputError {
    InputError::in_file(path, [Fault::new("the order", kind)])
}

fn of_rule(rule: &Rule, chunks: &Chunks, micro_batches: usize) -> Result<Order, InputError> {
    let order = Shape::from_chunks(chunks, micro_batches).and_then(|shape| rule.order(&shape));
    order.ok_or_else(|| {
        let placement = match chunks.placement {
            Placement::Loop => "in a loop",
            Placement::V => "in a V",
        };
        let found = format!(
            "{} chunks {placement} on {} devices, and {micro_batches} micro-batches",
            chunks.len(),
            chunks.devices()
        );
        let expected = format!("what the rule is for: {}", rule.summary);
        InputError::option(
            format!("--rule {}", rule.name),
            FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            },
        )
    })
}
