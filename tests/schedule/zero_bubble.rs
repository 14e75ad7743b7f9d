//! Zero-bubble orders in the simulator: the formulas of their paper, the same times as orders of chunks have, and what is refused.

use crate::common::command::{Folder, json, refused, snapshots, solved_with};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use stagecut::options::{Communication, Mode, PipelineOptions};
use stagecut::plan::{Moved, Plan, PlanStage, Transfers, parse};
use stagecut::schedule::rules::{Shape, find};
use stagecut::schedule::{Moves, Operation, Order, Phase, Placement, chunks_of_plan, run};
use stagecut::simulate::{self, InFlight, Jitter, Listed, Request, Resource, Simulation};

/// A plan with these F, B (without W) and W in ms; a transfer in every phase and direction, given in ms, between neighbours.
fn plan(times: &[[f64; 3]], moved: &[f64], communication: Communication) -> Plan {
    let text = r#"{"schema": "stagecut-plan/1", "instance": "stages", "method": "other", "status": "feasible",
        "stopped_by": "completed", "objective_ms": null, "bound_ms": null, "gap": null, "bound_source": "none", "problem": {},
        "stages": [], "statistics": {"seconds": 0, "nodes": 0, "items": 0, "items_after_presolve": 0, "binaries": 0}}"#;
    let mut plan = parse(text.as_bytes()).expect("a plan");
    plan.problem = PipelineOptions {
        mode: Some(Mode::Training),
        communication: Some(communication),
        ..PipelineOptions::default()
    };
    let q = times.len();
    let between = |k: Option<usize>| k.and_then(|k| moved.get(k)).copied().unwrap_or(0.0);
    for (k, &[forward_ms, input_ms, weight_ms]) in times.iter().enumerate() {
        let (before, after) = (between(k.checked_sub(1)), between((k + 1 < q).then_some(k)));
        let ways = |in_ms, out_ms| Moved { in_ms, out_ms };
        plan.stages.push(PlanStage {
            index: k + 1,
            forward: vec![format!("l{k}")],
            backward: vec![format!("l{k}")],
            devices: vec![format!("gpu:{}", k + 1)],
            shares: Default::default(),
            load_ms: forward_ms + input_ms + weight_ms,
            forward_ms,
            backward_ms: input_ms + weight_ms,
            weight_ms: Some(weight_ms),
            communication_ms: 2.0 * (before + after),
            synchronization_ms: None,
            transfers: Some(Transfers {
                forward: ways(before, after),
                backward: ways(after, before),
            }),
            memory_bytes: 0,
            in_flight: Some((q - k) as u64),
            weight_versions: Some(1),
            mode: None,
            chunks_ms: Vec::new(),
            chunk_transfers: Vec::new(),
        });
    }
    plan
}

fn order(name: &str, stages: usize, micro_batches: usize) -> Order {
    let shape = Shape {
        devices: stages,
        virtual_stages: 1,
        placement: Placement::Loop,
        micro_batches,
    };
    let rule = find(name).expect("a rule");
    rule.order(&shape).expect("a rule for one chunk a device")
}

