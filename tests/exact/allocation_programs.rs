//! Programs of workers that differ, against brute force.

use crate::common::mixed::{mixed_spec, random_mixed};
use crate::common::{draws, problem_of, seeds};
use crate::oracles::allocations;
use stagecut::control::Control;
use stagecut::exact::heterogeneous::program::{self, Form, Kind};
use stagecut::exact::incumbent::Incumbent;
use stagecut::formulations::partition::item_labels;
use stagecut::formulations::staging::Windows;
use stagecut::instance::Instance;
use stagecut::options::{Groups, Shares, WorkerMode};
use stagecut::plan::{Outcome, StoppedBy, is_proved};
use stagecut::problem::Problem;

/// What rounding of two phases, and of the messages of a ring, may leave between a bound and its plan, in ns.
const ROUNDING_NS: u64 = 10;

/// Choices up to which the devices program is asked where groups are assigned: it takes seconds beyond.
const MOST_CHOICES: usize = 20;

fn solve(form: &Form, presolve: bool, instance: &Instance, problem: &Problem) -> Outcome {
    let labels = item_labels(instance, problem);
    let windows = Windows::all(problem);
    let control = Control::default();
    program::solve(
        form,
        &windows,
        presolve,
        Incumbent::new(problem, &control),
        &labels,
    )
    .expect("HiGHS works")
}

/// The best plan of brute force is a plan and costs what it says; most draws have one.
#[test]
fn brute_force_finds_plans() {
    let (mut drawn, mut found) = (0, 0);
    for (_, problem) in (0..300).filter_map(random_mixed) {
        let workers = problem.workers.as_ref().expect("a mixed problem");
        drawn += 1;
        let best = allocations::solve(&problem, workers).expect("a small problem");
        if let Some((allocation, objective_ns)) = best {
            found += 1;
            assert!(workers.is_feasible(&problem, &allocation));
            assert_eq!(workers.objective_ns(&problem, &allocation), objective_ns);
        }
    }
    assert!(drawn > 200 && found > 150, "{found} of {drawn}");
}

/// Whatever a program can express, it solves as brute force does, and proves it up to rounding.
#[test]
fn programs_agree_with_brute_force() {
    let (mut by_devices, mut by_groups, mut refused, mut proved, mut open) = (0, 0, 0, 0, 0);
    for seed in seeds(300) {
        let Some((instance, problem)) = random_mixed(seed) else {
            continue;
        };
        let workers = problem.workers.as_ref().expect("a mixed problem");
        let best = allocations::solve(&problem, workers).expect("a small problem");
        let mut is_refused = true;
        for kind in [Kind::Groups, Kind::Devices] {
            let Ok(form) = Form::of_kind(kind, &problem, workers) else {
                continue;
            };
            is_refused = false;
            if kind == Kind::Devices && workers.choices.len() > MOST_CHOICES {
                continue;
            }
            match kind {
                Kind::Groups => by_groups += 1,
                Kind::Devices => by_devices += 1,
            }
            let presolve = seed % 3 > 0;
            let solved = solve(&form, presolve, &instance, &problem);
            assert_eq!(solved.stopped_by, StoppedBy::Completed, "seed {seed}");
            let Some((_, best_ns)) = &best else {
                assert_eq!(solved.allocation, None, "seed {seed}, {kind:?}");
                assert_eq!(solved.bound_ns, u64::MAX, "seed {seed}, {kind:?}");
                continue;
            };
            let allocation = solved
                .allocation
                .unwrap_or_else(|| panic!("a plan, seed {seed}, {kind:?}"));
            assert!(workers.is_feasible(&problem, &allocation), "seed {seed}");
            let objective_ns = workers.objective_ns(&problem, &allocation);
            let near = |a: u64, b: u64| a.abs_diff(b) <= ROUNDING_NS;
            assert!(
                near(objective_ns, *best_ns),
                "seed {seed}, {kind:?}: {objective_ns} and {best_ns}"
            );
            assert!(
                near(solved.bound_ns, objective_ns),
                "seed {seed}, {kind:?}: bound {} of {objective_ns}",
                solved.bound_ns
            );
            assert!(solved.bound_ns <= *best_ns, "seed {seed}, {kind:?}");
            if form.rounding_ns() <= 0.5 {
                assert_eq!(objective_ns, *best_ns, "seed {seed}, {kind:?}");
                // Within the tolerance of the solver a ns may stay open (seed 38), and the bound says so.
                match is_proved(objective_ns, solved.bound_ns) {
                    true => proved += 1,
                    false => open += 1,
                }
            }
        }
        refused += u32::from(is_refused);
    }
    let counts = format!(
        "{by_groups} by groups, {by_devices} by devices, {refused} refused, {proved} proved, {open} open"
    );
    let draws = draws(300) as u32;
    assert!(
        by_groups * 10 > draws && by_devices * 2 > draws && refused * 5 < draws,
        "{counts}"
    );
    assert!(proved * 3 > draws && open * 20 < proved, "{counts}");
}

