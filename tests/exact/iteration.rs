//! Iterations as simulated: what is proved against brute force over all plans by simulation, and memory against what simulations hold.

use std::time::Duration;

use crate::common::draw::{Scope, draw};
use crate::common::{draws, problem_of, random_spec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::bound_source::BoundSource;
use stagecut::check::{Violation, examine};
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::network::Layer;
use stagecut::options::{Communication, Cuts, MemoryLimit, Objective, PipelineOptions, Schedule};
use stagecut::plan::{Outcome, Plan, Statistics, Status, StoppedBy};
use stagecut::problem::{Assignment, Problem};
use stagecut::simulate::{Request, Simulation, StageInFlight, simulate};
use stagecut::spec::{InstanceSpec, LayerSpec, TensorSpec};
use stagecut::switches::Switches;
use stagecut::{Options, settings::Settings};

/// A small network that asks for an iteration; every third is a chain.
fn spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [[2, 5], [3, 6], [3, 7]][seed as usize % 3],
        chain: seed.is_multiple_of(3),
        mixed: false,
        cuts: Some(Cuts::Tied),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spec = draw(format!("iteration-{seed}"), seed, scope);
    spec.pipeline.objective = Some(Objective::Iteration);
    spec.pipeline.micro_batches = Some(rng.random_range(1..=9));
    if spec.pipeline.schedule == Some(Schedule::Pipedream) {
        spec.pipeline.schedule = Some(Schedule::OneFOneB);
    }
    if seed.is_multiple_of(4) {
        // Memory for about what the schedule is known for: whether there is some for what hides transfers depends on the plan.
        spec.pipeline.communication = Some(Communication::Overlapped);
        spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(rng.random_range(20..=120)));
        for layer in &mut spec.network.layers {
            layer.stash_bytes = f64::from(rng.random_range(1..=10u8));
            layer.parameter_bytes = 0.0;
        }
    }
    spec
}

/// A plan of an assignment, with what it overruns; `None` where it is none.
fn plan_of(instance: &Instance, problem: &Problem, assignment: &Assignment) -> Option<Plan> {
    let outcome = Outcome {
        allocation: Some(assignment.clone().into()),
        bound_ns: 0,
        bound_source: BoundSource::None,
        stopped_by: StoppedBy::Completed,
        statistics: Statistics::default(),
    };
    let mut plan = Plan::new(instance, problem, methods::OTHER, outcome);
    let verdict = examine(instance, &problem.settings, &plan);
    let is_plan = verdict.violations.is_empty();
    let is_honest = verdict.violations.iter().all(|violation| {
        matches!(
            violation,
            Violation::Memory { .. } | Violation::Order { .. } | Violation::StageCount { .. }
        )
    });
    assert!(is_honest, "{:?}", verdict.violations);
    plan.overruns = verdict.overruns;
    is_plan.then_some(plan)
}

fn run(plan: &Plan) -> Simulation {
    simulate(plan, &Request::default()).expect("a plan that can be run")
}

/// The least simulated iteration of all plans, in ms.
fn brute_force(instance: &Instance, problem: &Problem) -> Option<f64> {
    let (items, stages) = (problem.items.len(), problem.stages());
    let mut best: Option<f64> = None;
    let mut assignment = vec![0; items];
    loop {
        let highest = assignment.iter().max().copied().unwrap_or(0);
        let has_gap = (0..highest).any(|stage| !assignment.contains(&stage));
        let plan = (!has_gap)
            .then(|| plan_of(instance, problem, &assignment))
            .flatten();
        if let Some(plan) = plan {
            let ms = run(&plan).iteration_ms;
            best = Some(best.map_or(ms, |best| best.min(ms)));
        }
        // The next number of so many digits.
        let Some(at) = assignment.iter().position(|&stage| stage + 1 < stages) else {
            return best;
        };
        assignment[..at].fill(0);
        assignment[at] += 1;
    }
}

