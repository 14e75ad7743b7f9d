//! Iterations of stages in modes, and stages that are alike, against brute force: every plan run by written lists.

use crate::common::seeds;
use crate::in_modes::{found, is_open};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::options::{Degrees, DeviceOrder, Objective, PipelineOptions, Recompute, Region};
use stagecut::plan::{Plan, PlanStage};
use stagecut::settings::Settings;
use stagecut::simulate::{self, Request};
use stagecut::spec::{InstanceSpec, LayerSpec, ModeSpec, TensorSpec};

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    proved: usize,
    replicated: usize,
}

/// Small problems of all that modes know, with any stages and with stages that are alike.
#[test]
fn iterations_are_those_of_brute_force() {
    let mut seen = Seen::default();
    for seed in seeds(1_500) {
        let mut spec = match seed % 5 {
            0 => crate::common::modal::random_modal_slow_inside(seed),
            _ => crate::common::modal::random_modal(seed),
        };
        // What a layer computes again it computes again in the backward pass: then all is proved.
        let is_usual = seed % 4 > 0;
        if is_usual {
            make_usual(&mut spec);
        }
        let instance = Instance::from_spec(&spec).unwrap();
        for uniform in [None, Some(true)] {
            let options = PipelineOptions {
                objective: Some(Objective::Iteration),
                uniform,
                ..PipelineOptions::default()
            };
            compare(&instance, &options, is_usual, &mut seen);
            let alone = PipelineOptions {
                objective: Some(Objective::Latency),
                // Memory is that of so many.
                micro_batches: Some(spec.pipeline.micro_batches.unwrap_or(4)),
                ..options
            };
            compare(&instance, &alone, is_usual, &mut seen);
        }
        let options = PipelineOptions {
            uniform: Some(true),
            ..PipelineOptions::default()
        };
        compare(&instance, &options, true, &mut seen);
    }
    let Seen {
        compared,
        proved,
        replicated,
    } = seen;
    println!("{seen:?}");
    assert!(
        proved * 10 >= compared * 9 && replicated * 10 > compared,
        "{seen:?}"
    );
}

/// Devices of several kinds, each with its times, memory and places in nodes: every plan is no better than brute force says, bounds hold, and
/// what has links that are all alike, or is a chain, is proved.
#[test]
fn unlike_devices_in_modes_are_those_of_brute_force() {
    let mut seen = Seen::default();
    let (mut mixed, mut chains, mut paired) = (0, 0, 0);
    for seed in seeds(600) {
        let mut spec = match seed % 5 {
            0 => crate::common::modal::random_modal_slow_inside(seed),
            _ => crate::common::modal::random_modal(seed),
        };
        let is_usual = seed % 4 > 0;
        if is_usual {
            make_usual(&mut spec);
        }
        if seed % 3 == 1 {
            make_chain(&mut spec);
        }
        let spec = crate::common::modal::on_unlike_devices(spec, seed);
        // Some layer may run nowhere.
        let Ok(instance) = Instance::from_spec(&spec) else {
            continue;
        };
        let has_pairs = !instance.cluster.links.is_empty();
        let has_levels = has_pairs || instance.cluster.nodes.is_some();
        chains += usize::from(has_levels && is_chain(&spec));
        paired += usize::from(has_pairs && instance.cluster.nodes.is_none());
        for objective in [Objective::Period, Objective::Iteration, Objective::Latency] {
            let options = PipelineOptions {
                objective: Some(objective),
                micro_batches: Some(spec.pipeline.micro_batches.unwrap_or(4)),
                uniform: (seed % 6 == 5).then_some(true),
                device_order: (seed % 7 > 4).then_some(DeviceOrder::Given),
                ..PipelineOptions::default()
            };
            let is_proved = match objective {
                Objective::Period => !has_levels || is_chain(&spec),
                _ => is_usual,
            };
            let plan = compare(&instance, &options, is_proved, &mut seen);
            let kinds = plan
                .iter()
                .flat_map(|plan| &plan.stages)
                .flat_map(|stage| &stage.devices);
            let mut kinds: Vec<&str> = kinds.map(|device| &device[..5]).collect();
            kinds.sort_unstable();
            kinds.dedup();
            mixed += usize::from(kinds.len() > 1);
        }
    }
    println!(
        "{seen:?}, {mixed} on several kinds, {chains} chains on links that differ, {paired} instances of pairs alone"
    );
    assert!(
        seen.proved * 10 >= seen.compared * 9
            && mixed * 10 > seen.compared
            && chains * 50 > seen.compared
            && paired * 50 > seen.compared,
        "{seen:?}, {mixed}, {chains}, {paired}"
    );
}

