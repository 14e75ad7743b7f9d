//! Cut and order together where devices hold several chunks: against all cuts and orders of small problems, and what becomes of the plan.

use crate::common::command::Folder;
use crate::common::{draws, problem_of, seeds};
use crate::oracles::cut_and_order::Asked;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde_json::{Value, json};
use stagecut::check::{check, pose};
use stagecut::control::Control;
use stagecut::formulations::partition::item_labels;
use stagecut::instance::Instance;
use stagecut::joint::{self, Found, Question, Weights};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::schedule::{Moves, Placement, chunks_of_plan, run};
use stagecut::spec::InstanceSpec;

/// Devices, chunks of each, and micro-batches whose orders are few enough to be tried.
const SHAPES: [[usize; 3]; 7] = [
    [2, 2, 1],
    [2, 2, 2],
    [2, 2, 3],
    [1, 3, 2],
    [1, 2, 3],
    [3, 2, 1],
    [2, 3, 1],
];

/// A small network whose layers read what any earlier one makes, or nothing.
fn drawn(seed: u64) -> Asked {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let [devices, chunks_of_a_device, micro_batches] = SHAPES[random.random_range(0..SHAPES.len())];
    let chunks = devices * chunks_of_a_device;
    let layers = chunks + random.random_range(0..=if chunks > 4 { 1 } else { 2 });
    let may_split = random.random();
    let weight_share =
        (may_split && random.random_range(0..3) == 0).then(|| [0.5, 0.37][random.random_range(0..2)]);
    let is_told = may_split && weight_share.is_none();
    let times = |random: &mut ChaCha8Rng| {
        let backward = random.random_range(0..=7);
        let weights = if is_told {
            random.random_range(0..=backward)
        } else {
            0
        };
        [random.random_range(0..=6), backward - weights, weights]
    };
    let has_memory = random.random_range(0..3) == 0;
    let has_room = !has_memory && random.random_range(0..4) == 0;
    let is_chain = random.random_range(0..4) == 0;
    Asked {
        layers: (0..layers).map(|_| times(&mut random)).collect(),
        bytes: (0..layers)
            .map(|_| [random.random_range(0..=3), random.random_range(0..=5)])
            .collect(),
        tensors: tensors(&mut random, layers, is_chain),
        devices,
        chunks_of_a_device,
        is_v: random.random(),
        micro_batches,
        overlapped: random.random(),
        may_split,
        weight_share,
        memory: has_memory.then(|| random.random_range(4..=50)),
        room: has_room.then(|| random.random_range(1..=5)),
    }
}

fn tensors(random: &mut impl Rng, layers: usize, is_chain: bool) -> Vec<(usize, Vec<usize>, u64)> {
    let mut tensors = Vec::new();
    for layer in 0..layers - 1 {
        let mut readers: Vec<usize> = (layer + 1..layers)
            .filter(|_| random.random_range(0..3) == 0)
            .collect();
        if is_chain {
            readers = vec![layer + 1];
        }
        if !readers.is_empty() {
            tensors.push((layer, readers, random.random_range(0..=6)));
        }
    }
    tensors
}

/// The same as an instance; its options say nothing of stages.
fn instance(asked: &Asked) -> Value {
    let ms = |ns: u64| ns as f64 / 1e6;
    let layer = |(at, (&[forward, input, weights], &[base, stash])): (usize, (&[u64; 3], &[u64; 2]))| {
        let mut layer = json!({
            "id": format!("n{at}"), "forward_ms": ms(forward), "backward_ms": ms(input + weights),
            "resident_bytes": base, "stash_bytes": stash,
        });
        if asked.may_split && asked.weight_share.is_none() {
            layer["weight_ms"] = json!(ms(weights));
        }
        layer
    };
    let layers = asked.layers.iter().zip(&asked.bytes).enumerate().map(layer);
    let tensor = |(producer, readers, ns): &(usize, Vec<usize>, u64)| {
        let readers: Vec<String> = readers.iter().map(|reader| format!("n{reader}")).collect();
        json!({ "producer": format!("n{producer}"), "consumers": readers, "bytes": ns })
    };
    let communication = if asked.overlapped {
        "overlapped"
    } else {
        "blocking"
    };
    let mut kind = json!({ "name": "g" });
    if let Some(bytes) = asked.memory {
        kind["memory_bytes"] = json!(bytes);
    }
    json!({
        "schema": "stagecut-instance/1", "name": "drawn",
        "network": { "layers": layers.collect::<Vec<_>>(), "tensors": asked.tensors.iter().map(tensor).collect::<Vec<_>>() },
        "cluster": { "device_kinds": [kind], "link": { "bandwidth_bytes_per_s": 1e9, "latency_ms": 0.0 } },
        "pipeline": { "mode": "training", "optimizer": "sgd", "communication": communication },
    })
}

