//! The dynamic program over pairs of ideals, against brute force and the mixed-integer program.

use crate::common::{
    larger_problem, larger_separate_problem, problem_of, random_problem, seeds, separate_problem,
};
use crate::oracles::brute_force;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::exact::bounds;
use stagecut::exact::ideal_pairs::{Caps, PairSearch};
use stagecut::exact::ideals::IdealSearch;
use stagecut::limits::Answer;
use stagecut::methods;
use stagecut::options::{Communication, Mode, PipelineOptions};
use stagecut::problem::{Assignment, Problem};
use stagecut::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};
use stagecut::switches::Switches;

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
    let seen = seeds(2_000)
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
        seen.compared > 500 && seen.infeasible > 0 && seen.bound_by_memory > 5 && seen.explicit > 10,
        "{seen:?}"
    );
}

fn compare(seed: u64, explicit: bool, problem: &Problem) -> Seen {
    if problem.memory_is_joint() {
        return Seen::default();
    }
    let all = Switches::default();
    let mut best = None;
    let usual = Caps::new(problem.settings.communication, 1 << 30);
    // With so few pairs that are looked at one by one, cut states stay coarse.
    let coarse = Caps { pairs: 64, ..usual };
    let cut_states = Switches {
        cut_states: false,
        ..all
    };
    let dominance = Switches {
        dominance: false,
        ..all
    };
    let beam = Switches { beam: false, ..all };
    for (switches, caps) in [
        (all, usual),
        (all, coarse),
        (all, Caps { pairs: 0, ..usual }),
        (cut_states, usual),
        (dominance, usual),
        (dominance, coarse),
        (beam, usual),
        (beam, coarse),
    ] {
        let control = Control {
            switches,
            ..Control::default()
        };
        let everything_ns = bounds::all_in_one_ns(problem);
        let Some(mut pairs) = PairSearch::capped(problem, &control, caps, everything_ns) else {
            return Seen::default();
        };
        let best = best.get_or_insert_with(|| brute_force::solve(problem).expect("few items"));
        let name = format!("seed {seed}, {switches:?}, {caps:?}");
        match best.as_ref().map(|&(_, best_ns)| best_ns) {
            None => assert!(pairs.pass(everything_ns, u64::MAX).is_none(), "{name}"),
            Some(best_ns) => {
                compare_passes(&mut pairs, problem, best_ns, &name);
                let best = best.as_ref().map(|(best, _)| best);
                best.into_iter()
                    .for_each(|best| look_near(&mut pairs, problem, best, &name));
            }
        }
    }
    Seen {
        compared: 1,
        infeasible: usize::from(best.flatten().is_none()),
        bound_by_memory: usize::from(!problem.memory_never_binds()),
        explicit: usize::from(explicit),
    }
}

/// Tensors that cross several boundaries are paid for once at either end, and cut states may count them no more often.
#[test]
fn passes_agree_with_brute_force_where_tensors_go_far() {
    let compared: usize = (0..600u64)
        .into_par_iter()
        .filter_map(|seed| problem_of(&two_chains(seed)))
        .map(|(_, problem)| compare(0, false, &problem).compared)
        .sum();
    assert!(compared > 500, "only {compared} were compared");
}