/// A run of a plan in the order of a rule, or by its schedule where that has the name.
fn simulated(plan: &Plan, name: &'static str, micro_batches: usize) -> Simulation {
    let listed = (name != "1f1b").then(|| Listed {
        name,
        order: order(name, plan.stages.len(), micro_batches),
    });
    let request = Request {
        micro_batches: Some(micro_batches as u64),
        listed,
        ..Request::default()
    };
    simulate::simulate(plan, &request).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// The longest idle time of a worker between its first and its last task, in ms.
fn bubble_ms(simulation: &Simulation) -> f64 {
    let of_stage = |stage: usize| {
        let own = simulation
            .events
            .iter()
            .filter(|event| event.stage == stage && event.resource == Resource::Worker);
        let own: Vec<_> = own.collect();
        let busy: f64 = own.iter().map(|event| event.end_ms - event.start_ms).sum();
        own[own.len() - 1].end_ms - own[0].start_ms - busy
    };
    (1..=simulation.stages.len()).map(of_stage).fold(0.0, f64::max)
}

/// Micro-batches in flight on the first of so many stages.
type InFlightOf = fn(u64) -> u64;

/// Qi et al. (ICLR 2024), Section 2.3: for even stages a bubble of (p - 1)(T_F + T_B + T_W) under 1F1B, of (p - 1)(T_F + T_B - T_W) under
/// ZB-H1 with the same p micro-batches in flight, and of (p - 1)(T_F + T_B - 2 T_W) under ZB-H2 with 2p - 1 of them; no bubble at all
/// where the three take as long.
#[test]
fn bubbles_and_micro_batches_in_flight_are_the_published_ones() {
    let published: [(&str, f64, InFlightOf); 3] = [
        ("1f1b", -1.0, |p| p),
        ("zb-h1", 1.0, |p| p),
        ("zb-h2", 2.0, |p| 2 * p - 1),
    ];
    for [f, b, w] in [[1.0, 1.0, 1.0], [10.0, 12.0, 8.0], [3.0, 4.0, 2.0]] {
        for p in [2, 3, 4, 5, 6, 8] {
            let plan = plan(&vec![[f, b, w]; p], &[], Communication::Blocking);
            for m in [2 * p, 3 * p, 8 * p] {
                for (name, hidden, in_flight) in published {
                    let simulation = simulated(&plan, name, m);
                    let formula = (p - 1) as f64 * (f + b - hidden * w);
                    assert!(
                        (bubble_ms(&simulation) - formula).abs() < 1e-6,
                        "{name} p={p} m={m}"
                    );
                    let held = simulation.stages[0].most_in_flight;
                    assert_eq!(held, in_flight(p as u64).min(m as u64), "{name} p={p} m={m}");
                    assert_eq!(simulation.least_period_ms, f + b + w);
                }
            }
        }
    }
}

fn random(seed: u64) -> (Vec<[f64; 3]>, Vec<f64>, usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let q = rng.random_range(1..=6);
    let mut ms = || f64::from(rng.random_range(0..=9_u32));
    let times = (0..q).map(|_| [ms() + 1.0, ms() + 1.0, ms()]).collect();
    let moved = (1..q).map(|_| ms()).collect();
    let m = rng.random_range(1..=12);
    (times, moved, m)
}

/// Where workers wait for their transfers, a run of stages is a run of chunks. Links may be what is waited for, which chunks do not
/// know: there a run never takes less than one in which transfers are delays.
#[test]
fn runs_of_stages_agree_with_runs_of_chunks() {
    let moves = Moves {
        devices: None,
        placement: Placement::Loop,
        weight_share: None,
    };
    let mut waits = 0;
    for seed in 0..1_000 {
        let (times, moved, m) = random(seed);
        for communication in [
            Communication::Ignored,
            Communication::Blocking,
            Communication::Overlapped,
        ] {
            let moved = if communication == Communication::Ignored {
                &[][..]
            } else {
                &moved
            };
            let plan = plan(&times, moved, communication);
            let chunks = chunks_of_plan(&plan, &moves).expect("chunks");
            for name in ["zb-h1", "zb-h2"] {
                let simulation = simulated(&plan, name, m);
                let ran = run(&chunks, &order(name, times.len(), m), m).expect("it can be run");
                let ran_ms = ran.makespan_ns as f64 / 1e6;
                let difference = simulation.iteration_ms - ran_ms;
                match communication {
                    Communication::Overlapped => {
                        assert!(difference > -1e-6, "{seed} {name}: {difference}");
                        waits += usize::from(difference > 1e-6);
                    }
                    _ => assert!(
                        difference.abs() < 1e-6,
                        "{seed} {name} {communication}: {difference}"
                    ),
                }
                if times.iter().flatten().all(|&ms| ms > 0.0) {
                    let held: Vec<u64> = simulation
                        .stages
                        .iter()
                        .map(|stage| stage.most_in_flight)
                        .collect();
                    assert!(
                        held.iter().zip(&ran.peak).all(|(held, peak)| held <= peak),
                        "{seed} {name}"
                    );
                }
                let busy: f64 = simulation
                    .resources
                    .iter()
                    .filter(|lane| lane.resource == Resource::Worker)
                    .map(|lane| lane.busy_ms)
                    .sum();
                let work: f64 = times.iter().flatten().sum::<f64>()
                    + match communication {
                        Communication::Blocking => 4.0 * moved.iter().sum::<f64>(),
                        _ => 0.0,
                    };
                assert!((busy - m as f64 * work).abs() < 1e-6, "{seed} {name}");
            }
        }
    }
    assert!(waits > 100, "{waits} runs that wait for links");
}

/// Gradients of weights take part in traces and jitter as any task does.
#[test]
fn jitter_depends_on_the_task_alone() {
    let plan = plan(
        &[[1.0, 1.0, 1.0], [2.0, 1.0, 1.5]],
        &[0.5],
        Communication::Blocking,
    );
    let lengths = |name| {
        let request = Request {
            micro_batches: Some(5),
            listed: Some(Listed {
                name,
                order: order(name, 2, 5),
            }),
            jitter: Some(Jitter {
                fraction: 0.3,
                seed: 7,
            }),
            ..Request::default()
        };
        let simulation = simulate::simulate(&plan, &request).expect("it can be run");
        let mut lengths: Vec<(usize, usize, Phase, i64)> = (simulation.events.iter())
            .map(|e| {
                (
                    e.stage,
                    e.micro_batch,
                    e.phase,
                    ((e.end_ms - e.start_ms) * 1e6).round() as i64,
                )
            })
            .collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths("zb-h1"), lengths("zb-h2"));
    let of_weights: Vec<i64> = (lengths("zb-h1").into_iter())
        .filter_map(|(stage, _, phase, ns)| (stage == 1 && phase == Phase::WeightGradient).then_some(ns))
        .collect();
    assert_eq!(of_weights.len(), 5);
    assert!(
        of_weights
            .iter()
            .all(|&ns| ns != 1_000_000 && (700_000..=1_300_000).contains(&ns))
    );
}

#[test]
fn orders_that_are_none_of_the_plan_are_refused() {
    let even = plan(&[[1.0, 1.0, 1.0]; 2], &[], Communication::Blocking);
    let refusal = |plan: &Plan, change: &dyn Fn(&mut Order), in_flight: Option<InFlight>| {
        let mut order = order("zb-h1", 2, 3);
        change(&mut order);
        let request = Request {
            micro_batches: Some(3),
            listed: Some(Listed { name: "mine", order }),
            in_flight,
            ..Request::default()
        };
        simulate::simulate(plan, &request)
            .expect_err("it is refused")
            .to_string()
    };
    let orders: [&dyn Fn(&mut Order); 5] = [
        &|order| order.devices.truncate(1),
        &|order| order.devices[1].truncate(8),
        &|order| order.devices[1].swap(0, 1),
        &|order| {
            let first = order.devices[0][0];
            *order.devices[0].last_mut().expect("an operation") = first;
        },
        &|order| order.devices[0].push(Operation::new(0, Phase::Backward, 0)),
    ];
    for change in orders {
        let found = refusal(&even, change, None);
        assert!(
            found.contains("missing, repeated, or wait for each other"),
            "{found}"
        );
    }
    let nothing = |_: &mut Order| {};
    assert!(refusal(&even, &nothing, Some(InFlight::Standard)).contains("the order itself says"));
    let mut silent = even.clone();
    silent.stages.iter_mut().for_each(|stage| stage.weight_ms = None);
    assert!(refusal(&silent, &nothing, None).contains("found no field `weight_ms` of any stage"));
    let mut inference = even.clone();
    inference.problem.mode = Some(Mode::Inference);
    assert!(refusal(&inference, &nothing, None).contains("a plan for inference"));
    let mut beyond = even;
    beyond.stages[1].weight_ms = Some(2.5);
    assert!(refusal(&beyond, &nothing, None).contains("stages[1].weight_ms: found more than `backward_ms`"));
}

/// Three layers in a row, one of which does not say what gradients of its weights take.
const NET: &str = r#"
[network]
layers = [
  { id = "conv1", forward_ms = 1.0, backward_ms = 2.0, weight_ms = 1.0, parameter_bytes = 100, stash_bytes = 10 },
  { id = "conv2", forward_ms = 2.0, backward_ms = 4.0, parameter_bytes = 200, stash_bytes = 20 },
  { id = "fc", forward_ms = 3.0, backward_ms = 6.0, weight_ms = 2.0, parameter_bytes = 300, stash_bytes = 30 },
]
tensors = [
  { producer = "conv1", consumers = ["conv2"], bytes = 1e6 },
  { producer = "conv2", consumers = ["fc"], bytes = 5e5 },
]

[cluster]
device_kinds = [{ name = "gpu" }]
link = { bandwidth_bytes_per_s = 1e9 }
"#;

fn solved(more: &[&str]) -> Folder {
    solved_with(NET, more)
}

#[test]
fn a_run_draws_its_phases_apart() {
    let folder = solved(&[]);
    let simulate = [
        "simulate",
        "plan.json",
        "--schedule",
        "zb-h1",
        "--micro-batches",
        "4",
    ];
    let report = |format: &str| folder.succeed(&[&simulate[..], &["--format", format]].concat());
    snapshots("simulate").bind(|| insta::assert_snapshot!("zero-bubble", report("text")));
    let svg = report("svg");
    roxmltree::Document::parse(&svg).expect("the picture is XML");
    for name in [
        "forward",
        "gradient of the input",
        "gradient of the weights",
        "transfer",
    ] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}: {svg}");
    }
    assert!(!svg.contains(">backward</text>"));
    assert!(svg.contains("<title>gradient of the weights of micro-batch 4"));
    let found = json(&report("json"));
    assert_eq!(
        (&found["schedule"], &found["formula_iteration_ms"]),
        (&"zb-h1".into(), &Value::Null)
    );
    assert!(report("csv").contains(",weight-gradient,compute,"));
}

