//! Stages that share out their items two at a time.

use crate::common::random_problem;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::cost;
use stagecut::heuristics::rebalance::rebalance;
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::problem::Problem;
use stagecut::settings::Settings;

/// Layers without tensors of random times, in four stages.
fn layers(count: usize, seed: u64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut instance = Instance::builder("layers");
    for at in 0..count {
        let ms = f64::from(rng.random_range(1_000..1_000_000_u32)) / 1e6;
        instance = instance.layer(format!("layer{at}"), ms, 0.0);
    }
    let instance = instance.devices("gpu", 4, 1e12).link(1e9, 0.0).build();
    let instance = instance.expect("an instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("settings");
    Problem::new(&instance, settings).expect("a problem")
}

/// Where no item has an order, most networks are parted as evenly as whole ns allow.
#[test]
fn items_without_an_order_are_parted_evenly() {
    let even = (0..40_u64).into_par_iter().filter(|&seed| {
        let problem = layers(40, seed);
        let plan = (0..40).map(|item| item % 4).collect();
        let goal_ns = problem.work_ns().div_ceil(4);
        let plan = rebalance(&problem, &plan, goal_ns, seed, &|| false);
        assert!(cost::is_feasible(&problem, &plan), "seed {seed}");
        cost::assignment_ns(&problem, &plan) == goal_ns
    });
    let even = even.count();
    assert!(even >= 20, "only {even} of 40");
}

/// A plan of anything stays a plan, and none gets worse.
#[test]
fn plans_stay_plans() {
    let compared: usize = (0..4_000_u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, random_problem(seed)?.1.for_the_period())))
        .filter(|(_, problem)| problem.workers.is_none())
        .map(|(seed, problem)| {
            let plan = vec![0; problem.items.len()];
            if !cost::is_feasible(&problem, &plan) {
                return 0;
            }
            let goal_ns = problem.work_ns() / problem.stages() as u64;
            let before_ns = cost::assignment_ns(&problem, &plan);
            let plan = rebalance(&problem, &plan, goal_ns, seed, &|| false);
            assert!(cost::is_feasible(&problem, &plan), "seed {seed}");
            let after_ns = cost::assignment_ns(&problem, &plan);
            assert!(after_ns <= before_ns, "seed {seed}");
            1
        })
        .sum();
    assert!(compared > 500, "only {compared} plans");
}
