//! Iterations of stages in modes against brute force: every plan run by written lists.

use stagecut::exact::{self};
use stagecut::methods::Method;
use stagecut::instance::Instance;
use stagecut::options::{Objective, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::settings::Settings;
use stagecut::simulate::{self, Request};

/// Small problems of all that modes know, each as it is and with stages that are alike.
#[test]
fn iterations_are_those_of_brute_force() {
    let seeds: u64 = std::env::var("MODAL_ITERATIONS").map_or(1_500, |text| text.parse().unwrap());
    let first: u64 = std::env::var("MODAL_ITERATIONS_FIRST").map_or(0, |text| text.parse().unwrap());
    let (mut compared, mut proved, mut replicated) = (0, 0, 0);
    for seed in first..first + seeds {
        let mut spec = crate::common::modal::random_modal(seed);
        if seed % 4 > 0 {
            // What is computed again is computed again in the backward pass.
            for layer in &mut spec.network.layers {
                let forward: Vec<_> = layer.modes.iter().map(|mode| (mode.tensor, mode.forward_ms)).collect();
                for mode in &mut layer.modes {
                    mode.forward_ms = forward.iter().find(|own| own.0 == mode.tensor).unwrap().1;
                }
            }
        }
        let instance = Instance::from_spec(&spec).unwrap();
        for uniform in [false, true] {
            let options = PipelineOptions {
                objective: Some(Objective::Iteration),
                uniform: uniform.then_some(true),
                ..PipelineOptions::default()
            };
            let Ok(settings) = Settings::resolve(&instance, &options) else {
                continue;
            };
            if !settings.modal {
                continue;
            }
            let Ok(problem) = stagecut::problem::Problem::new(&instance, settings.clone()) else {
                continue;
            };
            let method = Method::Exact(exact::Method::Exact);
            let plan = method.run(&instance, &problem, &Default::default()).unwrap();
            let best = crate::oracles::modes::best_iteration_ns(&instance, &settings, uniform);
            let ns = |ms: f64| (ms * 1e6).round() as u64;
            let context = || format!("seed {seed}, uniform {uniform}: {:?} {:?}, best {best:?}", plan.status, plan.objective_ms);
            compared += 1;
            assert!(stagecut::check::check(&instance, &settings, &plan).is_empty(), "{}\n{:#?}", context(), stagecut::check::check(&instance, &settings, &plan));
            match (plan.objective_ms.map(ns), best) {
                (Some(found), Some(best)) => {
                    assert!(found >= best && ns(plan.bound_ms.unwrap()) <= best, "{}", context());
                    runs_as_it_says(&plan, found);
                }
                (None, None) => {}
                (None, Some(_)) => assert!(plan.status == Status::Unknown, "{}", context()),
                (Some(_), None) => panic!("{}", context()),
            }
            let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
            assert!(is_proved || seed % 4 == 0, "open: {}", context());
            if is_proved {
                assert_eq!(plan.objective_ms.map(ns), best, "{}", context());
            }
            proved += usize::from(is_proved);
            replicated += usize::from(plan.stages.iter().any(|stage| stage.replicas() > 1));
        }
    }
    println!("{compared} compared, {proved} proved, {replicated} with replicas");
    assert!(proved * 10 >= compared * 9 && replicated * 10 > compared, "{compared} compared, {proved} proved, {replicated} with replicas");
}

fn runs_as_it_says(plan: &Plan, objective_ns: u64) {
    let run = simulate::simulate(plan, &Request::default()).unwrap();
    assert_eq!((run.iteration_ms * 1e6).round() as u64, objective_ns);
}

#[test]
fn dump() {
    let seed: u64 = std::env::var("DUMP").map_or(100, |text| text.parse().unwrap());
    let spec = crate::common::modal::random_modal(seed);
    println!("{}", serde_json::to_string(&spec).unwrap());
}
