//! The exact engine for workers that differ, against brute force.

mod common;

use common::mixed::random_mixed;
use stagecut::check::check;
use stagecut::exact::control::Control;
use stagecut::methods;
use stagecut::options::Shares;
use stagecut::oracles::allocations;
use stagecut::plan::{PROOF_TOLERANCE, Status};

/// Objective and status of brute force, and a plan that the checker accepts, whatever the options.
#[test]
fn exact_methods_agree_with_brute_force() {
    let mut compared = 0;
    for seed in 0..5_000 {
        let Some((instance, problem)) = random_mixed(seed) else {
            continue;
        };
        // Ideals cannot tie the shares of all stages together; the program can, where it is linear, and takes its time.
        let is_global = problem.settings.shares == Shares::Global;
        let milp = methods::find("milp").expect("a method");
        if is_global && (seed > 600 || milp.applies(&problem).is_err()) {
            continue;
        }
        let workers = problem.workers.as_ref().expect("a mixed problem");
        let Ok(best) = allocations::solve(&problem, workers) else {
            continue;
        };
        let best_ms = best.map(|(_, objective_ns)| objective_ns as f64 / 1e6);
        for name in ["exact", "ideals"]
            .into_iter()
            .take(if is_global { 1 } else { 2 })
        {
            let method = methods::find(name).expect("a method");
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(
                check(&instance, &problem.settings, &plan),
                [],
                "seed {seed}: {name}"
            );
            // A proof is as good as its tolerance: a ns in 10 ms.
            let of_plan = plan.objective_ms.unwrap_or(f64::INFINITY);
            let best = best_ms.unwrap_or(f64::INFINITY);
            let agrees = of_plan == best || of_plan - best <= PROOF_TOLERANCE * of_plan + 1e-12;
            assert!(
                agrees && of_plan >= best,
                "seed {seed}: {name} finds {of_plan}, not {best}"
            );
            let expected = if best_ms.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            };
            // Programs count in real numbers, so that their bound may stay a few ns below a plan in whole ns.
            let is_close = is_global && plan.gap.is_some_and(|gap| gap * of_plan <= 1e-5);
            assert!(
                plan.status == expected || is_close,
                "seed {seed}: {name} ends {}",
                plan.status
            );
        }
        compared += 1;
    }
    assert!(compared > 1_500, "{compared}");
}
