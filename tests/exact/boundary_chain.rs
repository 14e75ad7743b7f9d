//! Chains of boundaries, against brute force: what they refute has no plan.

use std::cell::Cell;

use crate::common::{problem_of, random_problem, seeds, separate_problem};
use crate::oracles::brute_force;
use rayon::prelude::*;
use stagecut::cost;
use stagecut::exact::boundary_chain::{BoundaryChain, ChainEffort};
use stagecut::generate::random::{Random, random};
use stagecut::instance::Instance;
use stagecut::limits::Answer;
use stagecut::options::{Communication, Mode, PipelineOptions};
use stagecut::problem::{Assignment, Problem};
use stagecut::settings::Settings;

/// What the chain says of a limit and the plans near it, with so many relaxations a boundary and steps.
fn ask(problem: &Problem, limit_ns: u64, nodes: usize, steps: u64) -> (Answer, Vec<Assignment>) {
    let effort = ChainEffort {
        nodes,
        steps_left: &Cell::new(steps),
        must_stop: &|| false,
    };
    let mut chain = BoundaryChain::new(problem).expect("transfers are blocking");
    let answer = chain.within(limit_ns, effort);
    (answer, chain.near)
}

/// Small problems of all kinds, and small networks in many stages, where transfers cross several boundaries.
fn problem(seed: u64) -> Option<Problem> {
    let (_, problem) = match seed % 3 {
        0 => random_problem(seed)?,
        1 => separate_problem(seed)?,
        _ => {
            let mut spec = random(&Random {
                layers: 5 + (seed / 3 % 4) as u32,
                reach: 2 + (seed / 12 % 5) as u32,
                communication: [0.1, 0.3, 1.0][seed as usize / 60 % 3],
                seed,
                ..Random::default()
            });
            let stages = 2 + seed as usize / 180 % 5;
            spec.pipeline.communication = Some(Communication::Blocking);
            spec.pipeline.stages = Some(stages);
            spec.pipeline.devices = Some(stages);
            problem_of(&spec)?
        }
    };
    let problem = problem.for_the_period().in_ticks();
    let is_blocking = problem.settings.communication == Communication::Blocking;
    (is_blocking && !problem.memory_is_joint() && problem.workers.is_none()).then_some(problem)
}

/// No limit is refuted that some plan keeps, whatever the effort; many just below the optimum are. Plans are in order.
#[test]
fn refuted_limits_have_no_plan() {
    let seen = seeds(2_000)
        .into_par_iter()
        .filter_map(|seed| Some((seed, problem(seed)?)))
        .filter_map(|(seed, problem)| {
            let (_, best_ns) = brute_force::solve(&problem).expect("few items")?;
            for (nodes, steps) in [(1, u64::MAX), (16, u64::MAX), (1_000, 50), (1_000, u64::MAX)] {
                for limit_ns in [best_ns, best_ns + best_ns / 20] {
                    let (Answer::Undecided, plans) = ask(&problem, limit_ns, nodes, steps) else {
                        panic!("seed {seed}: {limit_ns} refuted, {best_ns} is possible");
                    };
                    for plan in plans {
                        let in_order = problem
                            .order
                            .raw_edges()
                            .iter()
                            .all(|pair| plan[pair.source().index()] <= plan[pair.target().index()]);
                        assert!(in_order, "seed {seed}: {plan:?}");
                        assert!(cost::stage_costs(&problem, &plan).len() <= problem.stages());
                    }
                }
            }
            let is_tight = best_ns > 0 && ask(&problem, best_ns - 1, 1_000, u64::MAX).0.is_none();
            Some([1, usize::from(is_tight)])
        })
        .reduce(|| [0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
    let [compared, tight] = seen;
    assert!(compared > 300 && tight > compared / 3, "{seen:?}");
}

/// The chain of the page: six layers of 4 ms whose tensors take 1 ms, in three stages.
#[test]
fn work_that_the_first_stage_leaves_is_lost_in_the_chain_of_the_page() {
    let mut built = Instance::builder("chain");
    let layers = ["a", "b", "c", "d", "e", "f"];
    for layer in layers {
        built = built.layer(layer, 4.0, 0.0);
    }
    for pair in layers.windows(2) {
        // 1 ms at 1 GB a second.
        built = built.tensor(pair[0], [pair[1]], 1e6);
    }
    let instance = built.devices("device", 3, 1e9).link(1e9, 0.0).build().unwrap();
    let asked = PipelineOptions {
        communication: Some(Communication::Blocking),
        mode: Some(Mode::Inference),
        ..Default::default()
    };
    let problem = Problem::new(&instance, Settings::resolve(&instance, &asked).unwrap()).unwrap();
    assert!(ask(&problem, 9_500_000, 1, u64::MAX).0.is_none());
    assert!(!ask(&problem, 10_000_000, 1, u64::MAX).0.is_none());
}

/// Without blocking transfers there is no chain.
#[test]
fn other_transfers_have_no_chain() {
    let other = (0..).filter_map(random_problem).map(|(_, problem)| problem);
    let mut other = other.filter(|problem| problem.settings.communication != Communication::Blocking);
    assert!(BoundaryChain::new(&other.next().expect("some seed has one")).is_none());
}
