//! Iterations of devices that hold several chunks in modes, against brute force: every plan run operation by operation.

use std::collections::BTreeSet;

use crate::common::{draws, seeds};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::options::{
    Communication, DeviceOrder, MemoryLimit, Objective, PipelineOptions, Region, Schedule,
};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::schedule::rules::Shape;
use stagecut::schedule::{Moves, Placement, chunks_that_run, run};
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, TensorSpec};
use stagecut::switches::Switches;

use crate::oracles::modal_chunks::best_ns;

/// Draws of which two in three are compared.
const DRAWS: u64 = 1_600;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) compared: usize,
    without_plan: usize,
    pub(super) proved: usize,
    /// Not proved, where all plans may be looked at and where not.
    open: [usize; 2],
    replicated: usize,
    pub(super) chunked: usize,
    again: usize,
}

/// Small problems of all that modes know, in numbers of chunks that are given and that are to be chosen.
#[test]
fn iterations_are_those_of_brute_force() {
    let mut seen = Seen::default();
    for seed in seeds(DRAWS) {
        let mut spec = crate::common::modal::random_modal(seed);
        match seed % 10 {
            1 => crate::common::modal::shard(&mut spec, seed),
            7 => crate::common::modal::add_context(&mut spec, seed),
            8 => {
                crate::common::modal::add_context(&mut spec, seed);
                crate::common::modal::add_experts(&mut spec, seed);
            }
            9 => {
                crate::common::modal::add_context(&mut spec, seed);
                crate::common::modal::shard(&mut spec, seed);
            }
            3 | 6 => crate::common::modal::add_experts(&mut spec, seed),
            4 => crate::common::modal::add_hosts(&mut spec, seed),
            5 => {
                crate::common::modal::add_hosts(&mut spec, seed);
                crate::common::modal::offload_states(&mut spec, seed);
            }
            _ => {}
        }
        if seed % 7 == 5 {
            spec.pipeline.communication = Some(Communication::Overlapped);
        }
        let Some(options) = draw(&mut spec, seed) else {
            continue;
        };
        let instance = Instance::from_spec(&spec).unwrap();
        compare(seed, &instance, &options, &mut seen);
    }
    println!("{seen:?}");
    let Seen {
        compared,
        without_plan,
        proved,
        replicated,
        chunked,
        again,
        ..
    } = seen;
    let draws = draws(DRAWS) as usize;
    assert!(2 * compared > draws && 20 * without_plan > compared, "{seen:?}");
    assert!(10 * proved > 7 * compared && 4 * chunked > compared, "{seen:?}");
    assert!(10 * replicated > compared && 10 * again > compared, "{seen:?}");
}

