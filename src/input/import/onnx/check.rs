//! The graph before anything is computed from it: names, order, sizes, and what tract may see of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use tract_onnx::pb::tensor_shape_proto::dimension::Value::{DimParam, DimValue};
use tract_onnx::pb::type_proto::{self, Value::TensorType};
use tract_onnx::pb::{
    GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto,
};

use super::flat::{Bodies, Flat, Function, flatten};
use super::size::{TensorSize, declared, element, for_tract};
use super::weights;
use crate::input::import::open::Said;
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::words::{Words, words};

/// A model that is safe to hand to tract.
pub(crate) struct Checked {
    /// The model, without the values of large constants, bodies of control flow and claims about inner shapes.
    pub model: ModelProto,
    /// Sizes of the file's constants, by name.
    pub constants: HashMap<String, TensorSize>,
    /// Sizes of the graph's inputs, by name.
    pub inputs: HashMap<String, TensorSize>,
    /// What the file claims about tensors that nodes produce, for those that tract cannot infer.
    pub claims: HashMap<String, type_proto::Tensor>,
    /// Nodes that others run.
    pub bodies: Bodies,
}

impl Checked {
    /// The nodes in order.
    pub(crate) fn nodes(&self) -> &[NodeProto] {
        self.model.graph.as_ref().map_or(&[], |graph| &graph.node)
    }
}

/// What a node is called in faults: its name, or its first output, or its operator and position.
pub(super) fn node_name(node: &NodeProto, position: usize) -> String {
    let named = [Some(&node.name), node.output.first()];
    match named.into_iter().flatten().find(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None => format!("{}-{position}", node.op_type),
    }
}

/// What helps a model whose inputs do not say their shape.
const FIX: &str = "fix it in the model, such as with `onnxruntime.tools.make_dynamic_shape_fixed`";

/// Checks a model, or returns every fault.
pub(super) fn check(
    (mut model, functions): (ModelProto, Vec<Function>),
    path: &Path,
    said: &Said,
    notes: &mut Vec<Words>,
) -> Result<Checked, Vec<Fault>> {
    let mut graph = model.graph.take().unwrap_or_default();
    let mut flat = flatten(&mut graph, &functions, said.trips);
    if !flat.faults.is_empty() {
        return Err(std::mem::take(&mut flat.faults));
    }
    let mut checker = Checker {
        path,
        faults: Vec::new(),
        broken: HashSet::new(),
        lengths: said
            .dims
            .iter()
            .map(|(name, length)| (name.as_str(), *length))
            .collect(),
        named: BTreeSet::new(),
        constants: HashMap::new(),
        inputs: HashMap::new(),
        stand_ins: Vec::new(),
        symbols: BTreeSet::new(),
    };
    let (graph, claims, bodies) = checker.graph(graph, flat);
    let unknown = checker.unknown_lengths(said);
    if !unknown.is_empty() {
        // What is missing beside may be what they were meant for.
        return Err(unknown);
    }
    if !checker.faults.is_empty() {
        return Err(checker.faults);
    }
    if !checker.symbols.is_empty() {
        let names: Vec<String> = checker.symbols.iter().map(|name| format!("`{name}`")).collect();
        notes.push(
            format!(
                "symbolic sizes of the leading axis taken as 1: {}; work and sizes are those of a batch of 1",
                names.join(", ")
            )
            .into(),
        );
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
        bodies,
    })
}

/// A check under way.
pub(super) struct Checker<'a> {
    /// The model's file.
    pub(super) path: &'a Path,
    pub(super) faults: Vec<Fault>,
    pub(super) constants: HashMap<String, TensorSize>,
    pub(super) inputs: HashMap<String, TensorSize>,
    /// Graph inputs in place of constants whose values nobody needs.
    pub(super) stand_ins: Vec<ValueInfoProto>,
    /// Names of tensors whose fault is told.
    pub(super) broken: HashSet<String>,
    /// Lengths along symbolic axes that are said.
    lengths: HashMap<&'a str, u32>,
    /// Names of symbolic sizes.
    named: BTreeSet<String>,
    /// Those that are taken as 1.
    symbols: BTreeSet<String>,
}

