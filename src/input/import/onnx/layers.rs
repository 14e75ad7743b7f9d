//! From nodes to layers and tensors: constants folded, gradients traced.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use tract_onnx::pb::NodeProto;

use super::check::{Checked, node_name};
use super::flat::{CARRY, SLICE};
use super::running::Part;
use super::shapes::{Inferred, UNKNOWN, unknown_shape};
use super::size::TensorSize;
use super::work::{Operand, Role, cost, is_given};
use crate::model::fault::Fault;
use crate::model::spec::{LayerSpec, NetworkSpec, TensorSpec};
use crate::model::words::Words;

/// Operators that only look at their first input in another way: what they make of a constant is that constant.
const VIEWS: &[&str] = &[
    "Cast",
    "Flatten",
    "Identity",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
    SLICE,
];

/// Builds the network.
pub(super) fn network(
    checked: &Checked,
    inferred: &Inferred,
    notes: &mut Vec<Words>,
) -> Result<NetworkSpec, Vec<Fault>> {
    let mut builder = Builder::new(checked, inferred);
    for position in builder.units(0..checked.nodes().len()) {
        if let Some(part) = builder.part(position) {
            builder.layer(part, position);
        }
    }
    if !builder.faults.is_empty() {
        return Err(builder.faults);
    }
    builder.share_tables();
    builder.note(notes);
    let layers = builder.layers;
    let tensors = builder
        .tensors
        .into_iter()
        .filter(|tensor| !tensor.consumers.is_empty());
    Ok(NetworkSpec {
        tensors: tensors.collect(),
        layers,
        ..Default::default()
    })
}

/// A constant: its size, and the constant of the file that it is a view of.
struct Constant {
    size: TensorSize,
    root: String,
    /// Bytes of what is held: of a part of a constant all of it.
    held: f64,
}

/// A tensor that depends on the graph's inputs.
struct Activation {
    size: TensorSize,
    gradient: bool,
    from: From,
}

/// Where a tensor that depends on the graph's inputs comes from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// The graph's inputs.
    Outside,
    /// Inside of the layer that reads it.
    Within,
    /// Another layer; the position among the tensors.
    Tensor(usize),
}

pub(super) struct Builder<'a> {
    pub(super) checked: &'a Checked,
    pub(super) inferred: &'a Inferred,
    needed: HashSet<&'a str>,
    constants: HashMap<String, Constant>,
    activations: HashMap<String, Activation>,
    layers: Vec<LayerSpec>,
    tensors: Vec<TensorSpec>,
    ids: HashSet<String>,
    /// How often a name was given, and so where to go on looking for one that is free.
    copies: HashMap<String, usize>,
    /// The position of the node that makes a tensor.
    makers: HashMap<&'a str, usize>,
    /// Tensors whose fault is told.
    told: HashSet<String>,
    pub(super) faults: Vec<Fault>,
    folded: usize,
    /// Whether trips after the first differentiate what they are handed.
    pub(super) carries_gradients: bool,
    /// Loops, and how often they run.
    pub(super) trips: Vec<String>,
    /// Nodes whose data choose a branch.
    pub(super) chosen: usize,
    /// Layers that read each constant, by position.
    readers: BTreeMap<String, Vec<usize>>,
    /// Bytes of constants from which rows are looked up.
    tables: HashMap<String, f64>,
    without_rule: BTreeSet<String>,
}

impl<'a> Builder<'a> {
    fn new(checked: &'a Checked, inferred: &'a Inferred) -> Self {
        let constant = |(name, size): (&String, &TensorSize)| {
            let (size, root, held) = (size.clone(), name.clone(), size.bytes());
            (name.clone(), Constant { size, root, held })
        };
        let input = |(name, size): (&String, &TensorSize)| {
            let (size, gradient, from) = (size.clone(), false, From::Outside);
            (name.clone(), Activation { size, gradient, from })
        };
        Self {
            checked,
            inferred,
            needed: checked
                .nodes()
                .iter()
                .flat_map(|node| &node.input)
                .map(String::as_str)
                .collect(),
            constants: checked.constants.iter().map(constant).collect(),
            activations: checked.inputs.iter().map(input).collect(),
            layers: Vec::new(),
            tensors: Vec::new(),
            ids: HashSet::new(),
            copies: HashMap::new(),
            makers: (checked.nodes().iter().enumerate())
                .flat_map(|(at, node)| node.output.iter().map(move |name| (name.as_str(), at)))
                .collect(),
            told: HashSet::new(),
            faults: Vec::new(),
            folded: 0,
            carries_gradients: false,
            trips: Vec::new(),
            chosen: 0,
            readers: BTreeMap::new(),
            tables: HashMap::new(),
            without_rule: BTreeSet::new(),
        }
    }

