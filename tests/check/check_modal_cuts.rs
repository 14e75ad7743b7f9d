//! Separate cuts where stages have modes: plans whose numbers are counted by hand, and every way of stating another one.
//!
//! Two nodes of two devices, with 10 GB/s inside and 1 GB/s and 0.01 ms between them, so that 1 MB takes 1.01 ms from node to node. The first stage is one
//! tensor group on the first node, the second one two replicas on the other. Of three layers in a row `a` lies on the first stage and `c` on the
//! second; `b` has a pass on each. Adam keeps four bytes for each of a trained weight, and an iteration has four micro-batches.

use crate::common::by_hand;
use crate::numbers::accepts_no_other;
use serde_json::{Value, json};
use stagecut::check::{Violation, check};
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::plan::Plan;
use stagecut::settings::Settings;

const MB: u64 = 1_000_000;

fn instance() -> Instance {
    let end = |id: &str| {
        json!({"id": id, "modes": [
            {"forward_ms": 4, "backward_ms": 8, "parameter_bytes": 8 * MB, "stash_bytes": 4 * MB, "workspace_bytes": MB},
            {"tensor": 2, "forward_ms": 2, "backward_ms": 4, "parameter_bytes": 4 * MB, "stash_bytes": 2 * MB,
             "workspace_bytes": MB, "collective_bytes": 10 * MB}]})
    };
    let middle = |tensor: u64, recompute: &str, backward_ms: u64, stash: u64| {
        let alone = tensor == 1;
        json!({"tensor": tensor, "recompute": recompute, "forward_ms": if alone { 2 } else { 1 }, "backward_ms": backward_ms,
               "parameter_bytes": if alone { 6 } else { 3 } * MB, "stash_bytes": stash * MB,
               "workspace_bytes": 2 * MB, "collective_bytes": if alone { 0 } else { 20 * MB }})
    };
    let b = json!({"id": "b", "modes": [
        middle(1, "none", 4, 3), middle(1, "full", 6, 1), middle(2, "none", 2, 2), middle(2, "full", 3, 1)]});
    let spec = json!({
        "name": "hand-made",
        "network": {"layers": [end("a"), b, end("c")], "tensors": [
            {"producer": "a", "consumers": ["b"], "bytes": 2 * MB}, {"producer": "b", "consumers": ["c"], "bytes": MB}]},
        "cluster": {"device_kinds": [{"name": "gpu", "count": 4}], "link": {
            "bandwidth_bytes_per_s": 1e9, "latency_ms": 0.01,
            "nodes": {"devices": 2, "link": {"bandwidth_bytes_per_s": 1e10}}}},
    });
    Instance::from_spec(&serde_json::from_value(spec).expect("a file")).expect("an instance")
}

fn settings(instance: &Instance, schedule: &str, recompute: &str) -> Settings {
    let options = json!({
        "stages": 2, "objective": "period", "micro_batches": 4, "cuts": "separate", "communication": "blocking", "schedule": schedule,
        "optimizer": "adam", "tensor": "choose", "replicas": "choose", "recompute": recompute,
    });
    let options: PipelineOptions = serde_json::from_value(options).expect("options");
    Settings::resolve(instance, &options).expect("settings")
}

/// What is counted by hand of a stage: forward and backward work, received and sent forwards, received and sent backwards, all other of its time with others, load, in
/// ms; what it does once an iteration in ms; MB, and micro-batches in flight.
struct Stage {
    layers: [&'static [&'static str]; 2],
    work_ms: [f64; 2],
    moved_ms: [[f64; 2]; 2],
    communication_ms: f64,
    load_ms: f64,
    once_ms: f64,
    memory_mb: u64,
    counts: [u64; 2],
}

