//! Gradients of weights as a part of backward passes: read, summed up by stage, recomputed by the checker, and of no account for what
//! is best.

use crate::common::modal::random_modal;
use crate::common::{any_spec, problem_of};
use rayon::prelude::*;
use stagecut::check::{check, examine};
use stagecut::control::Control;
use stagecut::generate::transformer::{Attention, Granularity, Transformer, transformer};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Mode, WorkerMode};
use stagecut::plan::{Plan, PlanStage, Status};
use stagecut::problem::Problem;
use stagecut::spec::{InstanceSpec, LayerSpec, TimesSpec, WorkSpec};
use stagecut::units::ns_to_ms;
use stagecut::{PipelineOptions, evaluate, plan};

/// The same without a word of weights that are trained: frozen layers leave theirs out of their backward passes.
fn without_weights(spec: &InstanceSpec) -> InstanceSpec {
    let mut spec = spec.clone();
    for layer in spec.network.layers.iter_mut().filter(|layer| !layer.frozen) {
        layer.weight_ms = None;
        layer.times.values_mut().for_each(|times| times.weight_ms = None);
        layer.modes.iter_mut().for_each(|mode| mode.weight_ms = None);
    }
    spec
}

fn solved(instance: &Instance, problem: &Problem) -> Plan {
    let exact = methods::find("exact").expect("a registered method");
    exact
        .run(instance, problem, &Control::default())
        .expect("HiGHS works")
}

/// A device does both gradients of every micro-batch, whatever their order: nothing that is proved may depend on how they share a
/// backward pass. Problems of every kind, workers that differ and modes among them, each with and without; the plans are the same but
/// for what they say of weights, and the checker finds the same.
#[test]
fn optima_do_not_depend_on_weights() {
    let of_modes = (0..400).map(|seed| random_modal(2 * seed));
    let any = (0..1000).map(|seed| any_spec(2 * seed));
    let specs: Vec<InstanceSpec> = of_modes.chain(any).collect();
    let told: usize = specs.par_iter().map(|spec| usize::from(same_plan(spec))).sum();
    assert!(told > 300, "{told} plans that say something of weights");
}

/// Whether the plan says something of weights.
fn same_plan(spec: &InstanceSpec) -> bool {
    let plain = without_weights(spec);
    let (Some((instance, problem)), Some((bare_instance, bare_problem))) =
        (problem_of(spec), problem_of(&plain))
    else {
        assert!(
            problem_of(spec).is_none() && problem_of(&plain).is_none(),
            "{:?}",
            spec.name
        );
        return false;
    };
    let plan = solved(&instance, &problem);
    let bare = solved(&bare_instance, &bare_problem);
    assert_eq!(plan.objective_ms, bare.objective_ms, "{:?}", spec.name);
    assert_eq!(
        (plan.status, plan.bound_ms),
        (bare.status, bare.bound_ms),
        "{:?}",
        spec.name
    );
    assert!(
        bare.stages.iter().all(|stage| stage.weight_ms.is_none()),
        "{:?}",
        spec.name
    );
    let silent = |stage: &PlanStage| PlanStage {
        weight_ms: None,
        ..stage.clone()
    };
    let silent: Vec<PlanStage> = plan.stages.iter().map(silent).collect();
    assert_eq!(silent, bare.stages, "{:?}", spec.name);
    assert_eq!(check(&instance, &problem.settings, &plan), [], "{:?}", spec.name);
    let settings = &problem.settings;
    let splits = settings.mode == Mode::Training
        && settings.worker == WorkerMode::Sequential
        && instance.network.splits_backward();
    let weights = |stage: &PlanStage| stage.weight_ms.filter(|&ms| ms <= stage.backward_ms + 1e-6);
    assert!(
        plan.stages.iter().all(|stage| weights(stage).is_some() == splits),
        "{:?}",
        spec.name
    );
    recomputed(&instance, &problem, &plan);
    splits && plan.status == Status::Optimal
}

/// Stages alone come to the same weights, and weights that are a little different are found.
fn recomputed(instance: &Instance, problem: &Problem, plan: &Plan) {
    let figures = examine(instance, &problem.settings, plan).figures;
    for (k, stage) in plan.stages.iter().enumerate() {
        let found = figures[k].weight_ms;
        assert_eq!(found.is_some(), stage.weight_ms.is_some());
        let difference = found.unwrap_or(0.0) - stage.weight_ms.unwrap_or(0.0);
        assert!(
            difference.abs() <= 1.01e-6,
            "{}: {stage:?} {found:?}",
            plan.instance
        );
        for wrong_ms in [
            stage.weight_ms.unwrap_or(0.0) + 3e-6,
            f64::NAN,
            stage.backward_ms + 1.0,
        ] {
            let mut wrong = plan.clone();
            wrong.stages[k].weight_ms = Some(wrong_ms);
            let violations = check(instance, &problem.settings, &wrong);
            let of_weights = violations.iter().any(|v| v.to_string().contains("weight_ms"));
            assert!(of_weights, "{}: {violations:?}", plan.instance);
        }
    }
}

fn layer(id: &str, times: [f64; 3]) -> LayerSpec {
    let [forward_ms, backward_ms, weight_ms] = times.map(Some);
    LayerSpec {
        id: id.into(),
        forward_ms,
        backward_ms,
        weight_ms,
        ..LayerSpec::default()
    }
}