fn solved(instance: &Instance, objective: Objective) -> Plan {
    let pipeline = PipelineOptions {
        objective: Some(objective),
        ..PipelineOptions::default()
    };
    let options = Options {
        pipeline,
        ..Options::default()
    };
    stagecut::solve(instance, &options).expect("a plan or none")
}

/// Bytes that a stage holds when it has most in flight.
fn bytes_in(instance: &Instance, settings: &Settings, simulation: &Simulation, plan: &Plan, k: usize) -> u64 {
    let stage = &plan.stages[k];
    let most = match settings.mode.trains() {
        true => simulation.stages[k].most_in_flight,
        false => 0,
    };
    let versions = match (settings.mode.trains(), settings.schedule) {
        (true, Schedule::Pipedream) => most.max((plan.stages.len() - k) as u64),
        _ => 1,
    };
    let held = |layer: &&Layer| stage.forward.contains(&layer.id) || stage.backward.contains(&layer.id);
    let layers = instance.network.layers.iter().filter(held);
    layers
        .map(|layer| {
            settings.base_bytes(layer) + (versions - 1) * layer.parameter_bytes + most * layer.stash_bytes
        })
        .sum()
}

#[test]
fn the_proved_iteration_is_the_least_that_any_plan_takes() {
    let (mut cases, mut shorter, mut infeasible) = (0, 0, 0);
    let mut seed = 0;
    while cases < draws(400) {
        seed += 1;
        let Some((instance, problem)) = problem_of(&spec(seed)) else {
            continue;
        };
        cases += 1;
        let proved = solved(&instance, Objective::Iteration);
        let least_ms = brute_force(&instance, &problem);
        assert_eq!(proved.objective_ms, least_ms, "seed {seed}");
        let Some(least_ms) = least_ms else {
            assert_eq!(proved.status, Status::Infeasible, "seed {seed}");
            infeasible += 1;
            continue;
        };
        assert_eq!(proved.status, Status::Optimal, "seed {seed}");
        let simulation = run(&proved);
        assert_eq!(simulation.iteration_ms, least_ms, "seed {seed}");
        // The schedule's own number is in flight, for which there is memory.
        assert!(proved.overruns.is_empty(), "seed {seed}");
        let is_own = |stage: &StageInFlight| {
            stage
                .standard_in_flight
                .is_none_or(|most| stage.most_in_flight <= most)
        };
        assert!(simulation.stages.iter().all(is_own), "seed {seed}");
        let by_formula = run(&solved(&instance, Objective::Formula)).iteration_ms;
        assert!(least_ms <= by_formula, "seed {seed}: {least_ms} and {by_formula}");
        shorter += u64::from(least_ms < by_formula);
        for method in methods::all()
            .into_iter()
            .filter(|method| method.applies(&problem).is_ok())
        {
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            let violations = examine(&instance, &problem.settings, &plan).violations;
            assert!(
                violations.is_empty(),
                "seed {seed}, {}: {violations:?}",
                method.name()
            );
            assert!(plan.objective_ms.is_none_or(|ms| ms >= least_ms), "seed {seed}");
            assert!(
                plan.bound_ms.is_none_or(|ms| ms <= least_ms),
                "seed {seed}, {}",
                method.name()
            );
        }
    }
    println!("{cases} pipelines: {infeasible} without a plan, {shorter} faster than by the formula");
    assert!(20 * shorter > cases && infeasible > 0, "too few of some kind");
}

