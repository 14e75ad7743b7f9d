//! Modes of layers and stages: by hand, against brute force, against published answers.

use crate::common::{draws, seeds};
use crate::in_modes::solved_by;
use std::collections::BTreeMap;
use std::path::Path;

use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{Degrees, MemoryLimit, Objective, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, ModeSpec, NetworkSpec, TensorSpec};
use stagecut::switches::Switches;

/// What `exact` makes of an instance.
fn solved(instance: &Instance, options: &PipelineOptions) -> Plan {
    solved_by(Method::Exact(exact::Method::Exact), instance, options)
}

fn choose() -> PipelineOptions {
    PipelineOptions {
        tensor: Some(Degrees::Choose),
        replicas: Some(Degrees::Choose),
        recompute: Some("choose".parse().unwrap()),
        ..PipelineOptions::default()
    }
}

fn recomputed(plan: &Plan) -> Vec<usize> {
    let of_stage = |stage: &stagecut::plan::PlanStage| {
        let layers = stage
            .mode
            .as_ref()
            .map(|mode| mode.recomputed.values().map(Vec::len).sum());
        layers.unwrap_or(0)
    };
    plan.stages.iter().map(of_stage).collect()
}

#[test]
fn random_problems_are_those_of_brute_force() {
    let (mut compared, mut two_levels, mut explicit, mut beaten) = (0, 0, 0, 0);
    for seed in seeds(6_000) {
        let spec = crate::common::modal::random_modal(seed);
        let instance = Instance::from_spec(&spec).unwrap();
        // Options may contradict the instance, such as more stages than devices.
        let Ok(settings) = Settings::resolve(&instance, &PipelineOptions::default()) else {
            continue;
        };
        if !settings.modal || Problem::new(&instance, settings.clone()).is_err() {
            continue;
        }
        let plan = solved(&instance, &PipelineOptions::default());
        let best = crate::oracles::modes::best_ms(&instance, &settings);
        compared += 1;
        two_levels += usize::from(instance.cluster.nodes.is_some());
        explicit += usize::from(instance.network.has_explicit_backward());
        let is_near = |ms: Option<f64>| match (ms, best) {
            (Some(ms), Some(best)) => (ms - best).abs() <= 1e-6,
            (ms, best) => ms.is_none() && best.is_none(),
        };
        let rule = solved_by(Method::Piper, &instance, &PipelineOptions::default());
        if let (Some(rule_ms), Some(best)) = (rule.objective_ms, best) {
            assert!(
                rule_ms >= best - 1e-6,
                "seed {seed}: {rule_ms} by Piper's rule, not {best}"
            );
            beaten += usize::from(rule_ms > best + 1e-6);
        }
        match plan.status {
            Status::Optimal | Status::Infeasible => {
                assert!(
                    is_near(plan.objective_ms),
                    "seed {seed}: {:?}, not {best:?}\n{plan:#?}",
                    plan.objective_ms
                );
            }
            Status::Feasible | Status::Unknown => panic!("seed {seed} is open: {plan:#?}"),
        }
        if seed % 4 == 0 {
            for name in ["modal_ahead", "modal_windows"] {
                let control = Control {
                    switches: Switches::without([name]).unwrap(),
                    ..Control::default()
                };
                let problem = Problem::new(&instance, settings.clone()).unwrap();
                let exact = Method::Exact(exact::Method::Exact);
                let without = exact.run(&instance, &problem, &control).unwrap();
                let [with, without] = [&plan, &without].map(|plan| (plan.status, plan.objective_ms));
                assert_eq!(with, without, "seed {seed} without {name}");
            }
        }
    }
    println!(
        "{compared} compared, {two_levels} of them with nodes, {explicit} with a backward graph, {beaten} better than by Piper's rule"
    );
    assert!(
        beaten > 0 && compared * 2 > draws(6_000) as usize && explicit * 8 > compared,
        "{compared} compared, {explicit} with a backward graph"
    );
}

