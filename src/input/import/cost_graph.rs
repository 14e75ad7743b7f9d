//! TensorFlow's `CostGraphDef` as protobuf text, the format of the graphs of A. Paliwal et al., *Reinforced genetic algorithm
//! learning for optimizing computation graphs* (REGAL), ICLR 2020.
//!
//! A node has the time `compute_cost`, outputs with sizes, and inputs that name a node's `id` and the port of its output.
//! TensorFlow's schema gives the time in microseconds, and `-1` for a size that is not known. Control inputs order nodes
//! and move nothing.

use std::collections::{BTreeMap, HashMap};

use super::protobuf_text::{self, Field, Message, Value};
use super::text::fault_at;
use super::{Imported, Source, has_extension};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Mode, PipelineOptions};
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};
use crate::model::words::Words;

/// TensorFlow's own first and last node, which do nothing.
const BOOKENDS: &[&str] = &["_SOURCE", "_SINK"];

/// Whether a text has a name for such graphs, or begins with a node.
pub(super) fn detect(source: &Source) -> bool {
    let head = String::from_utf8_lossy(&source.bytes[..source.bytes.len().min(4096)]);
    let mut lines = head
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines
        .next()
        .unwrap_or_default()
        .replace(|c: char| c.is_whitespace() || c == ':', "");
    ["pbtxt", "textproto"]
        .iter()
        .any(|extension| has_extension(source.path, extension))
        || first.starts_with("node{")
}

/// A node as the file says it.
#[derive(Default)]
struct Node<'a> {
    name: String,
    id: i64,
    /// Node and port that each input comes from, with the place in the file.
    inputs: Vec<(i64, usize, &'a Field<'a>)>,
    control: Vec<(i64, &'a Field<'a>)>,
    /// Bytes of each output.
    outputs: Vec<f64>,
    /// Microseconds.
    compute_cost: f64,
    resident_bytes: f64,
}

