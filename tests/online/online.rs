//! The online controller: what every run must show, failures, breaking off and going on, broken scenarios.

use std::path::Path;
use std::process::Stdio;

use crate::common::command::Folder;
use serde_json::Value;

const NET: &str = r#"
[network]
layers = [
  { id = "a", forward_ms = 1.0, backward_ms = 2.0, parameter_bytes = 100, stash_bytes = 10 },
  { id = "b", forward_ms = 2.0, backward_ms = 4.0, parameter_bytes = 200, stash_bytes = 20 },
  { id = "c", forward_ms = 1.0, backward_ms = 2.0, parameter_bytes = 300, stash_bytes = 30 },
  { id = "d", forward_ms = 1.5, backward_ms = 3.0, parameter_bytes = 100, stash_bytes = 10 },
]
tensors = [
  { producer = "a", consumers = ["b"], bytes = 1000 },
  { producer = "b", consumers = ["c", "d"], bytes = 500 },
  { producer = "c", consumers = ["d"], bytes = 800 },
]

[cluster]
device_kinds = [{ name = "gpu", count = 4 }]
link = { bandwidth_bytes_per_s = 1e6 }
"#;

const SCENARIO: &str = r#"
instance = "net.toml"
reading = "pipeline-of-groups"
slots = 40
samples = 12
batches_per_slot = 10
time_weight = 0.2

[[budgets]]
name = "dollars"
per_slot = 2.5

[prices]
gpu = { dollars = 1.0 }

[[processes]]
of = "slowdown"
factors = [1.0, 3.0]
transitions = [[0.8, 0.2], [0.4, 0.6]]

[[processes]]
of = "price"
shared = true
factors = [1.0, 2.0]
transitions = [[0.7, 0.3], [0.3, 0.7]]

[[processes]]
of = "availability"
devices = ["gpu:1", "gpu:2"]
factors = [1.0, 0.0]
transitions = [[0.9, 0.1], [0.5, 0.5]]
"#;

fn folder(scenario: &str) -> Folder {
    let folder = Folder::with("net.toml", NET);
    folder.write("scenario.toml", scenario);
    folder
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The slots of a policy.
fn slots<'a>(lines: &'a [Value], policy: &str) -> Vec<&'a Value> {
    let slots = lines.iter().filter_map(|line| line.get("slot"));
    slots.filter(|slot| slot["policy"] == policy).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Optima, queues and bounds, computed again from the lines of a run.
fn assert_shown(lines: &[Value]) {
    let header = &lines[0]["run"];
    let budget = number(&header["per_slot"][0]);
    let yardsticks = &lines.last().expect("lines")["yardsticks"];
    let bound = &yardsticks["lagrangian_ms"];
    if let (Some(clairvoyant), Some(bound)) = (yardsticks["clairvoyant_ms"].as_f64(), bound.as_f64()) {
        assert!(bound <= clairvoyant * (1.0 + 1e-9), "{bound} above {clairvoyant}");
    }
    let policies = header["policies"].as_array().expect("a list");
    let held = yardsticks["held_ms"].as_array().expect("a list");
    assert_eq!(policies.len(), held.len());
    for (policy, held) in policies.iter().zip(held) {
        let slots = slots(lines, policy.as_str().expect("a name"));
        assert_eq!(slots.len() as u64, header["slots"].as_u64().expect("a number"));
        let (mut queue, mut paid, mut time_ms, mut served) = (0.0_f64, 0.0, 0.0, 0);
        for slot in &slots {
            let cost = number(&slot["costs"][0]);
            queue = (queue + cost - budget).max(0.0);
            assert!((queue - number(&slot["queues"][0])).abs() < 1e-6, "{slot}");
            assert!(
                number(&slot["optimum"]) <= number(&slot["value"]) * (1.0 + 1e-9),
                "{slot}"
            );
            if let Some(ms) = slot["time_ms"].as_f64() {
                (time_ms, served) = (time_ms + ms, served + 1);
            }
            paid += cost;
        }
        if served > 0 {
            let average_ms = time_ms / f64::from(served);
            assert!(
                number(held) <= average_ms * (1.0 + 1e-7),
                "{policy}: {average_ms} below {held}"
            );
        }
        let is_kept = paid <= budget * slots.len() as f64 * (1.0 + 1e-9);
        // The queue bounds what was paid too much.
        assert!(paid <= budget * slots.len() as f64 + queue + 1e-6);
        if is_kept && served > 0 {
            let average_ms = time_ms / f64::from(served);
            assert!(
                number(bound) <= average_ms * (1.0 + 1e-9),
                "{policy}: {average_ms} below {bound}"
            );
        }
    }
}

