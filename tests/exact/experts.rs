//! Experts that replicas share out: by hand, and against brute force with whatever modes know.

use crate::common::modal;
use crate::in_modes::{PERIODS_AND_ITERATIONS, hold_drawn, on_devices, solved};
use stagecut::instance::Instance;
use stagecut::options::{Degrees, MemoryLimit, Objective, Optimizer, PipelineOptions, StatePrecision};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::spec::{ExpertsSpec, InstanceSpec, LayerSpec};

/// One layer of 4 + 8 ms with four experts of 400 MB together beside 100 MB, whose tokens are 30 MB there and back twice, on four devices with
/// links of 10 GB/s.
fn layer_of_experts() -> InstanceSpec {
    let layer = LayerSpec {
        id: "block".into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        parameter_bytes: 5e8,
        experts: Some(ExpertsSpec {
            count: 4,
            parameter_bytes: 4e8,
            routed_bytes: 3e7,
            share: 0.5,
        }),
        ..LayerSpec::default()
    };
    on_devices(4, vec![layer])
}

fn asked(memory_bytes: u64) -> PipelineOptions {
    PipelineOptions {
        expert: Some(Degrees::Choose),
        replicas: Some(4.into()),
        micro_batches: Some(4),
        objective: Some(Objective::Period),
        optimizer: Some(Optimizer::Sgd),
        precision: Some(StatePrecision::Uniform),
        memory_limit: Some(MemoryLimit::Bytes(memory_bytes)),
        ..PipelineOptions::default()
    }
}

fn degree_and_ms(plan: &Plan) -> (usize, f64) {
    let mode = plan.stages[0].mode.as_ref().unwrap();
    (mode.expert, plan.objective_ms.unwrap())
}

#[test]
fn the_example_of_the_page() {
    // With all experts on every device: 12 / 4 ms, and a ring of 500 MB: 2 · 3/4 · 50 ms / 4.
    let plan = solved(&layer_of_experts(), &asked(1_000_000_000));
    assert_eq!(plan.status, Status::Optimal);
    // Shared out by two: half of 30 MB moves, 1.5 ms; rings of 100 MB among four and of 200 MB among two: 15 and 20 ms an iteration.
    // By four: 2.25 ms, and the ring of 100 MB alone.
    assert_eq!(degree_and_ms(&plan), (4, (12.0 + 2.25) / 4.0 + 15.0 / 4.0));
    assert_eq!(plan.stages[0].memory_bytes, 400_000_000);
    let only = |expert: usize| PipelineOptions {
        expert: Some(expert.into()),
        ..asked(1_000_000_000)
    };
    assert_eq!(
        degree_and_ms(&solved(&layer_of_experts(), &only(1))),
        (1, 3.0 + 75.0 / 4.0)
    );
    let two = solved(&layer_of_experts(), &only(2));
    assert_eq!(degree_and_ms(&two), (2, (12.0 + 1.5) / 4.0 + 35.0 / 4.0));
    assert_eq!(two.stages[0].memory_bytes, 600_000_000);
    // Twice the tokens on the busiest device: half of the time is twice as long, and twice as much moves.
    let busy = PipelineOptions {
        expert_load: Some(2.0),
        ..only(2)
    };
    assert_eq!(
        degree_and_ms(&solved(&layer_of_experts(), &busy)),
        (2, (18.0 + 3.0) / 4.0 + 35.0 / 4.0)
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let instance = Instance::from_spec(&layer_of_experts()).unwrap();
    let told = |options: PipelineOptions| Settings::resolve(&instance, &options).unwrap_err().to_string();
    for load in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY, 1e7] {
        let told = told(PipelineOptions {
            expert_load: Some(load),
            ..asked(1_000_000_000)
        });
        assert!(told.contains("expert_load"), "{told}");
    }
    let told = told(PipelineOptions {
        expert_load: Some(2.0),
        expert: None,
        ..asked(1_000_000_000)
    });
    assert!(told.contains("without experts that are shared out"), "{told}");
    let mut spec = layer_of_experts();
    spec.network.layers[0].experts = None;
    let plain = Instance::from_spec(&spec).unwrap();
    let told = Settings::resolve(&plain, &asked(1_000_000_000))
        .unwrap_err()
        .to_string();
    assert!(told.contains("a network without experts"), "{told}");
    type Change = (&'static str, fn(&mut ExpertsSpec));
    let wrong: [Change; 5] = [
        ("count", |experts| experts.count = 0),
        ("parameter_bytes", |experts| experts.parameter_bytes = 6e8),
        ("parameter_bytes", |experts| experts.parameter_bytes = f64::NAN),
        ("routed_bytes", |experts| experts.routed_bytes = -1.0),
        ("share", |experts| experts.share = 1.5),
    ];
    for (field, change) in wrong {
        let mut spec = layer_of_experts();
        change(spec.network.layers[0].experts.as_mut().unwrap());
        let told = Instance::from_spec(&spec).unwrap_err().to_string();
        assert!(told.contains(&format!("experts.{field}")), "{told}");
    }
}

/// Random problems of all that modes know, with experts and now and then a table that two layers share.
#[test]
fn modes_with_experts_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = modal::random_modal(seed);
        modal::add_experts(&mut spec, seed);
        if seed.is_multiple_of(4) {
            modal::share_table(&mut spec, seed);
        }
        match seed % 3 {
            0 => modal::on_unlike_devices(spec, seed),
            _ => spec,
        }
    };
    hold_drawn(1_500, &PERIODS_AND_ITERATIONS, drawn, |seen, draws| {
        seen.compared * 3 > draws && seen.expert * 20 > seen.compared
    });
}
