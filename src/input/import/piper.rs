//! Piper JSON: J. Tarnawski, D. Narayanan, A. Phanishayee, *Piper: multidimensional planner for DNN parallelization*,
//! NeurIPS 2021; msr-fiddle/piper.
//!
//! A node lists TMPCs (time, memory, parameters, communication) by degree of tensor parallelism and by variant: they become the
//! modes of a layer. Without modes it is what its first variant of degree 1 says, which is without recomputation in the published
//! files. The number of micro-batches in a batch is `mbsInBatch` in some of them, `maxBatchSize` in others.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::name::Name;
use super::text::from_json;
use super::{Imported, Source, has_json_field};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Optimizer, PipelineOptions};
use crate::model::setting;
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, ModeSpec, NetworkSpec, TensorSpec,
};
use crate::model::words::{Words, words};

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
    let tensors = tensors(&file.edges);
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
                nodes: None,
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
fn micro_batches(file: &File, notes: &mut Vec<Words>) -> Result<Option<u64>, Fault> {
    match (file.mbs_in_batch, file.max_batch_size) {
        (Some(one), Some(other)) if one != other => Err(Fault::new(
            "the file",
            FaultKind::Contradiction {
                found: format!("`mbsInBatch` {one} and `maxBatchSize` {other}").into(),
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

fn layers(nodes: &[Node], notes: &mut Vec<Words>) -> Result<Vec<LayerSpec>, Vec<Fault>> {
    let mut layers = Vec::with_capacity(nodes.len());
    let mut faults = Vec::new();
    let mut synchronised = 0;
    for (i, node) in nodes.iter().enumerate() {
        let degree_one = node.tmpcs.get("1").and_then(|variants| variants.first());
        let Some(tmpc) = degree_one else {
            faults.push(Fault::new(
                format!("nodes[{i}] `{}`", node.id),
                FaultKind::Missing {
                    what: "TMPC of degree `1`".into(),
                    expected: "the layer's time on one device".into(),
                    remedy: "add it: it is what the layer is without tensor parallelism".into(),
                },
            ));
            continue;
        };
        let mut modes = Vec::new();
        for (degree, variants) in &node.tmpcs {
            match degree.parse() {
                Ok(degree) => modes.extend(variants.iter().map(|variant| mode(degree, variant))),
                Err(_) => faults.push(wrong_degree(i, node, degree)),
            }
        }
        let times = tmpc.sync_time_fw.values().chain(tmpc.sync_time_bw.values());
        synchronised += times.filter(|&&bytes| bytes != 0.0).count();
        layers.push(LayerSpec {
            modes,
            ..layer(node, tmpc)
        });
    }
    if synchronised > 0 {
        notes.push(words!(
            "without {}, {} or {}, {} synchronisations at degree 1 are left out (`syncTimeFw`, `syncTimeBw`)",
            setting::TENSOR,
            setting::REPLICAS,
            setting::RECOMPUTE,
            synchronised.to_string()
        ));
    }
    match faults.is_empty() {
        true => Ok(layers),
        false => Err(faults),
    }
}

fn wrong_degree(i: usize, node: &Node, degree: &str) -> Fault {
    let kind = FaultKind::UnknownValue {
        found: degree.to_owned(),
        known: vec!["a whole number, the degree of tensor parallelism".to_owned()],
    };
    Fault::new(format!("nodes[{i}] `{}`.TMPCs", node.id), kind)
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

/// A way to run a node. Piper counts the exchange of gradients twice, for reducing and for spreading them, and says of memory what is
/// held for each micro-batch in flight and what is held once, parameters among it.
fn mode(degree: usize, tmpc: &Tmpc) -> ModeSpec {
    let ms = 1e3 * tmpc.time_per_sample;
    ModeSpec {
        tensor: Some(degree),
        recompute: Some(recomputation(&tmpc.id).to_owned()),
        forward_ms: Some(ms * FORWARD_SHARE),
        backward_ms: Some(ms - ms * FORWARD_SHARE),
        gradient_bytes: Some(2.0 * tmpc.parameter_size),
        stash_bytes: tmpc.memory_usage_a,
        resident_bytes: tmpc.memory_usage_b,
        input_bytes: not_zero(&tmpc.sync_time_fw),
        output_bytes: not_zero(&tmpc.sync_time_bw),
        ..Default::default()
    }
}

/// What a variant computes again, in our words where we have one.
fn recomputation(variant: &str) -> &str {
    match variant {
        "vanilla" => "none",
        "activation recomp" => "full",
        other => other,
    }
}

fn not_zero(bytes: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let bytes = bytes.iter().filter(|(_, bytes)| **bytes != 0.0);
    bytes.map(|(name, &bytes)| (name.clone(), bytes)).collect()
}

/// A tensor an edge: Piper pays for each, whether or not another carries the same output.
fn tensors(edges: &[Edge]) -> Vec<TensorSpec> {
    let tensor = |edge: &Edge| TensorSpec {
        producer: edge.source_id.to_string(),
        consumers: vec![edge.dest_id.to_string()],
        bytes: Some(edge.communication_cost),
        ..Default::default()
    };
    edges.iter().map(tensor).collect()
}
