//! Random problems with anything in them against brute force: whatever the model accepts, alone or together.
//!
//! `RANDOM_PROBLEMS` and `RANDOM_FIRST_SEED` ask for more than the usual number, see `make test-random`.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{any_problem, any_spec, ns, rounding_ns, whole_ns};
use crate::oracles::{allocations, brute_force};
use rayon::prelude::*;
use stagecut::check::check;
use stagecut::control::Control;
use stagecut::heuristics;
use stagecut::instance::Instance;
use stagecut::methods::{self, Method};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;

/// Draws, of which about two in three are problems.
const SEEDS: u64 = 10_000;

/// Most plans of a problem, so that brute force takes milliseconds.
const MOST_PLANS: f64 = 3e5;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |value| value.parse().expect("a whole number"))
}

/// The best objective in whole ns by brute force, `Some(None)` where there is no plan; `None` where it would take too long.
fn by_force(problem: &Problem) -> Option<Option<u64>> {
    let choices = problem
        .workers
        .as_ref()
        .map_or(1, |workers| workers.choices.len());
    let plans = ((problem.stages() * choices) as f64).powi(problem.items.len() as i32);
    let assignments = (problem.stages() as f64).powi(problem.items.len() as i32);
    let groups = (choices as f64).powi(problem.stages() as i32);
    if plans.min(assignments * groups) > MOST_PLANS {
        return None;
    }
    let best = match &problem.workers {
        None => brute_force::solve(problem).ok()?.map(|(_, ticks)| ticks),
        Some(workers) => allocations::solve(problem, workers).ok()?.map(|(_, ticks)| ticks),
    };
    Some(best.map(|ticks| whole_ns(problem, ticks)))
}

/// What is wrong with a plan of a method, if anything.
fn wrong(instance: &Instance, problem: &Problem, plan: &Plan, best_ns: Option<u64>) -> Option<String> {
    let violations = check(instance, &problem.settings, plan);
    if !violations.is_empty() {
        return Some(format!("breaks {violations:?}"));
    }
    let best_ns = best_ns.unwrap_or(u64::MAX);
    let (objective_ns, bound_ns) = (ns(plan.objective_ms), plan.bound_ms.map_or(0, |ms| ns(Some(ms))));
    let rounding_ns = rounding_ns(problem);
    let is_wrong = match plan.status {
        Status::Optimal => objective_ns.abs_diff(best_ns) > rounding_ns,
        Status::Infeasible => best_ns < u64::MAX,
        Status::Feasible | Status::Unknown => {
            objective_ns.saturating_add(rounding_ns) < best_ns
                || bound_ns > best_ns.saturating_add(rounding_ns)
        }
    };
    is_wrong.then(|| {
        format!(
            "ends {} at {objective_ns} ns, bound {bound_ns}, not {best_ns}",
            plan.status
        )
    })
}

/// Whether a method promises to prove the problem.
fn must_prove(method: Method, problem: &Problem) -> bool {
    method.name() == methods::DEFAULT && problem.workers.is_none()
}

#[test]
fn methods_agree_with_brute_force_on_anything() {
    let first = from_environment("RANDOM_FIRST_SEED", 0);
    let count = from_environment("RANDOM_PROBLEMS", SEEDS);
    let (compared, open) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrongs: Vec<String> = (first..first + count)
        .into_par_iter()
        .filter_map(|seed| Some((seed, any_problem(seed)?)))
        .flat_map_iter(|(seed, (instance, problem))| {
            let Some(best_ns) = by_force(&problem) else {
                return Vec::new();
            };
            compared.fetch_add(1, Ordering::Relaxed);
            let exact = methods::find(methods::DEFAULT).expect("the default method");
            // One of the others in turn, since most of the time goes into them.
            let others = ["ideals", "milp", "ideals", "milp", "textbook"];
            let other = methods::find(others[seed as usize % others.len()]).expect("a method");
            let heuristic = &heuristics::METHODS[seed as usize % heuristics::METHODS.len()];
            let mut wrongs = Vec::new();
            for method in [exact, other, Method::Heuristic(heuristic)] {
                if method.applies(&problem).is_err() {
                    continue;
                }
                let plan = method
                    .run(&instance, &problem, &Control::default())
                    .expect("HiGHS works");
                let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
                open.fetch_add(
                    usize::from(method.name() == methods::DEFAULT && !is_proved),
                    Ordering::Relaxed,
                );
                let unproved =
                    (must_prove(method, &problem) && !is_proved).then(|| format!("ends {}", plan.status));
                if let Some(what) = wrong(&instance, &problem, &plan, best_ns).or(unproved) {
                    let path = format!("{}/any-{seed}.json", env!("CARGO_TARGET_TMPDIR"));
                    let text = serde_json::to_string_pretty(&any_spec(seed)).expect("JSON");
                    std::fs::write(&path, text).expect("a file");
                    wrongs.push(format!("seed {seed}: `{}` {what}, see {path}", method.name()));
                    eprintln!("{}", wrongs[wrongs.len() - 1]);
                }
            }
            wrongs
        })
        .collect();
    let (compared, open) = (compared.into_inner(), open.into_inner());
    println!(
        "{compared} of {count} draws from {first} compared, {open} not proved, {} wrong",
        wrongs.len()
    );
    assert_eq!(wrongs, Vec::<String>::new());
    assert!(compared as u64 * 3 > count, "{compared} of {count}");
}
