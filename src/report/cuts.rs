//! What separate cuts move: layers whose passes lie on different stages, and the bytes that cross because of it.

use std::collections::HashMap;

use super::format::{bytes, count};
use crate::instance::Instance;
use crate::options::Cuts;
use crate::plan::Plan;

/// How many layers are split, and what that moves; nothing with tied cuts.
pub fn cuts(instance: &Instance, plan: &Plan) -> Option<String> {
    if plan.problem.cuts != Some(Cuts::Separate) || plan.stages.is_empty() {
        return None;
    }
    let mut forward: HashMap<&str, usize> = HashMap::new();
    for stage in &plan.stages {
        forward.extend(stage.forward.iter().map(|layer| (layer.as_str(), stage.index)));
    }
    let is_split = |layer: &str, index: usize| forward.get(layer).is_some_and(|&other| other != index);
    let backward = plan
        .stages
        .iter()
        .flat_map(|stage| stage.backward.iter().map(|layer| (layer.as_str(), stage.index)));
    let split: HashMap<&str, usize> = backward
        .filter(|&(layer, index)| is_split(layer, index))
        .collect();
    let layers = &instance.network.layers;
    let of_split = || {
        layers
            .iter()
            .filter(|layer| split.contains_key(layer.id.as_str()))
    };
    let stash: u64 = of_split().map(|layer| layer.stash_bytes).sum();
    let weights: u64 = of_split().map(|layer| layer.parameter_bytes).sum();
    Some(format!(
        "separate: {} of {} with both passes on different stages, which moves {} of stash a micro-batch and {} of weights \
         an update",
        split.len(),
        count(layers.len(), "layer"),
        bytes(stash),
        bytes(weights)
    ))
}