/// Two chunks a device in a V, most with gradients of weights that are run apart.
#[test]
fn a_v_is_that_of_brute_force() {
    let mut seen = Seen::default();
    for seed in seeds(DRAWS / 2) {
        let mut spec = crate::common::modal::random_modal(seed);
        let Some(options) = draw(&mut spec, seed) else {
            continue;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let layers = spec.network.layers.iter_mut().filter(|layer| !layer.backward);
        for mode in layers.flat_map(|layer| &mut layer.modes) {
            mode.weight_ms = mode
                .backward_ms
                .filter(|_| rng.random_bool(0.7))
                .map(|ms| (ms * rng.random_range(0.0..1.0)).floor());
        }
        let schedules = [Schedule::ZbV, Schedule::VHalf, Schedule::VMin, Schedule::Gpipe];
        spec.pipeline.schedule = Some(schedules[rng.random_range(0..4)]);
        spec.pipeline.placement = Some(Placement::V);
        let options = PipelineOptions {
            virtual_stages: Some(["2", "1,2", "choose"][seed as usize % 3].parse().unwrap()),
            ..options
        };
        let instance = Instance::from_spec(&spec).unwrap();
        compare(seed, &instance, &options, &mut seen);
    }
    println!("{seen:?}");
    let draws = draws(DRAWS / 2) as usize;
    assert!(
        3 * seen.compared > draws && 6 * seen.chunked > seen.compared && 10 * seen.proved > 7 * seen.compared,
        "{seen:?}"
    );
}

/// Devices of several kinds, which lie in a row in every order that there is, or as they are listed; with degrees to choose from, and without.
#[test]
fn unlike_devices_are_those_of_brute_force() {
    let (mut seen, mut mixed) = (Seen::default(), 0);
    for seed in seeds(DRAWS / 2) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut spec = match seed % 4 {
            0 => crate::common::modal::random_modal_slow_inside(seed),
            _ => crate::common::modal::random_modal(seed),
        };
        if seed % 3 == 1 {
            crate::common::modal::add_experts(&mut spec, seed);
        }
        let Some(mut options) = draw(&mut spec, seed) else {
            continue;
        };
        if rng.random_bool(0.3) {
            spec.pipeline.schedule = Some(Schedule::ZbV);
            spec.pipeline.placement = Some(Placement::V);
            options.virtual_stages = Some("2".parse().unwrap());
        }
        if rng.random_bool(0.3) {
            (
                spec.pipeline.tensor,
                spec.pipeline.replicas,
                spec.pipeline.recompute,
            ) = (None, None, None);
            options.uniform = None;
        }
        options.device_order = rng.random_bool(0.3).then_some(DeviceOrder::Given);
        let spec = crate::common::modal::on_unlike_devices(spec, seed);
        // Some layer may run nowhere.
        let Ok(instance) = Instance::from_spec(&spec) else {
            continue;
        };
        let devices = instance
            .cluster
            .kinds
            .iter()
            .filter_map(|kind| kind.count)
            .sum::<usize>();
        if devices + instance.network.layers.len() > 7 {
            continue;
        }
        let plan = compare(seed, &instance, &options, &mut seen);
        let devices = plan
            .iter()
            .flat_map(|plan| &plan.stages)
            .flat_map(|stage| &stage.devices);
        let kinds: BTreeSet<&str> = devices.map(|device| &device[..5]).collect();
        if kinds.len() > 1 {
            refuses_a_chunk_on_another_kind(&instance, plan.as_ref().expect("a plan"));
        }
        mixed += usize::from(kinds.len() > 1 && plan.is_some_and(|plan| plan.virtual_stages().is_some()));
    }
    println!("{seen:?}, {mixed} on several kinds");
    let draws = draws(DRAWS / 2) as usize;
    assert!(
        4 * seen.compared > draws && 10 * seen.proved > 7 * seen.compared,
        "{seen:?}"
    );
    assert!(10 * mixed > seen.compared, "{mixed}: {seen:?}");
}

/// A chunk whose device is of another kind than the one that holds its place in the row.
fn refuses_a_chunk_on_another_kind(instance: &Instance, plan: &Plan) {
    let Some(chunks) = plan.virtual_stages() else {
        return;
    };
    let mut wrong = plan.clone();
    let last = plan.stages.len() - 1;
    let kind = |stage: usize| plan.stages[stage].devices[0].split(':').next();
    let other = (0..plan.stages.len()).find(|&stage| kind(stage) != kind(last));
    wrong.stages[last]
        .devices
        .clone_from(&plan.stages[other.expect("several kinds")].devices);
    let settings = Settings::resolve(instance, &plan.problem).expect("options of a plan");
    assert!(
        !check::check(instance, &settings, &wrong).is_empty(),
        "{chunks} chunks: {wrong:?}"
    );
}

/// Equal blocks for Megatron, which runs no empty chunk and is told once for all what to compute again: every plan is exported.
#[test]
fn plans_for_megatron_are_those_of_brute_force_and_exported() {
    let megatron = stagecut::export::find("megatron").unwrap();
    let mut seen = Seen::default();
    const DRAWS: u64 = 150;
    for seed in seeds(DRAWS) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let instance = Instance::from_spec(&super::modal_iteration::blocks(&mut rng)).unwrap();
        let options = PipelineOptions {
            objective: Some(Objective::Iteration),
            target: Some(Region::Megatron),
            virtual_stages: Some(["2", "1,2", "choose"][seed as usize % 3].parse().unwrap()),
            ..PipelineOptions::default()
        };
        let plan = compare(seed, &instance, &options, &mut seen);
        if let Some(plan) = plan.filter(|plan| !plan.stages.is_empty()) {
            (megatron.write)(&instance, &plan).unwrap_or_else(|fault| panic!("{fault:?} {plan:#?}"));
        }
    }
    println!("{seen:?}");
    // Of these everything is proved, and nearly everything by bounds and searches.
    let draws = draws(DRAWS) as usize;
    assert!(
        3 * seen.compared > 2 * draws && seen.open[0] == 0 && 50 * seen.open[1] < draws,
        "{seen:?}"
    );
    assert!(7 * seen.chunked > draws && 7 * seen.again > draws, "{seen:?}");
}