/// The problem as the library has it.
fn posed(asked: &Asked) -> (Instance, Problem, Question) {
    let mut value = instance(asked);
    value["pipeline"]["stages"] = json!(asked.devices * asked.chunks_of_a_device);
    value["pipeline"]["objective"] = json!("period");
    // Memory is a matter of the order: that of a layer alone under another one says nothing.
    let spec: InstanceSpec = serde_json::from_value(value).expect("an instance");
    let mut loose = spec.clone();
    loose.pipeline.memory_limit = Some(stagecut::options::MemoryLimit::from(None));
    let (instance, mut problem) = problem_of(&loose).expect("a problem");
    problem.settings.memory_limit = asked.memory;
    let question = Question {
        devices: asked.devices,
        virtual_stages: asked.chunks_of_a_device,
        placement: if asked.is_v { Placement::V } else { Placement::Loop },
        micro_batches: asked.micro_batches,
        weights: Weights::of(&instance, &problem, asked.weight_share),
        room: asked.room,
    };
    (instance, problem, question)
}

/// The plan passes the check under the problem that it states, and its order takes as long as was found.
fn hold(instance: &Instance, plan: &Plan, found_ns: u64, named: &str) {
    let posed = pose(instance, &plan.problem, plan).unwrap_or_else(|error| panic!("{named}: {error}"));
    let violations = check(instance, &posed.settings, plan);
    assert!(violations.is_empty(), "{named}: {violations:?}");
    let moves = Moves {
        devices: None,
        placement: plan.problem.placement.unwrap_or(Placement::Loop),
        weight_share: None,
    };
    let chunks = chunks_of_plan(plan, &moves).unwrap_or_else(|error| panic!("{named}: {error}"));
    let order = plan.order.as_ref().map(|order| order.read().expect("operations"));
    let order = order.unwrap_or_else(|| panic!("{named}: no order"));
    let ran = run(&chunks, &order, order.micro_batches()).unwrap_or_else(|fault| panic!("{named}: {fault}"));
    assert_eq!(ran.makespan_ns, found_ns, "{named}");
}

/// What the order that was found takes by layers and tensors alone.
fn runs(asked: &Asked, problem: &Problem, found: &Found) -> Option<u64> {
    let ((cut, _), order) = found.cut.as_ref().zip(found.of_cut.order.as_ref())?;
    let devices = order.devices.iter().map(|list| {
        let operations = list.iter();
        let operations = operations.map(|of| (of.chunk, of.phase.letter(), of.micro_batch));
        operations.collect()
    });
    let mut by_layer = vec![0; asked.layers.len()];
    for (item, &chunk) in problem.items.iter().zip(cut) {
        item.layers.iter().for_each(|&layer| by_layer[layer] = chunk);
    }
    asked.runs(&by_layer, &devices.collect::<Vec<_>>())
}

