//! Weights in versions, as PipeDream keeps them where nothing is flushed, of stages in modes: by hand, and against brute force with whatever modes know.

use crate::common::modal::{
    add_context, add_experts, add_hosts, offload_states, on_unlike_devices, random_modal,
    random_modal_slow_inside,
};
use crate::in_modes::{hold_drawn, on_devices, solved};
use stagecut::options::{
    Communication, Degrees, MemoryLimit, Objective, Optimizer, PipelineOptions, Schedule,
};
use stagecut::plan::Status;
use stagecut::simulate::{Request, simulate};
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Two layers of 4 + 8 ms, of 100 MB of weights and 10 MB of activations, on three devices with links of 10 GB/s.
fn two() -> InstanceSpec {
    let layer = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        parameter_bytes: 1e8,
        stash_bytes: 1e7,
        ..LayerSpec::default()
    };
    on_devices(3, vec![layer("a"), layer("b")])
}

/// Both layers on two replicas: a ring of 2 · 100 MB behind every two micro-batches takes 20 ms, so that one comes every (24 + 20) / 2 ms. One layer
/// each and a third device left over takes 12.
#[test]
fn the_example_of_the_page() {
    let asked = PipelineOptions {
        schedule: Some(Schedule::Pipedream),
        replicas: Some(Degrees::Choose),
        optimizer: Some(Optimizer::Sgd),
        ..PipelineOptions::default()
    };
    let plan = solved(&two(), &asked);
    assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(12.0)));
    // The first stage has two micro-batches in flight, and a version of its weights for each; gradients once.
    assert_eq!(plan.stages[0].weight_versions, Some(2));
    assert_eq!(plan.stages[0].memory_bytes, 300_000_000 + 20_000_000);
    let alone = PipelineOptions {
        replicas: Some(2.into()),
        stages: Some(1),
        ..asked.clone()
    };
    let plan = solved(&two(), &alone);
    assert_eq!(plan.objective_ms, Some(22.0));
    assert_eq!(plan.stages[0].weight_versions, Some(1));
    let run = simulate(&plan, &Request::default()).unwrap();
    assert_eq!(run.period_ms, Some(22.0));
    // Without room for a second version there is no plan.
    let tight = PipelineOptions {
        memory_limit: Some(MemoryLimit::Bytes(319_999_999)),
        ..asked
    };
    assert_eq!(solved(&two(), &tight).status, Status::Infeasible);
}

/// Random problems of all that modes know.
#[test]
fn versions_of_weights_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = match seed % 5 {
            0 => random_modal_slow_inside(seed),
            _ => random_modal(seed),
        };
        if seed.is_multiple_of(3) {
            spec = on_unlike_devices(spec, seed);
        }
        match seed % 8 {
            1 => add_experts(&mut spec, seed),
            3 | 6 => add_hosts(&mut spec, seed),
            5 => add_context(&mut spec, seed),
            7 => offload_states(&mut spec, seed),
            _ => {}
        }
        if seed.is_multiple_of(11) {
            spec.pipeline.communication = Some(Communication::Overlapped);
        }
        spec.pipeline.schedule = Some(Schedule::Pipedream);
        spec
    };
    hold_drawn(1_500, &[(Objective::Period, 20)], drawn, |seen, draws| {
        seen.compared * 2 > draws
    });
}
