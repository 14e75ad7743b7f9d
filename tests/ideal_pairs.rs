//! The dynamic program over pairs of ideals, against brute force and the mixed-integer program.

mod common;

use common::{larger_problem, larger_separate_problem, random_problem, separate_problem};
use rayon::prelude::*;
use stagecut::cost;
use stagecut::exact::bounds;
use stagecut::exact::control::Control;
use stagecut::exact::ideal_pairs::PairSearch;
use stagecut::exact::ideals::{IdealSearch, Pass};
use stagecut::methods;
use stagecut::oracles::brute_force;
use stagecut::problem::Problem;

const SEEDS: std::ops::Range<u64> = 0..6_000;

/// What a comparison saw, to tell that it saw enough.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    compared: usize,
    infeasible: usize,
    bound_by_memory: usize,
    explicit: usize,
}

impl Seen {
    fn plus(self, other: Self) -> Self {
        Self {
            compared: self.compared + other.compared,
            infeasible: self.infeasible + other.infeasible,
            bound_by_memory: self.bound_by_memory + other.bound_by_memory,
            explicit: self.explicit + other.explicit,
        }
    }
}

/// A pass finds a plan at the optimum and none below it.
#[test]
fn passes_agree_with_brute_force() {
    let seen = SEEDS
        .into_par_iter()
        .filter_map(|seed| {
            let (instance, problem) = match seed.is_multiple_of(3) {
                true => random_problem(seed)?,
                false => separate_problem(seed)?,
            };
            let explicit = instance.network.has_explicit_backward();
            Some((seed, explicit, problem.for_the_period()))
        })
        .map(|(seed, explicit, problem)| compare(seed, explicit, &problem))
        .reduce(Seen::default, Seen::plus);
    assert!(
        seen.compared > 2_000 && seen.infeasible > 5 && seen.bound_by_memory > 50 && seen.explicit > 100,
        "{seen:?}"
    );
}

fn compare(seed: u64, explicit: bool, problem: &Problem) -> Seen {
    let control = Control::default();
    let everything_ns = bounds::all_in_one_ns(problem);
    if problem.memory_is_joint() {
        return Seen::default();
    }
    let Some(mut pairs) = PairSearch::new(problem, &control, everything_ns) else {
        return Seen::default();
    };
    let best = brute_force::solve(problem).expect("few items");
    match &best {
        None => assert_eq!(
            pairs.pass(everything_ns, u64::MAX),
            Pass::Exhausted,
            "seed {seed}"
        ),
        &Some((_, best_ns)) => {
            for limit_ns in [best_ns, best_ns + 1_000_000, everything_ns] {
                let Pass::Found(plan) = pairs.pass(limit_ns, u64::MAX) else {
                    panic!("seed {seed}: no plan of {limit_ns} ns");
                };
                assert!(cost::is_feasible(problem, &plan), "seed {seed}");
                assert!(cost::assignment_ns(problem, &plan) <= limit_ns, "seed {seed}");
            }
            for limit_ns in (best_ns / 2..best_ns).rev().step_by(1_000_000) {
                assert_eq!(
                    pairs.pass(limit_ns, u64::MAX),
                    Pass::Exhausted,
                    "seed {seed}: {limit_ns} ns"
                );
            }
        }
    }
    Seen {
        compared: 1,
        infeasible: usize::from(best.is_none()),
        bound_by_memory: usize::from(!problem.memory_never_binds()),
        explicit: usize::from(explicit),
    }
}

/// On problems too large for brute force, the mixed-integer program proves the same optimum.
#[test]
fn passes_agree_with_the_program() {
    let compared: usize = (0..400u64)
        .into_par_iter()
        .filter_map(|seed| match seed.is_multiple_of(4) {
            true => larger_problem(seed),
            false => larger_separate_problem(seed),
        })
        .map(|(instance, problem)| {
            let control = Control::default();
            let everything_ns = bounds::all_in_one_ns(&problem);
            let pairs = PairSearch::new(&problem, &control, everything_ns);
            let Some(mut pairs) = pairs.filter(|_| !problem.memory_is_joint()) else {
                return 0;
            };
            let milp = methods::find("milp").expect("a method");
            let plan = milp.run(&instance, &problem, &control).expect("HiGHS works");
            let name = &plan.instance;
            let Some(best_ms) = plan.objective_ms else {
                assert_eq!(pairs.pass(everything_ns, u64::MAX), Pass::Exhausted, "{name}");
                return 1;
            };
            let best_ns = (best_ms * 1e6).round() as u64;
            assert!(matches!(pairs.pass(best_ns, u64::MAX), Pass::Found(_)), "{name}");
            assert_eq!(pairs.pass(best_ns - 1, u64::MAX), Pass::Exhausted, "{name}");
            let mut ideals = IdealSearch::new(&problem, &control, u64::MAX);
            assert_eq!(ideals.pass(best_ns - 1), Pass::Exhausted, "{name}");
            1
        })
        .sum();
    assert!(compared > 100, "only {compared} were compared");
}