/// What is found of all of them is the shortest iteration of all cuts and orders, and proved.
#[test]
fn small_problems_are_as_short_as_any_cut_and_order() {
    // With one micro-batch the first device may take all there is, which a bound on devices in a V once took for no cut.
    let seeds: Vec<u64> = seeds(200).chain([16_427]).collect();
    let open: u64 = seeds
        .into_par_iter()
        .map(|seed| {
            let asked = drawn(seed);
            let (instance, problem, question) = posed(&asked);
            let labels = item_labels(&instance, &problem);
            let found = joint::best(&problem, &question, &labels, &Control::default());
            let named = format!("seed {seed}, {asked:?}");
            let found_ns = found.of_cut.iteration_ns;
            assert_eq!(
                asked.shortest_below(found_ns.unwrap_or(u64::MAX)),
                None,
                "{named}"
            );
            if let Some(found_ns) = found_ns {
                assert_eq!(runs(&asked, &problem, &found), Some(found_ns), "{named}");
                let plan = joint::plan((&instance, &problem), &question, &found, "other").expect("a cut");
                hold(&instance, &plan, found_ns, &named);
            }
            let is_proved = matches!(found.of_cut.status, Status::Optimal | Status::Infeasible);
            u64::from(!is_proved)
        })
        .sum();
    assert_eq!(open, 0, "of {} not proved", draws(200));
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What the command says of a problem, with its plan in `plan.json`.
fn scheduled(folder: &Folder, asked: &Asked) -> Value {
    folder.write("net.json", instance(asked).to_string());
    let numbers =
        [asked.devices, asked.chunks_of_a_device, asked.micro_batches].map(|number| number.to_string());
    let [devices, virtual_stages, micro_batches] = &numbers;
    let placement = if asked.is_v { "v" } else { "loop" };
    let mut args = vec!["schedule", "--instance", "net.json", "--devices", devices];
    args.extend([
        "--virtual-stages",
        virtual_stages,
        "--micro-batches",
        micro_batches,
        "--placement",
        placement,
    ]);
    args.extend(["--plan-output", "plan.json", "--format", "json"]);
    let share = asked.weight_share.map(|share| share.to_string());
    share
        .iter()
        .for_each(|share| args.extend(["--weight-share", share]));
    let room = asked.room.map(|room| room.to_string());
    room.iter().for_each(|room| args.extend(["--room", room]));
    let run = folder.run(&args);
    match run.code {
        0 => json_of(&run.stdout),
        3 => Value::Null,
        code => panic!("{args:?}: {code}, {}", run.stderr),
    }
}

/// `check` accepts the plan, and `simulate` takes just as long as the answer says.
#[test]
fn plans_are_checked_and_simulated_as_they_were_found() {
    let folder = Folder::new();
    for seed in 0..24 {
        let asked = drawn(seed);
        let answer = scheduled(&folder, &asked);
        let found_ms = answer["iteration"]["iteration_ms"].as_f64();
        let found_ns = found_ms.map_or(u64::MAX, |ms| (ms * 1e6).round() as u64);
        assert_eq!(asked.shortest_below(found_ns), None, "seed {seed}");
        if found_ms.is_none() {
            continue;
        }
        let mut args = vec!["check", "net.json", "plan.json"];
        // Room in activations is asked for in place of memory.
        if asked.room.is_some() {
            args.extend(["--memory-limit", "none"]);
        }
        folder.succeed(&args);
        let simulated = json_of(&folder.succeed(&["simulate", "plan.json", "--format", "json"]));
        assert_eq!(
            simulated["iteration"]["iteration_ms"].as_f64(),
            found_ms,
            "seed {seed}"
        );
        let devices: Vec<Value> = simulated["devices"].as_array().cloned().unwrap_or_default();
        assert_eq!(Some(&devices), answer["devices"].as_array(), "seed {seed}");
    }
}

/// Two chunks of one device that are no neighbours exchange nothing: four layers, a tensor from the first to the last.
#[test]
fn chunks_of_a_device_that_are_no_neighbours_exchange_nothing() {
    let case = include_str!("../cases/joint-chunks-same-device-transfer.json");
    let folder = Folder::with("net.json", case);
    let asked = [
        "schedule",
        "--instance",
        "net.json",
        "--devices",
        "2",
        "--micro-batches",
        "1",
    ];
    let chunks = ["--virtual-stages", "2", "--placement", "loop", "--format", "json"];
    for communication in ["blocking", "overlapped"] {
        let more = ["--communication", communication, "--plan-output", "plan.json"];
        let answer = json_of(&folder.succeed(&[&asked[..], &chunks, &more].concat()));
        assert_eq!(answer["iteration"]["iteration_ms"], 0.000018, "{communication}");
        assert_eq!(answer["status"], "optimal");
        folder.succeed(&["check", "net.json", "plan.json", "--communication", communication]);
    }
}

/// A plan does not state another order or time than its own.
#[test]
fn orders_of_plans_are_checked() {
    let folder = Folder::new();
    let asked = (0..)
        .map(drawn)
        .find(|asked| asked.room.is_none() && asked.micro_batches == 2 && asked.devices == 2);
    let asked = asked.expect("one of them");
    let answer = scheduled(&folder, &asked);
    assert!(!answer.is_null());
    let plan = json_of(&folder.read("plan.json"));
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut broken = plan.clone();
        change(&mut broken["order"]);
        folder.write("broken.json", broken.to_string());
        folder.run(&["check", "net.json", "broken.json"])
    };
    let first = plan["order"]["devices"][0].as_str().expect("a line");
    let turned = first.split(',').rev().collect::<Vec<_>>().join(",");
    let shorter = first.rsplit_once(',').expect("several").0;
    type Change<'a> = Box<dyn Fn(&mut Value) + 'a>;
    let cases: Vec<(&str, Change)> = vec![
        (
            "waits for a later operation",
            Box::new(|order| order["devices"][0] = json!(turned)),
        ),
        (
            "not all of micro-batch",
            Box::new(|order| order["devices"][0] = json!(shorter)),
        ),
        (
            "on line 1",
            Box::new(|order| order["devices"][0] = json!(format!("{first},0F9"))),
        ),
        (
            "on line 1",
            Box::new(|order| order["devices"][0] = json!(format!("{first},0F0"))),
        ),
        (
            "`x`",
            Box::new(|order| order["devices"][0] = json!(format!("{first},x"))),
        ),
        (
            "order.iteration_ms",
            Box::new(|order| order["iteration_ms"] = json!(1.0)),
        ),
        (
            "weight_share",
            Box::new(|order| order["weight_share"] = json!(2.0)),
        ),
    ];
    for (expected, change) in &cases {
        let run = broken(change);
        assert_eq!(run.code, 1, "{expected}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(expected), "no `{expected}` in {}", run.stdout);
    }
    let other = folder.run(&["simulate", "plan.json", "--micro-batches", "3"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("--schedule"), "{}", other.stderr);
    folder.write("broken.json", {
        let mut broken = plan.clone();
        broken["order"]["devices"][0] = json!(turned);
        broken.to_string()
    });
    let stuck = folder.run(&["simulate", "broken.json"]);
    assert_eq!(stuck.code, 2, "{}", stuck.stderr);
}
