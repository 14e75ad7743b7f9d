//! Layers that share a table where cuts are separate, by hand and against brute force.

use crate::common::{draws, modal, plan_ns, problem_of, seeds, separate_spec};
use crate::oracles::separate_tables::{self, Best};
use crate::separate_modes::{Compared, drawn_on};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::options::{Communication, MemoryLimit, Objective, Schedule};
use stagecut::plan::{Plan, Status};
use stagecut::spec::{InstanceSpec, LayerSpec};

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    /// Without a proof.
    open: usize,
    /// Best plans with a layer of the table whose passes lie apart, and with memory that is limited.
    apart: usize,
    limited: usize,
    /// Best plans of which a forward pass lies beside a copy of another pass.
    beside: usize,
}

/// A network with a table that two layers share, and whatever else is drawn.
fn drawn(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7ab1e5);
    let mut spec = separate_spec(seed, 3, seed.is_multiple_of(2));
    spec.network.layers.retain(|layer| !layer.backward);
    let names: Vec<String> = spec.network.layers.iter().map(|layer| layer.id.clone()).collect();
    for tensor in &mut spec.network.tensors {
        tensor.consumers.retain(|to| names.contains(to));
    }
    spec.network
        .tensors
        .retain(|tensor| names.contains(&tensor.producer) && !tensor.consumers.is_empty());
    let count = spec.network.layers.len();
    let table_bytes = 1e6 * f64::from(rng.random_range(1..=8));
    let [one, other] = [rng.random_range(0..count), rng.random_range(0..count - 1)];
    let other = if other >= one { other + 1 } else { other };
    let is_frozen = rng.random_bool(0.15);
    for at in [one, other] {
        let layer = &mut spec.network.layers[at];
        layer.parameter_bytes += table_bytes;
        layer.shared = Some("table".into());
        layer.shared_bytes = Some(table_bytes);
        layer.frozen = is_frozen;
    }
    for layer in &mut spec.network.layers {
        // Stashes that take long leave no layer apart.
        if rng.random_bool(0.5) {
            layer.stash_bytes = 0.0;
        }
    }
    for kind in spec
        .cluster
        .iter_mut()
        .flat_map(|cluster| &mut cluster.device_kinds)
    {
        kind.pays_communication = true;
    }
    if rng.random_bool(0.5) {
        let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
        link.expect("a link").bandwidth_bytes_per_s *= 4.0;
    }
    let pipeline = &mut spec.pipeline;
    pipeline.stages = Some(rng.random_range(1..=3));
    pipeline.objective = Some(
        [
            Objective::Period,
            Objective::Iteration,
            Objective::Latency,
            Objective::Formula,
        ][rng.random_range(0..4)],
    );
    pipeline.micro_batches = Some(rng.random_range(1..=6));
    pipeline.schedule = Some([Schedule::OneFOneB, Schedule::Gpipe][rng.random_range(0..2)]);
    pipeline.worker = None;
    spec
}

/// The same with devices that all of it would or would not fit, for every other problem.
fn with_limit(seed: u64, spec: &InstanceSpec) -> InstanceSpec {
    let mut spec = spec.clone();
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x11417);
    if let (Some((instance, problem)), true) = (problem_of(&spec), rng.random_bool(0.5)) {
        let layers = instance.network.layers.iter();
        let held = layers.map(|layer| problem.settings.base_bytes(layer) + layer.stash_bytes);
        let part = rng.random_range(0.3..1.0);
        let bytes = (held.sum::<u64>() as f64 * part) as u64;
        spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(bytes));
    }
    spec
}

/// Holds what `exact` makes of a problem against brute force.
fn hold(seed: u64, spec: &InstanceSpec, seen: &mut Seen) {
    let Some((instance, problem)) = problem_of(&with_limit(seed, spec)) else {
        return;
    };
    let settings = &problem.settings;
    let is_run = settings.is_simulated() && settings.communication == Communication::Overlapped;
    if settings.modal
        || is_run && settings.schedule != Schedule::Gpipe && settings.objective == Objective::Iteration
    {
        return;
    }
    let best = separate_tables::best(&instance, &problem);
    // Heuristics now and then.
    let is_asked = |method: &Method| matches!(method, Method::Exact(_)) || seed.is_multiple_of(4);
    for method in methods::all().into_iter().filter(is_asked) {
        let name = method.name();
        if method.applies(&problem).is_err() {
            continue;
        }
        let plan = method
            .run(&instance, &problem, &Control::default())
            .expect("HiGHS works");
        let told = || {
            format!(
                "seed {seed}, {name}: {:?} {:?} {:?}\n{plan:#?}\n{:?}\n{:?} {:?}",
                best, plan.status, plan.bound_ms, instance.network, settings.memory_limit, settings.schedule
            )
        };
        assert_eq!(check::check(&instance, settings, &plan), [], "{}", told());
        let [found_ns, best_ns] =
            [plan_ns(&plan), best.as_ref().map(|best| best.ns)].map(|ns| ns.unwrap_or(u64::MAX));
        let bound_ns = plan.bound_ms.map_or(0, |ms| (ms * 1e6).floor() as u64);
        assert!(found_ns >= best_ns && bound_ns <= best_ns, "{}", told());
        match plan.status {
            Status::Optimal => assert_eq!(found_ns, best_ns, "{}", told()),
            Status::Infeasible => assert!(best.is_none(), "{}", told()),
            Status::Feasible | Status::Unknown => seen.open += usize::from(name == "exact"),
        }
    }
    seen.compared += 1;
    seen.limited += usize::from(settings.memory_limit.is_some());
    if let Some(best) = &best {
        look_at(&instance, best, seen);
    }
}

