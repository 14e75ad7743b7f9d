//! Gradients and weights that replicas share out: by hand, and against brute force with whatever modes know.

use crate::common::modal;
use crate::in_modes::{PERIODS_AND_ITERATIONS, chain_on_devices, hold_drawn, solved};
use stagecut::instance::Instance;
use stagecut::options::{
    MemoryLimit, Objective, Optimizer, OptimizerSharding, PipelineOptions, StatePrecision,
};
use stagecut::plan::Status;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, LinkSpec, NodesSpec};

/// Two layers of 4 + 8 ms and 100 MB, and four devices with links of 10 GB/s.
fn two() -> InstanceSpec {
    let layer = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        parameter_bytes: 1e8,
        ..LayerSpec::default()
    };
    chain_on_devices(4, vec![layer("first"), layer("second")], Some(0.0))
}

fn asked(sharding: OptimizerSharding) -> PipelineOptions {
    PipelineOptions {
        optimizer_sharding: Some(sharding),
        stages: Some(1),
        replicas: Some(4.into()),
        micro_batches: Some(8),
        objective: Some(Objective::Period),
        optimizer: Some(Optimizer::Adam),
        precision: Some(StatePrecision::Fp32),
        memory_limit: Some(MemoryLimit::Bytes(4_000_000_000)),
        ..PipelineOptions::default()
    }
}

#[test]
fn the_example_of_the_page() {
    // Of 200 MB each has 200 of weights and of gradients and 400 of Adam's states. A ring takes 2 · 3/4 · 20 ms an iteration, once round half.
    let rows = [
        (OptimizerSharding::None, 800, 24.0 / 4.0 + 30.0 / 8.0),
        (OptimizerSharding::Zero1, 400 + 100, 24.0 / 4.0 + 30.0 / 8.0),
        // Weights, a quarter of the rest, and the gradients of one layer; these go half round behind each micro-batch of a replica.
        (
            OptimizerSharding::Zero2,
            200 + 150 + 100,
            (24.0 + 15.0) / 4.0 + 15.0 / 8.0,
        ),
        // A quarter of all, and weights and gradients of one layer; weights go half round in either pass besides.
        (OptimizerSharding::Zero3, 200 + 200, (24.0 + 45.0) / 4.0),
    ];
    for (sharding, megabytes, ms) in rows {
        let plan = solved(&two(), &asked(sharding));
        assert_eq!(
            (plan.status, plan.objective_ms),
            (Status::Optimal, Some(ms)),
            "{sharding}"
        );
        assert_eq!(plan.stages[0].memory_bytes, megabytes * 1_000_000, "{sharding}");
    }
    // Forward: 8 ms, and weights once; an iteration is two micro-batches of each replica, one behind the other.
    let options = PipelineOptions {
        objective: Some(Objective::Iteration),
        ..asked(OptimizerSharding::Zero3)
    };
    let plan = solved(&two(), &options);
    assert_eq!(plan.objective_ms, Some(2.0 * 69.0));
    assert_eq!(plan.stages[0].forward_ms * 4.0, 8.0 + 15.0);
    assert_eq!(plan.stages[0].synchronization_ms, None);
}

#[test]
fn what_devices_hold_adds_up_part_by_part() {
    let spec = two();
    let instance = Instance::from_spec(&spec).unwrap();
    let rows = [
        (OptimizerSharding::Zero2, [200, 50, 100, 100]),
        (OptimizerSharding::Zero3, [50, 50, 100, 200]),
    ];
    for (sharding, parts) in rows {
        let settings = Settings::resolve(&instance, &asked(sharding)).unwrap();
        let held = solved(&spec, &asked(sharding))
            .fullest(&instance, &settings)
            .unwrap();
        let found = [
            held.weight_bytes,
            held.gradient_bytes,
            held.optimizer_bytes,
            held.workspace_bytes,
        ];
        assert_eq!(found, parts.map(|megabytes| megabytes * 1_000_000), "{sharding}");
        assert_eq!(held.activation_bytes, 0);
    }
}

/// Gathers take the link inside a node where a node has the stage's devices, and such a stage lies in one.
#[test]
fn levels_are_those_that_replicas_need() {
    let mut spec = two();
    let link = spec.cluster.as_mut().unwrap().link.as_mut().unwrap();
    link.nodes = Some(Box::new(NodesSpec {
        devices: 2,
        link: LinkSpec {
            bandwidth_bytes_per_s: 1e11,
            latency_ms: 0.0,
            nodes: None,
        },
    }));
    let of = |replicas: usize| PipelineOptions {
        replicas: Some(replicas.into()),
        ..asked(OptimizerSharding::Zero3)
    };
    // Two in a node: three times half of 2 ms. Four in two nodes: three times three quarters of 20.
    assert_eq!(solved(&spec, &of(2)).objective_ms, Some((24.0 + 3.0) / 2.0));
    assert_eq!(solved(&spec, &of(4)).objective_ms, Some((24.0 + 45.0) / 4.0));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let instance = Instance::from_spec(&two()).unwrap();
    let told = |options: PipelineOptions| Settings::resolve(&instance, &options).unwrap_err().to_string();
    for sharding in [OptimizerSharding::Zero2, OptimizerSharding::Zero3] {
        let alone = told(PipelineOptions {
            replicas: None,
            ..asked(sharding)
        });
        assert!(
            alone.contains(&format!("`{sharding}` without replicas")),
            "{alone}"
        );
        let served = told(PipelineOptions {
            mode: Some(stagecut::options::Mode::Inference),
            ..asked(sharding)
        });
        assert!(served.contains(&format!("`{sharding}` in inference")), "{served}");
    }
}

/// Random problems of all that modes know, with gradients or weights that replicas share out, and with experts, a table or unlike devices.
#[test]
fn modes_with_shares_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = match seed % 5 {
            0 => modal::random_modal_slow_inside(seed),
            _ => modal::random_modal(seed),
        };
        match seed % 4 {
            0 => modal::add_experts(&mut spec, seed),
            1 => modal::share_table(&mut spec, seed),
            _ => {}
        }
        if seed.is_multiple_of(3) {
            spec = modal::on_unlike_devices(spec, seed);
        }
        if seed.is_multiple_of(7) {
            spec.pipeline.uniform = Some(true);
        }
        modal::shard(&mut spec, seed);
        spec
    };
    hold_drawn(1_200, &PERIODS_AND_ITERATIONS, drawn, |seen, draws| {
        seen.compared * 3 > draws && seen.shared_out * 10 > seen.compared
    });
}
