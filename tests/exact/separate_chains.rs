//! The oracles for separate cuts of a chain, against brute force and the exact engine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{problem_of, separate_chain};
use crate::oracles::two_chains::NotCovered;
use crate::oracles::{brute_force, cut_pairs, frontier};
use stagecut::control::Control;
use stagecut::cost;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, MemoryLimit, Objective, Optimizer, PipelineOptions, Schedule};
use stagecut::plan::{Plan, Status};
use stagecut::problem::{Assignment, Problem};
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;
use stagecut::units::{ms_to_ns, ns_to_ms};

fn exact(instance: &Instance, problem: &Problem) -> Plan {
    let exact = methods::find("exact").expect("a method");
    exact
        .run(instance, problem, &Control::default())
        .expect("HiGHS works")
}

/// The optimum in ns by the exact engine, proved; `None` where it proves that there is none.
fn proved(instance: &Instance, problem: &Problem) -> Option<u64> {
    let plan = exact(instance, problem);
    assert!(
        matches!(plan.status, Status::Optimal | Status::Infeasible),
        "{}",
        plan.status
    );
    let ticks_per_ns = problem.settings.ticks_per_ns;
    plan.objective_ms.and_then(ms_to_ns).map(|ns| ns * ticks_per_ns)
}

/// The oracle's objective, once its plan is one and costs as much.
fn costed(problem: &Problem, seed: u64, best: Option<(Assignment, u64)>) -> Option<u64> {
    let (assignment, objective_ns) = best?;
    assert!(cost::is_feasible(problem, &assignment), "seed {seed}");
    assert_eq!(
        cost::assignment_ns(problem, &assignment),
        objective_ns,
        "seed {seed}"
    );
    Some(objective_ns)
}

/// Compute only: what the frontier covers.
fn compute_only(mut spec: InstanceSpec) -> InstanceSpec {
    spec.pipeline.communication = Some(Communication::Ignored);
    spec.pipeline.memory_limit = Some(MemoryLimit::from(None));
    spec.pipeline.objective = Some(Objective::Period);
    spec
}

#[test]
fn cut_pairs_agree_with_brute_force_and_exact() {
    let (mut compared, mut refused, mut joint, mut infeasible) = (0, 0, 0, 0);
    for seed in 0..900 {
        let Some((instance, problem)) = problem_of(&separate_chain(seed, 2 + seed as usize % 4)) else {
            continue;
        };
        let best = match cut_pairs::solve(&problem) {
            Ok(best) => costed(&problem, seed, best),
            Err(error) => {
                assert_eq!(error, NotCovered::JointMemory, "seed {seed}");
                assert!(problem.memory_is_joint(), "seed {seed}");
                refused += 1;
                continue;
            }
        };
        let brute = brute_force::solve(&problem).expect("few items");
        assert_eq!(best, brute.map(|(_, objective_ns)| objective_ns), "seed {seed}");
        assert_eq!(best, proved(&instance, &problem), "seed {seed}");
        compared += 1;
        joint += usize::from(problem.memory_is_joint());
        infeasible += usize::from(best.is_none());
    }
    assert!(
        compared > 500 && refused > 20 && joint > 20 && infeasible > 5,
        "{compared}, {refused}, {joint}, {infeasible}"
    );
}