/// Two chains in 4 stages, with tensors from any layer to later ones of its chain.
fn two_chains(seed: u64) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut layers, mut tensors) = (Vec::new(), Vec::new());
    for (chain, count) in [("a", 5), ("b", 3)] {
        let name = |layer: usize| format!("{chain}{layer}");
        for layer in 0..count {
            layers.push(LayerSpec {
                id: name(layer),
                forward_ms: Some(f64::from(rng.random_range(1..=9))),
                ..Default::default()
            });
            let next = layer + 1..(layer + 2).min(count);
            let further: Vec<usize> = (layer + 2..count).filter(|_| rng.random_bool(0.4)).collect();
            for consumers in [next.collect(), further].iter().filter(|to| !to.is_empty()) {
                tensors.push(TensorSpec {
                    producer: name(layer),
                    consumers: consumers.iter().map(|&to| name(to)).collect(),
                    transfer_ms: Some(f64::from(rng.random_range(0..=3))),
                    ..Default::default()
                });
            }
        }
    }
    InstanceSpec {
        network: NetworkSpec {
            layers,
            tensors,
            ..Default::default()
        },
        pipeline: PipelineOptions {
            stages: Some(4),
            communication: Some(Communication::Blocking),
            mode: Some(Mode::Inference),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Passes find plans at limits from the optimum on and prove that there are none below; one that is given up claims nothing.
fn compare_passes(pairs: &mut PairSearch, problem: &Problem, best_ns: u64, name: &str) {
    let everything_ns = bounds::all_in_one_ns(problem);
    for limit_ns in [best_ns, best_ns + 1_000_000, everything_ns] {
        for most_steps in [u64::MAX, 0, 20] {
            match pairs.pass(limit_ns, most_steps) {
                Answer::Plan(plan) => {
                    assert!(cost::is_feasible(problem, &plan), "{name}");
                    let limit_ns = problem.settings.whole_ns(limit_ns);
                    assert!(cost::assignment_ns(problem, &plan) <= limit_ns, "{name}");
                }
                Answer::Stopped(_) if most_steps < u64::MAX => {}
                other => panic!("{name}: {other:?} within {limit_ns} ns"),
            }
        }
    }
    // Objectives are whole ns: nothing lies between the best one and a ns less.
    let below_ns = best_ns.saturating_sub(problem.settings.ticks_per_ns);
    for limit_ns in (best_ns / 2..=below_ns).rev().step_by(1_000_000) {
        let pass = pairs.pass(limit_ns, u64::MAX);
        assert_eq!(pass, Answer::none_within(limit_ns), "{name}: {limit_ns} ns");
    }
}

/// Near the best plan there is one as good, in any corridor, and none better.
fn look_near(pairs: &mut PairSearch, problem: &Problem, best: &Assignment, name: &str) {
    let best_ns = cost::assignment_ns(problem, best);
    for width in [0, 1, 1_000] {
        match pairs.near(best, width, best_ns, u64::MAX) {
            Answer::Plan(plan) => assert_eq!(cost::assignment_ns(problem, &plan), best_ns, "{name}"),
            // Where a stage could take more it does, which may lead out of a corridor.
            other => assert!(width < 1_000 && other.is_none(), "{name}: {other:?}"),
        }
        let better = pairs.near(best, width, best_ns - problem.settings.ticks_per_ns, u64::MAX);
        assert!(better.is_none(), "{name}: {width}");
    }
}

/// Where only ideals are listed that count for some limit, passes within it find and prove the same.
#[test]
fn ideals_that_count_are_enough() {
    let partial: usize = (0..1_000u64)
        .into_par_iter()
        .filter_map(|seed| {
            let mut spec = two_chains(seed);
            let modes = [
                Communication::Ignored,
                Communication::Overlapped,
                Communication::Blocking,
            ];
            spec.pipeline.communication = Some(modes[seed as usize % 3]);
            Some((seed, problem_of(&spec)?.1))
        })
        .map(|(seed, problem)| {
            let Some((_, best_ns)) = brute_force::solve(&problem).expect("few items") else {
                return 0;
            };
            let control = Control::default();
            let few = |near_bound| Caps {
                all: 4,
                near_bound,
                ..Caps::new(problem.settings.communication, 1 << 30)
            };
            let within = |caps| PairSearch::capped(&problem, &control, caps, best_ns);
            let is_partial = within(few(0)).is_none();
            let pairs = within(few(5));
            let Some(mut pairs) = pairs.filter(|_| is_partial) else {
                return 0;
            };
            let within_ns = pairs.most_ns();
            match pairs.pass(within_ns, u64::MAX) {
                Answer::Plan(plan) => {
                    assert_eq!(cost::assignment_ns(&problem, &plan), best_ns, "seed {seed}")
                }
                pass => assert!(pass.is_none() && within_ns < best_ns, "seed {seed}: {pass:?}"),
            }
            if let Some(below_ns) = best_ns.checked_sub(problem.settings.ticks_per_ns) {
                let pass = pairs.pass(within_ns.min(below_ns), u64::MAX);
                assert!(pass.is_none(), "seed {seed}");
            }
            1
        })
        .sum();
    assert!(partial > 100, "only {partial} were compared");
}

/// What a pass finds, and when it gives up, does not depend on the number of threads.
#[test]
fn threads_change_nothing() {
    let passes = |problem: &Problem| {
        let control = Control::default();
        let everything_ns = bounds::all_in_one_ns(problem);
        let mut pairs = PairSearch::new(problem, &control, everything_ns)?;
        let mut pass = |part| pairs.pass(everything_ns * part / 20, 2_000);
        Some((1..=20).map(&mut pass).collect::<Vec<Answer>>())
    };
    let with = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let problems = (0..100).filter_map(larger_separate_problem);
        pool.expect("threads")
            .install(|| problems.map(|(_, problem)| passes(&problem)).collect::<Vec<_>>())
    };
    let one = with(1);
    assert!(
        one.iter()
            .flatten()
            .flatten()
            .any(|pass| matches!(pass, Answer::Stopped(_)))
    );
    assert!(
        one.iter()
            .flatten()
            .flatten()
            .any(|pass| matches!(pass, Answer::Plan(_)))
    );
    assert!(one == with(4));
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
                assert!(pairs.pass(everything_ns, u64::MAX).is_none(), "{name}");
                return 1;
            };
            let ticks_per_ns = problem.settings.ticks_per_ns;
            let best_ns = (best_ms * 1e6).round() as u64 * ticks_per_ns;
            assert!(matches!(pairs.pass(best_ns, u64::MAX), Answer::Plan(_)), "{name}");
            assert!(pairs.pass(best_ns - ticks_per_ns, u64::MAX).is_none(), "{name}");
            let mut ideals = IdealSearch::new(&problem, &control, u64::MAX);
            assert!(ideals.pass(best_ns - ticks_per_ns).is_none(), "{name}");
            1
        })
        .sum();
    assert!(compared > 100, "only {compared} were compared");
}