/// Three layers by hand: 1 of 2 and nothing of 3 in the first stage, all 4 of 4 in the second.
#[test]
fn stages_add_up_their_layers() {
    let pipeline = PipelineOptions {
        stages: Some(2),
        ..PipelineOptions::default()
    };
    let instance = Instance::builder("weights")
        .layer_spec(layer("a", [1.0, 2.0, 1.0]))
        .layer("b", 1.0, 3.0)
        .layer_spec(layer("c", [3.0, 4.0, 4.0]))
        .tensor("a", ["b"], 0.0)
        .tensor("b", ["c"], 0.0)
        .pipeline(pipeline)
        .build()
        .expect("a valid instance");
    let plan = stagecut::solve(&instance, &stagecut::Options::default()).expect("a plan");
    let weights: Vec<Option<f64>> = plan.stages.iter().map(|stage| stage.weight_ms).collect();
    assert_eq!(
        (plan.objective_ms, weights),
        (Some(7.0), vec![Some(1.0), Some(4.0)])
    );
    // Stages alone are completed with the same.
    let bare = plan::bare::parse(br#"[["a", "b"], ["c"]]"#).expect("two stages");
    let found = evaluate(&instance, &stagecut::Options::default(), &bare).expect("a plan");
    let weights: Vec<Option<f64>> = found.plan.stages.iter().map(|stage| stage.weight_ms).collect();
    assert_eq!(weights, [Some(1.0), Some(4.0)]);
}

/// What is read is written again: JSON, TOML, and the instance that says all times.
#[test]
fn weights_survive_a_round_trip() {
    let of_kind = TimesSpec {
        forward_ms: Some(1.0),
        backward_ms: Some(2.0),
        weight_ms: Some(0.75),
        ..TimesSpec::default()
    };
    let mut spec = InstanceSpec::default();
    spec.network.layers = vec![
        layer("a", [1.0, 2.0, 0.5]),
        LayerSpec {
            id: "b".into(),
            times: [("device".to_owned(), of_kind)].into(),
            ..LayerSpec::default()
        },
        LayerSpec {
            id: "c".into(),
            work: Some(WorkSpec {
                backward_flops: 8.0,
                weight_flops: 4.0,
                weight_bytes: 0.0,
                ..WorkSpec::default()
            }),
            ..LayerSpec::default()
        },
    ];
    let json = serde_json::to_string(&spec).expect("JSON");
    assert_eq!(
        serde_json::from_str::<InstanceSpec>(&json).expect("the same"),
        spec
    );
    let text = toml::to_string(&spec).expect("TOML");
    assert_eq!(toml::from_str::<InstanceSpec>(&text).expect("the same"), spec);
    spec.network.layers.pop();
    let instance = Instance::from_spec(&spec).expect("a valid instance");
    let again = Instance::from_spec(&instance.to_spec()).expect("a valid instance");
    assert_eq!(again.network, instance.network);
    let weights = |layer: usize| instance.network.layers[layer].times[0].map(|times| times.weight_ns);
    assert_eq!([weights(0), weights(1)], [Some(500_000), Some(750_000)]);
}

/// Qi et al. (ICLR 2024), Table 1: of a transformer layer the forward pass takes sbh(24h + 4s) operations, the gradients of its weights
/// sbh(24h), one product for each of the forward ones with weights. FlashAttention computes scores again backward, as ours does.
#[test]
fn gradients_of_a_block_take_the_published_operations() {
    let (s, b, h) = (256.0, 2.0, 512.0);
    let asked = Transformer {
        layers: Some(2),
        hidden: Some(512),
        sequence: Some(256),
        micro_batch: Some(2),
        attention: Attention::Flash,
        tensor: Some(vec![1]),
        granularity: Granularity::Block,
        ..Transformer::default()
    };
    let work = |granularity| {
        let spec = transformer(&Transformer {
            granularity,
            ..asked.clone()
        })
        .expect("heads that come out even");
        let works = spec.network.layers.into_iter().filter_map(|layer| layer.work);
        works.fold([0.0; 3], |sum, work| {
            [
                sum[0] + work.forward_flops,
                sum[1] + work.backward_flops,
                sum[2] + work.weight_flops,
            ]
        })
    };
    let [forward, backward, weight] = work(Granularity::Block).map(|flops| flops / 2.0);
    // Norms, GELU and the like add a little forward.
    approx::assert_relative_eq!(weight, 24.0 * s * b * h * h, max_relative = 1e-9);
    approx::assert_relative_eq!(forward, s * b * h * (24.0 * h + 4.0 * s), max_relative = 0.01);
    assert!(
        weight < 0.5 * backward && weight > 0.4 * backward,
        "{weight} of {backward}"
    );
    let instance = Instance::from_spec(&transformer(&asked).expect("even heads")).expect("a valid instance");
    for layer in &instance.network.layers {
        let times = layer.times[0].expect("a time");
        let part = ns_to_ms(times.weight_ns) / ns_to_ms(times.backward_ns);
        assert!((0.3..0.5).contains(&part), "{}: {part}", layer.id);
    }
    // Of operators, attention and norms have none, products half, and updates are nothing else.
    let operators = transformer(&Transformer {
        granularity: Granularity::Operator,
        ..asked
    })
    .expect("heads that come out even");
    for layer in operators.network.layers.iter().filter(|layer| layer.backward) {
        let work = layer.work.as_ref().expect("work");
        let part = work.weight_flops / work.backward_flops;
        let expected = match layer.operator.as_deref().unwrap_or_default() {
            "update" => 1.0,
            "query.grad" | "key.grad" | "value.grad" | "project.grad" | "expand.grad" | "contract.grad" => {
                0.5
            }
            _ => 0.0,
        };
        assert_eq!(part, expected, "{}", layer.id);
        assert_eq!(work.weight_bytes, expected * work.backward_bytes, "{}", layer.id);
    }
}
