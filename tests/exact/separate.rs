//! Separate forward and backward cuts, against brute force.

use std::path::Path;

use crate::common::{problem_of, separate_problem};
use crate::oracles::brute_force;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::bound_source::BoundSource;
use stagecut::check::{Violation, check};
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, MemoryLimit, Objective, PipelineOptions, Schedule};
use stagecut::plan::split::{Split, SplitLayer};
use stagecut::plan::{Outcome, Plan, Statistics, Status, StoppedBy};
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
        let best_ms = best.map(|(_, objective_ns)| problem.settings.ms(objective_ns));
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

/// Plans of drawn stages, whether they keep the order or not: what they state of their passes does not depend on it.
fn drawn_plans() -> impl Iterator<Item = (u64, Instance, Settings, Plan)> {
    (0..1_000).filter_map(|seed| {
        let (instance, mut problem) = separate_problem(seed)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        if rng.random_bool(0.5) && problem.settings.objective == Objective::Period {
            let settings = Settings {
                schedule: Schedule::Pipedream,
                ..problem.settings
            };
            problem = Problem::new(&instance, settings).ok()?;
        }
        let draw = |_: &_| rng.random_range(0..problem.stages());
        let assignment: Vec<usize> = problem.items.iter().map(draw).collect();
        let outcome = Outcome {
            allocation: Some(assignment.into()),
            bound_ns: 0,
            bound_source: BoundSource::None,
            stopped_by: StoppedBy::Completed,
            statistics: Statistics::default(),
        };
        let plan = Plan::new(&instance, &problem, "drawn", outcome);
        Some((seed, instance, problem.settings, plan))
    })
}

#[test]
fn what_a_plan_states_of_its_passes_adds_up_to_its_memory() {
    let [mut split_layers, mut versions] = [0; 2];
    for (seed, instance, settings, plan) in drawn_plans() {
        let split = plan.split.as_ref().expect("separate cuts");
        for stage in &plan.stages {
            let mut bytes = 0;
            for layer in &instance.network.layers {
                let apart = split.layers.iter().find(|split| split.layer == layer.id);
                let is_home = stage.backward.contains(&layer.id)
                    || instance.network.has_explicit_backward() && stage.forward.contains(&layer.id);
                if is_home {
                    let counts =
                        [stage.in_flight, stage.weight_versions].map(|count| count.expect("training"));
                    let [in_flight, versions] =
                        apart.map_or(counts, |apart| [apart.in_flight, apart.weight_versions]);
                    bytes += settings.base_bytes(layer) + (versions - 1) * layer.parameter_bytes;
                    bytes += in_flight * layer.stash_bytes;
                }
                if apart.is_some_and(|apart| apart.forward_stage == stage.index) {
                    bytes += layer.parameter_bytes + layer.frozen_bytes;
                }
            }
            assert_eq!(stage.memory_bytes, bytes, "seed {seed}: {plan:#?}");
        }
        split_layers += split.layers.len();
        versions += split
            .layers
            .iter()
            .filter(|layer| layer.weight_versions > 1)
            .count();
    }
    assert!(split_layers > 500 && versions > 100, "{split_layers}, {versions}");
}