/// Links inside nodes that are slower than those between them, or slower for small tensors alone: a tensor that skips a stage may gain by
/// leaving its node.
#[test]
fn slower_links_inside_nodes_are_proved() {
    let (mut compared, mut open) = (0, 0);
    for seed in seeds(1_500) {
        let spec = crate::common::modal::random_modal_slow_inside(seed);
        let instance = Instance::from_spec(&spec).unwrap();
        let Ok(settings) = Settings::resolve(&instance, &PipelineOptions::default()) else {
            continue;
        };
        let Ok(problem) = Problem::new(&instance, settings.clone()) else {
            continue;
        };
        if instance.cluster.nodes.is_none() {
            continue;
        }
        let best = crate::oracles::modes::best_ms(&instance, &settings);
        let is_best = |plan: &Plan| match (plan.objective_ms, best) {
            (Some(ms), Some(best)) => (ms - best).abs() <= 1e-6,
            (ms, best) => ms.is_none() && best.is_none(),
        };
        let is_proof = |plan: &Plan| matches!(plan.status, Status::Optimal | Status::Infeasible);
        let plan = solved(&instance, &PipelineOptions::default());
        assert!(is_proof(&plan), "seed {seed} is open: {plan:#?}");
        assert!(
            is_best(&plan),
            "seed {seed}: {:?}, not {best:?}",
            plan.objective_ms
        );
        // The dynamic program alone, with and without what narrows it.
        let names: &[&str] = if seed % 4 == 0 {
            &["modal_ahead", "modal_windows"]
        } else {
            &[]
        };
        let control = Control {
            switches: Switches::without(names.iter().copied()).unwrap(),
            ..Control::default()
        };
        let ideals = Method::Exact(exact::Method::Ideals);
        let alone = ideals.run(&instance, &problem, &control).unwrap();
        open += usize::from(!is_proof(&alone));
        assert!(
            !is_proof(&alone) || is_best(&alone),
            "seed {seed}: {:?} by ideals",
            alone.objective_ms
        );
        compared += 1;
    }
    println!("{compared} compared, {open} open by ideals alone");
    assert!(
        compared * 3 > draws(1_500) as usize && open * 100 < compared,
        "{compared} compared, {open} open"
    );
}

