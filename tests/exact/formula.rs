//! Iterations of stages in modes by the standard formula: by hand, and against brute force with whatever modes know.

use crate::common::modal::{
    add_context, add_experts, add_hosts, offload_states, on_unlike_devices, random_modal,
    random_modal_slow_inside, shard,
};
use crate::in_modes::{hold_drawn, on_devices, solved};
use stagecut::options::{Communication, Degrees, Objective, PipelineOptions, Schedule};
use stagecut::plan::Status;
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Three layers of 1 + 2 ms, one of 4 + 8 ms, on four devices.
fn four() -> InstanceSpec {
    let layer = |(at, ms): (usize, f64)| LayerSpec {
        id: format!("l{at}"),
        forward_ms: Some(ms),
        backward_ms: Some(2.0 * ms),
        ..LayerSpec::default()
    };
    let times = [1.0, 1.0, 1.0, 4.0];
    on_devices(4, times.into_iter().enumerate().map(layer).collect())
}

/// One micro-batch takes 21 ms whatever the stages. Four replicas of all layers make one every 5.25 ms, and two stages at best one every 6.
#[test]
fn the_example_of_the_page() {
    let asked = PipelineOptions {
        objective: Some(Objective::Formula),
        replicas: Some(Degrees::Choose),
        micro_batches: Some(8),
        ..PipelineOptions::default()
    };
    let plan = solved(&four(), &asked);
    assert_eq!(
        (plan.status, plan.objective_ms),
        (Status::Optimal, Some(21.0 + 7.0 * 5.25))
    );
    let apart = PipelineOptions {
        stages: Some(2),
        all_stages: Some(true),
        ..asked
    };
    let plan = solved(&four(), &apart);
    assert_eq!(
        (plan.status, plan.objective_ms),
        (Status::Optimal, Some(21.0 + 7.0 * 6.0))
    );
}

/// Random problems of all that modes know.
#[test]
fn iterations_by_the_formula_are_those_of_brute_force() {
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
            2 => shard(&mut spec, seed),
            3 | 6 => add_hosts(&mut spec, seed),
            5 => add_context(&mut spec, seed),
            7 => offload_states(&mut spec, seed),
            _ => {}
        }
        if seed.is_multiple_of(11) {
            spec.pipeline.communication = Some(Communication::Overlapped);
        }
        spec.pipeline.schedule = spec.pipeline.schedule.filter(|own| *own != Schedule::Gpipe);
        spec.pipeline.micro_batches.get_or_insert(6);
        spec
    };
    hold_drawn(1_500, &[(Objective::Formula, 20)], drawn, |seen, draws| {
        seen.compared * 2 > draws
    });
}
