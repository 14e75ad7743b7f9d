//! The exact methods against brute force and the oracle over ideals, on thousands of small random problems.

use crate::common::{
    any_problem, larger_problem, ns, problem_of, random_problem, random_spec, rounding_ns, seeds,
};
use crate::oracles::brute_force;
use rayon::prelude::*;
use stagecut::check;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::exact::presolve;
use stagecut::exact::{self, bounds};
use stagecut::formulations::partition::item_labels;
use stagecut::formulations::three_block;
use stagecut::methods;
use stagecut::plan::{Plan, Status};
use stagecut::solver::{self, Stop};
use stagecut::spec::{InstanceSpec, TensorSpec};
use stagecut::switches::Switches;

/// Seeds of the random problems: every communication mode, both objectives, with and without memory limits.
const SEEDS: std::ops::Range<u64> = 0..1500;

/// Each exact method finds what brute force finds, with a proof, and agrees on what has no plan at all.
#[test]
fn exact_methods_agree_with_brute_force() {
    let methods = ["exact", "milp", "textbook", "ideals"]
        .map(|name| (name, methods::find(name).expect("a registered method")));
    let solved: usize = SEEDS
        .into_par_iter()
        .map(|seed| {
            let Some((instance, problem)) = random_problem(seed) else {
                return 0;
            };
            let truth = brute_force::solve(&problem).expect("few items");
            let truth_ms = truth.as_ref().map(|(_, ns)| problem.settings.ms(*ns));
            let proved = match truth {
                Some(_) => Status::Optimal,
                None => Status::Infeasible,
            };
            for (name, method) in methods {
                let plan = method
                    .run(&instance, &problem, &Control::default())
                    .expect("HiGHS works");
                let told = || format!("seed {seed}, {name}: {plan:?} {:?}", problem.settings);
                assert_eq!((plan.status, plan.objective_ms), (proved, truth_ms), "{}", told());
                let violations = check::check(&instance, &problem.settings, &plan);
                assert_eq!(violations, [], "{}", told());
            }
            1
        })
        .sum();
    assert!(solved > 1000, "only {solved} valid problems");
}

/// No part of the engine changes an optimum: each switched off alone, then all. Only without the program may a proof be
/// missed: where memory ties stages together, nothing else proves.
#[test]
fn no_switch_changes_an_optimum() {
    /// Switches that are turned off for a problem; others for the next.
    const TURNED: usize = 8;
    let exact = methods::find("exact").expect("a registered method");
    let names = Switches::NAMES;
    let compared: usize = SEEDS
        .into_par_iter()
        .filter_map(|seed| match seed % 4 {
            0 => Some((
                seed,
                any_problem(seed).filter(|(_, problem)| problem.items.len() <= 6)?,
            )),
            _ => Some((seed, random_problem(seed)?)),
        })
        .map(|(seed, (instance, problem))| {
            let run = |switches: Switches| {
                let control = Control {
                    switches,
                    ..Control::default()
                };
                exact.run(&instance, &problem, &control).expect("HiGHS works")
            };
            let is_proved = |plan: &Plan| matches!(plan.status, Status::Optimal | Status::Infeasible);
            let whole = run(Switches::ALL);
            if !is_proved(&whole) {
                // Unlike workers may leave a ns of rounding open.
                assert!(problem.workers.is_some(), "seed {seed}");
                return 0;
            }
            let turn = |at: usize| names[(seed as usize * TURNED + at) % names.len()];
            let off = (0..TURNED).map(|at| (turn(at), Switches::without([turn(at)]).expect("a switch")));
            let slack_ns = rounding_ns(&problem);
            for (name, switches) in off.chain([("everything", Switches::NONE)]) {
                let plan = run(switches);
                let place = format!("seed {seed} without {name}");
                let may_miss = ["program", "iteration_ideals", "everything"].contains(&name)
                    || problem.workers.is_some();
                assert!(may_miss || is_proved(&plan), "{place}: {}", plan.status);
                let best_ns = ns(whole.objective_ms);
                assert!(
                    ns(plan.objective_ms).saturating_add(slack_ns) >= best_ns,
                    "{place}"
                );
                match is_proved(&plan) {
                    true => assert!(ns(plan.objective_ms).abs_diff(best_ns) <= slack_ns, "{place}"),
                    false => assert!(ns(plan.bound_ms) <= best_ns.saturating_add(slack_ns), "{place}"),
                }
            }
            1
        })
        .sum();
    assert!(compared > 300, "{compared}");
}

/// What `bound` claims is never above the optimum, and a problem it calls infeasible has no plan.
#[test]
fn bounds_are_never_above_the_optimum() {
    let checked: usize = SEEDS
        .into_par_iter()
        .filter_map(|seed| Some((seed, random_problem(seed)?)))
        .map(|(seed, (instance, problem))| {
            let truth = brute_force::solve(&problem).expect("few items");
            let labels = item_labels(&instance, &problem);
            let bound = exact::bound(&problem, &labels, &Control::default()).expect("HiGHS works");
            assert!(
                bound.bound_ns <= truth.map_or(u64::MAX, |(_, ns)| ns),
                "seed {seed}: {bound:?}"
            );
            1
        })
        .sum();
    assert!(checked > 1000, "only {checked} valid problems");
}