/// Layers in a row, each of 1 + 2 ms that keeps 5 bytes, or 1 + 3 ms that keeps 1.
fn chain(layers: usize, cluster: &str) -> Instance {
    let modes = r#"{"forward_ms": 1, "backward_ms": 2, "stash_bytes": 5},
        {"recompute": "full", "forward_ms": 1, "backward_ms": 3, "stash_bytes": 1}"#;
    let layer = |at: usize| format!(r#"{{"id": "block.{at}", "modes": [{modes}]}}"#);
    let tensor = |at: usize| {
        let next = at + 1;
        format!(r#"{{"producer": "block.{at}", "consumers": ["block.{next}"], "bytes": 1000000}}"#)
    };
    let all: Vec<String> = (0..layers).map(layer).collect();
    let tensors: Vec<String> = (0..layers - 1).map(tensor).collect();
    let text = format!(
        r#"{{"network": {{"layers": [{}], "tensors": [{}]}}, "cluster": {cluster}}}"#,
        all.join(","),
        tensors.join(",")
    );
    Instance::from_spec(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Two devices without transfers; the first stage has two micro-batches in flight.
fn two_blocks(memory_bytes: u64, recompute: &str) -> Plan {
    let instance = chain(
        2,
        r#"{"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 1e15}}"#,
    );
    let options = PipelineOptions {
        recompute: Some(recompute.parse().unwrap()),
        memory_limit: Some(MemoryLimit::Bytes(memory_bytes)),
        ..PipelineOptions::default()
    };
    solved(&instance, &options)
}

/// Ten chains side by side of layers that all differ, in memory that holds them only if most compute again.
fn side_by_side() -> Instance {
    let layers = (0..100).map(|at| {
        let ms = 1.0 + (at * 37 % 101) as f64 / 25.0;
        let bytes = 1e6 * (20 + at * 53 % 83) as f64;
        let way = |recompute: Option<&str>, backward: f64, stash_bytes: f64| ModeSpec {
            recompute: recompute.map(Into::into),
            forward_ms: Some(ms),
            backward_ms: Some(backward * ms),
            parameter_bytes: 2e6,
            stash_bytes,
            ..ModeSpec::default()
        };
        LayerSpec {
            id: format!("l{at}"),
            forward_ms: Some(ms),
            backward_ms: Some(2.0 * ms),
            parameter_bytes: 2e6,
            stash_bytes: bytes,
            modes: vec![way(None, 2.0, bytes), way(Some("full"), 3.0, bytes / 8.0)],
            ..LayerSpec::default()
        }
    });
    let tensors = (0..90).map(|at| TensorSpec {
        producer: format!("l{at}"),
        consumers: vec![format!("l{}", at + 10)],
        bytes: Some(1e6),
        ..TensorSpec::default()
    });
    let cluster = r#"{"device_kinds": [{"name": "gpu", "count": 8, "memory_bytes": 1.6e9}],
        "link": {"bandwidth_bytes_per_s": 25e9}}"#;
    Instance::from_spec(&InstanceSpec {
        network: NetworkSpec {
            layers: layers.collect(),
            tensors: tensors.collect(),
            ..NetworkSpec::default()
        },
        cluster: Some(serde_json::from_str(cluster).unwrap()),
        ..InstanceSpec::default()
    })
    .unwrap()
}

#[test]
fn a_time_limit_returns_a_plan_of_wide_graphs_in_little_memory() {
    let instance = side_by_side();
    let options = PipelineOptions {
        micro_batches: Some(64),
        ..choose()
    };
    let settings = Settings::resolve(&instance, &options).unwrap();
    let problem = Problem::new(&instance, settings).unwrap();
    let control = Control {
        time_limit: Some(std::time::Duration::from_secs(3)),
        ..Control::default()
    };
    let plan = Method::Exact(exact::Method::Exact)
        .run(&instance, &problem, &control)
        .unwrap();
    let violations = check::check(&instance, &problem.settings, &plan);
    assert!(violations.is_empty(), "{violations:?}");
    assert!(plan.objective_ms.is_some(), "{:?}", plan.status);
    assert!(recomputed(&plan).iter().sum::<usize>() > 0);
}

#[test]
fn only_what_does_not_fit_is_computed_again() {
    let near = |plan: &Plan, ms: f64| (plan.objective_ms.unwrap() - ms).abs() < 1e-4;
    let kept = two_blocks(10, "choose");
    assert!(near(&kept, 3.0) && recomputed(&kept) == [0, 0], "{kept:?}");
    let first = two_blocks(8, "choose");
    assert!(near(&first, 4.0) && recomputed(&first) == [1, 0], "{first:?}");
    let all = two_blocks(8, "full");
    assert!(near(&all, 4.0) && recomputed(&all) == [1, 1], "{all:?}");
    assert_eq!(two_blocks(8, "none").status, Status::Infeasible);
    assert_eq!(two_blocks(1, "choose").status, Status::Infeasible);
}

/// Four devices in nodes of two. A tensor takes 1 ms between nodes and 0.1 ms inside, each way, on either side.
#[test]
fn links_of_two_levels_decide_where_to_cut() {
    let link =
        r#"{"bandwidth_bytes_per_s": 1e9, "nodes": {"devices": 2, "link": {"bandwidth_bytes_per_s": 1e10}}}"#;
    let cluster = format!(r#"{{"device_kinds": [{{"name": "gpu", "count": 4}}], "link": {link}}}"#);
    let instance = chain(3, &cluster);
    let plan = solved(&instance, &PipelineOptions::default());
    // Two stages of one and two layers in one node: 6 + 0.2 ms. A third stage would lie in the next one: 3 + 0.2 + 2.
    assert_eq!(plan.stages.len(), 3);
    assert!((plan.objective_ms.unwrap() - 5.2).abs() < 1e-9, "{plan:?}");
    let two = PipelineOptions {
        stages: Some(2),
        ..PipelineOptions::default()
    };
    assert!((solved(&instance, &two).objective_ms.unwrap() - 6.2).abs() < 1e-9);
}

/// What moves beside a tensor is part of its message: one without bytes takes the latency all the same, at the end that has bytes to move.
/// A million bytes take 1 ms and a message 5 ms.
#[test]
fn bytes_beside_a_tensor_without_bytes_take_the_latency() {
    let instance = |tensor: u64, leaving: u64, entering: u64| {
        let text = format!(
            r#"{{"network": {{"layers": [
                {{"id": "a", "modes": [{{"forward_ms": 1, "backward_ms": 1, "output_bytes": {{"b": {leaving}}}}}]}},
                {{"id": "b", "modes": [{{"forward_ms": 1, "backward_ms": 1, "input_bytes": {{"a": {entering}}}}}]}}],
                "tensors": [{{"producer": "a", "consumers": ["b"], "bytes": {tensor}}}]}},
              "cluster": {{"device_kinds": [{{"name": "gpu", "count": 2}}],
                "link": {{"bandwidth_bytes_per_s": 1e9, "latency_ms": 5}}}}}}"#
        );
        Instance::from_spec(&serde_json::from_str(&text).unwrap()).unwrap()
    };
    let options = PipelineOptions {
        stages: Some(2),
        all_stages: Some(true),
        replicas: None,
        ..choose()
    };
    let loads = |tensor, leaving, entering| -> Vec<f64> {
        let plan = solved(&instance(tensor, leaving, entering), &options);
        plan.stages.iter().map(|stage| stage.load_ms).collect()
    };
    assert_eq!(loads(0, 0, 0), [2.0, 2.0]);
    assert_eq!(loads(0, 1_000_000, 0), [14.0, 2.0]);
    assert_eq!(loads(0, 0, 2_000_000), [2.0, 16.0]);
    assert_eq!(loads(1_000_000, 1_000_000, 0), [16.0, 14.0]);
}

