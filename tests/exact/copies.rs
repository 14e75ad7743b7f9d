//! Tables that layers share: by hand, and against brute force with whatever modes know.

use crate::common::modal::{on_unlike_devices, random_modal, share_table};
use crate::in_modes::{PERIODS_AND_ITERATIONS, chain_on_devices, hold_drawn, solved};
use stagecut::instance::Instance;
use stagecut::options::{MemoryLimit, Objective, PipelineOptions, Schedule};
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Two layers of 1 + 2 ms that share 100 MB, and a link of 10 GB/s.
fn two() -> InstanceSpec {
    let layer = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(1.0),
        backward_ms: Some(2.0),
        parameter_bytes: 1e8,
        shared: Some("words".into()),
        ..LayerSpec::default()
    };
    chain_on_devices(2, vec![layer("embedding"), layer("head")], Some(0.0))
}

fn asked(objective: Objective, micro_batches: Option<u64>) -> PipelineOptions {
    PipelineOptions {
        objective: Some(objective),
        micro_batches,
        optimizer: Some(stagecut::options::Optimizer::Sgd),
        precision: Some(stagecut::options::StatePrecision::Uniform),
        ..PipelineOptions::default()
    }
}

#[test]
fn the_example_of_the_page() {
    let plan = solved(&two(), &asked(Objective::Period, Some(10)));
    assert_eq!(
        (plan.status, plan.objective_ms, plan.stages.len()),
        (Status::Optimal, Some(4.0), 2)
    );
    // Weight and gradient of a copy each.
    assert_eq!(plan.stages[1].memory_bytes, 200_000_000);
    // Of an iteration of which nobody says how long it is, nothing is counted.
    let plan = solved(&two(), &asked(Objective::Period, None));
    assert_eq!(plan.objective_ms, Some(3.0));
    // With few micro-batches one device is better, and holds one copy.
    let plan = solved(&two(), &asked(Objective::Period, Some(2)));
    assert_eq!((plan.objective_ms, plan.stages.len()), (Some(6.0), 1));
    assert_eq!(plan.stages[0].memory_bytes, 200_000_000);
}

#[test]
fn iterations_end_with_the_sum() {
    // 1 + 1 + 2 + 2 ms for the first micro-batch, 3 for each of the nine behind it, and 10 for the sum.
    let plan = solved(&two(), &asked(Objective::Iteration, Some(10)));
    assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(43.0)));
    assert_eq!(plan.stages[0].synchronization_ms, Some(10.0));
    // Two stages would take 6 + 3 + 10.
    let plan = solved(&two(), &asked(Objective::Iteration, Some(2)));
    assert_eq!(
        (plan.status, plan.objective_ms, plan.stages.len()),
        (Status::Optimal, Some(12.0), 1)
    );
}

#[test]
fn one_stage_holds_one_copy() {
    let options = |bytes: u64| PipelineOptions {
        stages: Some(1),
        memory_limit: Some(MemoryLimit::Bytes(bytes)),
        ..asked(Objective::Period, Some(2))
    };
    assert_eq!(solved(&two(), &options(200_000_000)).status, Status::Optimal);
    let less = Instance::from_spec(&two()).unwrap();
    let settings = Settings::resolve(&less, &options(199_999_999)).unwrap();
    let reason = Problem::new(&less, settings).map(|_| ()).unwrap_err();
    assert!(reason.to_string().contains("200"), "{reason}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut spec = two();
    spec.network.layers[0].frozen = true;
    let told = Instance::from_spec(&spec).unwrap_err().to_string();
    assert!(
        told.contains("shared table `words`") && told.contains("frozen"),
        "{told}"
    );
    let mut spec = two();
    spec.network.layers[0].parameter_bytes = 5e7;
    let told = Instance::from_spec(&spec).unwrap_err().to_string();
    assert!(
        told.contains("50000000 bytes in one layer, 100000000 in another"),
        "{told}"
    );
    // Who says nothing has the table alone.
    spec.network.layers[0].parameter_bytes = 0.0;
    let known = Instance::from_spec(&spec).unwrap();
    assert_eq!(known.network.layers[0].parameter_bytes, 100_000_000);
    for bytes in [-1.0, f64::NAN, 2e8] {
        spec.network.layers[1].shared_bytes = Some(bytes);
        let told = Instance::from_spec(&spec).unwrap_err().to_string();
        assert!(told.contains("shared_bytes"), "{told}");
    }
    let mut spec = two();
    let mut third = spec.network.layers[0].clone();
    third.id = "third".into();
    spec.network.layers.push(third);
    let instance = Instance::from_spec(&spec).unwrap();
    let settings = Settings::resolve(&instance, &asked(Objective::Period, Some(2))).unwrap();
    let told = Problem::new(&instance, settings).unwrap_err().to_string();
    assert!(told.contains("3 layers share"), "{told}");
    let never_flushes = PipelineOptions {
        schedule: Some(Schedule::Pipedream),
        ..asked(Objective::Period, Some(2))
    };
    let two = Instance::from_spec(&two()).unwrap();
    let told = Settings::resolve(&two, &never_flushes).unwrap_err().to_string();
    assert!(told.contains("share the table `words`"), "{told}");
}

/// Random problems of all that modes know, with a table that two layers share.
#[test]
fn modes_with_a_shared_table_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = random_modal(seed);
        share_table(&mut spec, seed);
        match seed % 3 {
            0 => on_unlike_devices(spec, seed),
            _ => spec,
        }
    };
    hold_drawn(1_500, &PERIODS_AND_ITERATIONS, drawn, |seen, draws| {
        seen.compared * 3 > draws && seen.parted * 10 > seen.compared
    });
}

/// A sum of gradients and the exchange of replicas that both end on a whole ns, over a link of which no binary number says how long a byte takes.
#[test]
fn what_happens_once_is_no_ns_longer_for_its_parts() {
    let layer = |id: &str, bytes: f64| serde_json::json!({"id": id, "forward_ms": 3, "backward_ms": 6, "parameter_bytes": bytes, "shared": "words", "shared_bytes": 3e6});
    let spec = serde_json::json!({
        "network": {"layers": [layer("embedding", 12e6), layer("head", 13e6)],
                    "tensors": [{"producer": "embedding", "consumers": ["head"], "bytes": 1e6}]},
        "cluster": {"device_kinds": [{"name": "gpu", "count": 4}], "link": {"bandwidth_bytes_per_s": 7.5e12}},
        "pipeline": {"objective": "period", "micro_batches": 6, "optimizer": "adam", "stages": 2, "all_stages": true,
                     "replicas": "2", "synchronization": "ring"},
    });
    let plan = solved(
        &serde_json::from_value(spec).unwrap(),
        &PipelineOptions::default(),
    );
    // Of 12 MB a ring of two takes 1,600 ns, and the table 400.
    assert_eq!(plan.stages[0].synchronization_ms, Some(0.002));
}
