//! How stages and layers run, where they have modes, in words.

use std::collections::BTreeSet;

use super::format::{Digits, bytes, count, percent};
use crate::model::cluster::{Resource, ShareLevel};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::options::{Degrees, Objective};
use crate::model::recompute::{self, OFFLOAD};
use crate::model::units::NS_PER_MS;
use crate::problem::plan::{Plan, PlanMode, PlanStage};

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

/// That degrees were to be chosen where no layer has any but 1, as in networks of operators.
pub(super) fn without_choice(instance: &Instance, plan: &Plan) -> Option<String> {
    let has_none = plan.problem.tensor == Some(Degrees::Choose) && !instance.network.has_tensor_degrees();
    let words = "modes: no layer has a mode of a tensor degree above 1, so that `--tensor choose` has nothing to choose from; blocks of \
                 `stagecut generate transformer --granularity block` have such modes";
    has_none.then(|| words.into())
}

fn in_words(mode: &PlanMode) -> String {
    let mut words = Vec::new();
    if mode.tensor > 1 {
        words.push(format!("tensor degree {}", mode.tensor));
    }
    if mode.replicas > 1 {
        words.push(count(mode.replicas, "replica"));
    }
    if mode.group > 1 {
        words.push(format!("groups of {}", mode.group));
    }
    if mode.context > 1 {
        words.push(format!("context degree {}", mode.context));
    }
    if mode.expert > 1 {
        words.push(format!("expert degree {}", mode.expert));
    }
    if words.is_empty() {
        words.push("one device".into());
    }
    let again = mode.recomputed.iter().filter(|(name, _)| *name != OFFLOAD);
    let again = again.map(|(name, layers)| format!("{} {name}", layers.len()));
    let again: Vec<String> = again.collect();
    if !again.is_empty() {
        words.push(format!("recomputes {}", again.join(" and ")));
    }
    if let Some(layers) = mode.recomputed.get(OFFLOAD) {
        words.push(format!("offloads {}", layers.len()));
    }
    if mode.optimizer_offload {
        words.push("optimizer at the host".into());
    }
    words.join(", ")
}