/// A best plan keeps its bottleneck in the three blocks around any of its stages: their program is feasible at it, and its
/// optimum is no larger.
#[test]
fn three_blocks_hold_every_best_plan() {
    let checked: usize = seeds(500)
        .into_par_iter()
        .filter_map(|seed| Some((seed, random_problem(seed)?)))
        .map(|(seed, (instance, problem))| {
            let labels = item_labels(&instance, &problem);
            let three = problem.before_in_after();
            let Some((plan, _)) = brute_force::solve(&problem).expect("few items") else {
                return 0;
            };
            let stages = cost::stage_costs(&problem, &plan);
            let best_ns = stages
                .iter()
                .map(|stage| stage.bottleneck_ns())
                .max()
                .unwrap_or(0);
            for before in 0..problem.stages() {
                let after = problem.stages() - 1 - before;
                let program = three_block::build(&three, before, after, best_ns, &labels);
                let scale_ns = program.scale_ns;
                let solved =
                    solver::solve(program, None, None, &Control::default(), &|_| ()).expect("HiGHS works");
                assert_eq!(solved.stop, Stop::Optimal, "seed {seed}, {before} before");
                assert!(
                    solved.bound * scale_ns <= best_ns as f64 * (1.0 + 1e-9) + 1e-3,
                    "seed {seed}"
                );
            }
            1
        })
        .sum();
    assert!(checked > 100, "only {checked} problems with a plan");
}

/// Switches do reduce: otherwise the test above would prove nothing.
#[test]
fn reductions_are_at_work() {
    let shrunk = |limit: fn(u64) -> u64, switches: Switches| {
        let problems = (0..500).filter_map(random_problem);
        problems
            .filter(|(_, problem)| {
                let Some((_, best_ns)) = brute_force::solve(problem).expect("few items") else {
                    return false;
                };
                let limit_ns = bounds::bottleneck_from_objective(problem, limit(best_ns)).unwrap_or(0);
                presolve::reduce(problem, limit_ns, &switches).problem.items.len() < problem.items.len()
            })
            .count()
    };
    let none = Switches {
        apart: false,
        absorb: false,
        ..Switches::default()
    };
    let just_below = |best_ns| best_ns - 1;
    let by_apart = shrunk(just_below, Switches { apart: true, ..none });
    let by_absorb = shrunk(just_below, Switches { absorb: true, ..none });
    assert_eq!(shrunk(just_below, none), 0);
    assert!(
        by_apart > 20 && by_absorb > 10,
        "{by_apart} by apart, {by_absorb} by absorb"
    );
}

/// The same network, one of its layers twice: both read and send the same.
fn with_a_twin(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    let network = &mut spec.network;
    let mut twin = network.layers[seed as usize % network.layers.len()].clone();
    let id = std::mem::replace(&mut twin.id, "twin".into());
    network.layers.push(twin);
    for tensor in &mut network.tensors {
        if tensor.consumers.contains(&id) {
            tensor.consumers.push("twin".into());
        }
    }
    let sent = network.tensors.iter().filter(|tensor| tensor.producer == id);
    let sent: Vec<TensorSpec> = sent.cloned().collect();
    network.tensors.extend(sent.into_iter().map(|tensor| TensorSpec {
        producer: "twin".into(),
        ..tensor
    }));
    spec
}

/// Networks with one layer twice: what is asked of the two in addition costs nothing, and something is asked.
#[test]
fn interchangeable_items_keep_to_an_order_at_no_cost() {
    let exact = methods::find("exact").expect("a registered method");
    let ordered: usize = (0..600)
        .into_par_iter()
        .filter_map(|seed| Some((seed, problem_of(&with_a_twin(random_spec(seed, false), seed))?)))
        .map(|(seed, (instance, problem))| {
            let truth = brute_force::solve(&problem).expect("few items");
            let plan = exact
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(
                plan.objective_ms,
                truth.map(|(_, ns)| problem.settings.ms(ns)),
                "seed {seed}"
            );
            let none = Switches {
                apart: false,
                absorb: false,
                ..Switches::default()
            };
            let reduced = presolve::reduce(&problem, u64::MAX, &none).problem;
            usize::from(reduced.order.edge_count() > problem.order.edge_count())
        })
        .sum();
    assert!(
        ordered > 300,
        "only {ordered} problems with interchangeable items"
    );
}

/// The second exact method confirms what the first one proves, on problems too large for brute force.
#[test]
fn ideals_and_program_agree_on_larger_problems() {
    (0..150u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, larger_problem(seed)?)))
        .for_each(|(seed, problem)| {
            let (instance, problem) = problem;
            let [program, ideals] = ["milp", "ideals"].map(|name| {
                let method = methods::find(name).expect("a registered method");
                let plan = method
                    .run(&instance, &problem, &Control::default())
                    .expect("HiGHS works");
                assert_eq!(
                    check::check(&instance, &problem.settings, &plan),
                    [],
                    "seed {seed}"
                );
                (plan.status, plan.objective_ms)
            });
            assert_eq!(program, ideals, "seed {seed}");
        });
}
