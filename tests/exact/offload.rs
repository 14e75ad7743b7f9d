//! What layers keep at hosts: by hand, and against brute force with whatever modes know.

use crate::common::modal;
use crate::in_modes::{self, PERIODS_AND_ITERATIONS, chain_on_devices, hold_drawn, solved_by};
use stagecut::check;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{MemoryLimit, Objective, PipelineOptions, Region};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec};

/// Two blocks of 4 + 8 ms that each keep 60 MB, on a device that copies 20 GB/s: 3 ms there and 3 ms back.
fn blocks(host_memory_bytes: Option<f64>) -> InstanceSpec {
    let block = |id: &str| LayerSpec {
        id: id.into(),
        forward_ms: Some(4.0),
        backward_ms: Some(8.0),
        stash_bytes: 6e7,
        ..LayerSpec::default()
    };
    let mut spec = chain_on_devices(2, vec![block("one"), block("two")], None);
    let kind = &mut spec.cluster.as_mut().unwrap().device_kinds[0];
    (kind.host_bytes_per_s, kind.host_memory_bytes) = (Some(2e10), host_memory_bytes);
    spec
}

fn asked(stages: usize, megabytes: u64, recompute: &str) -> PipelineOptions {
    PipelineOptions {
        stages: Some(stages),
        recompute: Some(recompute.parse().unwrap()),
        objective: Some(Objective::Period),
        memory_limit: Some(MemoryLimit::Bytes(megabytes * 1_000_000)),
        ..PipelineOptions::default()
    }
}

fn settings(spec: &InstanceSpec, options: &PipelineOptions) -> (Instance, Result<Settings, String>) {
    let instance = Instance::from_spec(spec).unwrap();
    let settings = Settings::resolve(&instance, options).map_err(|error| error.to_string());
    (instance, settings)
}

fn solved(spec: &InstanceSpec, options: &PipelineOptions) -> Plan {
    let instance = Instance::from_spec(spec).unwrap();
    let methods = [exact::Method::Exact, exact::Method::Milp].map(Method::Exact);
    let [searched, programmed] = methods.map(|method| solved_by(method, &instance, options));
    let found = |plan: &Plan| (plan.status, plan.objective_ms.map(|ms| (ms * 1e6).round()));
    assert_eq!(found(&searched), found(&programmed), "{programmed:#?}");
    searched
}

#[test]
fn the_example_of_the_page() {
    // Both keep what they have; one lies at the host, with room for it while it runs; both do; a single one does not fit.
    let rows = [
        (1, 120, Some((24.0, 120, 0))),
        (1, 119, Some((36.0, 60, 120))),
        (1, 60, Some((36.0, 60, 120))),
        (1, 59, None),
        // Two micro-batches of the first stage are in flight.
        (2, 120, Some((12.0, 120, 0))),
        (2, 119, Some((18.0, 60, 120))),
    ];
    for (stages, megabytes, expected) in rows {
        let plan = solved(&blocks(None), &asked(stages, megabytes, "none,offload"));
        let found = plan.objective_ms.map(|ms| {
            let stage = &plan.stages[0];
            let mode = stage.mode.as_ref().unwrap();
            (ms, stage.memory_bytes / 1_000_000, mode.host_bytes / 1_000_000)
        });
        assert_eq!(found, expected, "{stages} stages of {megabytes} MB: {plan:#?}");
    }
    // The host has room for one micro-batch of one of them.
    let plan = solved(&blocks(Some(6e7)), &asked(1, 119, "none,offload"));
    assert_eq!(plan.status, Status::Infeasible, "{plan:#?}");
    let plan = solved(&blocks(Some(6e7)), &asked(1, 120, "offload"));
    assert_eq!(plan.status, Status::Infeasible, "{plan:#?}");
    let plan = solved(&blocks(Some(1.2e8)), &asked(2, 119, "none,offload"));
    assert_eq!(plan.objective_ms, Some(18.0), "{plan:#?}");
}

/// Two blocks of 4 + 8 ms and 20 MB of weights each: 160 MB with gradients and two states of Adam, of which the states take 4 ms there and 4 ms back.
fn trained(host_memory_bytes: Option<f64>) -> InstanceSpec {
    let mut spec = blocks(host_memory_bytes);
    for layer in &mut spec.network.layers {
        (layer.parameter_bytes, layer.stash_bytes) = (20e6, 0.0);
    }
    spec
}

#[test]
fn states_of_the_optimiser_lie_at_hosts_stage_by_stage() {
    let asked = |megabytes: u64, objective: Objective, offload: &str| PipelineOptions {
        objective: Some(objective),
        micro_batches: Some(8),
        optimizer_offload: Some(serde_json::from_value(offload.into()).unwrap()),
        memory_limit: Some(MemoryLimit::Bytes(megabytes * 1_000_000)),
        ..asked(2, 60, "none")
    };
    let found = |spec: &InstanceSpec, options: &PipelineOptions| {
        let plan = in_modes::solved(spec, options);
        let of_stage = |stage: &stagecut::plan::PlanStage| {
            let mode = stage.mode.as_ref().unwrap();
            (stage.memory_bytes / 1_000_000, mode.host_bytes / 1_000_000)
        };
        (
            plan.objective_ms,
            plan.stages.iter().map(of_stage).collect::<Vec<_>>(),
        )
    };
    use Objective::{Iteration, Period};
    // A stage of one block each; with half the memory their states go there and back once in eight micro-batches of 12 ms.
    assert_eq!(
        found(&trained(None), &asked(80, Period, "choose")),
        (Some(12.0), vec![(80, 0); 2])
    );
    assert_eq!(
        found(&trained(None), &asked(80, Period, "all")),
        (Some(13.0 - 0.5), vec![(40, 40); 2])
    );
    assert_eq!(
        found(&trained(None), &asked(40, Period, "choose")),
        (Some(12.5), vec![(40, 40); 2])
    );
    // Eight micro-batches of 12 ms and the way of the first, and the copies of whoever is last.
    assert_eq!(
        found(&trained(None), &asked(40, Iteration, "all")),
        (Some(8.0 * 12.0 + 12.0 + 4.0), vec![(40, 40); 2])
    );
    // The host of a device has less than its states.
    assert_eq!(
        found(&trained(Some(4e7)), &asked(40, Period, "choose")).0,
        Some(12.5)
    );
    assert_eq!(found(&trained(Some(3.9e7)), &asked(40, Period, "choose")).0, None);
}

