//! Stages with modes whose devices share out micro-batches in groups: by hand, against brute force, and against groups without modes.

use std::time::Duration;

use crate::common::{draws, modal, seeds};
use crate::in_modes::found;
use crate::modal_chunks;
use crate::oracles::separate_modes::best_with;
use crate::separate_modes::{Compared, are_near, drawn_on, is_near, is_no_less};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::options::{
    Communication, Cuts, Degrees, Groups, MemoryLimit, Mode, Objective, Optimizer, OptimizerSharding,
    PipelineOptions, StatePrecision, Synchronization,
};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};

/// A small problem of two to five devices of one kind that may form groups, with anything in it that modes know.
fn drawn(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6409);
    let mut spec = drawn_on(seed, false);
    let is_separate = rng.random_bool(0.2);
    let devices = rng.random_range(2..=if is_separate { 4 } else { 5 });
    give_devices(&mut spec, devices);
    let pipeline = &mut spec.pipeline;
    pipeline.groups = Some(Groups::Assign);
    pipeline.stages = pipeline.stages.map(|stages| stages.min(devices));
    if !is_separate {
        pipeline.cuts = Some(Cuts::Tied);
        pipeline.stages = pipeline.stages.filter(|_| rng.random_bool(0.5));
    }
    // Replicas share out micro-batches of some numbers alone.
    if rng.random_bool(0.3) {
        pipeline.micro_batches = Some([3, 5][rng.random_range(0..2)]);
    }
    if rng.random_bool(0.15) {
        (pipeline.stages, pipeline.all_stages) = (Some(2), Some(true));
    } else if devices > 3 && rng.random_bool(0.5) {
        ask_for_two(&mut spec, &mut rng);
    }
    spec
}

/// Members that are each several devices, or replicas, where there are modes or tokens for them.
fn ask_for_two(spec: &mut InstanceSpec, rng: &mut ChaCha8Rng) {
    let two = Some(Degrees::one(2));
    let has_pairs = |layer: &LayerSpec| layer.modes.iter().any(|mode| mode.tensor == Some(2));
    let pipeline = &mut spec.pipeline;
    if pipeline.context_parallel.is_some() {
        pipeline.context_parallel = two;
    } else if spec.network.layers.iter().all(has_pairs) {
        pipeline.tensor = two;
    } else if rng.random_bool(0.5) {
        (pipeline.replicas, pipeline.micro_batches) = (two, Some(4));
    }
}

fn give_devices(spec: &mut InstanceSpec, devices: usize) {
    let cluster = spec.cluster.as_mut().expect("drawn problems have a cluster");
    cluster.device_kinds[0].count = Some(devices);
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    open: usize,
    separate: usize,
    /// Plans with a stage of several members; of these those with a stage of several replicas, tensor groups, or parts of sequences or experts too.
    grouped: usize,
    mixed: usize,
    /// Problems whose best plan is better than that without groups, some of which have none at all.
    better: usize,
}

impl Seen {
    fn look_at(&mut self, compared: &Compared) {
        let Compared {
            instance,
            settings,
            plan,
            best,
        } = compared;
        self.compared += 1;
        self.open += usize::from(compared.is_open());
        self.separate += usize::from(settings.cuts == Cuts::Separate);
        let mut modes = plan.stages.iter().filter_map(|stage| stage.mode.as_ref());
        self.grouped += usize::from(modes.clone().any(|mode| mode.group > 1));
        let is_mixed =
            modes.any(|mode| mode.group > 1 && mode.tensor * mode.context * mode.expert * mode.replicas > 1);
        self.mixed += usize::from(is_mixed);
        let alone = Settings {
            groups: Groups::Given,
            ..settings.clone()
        };
        let alone_ms = best_with(instance, &alone, settings.cuts).unwrap_or(f64::INFINITY);
        let best_ms = best.unwrap_or(f64::INFINITY);
        assert!(
            is_no_less(alone_ms, best_ms),
            "{alone_ms} without groups, {best_ms}"
        );
        self.better += usize::from(best.is_some() && !is_near(alone_ms, best_ms));
    }
}

fn problems_are_those_of_brute_force(objective: Objective, count: u64) {
    let mut seen = Seen::default();
    for seed in seeds(count) {
        if let Some(compared) = Compared::of((seed, &drawn(seed)), objective) {
            seen.look_at(&compared);
        }
    }
    println!("{objective}: {seen:?}");
    assert!(
        seen.compared * 2 > draws(count) as usize
            && seen.separate * 10 > seen.compared
            && seen.grouped * 5 > seen.compared
            && seen.mixed * 30 > seen.compared
            && seen.better * 5 > seen.compared
            && seen.open * 10 < seen.compared,
        "{seen:?}"
    );
}

