//! Items without work that follow others freely: brute force finds the same optimum with and without them.

mod common;

use common::{problem_of, random_spec, separate_spec};
use rayon::prelude::*;
use stagecut::exact::presolve::{self, Reductions};
use stagecut::instance::spec::InstanceSpec;
use stagecut::oracles::brute_force;

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

#[test]
fn following_freely_costs_nothing() {
    let only = Reductions {
        apart: false,
        twins: false,
        ..Reductions::default()
    };
    let joined: usize = (0..20_000_u64)
        .into_par_iter()
        .filter_map(|seed| {
            let spec = match seed % 2 {
                0 => random_spec(seed, seed % 8 == 0),
                _ => separate_spec(seed, 3 + seed as usize / 2 % 2, seed % 8 == 1),
            };
            let (_, problem) = problem_of(&idle(spec, seed))?;
            (problem.items.len() <= 8).then_some((seed, problem))
        })
        .map(|(seed, problem)| {
            let reduced = presolve::reduce(&problem, u64::MAX, &only).problem;
            if reduced.items.len() == problem.items.len() {
                return 0;
            }
            let best_ns = |problem| brute_force::solve(problem).expect("few items").map(|(_, ns)| ns);
            assert_eq!(best_ns(&reduced), best_ns(&problem), "seed {seed}");
            1
        })
        .sum();
    assert!(
        joined > 4000,
        "only {joined} problems have items that follow others"
    );
}
