//! The nodes of a model in one list: calls of its functions replaced by what these do, and bodies of control flow before the node
//! that runs them.
//!
//! ```text
//! y = If(c) { then: MatMul(x, w)  else: Relu(x) }        t = MatMul(x, w);  e = Relu(x);  y = If(c, t, e)
//! y = Loop(3, , x) { s -> MatMul(s, w) }                 s = carry(x);  t = MatMul(s, w);  y = Loop(3, x, t)
//! y = Block(x, w)                                        t = MatMul(x, w);  y = Relu(t)
//! ```
//!
//! Names inside are those of their place, joined by `/`, so that one shape inference serves all. What a call does becomes layers of
//! its own; a node that runs bodies stays one layer, since its weights are read trip by trip: see `layers`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};

use super::check::{node_name, stand_in};
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::words::words;

/// Bodies within bodies, or calls within calls; deeper ones are taken for a function that calls itself.
pub(super) const DEEPEST: usize = 32;

/// Nodes that calls and bodies may become: calls that double from function to function would have no end.
const MOST: usize = 200_000;

/// Constants that say how often something is done above which they mean "until told otherwise": exporters write the largest integer.
pub(super) const NO_LIMIT: i64 = 1 << 30;

/// A tensor that a body gets from outside and changes from trip to trip.
pub(super) const CARRY: &str = "stagecut.carry";
/// The part of a tensor that a trip gets.
pub(super) const SLICE: &str = "stagecut.slice";

/// The attribute of a node of control flow with the number that a constant gives it: trips, or the branch.
pub(super) const GIVEN: &str = "stagecut.given";
/// The same, where nothing in the model says it.
pub(super) const OTHERWISE: &str = "stagecut.otherwise";
/// How many tensors a loop hands on.
pub(super) const STATES: &str = "stagecut.states";

/// Bodies of the nodes that have some: for the position of the node those of what lies in each body, in one piece before it.
pub(super) type Bodies = BTreeMap<usize, Vec<Range<usize>>>;

/// A model as one list of nodes.
#[derive(Default)]
pub(super) struct Flat {
    pub nodes: Vec<NodeProto>,
    pub bodies: Bodies,
    /// Constants of bodies.
    pub constants: Vec<TensorProto>,
    /// What only a running model knows: the number of the trip, and whether there is another.
    pub unknown: Vec<ValueInfoProto>,
    pub faults: Vec<Fault>,
}

/// A function of a model, with the attributes that a call need not give.
pub(super) struct Function {
    pub function: FunctionProto,
    pub defaults: Vec<AttributeProto>,
}

/// The functions of a model. What a call need not give is younger than tract's description of the format.
pub(super) fn functions(functions: Vec<FunctionProto>, bytes: &[u8]) -> Vec<Function> {
    #[derive(prost::Message)]
    struct Model {
        #[prost(message, repeated, tag = "25")]
        functions: Vec<Defaults>,
    }
    #[derive(prost::Message)]
    struct Defaults {
        #[prost(message, repeated, tag = "11")]
        attributes: Vec<AttributeProto>,
    }
    let defaults = match functions.is_empty() {
        true => Vec::new(),
        false => Model::decode(bytes).map_or_else(|_| Vec::new(), |model| model.functions),
    };
    let mut defaults = defaults.into_iter().map(|defaults| defaults.attributes);
    let pair = |function| Function {
        function,
        defaults: defaults.next().unwrap_or_default(),
    };
    functions.into_iter().map(pair).collect()
}

/// Flattens a graph; takes its nodes.
pub(super) fn flatten(graph: &mut GraphProto, functions: &[Function], trips: Option<u32>) -> Flat {
    let named = functions.iter().map(|function| {
        let FunctionProto { domain, name, .. } = &function.function;
        let [domain, name] = [domain, name].map(|text| text.as_deref().unwrap_or_default());
        (key(domain, name), function)
    });
    let mut flattener = Flattener {
        functions: named.collect(),
        trips,
        needs_trips: false,
        integers: HashMap::new(),
        flat: Flat::default(),
        told: HashSet::new(),
    };
    for tensor in &graph.initializer {
        flattener.integer(&tensor.name, tensor);
    }
    let mut top = Scope::default();
    for node in std::mem::take(&mut graph.node) {
        flattener.node(node, &mut top);
    }
    flattener.unused_trips();
    flattener.flat
}

