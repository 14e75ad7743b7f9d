//! Items without work: those that follow others freely change no optimum, and without pendant items none is above.

use crate::common::{problem_of, random_spec, separate_spec};
use crate::oracles::brute_force;
use rayon::prelude::*;
use stagecut::cost;
use stagecut::exact::homogeneous::pendant::WithoutPendantItems;
use stagecut::exact::presolve;
use stagecut::problem::Problem;
use stagecut::spec::InstanceSpec;
use stagecut::switches::Switches;

/// The same network with about every second pass taking no time.
fn idle(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    for (i, layer) in spec.network.layers.iter_mut().enumerate() {
        let draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32 * 7);
        for (pass, ms) in [&mut layer.forward_ms, &mut layer.backward_ms]
            .into_iter()
            .enumerate()
        {
            if draw >> pass & 1 == 1 && ms.is_some() {
                *ms = Some(0.0);
            }
        }
    }
    spec
}

/// Problems of at most 8 items with many passes that take no time.
fn idle_problems(seeds: u64) -> impl ParallelIterator<Item = (u64, Problem)> {
    (0..seeds).into_par_iter().filter_map(|seed| {
        let spec = match seed % 2 {
            0 => random_spec(seed, seed % 8 == 0),
            _ => separate_spec(seed, 3 + seed as usize / 2 % 2, seed % 8 == 1),
        };
        // Some that take time join others too, where transfers are blocking.
        let spec = if seed % 5 == 0 { spec } else { idle(spec, seed) };
        let (_, problem) = problem_of(&spec)?;
        (problem.items.len() <= 8).then_some((seed, problem))
    })
}

fn best(problem: &Problem) -> Option<(Vec<usize>, u64)> {
    brute_force::solve(problem).expect("few items")
}

#[test]
fn following_freely_costs_nothing() {
    let only = Switches {
        apart: false,
        symmetry: false,
        ..Switches::default()
    };
    let joined: usize = idle_problems(20_000)
        .map(|(seed, problem)| {
            let reduced = presolve::reduce(&problem, u64::MAX, &only).problem;
            if reduced.items.len() == problem.items.len() {
                return 0;
            }
            let best_ns = |problem| best(problem).map(|(_, ns)| ns);
            assert_eq!(best_ns(&reduced), best_ns(&problem), "seed {seed}");
            1
        })
        .sum();
    assert!(
        joined > 4000,
        "only {joined} problems have items that follow others"
    );
}

/// No plan is below the least period without pendant items, and plans without them are plans with them beside their hosts.
#[test]
fn pendant_items_only_add() {
    let compared: usize = idle_problems(20_000)
        .filter_map(|(seed, problem)| Some((seed, WithoutPendantItems::new(&problem, u64::MAX)?, problem)))
        .filter(|(_, _, problem)| problem.formula().is_bottleneck())
        .map(|(seed, without, problem)| {
            let Some((plan, ns)) = best(&problem) else {
                return 0;
            };
            let (least, least_ns) = best(&without.problem).expect("what is left of a plan");
            assert!(least_ns <= ns, "seed {seed}");
            let restricted = without.restrict(&plan);
            assert!(cost::is_feasible(&without.problem, &restricted), "seed {seed}");
            assert!(
                cost::assignment_ns(&without.problem, &restricted) <= ns,
                "seed {seed}"
            );
            let extended = without.extend(&least);
            if !cost::is_feasible(&problem, &extended) {
                assert!(!problem.memory_never_binds(), "seed {seed}");
                return 0;
            }
            let settled = without.settled(&problem, extended.clone());
            assert!(cost::is_feasible(&problem, &settled), "seed {seed}");
            let [settled_ns, extended_ns] =
                [settled, extended].map(|plan| cost::assignment_ns(&problem, &plan));
            assert!(ns <= settled_ns && settled_ns <= extended_ns, "seed {seed}");
            usize::from(without.problem.work_ns() > 0)
        })
        .sum();
    assert!(compared > 1000, "only {compared} problems have pendant items");
}