/// With one type of resource the best share for all stages has a closed form: with A and B the least forward and backward
/// speeds of any stage, β A = (1 - β) B.
#[test]
fn one_global_share_has_a_closed_form() {
    let mut compared = 0;
    for (_, problem) in (0..3000).filter_map(random_mixed) {
        let workers = problem.workers.as_ref().expect("a mixed problem");
        let any_share = workers.classes.iter().all(|class| class.levels[0].is_none());
        let settings = &problem.settings;
        let is_global = settings.worker == WorkerMode::Concurrent && settings.shares == Shares::Global;
        if !is_global || !any_share || workers.resource_names.len() > 1 {
            continue;
        }
        let best = allocations::solve(&problem, workers).expect("a small problem");
        let Some((best, _)) = best else { continue };
        let mut least = [f64::INFINITY; 2];
        let works = workers.works(&problem, &best.assignment, best.choices.len());
        for (work, &choice) in works.iter().zip(&best.choices) {
            let choice = &workers.choices[choice];
            for (phase, least) in least.iter_mut().enumerate() {
                let speed = |(class, resource): (usize, usize)| {
                    let rates = &workers.classes[class].resources[resource];
                    let time_ns = work.times_ns[class].expect("it can run")[phase] as f64;
                    let devices = choice.devices[class] as f64;
                    devices * [rates.forward_rate, rates.backward_rate][phase] / time_ns
                };
                *least = least.min(workers.resources(choice).map(speed).sum());
            }
        }
        if least.iter().any(|speed| speed.is_infinite()) {
            continue;
        }
        let share = least[1] / (least[0] + least[1]);
        assert!((best.global[0] - share).abs() < 1e-9);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// With the partition of a best plan given, the same programs find devices as good as that plan's.
#[test]
fn a_given_partition_gets_its_best_devices() {
    let mut solved = 0;
    for (instance, problem) in (1000..1150).filter_map(random_mixed) {
        let workers = problem.workers.as_ref().expect("a mixed problem");
        let best = allocations::solve(&problem, workers).expect("a small problem");
        let (Some((best, best_ns)), Ok(form)) = (best, Form::new(&problem, workers)) else {
            continue;
        };
        let labels = item_labels(&instance, &problem);
        let control = Control::default();
        let found = program::for_partition(&form, &best.assignment, &labels, &control);
        let found = found.expect("HiGHS works").allocation.expect("a plan");
        assert_eq!(found.assignment, best.assignment);
        assert!(workers.objective_ns(&problem, &found).abs_diff(best_ns) <= ROUNDING_NS);
        solved += 1;
    }
    assert!(solved > 80, "{solved}");
}

/// Shares in ever finer parts come down to any share at all, in groups and on single devices.
#[test]
fn any_share_is_the_limit_of_parts() {
    let mut compared = 0;
    for seed in seeds(40) {
        let objective_ns = |parts: Option<usize>| {
            let mut spec = mixed_spec(seed);
            let kinds = &mut spec.cluster.as_mut()?.device_kinds;
            let resources = kinds.iter_mut().flat_map(|kind| &mut kind.resources);
            resources.for_each(|resource| resource.levels.clear());
            if spec.pipeline.worker != Some(WorkerMode::Concurrent) {
                return None;
            }
            spec.pipeline.shares = Some(Shares::Best);
            spec.pipeline.share_parts = parts;
            let (instance, problem) = problem_of(&spec)?;
            let workers = problem.workers.as_ref()?;
            let form = Form::new(&problem, workers).ok()?;
            let is_quick = problem.items.len() <= 4 || problem.settings.groups == Groups::Given;
            let solved = is_quick.then(|| solve(&form, true, &instance, &problem))?;
            Some(workers.objective_ns(&problem, &solved.allocation?))
        };
        let Some(any) = objective_ns(None) else {
            continue;
        };
        let parts = [3, 6, 24].map(|parts| objective_ns(Some(parts)).expect("a plan") + ROUNDING_NS);
        assert!(any <= parts[2] && parts[2] <= parts[1] + ROUNDING_NS && parts[1] <= parts[0] + ROUNDING_NS);
        assert!(
            parts[2] as f64 <= 1.2 * any as f64 + 2e1,
            "seed {seed}: {any} and {parts:?}"
        );
        compared += 1;
    }
    assert!(compared > 4, "{compared}");
}
