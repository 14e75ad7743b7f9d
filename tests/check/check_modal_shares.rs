//! Workers that run both phases at once where stages have modes: plans whose numbers are counted by hand, and every way of stating another one.
//!
//! Two nodes of two devices, with 10 GB/s inside and 1 GB/s and 0.01 ms between them, so that 2 MB take 2.01 ms from node to node and 0.2 ms inside of one. Adam
//! keeps four bytes for each of a weight. What a device makes of the layers when it does nothing else is the same whatever it consists of, in ms:
//!
//! | | forwards | backwards | |
//! |---|---|---|---|
//! | `a` | 4 | 8 | |
//! | `a` on two devices | 2 | 5 | 20 MB are reduced in 2 ms, half of it in either pass: 3 and 6 |
//! | `b` | 3.5 | 7 | |

use crate::common::by_hand;
use crate::numbers::accepts_no_other;
use serde_json::{Value, json};
use stagecut::check::{Violation, check};
use stagecut::export::{TARGETS, find};
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::plan::Plan;
use stagecut::settings::Settings;
use stagecut::simulate::{Request, simulate};

const MB: u64 = 1_000_000;

/// `a` and then `b` on devices of these resources, whose rates in either phase have such sums.
fn instance(resources: Value, rates: [f64; 2]) -> Instance {
    let times = |forward_ms: f64, backward_ms: f64| [forward_ms * rates[0], backward_ms * rates[1]];
    let [alone, together, behind] = [times(4.0, 8.0), times(2.0, 5.0), times(3.5, 7.0)];
    let a = json!({"id": "a", "modes": [
        {"forward_ms": alone[0], "backward_ms": alone[1], "parameter_bytes": 8 * MB, "stash_bytes": 4 * MB, "workspace_bytes": MB},
        {"tensor": 2, "forward_ms": together[0], "backward_ms": together[1], "parameter_bytes": 4 * MB, "stash_bytes": 2 * MB,
         "workspace_bytes": MB, "collective_bytes": 20 * MB}]});
    let b = json!({"id": "b", "modes": [
        {"forward_ms": behind[0], "backward_ms": behind[1], "parameter_bytes": 6 * MB, "stash_bytes": 3 * MB, "workspace_bytes": 2 * MB}]});
    let spec = json!({
        "name": "hand-made",
        "network": {"layers": [a, b], "tensors": [{"producer": "a", "consumers": ["b"], "bytes": 2 * MB}]},
        "cluster": {"device_kinds": [{"name": "gpu", "count": 4, "resources": resources}], "link": {
            "bandwidth_bytes_per_s": 1e9, "latency_ms": 0.01,
            "nodes": {"devices": 2, "link": {"bandwidth_bytes_per_s": 1e10}}}},
    });
    Instance::from_spec(&serde_json::from_value(spec).expect("a file")).expect("an instance")
}

/// Devices of one piece.
fn of_one_piece() -> Instance {
    instance(json!([]), [1.0; 2])
}

/// Devices of two resources: three quarters of forward propagation are the first one's, and half of backward propagation.
fn of_two_resources() -> Instance {
    let resources = json!([
        {"name": "tensor", "forward_rate": 3, "backward_rate": 1}, {"name": "vector", "forward_rate": 1, "backward_rate": 1}]);
    instance(resources, [4.0, 2.0])
}

/// What is asked, and further options.
fn settings(instance: &Instance, further: Value) -> Settings {
    let mut options = json!({
        "stages": 2, "objective": "period", "micro_batches": 4, "worker": "concurrent", "optimizer": "adam", "tensor": "choose", "replicas": "choose",
    });
    let further = further.as_object().expect("options").clone();
    options.as_object_mut().expect("options").extend(further);
    let options: PipelineOptions = serde_json::from_value(options).expect("options");
    Settings::resolve(instance, &options).expect("settings")
}

/// A plan of this objective.
fn plan(instance: &Instance, settings: &Settings, (stages, objective_ms): (Value, f64)) -> Plan {
    let mut plan = by_hand::plan(serde_json::from_value(stages).expect("stages"));
    plan.method = "exact".into();
    plan.problem = settings.to_options(instance);
    plan.objective_ms = Some(objective_ms);
    plan.gap = Some(1.0);
    plan
}

/// Of two stages, `a` on two devices and `b` on two replicas, what shares decide: shares, and the time of either phase on a replica in ms. Then micro-batches in flight.
struct Shared {
    shares: [Value; 2],
    phases_ms: [[f64; 2]; 2],
    in_flight: [u64; 2],
}