#[test]
fn periods_are_those_of_brute_force() {
    problems_are_those_of_brute_force(Objective::Period, 1_500);
}

#[test]
fn iterations_are_those_of_brute_force() {
    problems_are_those_of_brute_force(Objective::Iteration, 1_500);
}

#[test]
fn formulas_are_those_of_brute_force() {
    problems_are_those_of_brute_force(Objective::Formula, 300);
}

/// Two chunks a device, all devices in groups of one size.
#[test]
fn chunks_are_those_of_brute_force() {
    const DRAWS: u64 = 300;
    let (mut seen, mut grouped) = (modal_chunks::Seen::default(), 0);
    for seed in seeds(DRAWS) {
        let mut spec = modal::random_modal(seed);
        match seed % 6 {
            1 => modal::shard(&mut spec, seed),
            2 => modal::add_context(&mut spec, seed),
            3 => modal::add_experts(&mut spec, seed),
            4 => modal::add_hosts(&mut spec, seed),
            _ => {}
        }
        if seed % 7 == 5 {
            spec.pipeline.communication = Some(Communication::Overlapped);
        }
        give_devices(&mut spec, 2 + seed as usize % 4);
        let Some(options) = modal_chunks::draw(&mut spec, seed) else {
            continue;
        };
        let options = PipelineOptions {
            groups: Some(Groups::Assign),
            virtual_stages: Some(Degrees::one(2)),
            ..options
        };
        let instance = Instance::from_spec(&spec).unwrap();
        let plan = modal_chunks::compare(seed, &instance, &options, &mut seen);
        let mut stages = plan.iter().flat_map(|plan| &plan.stages);
        grouped += usize::from(stages.any(|stage| stage.mode.as_ref().is_some_and(|mode| mode.group > 1)));
    }
    println!("{seen:?}, {grouped} in groups");
    let draws = draws(DRAWS) as usize;
    assert!(
        3 * seen.compared > draws && 10 * seen.proved > 7 * seen.compared && 10 * grouped > seen.compared,
        "{grouped}: {seen:?}"
    );
}

/// What `exact` makes of an instance.
fn solved(spec: &InstanceSpec) -> (Instance, Settings, Plan) {
    let instance = Instance::from_spec(spec).unwrap();
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
    let plan = found(&instance, &settings, Some(Duration::from_secs(10))).unwrap();
    (instance, settings, plan)
}

/// One layer of 4 + 8 ms and 2 MB that keeps 1 MB, or nothing in 4 + 12 ms, or half of all on two devices, which reduce 1 MB; links of 1 GB/s.
const ONE_LAYER: &str = r#"{"network": {"layers": [{"id": "block", "modes": [
    {"forward_ms": 4, "backward_ms": 8, "parameter_bytes": 2e6, "stash_bytes": 1e6},
    {"recompute": "full", "forward_ms": 4, "backward_ms": 12, "parameter_bytes": 2e6},
    {"tensor": 2, "forward_ms": 2, "backward_ms": 4, "parameter_bytes": 1e6, "stash_bytes": 5e5,
        "collective_bytes": 1e6}]}]},
    "cluster": {"device_kinds": [{"name": "gpu"}], "link": {"bandwidth_bytes_per_s": 1e9}},
    "pipeline": {"groups": "assign", "micro_batches": 8, "objective": "period", "optimizer": "sgd", "precision": "uniform"}}"#;

/// The same layer, and one of 2 + 4 ms without parameters that reads 1 MB of it, in two stages on three devices.
const TWO_LAYERS: &str = r#"{"network": {"layers": [
        {"id": "block", "forward_ms": 4, "backward_ms": 8, "parameter_bytes": 2e6, "stash_bytes": 1e6},
        {"id": "head", "forward_ms": 2, "backward_ms": 4}],
    "tensors": [{"producer": "block", "consumers": ["head"], "bytes": 1e6}]},
    "cluster": {"device_kinds": [{"name": "gpu", "count": 3}], "link": {"bandwidth_bytes_per_s": 1e9}},
    "pipeline": {"groups": "assign", "micro_batches": 8, "recompute": "choose", "stages": 2, "all_stages": true,
        "optimizer": "sgd", "precision": "uniform"}}"#;

/// The layer on so many devices, with other options.
fn one_layer(devices: usize, options: PipelineOptions) -> InstanceSpec {
    let mut spec: InstanceSpec = serde_json::from_str(ONE_LAYER).unwrap();
    give_devices(&mut spec, devices);
    spec.pipeline = PipelineOptions {
        groups: spec.pipeline.groups,
        micro_batches: options.micro_batches.or(spec.pipeline.micro_batches),
        objective: options.objective.or(spec.pipeline.objective),
        optimizer: options.optimizer.or(spec.pipeline.optimizer),
        precision: spec.pipeline.precision,
        ..options
    };
    spec
}