/// Where a node stands.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// What its names begin with; empty in the graph itself.
    pub(super) place: String,
    /// Names of here, as they are called in the list.
    pub(super) names: HashMap<String, String>,
    /// Names of the call's outputs.
    pub(super) outputs: HashMap<String, String>,
    /// Attributes of the call, and those that it need not give.
    pub(super) attributes: Option<(&'a [AttributeProto], &'a [AttributeProto])>,
    /// What a body sees outside; a function sees nothing.
    pub(super) outer: Option<&'a Scope<'a>>,
    pub(super) depth: usize,
}

impl Scope<'_> {
    /// The name of a tensor that is read.
    pub(super) fn read(&self, name: &str) -> String {
        match (name.is_empty(), self.names.get(name), self.outer) {
            (true, ..) => String::new(),
            (_, Some(known), _) => known.clone(),
            (_, None, Some(outer)) => outer.read(name),
            (_, None, None) => format!("{}{name}", self.place),
        }
    }

    /// The name of a tensor that is made.
    pub(super) fn made(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let known = match self.outputs.get(name) {
            Some(output) => output.clone(),
            None => format!("{}{name}", self.place),
        };
        self.names.insert(name.to_owned(), known.clone());
        known
    }

    /// The attribute of a call that one of the function stands for.
    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        let find = |all: &'_ [AttributeProto]| all.iter().position(|attribute| attribute.name == name);
        match (self.attributes, self.outer) {
            (Some((given, defaults)), _) => match find(given) {
                Some(at) => given.get(at),
                None => find(defaults).and_then(|at| defaults.get(at)),
            },
            (None, Some(outer)) => outer.attribute(name),
            (None, None) => None,
        }
    }
}

pub(super) struct Flattener<'a> {
    pub(super) functions: HashMap<String, &'a Function>,
    pub(super) trips: Option<u32>,
    /// Whether a loop does not say how often it runs.
    pub(super) needs_trips: bool,
    /// Constants of one integer.
    pub(super) integers: HashMap<String, i64>,
    pub(super) flat: Flat,
    /// Faults of functions, which each call would repeat.
    pub(super) told: HashSet<String>,
}