#[test]
fn every_wrong_count_of_a_split_layer_is_rejected() {
    type Field = fn(&mut Split) -> &mut u64;
    fn first(split: &mut Split) -> &mut SplitLayer {
        &mut split.layers[0]
    }
    let fields: [(&str, Field); 6] = [
        ("split.stash_bytes_moved", |split| &mut split.stash_bytes_moved),
        ("split.weight_bytes_moved", |split| &mut split.weight_bytes_moved),
        (".in_flight", |split| &mut first(split).in_flight),
        (".weight_versions", |split| &mut first(split).weight_versions),
        (".stash_bytes", |split| &mut first(split).stash_bytes),
        (".weight_bytes", |split| &mut first(split).weight_bytes),
    ];
    type Change = fn(&mut Split);
    let changes: [(&str, Change); 5] = [
        ("left out", |split| drop(split.layers.remove(0))),
        ("listed twice", |split| split.layers.push(split.layers[0].clone())),
        ("made up", |split| split.layers[0].layer = "nowhere".into()),
        ("forward stage", |split| first(split).forward_stage += 1),
        ("backward stage", |split| first(split).backward_stage += 1),
    ];
    let mut changed = 0;
    for (seed, instance, settings, plan) in drawn_plans() {
        let violations = |plan: &Plan| check(&instance, &settings, plan);
        let is_of_counts =
            |violation: &Violation| matches!(violation, Violation::Field { .. } | Violation::Stated { .. });
        let before = violations(&plan);
        assert!(!before.iter().any(is_of_counts), "seed {seed}: {before:?}");
        if plan.split.as_ref().is_none_or(|split| split.layers.is_empty()) {
            continue;
        }
        let with = |change: &dyn Fn(&mut Split)| {
            let mut plan = plan.clone();
            change(plan.split.as_mut().expect("some layers"));
            violations(&plan)
        };
        for (name, field) in fields {
            let found = with(&|split| *field(split) += 7);
            let is_meant = |violation: &Violation| {
                matches!(violation, Violation::Stated { field, stated, recomputed }
                    if field.ends_with(name) && stated - recomputed == 7.0)
            };
            assert!(found.iter().any(is_meant), "seed {seed}: {name}: {found:?}");
        }
        for (name, change) in changes {
            let found = with(&change);
            assert!(found.iter().any(is_of_counts), "seed {seed}: {name}: {found:?}");
        }
        let mut silent = plan.clone();
        silent.split = None;
        assert!(violations(&silent).iter().any(is_of_counts), "seed {seed}");
        changed += 1;
    }
    assert!(changed > 300, "{changed}");
}

/// What happens once an iteration is shared out exactly: rounded up for each micro-batch, it once made the iteration of such
/// a plan half as long again. Only the objective is rounded, up to a ns.
#[test]
fn weights_are_not_rounded_for_each_micro_batch() {
    // A pass of 1000 ns each way; 5 bytes at 1 GB/s are 5 ns an iteration, 2.5 ns a micro-batch of two.
    let chain = |layers: usize, micro_batches: u64, objective: Objective| {
        let layer = |at: usize| {
            serde_json::json!({
                "id": format!("l{at}"), "forward_ms": 1e-3, "backward_ms": 1e-3, "parameter_bytes": 5,
            })
        };
        let layers: Vec<_> = (0..layers).map(layer).collect();
        let tensors: Vec<_> = (1..layers.len())
            .map(|at| serde_json::json!({"producer": format!("l{}", at - 1), "consumers": [format!("l{at}")], "bytes": 0}))
            .collect();
        let spec = serde_json::json!({
            "name": "weights",
            "network": {"layers": layers, "tensors": tensors},
            "cluster": {"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 1e9}},
            "pipeline": {
                "stages": 2, "all_stages": true, "cuts": "separate", "micro_batches": micro_batches,
                "objective": objective.to_string(),
            },
        });
        let spec = serde_json::from_value(spec).expect("an instance");
        problem_of(&spec).expect("a problem")
    };
    for (layers, micro_batches, objective, expected_ns) in [
        // One stage forwards, one backwards: 1002.5 ns each.
        (1, 2, Objective::Period, 1_003.0),
        // 2 * 1002.5 for the first micro-batch, 1002.5 for the second.
        (1, 2, Objective::Formula, 3_008.0),
        // 5 ns for 1000: 1000.005 each, and an iteration of 1001 of them.
        (1, 1_000, Objective::Period, 1_001.0),
        (1, 1_000, Objective::Formula, 1_001_006.0),
    ] {
        let (instance, problem) = chain(layers, micro_batches, objective);
        for name in ["exact", "milp", "ideals", "textbook"] {
            let method = methods::find(name).expect("a method");
            let plan = method
                .run(&instance, &problem, &Control::default())
                .expect("HiGHS works");
            assert_eq!(check(&instance, &problem.settings, &plan), [], "{name}");
            let found = (plan.objective_ms, plan.status);
            assert_eq!(
                found,
                (Some(expected_ns / 1e6), Status::Optimal),
                "{name}: {micro_batches}, {objective}"
            );
        }
    }
}
