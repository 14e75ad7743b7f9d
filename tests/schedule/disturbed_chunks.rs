//! Plans with virtual stages under traces and jitter, against times that are found in another way.

use std::collections::HashMap;

use crate::common::chunked::virtual_spec;
use crate::common::command::{Folder, NET, refused};
use crate::common::problem_of;
use stagecut::methods;
use stagecut::options::Mode;
use stagecut::plan::{Plan, Status};
use stagecut::schedule::rules::Shape;
use stagecut::schedule::{Chunks, Moves, Operation, Order, Phase, Times, chunks_of_plan, run, run_with};
use stagecut::simulate::{ChunkTimes, Jitter, Request, Trace};

/// A plan with its chunks, and the order of its schedule for so many micro-batches; `None` where there is none.
fn ordered(seed: u64, micro_batches: usize) -> Option<(Plan, Chunks, Order)> {
    let mut spec = virtual_spec(seed);
    spec.pipeline.mode = Some(Mode::Training);
    let (instance, problem) = problem_of(&spec)?;
    let exact = methods::find("exact").expect("a registered method");
    let plan = exact
        .run(&instance, &problem, &Default::default())
        .expect("HiGHS works");
    if plan.status != Status::Optimal {
        return None;
    }
    let moves = Moves {
        devices: None,
        placement: plan.problem.placement?,
        weight_share: None,
    };
    let mut chunks = chunks_of_plan(&plan, &moves).ok()?;
    let rule = plan.problem.schedule?.rule()?;
    let order = rule.order(&Shape::from_chunks(&chunks, micro_batches)?)?;
    chunks.may_split |= order.splits();
    Some((plan, chunks, order))
}

/// Starts and ends by repetition: nothing starts at 0 but what must wait, until nothing changes.
fn by_repetition(chunks: &Chunks, order: &Order, times: &dyn Times) -> HashMap<Operation, (u64, u64)> {
    let all: Vec<Operation> = order.devices.iter().flatten().copied().collect();
    let mut found: HashMap<Operation, (u64, u64)> = HashMap::new();
    for &operation in &all {
        found.insert(operation, (0, times.duration_ns(operation, 0)));
    }
    for _ in 0..=all.len() {
        let before = found.clone();
        for list in &order.devices {
            for (at, &operation) in list.iter().enumerate() {
                let own = at.checked_sub(1).map_or(0, |at| found[&list[at]].1);
                let waits = waits(chunks, operation).into_iter();
                let arrivals = waits.map(|(on, delay_ns)| arrives_ns(&found, times, on, delay_ns));
                let start_ns = arrivals.fold(own, u64::max);
                found.insert(
                    operation,
                    (start_ns, start_ns + times.duration_ns(operation, start_ns)),
                );
            }
        }
        if found == before {
            return found;
        }
    }
    panic!("an order that never settles");
}

/// When what comes from an operation is there, behind a transfer. Passes that are whole stand for the gradient of the input, by whose name
/// transfers behind them go.
fn arrives_ns(
    found: &HashMap<Operation, (u64, u64)>,
    times: &dyn Times,
    on: Operation,
    delay_ns: u64,
) -> u64 {
    let whole = Operation {
        phase: Phase::Backward,
        ..on
    };
    let (_, end_ns) = found.get(&on).unwrap_or_else(|| &found[&whole]);
    end_ns + times.delay_ns(on, delay_ns)
}

/// What an operation waits for, and the transfer between.
fn waits(chunks: &Chunks, of: Operation) -> Vec<(Operation, u64)> {
    let on = |chunk: usize, phase| Operation::new(chunk, phase, of.micro_batch);
    let chunk = of.chunk;
    match of.phase {
        Phase::Forward if chunk == 0 => Vec::new(),
        Phase::Forward => vec![(
            on(chunk - 1, Phase::Forward),
            chunks.chunks[chunk - 1].forward_transfer_ns,
        )],
        Phase::WeightGradient => vec![(on(chunk, Phase::InputGradient), 0)],
        Phase::Backward | Phase::InputGradient => {
            let mut waits = vec![(on(chunk, Phase::Forward), 0)];
            if let Some(next) = chunks.chunks.get(chunk + 1) {
                waits.push((on(chunk + 1, Phase::InputGradient), next.backward_transfer_ns));
            }
            waits
        }
    }
}

fn trace(plan: &Plan, rows: &str) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, format!("time_ms,device,multiplier\n{rows}")).expect("a file");
    Trace::read(&path, plan).expect("a trace")
}

