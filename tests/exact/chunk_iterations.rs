//! Iterations of devices of several chunks: what is proved against brute force over all plans, each run event by event.

use crate::common::chunked::virtual_spec;
use crate::common::{draws, ns, plan_ns, problem_of, seeds};
use crate::oracles::chunk_iterations::least_ns;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{MemoryLimit, Objective};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::schedule::rules::Shape;
use stagecut::schedule::{Moves, chunks_that_run, run};
use stagecut::switches::Switches;

/// The most assignments that brute force looks at.
const MOST_ASSIGNMENTS: f64 = 5e3;

/// A problem that asks for an iteration, if it is valid and small enough: any schedule, communication and mode, tight memory now and then.
fn problem(seed: u64) -> Option<(Instance, Problem)> {
    let mut spec = virtual_spec(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    spec.pipeline.objective = Some(match seed % 4 {
        3 => Objective::Latency,
        _ => Objective::Iteration,
    });
    let rounds = spec.pipeline.stages? as u64;
    spec.pipeline.micro_batches = Some(
        match spec.pipeline.schedule.map(|schedule| schedule.to_string()) {
            // Interleaved ones come in multiples of the devices.
            None => rounds * rng.random_range(1..=2),
            Some(name) if name == "interleaved" => rounds * rng.random_range(1..=2),
            Some(_) => rng.random_range(1..=6),
        },
    );
    if seed.is_multiple_of(3) {
        spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(rng.random_range(20..=120)));
        for layer in &mut spec.network.layers {
            layer.stash_bytes = f64::from(rng.random_range(1..=10u8));
            layer.parameter_bytes = 0.0;
        }
    }
    let (instance, problem) = problem_of(&spec)?;
    let plans = (problem.stages() as f64).powi(problem.items.len() as i32);
    (plans <= MOST_ASSIGNMENTS).then_some((instance, problem))
}

fn solve(name: &str, (instance, problem): (&Instance, &Problem), switches: Switches) -> Plan {
    let control = Control {
        switches,
        ..Control::default()
    };
    let method = methods::find(name).expect("a registered method");
    let plan = method.run(instance, problem, &control).expect("HiGHS works");
    let violations = check::check(instance, &problem.settings, &plan);
    assert_eq!(violations, [], "{name}: {plan:?}");
    plan
}

/// The time that `simulate` says of a plan, in ns.
fn simulated_ns(plan: &Plan, problem: &Problem) -> u64 {
    let settings = &problem.settings;
    let moves = Moves {
        devices: None,
        placement: settings.placement,
        weight_share: None,
    };
    let chunks = chunks_that_run(plan, &moves).expect("chunks");
    let micro_batches = settings.micro_batches.expect("a number") as usize;
    let shape = Shape::from_chunks(&chunks, micro_batches).expect("even chunks");
    let order = settings.schedule.rule().and_then(|rule| rule.order(&shape));
    let order = order.expect("a rule");
    let order = if chunks.trains { order } else { order.ahead() };
    let order = match settings.objective {
        Objective::Latency => order.of_first(),
        _ => order,
    };
    run(&chunks, &order, settings.run_micro_batches() as usize)
        .expect("no deadlock")
        .makespan_ns
}

#[test]
fn the_proved_iteration_is_the_least_that_any_plan_takes() {
    let counted = seeds(500).into_par_iter().map(|seed| {
        let Some((instance, problem)) = problem(seed) else {
            return [0; 4];
        };
        let least_ns = least_ns(&problem);
        let plan = solve("exact", (&instance, &problem), Switches::ALL);
        let Some(least_ns) = least_ns else {
            assert_eq!(plan.status, Status::Infeasible, "seed {seed}");
            return [1, 1, 0, 0];
        };
        assert_eq!(
            plan_ns(&plan),
            Some(least_ns),
            "seed {seed}: {:?}",
            problem.settings
        );
        assert_eq!(plan.status, Status::Optimal, "seed {seed}");
        assert_eq!(simulated_ns(&plan, &problem), least_ns, "seed {seed}");
        let mut wrong = plan;
        wrong.objective_ms = wrong.objective_ms.map(|ms| ms + 1e-6);
        let violations = check::check(&instance, &problem.settings, &wrong);
        assert!(!violations.is_empty(), "seed {seed}");
        for name in ["chunk-even", "chunk-exchange"] {
            let plan = solve(name, (&instance, &problem), Switches::ALL);
            assert!(
                plan_ns(&plan).is_none_or(|ns| ns >= least_ns),
                "seed {seed}: {name}"
            );
            assert!(ns(plan.bound_ms) <= least_ns, "seed {seed}: {name}");
        }
        let period = solve("exact", (&instance, &problem.for_the_period()), Switches::ALL);
        let shorter = u64::from(simulated_ns(&period, &problem) > least_ns);
        [1, 0, shorter, u64::from(!problem.settings.mode.trains())]
    });
    let sum = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|k| a[k] + b[k]);
    let [cases, infeasible, shorter, inferring] = counted.reduce(|| [0; 4], sum);
    println!(
        "{cases} problems: {infeasible} without a plan, {shorter} faster than the plan of the least period, {inferring} of inference"
    );
    assert!(4 * cases > draws(500), "only {cases} of {} are small", draws(500));
    assert!(
        20 * shorter > cases && infeasible > 0 && inferring > 0,
        "too few of some kind"
    );
}

/// Where plans are not looked at one by one, bounds hold and plans are plans.
#[test]
fn no_bound_is_above_the_least_iteration() {
    let met = seeds(500).into_par_iter().map(|seed| {
        let Some((instance, problem)) = problem(seed ^ 0x1_0000) else {
            return [0; 2];
        };
        let least_ns = least_ns(&problem);
        let bounded = methods::bounded(&instance, &problem, &Control::default()).expect("HiGHS works");
        assert!(
            ns(bounded.bound_ms) <= least_ns.unwrap_or(u64::MAX),
            "seed {seed}"
        );
        let switches = Switches::without(["exhaustive"]).expect("a switch");
        let plan = solve("exact", (&instance, &problem), switches);
        let own_ns = plan_ns(&plan).filter(|_| !plan.stages.is_empty());
        assert!(
            own_ns.is_none_or(|own| Some(own) >= least_ns && least_ns.is_some()),
            "seed {seed}"
        );
        assert!(
            ns(plan.bound_ms) <= least_ns.unwrap_or(u64::MAX),
            "seed {seed}: {plan:?} {least_ns:?}"
        );
        assert!(
            plan.status != Status::Optimal || own_ns == least_ns,
            "seed {seed}"
        );
        assert!(
            plan.status != Status::Infeasible || least_ns.is_none(),
            "seed {seed}"
        );
        [
            u64::from(least_ns.is_some()),
            u64::from(own_ns.is_some() && own_ns == least_ns),
        ]
    });
    let [cases, best] = met.reduce(|| [0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
    println!("{cases} problems with plans: the best is found of {best}");
    assert!(10 * best > 8 * cases, "the best of {best} of {cases}");
}
