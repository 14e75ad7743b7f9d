//! The command `schedule` ends on time and on a signal with what it has, and refuses at once what is too large.
//!
//! How long a machine takes is a matter of who else runs there: the best of some runs counts, and what it may take is generous.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::command::Folder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// The best of so many runs counts.
const RUNS: usize = 3;

/// What a process may take to end after a signal: of that it waits for 0.2 s, and the rest is for machines with much else to do.
const MOST_AFTER_A_SIGNAL: Duration = Duration::from_secs(4);

/// What a process may take with a limit of a second: 0.7 s more are patience with steps that are bounded in work, reading and writing come beside, and
/// the rest is for machines with much else to do.
const MOST_BEYOND: Duration = Duration::from_secs(6);

/// What a refusal may take.
const MOST_OF_A_REFUSAL: Duration = Duration::from_secs(2);

/// A chain of layers that are all alike.
fn chain(layers: usize) -> Value {
    let layer = |at: usize| json!({ "id": format!("l{at}"), "forward_ms": 1, "backward_ms": 1 });
    let tensor = |at: usize| json!({ "producer": format!("l{at}"), "consumers": [format!("l{}", at + 1)], "bytes": 1 });
    instance(
        (0..layers).map(layer).collect(),
        (1..layers).map(|at| tensor(at - 1)).collect(),
    )
}

/// Layers that read some of those shortly before.
fn drawn(layers: usize) -> Value {
    let mut random = ChaCha8Rng::seed_from_u64(39);
    let mut ms = || f64::from(random.random_range(1..=20_000u32)) / 1000.0;
    let all = (0..layers)
        .map(|at| json!({ "id": format!("l{at}"), "forward_ms": ms(), "backward_ms": ms() }))
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(93);
    let tensors = (0..layers - 1).map(|at| {
        let reader = (at + random.random_range(1..=12)).min(layers - 1);
        json!({ "producer": format!("l{at}"), "consumers": [format!("l{reader}")], "bytes": random.random_range(1..=1_000_000) })
    });
    let tensors = tensors.collect();
    instance(all, tensors)
}

fn instance(layers: Vec<Value>, tensors: Vec<Value>) -> Value {
    json!({
        "schema": "stagecut-instance/1", "name": "hard", "network": { "layers": layers, "tensors": tensors },
        "cluster": { "device_kinds": [{ "name": "g" }], "link": { "bandwidth_bytes_per_s": 1e9, "latency_ms": 0.0 } },
    })
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("chain.json", chain(5_000).to_string());
    folder.write("long.json", chain(20_000).to_string());
    folder.write("drawn.json", drawn(300).to_string());
    folder
}

/// Searches that last, of every kind.
const SEARCHES: [&str; 9] = [
    "--devices 16 --placement v --forward 1 --backward 1.7 --weight 0.6",
    "--devices 16 --placement v --forward 1 --backward 1.7 --weight 0.6 --objective period --room 12",
    "--devices 12 --virtual-stages 3 --forward 1 --backward 1.9 --transfer 0.3",
    "--devices 16 --forward 1 --backward 1.7 --weight 0.6 --micro-batches 40 --room 9",
    "--devices 250 --forward 1 --backward 1.7 --weight 0.6 --micro-batches 26 --room 40",
    "--instance drawn.json --devices 8 --micro-batches 24",
    "--instance drawn.json --devices 6 --placement v --micro-batches 18 --weight-share 0.4",
    "--instance long.json --devices 8 --micro-batches 16",
    "--instance long.json --devices 8 --virtual-stages 2 --micro-batches 16 --weight-share 0.4 --communication overlapped",
];

fn arguments(asked: &str) -> Vec<&str> {
    ["schedule"].into_iter().chain(asked.split(' ')).collect()
}

/// Whatever a search is at, a signal ends it with what it has.
#[test]
fn signals_end_a_search_with_what_it_has() {
    let folder = folder();
    for asked in SEARCHES {
        for (signal, after_ms) in [("TERM", 1_200), ("INT", 3_000)] {
            let mut least = Duration::MAX;
            for _ in 0..RUNS {
                let mut args = arguments(asked);
                args.extend(["--time-limit", "60", "--format", "json"]);
                let mut program = folder.command(&args);
                let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
                let child = program.spawn().expect("the program starts");
                std::thread::sleep(Duration::from_millis(after_ms));
                let sent = Instant::now();
                let kill = [format!("-{signal}"), child.id().to_string()];
                let kill = Command::new("kill").args(kill).stderr(Stdio::null()).status();
                kill.expect("a command `kill`");
                let output = child.wait_with_output().expect("the program ends");
                least = least.min(sent.elapsed());
                let said = String::from_utf8_lossy(&output.stderr);
                let code = output.status.code();
                assert!(matches!(code, Some(0 | 4)), "{asked}, {signal}: {code:?}, {said}");
                let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
                assert_eq!(
                    code == Some(0),
                    !answer["iteration"].is_null(),
                    "{asked}: {answer}"
                );
                if least <= MOST_AFTER_A_SIGNAL {
                    break;
                }
            }
            assert!(least <= MOST_AFTER_A_SIGNAL, "{asked}, {signal}: {least:?}");
        }
    }
}

