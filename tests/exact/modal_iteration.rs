//! Iterations of stages in modes, and stages that are alike, against brute force: every plan run by written lists.

use stagecut::check;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{Objective, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::simulate::{self, Request};
use stagecut::spec::InstanceSpec;

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    proved: usize,
    replicated: usize,
}

/// Small problems of all that modes know, with any stages and with stages that are alike.
#[test]
fn iterations_are_those_of_brute_force() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let first = number("MODAL_ITERATIONS_FIRST", 0);
    let mut seen = Seen::default();
    for seed in first..first + number("MODAL_ITERATIONS", 1_500) {
        let mut spec = crate::common::modal::random_modal(seed);
        // What a layer computes again it computes again in the backward pass: then all is proved.
        let is_usual = seed % 4 > 0;
        if is_usual {
            make_usual(&mut spec);
        }
        let instance = Instance::from_spec(&spec).unwrap();
        for uniform in [None, Some(true)] {
            let options = PipelineOptions {
                objective: Some(Objective::Iteration),
                uniform,
                ..PipelineOptions::default()
            };
            compare(&instance, &options, is_usual, &mut seen);
            let alone = PipelineOptions {
                objective: Some(Objective::Latency),
                // Memory is that of so many.
                micro_batches: Some(spec.pipeline.micro_batches.unwrap_or(4)),
                ..options
            };
            compare(&instance, &alone, is_usual, &mut seen);
        }
        let options = PipelineOptions {
            uniform: Some(true),
            ..PipelineOptions::default()
        };
        compare(&instance, &options, true, &mut seen);
    }
    let Seen {
        compared,
        proved,
        replicated,
    } = seen;
    println!("{seen:?}");
    assert!(
        proved * 10 >= compared * 9 && replicated * 10 > compared,
        "{seen:?}"
    );
}

/// Gives all modes of a degree the same forward time.
fn make_usual(spec: &mut InstanceSpec) {
    for layer in &mut spec.network.layers {
        let forward: Vec<_> = layer
            .modes
            .iter()
            .map(|mode| (mode.tensor, mode.forward_ms))
            .collect();
        for mode in &mut layer.modes {
            mode.forward_ms = forward.iter().find(|own| own.0 == mode.tensor).unwrap().1;
        }
    }
}

fn compare(instance: &Instance, options: &PipelineOptions, must_be_proved: bool, seen: &mut Seen) {
    let Ok(settings) = Settings::resolve(instance, options) else {
        return;
    };
    let Ok(problem) = Problem::new(instance, settings.clone()) else {
        return;
    };
    if !settings.modal {
        return;
    }
    let exact = Method::Exact(exact::Method::Exact);
    let plan = exact.run(instance, &problem, &Default::default()).unwrap();
    let best_ms = match settings.objective {
        Objective::Iteration | Objective::Latency => {
            crate::oracles::modes::best_iteration_ns(instance, &settings).map(|ns| ns as f64 / 1e6)
        }
        _ => crate::oracles::modes::best_ms(instance, &settings),
    };
    let context = || {
        let told = (plan.status, plan.objective_ms, plan.bound_ms);
        format!(
            "{told:?}, best {best_ms:?}: {}",
            serde_json::to_string(&plan.problem).unwrap()
        )
    };
    let violations = check::check(instance, &settings, &plan);
    assert!(violations.is_empty(), "{violations:?} {}", context());
    let is_proved = matches!(plan.status, Status::Optimal | Status::Infeasible);
    assert!(is_proved || !must_be_proved, "open: {}", context());
    match (plan.objective_ms, best_ms) {
        (Some(found_ms), Some(best_ms)) => {
            assert!(
                found_ms > best_ms - 1e-6 && plan.bound_ms.unwrap() < best_ms + 1e-6,
                "{}",
                context()
            );
            assert!(!is_proved || found_ms < best_ms + 1e-6, "{}", context());
        }
        (None, best_ms) => assert!(!is_proved || best_ms.is_none(), "{}", context()),
        (Some(_), None) => panic!("{}", context()),
    }
    if settings.objective != Objective::Period && plan.objective_ms.is_some() {
        let alone = settings.objective == Objective::Latency;
        runs_as_it_says(&plan, alone.then_some(1));
    }
    seen.compared += 1;
    seen.proved += usize::from(is_proved);
    seen.replicated += usize::from(plan.stages.iter().any(|stage| stage.replicas() > 1));
}

fn runs_as_it_says(plan: &Plan, micro_batches: Option<u64>) {
    let request = Request {
        micro_batches,
        ..Request::default()
    };
    let run = simulate::simulate(plan, &request).unwrap();
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    assert_eq!(ns(run.iteration_ms), ns(plan.objective_ms.unwrap()));
}