#[test]
fn wrong_modes_are_told() {
    let instance = chain(
        4,
        r#"{"device_kinds": [{"name": "gpu", "count": 4}], "link": {"bandwidth_bytes_per_s": 1e9}}"#,
    );
    let options = PipelineOptions {
        replicas: Some(Degrees::Choose),
        recompute: Some("choose".parse().unwrap()),
        micro_batches: Some(4),
        memory_limit: Some(MemoryLimit::Bytes(12)),
        ..PipelineOptions::default()
    };
    let plan = solved(&instance, &options);
    let settings = Settings::resolve(&instance, &options).unwrap();
    let told = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        check::check(&instance, &settings, &plan)
    };
    assert_eq!(told(&|_| {}), []);
    let mode = |plan: &mut Plan| plan.stages[0].mode.clone().unwrap();
    let changes: [&dyn Fn(&mut Plan); 7] = [
        &|plan| plan.stages[0].mode = None,
        &|plan| {
            plan.stages[0].mode = Some(stagecut::plan::PlanMode {
                replicas: 3,
                ..mode(plan)
            })
        },
        &|plan| {
            plan.stages[0].mode = Some(stagecut::plan::PlanMode {
                tensor: 2,
                ..mode(plan)
            })
        },
        &|plan| {
            let again = BTreeMap::from([(
                "full".to_owned(),
                vec!["block.0".to_owned(), "block.0".to_owned()],
            )]);
            plan.stages[0].mode = Some(stagecut::plan::PlanMode {
                recomputed: again,
                ..mode(plan)
            });
        },
        &|plan| plan.stages[0].memory_bytes += 1,
        &|plan| plan.stages[0].devices.reverse(),
        &|plan| plan.stages[0].load_ms += 1.0,
    ];
    for (at, change) in changes.iter().enumerate() {
        let is_same = plan.stages[0].devices.len() == 1 && at == 5;
        assert!(is_same || !told(change).is_empty(), "change {at} of {plan:?}");
    }
}

