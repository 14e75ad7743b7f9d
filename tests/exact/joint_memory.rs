//! Memory that ties stages together: searches that account for it, and the problem without it, against brute force.

use crate::common::{separate_problem, separate_spec};
use crate::oracles::brute_force;
use rayon::prelude::*;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::exact::bounds;
use stagecut::exact::ideals::IdealSearch;
use stagecut::exact::stage_diagram::DiagramSearch;
use stagecut::instance::Instance;
use stagecut::limits::Answer;
use stagecut::methods;
use stagecut::options::WorkerMode;
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::schedule::Schedule;
use stagecut::switches::Switches;

/// Wide enough for all sets of items of such small problems.
const ALL: usize = 1 << 20;

/// Problems whose memory ties stages together, in stages that take turns.
fn joint_problems(seeds: u64) -> impl ParallelIterator<Item = (u64, Instance, Problem)> {
    (0..seeds).into_par_iter().filter_map(|seed| {
        let (instance, problem) = separate_problem(seed)?;
        let is_ours = problem.memory_is_joint()
            && problem.workers.is_none()
            && problem.settings.worker == WorkerMode::Sequential;
        is_ours.then_some((seed, instance, problem))
    })
}

/// What a pass of either search over ideals finds within a limit.
fn passes(problem: &Problem, limit_ns: u64) -> [Option<Vec<usize>>; 2] {
    let control = Control::default();
    let over_ideals = match IdealSearch::new(problem, &control, u64::MAX).pass(limit_ns) {
        Answer::Plan(plan) => Some(plan),
        Answer::NoPlan { .. } => None,
        other => panic!("{other:?}"),
    };
    let mut diagram = DiagramSearch::new(problem, &control, u64::MAX).expect("few items");
    let over_stages = match diagram.pass(limit_ns, ALL) {
        Answer::Plan(plan) => Some(plan),
        Answer::NoPlan { .. } => None,
        answer => panic!("{answer:?}"),
    };
    [over_ideals, over_stages]
}

/// Either search finds a plan at the optimum that memory holds, and none below it.
#[test]
fn searches_over_ideals_agree_with_brute_force() {
    let [compared, infeasible, dearer, stashes] = joint_problems(30_000)
        .map(|(seed, _, problem)| {
            let problem = problem.for_the_period().in_ticks();
            let best = brute_force::solve(&problem).expect("few items");
            let everything_ns = bounds::all_in_one_ns(&problem);
            let Some((_, best_ns)) = best else {
                assert_eq!(passes(&problem, everything_ns), [None, None], "seed {seed}");
                return [1, 1, 0, 0];
            };
            for limit_ns in [best_ns, best_ns + best_ns / 7, everything_ns] {
                for plan in passes(&problem, limit_ns) {
                    let plan = plan.unwrap_or_else(|| panic!("seed {seed}: no plan within {limit_ns}"));
                    assert!(cost::is_feasible(&problem, &plan), "seed {seed}");
                    assert!(cost::assignment_ns(&problem, &plan) <= limit_ns, "seed {seed}");
                }
            }
            if best_ns > 0 {
                assert_eq!(passes(&problem, best_ns - 1), [None, None], "seed {seed}");
            }
            let loose = problem.with_passes_together().expect("joint memory");
            let loose = brute_force::solve(&loose).expect("few items");
            let (_, loose_ns) = loose.expect("a plan of the problem is one without joint memory");
            assert!(loose_ns <= best_ns, "seed {seed}");
            let moves = problem.settings.schedule != Schedule::Gpipe;
            [
                1,
                0,
                usize::from(loose_ns < best_ns),
                usize::from(moves && loose_ns < best_ns),
            ]
        })
        .reduce(
            || [0; 4],
            |one, other| std::array::from_fn(|at| one[at] + other[at]),
        );
    assert!(
        compared > 1_000 && infeasible > 20 && dearer > 50 && stashes > 20,
        "{compared} compared, {infeasible} infeasible, {dearer} dearer than with passes together, {stashes} of them with stages that stashes fill"
    );
}

/// With either way to look at joint memory, with both and with none, optima are the same and proved.
#[test]
fn each_way_proves_the_same() {
    let exact = methods::find("exact").expect("a registered method");
    let ways = [
        vec![],
        vec!["joint_memory"],
        vec!["passes_together"],
        vec!["program"],
        vec!["program", "passes_together"],
    ];
    let compared: usize = joint_problems(3_000)
        .filter(|(_, _, problem)| problem.formula().is_bottleneck())
        .map(|(seed, instance, problem)| {
            let best = brute_force::solve(&problem).expect("few items");
            for without in &ways {
                let control = Control {
                    switches: Switches::without(without.iter().copied()).expect("switches"),
                    ..Control::default()
                };
                let plan = exact.run(&instance, &problem, &control).expect("HiGHS works");
                let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
                assert!(is_proved, "seed {seed} without {without:?}: {}", plan.status);
                let best_ms = best.as_ref().map(|&(_, ns)| problem.settings.ms(ns));
                assert_eq!(plan.objective_ms, best_ms, "seed {seed} without {without:?}");
            }
            1
        })
        .sum();
    assert!(compared > 100, "{compared} compared");
}

/// Chains of more layers, where ledgers differ: both searches agree.
#[test]
fn searches_agree_on_longer_chains() {
    let compared: usize = (0..2_000_u64)
        .into_par_iter()
        .filter_map(|seed| {
            let (_, problem) = crate::common::problem_of(&separate_spec(seed, 6, true))?;
            let problem = problem.for_the_period().in_ticks();
            let is_ours = problem.memory_is_joint()
                && problem.workers.is_none()
                && problem.settings.worker == WorkerMode::Sequential;
            is_ours.then_some((seed, problem))
        })
        .map(|(seed, problem)| {
            // The least limit with a plan by either search, between the bound and everything.
            let [mut low_ns, mut high_ns] = [0, bounds::all_in_one_ns(&problem)];
            let mut found = false;
            while low_ns < high_ns {
                let middle_ns = low_ns + (high_ns - low_ns) / 2;
                let [over_ideals, over_stages] = passes(&problem, middle_ns);
                assert_eq!(
                    over_ideals.is_some(),
                    over_stages.is_some(),
                    "seed {seed}, {middle_ns} ns"
                );
                for plan in [&over_ideals, &over_stages].into_iter().flatten() {
                    assert!(cost::is_feasible(&problem, plan), "seed {seed}");
                }
                match over_ideals {
                    Some(plan) => {
                        found = true;
                        high_ns = cost::assignment_ns(&problem, &plan).min(middle_ns);
                    }
                    None => low_ns = middle_ns + 1,
                }
            }
            usize::from(found)
        })
        .sum();
    assert!(compared > 50, "{compared} compared");
}
