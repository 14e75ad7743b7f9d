//! Latencies, and iterations on workers that differ, against brute force over all plans, each run task by task.

use crate::common::draw::{Scope, draw};
use crate::common::{draws, ns, problem_of, seeds};
use crate::oracles::runs::{self, Costed, Run};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::bound_source::BoundSource;
use stagecut::check::examine;
use stagecut::control::Control;
use stagecut::cost::allocation::Allocation;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, Groups, Objective, Schedule, Shares, WorkerMode};
use stagecut::plan::{Outcome, Plan, Statistics, Status, StoppedBy};
use stagecut::problem::{Assignment, Problem};
use stagecut::simulate::{Request, simulate};
use stagecut::spec::InstanceSpec;
use stagecut::{Options, Watch};

/// Most plans of a problem that brute force runs.
const MOST_PLANS: usize = 3_000;

/// A small network that asks for one of two objectives; every third is a chain, and of four three run on workers that differ.
fn spec(seed: u64, objective: Objective, (cuts, worker): (Cuts, WorkerMode)) -> InstanceSpec {
    let (is_split, is_concurrent) = (cuts == Cuts::Separate, worker == WorkerMode::Concurrent);
    let mixed = match is_split {
        _ if is_concurrent => true,
        true => seed.is_multiple_of(3),
        false => !seed.is_multiple_of(4) || objective == Objective::Iteration,
    };
    // Layers of which each pass is an item are twice as many.
    let layers = match is_split {
        true => [[2, 2], [2, 3], [3, 4]],
        false => [[2, 4], [3, 5], [4, 6]],
    };
    let scope = Scope {
        layers: layers[seed as usize % 3],
        chain: seed.is_multiple_of(3),
        mixed,
        cuts: Some(cuts),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spec = draw(format!("run-{seed}"), seed, scope);
    let asked = &mut spec.pipeline;
    asked.objective = Some(objective);
    asked.micro_batches = Some(rng.random_range(1..=7));
    asked.stages = asked.stages.map(|stages| stages.min(4));
    if is_concurrent {
        asked.worker = Some(worker);
        asked.shares = asked.shares.filter(|&shares| shares != Shares::Global);
    } else if mixed {
        asked.worker = Some(worker);
        (asked.shares, asked.share_parts) = (None::<Shares>, None);
        if rng.random_bool(0.7) {
            asked.groups = Some(Groups::Given);
        }
    }
    let schedules = [Schedule::OneFOneB, Schedule::OneFOneB, Schedule::Gpipe];
    asked.schedule = Some(match is_concurrent {
        true => Schedule::Concurrent,
        false => schedules[rng.random_range(0..3)],
    });
    let modes = [
        Communication::Overlapped,
        Communication::Overlapped,
        Communication::Blocking,
        Communication::Ignored,
    ];
    asked.communication = Some(match is_concurrent {
        true => [Communication::Overlapped, Communication::Ignored][rng.random_range(0..2)],
        false => modes[rng.random_range(0..4)],
    });
    spec
}

/// A plan of stages on such choices, as the program states it.
fn plan_of(instance: &Instance, problem: &Problem, assignment: &Assignment, choices: &[usize]) -> Plan {
    let allocation = Allocation {
        choices: choices.to_vec(),
        ..assignment.clone().into()
    };
    let outcome = Outcome {
        allocation: Some(allocation),
        bound_ns: 0,
        bound_source: BoundSource::None,
        stopped_by: StoppedBy::Completed,
        statistics: Statistics::default(),
    };
    let mut plan = Plan::new(instance, problem, methods::OTHER, outcome);
    let verdict = examine(instance, &problem.settings, &plan);
    let told = || serde_json::to_string(&plan).unwrap();
    assert_eq!(
        verdict.violations,
        [],
        "{assignment:?} on {choices:?}: {}",
        told()
    );
    plan.overruns = verdict.overruns;
    plan
}

/// What a plan takes: task by task; where links decide how many are in flight, as the simulator says.
fn run_ns(instance: &Instance, problem: &Problem, plan: &Costed) -> u64 {
    let settings = &problem.settings;
    let (assignment, choices, costs) = plan;
    let run = Run::new(problem, costs);
    let is_concurrent = settings.worker == WorkerMode::Concurrent;
    let is_free =
        run.has_links && (is_concurrent || run.trains && !run.all_forward_first && run.micro_batches > 1);
    match is_free {
        false if is_concurrent => runs::both_at_once_ns(costs, run.micro_batches as usize),
        true => {
            let plan = plan_of(instance, problem, assignment, choices);
            let run = simulate(&plan, &Request::default()).expect("a plan that can be run");
            ns(Some(run.iteration_ms))
        }
        // What happens once an iteration, where formulas tell it, may end within a ns.
        false => Run::makespan_ns(run) / settings.ticks_per_ns,
    }
}

struct Counts {
    cases: u64,
    branching: u64,
    unlike: u64,
    infeasible: u64,
    with_links: u64,
    several_stages: u64,
}

/// Holds what is proved against every plan, what the simulator makes of the plan, and bounds and plans of all other methods.
fn compare(objective: Objective, of: (Cuts, WorkerMode)) -> Counts {
    let mut counts = Counts {
        cases: 0,
        branching: 0,
        unlike: 0,
        infeasible: 0,
        with_links: 0,
        several_stages: 0,
    };
    let mut seed = seeds(300).start;
    while counts.cases < draws(300) {
        seed += 1;
        let Some((instance, problem)) = problem_of(&spec(seed, objective, of)) else {
            continue;
        };
        // Those of like devices are held elsewhere; in parts of a ns formulas and runs need not agree.
        let is_elsewhere =
            objective == Objective::Iteration && problem.workers.is_none() && of.0 == Cuts::Tied;
        if is_elsewhere || problem.settings.ticks_per_ns > 1 {
            continue;
        }
        let Some(plans) = runs::plans(&problem, MOST_PLANS) else {
            continue;
        };
        counts.cases += 1;
        let least_ns = plans.iter().map(|plan| run_ns(&instance, &problem, plan)).min();
        let proved = stagecut::solve(&instance, &Options::default()).expect("a plan or none");
        let expected = match least_ns {
            Some(_) => Status::Optimal,
            None => Status::Infeasible,
        };
        assert_eq!(
            (proved.objective_ms.map(|ms| ns(Some(ms))), proved.status),
            (least_ns, expected),
            "seed {seed}: {:?}",
            problem.settings
        );
        counts.branching += u64::from(!crate::common::is_chain(&problem));
        counts.unlike += u64::from(problem.workers.is_some());
        counts.with_links += u64::from(problem.settings.communication.has_links());
        let Some(least_ns) = least_ns else {
            counts.infeasible += 1;
            continue;
        };
        counts.several_stages += u64::from(proved.stages.len() > 1);
        let request = Request {
            micro_batches: (objective == Objective::Latency).then_some(1),
            ..Request::default()
        };
        let run = simulate(&proved, &request).expect("a plan that can be run");
        assert_eq!(ns(Some(run.iteration_ms)), least_ns, "seed {seed}");
        hold_methods(seed, (&instance, &problem), least_ns);
    }
    println!(
        "{} problems: {} branch, {} on unlike workers, {} with links, {} in several stages, {} without a plan",
        counts.cases,
        counts.branching,
        counts.unlike,
        counts.with_links,
        counts.several_stages,
        counts.infeasible
    );
    counts
}

/// Holds plans and bounds of all methods against the least of all plans.
fn hold_methods(seed: u64, (instance, problem): (&Instance, &Problem), least_ns: u64) {
    for method in methods::all() {
        if method.applies(problem).is_err() {
            continue;
        }
        let plan = method
            .run(instance, problem, &Control::default())
            .expect("HiGHS works");
        let violations = examine(instance, &problem.settings, &plan).violations;
        assert_eq!(violations, [], "seed {seed}, {}", method.name());
        let name = method.name();
        assert!(
            plan.objective_ms.is_none_or(|ms| ns_of(ms) >= least_ns),
            "seed {seed}, {name}"
        );
        assert!(
            plan.bound_ms.is_none_or(|ms| ns_of(ms) <= least_ns),
            "seed {seed}, {name}: {:?} by `{}`, above {least_ns} ns",
            plan.bound_ms,
            plan.bound_source
        );
    }
    let bound = stagecut::bound(instance, &Options::default(), Watch::default()).expect("a bound");
    assert!(
        bound.bound_ms.is_none_or(|ms| ns_of(ms) <= least_ns),
        "seed {seed}"
    );
}

fn ns_of(ms: f64) -> u64 {
    ns(Some(ms))
}

#[test]
fn the_proved_latency_is_the_least_of_all_plans() {
    let counts = compare(Objective::Latency, (Cuts::Tied, WorkerMode::Sequential));
    let some = counts.cases / 20;
    assert!(counts.branching > some && counts.with_links > some && counts.several_stages > some);
    assert!(counts.infeasible > 0 && counts.unlike > some);
}

#[test]
fn the_proved_iteration_of_unlike_workers_is_the_least_of_all_plans() {
    let counts = compare(Objective::Iteration, (Cuts::Tied, WorkerMode::Sequential));
    let some = counts.cases / 20;
    assert!(counts.branching > some && counts.with_links > some && counts.several_stages > some);
    assert!(counts.infeasible > 0);
}

/// Forward and backward passes of a layer on one device or on two.
#[test]
fn the_proved_iteration_of_separate_cuts_is_the_least_of_all_plans() {
    let counts = compare(Objective::Iteration, (Cuts::Separate, WorkerMode::Sequential));
    let some = counts.cases / 20;
    assert!(counts.branching > some && counts.with_links > some && counts.several_stages > some);
    assert!(counts.infeasible > 0 && counts.unlike > some);
}

#[test]
fn the_proved_latency_of_separate_cuts_is_the_least_of_all_plans() {
    let counts = compare(Objective::Latency, (Cuts::Separate, WorkerMode::Sequential));
    assert!(counts.with_links > counts.cases / 20 && counts.several_stages > counts.cases / 20);
}

/// Workers that run both phases at once, on shares that are best for the period of each.
#[test]
fn the_proved_iteration_of_concurrent_workers_is_the_least_of_all_plans() {
    for cuts in [Cuts::Tied, Cuts::Separate] {
        let counts = compare(Objective::Iteration, (cuts, WorkerMode::Concurrent));
        assert!(counts.with_links > counts.cases / 20 && counts.several_stages > counts.cases / 20);
    }
}

/// A user of one of these waits for a token; who has five unlike machines puts everything on the one with the fastest memory.
#[test]
fn one_user_of_unlike_machines() {
    let nodes = [
        (264.4, 36e9),
        (344.0, 96e9),
        (308.7, 64e9),
        (351.2, 96e9),
        (177.6, 36e9),
    ];
    let names = ["laptop", "studio-a", "studio-b", "studio-c", "studio-d"];
    let kinds = names.iter().zip(nodes).map(|(name, (rate, memory))| {
        format!("{{ name = '{name}', count = 1, memory_bytes = {memory:?}, memory_bytes_per_s = {rate}e9, flops_per_s = 2e13 }}")
    });
    let layers = (0..40).map(|i| {
        format!("{{ id = 'l{i}', parameter_bytes = 1000000000, work = {{ forward_flops = 1e9, forward_bytes = 1e9 }} }}")
    });
    let tensors = (1..40).map(|i| {
        format!(
            "{{ producer = 'l{}', consumers = ['l{i}'], bytes = 16384 }}",
            i - 1
        )
    });
    let text = [
        format!("network.layers = [{}]", layers.collect::<Vec<_>>().join(", ")),
        format!("network.tensors = [{}]", tensors.collect::<Vec<_>>().join(", ")),
        format!(
            "cluster.device_kinds = [{}]",
            kinds.collect::<Vec<_>>().join(", ")
        ),
        "cluster.link = { bandwidth_bytes_per_s = '10Gb/s', latency_ms = 0.3 }".to_owned(),
        "pipeline = { mode = 'inference', objective = 'latency' }".to_owned(),
    ];
    let plan = latency_of("fleet", &text.join("\n"));
    assert_eq!(plan.objective_ms, Some(113.8952));
    assert_eq!(plan.stages.len(), 1);
    assert_eq!(plan.stages[0].devices, ["studio-c:1"]);
}

/// A card of 8 GB and a CPU: what the card has no room for lies on the CPU, at the end where that moves fewer bytes.
#[test]
fn a_card_and_a_cpu() {
    let layer = |id: &str, bytes: u64, gpu: f64, cpu: f64| {
        format!(
            "{{ id = '{id}', parameter_bytes = {bytes}, times = {{ gpu = {{ forward_ms = {gpu} }}, cpu = {{ forward_ms = {cpu} }} }} }}"
        )
    };
    let mut layers = vec![layer("embedding", 430_000_000, 0.000035, 0.000222)];
    layers.extend((0..48).map(|i| layer(&format!("block{i}"), 165_000_000, 0.572917, 3.666667)));
    layers.push(layer("output", 640_000_000, 2.222222, 14.222222));
    let names: Vec<String> = ["embedding".to_owned()]
        .into_iter()
        .chain((0..48).map(|i| format!("block{i}")))
        .chain(["output".to_owned()])
        .collect();
    let tensors = names.windows(2).map(|pair| {
        format!(
            "{{ producer = '{}', consumers = ['{}'], bytes = 10240 }}",
            pair[0], pair[1]
        )
    });
    let text = [
        format!("network.layers = [{}]", layers.join(", ")),
        format!("network.tensors = [{}]", tensors.collect::<Vec<_>>().join(", ")),
        "cluster.device_kinds = [{ name = 'gpu', count = 1, memory_bytes = 8e9 }, { name = 'cpu', count = 1, memory_bytes = 64e9 }]"
            .to_owned(),
        "cluster.link = { bandwidth_bytes_per_s = 12e9, latency_ms = 0.02 }".to_owned(),
        "pipeline = { mode = 'inference', objective = 'latency', communication = 'overlapped' }".to_owned(),
    ];
    let plan = latency_of("card", &text.join("\n"));
    let sizes: Vec<usize> = plan.stages.iter().map(|stage| stage.forward.len()).collect();
    assert_eq!(sizes, [5, 45]);
    // Once over the link where that is beside the work.
    let work_ns = 222 + 4 * 3_666_667 + 44 * 572_917 + 2_222_222;
    assert_eq!(plan.objective_ms.map(ns_of), Some(work_ns + 20_853));
}

fn latency_of(name: &str, text: &str) -> Plan {
    let file = std::env::temp_dir().join(format!("stagecut-{name}-{}.toml", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    let instance = Instance::read(&file, None).expect("an instance");
    std::fs::remove_file(&file).expect("the file is there");
    let plan = stagecut::solve(&instance, &Options::default()).expect("a plan");
    assert_eq!(plan.status, Status::Optimal);
    plan
}
