//! Layers whose two passes lie on different stages: how many micro-batches and weight versions lie between the passes, and
//! what moves because of it.
//!
//! `formulations/cuts.md` says why these counts are right, and `memory.md` what they take.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanStage;
use crate::model::instance::Instance;
use crate::model::network::Layer;
use crate::model::recompute;
use crate::model::settings::Settings;

/// All layers of a plan with separate cuts that are split, and what they move together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Bytes of stash that move between stages for every micro-batch.
    pub stash_bytes_moved: u64,
    /// Bytes of weights that move between stages after every update.
    pub weight_bytes_moved: u64,
    /// The layers, in the order of the network. Every other layer has the counts of its stage.
    pub layers: Vec<SplitLayer>,
}

/// A layer whose forward and backward pass lie on different stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitLayer {
    /// Its name.
    pub layer: String,
    /// Stage of its forward pass, from 1.
    pub forward_stage: usize,
    /// Stage of its backward pass, from 1, which holds stash and weight versions.
    pub backward_stage: usize,
    /// Micro-batches between the two passes, each with its stash.
    pub in_flight: u64,
    /// Versions of the weights that are kept for them: the stage of the forward pass has the newest as well.
    pub weight_versions: u64,
    /// Bytes that move to the backward pass for every micro-batch.
    pub stash_bytes: u64,
    /// Bytes that move to the forward pass after every update.
    pub weight_bytes: u64,
}

impl Split {
    /// What the stages of a plan split. An operator of an explicit backward graph has one pass and is never split: what
    /// moves between such operators are tensors.
    ///
    /// Time O(layers).
    #[doc(hidden)]
    pub fn new(instance: &Instance, settings: &Settings, stages: &[PlanStage]) -> Self {
        let forward_stage = stages_by_layer(stages, |stage| &stage.forward);
        let backward_stage = stages_by_layer(stages, |stage| &stage.backward);
        let mut split = Self::default();
        for (position, layer) in instance.network.layers.iter().enumerate() {
            let of = |stages: &HashMap<&str, usize>| stages.get(layer.id.as_str()).copied();
            let (Some(forward), Some(backward)) = (of(&forward_stage), of(&backward_stage)) else {
                continue;
            };
            if forward == backward {
                continue;
            }
            let at = [forward, backward].map(|index| index - 1);
            let has_table = has_table(
                &instance.network.layers,
                position,
                [&forward_stage, &backward_stage],
            );
            let [stash_bytes, weight_bytes] = moved_bytes((layer, has_table), at.map(|k| &stages[k]));
            let in_flight = in_flight_between(settings, stages, at);
            split.stash_bytes_moved += stash_bytes;
            split.weight_bytes_moved += weight_bytes;
            split.layers.push(SplitLayer {
                layer: layer.id.clone(),
                forward_stage: forward,
                backward_stage: backward,
                in_flight,
                weight_versions: settings.weight_versions(in_flight.max(1) as usize),
                stash_bytes,
                weight_bytes,
            });
        }
        split
    }
}

/// Bytes of a layer that a device of the stage of its forward pass sends for every micro-batch, and one of the other stage after every update: in modes, in those
/// that keep everything. A table that the stage of the forward pass has anyway stays where it is.
fn moved_bytes((layer, has_table): (&Layer, bool), stages: [&PlanStage; 2]) -> [u64; 2] {
    let there = |bytes: u64| if has_table && !layer.frozen { bytes } else { 0 };
    let [Some(forward), Some(backward)] = stages.map(|stage| stage.mode.as_ref()) else {
        return [
            layer.stash_bytes,
            layer.parameter_bytes - there(layer.shared_bytes),
        ];
    };
    let modes = layer.modes();
    let keeps_all = |tensor: usize| {
        let mut modes = modes.iter();
        modes.find(|mode| mode.tensor == tensor && mode.recompute == recompute::NONE)
    };
    let stash_bytes = keeps_all(forward.tensor).map_or(0, |mode| mode.stash_bytes);
    let weight_bytes = keeps_all(backward.tensor).map_or(0, |mode| {
        mode.weights_of(backward.expert) - there(mode.shared_bytes)
    });
    [stash_bytes.div_ceil(forward.context.max(1) as u64), weight_bytes]
}

/// Whether the stage of a layer's forward pass has its table for another pass: the backward pass of any layer that reads it, or the forward pass of
/// one before it in the file.
fn has_table(layers: &[Layer], position: usize, [forward, backward]: [&HashMap<&str, usize>; 2]) -> bool {
    let stage = |stages: &HashMap<&str, usize>, at: usize| stages.get(layers[at].id.as_str()).copied();
    let own = stage(forward, position);
    let is_other = |&at: &usize| at != position && layers[at].shared == layers[position].shared;
    let is_here = |at: usize| stage(backward, at) == own || at < position && stage(forward, at) == own;
    layers[position].shared.is_some() && (0..layers.len()).filter(is_other).any(is_here)
}

/// Micro-batches between passes on two stages, in each replica of the second.
fn in_flight_between(settings: &Settings, stages: &[PlanStage], [forward, backward]: [usize; 2]) -> u64 {
    let replicas = |stage: &PlanStage| stage.mode.as_ref().map_or(1, |mode| mode.replicas);
    let own = replicas(&stages[backward]);
    let from_end = |at: usize| stages[at..].iter().map(replicas).sum::<usize>().div_ceil(own);
    let in_flight = settings.in_flight_between(from_end(forward), from_end(backward));
    let most = match settings.schedule.flushes() {
        true => settings.micro_batches.map(|all| all.div_ceil(own as u64)),
        false => None,
    };
    most.map_or(in_flight, |most| in_flight.min(most))
}

/// The stage of every layer that is named in some list of its stage.
pub fn stages_by_layer(stages: &[PlanStage], names: fn(&PlanStage) -> &Vec<String>) -> HashMap<&str, usize> {
    let of = |stage| {
        names(stage)
            .iter()
            .map(String::as_str)
            .zip(std::iter::repeat(stage.index))
    };
    stages.iter().flat_map(of).collect()
}