/// What else there is of these stages: 2.01 ms between nodes in either direction, of which each of the replicas bears half, and the ring of `b`'s 6 MB inside of a node, 0.6 ms an
/// iteration. Devices hold 4 * 4 + 1 MB and 2 MB a micro-batch, and 4 * 6 + 2 MB and 3 MB a micro-batch.
fn two_stages(own: &Shared, micro_batches: f64) -> Value {
    let moved = |in_ms: f64, out_ms: f64| json!({"in_ms": in_ms, "out_ms": out_ms});
    let [[forward, backward], [forward_of_two, backward_of_two]] = own.phases_ms;
    let [first, second] = own.in_flight;
    let ring = 0.6 / micro_batches;
    json!([{
        "index": 1, "forward": ["a"], "backward": ["a"], "devices": ["gpu:1", "gpu:2"], "shares": own.shares[0],
        "load_ms": forward.max(backward), "forward_ms": forward, "backward_ms": backward, "communication_ms": 2.01,
        "transfers": {"forward": moved(0.0, 2.01), "backward": moved(2.01, 0.0)},
        "memory_bytes": (17 + 2 * first) * MB, "in_flight": first, "weight_versions": 1,
        "mode": {"tensor": 2, "replicas": 1},
    }, {
        "index": 2, "forward": ["b"], "backward": ["b"], "devices": ["gpu:3", "gpu:4"], "shares": own.shares[1],
        "load_ms": forward_of_two.max(backward_of_two) / 2.0 + ring, "forward_ms": forward_of_two / 2.0,
        "backward_ms": backward_of_two / 2.0, "communication_ms": 1.005 + ring,
        "transfers": {"forward": moved(1.005, 0.0), "backward": moved(0.0, 1.005)}, "synchronization_ms": 0.6,
        "memory_bytes": (26 + 3 * second) * MB, "in_flight": second, "weight_versions": 1,
        "mode": {"tensor": 1, "replicas": 2},
    }])
}

/// Two resources, of which the first stage has the best shares: forwards half of the first, 3/8 of all, backwards all else, 3/4. So 3 / (3/8) and 6 / (3/4) ms.
///
/// The second one has others, 0.75 * 0.4 + 0.25 * 0.2 = 0.35 of all forwards and 0.5 * 0.6 + 0.5 * 0.8 = 0.7 backwards: 3.5 / 0.35 and 7 / 0.7 ms.
///
/// Of eight micro-batches 2 * 3 are in flight on the first stage, and 2 * 2 / 2 on each replica of the second.
fn of_resources() -> Shared {
    Shared {
        shares: [
            json!({"gpu.tensor": 0.5, "gpu.vector": 0.0}),
            json!({"gpu.tensor": 0.4, "gpu.vector": 0.2}),
        ],
        phases_ms: [[8.0, 8.0], [10.0, 10.0]],
        in_flight: [6, 2],
    }
}

#[test]
fn shares_of_two_resources_are_counted_by_hand() {
    let instance = of_two_resources();
    let settings = settings(&instance, json!({"micro_batches": 8}));
    let plan = plan(&instance, &settings, (two_stages(&of_resources(), 8.0), 8.0));
    assert_eq!(accepts_no_other(&instance, &settings, &plan, &["stages"]), 34);
}

/// Even shares take a quarter of a resource that has quarters: at it a device does 0.3 of forward propagation, and 0.75 of the rest at the three quarters that are left.
#[test]
fn levels_are_counted_by_hand() {
    let levels = json!([
        {"share": 0.25, "speed": 0.3, "backward_speed": 0.35}, {"share": 0.75, "speed": 0.8, "backward_speed": 0.75}]);
    let instance = instance(
        json!([{"name": "sm", "forward_rate": 1, "levels": levels}]),
        [1.0; 2],
    );
    let settings = settings(&instance, json!({"shares": "even"}));
    let own = Shared {
        shares: [json!({"gpu.sm": 0.25}), json!({"gpu.sm": 0.25})],
        phases_ms: [[10.0, 8.0], [3.5 / 0.3, 7.0 / 0.75]],
        in_flight: [4, 2],
    };
    let plan = plan(&instance, &settings, (two_stages(&own, 4.0), 10.0));
    accepts_no_other(&instance, &settings, &plan, &["stages"]);
}

/// By the theorem a device of one piece gives a third to forward propagation where that is a third of the work, and both phases take as long as all of it: 9 ms and 10.5.
fn by_theorem() -> Shared {
    Shared {
        shares: [json!({"gpu": 1.0 / 3.0}), json!({"gpu": 1.0 / 3.0})],
        phases_ms: [[9.0, 9.0], [10.5, 10.5]],
        in_flight: [4, 2],
    }
}

