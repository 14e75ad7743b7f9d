//! The exact methods against brute force and the oracle over ideals, on thousands of small random problems.

mod common;

use common::random_problem;
use rayon::prelude::*;
use stagecut::check;
use stagecut::exact::control::Control;
use stagecut::methods;
use stagecut::oracles::brute_force;
use stagecut::plan::Status;
use stagecut::units::ns_to_ms;

/// Seeds of the random problems: every communication mode, both objectives, with and without memory limits.
const SEEDS: std::ops::Range<u64> = 0..3000;

/// Each method finds what brute force finds, with a proof, and agrees on what has no plan at all.
fn agrees_with_brute_force(method: &str) {
    let method = methods::find(method).expect("a registered method");
    let solved: usize = SEEDS
        .into_par_iter()
        .map(|seed| {
            let Some((instance, problem)) = random_problem(seed) else {
                return 0;
            };
            let truth = brute_force::solve(&problem).expect("few items");
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(
                plan.objective_ms,
                truth.as_ref().map(|(_, ns)| ns_to_ms(*ns)),
                "seed {seed}"
            );
            let proved = if truth.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            };
            assert_eq!(
                plan.status, proved,
                "seed {seed}: {plan:?} {:?}",
                problem.settings
            );
            assert_eq!(
                check::check(&instance, &problem.settings, &plan),
                [],
                "seed {seed}"
            );
            1
        })
        .sum();
    assert!(solved > 2000, "only {solved} valid problems");
}

#[test]
fn exact_agrees_with_brute_force() {
    agrees_with_brute_force("exact");
}

#[test]
fn milp_agrees_with_brute_force() {
    agrees_with_brute_force("milp");
}

#[test]
fn textbook_agrees_with_brute_force() {
    agrees_with_brute_force("textbook");
}

#[test]
fn ideals_agrees_with_brute_force() {
    agrees_with_brute_force("ideals");
}