#[test]
fn every_run_shows_what_it_must() {
    for reading in ["pipeline-of-groups", "parallel-pipelines"] {
        for seed in ["1", "2", "3"] {
            let folder = folder(&SCENARIO.replace("pipeline-of-groups", reading));
            let text = folder.succeed(&["online", "scenario.toml", "--seed", seed, "--quiet"]);
            assert_shown(&lines(&text));
        }
    }
}

#[test]
fn drift_plus_penalty_keeps_the_budget_and_a_larger_weight_of_time_is_faster() {
    let folder = folder(SCENARIO);
    let run = |weight: &str| {
        let args = [
            "online",
            "scenario.toml",
            "--slots",
            "400",
            "--policies",
            "exact",
            "--time-weight",
            weight,
            "--quiet",
        ];
        let lines = lines(&folder.succeed(&args));
        let summary = lines
            .iter()
            .find_map(|line| line.get("summary"))
            .expect("a summary")
            .clone();
        (
            number(&summary["average_time_ms"]),
            number(&summary["queues_per_slot"][0]),
        )
    };
    let (patient, dear) = (run("0.01"), run("1"));
    assert!(dear.0 <= patient.0, "{dear:?} slower than {patient:?}");
    assert!(patient.1 < 0.05 && patient.1 <= dear.1, "{patient:?}, {dear:?}");
}

#[test]
fn a_device_that_fails_is_planned_around_in_the_next_slot() {
    let scenario = SCENARIO.replace("reading", "trace = \"trace.csv\"\nreading");
    let scenario = scenario.split("[[processes]]").next().expect("a head");
    let folder = folder(&scenario.replace("per_slot = 2.5", "per_slot = 10.0"));
    folder.write(
        "trace.csv",
        "slot,device,quantity,factor\n3,gpu:0,availability,0\n3,gpu:2,availability,0\n6,gpu:0,availability,1\n",
    );
    let lines = lines(&folder.succeed(&["online", "scenario.toml", "--slots", "8", "--quiet"]));
    assert_shown(&lines);
    for policy in [
        "tentative",
        "exact",
        "myopic",
        "static",
        "even",
        "proportional",
        "pipedream",
    ] {
        let slots = slots(&lines, policy);
        let used = |slot: usize| slots[slot]["pipelines"].to_string();
        assert!(used(2).contains("gpu:0"), "{policy}: {}", used(2));
        for (slot, record) in slots.iter().enumerate().skip(3) {
            assert!(record["time_ms"].is_number(), "{policy}");
            assert!(!used(slot).contains("gpu:2"), "{policy}: {}", used(slot));
            assert!(
                slot >= 6 || !used(slot).contains("gpu:0"),
                "{policy}: {}",
                used(slot)
            );
        }
        assert!(
            number(&slots[3]["time_ms"]) > number(&slots[2]["time_ms"]),
            "{policy}"
        );
    }
    // All devices gone: no plan, no cost, and the run goes on.
    let gone: String = (0..4).map(|i| format!("1,gpu:{i},availability,0\n")).collect();
    folder.write(
        "trace.csv",
        format!("slot,device,quantity,factor\n{gone}2,gpu:3,availability,1\n"),
    );
    let text = folder.succeed(&["online", "scenario.toml", "--slots", "3", "--quiet"]);
    let lines = self::lines(&text);
    assert_shown(&lines);
    assert!(slots(&lines, "exact")[1]["time_ms"].is_null());
    assert!(slots(&lines, "exact")[2]["time_ms"].is_number());
}

/// All devices go, and one of them comes back: whatever it ran before, it loads again.
#[test]
fn a_device_that_was_away_while_nobody_had_a_plan_holds_nothing() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    // Adam's four copies of every parameter, by hand: 4 * (61161 + 64461 + 27564 + 73264) bytes at 2500 a ms are 362.32 ms, of
    // which inference keeps one copy; the second case loads over 1000 batches.
    for (case, slot, moving_ms) in [
        ("online-return-of-a-device", 3, 90.58),
        ("online-return-of-a-device-2", 2, 0.0052),
    ] {
        let scenario = cases.join(case).join("s.json").display().to_string();
        let lines = lines(&Folder::new().succeed(&["online", &scenario, "--quiet"]));
        assert_shown(&lines);
        let of_slot: Vec<&Value> = lines
            .iter()
            .filter_map(|line| line.get("slot"))
            .filter(|record| record["slot"] == slot)
            .collect();
        assert_eq!(of_slot.len(), 7);
        for record in of_slot {
            let found = number(&record["moving_ms"]);
            assert!((found - moving_ms).abs() < 0.01 * moving_ms, "{case}: {record}");
        }
    }
}