/// A group's work of 12 ms is shared out; its members send each other 2 (m - 1) messages of an m-th of 2 MB once in eight micro-batches: 2 ms among two, 8/3 ms among three,
/// 3 ms among four.
fn counted_times() -> Vec<(InstanceSpec, Option<f64>)> {
    let recompute = |objective: Objective| PipelineOptions {
        recompute: Some("choose".parse().unwrap()),
        objective: Some(objective),
        ..PipelineOptions::default()
    };
    let tensor = |degrees: &str, objective: Objective| PipelineOptions {
        tensor: Some(degrees.parse().unwrap()),
        objective: Some(objective),
        ..PipelineOptions::default()
    };
    let (period, iteration) = (Objective::Period, Objective::Iteration);
    let odd = PipelineOptions {
        replicas: Some(Degrees::Choose),
        micro_batches: Some(3),
        ..recompute(iteration)
    };
    let of_three = 12.0 / 3.0;
    vec![
        (one_layer(1, recompute(period)), Some(12.0)),
        (one_layer(2, recompute(period)), Some(6.0 + 2.0 / 8.0)),
        (one_layer(3, recompute(period)), Some(of_three + 8.0 / 3.0 / 8.0)),
        (one_layer(2, recompute(iteration)), Some(8.0 * 6.0 + 2.0)),
        // Of 4/3 and 8/3 ms each is rounded, and the ring is, up.
        (
            one_layer(3, recompute(iteration)),
            Some(8.0 * of_three + 2.666_667),
        ),
        // Two replicas do not share out three micro-batches evenly.
        (one_layer(2, odd), Some(3.0 * 6.0 + 2.0)),
        // A tensor group takes 6 ms and reduces for 1 ms: groups of two and three devices are faster.
        (one_layer(2, tensor("choose", period)), Some(6.0 + 2.0 / 8.0)),
        (
            one_layer(3, tensor("choose", period)),
            Some(of_three + 8.0 / 3.0 / 8.0),
        ),
        // Two members, each a tensor group: half of 6 ms and of 1 ms; each device exchanges 1 MB with that of the other member.
        (one_layer(4, tensor("2", period)), Some(3.0 + 0.5 + 1.0 / 8.0)),
        (one_layer(4, tensor("2", iteration)), Some(8.0 * 3.5 + 1.0)),
        // The third device is left over.
        (one_layer(3, tensor("2", period)), Some(7.0)),
        (one_layer(4, tensor("choose", period)), Some(3.0 + 3.0 / 8.0)),
    ]
}

/// Each member has room for a whole micro-batch: 2 MB of weights, as much of gradients, and what it keeps of 1 MB. Else it computes 4 ms again. States of 2 MB
/// are shared out.
fn counted_memory() -> Vec<(InstanceSpec, Option<f64>)> {
    let limited = |devices: usize, bytes: u64| {
        let options = PipelineOptions {
            recompute: Some("choose".parse().unwrap()),
            memory_limit: Some(MemoryLimit::Bytes(bytes)),
            ..PipelineOptions::default()
        };
        one_layer(devices, options)
    };
    let sharded = |bytes: u64| {
        let mut spec = limited(3, bytes);
        spec.pipeline.optimizer = Some(Optimizer::Momentum);
        spec.pipeline.optimizer_sharding = Some(OptimizerSharding::Zero1);
        spec
    };
    let ring_of_three = 8.0 / 3.0 / 8.0;
    vec![
        (limited(2, 5_000_000), Some(6.25)),
        (limited(2, 4_999_999), Some(8.25)),
        (limited(2, 3_999_999), None),
        (limited(3, 5_000_000), Some(12.0 / 3.0 + ring_of_three)),
        (limited(3, 4_999_999), Some(16.0 / 3.0 + ring_of_three)),
        (sharded(5_666_667), Some(12.0 / 3.0 + ring_of_three)),
        (sharded(5_666_666), Some(16.0 / 3.0 + ring_of_three)),
        (sharded(4_666_666), None),
    ]
}

/// The larger layer runs on two devices: 6 ms, the ring, and 1 MB that leaves and comes back as its gradient, which are not shared out. On links beside the work they take less.
fn counted_stages() -> Vec<(InstanceSpec, Option<f64>)> {
    let mut spec: InstanceSpec = serde_json::from_str(TWO_LAYERS).unwrap();
    let period = PipelineOptions {
        objective: Some(Objective::Period),
        ..spec.pipeline.clone()
    };
    let overlapped = PipelineOptions {
        communication: Some(Communication::Overlapped),
        ..period.clone()
    };
    let mut with = |options: &PipelineOptions| {
        spec.pipeline = options.clone();
        spec.clone()
    };
    vec![
        (with(&period), Some(6.0 + 2.0 + 2.0 / 8.0)),
        (with(&overlapped), Some(6.0 + 2.0 / 8.0)),
    ]
}

