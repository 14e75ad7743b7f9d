//! Layers whose two passes lie on different stages: how many micro-batches and weight versions lie between the passes, and
//! what moves because of it.
//!
//! `formulations/cuts.md` says why these counts are right, and `memory.md` what they take.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanStage;
use crate::model::instance::Instance;
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
        for layer in &instance.network.layers {
            let of = |stages: &HashMap<&str, usize>| stages.get(layer.id.as_str()).copied();
            let (Some(forward), Some(backward)) = (of(&forward_stage), of(&backward_stage)) else {
                continue;
            };
            if forward == backward {
                continue;
            }
            let [f, b] = [forward, backward].map(|index| stages.len() - index + 1);
            split.stash_bytes_moved += layer.stash_bytes;
            split.weight_bytes_moved += layer.parameter_bytes;
            split.layers.push(SplitLayer {
                layer: layer.id.clone(),
                forward_stage: forward,
                backward_stage: backward,
                in_flight: settings.in_flight_between(f, b),
                weight_versions: settings.weight_versions(f.max(b)),
                stash_bytes: layer.stash_bytes,
                weight_bytes: layer.parameter_bytes,
            });
        }
        split
    }
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
