//! Nodes that run bodies, in the list of a model: see [`flat`](super::flat).

use std::ops::Range;

use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{GraphProto, NodeProto};

use super::check::node_name;
use super::flat::{
    CARRY, DEEPEST, Flattener, GIVEN, NO_LIMIT, OTHERWISE, SLICE, STATES, Scope, inside, integer, plain,
};
use crate::model::fault::{Fault, FaultKind};

impl Flattener<'_> {
    /// Puts what a node runs before it.
    pub(super) fn control(&mut self, node: NodeProto, scope: &mut Scope) {
        let name = node_name(&node, self.flat.nodes.len());
        if scope.depth >= DEEPEST {
            return self.too_deep(&name, &node.op_type);
        }
        match node.op_type.as_str() {
            "If" => self.branches(node, &name, scope),
            "Loop" => self.trips(node, &name, scope),
            "Scan" => self.slices(node, &name, scope),
            operator => {
                let kind = FaultKind::Unsupported {
                    found: "a body".into(),
                    expected: "bodies of `If`, `Loop` and `Scan`".into(),
                };
                self.fault(&name, operator, kind);
            }
        }
    }

    /// A choice: condition, and what comes of each branch.
    fn branches(&mut self, mut node: NodeProto, name: &str, scope: &mut Scope) {
        let condition = node.input.first().cloned().unwrap_or_default();
        let given = self.integers.get(&condition).copied();
        let mut inputs = vec![condition];
        let mut bodies = Vec::new();
        for branch in ["then_branch", "else_branch"] {
            let Some(graph) = self.graph(&mut node, name, branch) else {
                return;
            };
            let inner = inside(scope, format!("{name}/{branch}/"));
            let start = self.flat.nodes.len();
            let outputs = self.body(graph, inner);
            if outputs.len() != node.output.len() {
                return self.counts(name, &node, outputs.len(), node.output.len());
            }
            inputs.extend(outputs);
            bodies.push(start..self.flat.nodes.len());
        }
        let numbers = given.map(|taken| (GIVEN, taken));
        self.close(node, (inputs, bodies), scope, numbers.into_iter().collect());
    }

    /// A loop: limit of trips, what it begins with, what a trip hands on, what trips add.
    fn trips(&mut self, mut node: NodeProto, name: &str, scope: &mut Scope) {
        let Some(graph) = self.graph(&mut node, name, "body") else {
            return;
        };
        let mut begins = node.input.iter().cloned();
        let (limit, condition) = (
            begins.next().unwrap_or_default(),
            begins.next().unwrap_or_default(),
        );
        let states: Vec<String> = begins.collect();
        if graph.input.len() != states.len() + 2 || graph.output.len() < states.len() + 1 {
            return self.counts(name, &node, graph.input.len(), states.len() + 2);
        }
        let start = self.flat.nodes.len();
        let mut inner = inside(scope, format!("{name}/body/"));
        let formals: Vec<String> = graph.input.iter().map(|input| input.name.clone()).collect();
        self.unknown(inner.made(&formals[0]), DataType::Int64);
        match condition.is_empty() {
            true => self.unknown(inner.made(&formals[1]), DataType::Bool),
            false => drop(inner.names.insert(formals[1].clone(), condition)),
        }
        for (formal, state) in formals[2..].iter().zip(&states) {
            let carried = inner.made(formal);
            self.flat.nodes.push(plain(CARRY, state.clone(), carried));
        }
        let mut outputs = self.body(graph, inner);
        outputs.remove(0);
        if outputs.len() < node.output.len() {
            return self.counts(name, &node, outputs.len(), node.output.len());
        }
        let mut numbers = vec![(STATES, states.len() as i64)];
        let constant = self
            .integers
            .get(&limit)
            .copied()
            .filter(|&limit| limit < NO_LIMIT);
        numbers.extend(constant.map(|trips| (GIVEN, trips.max(0))));
        numbers.extend(self.trips.map(|trips| (OTHERWISE, trips.into())));
        self.needs_trips |= constant.is_none();
        // A limit that means none tells nobody how often the loop runs.
        let limit = match self.integers.get(&limit) {
            Some(_) => String::new(),
            None => limit,
        };
        let inputs = [vec![limit], states, outputs].concat();
        let bodies = std::iter::once(start..self.flat.nodes.len()).collect();
        self.close(node, (inputs, bodies), scope, numbers);
    }

    /// A loop over the parts of tensors.
    fn slices(&mut self, mut node: NodeProto, name: &str, scope: &mut Scope) {
        let Some(graph) = self.graph(&mut node, name, "body") else {
            return;
        };
        let find = |name: &str| node.attribute.iter().find(|attribute| attribute.name == name);
        let scanned = find("num_scan_inputs").map_or(0, |attribute| attribute.i);
        let scanned = usize::try_from(scanned).unwrap_or(0);
        let axes = find("scan_input_axes").map_or_else(Vec::new, |attribute| attribute.ints.clone());
        let given = node.input.len();
        if scanned == 0 || scanned > given || graph.input.len() != given {
            return self.counts(name, &node, graph.input.len(), given);
        }
        let start = self.flat.nodes.len();
        let mut inner = inside(scope, format!("{name}/body/"));
        for (place, input) in node.input.iter().enumerate() {
            let within = inner.made(&graph.input[place].name);
            let mut part = plain(CARRY, input.clone(), within);
            if let Some(scan) = place.checked_sub(given - scanned) {
                part.op_type = SLICE.into();
                part.attribute
                    .push(integer("axis", axes.get(scan).copied().unwrap_or(0)));
            }
            self.flat.nodes.push(part);
        }
        let outputs = self.body(graph, inner);
        let states = given - scanned;
        if outputs.len() < node.output.len() || outputs.len() < states {
            return self.counts(name, &node, outputs.len(), node.output.len());
        }
        let first = node.input[states].clone();
        let axis = axes.first().copied().unwrap_or(0);
        let numbers = vec![(STATES, states as i64), ("axis", axis)];
        let inputs = [vec![first], node.input[..states].to_vec(), outputs].concat();
        let bodies = std::iter::once(start..self.flat.nodes.len()).collect();
        self.close(node, (inputs, bodies), scope, numbers);
    }

    /// The node itself, behind its bodies.
    fn close(
        &mut self,
        mut node: NodeProto,
        (inputs, bodies): (Vec<String>, Vec<Range<usize>>),
        scope: &mut Scope,
        numbers: Vec<(&str, i64)>,
    ) {
        node.input = inputs;
        node.output.iter_mut().for_each(|name| *name = scope.made(name));
        node.attribute
            .retain(|attribute| attribute.name == "scan_output_axes");
        node.attribute
            .extend(numbers.into_iter().map(|(name, number)| integer(name, number)));
        self.flat.bodies.insert(self.flat.nodes.len(), bodies);
        self.flat.nodes.push(node);
    }

    /// The nodes of a body; returns the names of its outputs.
    fn body(&mut self, mut graph: GraphProto, mut scope: Scope) -> Vec<String> {
        if !graph.sparse_initializer.is_empty() {
            self.flat.faults.push(Fault::new(
                format!("the body `{}`", scope.place.trim_end_matches('/')),
                FaultKind::Unsupported {
                    found: format!("{} sparse constants", graph.sparse_initializer.len()).into(),
                    expected: "dense ones".into(),
                },
            ));
        }
        for mut tensor in std::mem::take(&mut graph.initializer) {
            tensor.name = scope.made(&tensor.name);
            self.integer(&tensor.name.clone(), &tensor);
            self.flat.constants.push(tensor);
        }
        for node in graph.node {
            self.node(node, &mut scope);
        }
        graph
            .output
            .iter()
            .map(|output| scope.read(&output.name))
            .collect()
    }

    /// Takes a body out of a node.
    fn graph(&mut self, node: &mut NodeProto, name: &str, attribute: &str) -> Option<GraphProto> {
        let mut named = node.attribute.iter_mut().filter(|a| a.name == attribute);
        let graph = named.find_map(|attribute| attribute.g.take());
        if graph.is_none() {
            let kind = FaultKind::Missing {
                what: format!("graph in `{attribute}`"),
                expected: format!("what `{}` runs", node.op_type).into(),
                remedy: "correct the node; `onnx.checker.check_model` says what is wrong with it".into(),
            };
            self.fault(name, &node.op_type, kind);
        }
        graph
    }

    fn counts(&mut self, name: &str, node: &NodeProto, found: usize, expected: usize) {
        let kind = FaultKind::Contradiction {
            found: format!("a body of {found} inputs or outputs").into(),
            expected: format!("{expected}, as the node has").into(),
        };
        self.fault(name, &node.op_type, kind);
    }
}