fn counted_by_hand() -> Vec<(InstanceSpec, Option<f64>)> {
    [counted_times(), counted_memory(), counted_stages()].concat()
}

#[test]
fn brute_force_finds_what_is_counted_by_hand() {
    for (spec, ms) in counted_by_hand() {
        let instance = Instance::from_spec(&spec).unwrap();
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
        let best = best_with(&instance, &settings, Cuts::Tied);
        assert!(are_near(best, ms), "{best:?}, not {ms:?}: {:?}", spec.pipeline);
    }
}

#[test]
fn plans_are_what_is_counted_by_hand() {
    for (spec, ms) in counted_by_hand() {
        let (.., plan) = solved(&spec);
        let told = || format!("{ms:?}: {:?}\n{plan:#?}", spec.pipeline);
        assert!(are_near(plan.objective_ms, ms), "not {}", told());
        assert!(
            matches!(plan.status, Status::Optimal | Status::Infeasible),
            "{}",
            told()
        );
    }
}

/// A chain of layers on devices of one kind that form groups, with nothing else to choose.
fn plain_chain(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x91a1);
    let layers = rng.random_range(1..=4);
    // Beside work gradients are exchanged without modes, and behind it with them.
    let communication = rng.random_bool(0.3).then_some(Communication::Overlapped);
    let most = if communication.is_none() { 40 } else { 1 };
    let layer = |at: usize, rng: &mut ChaCha8Rng| LayerSpec {
        id: format!("l{at}"),
        forward_ms: Some(f64::from(rng.random_range(1..6_000)) / 1e3),
        backward_ms: Some(f64::from(rng.random_range(1..9_000)) / 1e3),
        parameter_bytes: 1e5 * f64::from(rng.random_range(0..most)),
        ..LayerSpec::default()
    };
    let tensor = |at: usize, rng: &mut ChaCha8Rng| TensorSpec {
        producer: format!("l{at}"),
        consumers: vec![format!("l{}", at + 1)],
        bytes: Some(1e5 * f64::from(rng.random_range(0..20))),
        ..TensorSpec::default()
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: (0..layers).map(|at| layer(at, &mut rng)).collect(),
            tensors: (0..layers - 1).map(|at| tensor(at, &mut rng)).collect(),
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "gpu".into(),
                count: Some(rng.random_range(2..=5)),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: 1e9,
                latency_ms: [0.0, 0.01, 0.5][rng.random_range(0..3)],
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        pipeline: PipelineOptions {
            mode: Some(Mode::Training),
            objective: Some(Objective::Period),
            groups: Some(Groups::Assign),
            synchronization: Some(Synchronization::Ring),
            micro_batches: Some([1, 3, 8, 64][rng.random_range(0..4)]),
            communication,
            all_stages: rng.random_bool(0.3).then_some(true),
            stages: Some(rng.random_range(1..=layers.min(2))),
            precision: Some(StatePrecision::Uniform),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    }
}

/// A group costs the same where stages have no modes, and where they have them but nothing to choose: but for rounding, of the times of every layer in modes, and of those of a
/// stage and of every message of a ring without.
#[test]
fn groups_without_modes_are_the_same_groups() {
    let (mut compared, mut grouped) = (0, 0);
    for seed in seeds(300) {
        let spec = plain_chain(seed);
        let (instance, settings, plan) = solved(&spec);
        assert!(!settings.modal);
        let mut in_modes = spec.clone();
        in_modes.pipeline.recompute = Some("choose".parse().unwrap());
        let (_, of_modes, modal_plan) = solved(&in_modes);
        assert!(of_modes.modal);
        let best = best_with(&instance, &settings, Cuts::Tied);
        let told = || format!("seed {seed}: best {best:?}\n{plan:#?}\n{modal_plan:#?}");
        let messages = 2
            * (plan
                .stages
                .iter()
                .map(|stage| stage.devices.len())
                .max()
                .unwrap_or(1)
                - 1);
        let ns = 1e-6 * (spec.network.layers.len() + 1 + messages) as f64;
        let is_same = |one: Option<f64>, other: Option<f64>| (one.unwrap() - other.unwrap()).abs() <= ns;
        assert!(
            is_same(plan.objective_ms, best) && is_same(modal_plan.objective_ms, best),
            "{}",
            told()
        );
        assert!(
            [&plan, &modal_plan]
                .iter()
                .all(|plan| plan.status == Status::Optimal),
            "{}",
            told()
        );
        compared += 1;
        grouped += usize::from(plan.stages.iter().any(|stage| stage.devices.len() > 1));
    }
    println!("{compared} compared, {grouped} in groups");
    assert!(grouped * 2 > compared, "{grouped} of {compared}");
}
