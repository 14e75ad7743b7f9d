//! Iterations of stages in modes by the standard formula: by hand, and against brute force with whatever modes know.

use crate::common::modal::{
    add_context, add_experts, add_hosts, offload_states, on_unlike_devices, random_modal,
    random_modal_slow_inside, shard,
};
use crate::common::{draws, seeds};
use crate::copies::{Seen, hold, solved};
use stagecut::options::{Communication, Degrees, Objective, PipelineOptions, Schedule};
use stagecut::plan::Status;
use stagecut::spec::{ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec};

/// Three layers of 1 + 2 ms, one of 4 + 8 ms, on four devices.
fn four() -> InstanceSpec {
    let layer = |(at, ms): (usize, f64)| LayerSpec {
        id: format!("l{at}"),
        forward_ms: Some(ms),
        backward_ms: Some(2.0 * ms),
        ..LayerSpec::default()
    };
    let times = [1.0, 1.0, 1.0, 4.0];
    InstanceSpec {
        network: NetworkSpec {
            layers: times.into_iter().enumerate().map(layer).collect(),
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                count: Some(4),
                ..DeviceKindSpec::default()
            }],
            ..ClusterSpec::default()
        }),
        ..InstanceSpec::default()
    }
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
    let mut seen = Seen::default();
    for seed in seeds(1_500) {
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
        hold((seed, &spec), Objective::Formula, &mut seen);
    }
    println!("{seen:?}");
    assert!(
        seen.compared * 2 > draws(1_500) as usize && seen.open * 20 < seen.compared,
        "{seen:?}"
    );
}
