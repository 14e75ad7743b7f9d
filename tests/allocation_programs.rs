//! Programs of workers that differ, against brute force.

mod common;

use common::mixed::random_mixed;
use stagecut::oracles::allocations;

/// The best plan of brute force is a plan and costs what it says; most draws have one.
#[test]
fn brute_force_finds_plans() {
    let (mut drawn, mut found) = (0, 0);
    for (_, problem) in (0..300).filter_map(random_mixed) {
        let workers = problem.workers.as_ref().expect("a mixed problem");
        drawn += 1;
        let best = allocations::solve(&problem, workers).expect("a small problem");
        if let Some((allocation, objective_ns)) = best {
            found += 1;
            assert!(workers.is_feasible(&problem, &allocation));
            assert_eq!(workers.objective_ns(&problem, &allocation), objective_ns);
        }
    }
    assert!(drawn > 200 && found > 150, "{found} of {drawn}");
}
