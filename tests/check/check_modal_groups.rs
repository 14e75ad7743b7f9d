//! Groups that share out micro-batches where stages have modes: plans whose numbers are counted by hand, and every way of stating another one.
//!
//! Two nodes of two devices, with 10 GB/s inside and 1 GB/s and 0.01 ms between them, so that 1 MB takes 1.01 ms from node to node and 0.1 ms inside of one. Adam
//! keeps four bytes for each of a weight, and an iteration has four micro-batches, of eight tokens each.

use crate::common::by_hand;
use crate::numbers::accepts_no_other;
use serde_json::{Value, json};
use stagecut::check::{Violation, check};
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::plan::Plan;
use stagecut::settings::Settings;

const MB: u64 = 1_000_000;

/// `a` and then `b`, on one device or on two; `b` has four experts, 4 MB of its 6.
fn instance() -> Instance {
    let a = json!({"id": "a", "modes": [
        {"forward_ms": 4, "backward_ms": 8, "parameter_bytes": 8 * MB, "stash_bytes": 4 * MB, "workspace_bytes": MB, "kv_bytes_per_token": MB},
        {"tensor": 2, "forward_ms": 2, "backward_ms": 4, "parameter_bytes": 4 * MB, "stash_bytes": 2 * MB,
         "workspace_bytes": MB, "collective_bytes": 10 * MB}]});
    let experts = json!({"count": 4, "parameter_bytes": 4 * MB, "routed_bytes": 8 * MB, "share": 0.5});
    let b = json!({"id": "b", "modes": [
        {"forward_ms": 2, "backward_ms": 4, "parameter_bytes": 6 * MB, "stash_bytes": 3 * MB, "workspace_bytes": 2 * MB, "experts": experts},
        {"tensor": 2, "forward_ms": 1, "backward_ms": 2, "parameter_bytes": 3 * MB, "stash_bytes": 2 * MB,
         "workspace_bytes": 2 * MB, "collective_bytes": 20 * MB}]});
    let spec = json!({
        "name": "hand-made",
        "network": {"layers": [a, b], "micro_batch": {"tokens": 8},
                    "tensors": [{"producer": "a", "consumers": ["b"], "bytes": 2 * MB}]},
        "cluster": {"device_kinds": [{"name": "gpu", "count": 4}], "link": {
            "bandwidth_bytes_per_s": 1e9, "latency_ms": 0.01,
            "nodes": {"devices": 2, "link": {"bandwidth_bytes_per_s": 1e10}}}},
    });
    Instance::from_spec(&serde_json::from_value(spec).expect("a file")).expect("an instance")
}

/// What is asked, and further options.
fn settings(instance: &Instance, further: Value) -> Settings {
    let mut options = json!({
        "stages": 2, "objective": "period", "micro_batches": 4, "communication": "blocking", "schedule": "1f1b", "optimizer": "adam",
        "tensor": "choose", "replicas": "choose", "groups": "assign",
    });
    let further = further.as_object().expect("options").clone();
    options.as_object_mut().expect("options").extend(further);
    let options: PipelineOptions = serde_json::from_value(options).expect("options");
    Settings::resolve(instance, &options).expect("settings")
}

fn plan(instance: &Instance, settings: &Settings, stages: Value) -> Plan {
    let mut plan = by_hand::plan(serde_json::from_value(stages).expect("stages"));
    plan.method = "exact".into();
    plan.problem = settings.to_options(instance);
    let loads = plan.stages.iter().map(|stage| stage.load_ms);
    plan.objective_ms = Some(loads.fold(0.0, f64::max));
    plan.gap = Some(1.0);
    plan
}

/// Both layers on all devices, two tensor groups of two, that share out every micro-batch.
///
/// Work takes (2 + 1) / 2 and (4 + 2) / 2 ms. Of each micro-batch a tensor group reduces 10 / 2 and 20 / 2 MB, 1.5 ms, half of them in either pass: 2.25 + 3.75. Once, a
/// ring of two takes 2 * (7 / 2 MB / 1 GB/s + 0.01) = 7.02 ms. Each device holds 4 * 7 MB, a whole stash of 4 and the workspace of 2.
fn of_two() -> Value {
    json!([{
        "index": 1, "forward": ["a", "b"], "backward": ["a", "b"], "devices": ["gpu:1", "gpu:2", "gpu:3", "gpu:4"], "shares": {},
        "load_ms": 6.0 + 7.02 / 4.0, "forward_ms": 2.25, "backward_ms": 3.75, "communication_ms": 7.02 / 4.0,
        "synchronization_ms": 7.02, "memory_bytes": 34 * MB, "in_flight": 1, "weight_versions": 1,
        "mode": {"tensor": 2, "group": 2, "replicas": 1},
    }])
}