#[test]
fn states_that_lie_nowhere_are_refused_by_name() {
    let told = |spec: &InstanceSpec, options: &PipelineOptions| settings(spec, options).1.unwrap_err();
    let all = PipelineOptions {
        optimizer_offload: Some(stagecut::options::OptimizerOffload::All),
        micro_batches: Some(8),
        ..asked(2, 60, "none")
    };
    let mut without = trained(None);
    without.cluster.as_mut().unwrap().device_kinds[0].host_bytes_per_s = None;
    assert!(told(&without, &all).contains("devices without hosts"));
    let of = |change: &dyn Fn(&mut PipelineOptions)| {
        let mut options = all.clone();
        change(&mut options);
        told(&trained(None), &options)
    };
    let sgd = of(&|options| options.optimizer = Some(stagecut::options::Optimizer::Sgd));
    assert!(
        sgd.contains("keeps nothing beside weights and gradients"),
        "{sgd}"
    );
    let inference = of(&|options| options.mode = Some(stagecut::options::Mode::Inference));
    assert!(inference.contains("inference"), "{inference}");
    let megatron = of(&|options| options.target = Some(Region::Megatron));
    assert!(megatron.contains("is not counted"), "{megatron}");
    let unsaid = of(&|options| options.micro_batches = None);
    assert!(unsaid.contains("which is copied once in so many"), "{unsaid}");
}

#[test]
fn what_a_plan_says_of_hosts_is_checked() {
    let spec = blocks(Some(1.2e8));
    let options = asked(1, 119, "none,offload");
    let plan = solved(&spec, &options);
    let (instance, settings) = settings(&spec, &options);
    let mut settings = settings.unwrap();
    let mut other = plan.clone();
    other.stages[0].mode.as_mut().unwrap().host_bytes -= 1;
    assert!(!check::check(&instance, &settings, &other).is_empty());
    let tight = blocks(Some(1.2e8 - 1.0));
    let tight = Instance::from_spec(&tight).unwrap();
    let found = check::check(&tight, &settings, &plan);
    assert_eq!(found.len(), 1, "{found:?}");
    settings.target = Some(Region::Megatron);
    assert!(!check::check(&instance, &settings, &plan).is_empty());
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let told = |spec: &InstanceSpec, options: &PipelineOptions| settings(spec, options).1.unwrap_err();
    let mut without = blocks(None);
    without.cluster.as_mut().unwrap().device_kinds[0].host_bytes_per_s = None;
    let found = told(&without, &asked(1, 60, "offload"));
    assert!(found.contains("device kinds with `host_bytes_per_s`"), "{found}");
    let megatron = PipelineOptions {
        target: Some(Region::Megatron),
        ..asked(1, 60, "none,offload")
    };
    let found = told(&blocks(None), &megatron);
    assert!(found.contains("`megatron` is not told of"), "{found}");
    let mut limited = blocks(Some(1e9));
    limited.cluster.as_mut().unwrap().device_kinds[0].host_bytes_per_s = None;
    let found = Instance::from_spec(&limited).unwrap_err().to_string();
    assert!(found.contains("host_bytes_per_s"), "{found}");
    for rate in [0.0, -1.0, f64::NAN, 1e-300] {
        let mut spec = blocks(None);
        spec.cluster.as_mut().unwrap().device_kinds[0].host_bytes_per_s = Some(rate);
        assert!(Instance::from_spec(&spec).is_err(), "{rate}");
    }
}

/// Random problems of all that modes know, on devices with hosts, and with experts, sequences or weights that devices share out, a table, or unlike devices.
#[test]
fn modes_with_hosts_are_those_of_brute_force() {
    let drawn = |seed: u64| {
        let mut spec = modal::random_modal_links(seed);
        if seed.is_multiple_of(3) {
            spec = modal::on_unlike_devices(spec, seed);
        }
        match seed % 5 {
            0 => modal::share_table(&mut spec, seed),
            1 => modal::add_experts(&mut spec, seed),
            2 => modal::add_context(&mut spec, seed),
            3 => modal::shard(&mut spec, seed),
            _ => {}
        }
        let recompute = spec.pipeline.recompute.clone();
        modal::add_hosts(&mut spec, seed);
        if seed.is_multiple_of(2) {
            modal::offload_states(&mut spec, seed);
        }
        // States alone, as often as both.
        if seed.is_multiple_of(4) {
            spec.pipeline.recompute = recompute;
        }
        spec
    };
    hold_drawn(1_200, &PERIODS_AND_ITERATIONS, drawn, |seen, draws| {
        seen.compared * 4 > draws && seen.hosts * 10 > seen.compared
    });
}