/// What is proved of cells of ideals, and of plans whose loose items lie with their readers, holds of all plans: these are asked where stages between ideals are too many.
#[test]
fn bounds_hold_without_the_stages_between_all_ideals() {
    let exact = methods::find("exact").expect("a registered method");
    let without = |names: &[&str]| Control {
        switches: Switches::without(names.iter().copied()).expect("switches"),
        ..Control::default()
    };
    let in_cells = without(&["iteration_ideals", "loose_items"]);
    let with_readers = without(&["iteration_ideals", "ideal_cells"]);
    let (mut cases, mut near, mut nearer) = (0, 0, 0);
    let mut seed = 0;
    while cases < draws(60) {
        seed += 1;
        let mut spec = spec(seed);
        // A mask that is drawn for a layer, and what it is drawn from.
        let readers: Vec<&LayerSpec> = spec
            .network
            .layers
            .iter()
            .filter(|layer| !layer.backward)
            .collect();
        let reader = readers[seed as usize % readers.len()].id.clone();
        for (id, reader, ns) in [("seed", "mask", seed % 3), ("mask", &reader, seed % 7)] {
            spec.network.layers.insert(
                0,
                LayerSpec {
                    id: id.into(),
                    forward_ms: Some(ns as f64 * 1e-6),
                    ..LayerSpec::default()
                },
            );
            spec.network.tensors.push(TensorSpec {
                producer: id.into(),
                consumers: vec![reader.into()],
                bytes: Some(0.0),
                transfer_ms: None,
            });
        }
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let Some(least_ms) = brute_force(&instance, &problem) else {
            continue;
        };
        cases += 1;
        let bound_ms = |control: &Control| {
            let plan = exact.run(&instance, &problem, control).expect("HiGHS works");
            assert!(plan.objective_ms.is_none_or(|ms| ms >= least_ms), "seed {seed}");
            let bound_ms = plan.bound_ms.expect("a bound");
            assert!(bound_ms <= least_ms, "seed {seed}: {bound_ms} of {least_ms}");
            bound_ms
        };
        near += u64::from(bound_ms(&in_cells) > 0.95 * least_ms);
        nearer += u64::from(bound_ms(&with_readers) > 0.9999 * least_ms);
    }
    println!("{cases} pipelines: {near} bounds of cells are near, {nearer} of loose items");
    assert!(
        5 * near > cases && 2 * nearer > cases,
        "{near} and {nearer} of {cases}"
    );
}

/// Long networks with branches have more paths than can be counted.
#[test]
fn long_networks_with_branches_have_bounds_without_the_stages_between_all_ideals() {
    let layer = |id: String| format!("{{ id = \"{id}\", forward_ms = 1, backward_ms = 2 }}");
    let tensor = |from: &str, to: &str| format!("{{ producer = \"{from}\", consumers = [{to}], bytes = 0 }}");
    let (mut layers, mut tensors) = (vec![layer("j0".into())], Vec::new());
    for k in 1..=100 {
        layers.extend(["a", "b", "j"].map(|name| layer(format!("{name}{k}"))));
        tensors.push(tensor(&format!("j{}", k - 1), &format!("\"a{k}\", \"b{k}\"")));
        tensors.extend(["a", "b"].map(|name| tensor(&format!("{name}{k}"), &format!("\"j{k}\""))));
    }
    let text = format!(
        "network.layers = [{}]\nnetwork.tensors = [{}]\npipeline = {{ stages = 4, micro_batches = 8, objective = \"iteration\" }}",
        layers.join(", "),
        tensors.join(", ")
    );
    let spec: InstanceSpec = toml::from_str(&text).expect("an instance");
    let (instance, problem) = problem_of(&spec).expect("a problem");
    let exact = methods::find("exact").expect("a registered method");
    let control = Control {
        switches: Switches::without(["iteration_ideals"]).expect("a switch"),
        ..Control::default()
    };
    let control = control.with_time(Some(Duration::from_secs(3)));
    let plan = exact.run(&instance, &problem, &control).expect("HiGHS works");
    let (objective_ms, bound_ms) = (
        plan.objective_ms.expect("a plan"),
        plan.bound_ms.expect("a bound"),
    );
    assert!(
        bound_ms <= objective_ms && bound_ms >= 0.9 * objective_ms,
        "{bound_ms} of {objective_ms}"
    );
}

