//! Workers whose stages cannot be judged one by one, against brute force: memory of both passes, one share for all stages, and
//! iterations of groups of equal devices.

use crate::common::mixed::{mixed_spec, random_mixed};
use crate::common::{plan_ns, problem_of, rounding_ns, seeds, whole_ns};
use crate::oracles::allocations;
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Cuts, Groups, Mode, Objective, PipelineOptions, Schedule, Synchronization};
use stagecut::plan::{Plan, Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::spec::{GroupSpec, InstanceSpec};

fn exact(instance: &Instance, problem: &Problem) -> Plan {
    let method = methods::find("exact").expect("a method");
    let plan = method.run(instance, problem, &Control::default());
    let plan = plan.expect("HiGHS works");
    assert_eq!(
        check(instance, &problem.settings, &plan),
        [],
        "{}",
        problem.settings.stages
    );
    plan
}

/// The plan of `exact`, which proves what brute force finds; `None` where brute force would take too long.
fn agreed(seed: u64, instance: &Instance, problem: &Problem) -> Option<Plan> {
    let workers = problem.workers.as_ref().expect("a mixed problem");
    let best = allocations::solve(problem, workers).ok()?;
    let plan = exact(instance, problem);
    assert_eq!(plan.stopped_by, StoppedBy::Completed, "seed {seed}");
    let best_ns = best.map(|(_, ticks)| whole_ns(problem, ticks));
    let same = match (plan_ns(&plan), best_ns) {
        (Some(own), Some(best)) => own.abs_diff(best) <= rounding_ns(problem),
        (own, best) => own == best,
    };
    assert!(same, "seed {seed}: {:?} and {best_ns:?}", plan.objective_ms);
    let proved = match best_ns {
        Some(_) => Status::Optimal,
        None => Status::Infeasible,
    };
    // There, a ns may stay open, and the answer says so.
    let open_ms = plan
        .objective_ms
        .zip(plan.bound_ms)
        .map(|(plan, bound)| plan - bound);
    let is_open = open_ms.is_some_and(|ms| ms * 1e6 <= 1.01 * rounding_ns(problem) as f64);
    assert!(plan.status == proved || is_open, "seed {seed}: {}", plan.status);
    Some(plan)
}

/// Separate cuts on unlike workers, with memory that depends on where both passes lie.
#[test]
fn memory_of_both_passes_is_proved() {
    let mut compared = 0;
    for seed in 0..4_000 {
        let mut spec = mixed_spec(seed);
        spec.pipeline.cuts = Some(Cuts::Separate);
        spec.pipeline.mode = Some(Mode::Training);
        let drawn = problem_of(&spec).filter(|(_, problem)| problem.workers.is_some());
        let Some((instance, problem)) = drawn else {
            continue;
        };
        if problem.memory_is_joint() && problem.items.len() <= 8 {
            compared += u32::from(agreed(seed, &instance, &problem).is_some());
        }
    }
    assert!(compared > 100, "{compared}");
}

/// One share a resource type over all stages, groups assigned among them.
#[test]
fn one_share_for_all_stages_is_proved() {
    let (mut compared, mut assigned) = (0, 0);
    for seed in 0..4_000 {
        let Some((instance, problem)) = random_mixed(seed) else {
            continue;
        };
        if problem.shares_are_global() && agreed(seed, &instance, &problem).is_some() {
            compared += 1;
            assigned += u32::from(problem.settings.groups == Groups::Assign);
        }
    }
    assert!(compared > 150 && assigned > 50, "{compared}, {assigned} assigned");
}

/// The iteration of a small problem on devices of one kind, in groups that are given or assigned.
fn on_equal_devices(seed: u64) -> InstanceSpec {
    let mut spec = mixed_spec(seed);
    let cluster = spec.cluster.as_mut().expect("a cluster");
    cluster.device_kinds.truncate(1);
    let kind = &mut cluster.device_kinds[0];
    kind.resources.clear();
    kind.pays_communication = true;
    kind.count = Some(2 + seed as usize % 4);
    let name = kind.name.clone();
    let group = |devices: usize, count: usize| GroupSpec {
        devices: [(name.clone(), devices)].into(),
        count: Some(count),
    };
    let is_given = seed.is_multiple_of(3);
    cluster.groups = match is_given {
        true => vec![group(1, seed as usize % 4), group(2, 1)],
        false => Vec::new(),
    };
    cluster.groups.retain(|group| group.count != Some(0));
    let options = &spec.pipeline;
    spec.pipeline = PipelineOptions {
        mode: options.mode,
        stages: options.stages,
        all_stages: options.all_stages,
        communication: options.communication,
        objective: Some(Objective::Formula),
        micro_batches: Some(1 + seed % 7),
        schedule: Some([Schedule::OneFOneB, Schedule::Gpipe][seed as usize / 2 % 2]),
        groups: Some(if is_given { Groups::Given } else { Groups::Assign }),
        synchronization: seed.is_multiple_of(2).then_some(Synchronization::Ring),
        ..PipelineOptions::default()
    };
    spec
}

#[test]
fn iterations_of_groups_of_equal_devices_are_proved() {
    let (mut compared, mut fewer) = (0, 0);
    for seed in 0..3_000 {
        let Some((instance, problem)) = problem_of(&on_equal_devices(seed)) else {
            continue;
        };
        if problem.workers.is_none() {
            continue;
        }
        if let Some(plan) = agreed(seed, &instance, &problem) {
            compared += 1;
            fewer += u32::from(!plan.stages.is_empty() && plan.stages.len() < problem.stages());
        }
    }
    assert!(
        compared > 400 && fewer > 50,
        "{compared}, {fewer} of fewer stages"
    );
}

/// The same with cuts apart, where memory may depend on both passes.
#[test]
fn iterations_with_separate_cuts_are_proved() {
    let (mut compared, mut joint) = (0, 0);
    for seed in 0..1_500 {
        let mut spec = on_equal_devices(seed);
        spec.pipeline.cuts = Some(Cuts::Separate);
        spec.pipeline.mode = Some(Mode::Training);
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let is_small = problem.workers.is_some() && problem.items.len() <= 8;
        if is_small && agreed(seed, &instance, &problem).is_some() {
            compared += 1;
            joint += u32::from(problem.memory_is_joint());
        }
    }
    assert!(compared > 100 && joint > 20, "{compared}, {joint} joint");
}

/// A problem of a kind that only exhaustive search proves, and too large for it.
#[test]
fn a_problem_that_no_method_proves_says_so() {
    let layer = |i: usize| format!("{{ id = \"{i}\", forward_ms = 3, backward_ms = 3, stash_bytes = 1 }}");
    // 44 passes of 3 ms on three stages: none takes less than 45, and work alone says 44.
    let layers: Vec<String> = (0..22).map(layer).collect();
    let text = format!(
        r#"
        name = "wide"
        network.layers = [{}]
        pipeline = {{ stages = 3, cuts = "separate", memory_limit = 40, communication = "ignored" }}
        cluster.device_kinds = [{{ name = "fast", count = 2 }}, {{ name = "slow", count = 2 }}]
        "#,
        layers.join(", ")
    );
    let spec = toml::from_str(&text).expect("a specification");
    let (instance, problem) = problem_of(&spec).expect("a problem");
    assert!(problem.memory_is_joint());
    let plan = exact(&instance, &problem);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Feasible, StoppedBy::NoMethod)
    );
}