/// Leaves a problem without operators of its own backward the tensors that go from a layer to the next, and gives it those that it lacks.
fn make_chain(spec: &mut InstanceSpec) {
    let layers = &spec.network.layers;
    if layers.iter().any(|layer| layer.backward) {
        return;
    }
    let tensors = &spec.network.tensors;
    let next = |pair: &[LayerSpec]| TensorSpec {
        consumers: vec![pair[1].id.clone()],
        ..tensors
            .iter()
            .find(|tensor| tensor.producer == pair[0].id)
            .cloned()
            .unwrap_or_else(|| TensorSpec {
                producer: pair[0].id.clone(),
                bytes: Some(2e6),
                ..TensorSpec::default()
            })
    };
    spec.network.tensors = layers.windows(2).map(next).collect();
}

/// Whether every tensor goes from a layer to the next, and nothing else orders layers.
fn is_chain(spec: &InstanceSpec) -> bool {
    let layers = &spec.network.layers;
    let follows = |pair: &[LayerSpec]| {
        let mut tensors = spec.network.tensors.iter();
        tensors.any(|tensor| tensor.producer == pair[0].id && tensor.consumers == [pair[1].id.clone()])
    };
    spec.network.tensors.len() + 1 == layers.len() && layers.windows(2).all(follows)
}

/// Gives all modes of a degree the same forward time.
pub(super) fn make_usual(spec: &mut InstanceSpec) {
    for layer in &mut spec.network.layers {
        let forward: Vec<_> = layer
            .modes
            .iter()
            .map(|mode| (mode.tensor, mode.forward_ms))
            .collect();
        for mode in &mut layer.modes {
            mode.forward_ms = forward.iter().find(|own| own.0 == mode.tensor).unwrap().1;
        }
    }
}

fn compare(
    instance: &Instance,
    options: &PipelineOptions,
    must_be_proved: bool,
    seen: &mut Seen,
) -> Option<Plan> {
    let settings = Settings::resolve(instance, options).ok()?;
    if !settings.modal {
        return None;
    }
    let plan = found(instance, &settings, None)?;
    let best_ms = match settings.objective {
        Objective::Iteration | Objective::Latency => {
            crate::oracles::modes::best_iteration_ns(instance, &settings).map(|ns| ns as f64 / 1e6)
        }
        _ => crate::oracles::modes::best_ms(instance, &settings),
    };
    let context = || {
        let told = (plan.status, plan.objective_ms, plan.bound_ms);
        format!(
            "{told:?}, best {best_ms:?}: {}",
            serde_json::to_string(&plan.problem).unwrap()
        )
    };
    let is_proved = !is_open(&plan, best_ms.map(|ms| [ms; 2]), 1e-6, &context);
    assert!(is_proved || !must_be_proved, "open: {}", context());
    assert!(
        plan.objective_ms.is_none() || plan.bound_ms.is_some(),
        "{}",
        context()
    );
    if settings.objective != Objective::Period && plan.objective_ms.is_some() {
        let alone = settings.objective == Objective::Latency;
        runs_as_it_says(&plan, alone.then_some(1));
    }
    seen.compared += 1;
    seen.proved += usize::from(is_proved);
    seen.replicated += usize::from(plan.stages.iter().any(|stage| stage.replicas() > 1));
    Some(plan)
}

