//! The graph before anything is computed from it: names, order, sizes, and what tract may see of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value::{DimParam, DimValue};
use tract_onnx::pb::type_proto::{self, Value::TensorType};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, tensor_shape_proto,
};

use super::size::{TensorSize, declared, element, for_tract};
use super::weights;
use crate::fault::{Fault, FaultKind};

/// A model that is safe to hand to tract.
pub struct Checked {
    /// The model, without the values of large constants, bodies of control flow and claims about inner shapes.
    pub model: ModelProto,
    /// Sizes of the file's constants, by name.
    pub constants: HashMap<String, TensorSize>,
    /// Sizes of the graph's inputs, by name.
    pub inputs: HashMap<String, TensorSize>,
    /// What the file claims about tensors that nodes produce, for those that tract cannot infer.
    pub claims: HashMap<String, type_proto::Tensor>,
}

impl Checked {
    /// The nodes in order.
    pub fn nodes(&self) -> &[NodeProto] {
        self.model.graph.as_ref().map_or(&[], |graph| &graph.node)
    }
}

/// What a node is called in faults: its name, or its first output, or its operator and position.
pub fn node_name(node: &NodeProto, position: usize) -> String {
    let named = [Some(&node.name), node.output.first()];
    match named.into_iter().flatten().find(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None => format!("{}-{position}", node.op_type),
    }
}

/// Checks a model, or returns every fault.
pub fn check(mut model: ModelProto, folder: &Path, notes: &mut Vec<String>) -> Result<Checked, Vec<Fault>> {
    let graph = model.graph.take().unwrap_or_default();
    let mut checker = Checker {
        folder,
        faults: Vec::new(),
        constants: HashMap::new(),
        inputs: HashMap::new(),
        stand_ins: Vec::new(),
        symbols: BTreeSet::new(),
    };
    let (graph, claims) = checker.graph(graph);
    if !checker.faults.is_empty() {
        return Err(checker.faults);
    }
    if !checker.symbols.is_empty() {
        let names: Vec<String> = checker.symbols.iter().map(|name| format!("`{name}`")).collect();
        notes.push(format!(
            "symbolic sizes of the leading axis taken as 1: {}; work and sizes are those of a batch of 1",
            names.join(", ")
        ));
    }
    model.graph = Some(graph);
    // Functions and training graphs are of no use to shape inference.
    model.functions.clear();
    model.training_info.clear();
    Ok(Checked {
        model,
        constants: checker.constants,
        inputs: checker.inputs,
        claims,
    })
}

struct Checker<'a> {
    folder: &'a Path,
    faults: Vec<Fault>,
    constants: HashMap<String, TensorSize>,
    inputs: HashMap<String, TensorSize>,
    /// Graph inputs in place of constants whose values nobody needs.
    stand_ins: Vec<ValueInfoProto>,
    /// Names of symbolic sizes that are taken as 1.
    symbols: BTreeSet<String>,
}