/// Blocks that differ, as the first ones of a network of experts do, on devices of little memory: which blocks each chunk can compute again is told chunk by chunk, and what
/// devices have room for beside them.
#[test]
fn unlike_blocks_for_megatron_are_those_of_brute_force() {
    let (mut seen, mut tight, mut partly) = (Seen::default(), 0, 0);
    const DRAWS: u64 = 400;
    for seed in seeds(DRAWS) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut spec = super::modal_iteration::blocks(&mut rng);
        let count = rng.random_range(4..=5);
        for at in spec.network.layers.len()..count {
            let layer = spec.network.layers[0].clone();
            spec.network.layers.push(LayerSpec {
                id: format!("b{at}"),
                ..layer
            });
            let tensor = spec.network.tensors[0].clone();
            spec.network.tensors.push(TensorSpec {
                producer: format!("b{}", at - 1),
                consumers: vec![format!("b{at}")],
                ..tensor
            });
        }
        let unlike = rng.random_range(1..count);
        let [time, bytes] = [0, 1].map(|_| f64::from(rng.random_range(1..=4)));
        let (first, last) = spec.network.layers.split_at_mut(unlike);
        let longer = if rng.random_bool(0.5) { first } else { last };
        for mode in longer.iter_mut().flat_map(|layer| &mut layer.modes) {
            for ms in [&mut mode.forward_ms, &mut mode.backward_ms] {
                *ms = ms.map(|ms| ms * time);
            }
            mode.stash_bytes *= bytes;
        }
        (spec.pipeline.tensor, spec.pipeline.replicas) = (None, None);
        let kind = &mut spec.cluster.as_mut().unwrap().device_kinds[0];
        kind.count = Some(2);
        kind.memory_bytes = Some(1e6 * f64::from(rng.random_range(8..=50)));
        let options = PipelineOptions {
            objective: Some(Objective::Iteration),
            target: Some(Region::Megatron),
            virtual_stages: Some(["2", "1,2", "choose"][seed as usize % 3].parse().unwrap()),
            ..PipelineOptions::default()
        };
        let plan = compare(seed, &Instance::from_spec(&spec).unwrap(), &options, &mut seen);
        let Some(plan) = plan.filter(|plan| plan.virtual_stages().is_some()) else {
            continue;
        };
        partly += usize::from(plan.stages.iter().any(|stage| {
            let again = stage.mode.iter().flat_map(|mode| mode.recomputed.values());
            let again: usize = again.map(Vec::len).sum();
            again > 0 && again < stage.forward.len()
        }));
        spec.cluster.as_mut().unwrap().device_kinds[0].memory_bytes = Some(1e12);
        let instance = Instance::from_spec(&spec).unwrap();
        let problem = Problem::new(&instance, Settings::resolve(&instance, &options).unwrap()).unwrap();
        let free = Method::Exact(exact::Method::Exact).run(&instance, &problem, &Control::default());
        tight += usize::from(free.unwrap().objective_ms < plan.objective_ms);
    }
    println!("{seen:?}, {tight} where memory matters, {partly} with blocks of either kind in a chunk");
    let draws = draws(DRAWS) as usize;
    assert!(
        3 * seen.compared > 2 * draws && seen.open[0] == 0 && 50 * seen.open[1] < draws,
        "{seen:?}"
    );
    assert!(
        20 * tight > seen.compared && 200 * partly > seen.compared,
        "{tight} {partly} {seen:?}"
    );
}

/// Chunks of a problem that has stages in modes; `None` where it would be too large to look at all plans.
pub(super) fn draw(spec: &mut InstanceSpec, seed: u64) -> Option<PipelineOptions> {
    let layers = spec.network.layers.iter().filter(|layer| !layer.backward).count();
    let numbers = ["2", "1,2", "choose", "3", "2,3"];
    let devices = spec.cluster.as_ref()?.device_kinds[0].count?;
    if layers == 4 && devices > 3 {
        return None;
    }
    spec.pipeline.schedule = spec
        .pipeline
        .schedule
        .filter(|&schedule| schedule == Schedule::Gpipe);
    // A device holds several chunks.
    let limit = spec.pipeline.memory_limit.and_then(MemoryLimit::bytes);
    spec.pipeline.memory_limit = limit.map(|bytes| MemoryLimit::Bytes(bytes + 15_000_000));
    Some(PipelineOptions {
        objective: Some(match seed % 8 {
            3 => Objective::Latency,
            _ => Objective::Iteration,
        }),
        uniform: Some(true),
        virtual_stages: Some(numbers[seed as usize % 5].parse().unwrap()),
        ..PipelineOptions::default()
    })
}