/// Equal blocks of which Megatron can be told what to compute again: proved like brute force, and every plan is one that it can be told.
#[test]
fn plans_for_megatron_are_those_of_brute_force_and_exported() {
    let megatron = stagecut::export::find("megatron").unwrap();
    let mut seen = Seen::default();
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    let mut partly = 0;
    for _ in 0..120 {
        let instance = Instance::from_spec(&blocks(&mut rng)).unwrap();
        let options = PipelineOptions {
            objective: Some(Objective::Iteration),
            target: Some(Region::Megatron),
            ..PipelineOptions::default()
        };
        let of_periods = PipelineOptions {
            objective: Some(Objective::Period),
            ..options.clone()
        };
        let iterations = compare(&instance, &options, true, &mut seen);
        for plan in iterations.into_iter().chain(solved(&instance, &of_periods)) {
            let again = |stage: &PlanStage| stage.mode.as_ref().map_or(0, |mode| mode.recomputed.len());
            partly += usize::from(
                plan.stages
                    .iter()
                    .any(|stage| again(stage) > 0 && stage.forward.len() > 1),
            );
            if !plan.stages.is_empty() {
                (megatron.write)(&instance, &plan).unwrap_or_else(|fault| panic!("{fault:?} {plan:#?}"));
            }
        }
    }
    assert!(
        seen.compared > 80 && seen.replicated > 10 && partly > 10,
        "{seen:?}, {partly} with something again"
    );
}

/// A plan that passes the checker; `None` where the problem has none.
fn solved(instance: &Instance, options: &PipelineOptions) -> Option<Plan> {
    let settings = Settings::resolve(instance, options).ok()?;
    found(instance, &settings, None)
}

/// A stack of equal blocks with modes, and little memory.
pub(super) fn blocks(rng: &mut ChaCha8Rng) -> InstanceSpec {
    let mut spec = InstanceSpec::default();
    let count = rng.random_range(2..=4);
    let times: Vec<f64> = (0..4).map(|_| f64::from(rng.random_range(1..=6))).collect();
    let stash: Vec<f64> = (0..2).map(|_| 1e6 * f64::from(rng.random_range(0..=4))).collect();
    let mode = |tensor: usize, recompute: &str, backward_ms: f64| ModeSpec {
        tensor: Some(tensor),
        recompute: Some(recompute.into()),
        forward_ms: Some(times[0] / tensor as f64),
        backward_ms: Some(backward_ms / tensor as f64),
        parameter_bytes: 1e6 / tensor as f64,
        stash_bytes: if recompute == "none" {
            stash[0] + stash[1]
        } else {
            stash[1]
        } / tensor as f64,
        collective_bytes: 1e6,
        ..ModeSpec::default()
    };
    let layer = |at: usize| LayerSpec {
        id: format!("b{at}"),
        modes: vec![
            mode(1, "none", times[1]),
            mode(1, "full", times[1] + times[0]),
            mode(2, "none", times[1]),
            mode(2, "full", times[1] + times[0]),
        ],
        ..LayerSpec::default()
    };
    spec.network.layers = (0..count).map(layer).collect();
    spec.network.tensors = (1..count).map(|at| tensor(at - 1, at, 1e6 * times[2])).collect();
    let cluster = format!(
        "device_kinds = [{{ name = \"gpu\", count = {}, memory_bytes = {} }}]\nlink = {{ bandwidth_bytes_per_s = 1e9 }}",
        rng.random_range(1..=4),
        5e6 + 1e6 * f64::from(rng.random_range(0..=30))
    );
    spec.cluster = Some(toml::from_str(&cluster).unwrap());
    spec.pipeline = PipelineOptions {
        tensor: Some(Degrees::Choose),
        replicas: Some(Degrees::Choose),
        recompute: Some(Recompute::Choose),
        micro_batches: Some([2, 4, 6][rng.random_range(0..3)]),
        ..PipelineOptions::default()
    };
    spec
}

fn tensor(from: usize, to: usize, bytes: f64) -> TensorSpec {
    TensorSpec {
        producer: format!("b{from}"),
        consumers: vec![format!("b{to}")],
        bytes: Some(bytes),
        ..TensorSpec::default()
    }
}

fn runs_as_it_says(plan: &Plan, micro_batches: Option<u64>) {
    let request = Request {
        micro_batches,
        ..Request::default()
    };
    let run = simulate::simulate(plan, &request).unwrap();
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    assert_eq!(ns(run.iteration_ms), ns(plan.objective_ms.unwrap()));
}