fn look_at(instance: &Instance, best: &Best, seen: &mut Seen) {
    let layers = &instance.network.layers;
    let readers: Vec<usize> = (0..layers.len())
        .filter(|&at| layers[at].shared.is_some())
        .collect();
    let is_apart = |at: usize| best.stages[at][0] != best.stages[at][1];
    let is_beside = |at: usize| {
        let others = readers.iter().filter(|&&other| other != at);
        others
            .into_iter()
            .any(|&other| best.stages[other].contains(&best.stages[at][0]))
    };
    seen.apart += usize::from(readers.iter().any(|&at| is_apart(at)));
    seen.beside += usize::from(readers.iter().any(|&at| is_apart(at) && is_beside(at)));
}

#[test]
fn plans_are_those_of_brute_force() {
    let mut seen = Seen::default();
    for seed in seeds(1_500) {
        hold(seed, &drawn(seed), &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.compared * 3 > draws(1_500) as usize, "{seen:?}");
    assert!(
        seen.apart * 20 > seen.compared && seen.limited * 5 > seen.compared,
        "{seen:?}"
    );
    assert!(seen.beside > 0 && seen.open * 20 < seen.compared, "{seen:?}");
}

/// Makes what moves between passes take little, of every other problem, and one of the layers long forwards, another one backwards: else they rarely lie
/// apart.
fn may_lie_apart(spec: &mut InstanceSpec, seed: u64) {
    if seed.is_multiple_of(2) {
        return;
    }
    let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
    // A power of two, which rounds nothing.
    link.expect("a link").bandwidth_bytes_per_s *= 64.0;
    // On few devices replicas are better.
    spec.pipeline.replicas = None;
    let shared = |layer: &&mut LayerSpec| layer.shared.is_some();
    let layers = spec.network.layers.iter_mut().filter(shared);
    for (at, layer) in layers.enumerate() {
        for mode in &mut layer.modes {
            mode.stash_bytes = 0.0;
            let own = [&mut mode.forward_ms, &mut mode.backward_ms];
            let times = mode.times.values_mut();
            let all = times.map(|times| [&mut times.forward_ms, &mut times.backward_ms]);
            for [forward_ms, backward_ms] in all.chain([own]) {
                let longer = if at == 0 { forward_ms } else { backward_ms };
                longer.iter_mut().for_each(|ms| *ms = 4.0 * *ms + 4.0);
            }
        }
    }
}

/// The same of stages in modes, with whatever these know.
#[test]
fn plans_in_modes_are_those_of_brute_force() {
    for objective in [Objective::Period, Objective::Formula, Objective::Iteration] {
        let (mut compared, mut open, mut apart) = (0, 0, 0);
        for seed in seeds(600) {
            let mut spec = drawn_on(seed, true);
            modal::share_table(&mut spec, seed);
            may_lie_apart(&mut spec, seed);
            let Some(of) = Compared::of((seed, &spec), objective) else {
                continue;
            };
            compared += usize::from(
                !of.instance
                    .network
                    .layers
                    .iter()
                    .all(|layer| layer.shared.is_none()),
            );
            open += usize::from(of.is_open());
            let layers = of.instance.network.layers.iter();
            let readers: Vec<&String> = layers
                .filter(|layer| layer.shared.is_some())
                .map(|layer| &layer.id)
                .collect();
            let mut split = of.plan.split.iter().flat_map(|split| &split.layers);
            apart += usize::from(split.any(|layer| readers.contains(&&layer.layer)));
        }
        println!("{objective}: {compared} compared, {open} open, {apart} with layers of the table apart");
        assert!(
            compared * 3 > draws(600) as usize && apart > 0,
            "{compared}, {apart}"
        );
    }
}

/// Two layers that read a table of 100 MB, over a link of 10 GB/s, in an iteration of ten micro-batches.
#[test]
fn the_example_of_the_page() {
    let layer = |id: &str, forward_ms: u64, backward_ms: u64| serde_json::json!({"id": id, "forward_ms": forward_ms, "backward_ms": backward_ms, "parameter_bytes": 100_000_000, "shared": "words"});
    let solved = |cuts: &str, objective: &str| {
        let spec = serde_json::json!({
            "network": {"layers": [layer("embedding", 2, 5), layer("head", 3, 1)],
                        "tensors": [{"producer": "embedding", "consumers": ["head"], "bytes": 0}]},
            "cluster": {"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 1e10}},
            "pipeline": {"cuts": cuts, "objective": objective, "micro_batches": 10, "optimizer": "sgd", "precision": "uniform"},
        });
        let (instance, problem) = problem_of(&serde_json::from_value(spec).unwrap()).unwrap();
        let exact = methods::find("exact").unwrap();
        let plan = exact.run(&instance, &problem, &Control::default()).unwrap();
        assert_eq!(check::check(&instance, &problem.settings, &plan), []);
        assert_eq!(plan.status, Status::Optimal);
        plan
    };
    let ms = |plan: &Plan| plan.objective_ms.unwrap();
    assert_eq!(ms(&solved("tied", "period")), 8.0);
    assert_eq!(ms(&solved("separate", "period")), 7.0);
}