#[test]
fn a_run_goes_on_from_any_line_it_was_cut_at() {
    let folder = folder(SCENARIO);
    let args = [
        "online",
        "scenario.toml",
        "--policies",
        "tentative,even",
        "--slots",
        "12",
        "--quiet",
    ];
    let whole = folder.succeed(&args);
    let resumed = [&args[..], &["--output", "run.jsonl", "--resume"]].concat();
    // In the first line, between lines, within lines, and behind the last one.
    for cut in [
        0,
        10,
        whole.len() / 3,
        whole.find('\n').expect("a line") + 1,
        whole.len() - 2,
        whole.len(),
    ] {
        folder.write("run.jsonl", &whole[..cut]);
        folder.succeed(&resumed);
        assert_eq!(folder.read("run.jsonl"), whole, "cut at {cut}");
    }
    let other = [&resumed[..], &["--seed", "9"]].concat();
    assert_eq!(folder.run(&other).code, 2);
    assert_eq!(
        folder.read("run.jsonl"),
        whole,
        "a file of another run is left alone"
    );
}

/// A run of four slots, and all that it said.
fn whole() -> (Folder, String) {
    let folder = folder(SCENARIO);
    let whole = folder.succeed(&FOUR_SLOTS);
    (folder, whole)
}

const FOUR_SLOTS: [&str; 7] = [
    "online",
    "scenario.toml",
    "--policies",
    "even",
    "--slots",
    "4",
    "--quiet",
];

/// What comes of going on from lines in place of those of that run, and what it says in one line.
fn resumed_from(folder: &Folder, lines: impl AsRef<[u8]>) -> (i32, String) {
    folder.write("run.jsonl", lines);
    let run = folder.run(&[&FOUR_SLOTS[..], &["--output", "run.jsonl", "--resume"]].concat());
    (
        run.code,
        run.stderr.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

/// Lines are held against the scenario: a slot that its policy cannot have decided is not built on.
#[test]
fn lines_that_were_changed_are_refused() {
    let (folder, whole) = whole();
    let first: Value = serde_json::from_str(whole.lines().nth(1).expect("a slot")).expect("JSON");
    let changes: [(&str, Value, &str); 8] = [
        (
            "costs",
            serde_json::json!([]),
            "0 costs and 1 queues for 1 budgets",
        ),
        ("costs", serde_json::json!([0.25]), "budget 0 pays"),
        ("queues", serde_json::json!([9.5]), "queue of 9.5, expected"),
        ("devices", serde_json::json!(77), "77 devices where"),
        ("time_ms", serde_json::json!(1.0), "a batch takes"),
        ("moving_ms", serde_json::json!(-1.0), "a batch takes"),
        ("optimum", serde_json::json!(0.0), "optimum of 0, expected"),
        (
            "pipelines",
            serde_json::json!([[{"layers": [3, 1], "devices": ["gpu:0"], "samples": [12.0]}]]),
            "unknown devices or layers",
        ),
    ];
    for (field, value, expected) in changes {
        let mut line = first.clone();
        // Without its digest a line is what older versions wrote.
        line.as_object_mut().expect("an object").remove("digest");
        line["slot"][field] = value;
        let lines = whole.lines().enumerate();
        let changed: String = lines
            .map(|(at, old)| {
                if at == 1 {
                    format!("{line}\n")
                } else {
                    format!("{old}\n")
                }
            })
            .collect();
        let (code, said) = resumed_from(&folder, changed);
        assert_eq!(code, 2, "{field}: {said}");
        assert!(said.contains("slot 0 of `even` has"), "{field}: {said}");
        assert!(said.contains(expected), "{field}: {said}");
    }
}

#[test]
fn altered_and_torn_lines_are_named() {
    let (folder, whole) = whole();
    assert!(
        whole.lines().all(|line| line.contains(",\"digest\":\"")),
        "{whole}"
    );
    // One digit of the third line.
    let at = whole.match_indices('\n').nth(1).expect("lines").0 + 1;
    let digit = at + whole[at..].find("\"costs\":[").expect("costs") + 9;
    let mut altered = whole.clone().into_bytes();
    altered[digit] = if altered[digit] == b'1' { b'2' } else { b'1' };
    let (code, said) = resumed_from(&folder, altered);
    assert!(
        code == 2 && said.contains("line 3 of `run.jsonl`") && said.contains("altered"),
        "{said}"
    );
    // Torn in the middle, and at its end: the first is no run that was broken off.
    let (_, said) = resumed_from(&folder, whole.replacen("\"slot\":1,", "\"sl", 1));
    assert!(said.contains("line 3 of `run.jsonl`"), "{said}");
    let (code, said) = resumed_from(&folder, &whole[..at + 20]);
    assert!(
        code == 0 && said.contains("line 3 of `run.jsonl` is torn"),
        "{said}"
    );
    assert_eq!(folder.read("run.jsonl"), whole);
}

#[test]
fn a_killed_run_goes_on() {
    let folder = folder(SCENARIO);
    let args = ["online", "scenario.toml", "--slots", "1500", "--quiet"];
    let whole = folder.succeed(&args);
    let resumed = [&args[..], &["--output", "run.jsonl", "--resume"]].concat();
    let mut child = folder
        .command(&resumed)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    // Killed as soon as it has written something: SIGKILL, which it cannot catch.
    let path = folder.path("run.jsonl");
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 5_000 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().expect("it runs or has ended");
    child.wait().expect("it ends");
    assert!(
        folder.read("run.jsonl").len() < whole.len(),
        "it was too fast to be killed"
    );
    folder.succeed(&resumed);
    assert!(
        folder.read("run.jsonl") == whole,
        "another run than the unbroken one"
    );
}

#[test]
fn scenarios_of_the_instances_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances/online");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("instances/online").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let path = path.display().to_string();
            let text = Folder::new().succeed(&["online", &path, "--slots", "4", "--quiet"]);
            assert_shown(&lines(&text));
            count += 1;
        }
    }
    assert_eq!(count, 3);
}