    /// Whether a node computes the same whatever the network is fed.
    pub(super) fn is_constant(&self, node: &NodeProto) -> bool {
        let mut outputs = node.output.iter().filter(|name| !name.is_empty()).peekable();
        if outputs.peek().is_some() && outputs.all(|name| self.inferred.valued.contains_key(name)) {
            return true;
        }
        // What a loop carries is constant at its beginning at most.
        let changes =
            node.op_type.starts_with("Random") || ["Multinomial", CARRY].contains(&node.op_type.as_str());
        let mut inputs = node.input.iter().filter(|name| !name.is_empty());
        !changes && inputs.all(|name| self.constants.contains_key(name))
    }

    fn fold(&mut self, node: &NodeProto) {
        self.folded += 1;
        let viewed = node
            .input
            .first()
            .filter(|_| VIEWS.contains(&node.op_type.as_str()));
        let viewed = viewed.and_then(|name| self.constants.get(name));
        let whole = viewed
            .filter(|_| node.op_type == SLICE)
            .map(|constant| constant.held);
        let root = viewed.map(|constant| constant.root.clone());
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            // A constant without a known shape is missed where it is read.
            if let Some(size) = self.inferred.sizes.get(name) {
                let (size, root) = (size.clone(), root.clone().unwrap_or_else(|| name.clone()));
                let held = whole.unwrap_or(size.bytes());
                self.constants
                    .entry(name.clone())
                    .or_insert(Constant { size, root, held });
            }
        }
    }

    /// Nodes of a range that no other of it runs.
    pub(super) fn units(&self, nodes: Range<usize>) -> Vec<usize> {
        let (mut units, mut end) = (Vec::new(), nodes.end);
        while end > nodes.start {
            units.push(end - 1);
            let bodies = self.checked.bodies.get(&(end - 1));
            end = bodies
                .and_then(|bodies| bodies.first())
                .map_or(end - 1, |first| first.start);
        }
        units.reverse();
        units
    }

    /// What a node does, with what it runs; none where it makes constants, or a fault was told.
    pub(super) fn part(&mut self, position: usize) -> Option<Part> {
        let checked = self.checked;
        let node = &checked.nodes()[position];
        let part = match checked.bodies.get(&position) {
            Some(bodies) => self.running(node, position, bodies),
            None if self.is_constant(node) => None,
            None => return self.simple(node, position),
        };
        if part.is_none() && self.is_constant(node) {
            self.fold(node);
        }
        part
    }

    fn simple(&mut self, node: &NodeProto, position: usize) -> Option<Part> {
        let operands = self.operands(node)?;
        let inputs: Vec<Option<Operand>> = operands
            .iter()
            .zip(&node.input)
            .map(|(given, name)| {
                given.as_ref().map(|(size, role)| Operand {
                    size,
                    role: *role,
                    value: self.inferred.valued.get(name).copied().flatten(),
                })
            })
            .collect();
        let sizes = self.output_sizes(node, position);
        let outputs: Vec<TensorSize> = sizes.iter().map(|(_, size)| size.clone()).collect();
        let cost = cost(node, &inputs, &outputs);
        if !cost.has_rule {
            self.without_rule.insert(node.op_type.clone());
        }
        let carried = node.op_type == CARRY && self.carries_gradients;
        let learns = carried || inputs.iter().flatten().any(Operand::has_gradient);
        let (parameter_bytes, resident_bytes) = self.own_constants(node, &inputs);
        self.make(sizes, learns);
        Some(Part {
            work: cost.work,
            stash_bytes: cost.stash_bytes,
            parameter_bytes,
            resident_bytes,
            reads: self.reads(node),
        })
    }

    /// Sizes and roles of a node's inputs, absent ones included; none where one is not known.
    pub(super) fn operands(&mut self, node: &NodeProto) -> Option<Vec<Option<(TensorSize, Role)>>> {
        let mut operands = Vec::with_capacity(node.input.len());
        for (place, name) in node.input.iter().enumerate() {
            let operand = self.operand(node, place, name);
            if operand.is_none() && !name.is_empty() {
                // A fault was reported where the tensor is made, unless a folded node made it.
                self.constant_without_shape(name);
                return None;
            }
            operands.push(operand.map(|(size, role)| (size.clone(), role)));
        }
        Some(operands)
    }

    pub(super) fn reads(&self, node: &NodeProto) -> Vec<String> {
        let activations = node
            .input
            .iter()
            .filter(|name| self.activations.contains_key(*name));
        activations.cloned().collect()
    }

    /// Enters what a node makes.
    pub(super) fn make(&mut self, sizes: Vec<(String, TensorSize)>, learns: bool) {
        for (name, size) in sizes {
            let gradient = learns && size.floating;
            let from = From::Within;
            self.activations.insert(name, Activation { size, gradient, from });
        }
    }

    /// Makes a layer of what a node does.
    fn layer(&mut self, part: Part, position: usize) {
        let checked = self.checked;
        let node = &checked.nodes()[position];
        let id = self.unique(node_name(node, position));
        let reads_input = self.consume(&part.reads, &id);
        for name in &node.output {
            if let Some(activation) = self.activations.get_mut(name) {
                self.tensors.push(TensorSpec {
                    producer: id.clone(),
                    bytes: Some(activation.size.bytes()),
                    ..Default::default()
                });
                activation.from = From::Tensor(self.tensors.len() - 1);
            }
        }
        self.layers.push(LayerSpec {
            id,
            operator: Some(node.op_type.clone()),
            work: Some(part.work),
            parameter_bytes: part.parameter_bytes,
            stash_bytes: part.stash_bytes,
            resident_bytes: part.resident_bytes,
            reads_input,
            ..Default::default()
        });
    }

    pub(super) fn operand(&self, node: &NodeProto, place: usize, name: &str) -> Option<(&TensorSize, Role)> {
        if let Some(Constant { size, .. }) = self.constants.get(name) {
            // Scalars are settings of the operator, such as a scale or the bounds of a clip.
            let learned = size.floating && size.elements() > 1.0 && !is_given(node, place);
            return Some((size, if learned { Role::Parameter } else { Role::Fixed }));
        }
        let Activation { size, gradient, .. } = self.activations.get(name)?;
        Some((size, Role::Activation { gradient: *gradient }))
    }

    /// A fault for a folded node whose output has no shape.
    fn constant_without_shape(&mut self, name: &str) {
        let maker = self.makers.get(name).map(|&at| (at, &self.checked.nodes()[at]));
        if let Some((position, node)) = maker.filter(|(_, node)| self.is_constant(node))
            && self.told.insert(name.to_owned())
        {
            let reason = self.inferred.reasons.get(&position);
            self.faults.push(unknown_shape(node, position, name, reason));
        }
    }

    /// Outputs with their sizes: the first, and others that somebody reads. A fault for each that has none.
    pub(super) fn output_sizes(&mut self, node: &NodeProto, position: usize) -> Vec<(String, TensorSize)> {
        let mut sizes = Vec::new();
        for (place, name) in node.output.iter().enumerate() {
            if name.is_empty() || place > 0 && !self.needed.contains(name.as_str()) {
                continue;
            }
            match self.inferred.sizes.get(name) {
                Some(size) => sizes.push((name.clone(), size.clone())),
                None => {
                    let reason = self.inferred.reasons.get(&position);
                    // An operator that is not known is one fault, however often a model has it.
                    let unknown = reason.filter(|reason| reason.starts_with(UNKNOWN));
                    if unknown.is_none_or(|reason| self.told.insert(reason.clone())) {
                        self.faults.push(unknown_shape(node, position, name, reason));
                    }
                }
            }
        }
        sizes
    }

    /// Bytes of the parameters, and of other constants, that no layer before this one reads.
    fn own_constants(&mut self, node: &NodeProto, inputs: &[Option<Operand>]) -> (f64, f64) {
        let (mut parameter_bytes, mut resident_bytes) = (0.0, 0.0);
        let mut seen = HashSet::new();
        for (name, operand) in node.input.iter().zip(inputs) {
            let (Some(constant), Some(operand)) = (self.constants.get(name), operand) else {
                continue;
            };
            if !seen.insert(constant.root.as_str()) {
                continue;
            }
            let readers = self.readers.entry(constant.root.clone()).or_default();
            let is_first = readers.is_empty();
            // The layer that this node becomes, or a part of.
            if readers.last() != Some(&self.layers.len()) {
                readers.push(self.layers.len());
            }
            if node.op_type == "Gather" && operand.role == Role::Parameter {
                self.tables.insert(constant.root.clone(), operand.size.bytes());
            }
            match operand.role {
                _ if !is_first => {}
                Role::Parameter => parameter_bytes += constant.held,
                _ => resident_bytes += constant.held,
            }
        }
        (parameter_bytes, resident_bytes)
    }

    /// Tables from which one layer looks rows up and one other reads: both count their bytes, as copies where they part.
    fn share_tables(&mut self) {
        self.readers.retain(|root, readers| {
            let Some((&bytes, &[first, other])) = self
                .tables
                .get(root)
                .zip(<&[usize; 2]>::try_from(&readers[..]).ok())
            else {
                return true;
            };
            let [one, two] = [first, other].map(|at| &self.layers[at]);
            if one.shared.is_some() || two.shared.is_some() || one.parameter_bytes < bytes {
                return true;
            }
            for at in [first, other] {
                let layer = &mut self.layers[at];
                (layer.shared, layer.shared_bytes) = (Some(root.clone()), Some(bytes));
            }
            self.layers[other].parameter_bytes += bytes;
            false
        });
    }

    /// Enters a layer among the consumers of what it reads; says whether it reads an input of the graph beside layers.
    fn consume(&mut self, reads: &[String], id: &str) -> bool {
        let (mut input, mut layer) = (false, false);
        for activation in reads.iter().filter_map(|name| self.activations.get(name)) {
            match activation.from {
                From::Outside => input = true,
                From::Within => {}
                From::Tensor(position) => {
                    layer = true;
                    let consumers = &mut self.tensors[position].consumers;
                    if consumers.last().is_none_or(|last| last != id) {
                        consumers.push(id.to_owned());
                    }
                }
            }
        }
        input && layer
    }

    fn unique(&mut self, name: String) -> String {
        let mut id = name.clone();
        let copy = self.copies.entry(name.clone()).or_insert(1);
        while !self.ids.insert(id.clone()) {
            *copy += 1;
            id = format!("{name}#{copy}");
        }
        id
    }

    fn note(&self, notes: &mut Vec<Words>) {
        let mut inputs: Vec<String> = self
            .checked
            .inputs
            .iter()
            .map(|(name, size)| {
                format!(
                    "`{name}` {:?} of {} bytes an element",
                    size.dims, size.element_bytes
                )
            })
            .collect();
        inputs.sort();
        if !inputs.is_empty() {
            notes.push(
                format!(
                    "a micro-batch is the batch of the file, in the file's types: {}",
                    inputs.join(", ")
                )
                .into(),
            );
        }
        if self.folded > 0 {
            notes.push(
                format!(
                    "{} nodes that compute constants are folded into the layers that read them",
                    self.folded
                )
                .into(),
            );
        }
        if !self.trips.is_empty() {
            let trips = self.trips.join(", ");
            notes.push(format!("loops are a layer each, with the work of all their trips: {trips}").into());
        }
        if self.chosen > 0 {
            let count = self.chosen;
            notes.push(format!("branches that data choose: {count} times the largest is counted, with the weights of both").into());
        }
        let tables = self.layers.iter().filter(|layer| layer.shared.is_some()).count() / 2;
        if tables > 0 {
            notes.push(
                format!(
                    "tables read at two places: {tables}; each stage that needs one holds a copy (`shared`)"
                )
                .into(),
            );
        }
        let shared = self.readers.values().filter(|readers| readers.len() > 1).count();
        if shared > 0 {
            notes.push(
                format!("constants read by several layers: {shared}; their bytes are counted at the first")
                    .into(),
            );
        }
        if !self.without_rule.is_empty() {
            let names: Vec<&str> = self.without_rule.iter().map(String::as_str).collect();
            notes.push(
                format!(
                    "operators without a rule are counted as element-wise: {}",
                    names.join(", ")
                )
                .into(),
            );
        }
    }
}
