//! What nodes with bodies do, and what parts of layers add up to.

use std::ops::Range;

use tract_onnx::pb::NodeProto;

use super::check::node_name;
use super::flat::{GIVEN, OTHERWISE};
use super::layers::Builder;
use super::size::TensorSize;
use super::work::{Operand, Role};
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::spec::WorkSpec;
use crate::model::words::words;

/// What a layer does, or a part of it.
#[derive(Default)]
pub(super) struct Part {
    pub work: WorkSpec,
    pub stash_bytes: f64,
    pub parameter_bytes: f64,
    pub resident_bytes: f64,
    /// Activations that it reads.
    pub reads: Vec<String>,
}

impl Part {
    /// Does another part beside this one.
    pub(super) fn add(&mut self, other: Self) {
        let (mine, work) = (&mut self.work, &other.work);
        mine.forward_flops += work.forward_flops;
        mine.forward_bytes += work.forward_bytes;
        mine.backward_flops += work.backward_flops;
        mine.backward_bytes += work.backward_bytes;
        mine.weight_flops += work.weight_flops;
        mine.weight_bytes += work.weight_bytes;
        self.stash_bytes += other.stash_bytes;
        self.hold(other);
    }

    /// Holds what another part holds and reads what it reads, without its work.
    pub(super) fn hold(&mut self, other: Self) {
        self.parameter_bytes += other.parameter_bytes;
        self.resident_bytes += other.resident_bytes;
        self.reads.extend(other.reads);
    }

    /// Does the same so many times.
    pub(super) fn repeated(mut self, times: f64) -> Self {
        let work = &mut self.work;
        for number in [
            &mut work.forward_flops,
            &mut work.forward_bytes,
            &mut work.backward_flops,
            &mut work.backward_bytes,
            &mut work.weight_flops,
            &mut work.weight_bytes,
            &mut self.stash_bytes,
        ] {
            *number *= times;
        }
        self
    }
}

impl Builder<'_> {
    /// What a node with bodies does: of branches the one that is taken, or else the largest, and of loops all trips. It holds what all
    /// of its bodies hold.
    pub(super) fn running(
        &mut self,
        node: &NodeProto,
        position: usize,
        bodies: &[Range<usize>],
    ) -> Option<Part> {
        let is_loop = node.op_type != "If";
        let before = self.carries_gradients;
        self.carries_gradients |= is_loop && bodies.iter().any(|body| self.learns(body));
        let mut parts = Vec::new();
        for body in bodies {
            let mut all = Part::default();
            for inner in self.units(body.clone()) {
                self.part(inner).into_iter().for_each(|part| all.add(part));
            }
            parts.push(all);
        }
        self.carries_gradients = before;
        if self.is_constant(node) {
            return None;
        }
        let operands = self.operands(node)?;
        let learns = |given: &(TensorSize, Role)| {
            Operand {
                size: &given.0,
                role: given.1,
                value: None,
            }
            .has_gradient()
        };
        let learns = operands.iter().flatten().any(learns);
        let mut part = match is_loop {
            true => {
                let trips = self.trips(node, position, operands.first().and_then(Option::as_ref))?;
                parts.pop()?.repeated(trips)
            }
            false => {
                let taken = self.taken(node, &parts);
                let mut part = parts.remove(taken);
                parts.into_iter().for_each(|other| part.hold(other));
                part
            }
        };
        let sizes = self.output_sizes(node, position);
        self.make(sizes, learns);
        part.reads.extend(self.reads(node));
        Some(part)
    }

    /// Whether a body has constants that training changes.
    fn learns(&self, body: &Range<usize>) -> bool {
        let mut nodes = self.checked.nodes()[body.clone()].iter();
        nodes.any(|node| {
            let mut places = node.input.iter().enumerate();
            places.any(|(place, name)| matches!(self.operand(node, place, name), Some((_, Role::Parameter))))
        })
    }

    /// The branch that is taken whatever the network is fed, or else the largest.
    fn taken(&mut self, node: &NodeProto, parts: &[Part]) -> usize {
        let condition = node
            .input
            .first()
            .and_then(|name| self.inferred.valued.get(name).copied().flatten());
        if let Some(value) = number(node, GIVEN).or(condition) {
            return usize::from(value == 0);
        }
        self.chosen += 1;
        let size = |part: &Part| (part.work.forward_flops, part.work.forward_bytes);
        usize::from(size(&parts[1]) > size(&parts[0]))
    }

    /// How often a loop runs; a fault where nothing says it.
    fn trips(
        &mut self,
        node: &NodeProto,
        position: usize,
        first: Option<&(TensorSize, Role)>,
    ) -> Option<f64> {
        let known = match node.op_type.as_str() {
            "Scan" => {
                let rank = first?.0.dims.len() as i64;
                let axis = number(node, "axis").unwrap_or(0);
                let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
                Some(first?.0.dim(axis) as i64)
            }
            _ => {
                let limit = node
                    .input
                    .first()
                    .and_then(|name| self.inferred.valued.get(name).copied().flatten());
                number(node, GIVEN).or(limit).or_else(|| number(node, OTHERWISE))
            }
        };
        match known {
            Some(trips) => self
                .trips
                .push(format!("`{}` {trips}", node_name(node, position))),
            None => {
                let kind = FaultKind::Missing {
                    what: "number of trips".into(),
                    expected: "a constant".into(),
                    remedy: words!(
                        "say how often it runs, such as by {}",
                        setting::TRIP_COUNT.given(8)
                    ),
                };
                let at = format!("node `{}` ({})", node_name(node, position), node.op_type);
                self.faults.push(Fault::new(at, kind));
            }
        }
        known.map(|trips| trips.max(0) as f64)
    }
}

/// The number of an attribute.
fn number(node: &NodeProto, name: &str) -> Option<i64> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == name)?;
    Some(attribute.i)
}
