//! Piper JSON: J. Tarnawski, D. Narayanan, A. Phanishayee, *Piper: multidimensional planner for DNN parallelization*,
//! NeurIPS 2021; msr-fiddle/piper.
//!
//! A node lists TMPCs (time, memory, parameters, communication) by degree of tensor parallelism and by variant. A pipeline
//! without tensor parallelism takes degree 1; of its variants we take the first, which is without recomputation in the
//! published files. The number of micro-batches in a batch is `mbsInBatch` in some of them, `maxBatchSize` in others.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::name::Name;
use super::text::from_json;
use super::{Imported, Source, has_json_field};
use crate::fault::{Fault, FaultKind};
use crate::options::{Optimizer, PipelineOptions};
use crate::spec::{ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec};

/// The share of forward propagation in a time that Piper gives for both passes: a matrix product has two products of its
/// size in backward propagation.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    max_memory_per_device: f64,
    max_devices: usize,
    /// Bytes per second.
    bandwidth: f64,
    max_batch_size: Option<u64>,
    mbs_in_batch: Option<u64>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
struct Node {
    id: Name,
    name: Option<String>,
    #[serde(rename = "TMPCs")]
    tmpcs: BTreeMap<String, Vec<Tmpc>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tmpc {
    id: String,
    time_per_sample: f64,
    parameter_size: f64,
    /// Bytes for each micro-batch in flight.
    memory_usage_a: f64,
    /// Bytes held once, parameters and gradients among them.
    memory_usage_b: f64,
    #[serde(default)]
    sync_time_fw: BTreeMap<String, f64>,
    #[serde(default)]
    sync_time_bw: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    source_id: Name,
    dest_id: Name,
    /// Bytes.
    communication_cost: f64,
}

/// Whether the top level has some of the format's own fields; a file that lacks one is told which.
pub(super) fn detect(source: &Source) -> bool {
    const OWN: &[&str] = &[
        "maxDevices",
        "maxMemoryPerDevice",
        "maxBatchSize",
        "mbsInBatch",
        "bandwidth",
    ];
    has_json_field(source, OWN)
}

/// Reads a file.
pub(super) fn read(source: &Source) -> Imported {
    let file: File = from_json(source.text()?)?;
    let mut notes = vec![
        "times are taken for seconds, since Piper adds them to bytes over bytes per second; a third of each is taken \
for forward propagation, two thirds for backward"
            .into(),
    ];
    let micro_batches = micro_batches(&file, &mut notes).map_err(|fault| vec![fault]);
    let layers = layers(&file.nodes, &mut notes);
    let (micro_batches, layers) = match (micro_batches, layers) {
        (Ok(micro_batches), Ok(layers)) => (micro_batches, layers),
        (micro_batches, layers) => {
            let faults = [micro_batches.err(), layers.err()];
            return Err(faults.into_iter().flatten().flatten().collect());
        }
    };
    let tensors = tensors(&file.edges, &mut notes);
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers,
            tensors,
            ..Default::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "accelerator".into(),
                count: Some(file.max_devices),
                memory_bytes: Some(file.max_memory_per_device),
                ..Default::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: file.bandwidth,
                latency_ms: 0.0,
            }),
            ..Default::default()
        }),
        pipeline: PipelineOptions {
            micro_batches,
            // Piper's memory counts a parameter twice, for itself and its gradient.
            optimizer: Some(Optimizer::Sgd),
            ..Default::default()
        },
        ..Default::default()
    };
    Ok((spec, notes))
}

/// Micro-batches in a batch, under either of the field's names.
fn micro_batches(file: &File, notes: &mut Vec<String>) -> Result<Option<u64>, Fault> {
    match (file.mbs_in_batch, file.max_batch_size) {
        (Some(one), Some(other)) if one != other => Err(Fault::new(
            "the file",
            FaultKind::Contradiction {
                found: format!("`mbsInBatch` {one} and `maxBatchSize` {other}"),
                expected: "one of them, or the same number in both".into(),
            },
        )),
        (None, None) => {
            notes.push(
                "neither `mbsInBatch` nor `maxBatchSize`: the number of micro-batches is left open".into(),
            );
            Ok(None)
        }
        (one, other) => Ok(one.or(other)),
    }
}

