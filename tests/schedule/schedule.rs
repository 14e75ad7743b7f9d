//! The command `schedule`: what it reports, what it writes, and what it refuses.

use crate::common::command::{Folder, json, snapshots, solved};
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

/// The order of a rule takes what the table of rules says, is held against the bound of the best, and is read again from its file.
#[test]
fn an_order_that_is_there_is_timed() {
    let folder = Folder::new();
    let chunks = ["--micro-batches", "6", "--format", "json"];
    let with = |flags: &[&str]| json(&folder.succeed(&[&EVEN_V[..], &chunks, flags].concat()));
    let best = with(&[]);
    let rules = best["rules"].as_array().expect("a list");
    let mut timed = 0;
    for rule in rules {
        let name = rule["name"].as_str().expect("a name");
        let given = with(&["--rule", name]);
        assert_eq!(given["given"], name);
        let iteration = &given["iteration"];
        assert_eq!(iteration["iteration_ms"], rule["iteration_ms"], "{name}");
        assert!(iteration["bound_ms"].as_f64() <= best["iteration"]["iteration_ms"].as_f64());
        let is_proved = iteration["bound_ms"] == iteration["iteration_ms"];
        assert_eq!(given["status"] == "optimal", is_proved, "{name}");
        folder.succeed(
            &[
                &EVEN_V[..],
                &["--micro-batches", "6", "--rule", name, "-o", "order.csv"],
            ]
            .concat(),
        );
        let again =
            json(&folder.succeed(&[&EVEN_V[..], &["--order", "order.csv", "--format", "json"]].concat()));
        assert_eq!(again["given"], "order.csv");
        assert_eq!(again["iteration"], given["iteration"], "{name}");
        timed += 1;
    }
    assert!(timed > 3, "only {timed}");
    let text = folder.succeed(&[&EVEN_V[..], &["--order", "order.csv"]].concat());
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("37.0000 ms by `order.csv`, proved optimal"),
        "{text}"
    );
}

#[test]
fn orders_of_other_pipelines_are_refused() {
    let folder = solved();
    folder.write("deadlock.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
    folder.write("split.csv", "0F0,0I0,0W0\n1F0,1I0,1W0\n");
    folder.write("half.csv", "0F0,0B0\n1F0\n");
    folder.write("halves.csv", "0F0,0I0,0W0\n1F0,1I0\n");
    folder.write("words.csv", "0F0,0B0\n1F0,1X0\n");
    folder.write("full.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--order", "deadlock.csv"],
            &[
                "1 fault in `deadlock.csv`",
                "device 0 waits with `0B0` for `1B0` of device 1",
            ],
        ),
        (
            &["--order", "split.csv"],
            &["gradients of inputs and weights apart", "--weight-share"],
        ),
        (&["--order", "words.csv"], &["line 2, column 5", "found `1X0`"]),
        (&["--order", "absent.csv"], &["no readable file"]),
        (
            &["--order", "full.csv", "--room", "1"],
            &["found `0F1`, with which device 0 would hold 2, expected at most 1"],
        ),
        (
            &["--order", "full.csv", "--micro-batches", "3"],
            &["found no `0F2`"],
        ),
        (
            &["--order", "full.csv", "--devices", "1"],
            &["found 2 orders, expected one for each of 1 devices"],
        ),
        (&["--rule", "zb-h1"], &["--rule zb-h1", "--weight-share"]),
        (
            &["--rule", "zb-v"],
            &["2 chunks in a loop on 2 devices", "two chunks a device in a V"],
        ),
        (&["--rule", "zb-h3"], &["zb-h1"]),
        (
            &["--rule", "1f1b", "--micro-batches", "4294967295"],
            &["lower `--micro-batches`"],
        ),
        (&["--order", "half.csv"], &["found no `1B0`"]),
        (
            &["--order", "halves.csv", "--weight-share", "0.5"],
            &["found no `1W0`"],
        ),
        (
            &["--rule", "1f1b", "--order", "full.csv"],
            &["cannot be used with"],
        ),
        (
            &["--rule", "1f1b", "--objective", "peak"],
            &["cannot be used with"],
        ),
        (&["--rule", "1f1b", "--time-limit", "3"], &["cannot be used with"]),
    ];
    for (flags, expected) in cases {
        let run = folder.run(&[&["schedule", "plan.json"], *flags].concat());
        crate::common::command::refused(&run, expected);
    }
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
        (&["schedule", "plan.json", "--slot", "0.001"], "raise `--slot`"),
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

/// Even chunks come from no instance.
#[test]
fn even_chunks_have_no_cluster() {
    let even = ["schedule", "--devices", "2", "--forward", "1", "--backward", "1"];
    let folder = Folder::new();
    for (flag, value) in [
        ("--cluster", "a100"),
        ("--communication", "ignored"),
        ("--memory-limit", "1GB"),
        ("--plan-output", "x.json"),
    ] {
        let run = folder.run(&[&even[..], &[flag, value]].concat());
        crate::common::command::refused(&run, &[flag, "cannot be used with"]);
    }
}

/// Two stages that each fit a device of their own may be too much for one, whatever is in flight.
#[test]
fn stages_of_one_device_hold_their_weights_together() {
    let folder = Folder::new();
    folder.write(
        "net.toml",
        r#"
            network.layers = [
                { id = "a", forward_ms = 1.0, backward_ms = 2.0, parameter_bytes = 10.0 },
                { id = "b", forward_ms = 2.0, backward_ms = 2.0, parameter_bytes = 10.0 },
            ]
            network.tensors = [{ producer = "a", consumers = ["b"], bytes = 1000.0 }]
            cluster.device_kinds = [{ name = "gpu", count = 2, memory_bytes = 50 }]
            cluster.link.bandwidth_bytes_per_s = 1e9
        "#,
    );
    folder.succeed(&["solve", "net.toml", "--output", "plan.json"]);
    folder.write("order.csv", "0F0,1F0,1B0,0B0\n");
    let on_one = [
        "schedule",
        "plan.json",
        "--instance",
        "net.toml",
        "--devices",
        "1",
    ];
    let asked: &[&[&str]] = &[
        &["--micro-batches", "2"],
        &["--objective", "peak"],
        &["--objective", "period"],
        &["--rule", "gpipe"],
        &["--order", "order.csv"],
    ];
    for asked in asked {
        let run = folder.run(&[&on_one[..], *asked].concat());
        crate::common::command::refused(&run, &["80 bytes", "device 0", "50 bytes"]);
    }
    folder.succeed(&[
        "schedule",
        "plan.json",
        "--instance",
        "net.toml",
        "--micro-batches",
        "2",
    ]);
    let export = [
        "export",
        "net.toml",
        "plan.json",
        "--to",
        "torch",
        "--order",
        "order.csv",
    ];
    crate::common::command::refused(&folder.run(&export), &["80 bytes", "50 bytes"]);
}