/// What is changed in the scenario, into what, and what the message says.
const BROKEN: &[(&str, &str, &[&str])] = &[
    ("slots = 40", "slots = 0", &["slots: found 0", "from 1"]),
    (
        "slots = 40",
        "slot = 40",
        &["unknown field `slot`", "line 4", "did you mean `slots`?"],
    ),
    (
        "reading = \"pipeline-of-groups\"",
        "reading = \"groups\"",
        &["line 3", "parallel-pipelines"],
    ),
    (
        "gpu = { dollars",
        "tpu = { dollars",
        &["prices: found `tpu`", "device kind"],
    ),
    (
        "gpu = { dollars",
        "gpu = { dolars",
        &["prices.gpu", "did you mean `dollars`?"],
    ),
    (
        "per_slot = 2.5",
        "per_slot = -1.0",
        &["budgets[0].per_slot: found -1"],
    ),
    (
        "[[0.8, 0.2], [0.4, 0.6]]",
        "[[0.8, 0.3], [0.4, 0.6]]",
        &["processes[0].transitions[0]", "sum to 1"],
    ),
    (
        "[[0.8, 0.2], [0.4, 0.6]]",
        "[[0.8, 0.2]]",
        &["processes[0].transitions: found 1 rows for 2 factors"],
    ),
    (
        "factors = [1.0, 3.0]",
        "factors = [0.0, 3.0]",
        &["processes[0].factors[0]", "above 0"],
    ),
    (
        "\"gpu:1\", \"gpu:2\"",
        "\"gpu:7\"",
        &["processes[2].devices", "`gpu:7`"],
    ),
    (
        "instance = \"net.toml\"",
        "instance = \"nets.toml\"",
        &["nets.toml", "did you mean `net.toml`?"],
    ),
    (
        "samples = 12",
        "samples = 12\nmicro_batch = 13",
        &["micro_batch: found 13"],
    ),
];

#[test]
fn broken_scenarios_are_refused_with_their_place() {
    for (from, to, expected) in BROKEN {
        assert!(SCENARIO.contains(from), "{from}");
        let run = folder(&SCENARIO.replace(from, to)).run(&["online", "scenario.toml"]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{to}: {}", run.stderr);
        let message: Vec<&str> = run
            .stderr
            .split_whitespace()
            .filter(|word| *word != "│")
            .collect();
        for part in *expected {
            assert!(
                message.join(" ").contains(part),
                "{to}: no `{part}` in {}",
                run.stderr
            );
        }
    }
}

#[test]
fn broken_traces_are_refused_with_their_place() {
    let traces: &[(&str, &str)] = &[
        ("0,gpu:9,slowdown,2\n", "line 2, column `device`"),
        ("0,gpu:0,speed,2\n", "line 2, column `quantity`"),
        ("0,gpu:0,slowdown,0\n", "line 2, column `factor`"),
        (
            "3,gpu:0,slowdown,2\n1,gpu:0,slowdown,1\n",
            "line 3, column `slot`",
        ),
        ("0,gpu:0,backbone,2\n", "line 2, column `device`"),
    ];
    for (rows, expected) in traces {
        let folder = folder(&SCENARIO.replace("reading", "trace = \"trace.csv\"\nreading"));
        folder.write("trace.csv", format!("slot,device,quantity,factor\n{rows}"));
        let run = folder.run(&["online", "scenario.toml"]);
        assert_eq!(run.code, 2, "{rows}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{rows}: {}", run.stderr);
    }
}

#[test]
fn only_a_file_of_lines_can_be_resumed() {
    let run = folder(SCENARIO).run(&["online", "scenario.toml", "--resume"]);
    assert_eq!(run.code, 2, "--resume needs --output");
}
