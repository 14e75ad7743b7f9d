//! Separate forward and backward cuts, against brute force.

mod common;

use std::path::Path;

use common::separate_problem;
use stagecut::check::check;
use stagecut::exact::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, MemoryLimit, PipelineOptions};
use stagecut::oracles::brute_force;
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::settings::Settings;

#[test]
fn exact_methods_agree_with_brute_force() {
    let (mut compared, mut joint, mut apart) = (0, 0, 0);
    for seed in 0..1_000 {
        let Some((instance, problem)) = separate_problem(seed) else {
            continue;
        };
        let best = brute_force::solve(&problem).expect("few items");
        let best_ms = best.map(|(_, objective_ns)| objective_ns as f64 / 1e6);
        for name in ["exact", "milp", "ideals", "textbook"] {
            let method = methods::find(name).expect("a method");
            if method.applies(&problem).is_err() {
                continue;
            }
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(
                check(&instance, &problem.settings, &plan),
                [],
                "seed {seed}: {name}"
            );
            assert_eq!(plan.objective_ms, best_ms, "seed {seed}: {name}");
            let expected = if best_ms.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            };
            assert_eq!(plan.status, expected, "seed {seed}: {name}");
            let is_apart = plan.stages.iter().any(|stage| stage.forward != stage.backward);
            apart += usize::from(is_apart && name == "exact");
        }
        joint += usize::from(problem.memory_is_joint());
        compared += 1;
    }
    assert!(
        compared > 500 && joint > 50 && apart > 50,
        "{compared}, {joint}, {apart}"
    );
}

/// From an independent computation on this profile, communication and memory left out.
#[test]
fn vgg16_gains_what_it_is_known_to_gain() {
    let path = Path::new("../shared/data/pipedream/vgg16.graph.txt");
    if !path.exists() {
        println!("skipped: no measured profiles in ../shared/data");
        return;
    }
    let instance = Instance::read(path, None).expect("a profile");
    let tied = [(2, 370.931), (3, 231.234), (4, 216.450), (6, 159.531)];
    let separate = [(2, 336.763), (3, 224.674), (4, 169.098), (6, 113.330)];
    for (cuts, known) in [(Cuts::Tied, tied), (Cuts::Separate, separate)] {
        for (stages, period_ms) in known {
            let options = PipelineOptions {
                stages: Some(stages),
                cuts: Some(cuts),
                communication: Some(Communication::Ignored),
                memory_limit: Some(MemoryLimit::from(None)),
                ..PipelineOptions::default()
            };
            let settings = Settings::resolve(&instance, &options).expect("options that fit");
            let problem = Problem::new(&instance, settings).expect("a problem");
            let exact = methods::find("exact").expect("a method");
            let plan = exact
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(plan.status, Status::Optimal);
            assert_eq!(check(&instance, &problem.settings, &plan), []);
            let found = plan.objective_ms.expect("a plan");
            assert!(
                (found - period_ms).abs() < 5e-4,
                "{cuts}, {stages} stages: {found}"
            );
        }
    }
}
