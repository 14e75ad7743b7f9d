//! dnn-partitioning JSON: J. Tarnawski et al., *Efficient algorithms for device placement of DNN graph operators*,
//! NeurIPS 2020; msr-fiddle/dnn-partitioning.
//!
//! Nodes carry times on an accelerator ("FPGA" in the field names) and on a CPU; an edge's cost is the time to move its
//! source's output, the same on every edge of one source; training files hold backward operators of their own, tied to
//! forward ones by a colour class.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::name::Name;
use super::text::from_json;
use super::{Imported, Source, has_json_field};
use crate::model::fault::{Fault, FaultKind};
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, TensorSpec, TimesSpec,
};

#[derive(Deserialize)]
struct File {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    #[serde(rename = "maxFPGAs")]
    accelerators: usize,
    #[serde(rename = "maxCPUs", default)]
    cpus: usize,
    #[serde(rename = "maxSizePerFPGA")]
    accelerator_bytes: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: Name,
    name: Option<String>,
    supported_on_fpga: Flag,
    cpu_latency: f64,
    fpga_latency: f64,
    is_backward_node: Flag,
    color_class: Option<Name>,
    #[serde(default)]
    size: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    source_id: Name,
    dest_id: Name,
    cost: f64,
}

/// A truth value written as a boolean or as 0 and 1.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "invalid type: another value, expected 0, 1, `true` or `false`"
)]
enum Flag {
    Bool(bool),
    Number(u8),
}

impl Flag {
    fn is_set(&self) -> bool {
        matches!(self, Self::Bool(true) | Self::Number(1..))
    }
}

/// Whether the top level has some of the format's own fields; a file that lacks one is told which.
pub(super) fn detect(source: &Source) -> bool {
    has_json_field(source, &["nodes", "edges", "maxFPGAs"])
}

/// Reads a file.
pub(super) fn read(source: &Source) -> Imported {
    let file: File = from_json(source.text()?)?;
    let layers = file.nodes.iter().map(layer).collect();
    let tensors = tensors(&file.edges)?;
    let mut device_kinds = vec![DeviceKindSpec {
        name: "accelerator".into(),
        count: Some(file.accelerators),
        memory_bytes: file.accelerator_bytes,
        ..Default::default()
    }];
    if file.cpus > 0 {
        device_kinds.push(DeviceKindSpec {
            name: "cpu".into(),
            count: Some(file.cpus),
            pays_communication: false,
            ..Default::default()
        });
    }
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers,
            tensors,
            ..Default::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds,
            ..ClusterSpec::default()
        }),
        ..Default::default()
    };
    Ok((spec, Vec::new()))
}

fn layer(node: &Node) -> LayerSpec {
    let backward = node.is_backward_node.is_set();
    let times = |ms: f64| match backward {
        true => TimesSpec {
            backward_ms: Some(ms),
            ..TimesSpec::default()
        },
        false => TimesSpec {
            forward_ms: Some(ms),
            ..TimesSpec::default()
        },
    };
    let mut by_kind = BTreeMap::from([("cpu".to_owned(), times(node.cpu_latency))]);
    if node.supported_on_fpga.is_set() {
        by_kind.insert("accelerator".into(), times(node.fpga_latency));
    }
    LayerSpec {
        id: node.id.to_string(),
        operator: node.name.clone(),
        times: by_kind,
        resident_bytes: node.size,
        tie: node.color_class.as_ref().map(Name::to_string),
        backward,
        ..Default::default()
    }
}

/// One tensor a source, for the costs of its edges are one and the same transfer.
fn tensors(edges: &[Edge]) -> Result<Vec<TensorSpec>, Vec<Fault>> {
    let mut position: HashMap<String, usize> = HashMap::new();
    let mut tensors: Vec<TensorSpec> = Vec::new();
    let mut faults = Vec::new();
    for (i, edge) in edges.iter().enumerate() {
        let producer = edge.source_id.to_string();
        let at = *position.entry(producer.clone()).or_insert(tensors.len());
        if at == tensors.len() {
            tensors.push(TensorSpec {
                producer: producer.clone(),
                transfer_ms: Some(edge.cost),
                ..Default::default()
            });
        }
        if tensors[at].transfer_ms != Some(edge.cost) {
            faults.push(Fault::new(
                format!("edges[{i}] from `{producer}`"),
                FaultKind::Contradiction {
                    found: format!("cost {}", edge.cost).into(),
                    expected: format!(
                        "{}, as on the other edges of this source",
                        tensors[at].transfer_ms.unwrap_or(0.0)
                    )
                    .into(),
                },
            ));
        }
        tensors[at].consumers.push(edge.dest_id.to_string());
    }
    match faults.is_empty() {
        true => Ok(tensors),
        false => Err(faults),
    }
}