/// Work 4 | 4 on two devices, a tensor of 3 ms each way: one stage on both takes 4, two take 7.
#[test]
fn groups_may_take_all_devices_and_leave_stages_empty() {
    let problem = |options: &str| {
        let text = format!(
            r#"
            name = "two"
            network.layers = [{{ id = "a", forward_ms = 4 }}, {{ id = "b", forward_ms = 4 }}]
            network.tensors = [{{ producer = "a", consumers = ["b"], bytes = 3e6 }}]
            cluster.link = {{ bandwidth_bytes_per_s = 1e9 }}
            cluster.device_kinds = [{{ name = "gpu", count = 2 }}]
            pipeline = {{ groups = "assign", stages = 2, mode = "inference"{options} }}
            "#
        );
        problem_of(&toml::from_str(&text).expect("a specification")).expect("a problem")
    };
    for (options, ms, stages) in [("", 4.0, 1), (", all_stages = true", 7.0, 2)] {
        let (instance, problem) = problem(options);
        for method in ["exact", "ideals", "milp"] {
            let method = methods::find(method).expect("a method");
            if method.applies(&problem).is_ok() {
                let plan = method
                    .run(&instance, &problem, &Control::default())
                    .expect("HiGHS works");
                assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(ms)));
                assert_eq!(plan.stages.len(), stages);
            }
        }
    }
}

/// More stages to choose from are never worse, and just so many never better than at most so many.
#[test]
fn more_stages_never_cost_more() {
    let mut compared = 0;
    for seed in seeds(400) {
        let objective_ms = |stages: usize, all_stages: bool| {
            let mut spec = mixed_spec(seed);
            spec.pipeline.groups = Some(Groups::Assign);
            spec.pipeline.stages = Some(stages);
            spec.pipeline.all_stages = Some(all_stages);
            let (instance, problem) = problem_of(&spec)?;
            let is_quick = problem.workers.is_some() && !problem.shares_are_global();
            let plan = is_quick.then(|| exact(&instance, &problem))?;
            Some(plan.objective_ms.unwrap_or(f64::INFINITY))
        };
        let mut fewer = f64::INFINITY;
        for stages in 1..=3 {
            let Some(at_most) = objective_ms(stages, false) else {
                break;
            };
            let exactly = objective_ms(stages, true).unwrap_or(f64::INFINITY);
            assert!(
                at_most <= fewer && at_most <= exactly,
                "seed {seed}, {stages} stages"
            );
            compared += 1;
            fewer = at_most;
        }
    }
    assert!(compared > 100, "{compared}");
}