impl Flattener<'_> {
    pub(super) fn node(&mut self, mut node: NodeProto, scope: &mut Scope) {
        if self.flat.nodes.len() > MOST && scope.depth > 0 {
            return self.too_many("bodies and calls");
        }
        node.attribute = node
            .attribute
            .into_iter()
            .filter_map(|a| given(a, scope))
            .collect();
        node.input.iter_mut().for_each(|name| *name = scope.read(name));
        if scope.depth > 0 {
            let own = match node.name.is_empty() {
                true => &node.op_type,
                false => &node.name,
            };
            node.name = format!("{}{own}", scope.place);
        }
        if let Some(&function) = self.functions.get(&key(&node.domain, &node.op_type)) {
            return self.call(function, node, scope);
        }
        let has_bodies = node
            .attribute
            .iter()
            .any(|a| a.g.is_some() || !a.graphs.is_empty());
        let runs_bodies = ["If", "Loop", "Scan"].contains(&node.op_type.as_str());
        if has_bodies || runs_bodies && ["", "ai.onnx"].contains(&node.domain.as_str()) {
            return self.control(node, scope);
        }
        node.output.iter_mut().for_each(|name| *name = scope.made(name));
        if let ("Constant", Some(name), Some(value)) =
            (node.op_type.as_str(), node.output.first(), node.attribute.first())
        {
            match &value.t {
                Some(tensor) => self.integer(name, tensor),
                None if value.name == "value_int" => drop(self.integers.insert(name.clone(), value.i)),
                None => {}
            }
        }
        self.flat.nodes.push(node);
    }

    /// Puts what a function does in the place of a call.
    fn call(&mut self, called: &Function, node: NodeProto, scope: &mut Scope) {
        let position = self.flat.nodes.len();
        let name = node_name(&node, position);
        if scope.depth >= DEEPEST {
            return self.too_deep(&name, &node.op_type);
        }
        let function = &called.function;
        let mut inner = Scope {
            place: format!("{name}/"),
            attributes: Some((&node.attribute, &called.defaults)),
            depth: scope.depth + 1,
            ..Default::default()
        };
        for (place, formal) in function.input.iter().enumerate() {
            let given = node.input.get(place).cloned().unwrap_or_default();
            inner.names.insert(formal.clone(), given);
        }
        for (formal, name) in function.output.iter().zip(&node.output) {
            if !name.is_empty() {
                inner.outputs.insert(formal.clone(), scope.made(name));
            }
        }
        let formals: HashSet<&String> = function.input.iter().collect();
        for output in function.output.iter().filter(|output| formals.contains(output)) {
            // What a function gives back as it came.
            if let Some(name) = inner.outputs.remove(output) {
                let input = inner.read(output);
                self.flat.nodes.push(plain("Identity", input, name));
            }
        }
        for node in function.node.clone() {
            self.node(node, &mut inner);
        }
    }

    pub(super) fn too_deep(&mut self, name: &str, operator: &str) {
        let kind = FaultKind::Unsupported {
            found: format!("more than {DEEPEST} bodies or calls, one in the other").into(),
            expected: "functions that do not call themselves".into(),
        };
        self.fault(name, operator, kind);
    }

    fn too_many(&mut self, what: &str) {
        if self.told.insert(what.to_owned()) {
            let kind = FaultKind::Unsupported {
                found: format!("{what} of more than {MOST} nodes").into(),
                expected: "fewer".into(),
            };
            self.flat.faults.push(Fault::new("the graph", kind));
        }
    }

    /// A fault of a node; of one in a function once, however often that is called.
    pub(super) fn fault(&mut self, name: &str, operator: &str, kind: FaultKind) {
        let own = name.rsplit('/').next().unwrap_or(name);
        if self.told.insert(format!("{own} {operator} {kind:?}")) {
            self.flat
                .faults
                .push(Fault::new(format!("node `{name}` ({operator})"), kind));
        }
    }

    fn unused_trips(&mut self) {
        if self.trips.is_some() && !self.needs_trips && self.flat.faults.is_empty() {
            let option = setting::TRIP_COUNT;
            let kind = FaultKind::Conflict {
                found: "no loop that leaves open how often it runs".into(),
                expected: "one".into(),
                remedy: words!("drop {}", option),
            };
            self.flat.faults.push(Fault::new(option, kind));
        }
    }

    pub(super) fn unknown(&mut self, name: String, data_type: DataType) {
        if name.is_empty() {
            return;
        }
        let tensor = TensorProto {
            name,
            data_type: data_type as i32,
            ..Default::default()
        };
        self.flat.unknown.push(stand_in(&tensor));
    }

    /// Remembers a constant of one integer.
    pub(super) fn integer(&mut self, name: &str, tensor: &TensorProto) {
        let is_one = tensor.dims.iter().all(|&dim| dim == 1);
        let raw = tensor.raw_data.as_slice();
        let value = match (DataType::try_from(tensor.data_type), raw.len()) {
            (Ok(DataType::Int64), 8) => raw.try_into().ok().map(i64::from_le_bytes),
            (Ok(DataType::Int32), 4) => raw.try_into().ok().map(|raw| i32::from_le_bytes(raw).into()),
            (Ok(DataType::Bool), 1) => Some(raw[0].into()),
            (Ok(DataType::Int64), 0) => tensor.int64_data.first().copied(),
            (Ok(DataType::Int32 | DataType::Bool), 0) => tensor.int32_data.first().map(|&value| value.into()),
            _ => None,
        };
        if let Some(value) = value.filter(|_| is_one) {
            self.integers.insert(name.to_owned(), value);
        }
    }
}

/// What functions are found by.
fn key(domain: &str, name: &str) -> String {
    format!("{domain}\n{name}")
}

/// A scope inside another, which it sees.
pub(super) fn inside<'a>(outer: &'a Scope<'a>, place: String) -> Scope<'a> {
    Scope {
        place,
        outer: Some(outer),
        depth: outer.depth + 1,
        ..Default::default()
    }
}

/// An attribute, or what the call of the function gives for it; none where it gives nothing.
fn given(attribute: AttributeProto, scope: &Scope) -> Option<AttributeProto> {
    if attribute.ref_attr_name.is_empty() {
        return Some(attribute);
    }
    let mut found = scope.attribute(&attribute.ref_attr_name)?.clone();
    found.name = attribute.name;
    Some(found)
}

pub(super) fn plain(operator: &str, input: String, output: String) -> NodeProto {
    NodeProto {
        op_type: operator.into(),
        input: vec![input],
        output: vec![output],
        ..Default::default()
    }
}

pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Int as i32,
        i: value,
        ..Default::default()
    }
}
