//! The exact engine for workers that differ, against brute force.

mod common;

use common::mixed::random_mixed;
use stagecut::check::check;
use stagecut::exact::control::Control;
use stagecut::methods;
use stagecut::options::Shares;
use stagecut::oracles::allocations;
use stagecut::plan::Status;

/// Objective and status of brute force, and a plan that the checker accepts, whatever the options.
#[test]
fn exact_methods_agree_with_brute_force() {
    let mut compared = 0;
    for seed in 0..3_000 {
        let Some((instance, problem)) = random_mixed(seed) else {
            continue;
        };
        if problem.settings.shares == Shares::Global {
            continue;
        }
        let workers = problem.workers.as_ref().expect("a mixed problem");
        let Ok(best) = allocations::solve(&problem, workers) else {
            continue;
        };
        let best_ms = best.map(|(_, objective_ns)| objective_ns as f64 / 1e6);
        for name in ["exact", "ideals"] {
            let method = methods::find(name).expect("a method");
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(
                check(&instance, &problem.settings, &plan),
                [],
                "seed {seed}: {name}"
            );
            assert_eq!(plan.objective_ms, best_ms, "seed {seed}: {name}");
            let expected = if best_ms.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            };
            assert_eq!(plan.status, expected, "seed {seed}: {name}");
        }
        compared += 1;
    }
    assert!(compared > 1_500, "{compared}");
}
