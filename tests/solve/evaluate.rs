//! Stages that somebody else chose: what they cost, and what is wrong with them.

use std::collections::BTreeSet;

use crate::common::command::{Folder, NET, Run, refused, solved};
use crate::common::{
    any_spec, mixed::mixed_spec, modal::random_modal, ns, problem_of, rounding_ns, whole_ns,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use stagecut::cost::{self, allocation::Allocation};
use stagecut::evaluate::{Evaluation, evaluate};
use stagecut::heuristics::global_shares;
use stagecut::instance::Instance;
use stagecut::options::{Cuts, WorkerMode};
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::plan::{self, Plan, Status};
use stagecut::problem::Problem;
use stagecut::spec::InstanceSpec;
use stagecut::{Options, check};

/// What is left of a plan if all its numbers are forgotten.
fn least_of(plan: &Plan) -> BarePlan {
    let stage = |stage: &plan::PlanStage| BareStage {
        layers: stage.forward.clone(),
        backward: Some(stage.backward.clone()),
        devices: stage.devices.clone(),
        mode: stage.mode.clone(),
    };
    BarePlan {
        stages: plan.stages.iter().map(stage).collect(),
    }
}

/// Costs the stages of a plan of ours; they must come to what the plan says, and pass.
fn comes_back(instance: &Instance, problem: &Problem) -> Option<Plan> {
    let solved = stagecut::solve(instance, &Options::default()).expect("a solver that works");
    if solved.stages.is_empty() {
        return None;
    }
    let Evaluation { plan, violations, .. } =
        evaluate(instance, &problem.settings, Some(problem), &least_of(&solved))
            .expect("stages of the network");
    let name = &instance.name;
    assert!(violations.is_empty(), "{name}: {violations:?}");
    let (before, after) = (ns(solved.objective_ms), ns(plan.objective_ms));
    let is_near = before.abs_diff(after) <= rounding_ns(problem);
    // One share for all stages is searched for where stages alone are given: of several types of resources it may not be the best.
    let may_be_longer = problem.shares_are_global() && after > before;
    assert!(is_near || may_be_longer, "{name}: {before} and {after}");
    // Its own numbers pass the check as those of any plan, and say no more than is proved.
    assert_eq!(
        check(instance, &Options::default(), &plan).expect("options"),
        [],
        "{name}"
    );
    assert!(
        plan.bound_ms <= solved.bound_ms || plan.status == Status::Optimal,
        "{name}"
    );
    if problem.settings.worker == WorkerMode::Sequential && problem.modes.is_none() {
        assert_eq!(plan.stages, solved.stages, "{name}");
    }
    assert_eq!(plan.split, solved.split, "{name}");
    Some(plan)
}

fn all_come_back(specs: impl Iterator<Item = InstanceSpec>, least: usize) {
    let problems = specs.filter_map(|spec| problem_of(&spec));
    let came = problems.filter_map(|(instance, problem)| comes_back(&instance, &problem));
    let count = came.count();
    assert!(count >= least, "only {count} plans");
}

#[test]
fn plans_of_ours_come_back_from_their_stages_alone() {
    all_come_back((0..400).map(any_spec), 150);
    all_come_back((0..150).map(mixed_spec), 50);
}

#[test]
fn plans_in_modes_come_back_from_their_stages_alone() {
    all_come_back((0..150).map(random_modal), 50);
}

/// Items in stages at random, none of them empty, on workers at random.
fn at_random(rng: &mut ChaCha8Rng, problem: &Problem) -> Allocation {
    let most = problem.stages();
    let drawn: Vec<usize> = problem.items.iter().map(|_| rng.random_range(0..most)).collect();
    let mut drawn = match rng.random_bool(0.5) {
        true => drawn,
        // Items are numbered in a topological order, so that these keep it.
        false => {
            let mut sorted = drawn;
            sorted.sort_unstable();
            sorted
        }
    };
    let used: BTreeSet<usize> = drawn.iter().copied().collect();
    let used: Vec<usize> = used.into_iter().collect();
    drawn
        .iter_mut()
        .for_each(|stage| *stage = used.partition_point(|other| other < stage));
    let choices = problem
        .workers
        .as_ref()
        .map_or(0, |workers| workers.choices.len());
    Allocation {
        assignment: drawn,
        choices: match choices {
            0 => Vec::new(),
            _ => used.iter().map(|_| rng.random_range(0..choices)).collect(),
        },
        global: Vec::new(),
        modes: None,
    }
}

/// The allocation as somebody would write it down.
fn written(instance: &Instance, problem: &Problem, allocation: &Allocation) -> BarePlan {
    let used = allocation.assignment.iter().max().map_or(0, |last| last + 1);
    let mut stages = vec![
        BareStage {
            backward: Some(Vec::new()),
            ..BareStage::default()
        };
        used
    ];
    let name = |&layer: &usize| instance.network.layers[layer].id.clone();
    for (item, &k) in problem.items.iter().zip(&allocation.assignment) {
        stages[k].layers.extend(item.layers.iter().map(name));
        let backward = item.backward_layers.iter().map(name);
        stages[k].backward.as_mut().expect("a list").extend(backward);
    }
    if problem.settings.cuts == Cuts::Tied && !instance.network.has_explicit_backward() {
        stages.iter_mut().for_each(|stage| stage.backward = None);
    }
    if let Some(workers) = &problem.workers {
        for (stage, &choice) in stages.iter_mut().zip(&allocation.choices) {
            // Names of kinds stand for their next devices.
            let devices = workers.classes.iter().zip(&workers.choices[choice].devices);
            stage.devices = devices
                .flat_map(|(class, &count)| vec![class.name.clone(); count])
                .collect();
        }
    }
    BarePlan { stages }
}

/// What the search's own cost functions say of an allocation: whether it can be run, and its objective in ns.
fn of_the_search(problem: &Problem, allocation: Allocation) -> (bool, Option<u64>) {
    let Some(workers) = &problem.workers else {
        let ticks = cost::assignment_ns(problem, &allocation.assignment);
        let whole = whole_ns(problem, ticks);
        return (cost::is_feasible(problem, &allocation.assignment), Some(whole));
    };
    let mut allocation = global_shares::fill(problem, workers, allocation, &|| false);
    // Given groups of the same devices are one to whoever names devices: each stage takes the next of them.
    let mut left = workers.inventory.clone();
    for choice in &mut allocation.choices {
        let wanted = &workers.choices[*choice].devices;
        let is_free = |other: &&stagecut::workers::Choice| {
            other.devices == *wanted && other.takes.iter().zip(&left).all(|(takes, left)| takes <= left)
        };
        let Some(free) = workers.choices.iter().find(is_free) else {
            continue;
        };
        left.iter_mut()
            .zip(&free.takes)
            .for_each(|(left, takes)| *left -= takes);
        *choice = workers
            .choices
            .iter()
            .position(|other| other == free)
            .expect("a choice");
    }
    let objective = workers.objective_ns(problem, &allocation);
    let known = (objective < u64::MAX).then(|| whole_ns(problem, objective));
    (
        known.is_some() && workers.is_feasible(problem, &allocation),
        known,
    )
}

#[test]
fn stages_at_random_cost_what_the_search_says() {
    let mut counts = [0; 2];
    for seed in 0..3_000 {
        let Some((instance, problem)) =
            problem_of(&any_spec(seed)).filter(|(_, problem)| problem.modes.is_none())
        else {
            continue;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..3 {
            let allocation = at_random(&mut rng, &problem);
            let bare = written(&instance, &problem, &allocation);
            let found = evaluate(&instance, &problem.settings, Some(&problem), &bare)
                .unwrap_or_else(|error| panic!("{seed}: {error}"));
            let (runs, objective) = of_the_search(&problem, allocation);
            assert_eq!(
                found.violations.is_empty(),
                runs,
                "{seed}: {:?}",
                found.violations
            );
            if let (Some(own), Some(ms)) = (objective, found.plan.objective_ms) {
                let own_of_check = ns(Some(ms));
                assert!(
                    own.abs_diff(own_of_check) <= rounding_ns(&problem),
                    "{seed}: {own}, {ms} ms"
                );
            }
            assert!(!runs || found.plan.objective_ms.is_some(), "{seed}");
            counts[usize::from(runs)] += 1;
        }
    }
    assert!(counts.iter().all(|&count| count > 300), "{counts:?}");
}

#[test]
fn an_instance_that_is_written_down_is_the_same() {
    let specs = (0..600)
        .map(any_spec)
        .chain((0..200).map(mixed_spec))
        .chain((0..200).map(random_modal));
    let mut count = 0;
    for instance in specs.filter_map(|spec| Instance::from_spec(&spec).ok()) {
        let again = Instance::from_spec(&instance.to_spec())
            .unwrap_or_else(|error| panic!("{}: {error}", instance.name));
        assert_eq!(again.network, instance.network, "{}", instance.name);
        assert_eq!(again.cluster, instance.cluster, "{}", instance.name);
        assert_eq!(again.pipeline, instance.pipeline, "{}", instance.name);
        count += 1;
    }
    assert!(count > 500, "{count}");
}

/// Costs stages of [`NET`] in 2 stages.
fn cost_of(name: &str, stages: &str, options: &[&str]) -> Run {
    let folder = Folder::with("net.toml", NET);
    folder.write(name, stages);
    folder.run(&[&["check", "--evaluate", "net.toml", name][..], options].concat())
}

#[test]
fn stages_are_read_in_every_form() {
    let forms = [
        ("stages.csv", "layer,stage\nconv1,1\nconv2,1\nfc,2\n"),
        ("table", "# by hand\nstage,layer\n2,fc\n1,conv2\n1,conv1\n"),
        (
            "both.csv",
            "layer,stage,backward_stage\nconv1,1,1\nconv2,1,1\nfc,2,2\n",
        ),
        ("list.json", r#"[["conv1", "conv2"], ["fc"]]"#),
        (
            "named.json",
            r#"{"stages": [["conv1", "conv2"], {"layers": ["fc"]}]}"#,
        ),
        (
            "long.json",
            r#"{"stages": [{"layers": ["conv1", "conv2"], "backward": ["conv2", "conv1"], "devices": ["gpu:2"]},
                {"layers": ["fc"], "devices": ["gpu"]}]}"#,
        ),
    ];
    for (name, text) in forms {
        let run = cost_of(name, text, &["--format", "json"]);
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(report["schema"], "stagecut-evaluation/1");
        // 1 + 2 + 2 + 4 ms of work, and half a ms of transfer either way.
        assert_eq!(
            (&report["passes"], &report["objective_ms"]),
            (&json!(true), &json!(10.0)),
            "{name}"
        );
        assert_eq!(report["stages"][1]["load_ms"], 5.5, "{name}");
        assert!(report.get("bound_ms").is_none());
    }
}

#[test]
fn the_bound_is_shown_where_it_is_asked_for() {
    let run = cost_of("s.json", r#"[["conv1"], ["conv2", "fc"]]"#, &["--bound"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let last = run.stdout.lines().last().expect("lines");
    assert!(
        last.starts_with("bound: 10.000000 ms, by `") && last.ends_with("20.00 % below the objective"),
        "{last}"
    );
    let run = cost_of(
        "s.json",
        r#"[["conv1", "conv2"], ["fc"]]"#,
        &["--bound", "--stages", "2"],
    );
    assert!(
        run.stdout.contains("so it is proved that no plan is better"),
        "{}",
        run.stdout
    );
    let run = cost_of(
        "s.json",
        r#"[["conv1", "conv2"], ["fc"]]"#,
        &["--bound", "--memory-limit", "10"],
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("more than its device has"), "{}", run.stdout);
    assert!(
        run.stdout.contains("it is proved that there is no plan"),
        "{}",
        run.stdout
    );
}

#[test]
fn all_violations_stand_beside_the_cost() {
    let run = cost_of(
        "s.json",
        r#"[["conv2"], ["conv1"], ["fc"]]"#,
        &["--stages", "2", "--memory-limit", "1000"],
    );
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    for part in [
        "`s.json` fails: 3 violations",
        "`conv1` feeds `conv2` but lies 1 stages later",
        "found 3 stages, expected at most 2",
        "needs 1230 bytes, 230 more than its device has",
        "objective if it could be run: ",
        "stage 2: conv1 on gpu:2",
    ] {
        assert!(run.stdout.contains(part), "no `{part}` in {}", run.stdout);
    }
}

/// An iteration with fewer micro-batches in flight than hide its transfers, where there is no memory for more.
#[test]
fn iterations_are_those_that_memory_allows() {
    let folder = Folder::new();
    folder.write(
        "net.json",
        r#"{
            "network": {
                "layers": [
                    { "id": "a", "forward_ms": 4, "backward_ms": 2, "stash_bytes": 9 },
                    { "id": "b", "forward_ms": 4, "backward_ms": 6, "parameter_bytes": 20, "stash_bytes": 12 },
                    { "id": "c", "forward_ms": 6, "backward_ms": 2, "stash_bytes": 29 }
                ],
                "tensors": [{ "producer": "a", "consumers": ["b", "c"], "bytes": 3e6 }]
            },
            "cluster": { "device_kinds": [{ "name": "gpu" }], "link": { "bandwidth_bytes_per_s": 1e8 } },
            "pipeline": { "objective": "iteration", "micro_batches": 6, "communication": "overlapped", "stages": 2 }
        }"#,
    );
    folder.write("stages.json", r#"[["a", "c"], ["b"]]"#);
    for limit in ["none", "101"] {
        let options = ["--memory-limit", limit, "--output", "plan.json"];
        folder.succeed(&[&["check", "--evaluate", "net.json", "stages.json"][..], &options].concat());
        let plan: Value = serde_json::from_str(&folder.read("plan.json")).unwrap();
        folder.succeed(&["check", "net.json", "plan.json", "--memory-limit", limit]);
        let simulate = [
            "simulate",
            "plan.json",
            "--instance",
            "net.json",
            "--format",
            "json",
        ];
        let ran: Value = serde_json::from_str(&folder.succeed(&simulate)).unwrap();
        assert_eq!(plan["objective_ms"], ran["iteration_ms"], "{limit}");
    }
}

/// Shares are those of an assignment, which more stages than may be are not.
#[test]
fn too_many_concurrent_stages_are_told() {
    let concurrent = [
        "--worker",
        "concurrent",
        "--communication",
        "overlapped",
        "--stages",
        "2",
    ];
    for shares in ["best", "even", "theorem", "global"] {
        let options = [&concurrent[..], &["--shares", shares]].concat();
        let run = cost_of("s.json", r#"[["conv1"], ["conv2"], ["fc"]]"#, &options);
        assert_eq!(run.code, 1, "{shares}: {}", run.stderr);
        let told = "found 3 stages, expected at most 2";
        assert!(run.stdout.contains(told), "{shares}: {}", run.stdout);
        assert_eq!(
            cost_of("s.json", r#"[["conv1", "conv2"], ["fc"]]"#, &options).code,
            0
        );
    }
}

#[test]
fn what_is_no_plan_is_told_at_once() {
    let text = r#"[["conv1", "conv4", "conv1"], [], ["nowhere", "conv1"]]"#;
    refused(
        &cost_of("s.json", text, &[]),
        &[
            "7 faults in `s.json`",
            "stages[0].layers: found `conv4`, expected the name of a layer help: did you mean `conv",
            "stages[0]: found the layer `conv1` again, expected every layer once, and it lies in stages[0]",
            "stages[1]: found no layer, expected at least one in every stage",
            "stages[2].layers: found `nowhere`, expected the name of a layer",
            "stages[2]: found the layer `conv1` again",
            "stages: found no stage for the layer `conv2`, expected one for every layer",
            "stages: found no stage for the layer `fc`",
        ],
    );
    let of_fields = r#"{"stages": [{"forward": ["conv1"]}, {"layers": 3}, 4, ["fc", 5]]}"#;
    refused(
        &cost_of("s.json", of_fields, &[]),
        &[
            "stages[0]: found no field `layers`",
            "stages[0]: found unknown field `forward`",
            "stages[1]: found the number `3`, expected a list",
            "stages[2]: found the number 4, expected a list of layers",
            "stages[3][1]: found the number 5, expected the name of a layer",
        ],
    );
}

/// A file, and what is said of it.
const NO_PLANS: &[(&str, &str, &str)] = &[
    (
        "s.csv",
        "layer,stage\nconv1,0\nconv2,1.5\nfc,1e300\n",
        "line 2, column `stage`: found 0, expected the whole number",
    ),
    (
        "s.csv",
        "layer,stages\nconv1,1\n",
        "found unknown field `stages`, expected one of `layer`, `stage`",
    ),
    (
        "s.csv",
        "layer,stage\nconv1,one\n",
        "line 2, column `stage`: found `one`, expected a number",
    ),
    (
        "s.csv",
        "layer,stage\nconv1,1\nconv2,3\nfc,3\n",
        "stages[1]: found no layer",
    ),
    ("s.csv", "", "expected `layer,stage`"),
    (
        "s.json",
        "{}",
        "stages: found no field `stages`, expected a list of stages",
    ),
    (
        "s.json",
        r#"{"stages": 3}"#,
        "stages: found the number 3, expected a list of stages",
    ),
    (
        "s.json",
        r#"{"stages": [], "name": "x"}"#,
        "found unknown field `name`",
    ),
    ("s.json", r#"[["conv1""#, "found the end of the file"),
    ("s.json", "3", "found the number 3, expected a list of stages"),
    (
        "s.json",
        r#"{"network": {}}"#,
        "found an instance, expected the stages of a plan",
    ),
    (
        "s.json",
        r#"[{"layers": ["conv1", "conv2", "fc"], "mode": {"tensor": 2, "replicas": 1}}]"#,
        "stages[0].mode: found a mode, expected none",
    ),
    (
        "s.json",
        r#"[{"layers": ["conv1", "conv2", "fc"], "backward": ["conv1", "fc"]}]"#,
        "found no stage for the backward pass of the layer `conv2`",
    ),
];

#[test]
fn every_other_slip_has_a_place_and_a_remedy() {
    for (name, text, part) in NO_PLANS {
        refused(&cost_of(name, text, &[]), &[part]);
    }
}

#[test]
fn devices_of_several_kinds_must_be_named() {
    let unlike = "network.layers = [{ id = \"x\", forward_ms = 1 }]\ncluster.device_kinds = [{ name = \"npu\", count = 2 }, { name = \"gpu\", count = 2 }]\n";
    let folder = Folder::with("net.toml", unlike);
    folder.write("s.json", r#"[["x"]]"#);
    refused(
        &folder.run(&["check", "--evaluate", "net.toml", "s.json"]),
        &["stages[0]: found no devices, expected those of the stage, of `npu`, `gpu`"],
    );
    folder.write("s.json", r#"[{"layers": ["x"], "devices": ["npu:7"]}]"#);
    let run = folder.run(&["check", "--evaluate", "net.toml", "s.json"]);
    assert!(
        run.code == 1
            && run
                .stdout
                .contains("device `npu:7` is beyond the count of its kind"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_whole_plan_and_stages_alone_are_told_apart() {
    let folder = solved();
    folder.write("s.json", r#"[["conv1", "conv2"], ["fc"]]"#);
    folder.write("named.json", r#"{"stages": [["conv1", "conv2"], ["fc"]]}"#);
    folder.write("s.csv", "layer,stage\nconv1,1\nconv2,1\nfc,2\n");
    for name in ["s.json", "named.json", "s.csv"] {
        for command in [
            &["check", "net.toml", name][..],
            &["show", "net.toml", "--plan", name],
            &["simulate", name],
        ] {
            let expected = [
                "found stages alone, expected a whole plan",
                "`stagecut check --evaluate INSTANCE STAGES`",
            ];
            refused(&folder.run(command), &expected);
        }
    }
    // A plan of ours lacks what it lacks, its first field among it.
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    for field in ["schema", "status", "objective_ms"] {
        plan.as_object_mut().expect("a table").remove(field);
    }
    folder.write("torn.json", plan.to_string());
    let expected = [
        "2 faults in `torn.json`",
        "found no field `schema`",
        "found no field `status`",
    ];
    refused(&folder.run(&["check", "net.toml", "torn.json"]), &expected);
    // The stages of one that was changed by hand are costed, whatever it still says of them.
    let mut plan: Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    plan["stages"][0]["forward"] = json!(["conv1"]);
    plan["stages"][0]["backward"] = json!(["conv1"]);
    plan["stages"][1]["forward"] = json!(["conv2", "fc"]);
    plan["stages"][1]["backward"] = json!(["conv2", "fc"]);
    folder.write("changed.json", plan.to_string());
    assert_eq!(folder.run(&["check", "net.toml", "changed.json"]).code, 1);
    let text = folder.succeed(&[
        "check",
        "--evaluate",
        "net.toml",
        "changed.json",
        "--output",
        "whole.json",
    ]);
    assert!(text.contains("objective 12.500000 ms"), "{text}");
    let text = folder.succeed(&["check", "net.toml", "whole.json", "--stages", "2"]);
    assert!(
        text.contains("passes: feasible plan in 2 stages, objective 12.500000 ms"),
        "{text}"
    );
    folder.succeed(&["simulate", "whole.json", "--instance", "net.toml"]);
    folder.succeed(&["show", "net.toml", "--plan", "whole.json"]);
    folder.succeed(&["export", "net.toml", "whole.json", "--to", "json"]);
}

#[test]
fn numbers_beyond_all_counts_are_no_numbers_of_a_plan() {
    let rows = "layer,stage\nconv1,1\nconv2,1\nfc,18446744073709551616\n";
    refused(
        &cost_of("s.csv", rows, &[]),
        &["expected the whole number of a stage, from 1"],
    );
    let far = cost_of("s.csv", "layer,stage\nconv1,1\nconv2,1\nfc,999999\n", &[]);
    refused(
        &far,
        &["found 999999, expected the whole number of a stage, from 1 to 65536"],
    );
    // Below that limit no stage of each number is made.
    let many = cost_of("s.csv", "layer,stage\nconv1,1\nconv2,1\nfc,60000\n", &[]);
    refused(&many, &["found 60000 stages, expected at most 6 for 3 layers"]);
    assert!(
        far.stderr.len() < 20_000 && far.elapsed.as_secs() < 10,
        "{:?}",
        far.elapsed
    );
    let mode =
        r#"[{"layers": ["conv1", "conv2", "fc"], "mode": {"tensor": 18446744073709551615, "replicas": 2}}]"#;
    let run = cost_of(
        "s.json",
        mode,
        &["--replicas", "choose", "--devices", "4", "--micro-batches", "4"],
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.elapsed.as_secs() < 5, "{:?}", run.elapsed);
    // One device too many is told, not each of a million.
    let mode = r#"[{"layers": ["conv1", "conv2", "fc"], "mode": {"tensor": 1000001, "replicas": 1}}]"#;
    let run = cost_of("s.json", mode, &["--tensor", "choose", "--devices", "4"]);
    assert!(run.stdout.len() < 2_000, "{}", run.stdout);
}

#[test]
fn the_schema_of_a_plan_describes_both_forms() {
    let schema: Value = serde_json::from_str(&Folder::new().succeed(&["schema", "plan"])).expect("JSON");
    assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(3));
    for name in ["Plan", "StagesAlone", "BareStage"] {
        assert!(schema["$defs"].get(name).is_some(), "no {name}");
    }
}