/// What a framework is told of a plan of four equal blocks in two stages, or why it cannot be told.
fn exported(target: &str, recompute: &str, memory_bytes: Option<u64>) -> Result<String, String> {
    let instance = chain(
        4,
        r#"{"device_kinds": [{"name": "gpu", "count": 4}], "link": {"bandwidth_bytes_per_s": 1e15}}"#,
    );
    let options = PipelineOptions {
        stages: Some(2),
        all_stages: Some(true),
        replicas: Some(Degrees::one(2)),
        recompute: Some(recompute.parse().unwrap()),
        micro_batches: Some(8),
        memory_limit: memory_bytes.map(MemoryLimit::Bytes),
        ..PipelineOptions::default()
    };
    let plan = solved(&instance, &options);
    let target = stagecut::export::find(target).unwrap();
    (target.write)(&instance, &plan).map_err(|fault| format!("{fault:?}"))
}

#[test]
fn megatron_is_told_degrees_and_recomputation() {
    let layout = "--num-layers 4 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*2|t*2,L\" \
                  --tensor-model-parallel-size 1";
    let again = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    assert_eq!(exported("megatron", "none", None), Ok(format!("{layout}\n")));
    assert_eq!(
        exported("megatron", "full", None),
        Ok(format!("{layout} {again}\n"))
    );
    // The first stage has two micro-batches in flight and room for one block that is kept; the last keeps both.
    let refused = exported("megatron", "choose", Some(12)).unwrap_err();
    assert!(refused.contains("[1, 0] blocks computed again"), "{refused}");
    assert!(exported("torch", "none", None).unwrap_err().contains("2 devices"));
    let json = exported("json", "choose", Some(12)).unwrap();
    assert!(
        json.contains("\"replicas\": 2") && json.contains("\"full\""),
        "{json}"
    );
}