pub(super) fn compare(
    seed: u64,
    instance: &Instance,
    options: &PipelineOptions,
    seen: &mut Seen,
) -> Option<Plan> {
    let settings = Settings::resolve(instance, options).ok()?;
    let problem = Problem::new(instance, settings.clone()).ok()?;
    // Every other problem is left to bounds and searches, though all plans could be looked at; some to searches without ranges, totals or programs.
    let left_out: &[&str] = match seed % 32 {
        7 => &["exhaustive", "count_ranges"],
        23 => &["exhaustive", "count_ranges", "count_totals"],
        15 | 31 => &["exhaustive", "program"],
        odd if odd % 2 == 1 => &["exhaustive"],
        _ => &[],
    };
    let control = Control {
        switches: Switches::without(left_out.iter().copied()).unwrap(),
        ..Control::default()
    };
    let plan = Method::Exact(exact::Method::Exact)
        .run(instance, &problem, &control)
        .unwrap();
    let best_ns = best_ns(instance, &settings);
    let context = || {
        let told = (plan.status, plan.objective_ms, plan.bound_ms);
        let problem = serde_json::to_string(&plan.problem).unwrap();
        format!("seed {seed}: {told:?}, best {best_ns:?}: {problem}")
    };
    let violations = check::check(instance, &settings, &plan);
    assert!(violations.is_empty(), "{violations:?} {}", context());
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
    let bound_ns = plan.bound_ms.map_or(u64::MAX, ns);
    assert!(bound_ns <= best_ns.unwrap_or(u64::MAX), "{}", context());
    match (plan.objective_ms.map(ns), best_ns) {
        (Some(found), Some(best)) => assert!(found >= best && (!is_proved || found == best), "{}", context()),
        (None, best) => assert!(!is_proved || best.is_none(), "{}", context()),
        (Some(_), None) => panic!("{}", context()),
    }
    let bounded = methods::bounded(instance, &problem, &Default::default()).unwrap();
    assert!(
        bounded.bound_ms.map_or(u64::MAX, ns) <= best_ns.unwrap_or(u64::MAX),
        "{}",
        context()
    );
    if plan.virtual_stages().is_some() && !plan.stages.is_empty() {
        assert_eq!(simulated_ns(&plan), plan.objective_ms.map(ns), "{}", context());
        let mut wrong = plan.clone();
        wrong.objective_ms = wrong.objective_ms.map(|ms| ms + 2e-6);
        assert!(
            !check::check(instance, &settings, &wrong).is_empty(),
            "{}",
            context()
        );
    }
    let mode = |plan: &Plan| plan.stages.first().and_then(|stage| stage.mode.clone());
    seen.compared += 1;
    seen.without_plan += usize::from(best_ns.is_none());
    seen.proved += usize::from(is_proved);
    seen.open[seed as usize % 2] += usize::from(!is_proved);
    seen.replicated += usize::from(mode(&plan).is_some_and(|mode| mode.replicas > 1));
    seen.chunked += usize::from(plan.virtual_stages().is_some() && !plan.stages.is_empty());
    let again = |plan: &Plan| {
        plan.stages
            .iter()
            .any(|stage| stage.mode.iter().any(|mode| !mode.recomputed.is_empty()))
    };
    seen.again += usize::from(again(&plan));
    Some(plan)
}

/// The time that `simulate` says of a plan with virtual stages, in ns.
fn simulated_ns(plan: &Plan) -> Option<u64> {
    let moves = Moves {
        devices: None,
        placement: plan.problem.placement.unwrap_or(Placement::Loop),
        weight_share: None,
    };
    let chunks = chunks_that_run(plan, &moves).expect("chunks");
    let micro_batches = (plan.problem.micro_batches? as usize).div_ceil(plan.replicas_of_rows());
    let shape = Shape::from_chunks(&chunks, micro_batches)?;
    let order = plan.problem.schedule?.rule()?.order(&shape)?;
    let order = if chunks.trains { order } else { order.ahead() };
    let (order, micro_batches) = match plan.problem.objective {
        Some(Objective::Latency) => (order.of_first(), 1),
        _ => (order, micro_batches),
    };
    Some(
        run(&chunks, &order, micro_batches)
            .expect("no deadlock")
            .makespan_ns,
    )
}