impl Checker<'_> {
    fn graph(&mut self, mut graph: GraphProto) -> (GraphProto, HashMap<String, type_proto::Tensor>) {
        if !graph.sparse_initializer.is_empty() {
            self.faults.push(Fault::new(
                "sparse_initializer",
                FaultKind::Unsupported {
                    found: format!("{} sparse constants", graph.sparse_initializer.len()),
                    expected: "dense ones".into(),
                },
            ));
        }
        let mut initializers = Vec::new();
        for mut tensor in std::mem::take(&mut graph.initializer) {
            let at = format!("initializer `{}`", tensor.name);
            if self.constants.contains_key(&tensor.name) {
                self.duplicate("initializer", &tensor.name);
                continue;
            }
            if self.constant(&mut tensor, &at) {
                initializers.push(tensor);
            }
        }
        let mut inputs = Vec::new();
        for input in std::mem::take(&mut graph.input) {
            // Before version 4 of the format initializers are listed among the inputs, too.
            if !self.constants.contains_key(&input.name) {
                inputs.extend(self.input(input));
            }
        }
        graph.node = self.nodes(std::mem::take(&mut graph.node));
        inputs.append(&mut self.stand_ins);
        let infos = graph.value_info.drain(..).chain(graph.output.iter().cloned());
        let claims = infos.filter_map(|info| self.claim(info)).collect();
        graph.input = inputs;
        graph.initializer = initializers;
        // Outputs only tell tract where to start; all nodes are visited anyhow.
        graph.output.clear();
        (graph, claims)
    }

    /// Checks and registers a constant; true if its values are kept.
    fn constant(&mut self, tensor: &mut TensorProto, at: &str) -> bool {
        let size = match weights::check(tensor, at, self.folder) {
            Ok(size) => size,
            Err(fault) => {
                self.faults.push(fault);
                return false;
            }
        };
        let few = size.elements() <= weights::VALUES_KEPT;
        self.constants.insert(tensor.name.clone(), size);
        if !few {
            self.stand_ins.push(stand_in(tensor));
        }
        few
    }

    fn input(&mut self, mut input: ValueInfoProto) -> Option<ValueInfoProto> {
        let at = format!("input `{}`", input.name);
        if self.inputs.contains_key(&input.name) {
            self.duplicate("input", &input.name);
            return None;
        }
        let Some(TypeProto {
            value: Some(TensorType(tensor)),
            ..
        }) = &mut input.r#type
        else {
            self.missing(at, "tensor type".into());
            return None;
        };
        if element(tensor.elem_type).is_none() {
            self.faults.push(weights::unsupported_type(&at, tensor.elem_type));
            return None;
        }
        let Some(shape) = &mut tensor.shape else {
            self.missing(at, "shape".into());
            return None;
        };
        for (axis, dim) in shape.dim.iter_mut().enumerate() {
            let symbol = match &dim.value {
                Some(DimValue(length)) if *length > 0 => continue,
                Some(DimParam(name)) if !name.is_empty() => name.clone(),
                _ => input.name.clone(),
            };
            if axis > 0 && !self.symbols.contains(&symbol) {
                self.missing(
                    at.clone(),
                    format!("number for `{symbol}`, the length along axis {axis}"),
                );
                return None;
            }
            self.symbols.insert(symbol);
            dim.value = Some(DimValue(1));
        }
        if let Some(size) = declared(tensor) {
            self.inputs.insert(input.name.clone(), size);
        }
        tensor.elem_type = for_tract(tensor.elem_type);
        Some(input)
    }

    /// A complete type of a tensor, with the symbols that became 1.
    fn claim(&self, info: ValueInfoProto) -> Option<(String, type_proto::Tensor)> {
        let TensorType(mut tensor) = info.r#type?.value?;
        for dim in &mut tensor.shape.as_mut()?.dim {
            if matches!(&dim.value, Some(DimParam(name)) if self.symbols.contains(name)) {
                dim.value = Some(DimValue(1));
            }
        }
        declared(&tensor)?;
        tensor.elem_type = for_tract(tensor.elem_type);
        Some((info.name, tensor))
    }

    fn nodes(&mut self, nodes: Vec<NodeProto>) -> Vec<NodeProto> {
        let mut produced: HashSet<String> = self.constants.keys().chain(self.inputs.keys()).cloned().collect();
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
                        &at,
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
                    &at,
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
                if let (false, Err(fault)) = (constant, weights::check(tensor, &at, self.folder)) {
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
                let (constants, read): (Vec<_>, Vec<_>) =
                    owned.into_iter().partition(|name| self.constants.contains_key(name));
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
        let Some(tensor) = node.attribute.iter_mut().find_map(|attribute| attribute.t.as_mut()) else {
            return false;
        };
        let mut checked = std::mem::take(tensor);
        checked.name = name;
        let few = self.constant(&mut checked, at);
        *tensor = checked;
        !few
    }

    fn missing(&mut self, at: String, what: String) {
        self.faults.push(Fault::new(
            at,
            FaultKind::Missing {
                what,
                expected: "static shapes; only the leading axis may be symbolic".into(),
                remedy: "fix it in the model, such as with `onnxruntime.tools.make_dynamic_shape_fixed`".into(),
            },
        ));
    }

    fn duplicate(&mut self, what: &'static str, name: &str) {
        let name = name.to_owned();
        self.faults
            .push(Fault::new("the graph", FaultKind::DuplicateName { what, name }));
    }
}

fn is_constant(node: &NodeProto) -> bool {
    node.op_type == "Constant" && node.attribute.iter().any(|attribute| attribute.t.is_some())
}

/// A number that says which axis, or how many parts, and is far beyond any tensor's rank: tract would allocate as much.
fn immoderate(attribute: &AttributeProto) -> Option<i64> {
    const LARGEST: i64 = 1024;
    const AXES: &[&str] = &["axis", "axes", "perm", "batch_dims", "num_outputs", "batch_axis", "time_axis"];
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

/// An input of the graph with the size of a constant.
fn stand_in(tensor: &TensorProto) -> ValueInfoProto {
    let dim = |&length: &i64| tensor_shape_proto::Dimension {
        value: Some(DimValue(length)),
        ..Default::default()
    };
    let tensor_type = type_proto::Tensor {
        elem_type: tensor.data_type,
        shape: Some(TensorShapeProto {
            dim: tensor.dims.iter().map(dim).collect(),
        }),
    };
    ValueInfoProto {
        name: tensor.name.clone(),
        r#type: Some(TypeProto {
            value: Some(TensorType(tensor_type)),
            ..Default::default()
        }),
        ..Default::default()
    }
}
