//! The least period as a bound of an iteration's formula: no plan is below it, whatever else is asked.

use crate::common::draw::{Scope, draw};
use crate::common::{plan_ns, problem_of, rounding_ns, whole_ns};
use crate::oracles::{allocations, brute_force};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::bound_source::BoundSource;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, Objective};
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::schedule::Schedule;
use stagecut::switches::Switches;
use stagecut::units::ms_to_ns;

/// What asks for the period of its own: each search over ideals alone, and all of them without the program.
const SEARCHES: &[&[&str]] = &[
    &["ideal_pairs"],
    &["ideal_tree"],
    &["stage_diagram", "joint_memory"],
    &["ideals", "joint_memory"],
    &["passes_together", "ideal_pairs"],
    &["work_alone", "ideal_tree", "ideal_pairs"],
    &[
        "incumbents",
        "rebalance",
        "apart",
        "absorb",
        "ideals",
        "ideal_pairs",
        "passes_together",
        "joint_memory",
    ],
];

/// A small problem of 1 to 8 micro-batches that asks for the formula, all else drawn: cuts, memory, transfers, workers, stages. Nothing has shares: workers that
/// run both phases at once have no formula.
fn formula_problem(seed: u64) -> Option<(Instance, Problem)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cuts = [Cuts::Tied, Cuts::Separate][usize::from(seed % 2 == 1)];
    let scope = Scope {
        layers: [[2, 6], [2, 4]][usize::from(cuts == Cuts::Separate)],
        chain: seed.is_multiple_of(5),
        mixed: seed.is_multiple_of(3),
        cuts: Some(cuts),
    };
    let mut spec = draw(format!("formula-{seed}"), seed, scope);
    spec.pipeline.objective = Some(Objective::Formula);
    spec.pipeline.micro_batches = Some(rng.random_range(1..=8));
    if spec.pipeline.schedule == Some(Schedule::Pipedream) {
        spec.pipeline.schedule = Some(Schedule::OneFOneB);
    }
    problem_of(&spec).filter(|(_, problem)| problem.items.len() <= 9)
}

fn count<const N: usize>(one: [usize; N], other: [usize; N]) -> [usize; N] {
    std::array::from_fn(|at| one[at] + other[at])
}

/// Work of all items once and the least period as often as micro-batches follow the first, both by brute force.
#[test]
fn no_formula_is_below_that_of_the_least_period() {
    let [compared, equal, separate, limited, dearer] = (0..6_000_u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, formula_problem(seed)?.1)))
        .filter(|(_, problem)| problem.workers.is_none())
        .map(|(seed, problem)| {
            let problem = problem.in_ticks();
            let best = brute_force::solve(&problem).expect("few items");
            let period = brute_force::solve(&problem.for_the_period()).expect("few items");
            let (Some((_, best_ns)), Some((_, period_ns))) = (&best, &period) else {
                assert_eq!(best.is_some(), period.is_some(), "seed {seed}");
                return [0; 5];
            };
            let settings = &problem.settings;
            let followers = settings.micro_batches.map_or(0, |count| count - 1);
            let bound_ns = problem.work_ns() + followers * period_ns;
            assert!(bound_ns <= *best_ns, "seed {seed}: {bound_ns} above {best_ns}");
            let is_equal =
                settings.schedule == Schedule::OneFOneB && settings.communication != Communication::Blocking;
            assert!(
                !is_equal || bound_ns == *best_ns,
                "seed {seed}: {bound_ns} and {best_ns}"
            );
            [
                1,
                usize::from(is_equal),
                usize::from(settings.cuts == Cuts::Separate),
                usize::from(settings.memory_limit.is_some()),
                usize::from(bound_ns < *best_ns),
            ]
        })
        .reduce(|| [0; 5], count);
    assert!(
        compared > 1_000 && equal > 300 && separate > 300 && limited > 300 && dearer > 100,
        "{compared} compared, {equal} equal, {separate} separate, {limited} within memory, {dearer} above the bound"
    );
}

/// What the engine says by the period, with each search that may find it, is no more than the least formula.
#[test]
fn what_the_engine_says_by_the_period_is_no_more_than_the_optimum() {
    let exact = methods::find("exact").expect("a registered method");
    let found = (0..4_000_u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, formula_problem(seed)?)))
        .map(|(seed, (instance, problem))| {
            let best = match &problem.workers {
                None => brute_force::solve(&problem)
                    .expect("few items")
                    .map(|(_, best)| best),
                // The period is not asked there, and must do no harm.
                Some(workers) => match allocations::solve(&problem, workers) {
                    Ok(best) => best.map(|(_, best)| best),
                    Err(_) => return [0; 6],
                },
            };
            let best_ns = best.map_or(u64::MAX, |best| whole_ns(&problem, best));
            let may_differ_ns = rounding_ns(&problem);
            let mut by_period = 0;
            for searches in SEARCHES {
                let mut switches = Switches::NONE;
                for name in searches.iter().chain(&["period"]) {
                    *switches.get_mut(name).expect("a switch") = true;
                }
                let control = Control {
                    switches,
                    ..Control::default()
                };
                let plan = exact.run(&instance, &problem, &control).expect("HiGHS works");
                let bound_ns = plan.bound_ms.and_then(ms_to_ns).unwrap_or(0);
                assert!(
                    bound_ns <= best_ns.saturating_add(may_differ_ns),
                    "seed {seed} by {searches:?}: {bound_ns} above {best_ns}"
                );
                let plan_ns = plan_ns(&plan).unwrap_or(u64::MAX);
                assert!(
                    plan_ns.saturating_add(may_differ_ns) >= best_ns,
                    "seed {seed} by {searches:?}"
                );
                if plan.status == Status::Infeasible {
                    assert_eq!(best_ns, u64::MAX, "seed {seed} by {searches:?}");
                }
                by_period += usize::from(plan.bound_source == BoundSource::Period);
            }
            let settings = &problem.settings;
            let is_said = usize::from(by_period > 0);
            [
                1,
                by_period,
                is_said * usize::from(settings.cuts == Cuts::Separate),
                is_said * usize::from(problem.memory_is_joint()),
                is_said * usize::from(!problem.transfers.is_empty()),
                usize::from(problem.workers.is_some()),
            ]
        })
        .reduce(|| [0; 6], count);
    let [compared, by_period, separate, joint, transfers, unlike] = found;
    assert!(
        compared > 1_000
            && by_period > 1_000
            && separate > 100
            && joint > 20
            && transfers > 300
            && unlike > 20,
        "{compared} compared; {by_period} bounds by the period, on {separate} problems with separate cuts, {joint} of joint memory, \
         {transfers} with transfers; {unlike} with workers that differ"
    );
}