/// How evenly tokens are taken to go to experts, where some stage shares these out.
pub(super) fn experts(plan: &Plan) -> Option<String> {
    let is_shared = plan
        .stages
        .iter()
        .filter_map(|stage| stage.mode.as_ref())
        .any(|mode| mode.expert > 1);
    is_shared.then(|| match plan.problem.expert_load {
        None => "tokens are taken to load their devices evenly (`--expert-load` says how far they do not), and none is dropped".into(),
        Some(load) => format!("the busiest of their devices has {load} times the tokens of an even load, and none is dropped"),
    })
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
        .flat_map(|mode| &mode.recomputed)
        .filter(|(name, _)| *name != OFFLOAD)
        .map(|(_, layers)| layers.len())
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

/// What lies at hosts, and what copying takes the busiest stage that copies for every micro-batch; `None` where nothing does.
pub(super) fn offload(instance: &Instance, plan: &Plan, digits: Digits) -> Option<String> {
    let most_bytes = plan
        .stages
        .iter()
        .filter_map(|stage| Some(stage.mode.as_ref()?.host_bytes));
    let most_bytes = most_bytes.max().filter(|&bytes| bytes > 0)?;
    let stages = plan.stages.iter().map(|stage| copies(instance, stage));
    let (mut layers, mut most_ms) = (0, 0.0f64);
    for (own, ms) in stages {
        layers += own;
        most_ms = most_ms.max(ms);
    }
    let of_states = |stage: &&PlanStage| stage.mode.as_ref().is_some_and(|mode| mode.optimizer_offload);
    let states = plan.stages.iter().filter(of_states).count();
    let mut what = Vec::new();
    if layers > 0 {
        what.push(format!(
            "{} of {}: copies take at most {} ms of a stage's time between micro-batches",
            count(layers, "layer"),
            instance.network.layers.len(),
            digits.ms(most_ms)
        ));
    }
    if states > 0 {
        what.push(format!(
            "states of the optimizer of {} of {}: there and back once an iteration",
            count(states, "stage"),
            plan.stages.len()
        ));
    }
    Some(format!(
        "{}, for up to {} at the host of a device",
        what.join("; "),
        bytes(most_bytes)
    ))
}

/// Layers of a stage that lay something at the host, and ms that they are copied between its micro-batches.
fn copies(instance: &Instance, stage: &PlanStage) -> (usize, f64) {
    let kind = stage.devices.first().and_then(|device| device.rsplit_once(':'));
    let kind = kind.and_then(|(name, _)| instance.cluster.kind(name));
    let host = kind.and_then(|kind| instance.cluster.kinds[kind].host);
    let (Some(mode), Some(host)) = (&stage.mode, host) else {
        return (0, 0.0);
    };
    let (mut layers, mut ns) = (0, 0.0);
    for (name, ids) in &mode.recomputed {
        let own = instance
            .network
            .layers
            .iter()
            .filter(|layer| ids.contains(&layer.id));
        for [_, again] in own.filter_map(|layer| pair(layer, mode.tensor, name)) {
            let part = again.host_bytes.div_ceil(mode.context.max(1) as u64);
            layers += usize::from(part > 0);
            // There behind the forward pass, and back before the backward pass.
            let both = slower(instance, stage).iter().sum::<f64>();
            ns += both * part as f64 / host.bytes_per_s * 1e9;
        }
    }
    (layers, ns / NS_PER_MS / mode.replicas.max(1) as f64)
}

/// Time in ms that a stage computes again between its micro-batches, and bytes that it saves on each device.
fn of_stage(instance: &Instance, stage: &PlanStage) -> (f64, u64) {
    let Some(mode) = &stage.mode else {
        return (0.0, 0);
    };
    let mut ns = 0;
    let mut saved_bytes = 0;
    for (name, ids) in mode.recomputed.iter().filter(|(name, _)| *name != OFFLOAD) {
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
            let [kept, again] = [kept, again].map(|of| of.stash_bytes.div_ceil(mode.context.max(1) as u64));
            let less = kept.saturating_sub(again);
            saved_bytes += stage.in_flight.unwrap_or(0) * less;
        }
    }
    let parts = [mode.replicas, mode.context, mode.group].map(|degree| degree as f64);
    // What is computed again is computed in backward propagation.
    let [_, backward] = slower(instance, stage);
    let ms = backward * crate::model::units::ns_to_ms(ns) / parts.into_iter().product::<f64>();
    (ms, saved_bytes)
}

/// How many times as long forward and backward propagation of a stage take on the shares that it states as on whole devices; once where it states none.
fn slower(instance: &Instance, stage: &PlanStage) -> [f64; 2] {
    let kind = stage.devices.first().and_then(|device| device.rsplit_once(':'));
    let kind = kind.and_then(|(name, _)| instance.cluster.kind(name));
    let Some(kind) = kind.map(|kind| &instance.cluster.kinds[kind]) else {
        return [1.0; 2];
    };
    let whole = [Resource {
        name: kind.name.clone(),
        forward_rate: 1.0,
        backward_rate: 1.0,
        levels: Vec::new(),
    }];
    let resources = match kind.resources.is_empty() {
        true => &whole[..],
        false => &kind.resources,
    };
    let (mut all, mut shared) = ([0.0; 2], [0.0; 2]);
    for resource in resources {
        let key = match resource.name == kind.name {
            true => kind.name.clone(),
            false => format!("{}.{}", kind.name, resource.name),
        };
        let Some(&share) = stage.shares.get(&key) else {
            return [1.0; 2];
        };
        let rates = [resource.forward_rate, resource.backward_rate];
        let speeds = [
            speed(resource, share, |level| level.forward_speed),
            speed(resource, 1.0 - share, |level| level.backward_speed),
        ];
        (0..2).for_each(|pass| all[pass] += rates[pass]);
        (0..2).for_each(|pass| shared[pass] += rates[pass] * speeds[pass]);
    }
    // What does nothing takes no time, however long it would take.
    [0, 1].map(|pass| match shared[pass] > 0.0 {
        true => all[pass] / shared[pass],
        false => 1.0,
    })
}

