//! Sequences that devices share out: by hand, and against brute force with whatever modes know.

use crate::common::modal;
use crate::in_modes::{PERIODS_AND_ITERATIONS, hold_drawn, on_devices, solved};
use stagecut::instance::Instance;
use stagecut::options::{
    Degrees, MemoryLimit, Mode, Objective, Optimizer, OptimizerSharding, PipelineOptions, StatePrecision,
};
use stagecut::plan::Status;
use stagecut::settings::Settings;
use stagecut::spec::{ExpertsSpec, InstanceSpec, LayerSpec, LinkSpec, MicroBatchSpec, NodesSpec};

/// A block of 4 + 8 ms and 100 MB that keeps 60 MB of a micro-batch of 8 tokens and 1 MB of keys and values of each, on four devices with links of 10 GB/s.
fn block() -> InstanceSpec {
    let layer = LayerSpec {
        id: "block".into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        parameter_bytes: 1e8,
        stash_bytes: 6e7,
        kv_bytes_per_token: 1e6,
        ..LayerSpec::default()
    };
    let mut spec = on_devices(4, vec![layer]);
    spec.network.micro_batch = Some(MicroBatchSpec {
        tokens: 8.0,
        ..MicroBatchSpec::default()
    });
    spec
}

fn asked(degree: usize) -> PipelineOptions {
    PipelineOptions {
        context_parallel: Some(degree.into()),
        micro_batches: Some(5),
        objective: Some(Objective::Period),
        optimizer: Some(Optimizer::Adam),
        precision: Some(StatePrecision::Uniform),
        optimizer_sharding: (degree > 1).then_some(OptimizerSharding::Zero1),
        memory_limit: Some(MemoryLimit::Bytes(4_000_000_000)),
        ..PipelineOptions::default()
    }
}

#[test]
fn the_example_of_the_page() {
    // Work over c, three times (c - 1) / c of 0.8 ms, and a ring of c with 2 (c - 1) / c of 10 ms an iteration.
    let rows = [
        (1, 12.0, 200 + 200 + 60),
        (2, 6.0 + 3.0 * 0.4 + 10.0 / 5.0, 200 + 100 + 30),
        (4, 3.0 + 3.0 * 0.6 + 15.0 / 5.0, 200 + 50 + 15),
    ];
    for (degree, ms, megabytes) in rows {
        let plan = solved(&block(), &asked(degree));
        assert_eq!(plan.status, Status::Optimal);
        assert!(
            (plan.objective_ms.unwrap() - ms).abs() < 1e-9,
            "{degree}: {:?}",
            plan.objective_ms
        );
        let stage = &plan.stages[0];
        assert_eq!(stage.memory_bytes, megabytes * 1_000_000, "{degree}");
        let context = stage.mode.as_ref().map_or(1, |mode| mode.context);
        assert_eq!((context, stage.devices.len()), (degree, degree));
    }
    // Three do not divide eight tokens.
    let options = PipelineOptions {
        context_parallel: Some(Degrees::Choose),
        ..asked(1)
    };
    let plan = solved(&block(), &options);
    assert_eq!(plan.stages[0].mode.as_ref().unwrap().context, 4);
}

/// Experts are shared out by the devices of one sequence: half of 80 MB on each, half of 15 MB to the other, and no ring but that of 20 MB.
#[test]
fn a_sequence_shares_out_experts() {
    let mut spec = block();
    spec.network.layers[0].experts = Some(ExpertsSpec {
        count: 4,
        parameter_bytes: 8e7,
        routed_bytes: 3e7,
        share: 0.5,
    });
    let of = |expert: usize| PipelineOptions {
        expert: Some(expert.into()),
        optimizer_sharding: None,
        ..asked(2)
    };
    for (expert, ms, megabytes) in [
        (1, 9.2, 400 + 30),
        (2, 6.0 + 1.2 + 0.75 + 0.4, 4 * (20 + 40) + 30),
    ] {
        let plan = solved(&spec, &of(expert));
        assert!(
            (plan.objective_ms.unwrap() - ms).abs() < 1e-9,
            "{expert}: {:?}",
            plan.objective_ms
        );
        assert_eq!(plan.stages[0].memory_bytes, megabytes * 1_000_000, "{expert}");
    }
}

/// Keys and values take the link inside a node where a node has the group, which lies in one then.
#[test]
fn levels_are_those_that_groups_need() {
    let mut spec = block();
    let link = spec.cluster.as_mut().unwrap().link.as_mut().unwrap();
    link.nodes = Some(Box::new(NodesSpec {
        devices: 2,
        link: LinkSpec {
            bandwidth_bytes_per_s: 1e11,
            latency_ms: 0.0,
            nodes: None,
        },
    }));
    let ms = |degree: usize| solved(&spec, &asked(degree)).objective_ms.unwrap();
    assert!((ms(2) - (6.0 + 0.12 + 0.2)).abs() < 1e-9, "{}", ms(2));
    assert!((ms(4) - (3.0 + 1.8 + 3.0)).abs() < 1e-9, "{}", ms(4));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let told = |spec: &InstanceSpec, options: PipelineOptions| {
        let instance = Instance::from_spec(spec).unwrap();
        Settings::resolve(&instance, &options).unwrap_err().to_string()
    };
    let mut plain = block();
    plain.network.micro_batch = None;
    let found = told(&plain, asked(2));
    assert!(found.contains("does not say its tokens"), "{found}");
    let mut plain = block();
    plain.network.layers[0].kv_bytes_per_token = 0.0;
    let found = told(&plain, asked(2));
    assert!(found.contains("keys and values"), "{found}");
    let served = PipelineOptions {
        mode: Some(Mode::Inference),
        ..asked(2)
    };
    let found = told(&block(), served);
    assert!(found.contains("inference with"), "{found}");
}

/// Random problems of all that modes know, with sequences that devices share out, and with a table or unlike devices.
#[test]
fn modes_with_context_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = match seed % 5 {
            0 => modal::random_modal_slow_inside(seed),
            _ => modal::random_modal(seed),
        };
        if seed.is_multiple_of(4) {
            modal::share_table(&mut spec, seed);
        }
        if seed.is_multiple_of(3) {
            spec = modal::on_unlike_devices(spec, seed);
        }
        if seed.is_multiple_of(7) {
            spec.pipeline.uniform = Some(true);
        }
        match seed % 6 {
            1 | 4 => modal::add_experts(&mut spec, seed),
            2 => modal::shard(&mut spec, seed),
            5 => {
                modal::shard(&mut spec, seed);
                modal::add_experts(&mut spec, seed);
            }
            _ => {}
        }
        modal::add_context(&mut spec, seed);
        spec
    };
    hold_drawn(1_200, &PERIODS_AND_ITERATIONS, drawn, |seen, draws| {
        seen.compared * 4 > draws
            && seen.context * 10 > seen.compared
            && seen.experts_in_context * 50 > seen.compared
            && seen.sharded_in_context * 50 > seen.compared
    });
}