impl Checker<'_> {
    fn graph(
        &mut self,
        mut graph: GraphProto,
        flat: Flat,
    ) -> (GraphProto, HashMap<String, type_proto::Tensor>, Bodies) {
        if !graph.sparse_initializer.is_empty() {
            self.faults.push(Fault::new(
                "sparse_initializer",
                FaultKind::Unsupported {
                    found: format!("{} sparse constants", graph.sparse_initializer.len()).into(),
                    expected: "dense ones".into(),
                },
            ));
        }
        let mut initializers = Vec::new();
        for mut tensor in graph.initializer.drain(..).chain(flat.constants) {
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
        for value in flat.unknown {
            // A number that changes while the model runs, and is no input of it.
            if let Some(TensorType(tensor)) = value.r#type.as_ref().and_then(|found| found.value.as_ref()) {
                self.constants
                    .extend(declared(tensor).map(|size| (value.name.clone(), size)));
            }
            self.stand_ins.push(value);
        }
        let (nodes, bodies) = self.nodes(flat.nodes, flat.bodies);
        graph.node = nodes;
        inputs.append(&mut self.stand_ins);
        let infos = graph.value_info.drain(..).chain(graph.output.iter().cloned());
        let infos: Vec<ValueInfoProto> = infos.collect();
        let claims = infos.into_iter().filter_map(|info| self.claim(info)).collect();
        graph.input = inputs;
        graph.initializer = initializers;
        // Outputs only tell tract where to start; all nodes are visited anyhow.
        graph.output.clear();
        (graph, claims, bodies)
    }

    /// Checks and registers a constant; true if its values are kept.
    pub(super) fn constant(&mut self, tensor: &mut TensorProto, at: &str) -> bool {
        let size = match weights::check(tensor, at, self.path) {
            Ok(size) => size,
            Err(fault) => {
                self.faults.push(fault);
                self.broken.insert(tensor.name.clone());
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
        self.broken.insert(input.name.clone());
        let Some(TypeProto {
            value: Some(TensorType(tensor)),
            ..
        }) = &mut input.r#type
        else {
            self.missing(at, "tensor type".into(), FIX.into());
            return None;
        };
        if element(tensor.elem_type).is_none() {
            self.faults.push(weights::unsupported_type(&at, tensor.elem_type));
            return None;
        }
        let Some(shape) = &mut tensor.shape else {
            self.missing(at, "shape".into(), FIX.into());
            return None;
        };
        for (axis, dim) in shape.dim.iter_mut().enumerate() {
            let symbol = match &dim.value {
                Some(DimValue(length)) if *length > 0 => continue,
                Some(DimParam(name)) if !name.is_empty() => name.clone(),
                _ => format!("{}[{axis}]", input.name),
            };
            let is_new = self.named.insert(symbol.clone());
            let length = match self.lengths.get(symbol.as_str()) {
                Some(&length) => length.into(),
                None if axis > 0 && !self.symbols.contains(&symbol) => {
                    // One that many inputs have is told once.
                    if is_new {
                        let what = format!("number for `{symbol}`, the length along axis {axis}");
                        let given = setting::DIM.given(format!("{symbol}=128"));
                        self.missing(at.clone(), what, words!("say it, such as by {}", given));
                    }
                    continue;
                }
                None => {
                    self.symbols.insert(symbol);
                    1
                }
            };
            dim.value = Some(DimValue(length));
        }
        let size = declared(tensor)?;
        self.broken.remove(&input.name);
        self.inputs.insert(input.name.clone(), size);
        tensor.elem_type = for_tract(tensor.elem_type);
        Some(input)
    }

    /// A complete type of a tensor, with the symbols that became 1.
    fn claim(&mut self, info: ValueInfoProto) -> Option<(String, type_proto::Tensor)> {
        let TensorType(mut tensor) = info.r#type?.value?;
        for dim in &mut tensor.shape.as_mut()?.dim {
            let Some(DimParam(name)) = &dim.value else {
                continue;
            };
            let said = self.lengths.get(name.as_str()).map(|&length| length.into());
            self.named.insert(name.clone());
            if let Some(length) = said.or(self.symbols.contains(name).then_some(1)) {
                dim.value = Some(DimValue(length));
            }
        }
        declared(&tensor)?;
        tensor.elem_type = for_tract(tensor.elem_type);
        Some((info.name, tensor))
    }

    fn missing(&mut self, at: String, what: String, remedy: Words) {
        let expected = "static shapes; only the leading axis may be symbolic".into();
        let kind = FaultKind::Missing {
            what,
            expected,
            remedy,
        };
        self.faults.push(Fault::new(at, kind));
    }

    /// Lengths that are said of nothing in the model, or twice.
    fn unknown_lengths(&self, said: &Said) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (place, (name, length)) in said.dims.iter().enumerate() {
            let before = said.dims[..place].iter().find(|(earlier, _)| earlier == name);
            let (found, expected) = match before {
                Some((_, other)) => (
                    format!("both {other} and {length} for `{name}`"),
                    "one length".into(),
                ),
                None if self.named.contains(name) => continue,
                None => {
                    let known: Vec<String> = self.named.iter().map(|name| format!("`{name}`")).collect();
                    let known = match known.is_empty() {
                        true => "none: all axes of the model have a length".into(),
                        false => known.join(", "),
                    };
                    (format!("`{name}`, which no axis of the model is called"), known)
                }
            };
            let kind = FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            };
            faults.push(Fault::new(setting::DIM, kind));
        }
        faults
    }

    pub(super) fn duplicate(&mut self, what: &'static str, name: &str) {
        let name = name.to_owned();
        self.faults
            .push(Fault::new("the graph", FaultKind::DuplicateName { what, name }));
    }
}

/// An input of the graph with the size of a constant.
pub(super) fn stand_in(tensor: &TensorProto) -> ValueInfoProto {
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