/// The plan of two stages, and of the passes of `b` what lies between them: its stages, micro-batches, versions, MB of stash and of weights.
fn plan(instance: &Instance, settings: &Settings, stages: [&Stage; 2], between: [u64; 6]) -> Plan {
    let modes = [
        json!({"tensor": 2, "replicas": 1}),
        json!({"tensor": 1, "replicas": 2}),
    ];
    let devices = [["gpu:1", "gpu:2"], ["gpu:3", "gpu:4"]];
    let all = stages.iter().zip(modes).zip(devices).enumerate();
    let of_stage = |(k, ((own, mode), devices)): (usize, ((&&Stage, Value), [&str; 2]))| {
        let moved = own
            .moved_ms
            .map(|[in_ms, out_ms]| json!({"in_ms": in_ms, "out_ms": out_ms}));
        json!({
            "index": k + 1, "forward": own.layers[0], "backward": own.layers[1], "devices": devices, "shares": {},
            "load_ms": own.load_ms, "forward_ms": own.work_ms[0], "backward_ms": own.work_ms[1],
            "communication_ms": own.communication_ms, "transfers": {"forward": moved[0], "backward": moved[1]},
            "synchronization_ms": own.once_ms, "memory_bytes": own.memory_mb * MB,
            "in_flight": own.counts[0], "weight_versions": own.counts[1], "mode": mode,
        })
    };
    let stages: Vec<Value> = all.map(of_stage).collect();
    let [forward, backward, in_flight, versions, stash, weights] = between;
    let [stash, weights] = [stash, weights].map(|mb| mb * MB);
    let split = json!({"stash_bytes_moved": stash, "weight_bytes_moved": weights, "layers": [{
        "layer": "b", "forward_stage": forward, "backward_stage": backward, "in_flight": in_flight,
        "weight_versions": versions, "stash_bytes": stash, "weight_bytes": weights}]});
    let stages = serde_json::from_value(stages.into()).expect("stages");
    let mut plan = by_hand::plan(stages);
    plan.split = serde_json::from_value(split).expect("what is split");
    plan.method = "exact".into();
    plan.problem = settings.to_options(instance);
    let loads = plan.stages.iter().map(|stage| stage.load_ms);
    plan.objective_ms = Some(loads.fold(0.0, f64::max));
    plan.gap = Some(1.0);
    plan
}

/// A plan passes, and with any number of it changed it does not, nor with a layer that lies apart and computes something again.
fn accepts_it_alone(instance: &Instance, settings: &Settings, plan: &Plan) {
    let numbers = accepts_no_other(instance, settings, plan, &["stages", "split"]);
    assert_eq!(numbers, 1 + 2 * 15 + 8);
    for k in 0..2 {
        let mut changed = plan.clone();
        let mode = changed.stages[k].mode.as_mut().expect("a mode");
        mode.recomputed.insert("full".into(), vec!["b".into()]);
        let violations = check(instance, settings, &changed);
        assert!(violations.iter().any(is_of("recomputed.full")), "{violations:#?}");
    }
}

fn is_of(name: &str) -> impl Fn(&Violation) -> bool {
    move |violation| matches!(violation, Violation::Field { field, .. } if field.contains(name))
}

/// The forward pass of `b` on the first stage, its backward pass on the second.
///
/// First stage: `a` takes 2 + 4 ms and its group 10 MB / 10 GB/s = 1 ms, half of it either way; the forward pass of `b` 1 ms and 1 of the 2 ms of its group: 4.5 + 4.5. Forwards
/// it sends the tensor of `b`, 1.01, and the stash of `b`, 2 MB in 2.01; backwards it receives the gradient that `a` waits for, 2.01. Of `b`'s 3 MB of
/// weights it receives each once an iteration, 3.01. It holds 4 * 4 + 3 * 2 MB of `a`, 3 of `b`, and the workspace of 2.
///
/// Second stage, of two replicas: (4 + 4 + 8) / 2 ms; the same two messages, the stash in 3 MB, are half of 1.01 + 3.01 and of 2.01. Once, the ring of 14 MB
/// takes 2 * 0.7 ms and the 6 MB of weights 6.01. It holds 4 * 8 + 4 MB of `c`, 4 * 6 MB of `b`, its stash of 3 MB for each of the ceil(3 / 2)
/// micro-batches between the passes, and the workspace of 2.
fn forward_first() -> [Stage; 2] {
    let first = Stage {
        layers: [&["a", "b"], &["a"]],
        work_ms: [4.5, 4.5],
        moved_ms: [[0.0, 3.02], [2.01, 0.0]],
        communication_ms: 5.03 + 3.01 / 4.0,
        load_ms: 14.03 + 3.01 / 4.0,
        once_ms: 3.01,
        memory_mb: 27,
        counts: [3, 1],
    };
    let second = Stage {
        layers: [&["c"], &["b", "c"]],
        work_ms: [2.0, 6.0],
        moved_ms: [[2.01, 0.0], [0.0, 1.005]],
        communication_ms: 3.015 + 7.41 / 4.0,
        load_ms: 11.015 + 7.41 / 4.0,
        once_ms: 7.41,
        memory_mb: 68,
        counts: [1, 1],
    };
    [first, second]
}

