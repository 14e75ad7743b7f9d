//! The nodes before anything is computed from them: order, attributes, and bodies of control flow.

use std::collections::HashSet;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};

use super::check::{Checker, node_name, stand_in};
use super::size::for_tract;
use super::weights;
use crate::model::fault::{Fault, FaultKind};

impl Checker<'_> {
    /// Checks the nodes, and leaves out constants that are too large to keep.
    pub(super) fn nodes(&mut self, nodes: Vec<NodeProto>) -> Vec<NodeProto> {
        let mut produced: HashSet<String> =
            self.constants.keys().chain(self.inputs.keys()).cloned().collect();
        let mut kept = Vec::with_capacity(nodes.len());
        for (position, mut node) in nodes.into_iter().enumerate() {
            let at = format!("node `{}` ({})", node_name(&node, position), node.op_type);
            if node.op_type == "ConstantOfShape" && node.attribute.is_empty() {
                node.attribute.push(zero());
            }
            let bodies = self.attributes(&mut node, &at);
            for body in bodies {
                self.body(body, &mut node, &at);
            }
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                if !produced.contains(name) {
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
        kept
    }

    /// Checks attributes; returns the bodies of control flow, which tract must not see.
    fn attributes(&mut self, node: &mut NodeProto, at: &str) -> Vec<GraphProto> {
        let mut bodies = Vec::new();
        let constant = is_constant(node);
        for attribute in &mut node.attribute {
            bodies.extend(attribute.g.take());
            bodies.append(&mut attribute.graphs);
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
        bodies
    }

    /// Control flow is one layer, which reads what its body reads from outside and owns the body's constants.
    fn body(&mut self, mut body: GraphProto, node: &mut NodeProto, at: &str) {
        let mut inside: HashSet<String> = body.input.iter().map(|input| input.name.clone()).collect();
        for mut tensor in std::mem::take(&mut body.initializer) {
            inside.insert(tensor.name.clone());
            tensor.name = format!("{at}/{}", tensor.name);
            let at = format!("{at}, initializer `{}`", tensor.name);
            if self.constant(&mut tensor, &at) {
                self.stand_ins.push(stand_in(&tensor));
            }
            node.input.push(tensor.name);
        }
        for mut inner in body.node {
            for deeper in self.attributes(&mut inner, at) {
                let before = inner.input.len();
                self.body(deeper, &mut inner, at);
                // The constants of deeper bodies belong to the outermost node; the rest is filtered below.
                let owned: Vec<String> = inner.input.drain(before..).collect();
                let (constants, read): (Vec<_>, Vec<_>) = owned
                    .into_iter()
                    .partition(|name| self.constants.contains_key(name));
                node.input.extend(constants);
                inner.input.extend(read);
            }
            let outside = |name: &String| !name.is_empty() && !inside.contains(name);
            let read: Vec<String> = inner.input.into_iter().filter(outside).collect();
            for name in read {
                if !node.input.contains(&name) {
                    node.input.push(name);
                }
            }
            inside.extend(inner.output);
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