#[test]
fn no_plan_overruns_its_memory_when_it_is_simulated() {
    let (mut cases, mut beyond, mut short_of_memory) = (0, 0, 0);
    let mut seed = 0;
    while cases < draws(400) {
        seed += 1;
        let mut spec = match seed % 2 {
            0 => spec(seed),
            _ => random_spec(seed, seed.is_multiple_of(3)),
        };
        // Where transfers are overlapped, more may be in flight than the schedule is known for.
        if !seed.is_multiple_of(4) {
            spec.pipeline.communication = Some(Communication::Overlapped);
        }
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let settings = &problem.settings;
        let Some(limit) = settings.memory_limit else {
            continue;
        };
        let plan = stagecut::solve(&instance, &Options::default()).expect("a plan or none");
        // Stashes of an explicit backward graph lie with whichever operator holds them.
        if plan.stages.is_empty() || instance.network.has_explicit_backward() {
            continue;
        }
        cases += 1;
        let simulation = run(&plan);
        for k in 0..plan.stages.len() {
            let bytes = bytes_in(&instance, settings, &simulation, &plan, k);
            assert!(
                bytes <= limit,
                "seed {seed}, stage {}: {bytes} of {limit} bytes",
                k + 1
            );
            let stage = &simulation.stages[k];
            beyond += u64::from(
                stage
                    .standard_in_flight
                    .is_some_and(|most| stage.most_in_flight > most),
            );
        }
        short_of_memory += u64::from(!plan.overruns.is_empty());
    }
    println!(
        "{cases} plans: {beyond} stages with more in flight than the schedule is known for, {short_of_memory} plans without memory for it"
    );
    assert!(beyond > 0 && short_of_memory > 0);
}

const TWO: &str = r#"
[network]
layers = [
  { id = "a", forward_ms = 10, backward_ms = 10, parameter_bytes = 10 },
  { id = "b", forward_ms = 4, backward_ms = 4, parameter_bytes = 10 },
]
tensors = [{ producer = "a", consumers = ["b"], bytes = 0 }]
[cluster]
device_kinds = [{ name = "gpu", count = 2 }]
[pipeline]
objective = "iteration"
micro_batches = 3
"#;

#[test]
fn work_hides_behind_the_busiest_stage() {
    let file = std::env::temp_dir().join(format!("stagecut-iteration-{}.toml", std::process::id()));
    std::fs::write(&file, TWO).expect("a file");
    let instance = Instance::read(&file, None).expect("an instance");
    std::fs::remove_file(&file).expect("the file is there");
    // Stage 1: F 0-10, 10-20, B 20-30, F 30-40, B 40-50, 50-60; stage 2 works meanwhile. The formula says 28 + 2 * 20.
    let objectives = [Objective::Iteration, Objective::Formula].map(|objective| {
        let plan = solved(&instance, objective);
        assert_eq!(plan.status, Status::Optimal);
        plan.objective_ms
    });
    assert_eq!(objectives, [Some(60.0), Some(68.0)]);
    let pipeline = PipelineOptions {
        memory_limit: Some(MemoryLimit::Bytes(5)),
        ..PipelineOptions::default()
    };
    let options = Options {
        pipeline,
        ..Options::default()
    };
    let none = stagecut::solve(&instance, &options).expect("no plan");
    assert_eq!(none.status, Status::Infeasible);
}

/// A million ideals are too many to look at. As many micro-batches as stages are best off with half of the work on the first one, of which
/// neither the period nor the formula knows.
#[test]
fn uneven_stages_of_a_wide_network() {
    let mut built = Instance::builder("wide").devices("gpu", 3, 16e9);
    for layer in 0..20 {
        built = built.layer(format!("layer{layer}"), 1.0, 1.0);
    }
    let instance = built.build().expect("an instance");
    let pipeline = PipelineOptions {
        objective: Some(Objective::Iteration),
        micro_batches: Some(3),
        ..PipelineOptions::default()
    };
    let options = Options {
        pipeline,
        ..Options::default()
    };
    let plan = stagecut::solve(&instance, &options).expect("a plan");
    let loads: Vec<f64> = plan.stages.iter().map(|stage| stage.load_ms).collect();
    assert_eq!(loads, [20.0, 10.0, 10.0]);
    assert_eq!((plan.objective_ms, plan.status), (Some(60.0), Status::Optimal));
    assert_eq!(plan.bound_source, BoundSource::WorkPerStage);
}