#[test]
fn a_backward_pass_behind_its_forward_pass_is_counted_by_hand() {
    let instance = instance();
    let settings = settings(&instance, "1f1b", "choose");
    let [first, second] = forward_first();
    let plan = plan(&instance, &settings, [&first, &second], [1, 2, 2, 1, 2, 6]);
    accepts_it_alone(&instance, &settings, &plan);
}

/// Each micro-batch bears all that an update takes, of rings a half where it is one of two replicas', and whatever is in flight has its own weights: two versions more of `a`'s 4 MB
/// on the first stage, and on the second one more of `b`'s 6.
#[test]
fn versions_of_weights_between_passes_are_counted_by_hand() {
    let instance = instance();
    let settings = settings(&instance, "pipedream", "choose");
    let [mut first, mut second] = forward_first();
    first.load_ms = 14.03 + 3.01;
    first.communication_ms = 5.03 + 3.01;
    (first.memory_mb, first.counts) = (27 + 8, [3, 3]);
    second.load_ms = 11.015 + 1.4 / 2.0 + 6.01;
    second.communication_ms = 3.015 + 1.4 / 2.0 + 6.01;
    second.memory_mb = 68 + 6;
    let plan = plan(&instance, &settings, [&first, &second], [1, 2, 2, 2, 2, 6]);
    accepts_it_alone(&instance, &settings, &plan);
}

/// The backward pass of `b` on the first stage, its forward pass on the second.
///
/// First stage: 2.5 + 4.5 ms of `a` as above, and of `b` 2 ms and the other half of its group's 2. Forwards it sends the tensor of `a`, 2.01, and receives 2 MB of
/// stash, backwards it receives the gradient of `b`'s tensor, 1.01. It holds 22 MB of `a`, of `b` 4 * 3 and 2 MB for each of three micro-batches, and the workspace.
///
/// Second stage: 6 + 8 ms of two replicas; forwards it receives 2.01 and sends 3 MB of stash, backwards it sends 1.01. Once, the ring of 8 MB takes 0.8 ms. It holds
/// 36 MB of `c`, the 6 MB of `b`, and the workspace.
#[test]
fn a_backward_pass_before_its_forward_pass_is_counted_by_hand() {
    let instance = instance();
    let settings = settings(&instance, "1f1b", "choose");
    let first = Stage {
        layers: [&["a"], &["a", "b"]],
        work_ms: [2.5, 7.5],
        moved_ms: [[2.01, 2.01], [1.01, 0.0]],
        communication_ms: 5.03 + 3.01 / 4.0,
        load_ms: 15.03 + 3.01 / 4.0,
        once_ms: 3.01,
        memory_mb: 42,
        counts: [3, 1],
    };
    let second = Stage {
        layers: [&["b", "c"], &["c"]],
        work_ms: [3.0, 4.0],
        moved_ms: [[1.005, 1.505], [0.0, 0.505]],
        communication_ms: 3.015 + 6.81 / 4.0,
        load_ms: 10.015 + 6.81 / 4.0,
        once_ms: 6.81,
        memory_mb: 44,
        counts: [1, 1],
    };
    let plan = plan(&instance, &settings, [&first, &second], [2, 1, 3, 1, 3, 3]);
    accepts_it_alone(&instance, &settings, &plan);
}

/// Layers that lie apart compute nothing again, so that no plan has them where all that can must.
#[test]
fn layers_that_compute_again_do_not_lie_apart() {
    let instance = instance();
    let settings = settings(&instance, "1f1b", "full");
    let [first, second] = forward_first();
    let plan = plan(&instance, &settings, [&first, &second], [1, 2, 2, 1, 2, 6]);
    let violations = check(&instance, &settings, &plan);
    for stage in ["stages[0].mode", "stages[1].mode"] {
        assert!(violations.iter().any(is_of(stage)), "{violations:#?}");
    }
}