#[test]
fn what_modes_cannot_be_asked_with_is_refused() {
    let instance = chain(2, r#"{"device_kinds": [{"name": "gpu", "count": 2}]}"#);
    let faults = |options: PipelineOptions| {
        let error = Settings::resolve(&instance, &options).unwrap_err();
        error
            .faults
            .iter()
            .map(|fault| fault.at.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(faults(choose()), ["micro_batches"]);
    // Without a backward pass there is nothing to compute again in it.
    let options = PipelineOptions {
        mode: Some(stagecut::options::Mode::Inference),
        ..choose()
    };
    assert_eq!(faults(options), ["recompute"]);
    // No layer has a mode of that name.
    let options = PipelineOptions {
        recompute: Some("none,ful".parse().unwrap()),
        micro_batches: Some(4),
        ..choose()
    };
    assert_eq!(faults(options), ["recompute"]);
}

/// What fits nowhere is told how much memory would do: on two devices 50 bytes, though the layer takes 100 on one.
#[test]
fn least_memory_knows_modes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.json");
    let layer = r#"{"id": "block", "modes": [{"forward_ms": 2, "resident_bytes": 100}, {"tensor": 2, "forward_ms": 1, "resident_bytes": 50}]}"#;
    let cluster = r#"{"device_kinds": [{"name": "gpu", "count": 2}]}"#;
    std::fs::write(
        &file,
        format!(r#"{{"network": {{"layers": [{layer}]}}, "cluster": {cluster}}}"#),
    )
    .unwrap();
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_stagecut"))
        .arg("solve")
        .arg(&file)
        .args([
            "--tensor",
            "choose",
            "--memory-limit",
            "10",
            "--format",
            "json",
            "--quiet",
        ])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let plan: Plan = serde_json::from_slice(&ended.stdout).unwrap();
    let least = plan.least_memory.unwrap();
    assert_eq!((least.at_least_bytes, least.at_most_bytes), (50, Some(50)));
}

/// Ninety-six equal blocks in sixteen stages (`sapp` of the shared data): least period, and least recomputation at it.
#[test]
fn sapp_computes_eleven_blocks_again() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/sapp/instance.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: no shared data");
        return;
    };
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let end = |name: &str| LayerSpec {
        id: name.into(),
        forward_ms: Some(number(&file[name]["forward"])),
        backward_ms: Some(number(&file[name]["backward"])),
        resident_bytes: number(&file[name]["parameter_memory"]),
        ..LayerSpec::default()
    };
    let body = &file["body"];
    let modes: Vec<ModeSpec> = body["modes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| ModeSpec {
            recompute: Some(mode["recompute"].as_str().unwrap().to_lowercase()),
            forward_ms: Some(number(&mode["forward"])),
            backward_ms: Some(number(&mode["backward"])),
            stash_bytes: number(&mode["activation_memory"]),
            resident_bytes: number(&body["parameter_memory"]),
            ..ModeSpec::default()
        })
        .collect();
    let block = |at: u64| LayerSpec {
        id: format!("block{at}"),
        modes: modes.clone(),
        ..LayerSpec::default()
    };
    let blocks = (0..body["count"].as_u64().unwrap()).map(block);
    let layers: Vec<LayerSpec> = [end("head")]
        .into_iter()
        .chain(blocks)
        .chain([end("tail")])
        .collect();
    let tensor = |pair: &[LayerSpec]| TensorSpec {
        producer: pair[0].id.clone(),
        consumers: vec![pair[1].id.clone()],
        ..TensorSpec::default()
    };
    let spec = InstanceSpec {
        network: NetworkSpec {
            tensors: layers.windows(2).map(tensor).collect(),
            layers,
            ..NetworkSpec::default()
        },
        ..InstanceSpec::default()
    };
    let options = PipelineOptions {
        stages: Some(16),
        devices: Some(16),
        objective: Some(Objective::Period),
        micro_batches: file["micro_batches"].as_u64(),
        memory_limit: Some(MemoryLimit::Bytes(file["memory_limit"].as_u64().unwrap())),
        recompute: Some("choose".parse().unwrap()),
        ..PipelineOptions::default()
    };
    let plan = solved(&Instance::from_spec(&spec).unwrap(), &options);
    assert_eq!(
        (plan.status, plan.objective_ms),
        (Status::Optimal, file["known"]["least_period"].as_f64())
    );
    let again = recomputed(&plan).iter().sum::<usize>() as u64;
    assert_eq!(again, file["known"]["least_recomputed_at_that_period"]);
}

/// The answers of Piper's published code, which are optimal: `results.csv` of the shared data.
#[test]
fn pipers_answers_are_proved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/piper");
    let Ok(mut table) = csv::Reader::from_path(folder.join("results.csv")) else {
        eprintln!("skipped: no shared data");
        return;
    };
    let mut instances = BTreeMap::new();
    for row in table.deserialize() {
        let row: BTreeMap<String, String> = row.unwrap();
        let file = row["file"].clone();
        let instance = instances
            .entry(file.clone())
            .or_insert_with(|| Instance::read(&folder.join(file), None).unwrap());
        let options = PipelineOptions {
            devices: row["devices"].parse().ok(),
            memory_limit: Some(row["memory"].parse().unwrap()),
            objective: Some(Objective::Period),
            micro_batches: row["mbs"].parse().ok(),
            ..choose()
        };
        let plan = solved(instance, &options);
        match row["objective"].parse::<f64>() {
            Ok(seconds) => {
                assert_eq!(plan.status, Status::Optimal, "{row:?}");
                let ratio = plan.objective_ms.unwrap() / 1e3 / seconds;
                assert!((ratio - 1.0).abs() < 1e-9, "{row:?}: {:?}", plan.objective_ms);
            }
            Err(_) => assert_eq!(plan.status, Status::Infeasible, "{row:?}"),
        }
    }
}
