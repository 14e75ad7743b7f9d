//! The nodes before anything is computed from them: order and attributes.

use std::collections::HashSet;
use std::ops::Range;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, NodeProto, TensorProto};

use super::check::{Checker, node_name};
use super::flat::Bodies;
use super::size::for_tract;
use super::weights;
use crate::model::fault::{Fault, FaultKind};

impl Checker<'_> {
    /// Checks the nodes, and leaves out constants that are too large to keep.
    pub(super) fn nodes(&mut self, nodes: Vec<NodeProto>, bodies: Bodies) -> (Vec<NodeProto>, Bodies) {
        let mut produced: HashSet<String> = self
            .constants
            .keys()
            .chain(self.inputs.keys())
            .chain(&self.broken)
            .cloned()
            .collect();
        let mut kept = Vec::with_capacity(nodes.len());
        // Where the nodes before which so many were kept stand now.
        let mut places = Vec::with_capacity(nodes.len() + 1);
        for (position, mut node) in nodes.into_iter().enumerate() {
            places.push(kept.len());
            let at = format!("node `{}` ({})", node_name(&node, position), node.op_type);
            if node.op_type == "ConstantOfShape" && node.attribute.is_empty() {
                node.attribute.push(zero());
            }
            self.attributes(&mut node, &at);
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                // Told once, however many nodes read it.
                if !produced.contains(name) && self.broken.insert(name.clone()) {
                    self.faults.push(Fault::new(
                        at.as_str(),
                        FaultKind::Syntax {
                            found: format!("input `{name}`, which no node before this one makes"),
                            expected: "nodes in topological order, as ONNX asks for".into(),
                        },
                    ));
                }
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if !produced.insert(name.clone()) {
                    self.duplicate("tensor", name);
                }
            }
            if !self.is_large_constant(&mut node, &at) {
                kept.push(node);
            }
        }
        places.push(kept.len());
        let moved = |bodies: Vec<Range<usize>>| {
            let moved = bodies
                .into_iter()
                .map(|body| places[body.start]..places[body.end]);
            moved.collect()
        };
        let bodies = bodies.into_iter().map(|(at, bodies)| (places[at], moved(bodies)));
        (kept, bodies.collect())
    }

    /// Checks attributes.
    fn attributes(&mut self, node: &mut NodeProto, at: &str) {
        let constant = is_constant(node);
        for attribute in &mut node.attribute {
            attribute.sparse_tensor = None;
            attribute.sparse_tensors.clear();
            let at = format!("{at}, attribute `{}`", attribute.name);
            if let Some(number) = immoderate(attribute) {
                self.faults.push(Fault::new(
                    at.as_str(),
                    FaultKind::BadNumber {
                        found: number as f64,
                        expected: "an axis or a count from -1024 to 1024",
                    },
                ));
            }
            if attribute.name == "to" || attribute.name == "dtype" {
                attribute.i = for_tract(attribute.i as i32).into();
            }
            for tensor in attribute.tensors.iter_mut().chain(&mut attribute.t) {
                // A `Constant` is registered under the name of its output, elsewhere.
                if let (false, Err(fault)) = (constant, weights::check(tensor, &at, self.path)) {
                    self.faults.push(fault);
                }
            }
        }
    }

    /// Registers a `Constant` whose tensor is too large to keep.
    fn is_large_constant(&mut self, node: &mut NodeProto, at: &str) -> bool {
        if !is_constant(node) {
            return false;
        }
        let Some(name) = node.output.first().cloned() else {
            return false;
        };
        let Some(tensor) = node
            .attribute
            .iter_mut()
            .find_map(|attribute| attribute.t.as_mut())
        else {
            return false;
        };
        let mut checked = std::mem::take(tensor);
        checked.name = name;
        let few = self.constant(&mut checked, at);
        *tensor = checked;
        !few
    }
}

fn is_constant(node: &NodeProto) -> bool {
    node.op_type == "Constant" && node.attribute.iter().any(|attribute| attribute.t.is_some())
}

/// A number that says which axis, or how many parts, and is far beyond any tensor's rank: tract would allocate as much.
fn immoderate(attribute: &AttributeProto) -> Option<i64> {
    const LARGEST: i64 = 1024;
    const AXES: &[&str] = &[
        "axis",
        "axes",
        "perm",
        "batch_dims",
        "num_outputs",
        "batch_axis",
        "time_axis",
    ];
    let moderate = |number: &i64| (-LARGEST..=LARGEST).contains(number);
    let numbers = attribute.ints.iter().chain([&attribute.i]).copied();
    let mut beyond = numbers.filter(|number| !moderate(number));
    AXES.contains(&attribute.name.as_str()).then(|| beyond.next())?
}

/// What `ConstantOfShape` repeats by default: a 32-bit zero, where tract would take a 64-bit one.
fn zero() -> AttributeProto {
    let tensor = TensorProto {
        dims: vec![1],
        data_type: DataType::Float as i32,
        float_data: vec![0.0],
        ..Default::default()
    };
    AttributeProto {
        name: "value".into(),
        r#type: AttributeType::Tensor as i32,
        t: Some(tensor),
        ..Default::default()
    }
}
