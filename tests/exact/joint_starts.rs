//! Cut and order together: never worse than a published rule on a cut that is the best for something else, however short the limit.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::common::together::{chunks_of, question, spec};
use crate::common::{draws, problem_of};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::control::Control;
use stagecut::formulations::partition::item_labels;
use stagecut::instance::Instance;
use stagecut::joint::{Question, Weights, best, refusal};
use stagecut::methods;
use stagecut::options::{Communication, MemoryLimit, Objective, PipelineOptions, Schedule};
use stagecut::problem::{Assignment, Problem};
use stagecut::schedule::rules::{RULES, Shape};
use stagecut::schedule::{Chunks, Placement, run};
use stagecut::settings::Settings;
use stagecut::{Options, Plan};

/// Plans that somebody could run a rule on: by name, the method and the options that are asked.
fn asked(problem: &Problem, question: &Question) -> Vec<(&'static str, &'static str, PipelineOptions)> {
    let (devices, all) = (question.devices, question.devices * question.virtual_stages);
    let stages = |stages: usize| PipelineOptions {
        stages: Some(stages),
        devices: Some(stages),
        micro_batches: Some(question.micro_batches as u64),
        objective: Some(Objective::Period),
        schedule: Some(Schedule::OneFOneB),
        communication: Some(problem.settings.communication),
        memory_limit: Some(MemoryLimit::from(None)),
        ..PipelineOptions::default()
    };
    let all_stages = || PipelineOptions {
        all_stages: Some(true),
        ..stages(all)
    };
    if question.virtual_stages == 1 {
        let iteration = |schedule| PipelineOptions {
            objective: Some(Objective::Iteration),
            schedule: Some(schedule),
            ..stages(devices)
        };
        return vec![
            ("period", "exact", stages(devices)),
            ("period, all stages", "exact", all_stages()),
            ("1f1b", "exact", iteration(Schedule::OneFOneB)),
            ("gpipe", "exact", iteration(Schedule::Gpipe)),
            ("even", "equal-layers", stages(devices)),
        ];
    }
    let chunked = || PipelineOptions {
        virtual_stages: Some(question.virtual_stages.into()),
        placement: Some(question.placement),
        schedule: Some(Schedule::Gpipe),
        all_stages: Some(true),
        ..stages(devices)
    };
    vec![
        ("period", "exact", all_stages()),
        ("period of devices", "exact", chunked()),
        ("even", "equal-layers", all_stages()),
        ("even chunks", "chunk-even", chunked()),
    ]
}

/// The items of every stage, without stages that are empty.
fn cut_of(instance: &Instance, problem: &Problem, plan: &Plan) -> Assignment {
    let mut stage_of: HashMap<&str, usize> = HashMap::new();
    let filled = plan
        .stages
        .iter()
        .filter(|stage| !(stage.forward.is_empty() && stage.backward.is_empty()));
    for (k, stage) in filled.enumerate() {
        let layers = stage.forward.iter().chain(&stage.backward);
        stage_of.extend(layers.map(|layer| (layer.as_str(), k)));
    }
    let layer = |item: usize| {
        instance.network.layers[problem.items[item].all_layers()[0]]
            .id
            .as_str()
    };
    (0..problem.items.len())
        .map(|item| stage_of[layer(item)])
        .collect()
}

/// The best rule on chunks, by name, and its iteration in ns; `None` where none is for them or has room.
fn best_rule(chunks: &Chunks, micro_batches: usize) -> Option<(&'static str, u64)> {
    let shape = Shape::from_chunks(chunks, micro_batches)?;
    let may = RULES.iter().filter(|rule| chunks.may_split || !rule.splits);
    let ran = may.filter_map(|rule| {
        let ran = run(chunks, &rule.order(&shape)?, micro_batches).ok()?;
        Some((rule.name, ran.makespan_ns))
    });
    ran.min_by_key(|&(_, ns)| ns)
}

/// Holds what is found under a limit against every rule on every cut; returns on how many cuts there was one.
fn hold(instance: &Instance, problem: &Problem, question: &Question, limit: Duration, named: &str) -> usize {
    let control = Control {
        time_limit: Some(limit),
        ..Control::default()
    };
    let found = best(problem, question, &item_labels(instance, problem), &control);
    let found_ns = found.of_cut.iteration_ns.unwrap_or(u64::MAX);
    let mut held = 0;
    for (cut_named, method, pipeline) in asked(problem, question) {
        let options = Options {
            pipeline,
            method: methods::find(method).expect("a method"),
            ..Options::default()
        };
        let Some(plan) = stagecut::solve(instance, &options)
            .ok()
            .filter(|plan| !plan.stages.is_empty())
        else {
            continue;
        };
        let cut = cut_of(instance, problem, &plan);
        let chunks = chunks_of(instance, problem, question, &cut);
        if let Some((rule, ns)) = chunks.and_then(|chunks| best_rule(&chunks, question.micro_batches)) {
            assert!(
                found_ns <= ns,
                "{named}, {question:?}: {found_ns} with {rule} at {ns} on {cut_named}"
            );
            held += 1;
        }
    }
    held
}

#[test]
fn random_problems_are_no_worse_than_any_rule() {
    let (mut asked, mut held) = (0, 0);
    for seed in 0.. {
        let mut spec = spec(seed, [4, 10]);
        // More stages than any of the questions has chunks.
        (spec.pipeline.stages, spec.pipeline.devices) = (Some(8), Some(8));
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let question = Question {
            devices: random.random_range(2..=4),
            micro_batches: random.random_range(1..=9),
            ..question(&mut random, &instance, &problem)
        };
        let too_many = question.virtual_stages * question.devices > problem.items.len();
        if refusal(&problem.settings).is_some() || too_many {
            continue;
        }
        held += hold(
            &instance,
            &problem,
            &question,
            Duration::ZERO,
            &format!("seed {seed}"),
        );
        asked += 1;
        if asked == draws(300) as usize {
            break;
        }
    }
    assert!(held > 2 * asked, "{held} rules on cuts of {asked} problems");
}

/// Networks under a limit that is over before anything has begun.
#[test]
fn networks_are_no_worse_than_any_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (k, name) in ["gpt2", "vgg16", "bert-base", "alexnet"].into_iter().enumerate() {
        let path = root.join(format!("instances/measured/{name}.json"));
        let instance = Instance::read(&path, None).expect("an instance");
        let split = Weights::Share(0.5);
        let whole = Weights::Whole;
        for (virtual_stages, weights) in [(1, &whole), (1, &split), (2, &split), (2, &whole)] {
            let question = Question {
                devices: [2, 4][k % 2],
                virtual_stages,
                placement: [Placement::Loop, Placement::V][usize::from(weights.may_split())],
                micro_batches: 8,
                weights: weights.clone(),
                room: [None, Some(16)][k / 2],
            };
            let stages = question.devices * virtual_stages;
            let options = PipelineOptions {
                stages: Some(stages),
                devices: Some(stages),
                communication: Some(Communication::Ignored),
                memory_limit: Some(MemoryLimit::from(None)),
                ..PipelineOptions::default()
            };
            let settings = Settings::resolve(&instance, &options).expect("settings");
            let problem = Problem::new(&instance, settings).expect("a problem");
            let held = hold(&instance, &problem, &question, Duration::ZERO, name);
            assert!(held > 0, "{name}, {question:?}: no rule");
        }
    }
}
