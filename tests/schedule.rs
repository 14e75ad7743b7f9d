//! The command `schedule`: what it reports, what it writes, and what it refuses.

#[path = "common/command.rs"]
mod command;

use command::{Folder, snapshots, solved};
use serde_json::Value;

/// A V of four chunks on two devices.
const EVEN_V: [&str; 11] = [
    "schedule",
    "--devices",
    "2",
    "--placement",
    "v",
    "--forward",
    "1",
    "--backward",
    "1",
    "--weight",
    "1",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_iteration_is_held_against_the_rules() {
    let folder = solved();
    let args = [
        "schedule",
        "plan.json",
        "--micro-batches",
        "4",
        "--weight-share",
        "0.5",
        "--room",
        "2",
    ];
    let report = folder.succeed(&args);
    assert_eq!(report, folder.succeed(&args), "two runs differ");
    snapshots("schedule").bind(|| insta::assert_snapshot!("iteration", report));
    // 1F1B is what the simulator runs, too.
    let whole = folder.succeed(&[
        "schedule",
        "plan.json",
        "--micro-batches",
        "4",
        "--format",
        "json",
    ]);
    let simulated = folder.succeed(&[
        "simulate",
        "plan.json",
        "--micro-batches",
        "4",
        "--format",
        "json",
    ]);
    let whole = json(&whole);
    let rules = whole["rules"].as_array().expect("a list");
    let rule = rules.iter().find(|rule| rule["name"] == "1f1b").expect("1F1B");
    assert_eq!(rule["iteration_ms"], json(&simulated)["iteration_ms"]);
    assert!(whole["iteration"]["iteration_ms"].as_f64() <= rule["iteration_ms"].as_f64());
}

#[test]
fn a_pattern_is_proved() {
    let folder = Folder::new();
    let answer = json(&folder.succeed(&[&EVEN_V[..], &["--format", "json"]].concat()));
    assert_eq!(
        (&answer["status"], &answer["objective"]),
        (&"optimal".into(), &"peak".into())
    );
    let pattern = &answer["pattern"];
    assert_eq!(pattern["period_ms"], 6.0);
    assert_eq!(
        (&pattern["peak_bound"], pattern["starts"].as_array().map(Vec::len)),
        (&3.into(), Some(12))
    );
    // With room for no more than one micro-batch at a time a period lasts as long as a micro-batch.
    let tight = ["--objective", "period", "--room", "2", "--format", "json"];
    let answer = json(&folder.succeed(&[&EVEN_V[..], &tight].concat()));
    assert_eq!(answer["status"], "optimal");
    assert!(answer["pattern"]["period_ms"].as_f64() > Some(6.0), "{answer}");
    let none = folder.run(&[&EVEN_V[..], &["--objective", "period", "--room", "1"]].concat());
    assert_eq!(none.code, 3);
    assert!(none.stdout.contains("proved infeasible"), "{}", none.stdout);
}

#[test]
fn orders_and_timelines_are_written() {
    let folder = Folder::new();
    let write = |name: &str| {
        folder.succeed(&[&EVEN_V[..], &["--micro-batches", "3", "--output", name]].concat());
        folder.read(name)
    };
    let csv = write("order.csv");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0].len(), lines[0][0]), (2, 18, "0F0"));
    assert!(lines[0].contains(&"3W2") && lines[1].contains(&"2I1"), "{csv}");
    let svg = write("timeline.svg");
    let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
    let titles = document
        .descendants()
        .filter(|node| node.has_tag_name("title"))
        .count();
    // One of the picture, one a device, one an operation.
    assert_eq!(titles, 1 + 2 + 36);
}

#[test]
fn memory_comes_from_the_instance() {
    let folder = solved();
    let with = |limit: &str| {
        let solve = [
            "solve",
            "net.toml",
            "--stages",
            "2",
            "--format",
            "json",
            "--output",
            "plan.json",
            "--memory-limit",
            limit,
        ];
        folder.succeed(&solve);
        let args = [
            "schedule",
            "plan.json",
            "--instance",
            "net.toml",
            "--micro-batches",
            "4",
            "--format",
            "json",
        ];
        json(&folder.succeed(&args))
    };
    let [wide, tight] = [with("1GB"), with("1300")];
    let room = |answer: &Value| answer["room"][0].as_u64().expect("a limit");
    assert!(room(&wide) > room(&tight));
    for answer in [&wide, &tight] {
        let peak = answer["iteration"]["peak"][0].as_u64().expect("a number");
        assert!(
            peak <= room(answer) && peak.is_multiple_of(10) && peak > 0,
            "{answer}"
        );
    }
    assert!(wide["iteration"]["iteration_ms"].as_f64() <= tight["iteration"]["iteration_ms"].as_f64());
}

#[test]
fn links_that_everything_waits_for_are_warned_of() {
    let folder = solved();
    let slow = folder.read("net.toml").replace("1e9", "1e7");
    folder.write("slow.toml", slow);
    let solve = [
        "solve",
        "slow.toml",
        "--stages",
        "2",
        "--all-stages",
        "--communication",
        "overlapped",
        "--format",
        "json",
    ];
    folder.succeed(&[&solve[..], &["--output", "slow.json"]].concat());
    for (plan, warns) in [("plan.json", false), ("slow.json", true)] {
        let run = folder.run(&["schedule", plan, "--micro-batches", "2"]);
        assert_eq!(
            (run.code, run.stderr.contains("busier than any device")),
            (0, warns),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn questions_without_an_answer_are_refused() {
    let folder = solved();
    let cases: &[(&[&str], &str)] = &[
        (&["schedule"], "--devices"),
        (
            &["schedule", "plan.json", "--forward", "1"],
            "cannot be used with",
        ),
        (
            &["schedule", "plan.json", "--devices", "3"],
            "3 devices for a plan of 2 stages",
        ),
        (&["schedule", "plan.json", "--room", "2"], "found `--room`"),
        (
            &["schedule", "plan.json", "--objective", "period", "--period", "9"],
            "found `--period`",
        ),
        (&["schedule", "plan.json", "--period", "1"], "expected"),
        (
            &["schedule", "plan.json", "--weight-share", "2"],
            "a part from 0 to 1",
        ),
        (
            &["schedule", "plan.json", "--micro-batches", "1000000"],
            "lower `--micro-batches`",
        ),
        (
            &["schedule", "plan.json", "--slot", "0.0000001"],
            "raise `--slot`",
        ),
        (
            &["schedule", "--devices", "2", "--forward", "-1", "--backward", "1"],
            "unexpected argument",
        ),
        (
            &[
                "schedule",
                "--devices",
                "2",
                "--forward",
                "NaN",
                "--backward",
                "1",
            ],
            "found NaN",
        ),
        (&["schedule", "net.toml"], "1 fault in `net.toml`"),
    ];
    for (args, expected) in cases {
        let run = folder.run(args);
        let words: Vec<&str> = run
            .stderr
            .split_whitespace()
            .filter(|word| *word != "│")
            .collect();
        let message = words.join(" ");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {message}");
        assert!(
            message.contains(expected),
            "{args:?}: no `{expected}` in {message}"
        );
    }
}