/// Reads a graph.
pub(super) fn read(source: &Source) -> Imported {
    let text = source.text()?;
    let graph = protobuf_text::read(text).map_err(|fault| vec![fault])?;
    let reader = Reader { text };
    let mut faults = Vec::new();
    let mut nodes = Vec::new();
    let mut positions = HashMap::new();
    for field in graph.iter().filter(|field| field.name == "node") {
        match reader.node(field) {
            Ok(node) => {
                if positions.insert(node.id, nodes.len()).is_some() {
                    let name = node.id.to_string();
                    faults.push(reader.fault(
                        field,
                        FaultKind::DuplicateName {
                            what: "node id",
                            name,
                        },
                    ));
                }
                nodes.push(node);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if graph.iter().all(|field| field.name != "node") {
        faults.push(Fault::new(
            "the file",
            FaultKind::Missing {
                what: "`node`".into(),
                expected: "nodes of a `CostGraphDef`".into(),
                remedy: "add `node { name: ... id: ... }`".into(),
            },
        ));
    }
    let tensors = tensors(&reader, &nodes, &positions, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let notes = notes(&nodes);
    let kept = nodes.into_iter().filter(|node| !is_bookend(node));
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers: kept.map(layer).collect(),
            tensors,
            ..Default::default()
        },
        pipeline: PipelineOptions {
            mode: Some(Mode::Inference),
            ..Default::default()
        },
        ..Default::default()
    };
    Ok((spec, notes))
}

fn is_bookend(node: &Node) -> bool {
    BOOKENDS.contains(&node.name.as_str())
}

fn layer(node: Node) -> LayerSpec {
    LayerSpec {
        id: node.name,
        forward_ms: Some(node.compute_cost / 1e3),
        resident_bytes: node.resident_bytes,
        ..Default::default()
    }
}

/// A tensor for each output that is read, and one without bytes for what a node only has to wait for.
fn tensors(
    reader: &Reader,
    nodes: &[Node],
    positions: &HashMap<i64, usize>,
    faults: &mut Vec<Fault>,
) -> Vec<TensorSpec> {
    let mut tensors: BTreeMap<(usize, Option<usize>), TensorSpec> = BTreeMap::new();
    for node in nodes {
        let data = node
            .inputs
            .iter()
            .map(|&(from, port, field)| (from, Some(port), field));
        let control = node.control.iter().map(|&(from, field)| (from, None, field));
        for (from, port, field) in data.chain(control) {
            let Some(&at) = positions.get(&from) else {
                let kind = FaultKind::UnknownName {
                    what: "node id",
                    name: from.to_string(),
                    similar: None,
                };
                faults.push(reader.fault(field, kind));
                continue;
            };
            let producer = &nodes[at];
            let bytes = port.map(|port| producer.outputs.get(port).copied());
            if bytes == Some(None) && !is_bookend(producer) {
                let kind = FaultKind::Contradiction {
                    found: format!("port {} of `{}`", port.unwrap_or(0), producer.name).into(),
                    expected: format!("one of its {} outputs, from 0", producer.outputs.len()).into(),
                };
                faults.push(reader.fault(field, kind));
            }
            if is_bookend(producer) || is_bookend(node) {
                continue;
            }
            let bytes = bytes.flatten();
            let tensor = tensors.entry((at, port)).or_insert_with(|| TensorSpec {
                producer: producer.name.clone(),
                bytes: bytes.map(|bytes| bytes.max(0.0)),
                // Waiting takes no time, whatever the link's latency.
                transfer_ms: bytes.is_none().then_some(0.0),
                ..Default::default()
            });
            tensor.consumers.push(node.name.clone());
        }
    }
    tensors.into_values().collect()
}

fn notes(nodes: &[Node]) -> Vec<Words> {
    let mut notes = vec![
        "`compute_cost` is taken for microseconds and `size` for bytes, as in TensorFlow; REGAL's synthetic graphs have no \
units of their own"
            .into(),
        "every node is taken for a forward operator: the graph does not tell backward ones".into(),
    ];
    if nodes.iter().any(is_bookend) {
        notes.push(format!("{} dropped: they do nothing", BOOKENDS.join(" and ")).into());
    }
    let unknown = nodes
        .iter()
        .flat_map(|node| &node.outputs)
        .filter(|&&bytes| bytes < 0.0);
    let unknown = unknown.count();
    if unknown > 0 {
        notes.push(format!("{unknown} outputs of unknown size are taken for free to move").into());
    }
    notes
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn fault(&self, field: &Field, kind: FaultKind) -> Fault {
        fault_at(self.text, field.span.clone(), kind)
    }

    fn node(&self, field: &'a Field<'a>) -> Result<Node<'a>, Fault> {
        let mut node = Node::default();
        for field in self.message(field)? {
            match field.name {
                "name" => node.name = self.string(field)?,
                "id" => node.id = self.whole(field)?,
                "input_info" => {
                    let from = self.message(field)?;
                    let port = self.whole_in(from, "preceding_port")?.max(0) as usize;
                    node.inputs
                        .push((self.whole_in(from, "preceding_node")?, port, field));
                }
                "control_input" => node.control.push((self.whole(field)?, field)),
                "output_info" => {
                    let bytes = self.whole_in(self.message(field)?, "size")?;
                    node.outputs.push(bytes as f64);
                }
                "compute_cost" => node.compute_cost = self.whole(field)? as f64,
                "persistent_memory_size" | "device_persistent_memory_size" => {
                    node.resident_bytes = node.resident_bytes.max(self.whole(field)? as f64);
                }
                // Devices, shapes and estimates by other models do not matter here.
                _ => {}
            }
        }
        match node.name.is_empty() {
            true => Err(self.fault(
                field,
                FaultKind::Missing {
                    what: "field `name`".into(),
                    expected: "one in every node".into(),
                    remedy: "add `name: \"...\"`".into(),
                },
            )),
            false => Ok(node),
        }
    }

    fn message(&self, field: &'a Field<'a>) -> Result<&'a Message<'a>, Fault> {
        match &field.value {
            Value::Message(message) => Ok(message),
            Value::Word(found) | Value::Text(found) => {
                Err(self.wrong_type(field, found, "a message in braces"))
            }
        }
    }

    fn string(&self, field: &Field) -> Result<String, Fault> {
        match &field.value {
            Value::Text(text) => Ok((*text).to_owned()),
            Value::Word(found) => Err(self.wrong_type(field, found, "text in quotes")),
            Value::Message(_) => Err(self.wrong_type(field, "a message", "text in quotes")),
        }
    }

    /// A whole number; the format leaves out a field that is 0.
    fn whole_in(&self, message: &Message, name: &str) -> Result<i64, Fault> {
        match message.iter().rfind(|field| field.name == name) {
            Some(field) => self.whole(field),
            None => Ok(0),
        }
    }

    fn whole(&self, field: &Field) -> Result<i64, Fault> {
        let expected = "a whole number";
        match &field.value {
            Value::Word(word) => word.parse().map_err(|_| self.wrong_type(field, word, expected)),
            Value::Text(text) => Err(self.wrong_type(field, text, expected)),
            Value::Message(_) => Err(self.wrong_type(field, "a message", expected)),
        }
    }

    fn wrong_type(&self, field: &Field, found: &str, expected: &str) -> Fault {
        let kind = FaultKind::WrongType {
            found: format!("`{found}` for `{}`", field.name),
            expected: expected.into(),
        };
        self.fault(field, kind)
    }
}
