//! Separate cuts of layers that share a table: plans whose numbers are counted by hand, and every way of stating another one.
//!
//! Two layers that read one table of 100 MB, and have no other weights: 2 and 5 ms, and 3 and 1 ms, forwards and backwards. A table takes 10 ms over the
//! link of 10 GB/s, once in an iteration of ten micro-batches, and 200 MB with its gradients.

use crate::common::by_hand;
use crate::numbers::accepts_no_other;
use serde_json::{Value, json};
use stagecut::check::check;
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::plan::Plan;
use stagecut::settings::Settings;

const MB: u64 = 1_000_000;

fn instance(is_frozen: bool) -> Instance {
    let layer = |id: &str, forward_ms: u64, backward_ms: u64| {
        json!({"id": id, "forward_ms": forward_ms, "backward_ms": backward_ms, "parameter_bytes": 100 * MB, "shared": "words",
               "frozen": is_frozen})
    };
    // Something that is trained comes first, so that gradients return through frozen layers too.
    let first = json!({"id": "first", "forward_ms": 0, "backward_ms": 0});
    let spec = json!({
        "name": "hand-made",
        "network": {"layers": [first, layer("embedding", 2, 5), layer("head", 3, 1)], "tensors": [
            {"producer": "first", "consumers": ["embedding"], "bytes": 0},
            {"producer": "embedding", "consumers": ["head"], "bytes": 0}]},
        "cluster": {"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 1e10}},
    });
    Instance::from_spec(&serde_json::from_value(spec).expect("a file")).expect("an instance")
}

fn settings(instance: &Instance) -> Settings {
    let options = json!({
        "stages": 2, "objective": "period", "micro_batches": 10, "cuts": "separate", "communication": "blocking", "schedule": "1f1b",
        "optimizer": "sgd", "precision": "uniform",
    });
    let options: PipelineOptions = serde_json::from_value(options).expect("options");
    Settings::resolve(instance, &options).expect("settings")
}

/// A stage: its layers; work forwards and backwards, and what is received and sent backwards, in ms; and MB.
struct Stage {
    layers: [&'static [&'static str]; 2],
    work_ms: [u64; 2],
    moved_ms: [u64; 2],
    memory_mb: u64,
}

/// The plan of two stages, and layers whose passes lie apart: their stages, and MB of weights that move.
fn plan(instance: &Instance, stages: [&Stage; 2], apart: &[(&str, [u64; 3])]) -> Plan {
    let of_stage = |(k, own): (usize, &&Stage)| {
        let moved = own.moved_ms.iter().sum::<u64>();
        json!({
            "index": k + 1, "forward": own.layers[0], "backward": own.layers[1], "devices": [format!("gpu:{}", k + 1)], "shares": {},
            "forward_ms": own.work_ms[0], "backward_ms": own.work_ms[1], "communication_ms": moved,
            "load_ms": own.work_ms.iter().sum::<u64>() + moved,
            "transfers": {"forward": {"in_ms": 0, "out_ms": 0}, "backward": {"in_ms": own.moved_ms[0], "out_ms": own.moved_ms[1]}},
            "memory_bytes": own.memory_mb * MB, "in_flight": 2 - k, "weight_versions": 1,
        })
    };
    let stages: Vec<Value> = stages.iter().enumerate().map(of_stage).collect();
    let layers = apart.iter().map(|(layer, [forward, backward, moved])| {
        json!({"layer": layer, "forward_stage": forward, "backward_stage": backward, "in_flight": 2, "weight_versions": 1,
               "stash_bytes": 0, "weight_bytes": moved * MB})
    });
    let moved: u64 = apart.iter().map(|(_, [.., moved])| moved * MB).sum();
    let split =
        json!({"stash_bytes_moved": 0, "weight_bytes_moved": moved, "layers": layers.collect::<Vec<_>>()});
    let mut plan = by_hand::plan(serde_json::from_value(stages.into()).expect("stages"));
    plan.split = serde_json::from_value(split).expect("what is split");
    plan.method = "exact".into();
    plan.problem = settings(instance).to_options(instance);
    let loads = plan.stages.iter().map(|stage| stage.load_ms);
    plan.objective_ms = Some(loads.fold(0.0, f64::max));
    plan.gap = Some(1.0);
    plan
}

/// A plan passes, and with any number of it changed it does not.
fn accepts_it_alone(instance: &Instance, plan: &Plan, apart: usize) {
    let numbers = accepts_no_other(instance, &settings(instance), plan, &["stages", "split"]);
    assert_eq!(numbers, 1 + 2 * 12 + 2 + 6 * apart);
}

/// Both forward passes on one device: it holds the weights alone, and receives them once.
#[test]
fn weights_move_once_for_two_forward_passes() {
    let first = Stage {
        layers: [&["first", "embedding", "head"], &["first"]],
        work_ms: [5, 0],
        moved_ms: [1, 0],
        memory_mb: 100,
    };
    let last = Stage {
        layers: [&[], &["embedding", "head"]],
        work_ms: [0, 6],
        moved_ms: [0, 1],
        memory_mb: 200,
    };
    let instance = instance(false);
    let apart = [("embedding", [1, 2, 100]), ("head", [1, 2, 0])];
    let plan = plan(&instance, [&first, &last], &apart);
    assert_eq!(plan.objective_ms, Some(7.0));
    accepts_it_alone(&instance, &plan, 2);
}

/// A forward pass beside the backward pass of the other layer: gradients are summed, and nothing else moves.
#[test]
fn a_forward_pass_finds_the_table_beside_another_backward_pass() {
    let first = Stage {
        layers: [&[], &["first", "embedding"]],
        work_ms: [0, 5],
        moved_ms: [0, 1],
        memory_mb: 200,
    };
    let last = Stage {
        layers: [&["first", "embedding", "head"], &["head"]],
        work_ms: [5, 1],
        moved_ms: [1, 0],
        memory_mb: 200,
    };
    let instance = instance(false);
    let apart = [("first", [2, 1, 0]), ("embedding", [2, 1, 0])];
    let plan = plan(&instance, [&first, &last], &apart);
    assert_eq!(plan.objective_ms, Some(7.0));
    accepts_it_alone(&instance, &plan, 2);
}

/// A frozen table is held where some pass reads it, once, and neither moves nor has gradients.
#[test]
fn a_frozen_table_is_held_once_a_stage() {
    let first = Stage {
        layers: [&["first", "embedding"], &["first"]],
        work_ms: [2, 0],
        moved_ms: [0, 0],
        memory_mb: 100,
    };
    let last = Stage {
        layers: [&["head"], &["embedding", "head"]],
        work_ms: [3, 6],
        moved_ms: [0, 0],
        memory_mb: 100,
    };
    let instance = instance(true);
    let apart = [("embedding", [1, 2, 0])];
    let plan = plan(&instance, [&first, &last], &apart);
    let violations = check(&instance, &settings(&instance), &plan);
    assert!(violations.is_empty(), "{violations:#?}");
}