/// The first stage is what everything waits for, and sends the fourth micro-batch after 36 ms: it is back 2.01 + 10.5 + 10.5 + 2.01 ms later, and done after 9 more.
#[test]
fn an_iteration_is_counted_by_hand() {
    let instance = of_one_piece();
    let settings = settings(&instance, json!({"objective": "iteration", "shares": "theorem"}));
    let plan = plan(&instance, &settings, (two_stages(&by_theorem(), 4.0), 70.02));
    accepts_no_other(&instance, &settings, &plan, &["stages"]);
    let run = simulate(&plan, &Request::default()).expect("a run");
    assert_eq!(run.iteration_ms, 70.02);
    let held: Vec<Option<u64>> = run.stages.iter().map(|stage| stage.standard_in_flight).collect();
    assert_eq!(held, [Some(4), Some(2)]);
    assert_eq!(run.formula_iteration_ms, None);
}

/// Where transfers are ignored what groups reduce still takes its part of either phase, and a ring takes none.
#[test]
fn what_groups_reduce_has_its_share_where_transfers_are_ignored() {
    let instance = of_one_piece();
    let settings = settings(
        &instance,
        json!({"shares": "theorem", "communication": "ignored"}),
    );
    let mut stages = two_stages(&by_theorem(), 4.0);
    for stage in stages.as_array_mut().expect("stages") {
        let stage = stage.as_object_mut().expect("a stage");
        stage.remove("transfers");
        stage.remove("synchronization_ms");
        stage.insert("communication_ms".into(), json!(0.0));
    }
    stages[1]["load_ms"] = json!(5.25);
    let plan = plan(&instance, &settings, (stages, 9.0));
    accepts_no_other(&instance, &settings, &plan, &["stages"]);
}

/// The forward pass of `b` with `a` on one device, its backward pass alone on the other one of the node, which has nothing to do forwards and is all its own.
///
/// The first device has 4 + 3.5 ms forwards and 8 backwards, 15.5 ms at once. Forwards it sends the stash of `b`, 3 MB in 0.3 ms, backwards it receives the gradient of the tensor, 0.2 ms, and
/// once the weights of `b`, 6 MB in 0.6. It holds 4 * 8 + 4 * 4 MB of `a`, 6 of `b`, and the workspace of 2; the other one 4 * 6 MB, 3 for each of the 4 micro-batches that the
/// first one has in flight, and 2.
#[test]
fn passes_that_lie_apart_have_shares_of_their_own() {
    let instance = of_one_piece();
    let settings = settings(&instance, json!({"shares": "theorem", "cuts": "separate"}));
    let moved = |in_ms: f64, out_ms: f64| json!({"in_ms": in_ms, "out_ms": out_ms});
    let stages = json!([{
        "index": 1, "forward": ["a", "b"], "backward": ["a"], "devices": ["gpu:1"], "shares": {"gpu": 7.5 / 15.5},
        "load_ms": 15.65, "forward_ms": 15.5, "backward_ms": 15.5, "communication_ms": 0.45,
        "transfers": {"forward": moved(0.0, 0.3), "backward": moved(0.2, 0.0)}, "synchronization_ms": 0.6,
        "memory_bytes": 56 * MB, "in_flight": 4, "weight_versions": 1, "mode": {"tensor": 1, "replicas": 1},
    }, {
        "index": 2, "forward": [], "backward": ["b"], "devices": ["gpu:2"], "shares": {"gpu": 0.0},
        "load_ms": 7.15, "forward_ms": 0.0, "backward_ms": 7.0, "communication_ms": 0.45,
        "transfers": {"forward": moved(0.3, 0.0), "backward": moved(0.0, 0.2)}, "synchronization_ms": 0.6,
        "memory_bytes": 35 * MB, "in_flight": 2, "weight_versions": 1, "mode": {"tensor": 1, "replicas": 1},
    }]);
    let mut plan = plan(&instance, &settings, (stages, 15.65));
    let split = json!({"stash_bytes_moved": 3 * MB, "weight_bytes_moved": 6 * MB, "layers": [{
        "layer": "b", "forward_stage": 1, "backward_stage": 2, "in_flight": 3, "weight_versions": 1,
        "stash_bytes": 3 * MB, "weight_bytes": 6 * MB}]});
    plan.split = serde_json::from_value(split).expect("what is split");
    accepts_no_other(&instance, &settings, &plan, &["stages", "split"]);
}