/// `a` on a group of two, `b` on two replicas.
///
/// First stage: (4 + 8) / 2 ms; 2 MB go over one link, 2.01 ms either way; once, a ring of two inside the node takes 2 * 4 MB / 10 GB/s = 0.8 ms. Three micro-batches
/// are in flight: 4 * 8 + 3 * 4 + 1 MB.
///
/// Second stage: half of 2 + 4 ms and of the 2.01 either way; a ring of 2 * 3 MB, 0.6 ms. It holds 4 * 6 + 3 + 2 MB.
fn beside_replicas() -> Value {
    let moved = |in_ms: f64, out_ms: f64| json!({"in_ms": in_ms, "out_ms": out_ms});
    json!([{
        "index": 1, "forward": ["a"], "backward": ["a"], "devices": ["gpu:1", "gpu:2"], "shares": {},
        "load_ms": 6.0 + 4.02 + 0.2, "forward_ms": 2.0, "backward_ms": 4.0, "communication_ms": 4.02 + 0.2,
        "transfers": {"forward": moved(0.0, 2.01), "backward": moved(2.01, 0.0)},
        "synchronization_ms": 0.8, "memory_bytes": 45 * MB, "in_flight": 3, "weight_versions": 1,
        "mode": {"tensor": 1, "group": 2, "replicas": 1},
    }, {
        "index": 2, "forward": ["b"], "backward": ["b"], "devices": ["gpu:3", "gpu:4"], "shares": {},
        "load_ms": 3.0 + 2.01 + 0.15, "forward_ms": 1.0, "backward_ms": 2.0, "communication_ms": 2.01 + 0.15,
        "transfers": {"forward": moved(1.005, 0.0), "backward": moved(0.0, 1.005)},
        "synchronization_ms": 0.6, "memory_bytes": 29 * MB, "in_flight": 1, "weight_versions": 1,
        "mode": {"tensor": 1, "replicas": 2},
    }])
}

/// Both layers on a group of two, each with a sequence on two devices; four devices with the same weights share out gradients, and two of them experts.
///
/// Forwards: 6 / 4 ms; half of `a`'s 8 MB of keys and values go round for half of the samples, 2 MB in 0.2 ms; half of 8 / 4 MB of `b`'s tokens go to experts elsewhere,
/// 0.1 ms, of which 0.05 in either pass: 1.75.
///
/// Backwards: 12 / 4 + 0.4 + 0.05 ms, and gradients are scattered between nodes: 3/4 of 8 and of 2 MB among four, half of 4 / 2 MB of experts among two, 6 + 2.5 ms: 11.95.
///
/// Once, weights come back: 3 * (10 / 4 + 0.01) ms of all, and 1 + 0.01 of experts: 8.54. A device holds 8 + 2 + 4 / 2 MB of weights, a quarter of 3 * 14 MB of
/// gradients and states, (4 + 3) / 2 MB of stash, and while `a` runs 1 / 2 MB and its 8 MB of gradients.
fn sharing_all() -> Value {
    json!([{
        "index": 1, "forward": ["a", "b"], "backward": ["a", "b"], "devices": ["gpu:1", "gpu:2", "gpu:3", "gpu:4"], "shares": {},
        "load_ms": 13.7 + 8.54 / 4.0, "forward_ms": 1.75, "backward_ms": 11.95, "communication_ms": 8.54 / 4.0,
        "synchronization_ms": 8.54, "memory_bytes": 34_500_000, "in_flight": 1, "weight_versions": 1,
        "mode": {"tensor": 1, "expert": 2, "context": 2, "group": 2, "replicas": 1},
    }])
}

/// A plan passes; with any number of it changed it does not, nor where groups are not asked for.
fn accepts_it_alone(further: Value, stages: Value) {
    let instance = instance();
    let settings = settings(&instance, further.clone());
    let plan = plan(&instance, &settings, stages);
    let numbers = accepts_no_other(&instance, &settings, &plan, &["stages"]);
    assert!(numbers > 10, "{numbers}");
    let mut without = further;
    without["groups"] = json!("given");
    let without = self::settings(&instance, without);
    let mut plan = plan;
    plan.problem = without.to_options(&instance);
    let violations = check(&instance, &without, &plan);
    let is_told = |violation: &Violation| matches!(violation, Violation::Field { field, .. } if field == "stages[0].mode.group");
    assert_eq!(violations.len(), 1, "{violations:#?}");
    assert!(violations.iter().all(is_told), "{violations:#?}");
    let text = violations[0].to_string();
    assert!(text.contains("2") && text.contains("groups=\"assign\""), "{text}");
}

#[test]
fn a_group_of_tensor_groups_is_counted_by_hand() {
    accepts_it_alone(json!({}), of_two());
}

#[test]
fn a_group_beside_replicas_is_counted_by_hand() {
    accepts_it_alone(json!({}), beside_replicas());
}

#[test]
fn a_group_that_shares_out_all_else_is_counted_by_hand() {
    let further = json!({"context_parallel": "choose", "expert": "choose", "optimizer_sharding": "zero2"});
    accepts_it_alone(further, sharing_all());
}

/// All stages are alike where that is asked, and a group of none is none.
#[test]
fn groups_that_cannot_be_are_refused() {
    let instance = instance();
    let uniform = settings(&instance, json!({"uniform": true}));
    let mut stages = beside_replicas();
    stages[1]["mode"] = json!({"tensor": 2, "replicas": 1});
    stages[0]["mode"] = json!({"tensor": 2, "group": 0, "replicas": 1});
    let zero = plan(&instance, &uniform, stages.clone());
    let is_at = |name: &'static str| move |violation: &Violation| matches!(violation, Violation::Field { field, .. } if field == name);
    let violations = check(&instance, &uniform, &zero);
    assert!(
        violations.iter().any(is_at("stages[0].mode.group")),
        "{violations:#?}"
    );
    stages[0]["mode"] = json!({"tensor": 1, "group": 2, "replicas": 1});
    stages[1]["mode"] = json!({"tensor": 1, "group": 1, "replicas": 1});
    stages[1]["devices"] = json!(["gpu:3"]);
    let unlike = plan(&instance, &uniform, stages);
    let violations = check(&instance, &uniform, &unlike);
    assert!(violations.iter().any(is_at("stages[1].mode")), "{violations:#?}");
}