/// `schedule` takes the plan's own weights, and says of the same rule the same time.
#[test]
fn schedule_takes_what_the_plan_says() {
    let folder = solved(&[]);
    let schedule = |more: &[&str]| {
        let asked = [
            "schedule",
            "plan.json",
            "--micro-batches",
            "4",
            "--format",
            "json",
        ];
        json(&folder.succeed(&[&asked[..], more].concat()))
    };
    let ms = |answer: &Value, name: &str| {
        let rules = answer["rules"].as_array().expect("a list");
        let rule = rules.iter().find(|rule| rule["name"] == name);
        rule.map(|rule| rule["iteration_ms"].as_f64().expect("a time"))
    };
    let own = schedule(&[]);
    for name in ["1f1b", "zb-h1", "zb-h2"] {
        let simulate = [
            "simulate",
            "plan.json",
            "--schedule",
            name,
            "--micro-batches",
            "4",
            "--format",
            "json",
        ];
        let simulated = json(&folder.succeed(&simulate));
        let whole = ms(&own, name).expect("a rule");
        // Alone, the gradients of a rule that does not split them are apart in turn, which is never longer.
        let simulated = simulated["iteration_ms"].as_f64().expect("a time");
        assert!(
            (whole - simulated).abs() < 1e-9 || name == "1f1b" && whole <= simulated,
            "{name}"
        );
    }
    assert_eq!(own["splits_backward"], true);
    let whole = schedule(&["--weight-share", "0"]);
    let half = schedule(&["--weight-share", "0.5"]);
    assert!(ms(&whole, "zb-h1") > ms(&own, "zb-h1"));
    assert!(ms(&half, "zb-h1") < ms(&own, "zb-h1"));
}

#[test]
fn stages_without_memory_and_other_questions_are_refused() {
    let folder = solved(&["--memory-limit", "1270"]);
    let run = |more: &[&str]| folder.run(&[&["simulate", "plan.json"], more].concat());
    let with_memory =
        |name: &str, m: &str| run(&["--schedule", name, "--micro-batches", m, "--instance", "net.toml"]);
    assert_eq!(with_memory("zb-h1", "8").code, 0);
    let parts = [
        "stage 1 with",
        "in flight under `zb-h2`, expected at most",
        "take an order that holds less",
    ];
    refused(&with_memory("zb-h2", "8"), &parts);
    refused(
        &run(&["--schedule", "zb-v"]),
        &["found `zb-v` for a plan with one chunk a device"],
    );
    refused(
        &run(&["--schedule", "zb-h3"]),
        &["invalid value 'zb-h3'", "zb-h1, zb-h2"],
    );
    refused(
        &run(&["--schedule", "zb-h1", "--in-flight", "hiding"]),
        &["found `--in-flight` with `--schedule zb-h1`"],
    );
    refused(
        &run(&["--schedule", "zb-h1", "--micro-batches", "999999"]),
        &["no more than 500000 tasks"],
    );
}
