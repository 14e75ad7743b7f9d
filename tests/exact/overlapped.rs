//! Transfers that run on links of their own beside the work of stages in modes: by hand, and against brute force with whatever modes know.

use crate::common::modal::{
    add_context, add_experts, add_hosts, on_unlike_devices, random_modal, random_modal_slow_inside, shard,
};
use crate::in_modes::{chain_on_devices, hold_drawn, solved};
use stagecut::options::{Communication, Objective, PipelineOptions};
use stagecut::plan::Status;
use stagecut::simulate::{Request, simulate};
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Two layers of 4 + 8 ms, and a tensor of 20 MB between them, on four devices with links of 10 GB/s: 2 ms there, and 2 ms back.
fn two() -> InstanceSpec {
    let layer = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        ..LayerSpec::default()
    };
    chain_on_devices(4, vec![layer("a"), layer("b")], Some(2e7))
}

fn asked(objective: Objective, communication: Communication) -> PipelineOptions {
    PipelineOptions {
        objective: Some(objective),
        communication: Some(communication),
        replicas: Some(2.into()),
        stages: Some(2),
        all_stages: Some(true),
        micro_batches: Some(4),
        ..PipelineOptions::default()
    }
}

/// Two replicas of each layer: one micro-batch every 6 ms, and what waits for its transfers takes (12 + 2 + 2) / 2.
#[test]
fn the_example_of_the_page() {
    let of = |objective: Objective, communication: Communication| {
        let plan = solved(&two(), &asked(objective, communication));
        assert_eq!(plan.status, Status::Optimal);
        (plan.objective_ms.unwrap(), plan)
    };
    assert_eq!(of(Objective::Period, Communication::Overlapped).0, 6.0);
    assert_eq!(of(Objective::Period, Communication::Blocking).0, 8.0);
    // Each replica runs two micro-batches. The first one's way is 4 + 2 + 4 + 8 + 2 + 8, and the other's last pass lies behind it.
    let (ms, plan) = of(Objective::Iteration, Communication::Overlapped);
    assert_eq!(ms, 28.0 + 12.0);
    assert_eq!(plan.stages[0].load_ms, 6.0);
    assert_eq!(plan.stages[0].communication_ms, 1.0);
    let run = simulate(&plan, &Request::default()).unwrap();
    assert_eq!(run.iteration_ms, ms);
}

/// Random problems of all that modes know.
#[test]
fn modes_with_links_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = match seed % 10 {
            0 => random_modal_slow_inside(seed),
            _ => random_modal(seed),
        };
        if seed.is_multiple_of(3) {
            spec = on_unlike_devices(spec, seed);
        }
        match seed % 8 {
            1 => add_experts(&mut spec, seed),
            2 => shard(&mut spec, seed),
            3 | 6 => add_hosts(&mut spec, seed),
            5 => add_context(&mut spec, seed),
            _ => {}
        }
        spec.pipeline.communication = Some(Communication::Overlapped);
        spec
    };
    // Iterations of stages that are unlike, or may compute something again, have bounds that know nothing of how much is in flight.
    let objectives = [(Objective::Period, 20), (Objective::Iteration, 2)];
    hold_drawn(1_200, &objectives, drawn, |seen, draws| seen.compared * 2 > draws);
}