fn layers(nodes: &[Node], notes: &mut Vec<String>) -> Result<Vec<LayerSpec>, Vec<Fault>> {
    let mut layers = Vec::with_capacity(nodes.len());
    let mut faults = Vec::new();
    let mut left_out = BTreeMap::new();
    let mut synchronised = 0;
    for (i, node) in nodes.iter().enumerate() {
        let degree_one = node.tmpcs.get("1").and_then(|variants| variants.split_first());
        let Some((tmpc, others)) = degree_one else {
            faults.push(Fault::new(
                format!("nodes[{i}] `{}`", node.id),
                FaultKind::Missing {
                    what: "TMPC of degree `1`".into(),
                    expected: "the layer's time on one device".into(),
                    remedy: "add it: stages here have no tensor parallelism of their own".into(),
                },
            ));
            continue;
        };
        for other in others {
            *left_out.entry(format!("`{}`", other.id)).or_insert(0) += 1;
        }
        for degree in node.tmpcs.keys().filter(|degree| *degree != "1") {
            *left_out.entry(format!("degree {degree}")).or_insert(0) += 1;
        }
        let times = tmpc.sync_time_fw.values().chain(tmpc.sync_time_bw.values());
        synchronised += times.filter(|&&bytes| bytes != 0.0).count();
        layers.push(layer(node, tmpc));
    }
    if !left_out.is_empty() {
        let counts: Vec<String> = left_out
            .iter()
            .map(|(what, count)| format!("{what} of {count} nodes"))
            .collect();
        notes.push(format!(
            "the first variant of degree 1 is taken; left out: {}",
            counts.join(", ")
        ));
    }
    if synchronised > 0 {
        notes.push(format!(
            "{synchronised} synchronisations at degree 1 left out (`syncTimeFw`, `syncTimeBw`)"
        ));
    }
    match faults.is_empty() {
        true => Ok(layers),
        false => Err(faults),
    }
}

fn layer(node: &Node, tmpc: &Tmpc) -> LayerSpec {
    let ms = 1e3 * tmpc.time_per_sample;
    // What is held once has the parameters and their gradients in it, which we count ourselves.
    let parameter_bytes = tmpc.parameter_size.min(tmpc.memory_usage_b / 2.0).max(0.0);
    LayerSpec {
        id: node.id.to_string(),
        operator: node.name.clone(),
        forward_ms: Some(ms * FORWARD_SHARE),
        backward_ms: Some(ms - ms * FORWARD_SHARE),
        parameter_bytes,
        stash_bytes: tmpc.memory_usage_a,
        resident_bytes: tmpc.memory_usage_b - 2.0 * parameter_bytes,
        ..Default::default()
    }
}

/// A tensor a source and size: equal edges of one source carry the same output.
fn tensors(edges: &[Edge], notes: &mut Vec<String>) -> Vec<TensorSpec> {
    let mut tensors: Vec<TensorSpec> = Vec::new();
    let mut position = BTreeMap::new();
    for edge in edges {
        let producer = edge.source_id.to_string();
        let key = (producer.clone(), edge.communication_cost.to_bits());
        let at = *position.entry(key).or_insert(tensors.len());
        if at == tensors.len() {
            tensors.push(TensorSpec {
                producer,
                bytes: Some(edge.communication_cost),
                ..Default::default()
            });
        }
        tensors[at].consumers.push(edge.dest_id.to_string());
    }
    if tensors.len() < edges.len() {
        notes.push(
            "edges of one node with equal bytes are one tensor, moved once to a stage; Piper pays for each"
                .into(),
        );
    }
    tensors
}
