//! How stages and layers run, where they have modes, in words.

use super::format::{Digits, bytes, count};
use crate::instance::Instance;
use crate::network::{Layer, LayerMode};
use crate::plan::{Plan, PlanMode, PlanStage};
use crate::recompute;

/// Degrees, replicas and recomputation, stage by stage; stages in a row that run alike are named once.
pub(super) fn modes(plan: &Plan) -> Option<String> {
    let words: Vec<(usize, String)> = plan
        .stages
        .iter()
        .filter_map(|stage| Some((stage.index, in_words(stage.mode.as_ref()?))))
        .collect();
    let alike = words.chunk_by(|one, next| one.1 == next.1).map(|run| {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        match first == last {
            true => format!("stage {first}: {}", run[0].1),
            false => format!("stages {first} to {last}: {}", run[0].1),
        }
    });
    let alike: Vec<String> = alike.collect();
    (!alike.is_empty()).then(|| alike.join("; "))
}

fn in_words(mode: &PlanMode) -> String {
    let mut words = Vec::new();
    if mode.tensor > 1 {
        words.push(format!("tensor degree {}", mode.tensor));
    }
    if mode.replicas > 1 {
        words.push(count(mode.replicas, "replica"));
    }
    if words.is_empty() {
        words.push("one device".into());
    }
    let again = mode
        .recomputed
        .iter()
        .map(|(name, layers)| format!("{} {name}", layers.len()));
    let again: Vec<String> = again.collect();
    if !again.is_empty() {
        words.push(format!("recomputes {}", again.join(" and ")));
    }
    words.join(", ")
}

/// What computing again costs the busiest stage that does, and saves on the fullest; `None` where no layer does.
pub(super) fn recomputation(instance: &Instance, plan: &Plan, digits: Digits) -> Option<String> {
    let stages = plan.stages.iter().map(|stage| of_stage(instance, stage));
    let (mut most_ms, mut most_bytes) = (0.0f64, 0);
    for (ms, saved_bytes) in stages {
        most_ms = most_ms.max(ms);
        most_bytes = most_bytes.max(saved_bytes);
    }
    let layers: usize = plan
        .stages
        .iter()
        .filter_map(|stage| stage.mode.as_ref())
        .flat_map(|mode| mode.recomputed.values())
        .map(Vec::len)
        .sum();
    (layers > 0).then(|| {
        format!(
            "{} of {}: at most {} ms of a stage's time between micro-batches, for up to {} less on a device",
            count(layers, "layer"),
            instance.network.layers.len(),
            digits.ms(most_ms),
            bytes(most_bytes)
        )
    })
}

/// Time in ms that a stage computes again between its micro-batches, and bytes that it saves on each device.
fn of_stage(instance: &Instance, stage: &PlanStage) -> (f64, u64) {
    let Some(mode) = &stage.mode else {
        return (0.0, 0);
    };
    let mut ns = 0;
    let mut saved_bytes = 0;
    for (name, ids) in &mode.recomputed {
        let layers = instance
            .network
            .layers
            .iter()
            .filter(|layer| ids.contains(&layer.id));
        for [kept, again] in layers.filter_map(|layer| pair(layer, mode.tensor, name)) {
            let time_ns = |mode: &LayerMode| {
                mode.times
                    .iter()
                    .flatten()
                    .map(|t| t.forward_ns + t.backward_ns)
                    .max()
            };
            ns += time_ns(&again)
                .unwrap_or(0)
                .saturating_sub(time_ns(&kept).unwrap_or(0));
            let less = kept.stash_bytes.saturating_sub(again.stash_bytes);
            saved_bytes += stage.in_flight.unwrap_or(0) * less;
        }
    }
    (crate::units::ns_to_ms(ns) / mode.replicas as f64, saved_bytes)
}

/// A layer's modes at a degree: the one that keeps everything, and that of the name.
fn pair(layer: &Layer, tensor: usize, name: &str) -> Option<[LayerMode; 2]> {
    let modes = layer.modes();
    let of = |name: &str| {
        let mut modes = modes.iter().filter(|mode| mode.tensor == tensor);
        modes.find(|mode| mode.recompute == name).cloned()
    };
    Some([of(recompute::NONE)?, of(name)?])
}

/// Micro-batches a second.
pub(super) fn throughput(plan: &Plan) -> Option<String> {
    let ms = plan.objective_ms.filter(|&ms| ms > 0.0)?;
    plan.stages.iter().any(|stage| stage.mode.is_some()).then(|| {
        let rate = 1e3 / ms;
        let devices: usize = plan.stages.iter().map(|stage| stage.devices.len()).sum();
        format!("{rate:.4} micro-batches a second on {}", count(devices, "device"))
    })
}