/// Whoever presses the keys twice gets what the first time asked for, and the process ends all the same.
#[test]
fn a_second_signal_loses_nothing() {
    let folder = folder();
    let schedule = [SEARCHES[0], "--time-limit 60 --format json"].join(" ");
    let solve = "solve drawn.json --stages 4 --objective iteration --micro-batches 8 --format json --quiet";
    for args in [arguments(&schedule), solve.split(' ').collect()] {
        let told = |_: &usize| {
            let mut program = folder.command(&args);
            let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = program.spawn().expect("the program starts");
            std::thread::sleep(Duration::from_millis(1_500));
            for _ in 0..2 {
                let kill = ["-TERM".into(), child.id().to_string()];
                let kill = Command::new("kill").args(kill).stderr(Stdio::null()).status();
                kill.expect("a command `kill`");
            }
            let output = child.wait_with_output().expect("the program ends");
            serde_json::from_slice::<Value>(&output.stdout).is_ok()
        };
        assert!((0..RUNS).any(|run| told(&run)), "{args:?}");
    }
}

#[test]
fn searches_end_at_the_time_limit() {
    let folder = folder();
    let chain = [
        "--instance chain.json --devices 8",
        "--instance chain.json --devices 4 --virtual-stages 4",
    ];
    for asked in SEARCHES.into_iter().chain(chain) {
        let mut args = arguments(asked);
        args.extend(["--time-limit", "1"]);
        let mut least = Duration::MAX;
        for _ in 0..RUNS {
            let run = folder.run(&args);
            assert!(matches!(run.code, 0 | 4), "{asked}: {}", run.stderr);
            least = least.min(run.elapsed);
            if least <= MOST_BEYOND {
                break;
            }
        }
        assert!(least <= MOST_BEYOND, "{asked}: {least:?}");
    }
}

/// Counts that are too large are refused before anything is made of them, with what is the most.
/// What asks for too much, and the limit that is told.
const TOO_LARGE: [(&str, &str); 14] = [
    (
        "schedule --devices 65535 --forward 1 --backward 1",
        "20000 operations",
    ),
    (
        "schedule --devices 65535 --virtual-stages 65535 --forward 1 --backward 1",
        "20000 operations",
    ),
    (
        "schedule --devices 5000 --forward 1 --backward 1 --objective iteration",
        "800 at most",
    ),
    (
        "schedule --devices 4 --forward 1 --backward 1 --micro-batches 4294967295",
        "20000 operations",
    ),
    ("schedule --instance net.json --devices 65535", "800 at most"),
    (
        "schedule --instance net.json --devices 65535 --virtual-stages 65535",
        "800 at most",
    ),
    (
        "schedule --instance net.json --devices 2 --micro-batches 4294967295",
        "20000 operations",
    ),
    (
        "schedule plan.json --micro-batches 4294967295",
        "20000 operations",
    ),
    ("solve net.json --stages 1000000000", "1 to 1000000"),
    (
        "solve net.json --stages 5000 --virtual-stages 2 --mode training",
        "4000000",
    ),
    ("solve net.json --stages 2 --virtual-stages 100000", "1 to 1000"),
    (
        "solve net.json --stages 2 --micro-batches 1000000000000",
        "1 to 1000000",
    ),
    ("simulate plan.json --micro-batches 1000000000000", "500000 tasks"),
    (
        "simulate chunked.json --micro-batches 1000000000000",
        "500000 operations",
    ),
];

#[test]
fn sizes_that_are_too_large_are_refused_at_once() {
    let folder = Folder::with("net.json", chain(6).to_string());
    folder.succeed(&[
        "solve",
        "net.json",
        "--stages",
        "2",
        "--mode",
        "training",
        "--output",
        "plan.json",
    ]);
    let chunked = [
        "--virtual-stages",
        "2",
        "--micro-batches",
        "4",
        "--output",
        "chunked.json",
    ];
    folder.succeed(
        &[
            &["solve", "net.json", "--stages", "2", "--mode", "training"][..],
            &chunked,
        ]
        .concat(),
    );
    for (asked, expected) in TOO_LARGE {
        let args: Vec<&str> = asked.split(' ').collect();
        let mut least = Duration::MAX;
        for _ in 0..RUNS {
            let run = folder.run(&args);
            let words: Vec<&str> = run
                .stderr
                .split_whitespace()
                .filter(|word| *word != "│")
                .collect();
            let message = words.join(" ");
            assert_eq!(run.code, 2, "{asked}: {message}");
            assert!(
                message.contains(expected),
                "{asked}: no `{expected}` in {message}"
            );
            least = least.min(run.elapsed);
            if least <= MOST_OF_A_REFUSAL {
                break;
            }
        }
        assert!(least <= MOST_OF_A_REFUSAL, "{asked}: {least:?}");
    }
}