/// What is said of the shares of a stage with these in place of its own.
fn told(instance: &Instance, settings: &Settings, (own, shares): (&Shared, Value)) -> Vec<String> {
    let mut stages = two_stages(own, 4.0);
    stages[0]["shares"] = shares;
    let plan = plan(instance, settings, (stages, 9.0));
    let violations = check(instance, settings, &plan);
    let is_of_shares =
        |violation: &&Violation| matches!(violation, Violation::Share { .. } | Violation::Unserved { .. });
    violations
        .iter()
        .filter(is_of_shares)
        .map(Violation::to_string)
        .collect()
}

#[test]
fn shares_that_cannot_be_are_told() {
    let instance = of_two_resources();
    let best = settings(&instance, json!({}));
    let own = of_resources();
    let told_of = |shares: Value| told(&instance, &best, (&own, shares));
    assert_eq!(
        told_of(json!({"gpu.tensor": 0.5})),
        ["stage 1: `gpu.vector` has the share NaN, which the problem does not allow"]
    );
    assert_eq!(
        told_of(json!({"gpu.tensor": 0.5, "gpu.vector": 0.0, "cpu": 0.5})),
        ["stage 1: `cpu` has the share 0.5, which the problem does not allow"]
    );
    assert_eq!(
        told_of(json!({"gpu.tensor": 0.5, "gpu.vector": -0.5})),
        ["stage 1: `gpu.vector` has the share -0.5, which the problem does not allow"]
    );
    assert_eq!(
        told_of(json!({"gpu.tensor": 0.0, "gpu.vector": 0.0})),
        ["stage 1: forward propagation has work, but no part of a resource"]
    );
    let even = settings(&instance, json!({"shares": "even"}));
    let off = told(
        &instance,
        &even,
        (&own, json!({"gpu.tensor": 0.5, "gpu.vector": 0.5})),
    );
    assert_eq!(
        off.len(),
        2,
        "those of the second stage are not even either: {off:?}"
    );
    let parts = settings(&instance, json!({"share_parts": 4}));
    let off = told(
        &instance,
        &parts,
        (&own, json!({"gpu.tensor": 0.5, "gpu.vector": 0.25})),
    );
    assert_eq!(off.len(), 2, "nor are they quarters: {off:?}");
}

/// Shares by the theorem weigh what a device does with what its group moves: those of its layers alone are others.
#[test]
fn the_theorem_weighs_all_that_a_device_does() {
    let instance = of_one_piece();
    let settings = settings(&instance, json!({"shares": "theorem"}));
    let own = by_theorem();
    let told_of = |share: f64| told(&instance, &settings, (&own, json!({"gpu": share})));
    assert!(told_of(3.0 / 9.0).is_empty());
    assert_eq!(told_of(2.0 / 7.0).len(), 1);
}

/// No framework is told of shares, whatever the degrees it takes; what takes every plan writes them.
#[test]
fn exports_know_no_shares() {
    let instance = of_two_resources();
    let settings = settings(&instance, json!({"micro_batches": 8}));
    let mut plan = plan(&instance, &settings, (two_stages(&of_resources(), 8.0), 8.0));
    for target in TARGETS.iter().filter(|target| target.name != "json") {
        assert!((target.write)(&instance, &plan).is_err(), "{}", target.name);
    }
    let json = find("json").expect("a target");
    let written = (json.write)(&instance, &plan).expect("every plan");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["stages"][0]["shares"]["gpu.tensor"], 0.5);
    // Of one device a stage shares are all that is wrong.
    for (k, stage) in plan.stages.iter_mut().enumerate() {
        stage.devices = vec![format!("gpu:{}", k + 1)];
        stage.mode = serde_json::from_value(json!({"tensor": 1, "replicas": 1})).expect("a mode");
    }
    for target in TARGETS.iter().filter(|target| target.name != "json") {
        let fault = (target.write)(&instance, &plan)
            .expect_err(target.name)
            .to_string();
        let is_named = fault.contains("a share of 0.500 of `gpu.tensor` for forward propagation");
        assert!(is_named, "{}: {fault}", target.name);
    }
}

/// Sequential workers have no shares in modes either.
#[test]
fn shares_of_sequential_workers_are_refused() {
    let instance = of_one_piece();
    let concurrent = settings(&instance, json!({"shares": "theorem"}));
    let sequential = settings(&instance, json!({"worker": "sequential"}));
    let mut plan = plan(&instance, &concurrent, (two_stages(&by_theorem(), 4.0), 9.0));
    plan.problem = sequential.to_options(&instance);
    let violations = check(&instance, &sequential, &plan);
    let is_told = |k: usize| {
        let name = format!("stages[{k}].shares");
        let mut fields = violations.iter();
        fields.any(|violation| matches!(violation, Violation::Field { field, .. } if *field == name))
    };
    assert!(is_told(0) && is_told(1), "{violations:#?}");
}