#[test]
fn cut_pairs_agree_with_exact_on_longer_chains() {
    let mut compared = 0;
    for seed in 0..200 {
        let Some((instance, problem)) = problem_of(&separate_chain(seed, 6 + seed as usize % 4)) else {
            continue;
        };
        if let Ok(best) = cut_pairs::solve(&problem) {
            let best = costed(&problem, seed, best);
            assert_eq!(best, proved(&instance, &problem), "seed {seed}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn frontiers_agree_with_brute_force_and_cut_pairs_and_exact() {
    let mut compared = 0;
    for seed in 0..400 {
        let layers = 2 + seed as usize % 9;
        let mut spec = compute_only(separate_chain(seed, layers));
        if seed.is_multiple_of(5) {
            spec.pipeline.cuts = Some(Cuts::Tied);
        }
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let Ok(best) = frontier::solve(&problem) else {
            // Tied operators of an explicit backward graph need not be a chain.
            assert!(problem.settings.cuts == Cuts::Tied && instance.network.has_explicit_backward());
            continue;
        };
        let best = costed(&problem, seed, Some(best));
        let pairs = cut_pairs::solve(&problem).expect("a chain");
        assert_eq!(best, pairs.map(|(_, objective_ns)| objective_ns), "seed {seed}");
        if problem.items.len() <= 10 {
            let brute = brute_force::solve(&problem).expect("few items");
            assert_eq!(best, brute.map(|(_, objective_ns)| objective_ns), "seed {seed}");
        }
        assert_eq!(best, proved(&instance, &problem), "seed {seed}");
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

fn profile(name: &str) -> Option<Instance> {
    let path: PathBuf = Path::new("../shared/data").join(name);
    if !path.exists() {
        println!("skipped: no measured profile `{name}` in ../shared/data");
        return None;
    }
    Some(Instance::read(&path, None).expect("a profile"))
}

fn in_stages(instance: &Instance, cuts: Cuts, stages: usize, communication: Communication) -> Problem {
    let options = PipelineOptions {
        stages: Some(stages),
        cuts: Some(cuts),
        communication: Some(communication),
        memory_limit: Some(MemoryLimit::from(None)),
        ..PipelineOptions::default()
    };
    let settings = Settings::resolve(instance, &options).expect("options that fit");
    Problem::new(instance, settings).expect("a problem")
}

#[test]
fn frontiers_agree_with_exact_on_measured_chains() {
    for name in [
        "pipedream/vgg16.graph.txt",
        "pipedream/alexnet.graph.txt",
        "caffe/alexnet.csv",
    ] {
        let Some(instance) = profile(name) else {
            continue;
        };
        for stages in 2..=8 {
            let problem = in_stages(&instance, Cuts::Separate, stages, Communication::Ignored);
            let best = frontier::solve(&problem).expect("a chain");
            let best = costed(&problem, 0, Some(best));
            assert_eq!(best, proved(&instance, &problem), "{name} in {stages} stages");
        }
    }
}

/// From an independent computation on this profile.
#[test]
fn vgg16_has_its_known_periods() {
    let Some(instance) = profile("pipedream/vgg16.graph.txt") else {
        return;
    };
    let tied = [(2, 370.931), (3, 231.234), (4, 216.450), (6, 159.531)];
    let separate = [(2, 336.763), (3, 224.674), (4, 169.098), (6, 113.330)];
    for (cuts, known) in [(Cuts::Tied, tied), (Cuts::Separate, separate)] {
        for (stages, period_ms) in known {
            let problem = in_stages(&instance, cuts, stages, Communication::Ignored);
            let (_, period_ns) = frontier::solve(&problem).expect("a chain");
            assert!(
                (ns_to_ms(period_ns) - period_ms).abs() < 5e-4,
                "{cuts}, {stages} stages"
            );
        }
    }
}

#[test]
fn cut_pairs_agree_with_exact_on_a_measured_chain() {
    let Some(instance) = profile("caffe/alexnet.csv") else {
        return;
    };
    for communication in [Communication::Blocking, Communication::Overlapped] {
        for stages in [2, 4] {
            let problem = in_stages(&instance, Cuts::Separate, stages, communication);
            let best = cut_pairs::solve(&problem).expect("a chain without a memory limit");
            let best = costed(&problem, 0, best);
            assert_eq!(
                best,
                proved(&instance, &problem),
                "{communication}, {stages} stages"
            );
        }
    }
}

/// Of this size the exact engine may stop at its limit: then its bound and its plan stand on either side of the optimum.
#[test]
fn a_frontier_of_150_layers_takes_seconds() {
    let mut spec = compute_only(separate_chain(1, 150));
    spec.pipeline.stages = Some(8);
    spec.pipeline.all_stages = None;
    let (instance, problem) = problem_of(&spec).expect("a problem");
    let started = Instant::now();
    let best = frontier::solve(&problem).expect("a chain, compute only");
    assert!(started.elapsed() < Duration::from_secs(10));
    let best_ms = costed(&problem, 1, Some(best)).map(|ns| problem.settings.ms(ns));
    let control = Control {
        time_limit: Some(Duration::from_secs(2)),
        ..Control::default()
    };
    let exact = methods::find("exact").expect("a method");
    let plan = exact.run(&instance, &problem, &control).expect("HiGHS works");
    assert!(plan.bound_ms <= best_ms && best_ms <= plan.objective_ms);
}

#[test]
fn what_is_not_covered_is_refused() {
    let refusals = |spec: &InstanceSpec| {
        let (_, problem) = problem_of(spec).expect("a problem");
        (frontier::solve(&problem).err(), cut_pairs::solve(&problem).err())
    };
    let mut spec = compute_only(separate_chain(5, 4));
    spec.pipeline.schedule = Some(Schedule::OneFOneB);
    spec.pipeline.stages = Some(3);
    spec.pipeline.micro_batches = None;
    spec.pipeline.all_stages = None;
    spec.pipeline.optimizer = Some(Optimizer::Adam);
    for layer in &mut spec.network.layers {
        (layer.parameter_bytes, layer.stash_bytes) = (10.0, 10.0);
    }
    for tensor in &mut spec.network.tensors {
        (tensor.bytes, tensor.transfer_ms) = (None, Some(1.0));
    }
    assert_eq!(refusals(&spec), (None, None));

    let no_chain = Some(NotCovered::NoTwoChains);
    let mut unordered = spec.clone();
    unordered.network.tensors.clear();
    assert_eq!(refusals(&unordered), (no_chain.clone(), no_chain));

    let mut charged = spec.clone();
    charged.pipeline.communication = Some(Communication::Blocking);
    assert_eq!(refusals(&charged), (Some(NotCovered::Transfers), None));

    let mut iteration = spec.clone();
    iteration.pipeline.objective = Some(Objective::Formula);
    iteration.pipeline.micro_batches = Some(4);
    assert_eq!(refusals(&iteration), (Some(NotCovered::Iteration), None));

    // Three stages: where a forward pass is tells for how long its stash is kept. Two: it is on the other.
    let mut limited = spec.clone();
    limited.pipeline.memory_limit = Some(MemoryLimit::Bytes(150));
    let memory = Some(NotCovered::Memory);
    assert_eq!(
        refusals(&limited),
        (memory.clone(), Some(NotCovered::JointMemory))
    );
    limited.pipeline.stages = Some(2);
    assert_eq!(refusals(&limited), (memory, None));
}
