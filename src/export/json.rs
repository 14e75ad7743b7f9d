//! JSON for anything else: stages, and what moves between them for one micro-batch. It takes every plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::Exported;
use crate::model::instance::Instance;
use crate::model::network::Size;
use crate::model::options::Mode;
use crate::problem::plan::{Plan, PlanMode};

/// The value of `schema` in files of this version.
const SCHEMA: &str = "stagecut-export/1";

#[derive(Serialize)]
struct Export<'a> {
    schema: &'static str,
    instance: &'a str,
    mode: Mode,
    stages: Vec<ExportStage<'a>>,
    transfers: Vec<Transfer<'a>>,
}

#[derive(Serialize)]
struct ExportStage<'a> {
    index: usize,
    devices: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    shares: &'a BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a PlanMode>,
    forward: &'a [String],
    backward: &'a [String],
}

/// What kind of data moves.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A tensor from its producer to its consumers.
    Tensor,
    /// Its gradient, from the consumers back to the producer.
    Gradient,
    /// What a backward pass keeps of its forward pass.
    Stash,
    /// Updated weights, from the backward to the forward pass, once a mini-batch.
    Weights,
}

/// Something moved from one stage to another.
#[derive(Serialize)]
struct Transfer<'a> {
    kind: Kind,
    /// The layer that makes the tensor, or whose stash or weights these are.
    layer: &'a str,
    /// Its place among the network's tensors; absent for stashes and weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<usize>,
    from: usize,
    to: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_ms: Option<f64>,
}

/// Writes stages and transfers.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    let mode = plan.problem.mode.unwrap_or(Mode::Training);
    let export = Export {
        schema: SCHEMA,
        instance: &plan.instance,
        mode,
        stages: plan
            .stages
            .iter()
            .map(|stage| ExportStage {
                index: stage.index,
                devices: &stage.devices,
                shares: &stage.shares,
                forward: &stage.forward,
                backward: &stage.backward,
                mode: stage.mode.as_ref(),
            })
            .collect(),
        transfers: transfers(instance, plan, mode),
    };
    let json = serde_json::to_string_pretty(&export).expect("names and numbers are JSON");
    Ok(json + "\n")
}

fn transfers<'a>(instance: &'a Instance, plan: &Plan, mode: Mode) -> Vec<Transfer<'a>> {
    let [forward, backward] = places(plan);
    let explicit = instance.network.has_explicit_backward();
    let layers = &instance.network.layers;
    let place = |of: &HashMap<&str, usize>, layer: usize| of.get(layers[layer].id.as_str()).copied();
    // An operator runs once, forward or backward.
    let own = |layer: usize| match layers[layer].backward {
        true => place(&backward, layer),
        false => place(&forward, layer),
    };
    let mut transfers = Vec::new();
    for (i, tensor) in instance.network.tensors.iter().enumerate() {
        let (bytes, transfer_ms) = match tensor.size {
            Size::Bytes(bytes) => (Some(bytes), None),
            Size::TransferNs(ns) => (None, Some(crate::model::units::ns_to_ms(ns))),
        };
        let mut moved = |kind: Kind, pairs: BTreeSet<(usize, usize)>| {
            let pairs = match kind {
                Kind::Gradient => between_devices(plan, pairs, |(from, _)| from),
                _ => between_devices(plan, pairs, |(_, to)| to),
            };
            for (from, to) in pairs {
                transfers.push(Transfer {
                    kind,
                    layer: &layers[tensor.producer].id,
                    tensor: Some(i),
                    from,
                    to,
                    bytes,
                    transfer_ms,
                });
            }
        };
        let consumers = || tensor.consumers.iter().copied();
        let pair = |to: usize| Some((own(tensor.producer)?, own(to)?));
        moved(Kind::Tensor, consumers().filter_map(pair).collect());
        if mode.trains() && !explicit && layers[tensor.producer].returns {
            let back = |from: usize| Some((place(&backward, from)?, place(&backward, tensor.producer)?));
            moved(Kind::Gradient, consumers().filter_map(back).collect());
        }
    }
    for (i, layer) in layers.iter().enumerate() {
        let (Some(from), Some(to)) = (place(&forward, i), place(&backward, i)) else {
            continue;
        };
        for (kind, from, to, bytes) in [
            (Kind::Stash, from, to, layer.stash_bytes),
            (Kind::Weights, to, from, layer.parameter_bytes),
        ] {
            if from != to && bytes > 0 {
                transfers.push(Transfer {
                    kind,
                    layer: &layer.id,
                    tensor: None,
                    from,
                    to,
                    bytes: Some(bytes),
                    transfer_ms: None,
                });
            }
        }
    }
    transfers
}

/// Pairs of stages on different devices. Where devices have several chunks, the consumers' end of a tensor is the first chunk of a device
/// that consumes it, which keeps it for the others.
fn between_devices(
    plan: &Plan,
    pairs: BTreeSet<(usize, usize)>,
    consumer: fn((usize, usize)) -> usize,
) -> Vec<(usize, usize)> {
    let device = |stage: usize| &plan.stages[stage - 1].devices;
    let has_chunks = plan.virtual_stages().is_some();
    if !has_chunks {
        return pairs.into_iter().filter(|(from, to)| from != to).collect();
    }
    let mut met = BTreeSet::new();
    let mut pairs: Vec<(usize, usize)> = pairs.into_iter().collect();
    pairs.sort_unstable_by_key(|&pair| consumer(pair));
    pairs.retain(|&pair| {
        let (from, to) = pair;
        device(from) != device(to) && met.insert(device(consumer(pair)))
    });
    pairs
}

/// Stage of every layer's forward and backward pass.
fn places(plan: &Plan) -> [HashMap<&str, usize>; 2] {
    let mut places = [HashMap::new(), HashMap::new()];
    for stage in &plan.stages {
        for (layers, places) in [&stage.forward, &stage.backward].into_iter().zip(&mut places) {
            places.extend(layers.iter().map(|layer| (layer.as_str(), stage.index)));
        }
    }
    places
}