#[test]
fn disturbed_runs_are_those_of_a_search_for_fixed_times() {
    let mut counts = [0; 2];
    for seed in 0..600 {
        let micro_batches = 6;
        let Some((plan, chunks, order)) = ordered(seed, micro_batches) else {
            continue;
        };
        let calm = run(&chunks, &order, micro_batches).expect("an order");
        if calm.makespan_ns == 0 {
            continue;
        }
        let half_ms = calm.makespan_ns as f64 / 2e6;
        let device = &plan.stages[0].devices[0];
        let requests = [
            Request::default(),
            Request {
                trace: trace(&plan, &format!("0,{device},1.5\n{half_ms},{device},0.25\n")),
                ..Request::default()
            },
            Request {
                jitter: Some(Jitter { fraction: 0.3, seed }),
                ..Request::default()
            },
        ];
        for (at, request) in requests.iter().enumerate() {
            let times = ChunkTimes::new(&plan, request, micro_batches as u64).expect("small numbers");
            let ran = run_with(&chunks, &order, micro_batches, &times).expect("an order");
            let found = by_repetition(&chunks, &order, &times);
            for &(operation, start_ns, end_ns) in ran.devices.iter().flatten() {
                assert_eq!(found[&operation], (start_ns, end_ns), "{seed}, {at}: {operation}");
            }
            let makespan = ran.makespan_ns as f64;
            let base = calm.makespan_ns as f64;
            // Every time is rounded, and there are a few hundred of them.
            match at {
                0 => assert_eq!(ran, calm, "{seed}"),
                2 => assert!(
                    (0.7 * base - 1e3..=1.3 * base + 1e3).contains(&makespan),
                    "{seed}"
                ),
                _ => {}
            }
            counts[usize::from(ran.makespan_ns != calm.makespan_ns)] += 1;
        }
    }
    assert!(counts[0] > 100 && counts[1] > 200, "{counts:?}");
}

/// The command: speeds that halve everywhere double the work, jitter repeats itself, and every operation is a row.
#[test]
fn simulate_takes_traces_and_jitter() {
    let folder = Folder::with("net.toml", NET);
    let asked = [
        "--stages",
        "2",
        "--virtual-stages",
        "2",
        "--communication",
        "ignored",
    ];
    folder.succeed(&[&["solve", "net.toml", "--output", "plan.json"], &asked[..]].concat());
    let plan: serde_json::Value = serde_json::from_str(&folder.read("plan.json")).expect("a plan");
    let device = |stage: usize| {
        plan["stages"][stage]["devices"][0]
            .as_str()
            .expect("a device")
            .to_owned()
    };
    let rows = format!(
        "time_ms,device,multiplier\n0,{},2\n0,{},2\n",
        device(0),
        device(1)
    );
    folder.write("slow.csv", rows);
    let run = |flags: &[&str]| {
        folder.succeed(&[&["simulate", "plan.json", "--micro-batches", "4"], flags].concat())
    };
    let ms = |text: &str| -> f64 {
        let answer: serde_json::Value = serde_json::from_str(text).expect("JSON");
        answer["iteration"]["iteration_ms"].as_f64().expect("a time")
    };
    let calm = ms(&run(&["--format", "json"]));
    let slow = run(&["--format", "json", "--trace", "slow.csv"]);
    assert_eq!(ms(&slow), 2.0 * calm);
    assert!(
        slow.contains("\"bound_ms\": null") && slow.contains("feasible"),
        "{slow}"
    );
    let jitter = ["--format", "json", "--jitter", "0.2", "--seed", "7"];
    assert_eq!(run(&jitter), run(&jitter));
    assert_ne!(ms(&run(&jitter)), calm);
    let text = run(&["--trace", "slow.csv"]);
    assert!(
        text.contains("under the trace or jitter") && !text.contains("optimal"),
        "{text}"
    );
    let csv = run(&["--format", "csv"]);
    assert!(
        csv.starts_with("device,chunk,micro_batch,phase,start_ms,end_ms\n0,0,0,forward,0.0,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 1 + 4 * 4 * 2);
    let refusal = folder.run(&[
        "simulate",
        "plan.json",
        "--micro-batches",
        "4",
        "--in-flight",
        "hiding",
    ]);
    refused(
        &refusal,
        &[
            "--in-flight",
            "the order itself says how many micro-batches are in flight",
        ],
    );
}