/// How fast a resource is at a share, relative to all of it: as measured where it is, else as the share says.
fn speed(resource: &Resource, share: f64, of: fn(&ShareLevel) -> f64) -> f64 {
    let mut levels = resource.levels.iter();
    let level = levels.find(|level| (level.share - share).abs() < 1e-9);
    level.map_or(share, of)
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

/// Tokens a second and the part of peak, of networks that say tokens; micro-batches a second of others whose stages have modes.
pub(super) fn throughput(plan: &Plan) -> Option<String> {
    let devices: BTreeSet<&String> = plan.stages.iter().flat_map(|stage| &stage.devices).collect();
    let devices = count(devices.len(), "device");
    let mut words = Vec::new();
    if let Some(throughput) = plan.throughput {
        words.push(format!("{} tokens/s on {devices}", rate(throughput.tokens_per_s)));
        words.extend(throughput.mfu.map(|mfu| {
            let impossible = if mfu > 1.0 {
                ", more than there is: times, FLOPs or rates are wrong"
            } else {
                ""
            };
            format!("{} of their peak in model FLOPs (MFU){impossible}", percent(mfu))
        }));
    }
    if plan.run.is_some() {
        return (!words.is_empty()).then(|| words.join(", ") + ", fill and drain included");
    }
    let ms = plan.objective_ms.filter(|&ms| ms > 0.0)?;
    if plan.stages.iter().any(|stage| stage.mode.is_some()) {
        let micro_batches = match plan.problem.timed_objective() {
            Some(Objective::Iteration | Objective::Formula) => plan.problem.micro_batches.unwrap_or(1),
            Some(Objective::Period | Objective::Latency | Objective::Tokens) | None => 1,
        };
        let of_devices = if words.is_empty() {
            format!(" on {devices}")
        } else {
            String::new()
        };
        let rate = 1e3 * micro_batches as f64 / ms;
        words.push(format!("{rate:.4} micro-batches a second{of_devices}"));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// A rate to a tenth of a percent at least.
fn rate(per_s: f64) -> String {
    match per_s {
        ..10.0 => format!("{per_s:.3}"),
        ..1000.0 => format!("{per_s:.1}"),
        _ => format!("{per_s:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    /// A stage on a device of these resources, with such shares.
    fn slower_on(resources: serde_json::Value, shares: serde_json::Value) -> [f64; 2] {
        let spec = json!({
            "network": {"layers": [{"id": "a", "forward_ms": 1, "backward_ms": 1}]},
            "cluster": {"device_kinds": [{"name": "gpu", "resources": resources}]},
        });
        let instance = Instance::from_spec(&from_value(spec).expect("a file")).expect("an instance");
        let stage = json!({
            "index": 1, "forward": ["a"], "backward": ["a"], "devices": ["gpu:1"], "shares": shares, "load_ms": 1, "forward_ms": 1,
            "backward_ms": 1, "communication_ms": 0, "memory_bytes": 0,
        });
        slower(&instance, &from_value(stage).expect("a stage"))
    }

    #[test]
    fn phases_take_longer_on_shares() {
        assert_eq!(slower_on(json!([]), json!({})), [1.0, 1.0]);
        assert_eq!(slower_on(json!([]), json!({"gpu": 0.75})), [4.0 / 3.0, 4.0]);
        assert_eq!(slower_on(json!([]), json!({"gpu": 0.0})), [1.0, 1.0]);
        let two = json!([
            {"name": "tensor", "forward_rate": 3, "backward_rate": 1}, {"name": "vector", "forward_rate": 1, "backward_rate": 1}]);
        let shares = json!({"gpu.tensor": 0.5, "gpu.vector": 0.0});
        assert_eq!(slower_on(two, shares), [8.0 / 3.0, 4.0 / 3.0]);
        let levels =
            json!([{"share": 0.25, "speed": 0.5}, {"share": 0.75, "speed": 0.8, "backward_speed": 0.4}]);
        let measured = json!([{"name": "sm", "forward_rate": 2, "levels": levels}]);
        assert_eq!(slower_on(measured, json!({"gpu.sm": 0.25})), [2.0, 2.5]);
    }
}
