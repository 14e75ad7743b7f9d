//! Bounds by dual feasible functions: no plan is below them.

use crate::common::{random_problem, separate_problem};
use crate::oracles::brute_force;
use rayon::prelude::*;
use stagecut::exact::bounds::dual_feasible;
use stagecut::instance::Instance;
use stagecut::options::PipelineOptions;
use stagecut::problem::Problem;
use stagecut::settings::Settings;

/// Layers that take so many ms, in so many stages.
fn layers(times_ms: &[f64], stages: usize) -> Problem {
    let mut instance = Instance::builder("layers");
    for (at, &ms) in times_ms.iter().enumerate() {
        instance = instance.layer(format!("layer{at}"), ms, 0.0);
    }
    let instance = instance.devices("gpu", stages, 1e12).link(1e9, 0.0).build();
    let instance = instance.expect("an instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("settings");
    Problem::new(&instance, settings).expect("a problem")
}

#[test]
fn examples_by_hand() {
    let ms = 1_000_000;
    // 23 items in 4 stages: one holds 6.
    assert_eq!(dual_feasible::bottleneck_ns(&layers(&[1.0; 23], 4)), 6 * ms);
    // Small items in the room beside them change nothing.
    let mut times_ms = vec![1.0; 23];
    times_ms.extend([0.01; 20]);
    assert_eq!(dual_feasible::bottleneck_ns(&layers(&times_ms, 4)), 6 * ms);
    // Three items of which no two fit 10 ms.
    let bound_ns = dual_feasible::bottleneck_ns(&layers(&[6.0, 7.0, 5.0, 1.0], 2));
    assert_eq!(bound_ns, 11 * ms);
    // The average, where all items are small.
    assert_eq!(dual_feasible::bottleneck_ns(&layers(&[1.0; 100], 4)), 25 * ms);
}

#[test]
fn no_plan_is_below() {
    let [compared, higher] = (0..12_000_u64)
        .into_par_iter()
        .filter_map(|seed| {
            let (_, problem) = match seed.is_multiple_of(2) {
                true => random_problem(seed)?,
                false => separate_problem(seed)?,
            };
            let problem = problem.for_the_period().in_ticks();
            problem.workers.is_none().then_some((seed, problem))
        })
        .map(|(seed, problem)| {
            let Some((_, best_ns)) = brute_force::solve(&problem).expect("few items") else {
                return [0; 2];
            };
            let bound_ns = dual_feasible::bottleneck_ns(&problem);
            assert!(bound_ns <= best_ns, "seed {seed}: {bound_ns} above {best_ns}");
            let largest_ns = problem.items.iter().map(|item| item.work_ns()).max();
            let average_ns = problem.work_ns().div_ceil(problem.stages() as u64);
            let simple_ns = average_ns.max(largest_ns.unwrap_or(0));
            [1, usize::from(bound_ns > simple_ns)]
        })
        .reduce(|| [0; 2], |one, other| [one[0] + other[0], one[1] + other[1]]);
    assert!(
        compared > 4_000 && higher > 300,
        "{compared} compared, {higher} higher"
    );
}
