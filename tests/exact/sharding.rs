//! Gradients and weights that replicas share out: by hand, and against brute force with whatever modes know.

use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{
    MemoryLimit, Objective, Optimizer, OptimizerSharding, PipelineOptions, StatePrecision,
};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, NodesSpec, TensorSpec,
};

use crate::copies::{Seen, hold, most_open};

/// Two layers of 4 + 8 ms and 100 MB, and four devices with links of 10 GB/s.
fn two() -> InstanceSpec {
    let layer = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        parameter_bytes: 1e8,
        ..LayerSpec::default()
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: vec![layer("first"), layer("second")],
            tensors: vec![TensorSpec {
                producer: "first".into(),
                consumers: vec!["second".into()],
                bytes: Some(0.0),
                ..TensorSpec::default()
            }],
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                count: Some(4),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: 1e10,
                latency_ms: 0.0,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        ..InstanceSpec::default()
    }
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

fn solved(spec: &InstanceSpec, options: &PipelineOptions) -> Plan {
    let instance = Instance::from_spec(spec).unwrap();
    let settings = Settings::resolve(&instance, options).unwrap();
    let problem = Problem::new(&instance, settings).unwrap();
    let exact = Method::Exact(exact::Method::Exact);
    let plan = exact.run(&instance, &problem, &Control::default()).unwrap();
    let violations = check::check(&instance, &problem.settings, &plan);
    assert!(violations.is_empty(), "{violations:?}\n{plan:#?}");
    plan
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
    let seeds: u64 = std::env::var("SHARDING_PROBLEMS").map_or(1_200, |text| text.parse().unwrap());
    for objective in [Objective::Period, Objective::Iteration] {
        let mut seen = Seen::default();
        for seed in 0..seeds {
            let mut spec = match seed % 5 {
                0 => crate::common::modal::random_modal_slow_inside(seed),
                _ => crate::common::modal::random_modal(seed),
            };
            match seed % 4 {
                0 => crate::common::modal::add_experts(&mut spec, seed),
                1 => crate::common::modal::share_table(&mut spec, seed),
                _ => {}
            }
            if seed.is_multiple_of(3) {
                spec = crate::common::modal::on_unlike_devices(spec, seed);
            }
            if seed.is_multiple_of(7) {
                spec.pipeline.uniform = Some(true);
            }
            crate::common::modal::shard(&mut spec, seed);
            hold((seed, &spec), objective, &mut seen);
        }
        println!("{objective}: {seen:?}");
        assert!(
            seen.compared * 3 > seeds as usize && seen.shared_out * 10 > seen.compared,
            "{seen:?}"
        );
        assert!(seen.open * most_open(objective) < seen.compared, "{seen:?}");
    }
}
