//! Methods from outside in a study: costed, checked, timed, limited and cached like any other.

#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::command::{Folder, NET};
use crate::common::study::{assert_same, folder, rows, timeless};
use serde_json::Value;
use stagecut::study::store::Store;
use stagecut::study::{Row, RowStatus, Study};

/// Layers in the order of the file, each stage filled up to its share of the work: what frameworks do.
const MINE: &str = r#"
import json, sys

ask = json.load(sys.stdin)
assert ask["schema"] == "stagecut-question/1" and ask["method"] == "mine"
layers = ask["instance"]["network"]["layers"]
stages, kind = ask["options"]["stages"], ask["options"]["device_kinds"][0]

def work(layer):
    times = layer.get("times", {}).get(kind, layer)
    return times.get("forward_ms", 0) + times.get("backward_ms", 0)

share = sum(map(work, layers)) / stages
plan, done = [[] for _ in range(stages)], 0
for layer in layers:
    plan[min(stages - 1, int((done + work(layer) / 2) / share))].append(layer["id"])
    done += work(layer)
json.dump([stage for stage in plan if stage], sys.stdout)
"#;

/// The method beside three of ours.
const STUDY: &str = r#"
[limits]
time_limit_s = 30

[[instances]]
generator = "random"
parameters = { layers = [8, 12], seed = { from = 0, count = 6 } }

[[instances]]
files = ["net.toml"]

[[options]]
stages = [2, 3]
communication = ["blocking", "overlapped"]

[[methods]]
names = ["exact", "slicing", "equal-layers"]

[[methods]]
name = "mine"
command = ["python3", "mine.py"]
"#;
const TASKS: usize = 13 * 4 * 4;

fn with_mine(study: &str) -> Folder {
    let folder = folder(study);
    folder.write("mine.py", MINE);
    folder
}

fn count(folder: &Folder) -> usize {
    let shelves = std::fs::read_dir(folder.path("study.results").join("rows"));
    let files = shelves
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|shelf| Some(std::fs::read_dir(shelf.path()).ok()?.count()));
    files.sum()
}

/// What `check --evaluate` says of the plan of a row.
fn evaluated(folder: &Folder, row: &Row) -> Value {
    let name = row.plan.as_ref().expect("a plan");
    let stages = Store::new(folder.path("study.results"))
        .plan(name)
        .expect("its stages");
    let layers: Vec<&Vec<String>> = stages.iter().map(|stage| &stage.forward).collect();
    folder.write("stages.json", serde_json::to_string(&layers).expect("JSON"));
    let options = row.task.options_text();
    let of = |name: &str| {
        let mut pairs = options.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).expect("an option").1
    };
    let instance = match row.task.instance.strip_prefix("random ") {
        None => "net.toml",
        Some(parameters) => {
            let value = |name: &str| {
                let mut words = parameters.split(' ').filter_map(|word| word.split_once('='));
                words.find(|(key, _)| *key == name).expect("a parameter").1
            };
            let (layers, seed) = (value("layers"), value("seed"));
            let made = [
                "generate",
                "random",
                "--layers",
                layers,
                "--seed",
                seed,
                "--output",
                "made.json",
            ];
            folder.succeed(&made);
            "made.json"
        }
    };
    let (stages, communication) = (of("stages"), of("communication"));
    let command = [
        "check",
        "--evaluate",
        instance,
        "stages.json",
        "--stages",
        stages,
        "--communication",
        communication,
        "--format",
        "json",
    ];
    serde_json::from_str(&folder.succeed(&command)).expect("JSON")
}

/// What is compared with ours has a colour that no other method has.
fn assert_has_its_own_color(folder: &Folder) {
    folder.succeed(&["study", "report", "study.toml", "--output", "report"]);
    let page = folder.read("report/report.html");
    let paths = page.split("<path class=\"line ").skip(1);
    let curves: Vec<&str> = paths.filter_map(|path| path.split('>').next()).collect();
    let is_own = |curve: &&&str| curve.starts_with("own ");
    let named = |curve: &&str| curve.contains("data-name=\"mine\"");
    let drawn = || curves.iter().filter(|curve| curve.contains("data-points"));
    assert!(drawn().filter(|curve| named(curve)).all(|curve| is_own(&curve)));
    assert!(drawn().filter(is_own).all(named) && drawn().any(named));
}

#[test]
fn a_heuristic_in_python_beside_ours_killed_and_resumed() {
    let broken = with_mine(STUDY);
    for at in [20, 90] {
        let mut command = broken.command(&["study", "run", "study.toml", "--jobs", "2", "--quiet"]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("a study");
        let started = Instant::now();
        while count(&broken) < at {
            assert!(started.elapsed() < Duration::from_secs(120), "no rows");
            std::thread::sleep(Duration::from_millis(5));
        }
        // SIGKILL: nothing can be tidied up.
        child.kill().expect("a process");
        child.wait().expect("a process");
        assert!((at..TASKS).contains(&count(&broken)));
    }
    broken.succeed(&["study", "run", "study.toml", "--jobs", "2", "--quiet"]);
    let whole = with_mine(STUDY);
    whole.succeed(&["study", "run", "study.toml", "--jobs", "2", "--quiet"]);
    let all = rows(&whole, "study.toml");
    assert_eq!(all.len(), TASKS);
    assert_same(&timeless(rows(&broken, "study.toml")), &timeless(all.clone()));

    let mine: Vec<&Row> = all.iter().filter(|row| row.task.method == "mine").collect();
    assert_eq!(mine.len(), TASKS / 4);
    let mut passed = 0;
    for row in mine {
        // Layers in the order of a file may break an order: then the row says so.
        if row.status == RowStatus::Crashed {
            assert!(
                row.note.as_ref().expect("a reason").contains("fails the check"),
                "{}",
                row.line()
            );
            continue;
        }
        passed += 1;
        let report = evaluated(&whole, row);
        assert_eq!(
            report["objective_ms"].as_f64(),
            row.objective_ms,
            "{}",
            row.line()
        );
        let best = all.iter().filter(|other| other.task.content == row.task.content);
        let best = best.filter(|other| other.task.options == row.task.options);
        assert!(
            best.filter_map(|other| other.bound_ms)
                .all(|bound| Some(bound) <= row.objective_ms)
        );
        assert!(
            row.seconds.is_some() && row.startup_seconds.is_some(),
            "{}",
            row.line()
        );
    }
    assert!(passed > TASKS / 8, "only {passed} plans");
    let report = whole.succeed(&["study", "report", "study.toml"]);
    assert!(report.lines().any(|line| line.starts_with("mine ")), "{report}");
    assert_has_its_own_color(&whole);
    let csv = whole.succeed(&["study", "collect", "study.toml", "--format", "csv"]);
    assert!(
        csv.lines()
            .next()
            .expect("a header")
            .ends_with("seconds,startup_seconds,best_bound_ms,gap_to_best_bound"),
        "{csv}"
    );
    let task = &all
        .iter()
        .find(|row| row.task.method == "mine")
        .expect("a row")
        .task;
    let again = task.command("study.toml", ".".as_ref());
    assert_eq!(again, format!("stagecut study run-task study.toml {}", task.id));
}

/// The rows of commands on [`NET`], by the name of the method.
fn ran(limits: &str, commands: &[(&str, &str)]) -> BTreeMap<String, Row> {
    let mut study =
        format!("[limits]\n{limits}\n[[instances]]\nfiles = [\"net.toml\"]\noptions = {{ stages = 2 }}\n");
    for (name, script) in commands {
        study += &format!("[[methods]]\nname = \"{name}\"\ncommand = [\"python3\", \"{name}.py\"]\n");
        assert!(!script.is_empty());
    }
    let folder = folder(&study);
    for (name, script) in commands {
        folder.write(&format!("{name}.py"), script);
    }
    folder.succeed(&["study", "run", "study.toml", "--quiet", "--jobs", "2"]);
    rows(&folder, "study.toml")
        .into_iter()
        .map(|row| (row.task.method.clone(), row))
        .collect()
}

/// Commands that end in every way.
const ENDINGS: &[(&str, &str)] = &[
    (
        "good",
        "import sys\nsys.stdin.read()\nprint('layer,stage\\nconv1,1\\nconv2,1\\nfc,2')",
    ),
    (
        "talks",
        "import sys\nsys.stdin.read()\nprint('slow today', file=sys.stderr)\nprint('[[\"conv1\"], [\"conv2\", \"fc\"]]')",
    ),
    ("deaf", "print('[[\"conv1\", \"conv2\", \"fc\"]]')"),
    ("none", "import sys\nsys.stdin.read()\nprint('[]')"),
    ("mute", "import sys\nsys.stdin.read()"),
    ("raises", "raise ValueError('no idea')"),
    ("unknown", "print('[[\"conv1\", \"conv9\"]]')"),
    ("backwards", "print('[[\"fc\"], [\"conv1\", \"conv2\"]]')"),
    ("killed", "import os\nos.kill(os.getpid(), 9)"),
];

#[test]
fn every_ending_is_a_row() {
    let rows = ran("time_limit_s = 20", ENDINGS);
    let expected = [
        ("good", RowStatus::Feasible, None),
        ("talks", RowStatus::Feasible, Some("slow today")),
        ("deaf", RowStatus::Feasible, None),
        ("none", RowStatus::Unknown, None),
        ("mute", RowStatus::Crashed, Some("its answer is no plan: ")),
        ("raises", RowStatus::Crashed, Some("ValueError: no idea")),
        (
            "unknown",
            RowStatus::Crashed,
            Some("stages[0].layers: found `conv9`"),
        ),
        (
            "backwards",
            RowStatus::Crashed,
            Some("its plan fails the check: `conv2` feeds `fc`"),
        ),
        ("killed", RowStatus::Crashed, Some("ended by signal 9")),
    ];
    for (name, status, note) in expected {
        let row = &rows[name];
        let said = row.note.as_deref();
        assert_eq!(row.status, status, "{}", row.line());
        match note {
            Some(part) => assert!(said.is_some_and(|said| said.contains(part)), "{}", row.line()),
            None => assert_eq!(said, None, "{name}"),
        }
    }
    assert_eq!(rows["good"].objective_ms, Some(10.0));
}

#[test]
fn limits_hold_for_commands() {
    let rows = ran(
        "time_limit_s = 3\ngrace_s = 2\nmemory_limit_bytes = 2e9",
        &[
            (
                "sleeps",
                "import sys, time\nprint('so tired', file=sys.stderr, flush=True)\ntime.sleep(60)",
            ),
            // What it leaves behind holds its stdout, and is ended with it.
            (
                "leaves",
                "import subprocess, sys\nsys.stdin.read()\nsubprocess.Popen(['sleep', '60'])\nprint('[[\"conv1\", \"conv2\", \"fc\"]]')",
            ),
            ("eats", "all = bytearray(1 << 32)"),
        ],
    );
    assert_eq!(rows["sleeps"].status, RowStatus::OverLimit);
    let note = rows["sleeps"].note.as_deref();
    assert_eq!(note, Some("ended after 4 s: so tired"));
    assert_eq!(
        rows["eats"].status,
        RowStatus::OutOfMemory,
        "{}",
        rows["eats"].line()
    );
    let leaves = &rows["leaves"];
    assert!(
        [RowStatus::Feasible, RowStatus::OverLimit].contains(&leaves.status),
        "{}",
        leaves.line()
    );
}

#[test]
fn start_up_is_no_time_of_the_method() {
    let rows = ran(
        "time_limit_s = 20",
        &[
            (
                "starts",
                "import time\ntime.sleep(1.5)\nimport sys\nsys.stdin.read()\nprint('[[\"conv1\", \"conv2\", \"fc\"]]')",
            ),
            (
                "works",
                "import sys, time\nsys.stdin.read()\ntime.sleep(1.5)\nprint('[[\"conv1\", \"conv2\", \"fc\"]]')",
            ),
        ],
    );
    let times = |name: &str| {
        (
            rows[name].seconds.expect("seconds"),
            rows[name].startup_seconds.expect("seconds"),
        )
    };
    let (own, start) = times("starts");
    assert!(start >= 1.5 && own < 1.5, "{own} {start}");
    let (own, start) = times("works");
    assert!(own >= 1.5 && start < 1.5, "{own} {start}");
}

/// Starts processes in every way that its own end does not reach, writes down all of them, and sleeps.
const STARTS_OTHERS: &str = r#"
import os, signal, subprocess, sys, time

sleep = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)"]
pids = [os.getpid(), subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
# A daemon: its parent is gone, and so is its session.
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(write, str(subprocess.Popen(sleep, start_new_session=True).pid).encode())
    os._exit(0)
os.wait()
pids.append(int(os.read(read, 20)))
open("pids", "w").write(" ".join(map(str, pids)) + "\n")
if sys.stdin.read(1) and "answers" not in sys.argv:
    time.sleep(100)
print("[]")
"#;

/// A study of [`STARTS_OTHERS`], with one more word.
fn of_others(limits: &str, word: &str) -> Folder {
    let folder = folder(&format!(
        "[limits]\n{limits}\n[[instances]]\nfiles = [\"net.toml\"]\noptions = {{ stages = 2 }}\n[[methods]]\nname = \"starts\"\ncommand = [\"python3\", \"starts.py\", \"{word}\"]\n"
    ));
    folder.write("starts.py", STARTS_OTHERS);
    folder
}

/// The processes that [`STARTS_OTHERS`] has written down, once it has.
fn started(folder: &Folder) -> Vec<String> {
    let pids = || std::fs::read_to_string(folder.path("pids")).unwrap_or_default();
    wait_for("the command", || pids().ends_with('\n'));
    let pids: Vec<String> = pids().split_whitespace().map(str::to_owned).collect();
    assert_eq!(pids.len(), 4);
    pids
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_there() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn runs(pid: &String) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn no_command_outlives_its_study() {
    use rustix::process::{Pid, Signal, kill_process};
    // Whatever ends the study: Ctrl-C, a polite request, or what cannot be caught.
    for (signal, code) in [
        (Signal::INT, Some(4)),
        (Signal::TERM, Some(4)),
        (Signal::KILL, None),
    ] {
        let folder = of_others("", "sleeps");
        let mut child = folder
            .command(&["study", "run", "study.toml", "--quiet"])
            .spawn()
            .expect("a study");
        let pids = started(&folder);
        assert!(pids.iter().all(runs), "{pids:?}");
        kill_process(Pid::from_child(&child), signal).expect("a process");
        assert_eq!(child.wait().expect("a process").code(), code, "{signal:?}");
        wait_for("the end of all", || !pids.iter().any(runs));
        assert!(rows(&folder, "study.toml").is_empty());
    }
}

#[test]
fn nothing_that_a_command_starts_outlives_it() {
    // It answers and leaves the others behind, or its time is up.
    for (limits, word, status) in [
        ("time_limit_s = 30", "answers", RowStatus::Unknown),
        ("time_limit_s = 1\ngrace_s = 8", "sleeps", RowStatus::OverLimit),
    ] {
        let folder = of_others(limits, word);
        folder.succeed(&["study", "run", "study.toml", "--quiet"]);
        let left: Vec<String> = started(&folder).into_iter().filter(runs).collect();
        assert!(left.is_empty(), "{word}: {left:?}");
        assert_eq!(rows(&folder, "study.toml")[0].status, status, "{word}");
    }
}

#[test]
fn commands_are_known_by_their_content() {
    let folder = with_mine(&STUDY.replace("\"mine.py\"]", "\"mine.py\"]\nfiles = [\"lib*.py\"]"));
    folder.write("library.py", "limit = 3\n");
    let ids = || -> [BTreeSet<String>; 2] {
        let tasks = Study::read(&folder.path("study.toml")).expect("a study").tasks;
        ["mine", ""].map(|name| {
            let own = tasks
                .iter()
                .filter(|task| (task.method == "mine") == (name == "mine"));
            own.map(|task| task.id.clone()).collect()
        })
    };
    let before = ids();
    let changes = [
        ("mine.py", format!("{MINE}# changed\n")),
        ("library.py", "limit = 4\n".to_owned()),
    ];
    for (file, contents) in changes {
        let earlier = ids();
        folder.write(file, contents);
        let after = ids();
        assert!(after[0].is_disjoint(&earlier[0]), "{file}");
        assert_eq!(after[1], before[1]);
    }
    folder.write("mine.py", MINE);
    folder.write("library.py", "limit = 3\n");
    assert_eq!(ids(), before);
    let text = folder.read("study.toml");
    folder.write("study.toml", text.replace("\"mine.py\"]", "\"mine.py\", \"-v\"]"));
    assert!(ids()[0].is_disjoint(&before[0]));
}

/// Methods of a study, and what is said of them.
const NO_METHODS: &[(&str, &str)] = &[
    (
        "[[methods]]\nname = \"exact\"\ncommand = [\"true\"]",
        "line 3, column 8: found the name `exact`, expected one that no method of the registry has",
    ),
    (
        "[[methods]]\nname = \"heuristics\"\ncommand = [\"true\"]",
        "found the name `heuristics`",
    ),
    (
        "[[methods]]\nname = \" \"\ncommand = [\"true\"]",
        "found the name ` `",
    ),
    (
        "[[methods]]\nname = \"mine\"",
        "line 3, column 8: found a part of a command among others",
    ),
    (
        "[[methods]]\ncommand = [\"true\"]",
        "line 3, column 11: found a part of a command among others",
    ),
    (
        "[[methods]]\nnames = [\"exact\"]\nname = \"mine\"\ncommand = [\"true\"]",
        "found a part of a command among others",
    ),
    (
        "[[methods]]\nname = \"mine\"\ncommand = []",
        "line 4, column 11: found no program",
    ),
    (
        "[[methods]]\nseeds = [1]",
        "methods: found no method, expected `names`, or `name` and `command`",
    ),
    (
        "[[methods]]\nname = \"mine\"\ncommand = [\"true\"]\nfiles = [\"no*.py\"]",
        "line 5, column 10: found no readable file",
    ),
    (
        "[[methods]]\nname = \"mine\"\ncommand = [\"true\"]\n[[methods]]\nname = \"mine\"\ncommand = [\"false\"]",
        "line 6, column 8: found a second method named `mine`",
    ),
];

#[test]
fn faults_of_commands_stand_at_their_place() {
    let head = "instances = [{ files = [\"net.toml\"] }]\n";
    for (text, expected) in NO_METHODS {
        let folder = Folder::with("study.toml", format!("{head}{text}\n"));
        folder.write("net.toml", NET);
        let error = Study::read(&folder.path("study.toml")).expect_err(text);
        let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{text}\n{faults:?}\n{expected}"
        );
    }
}

#[test]
fn a_program_that_is_not_there_is_a_row() {
    let folder = folder(
        "[[instances]]\nfiles = [\"net.toml\"]\noptions = { stages = 2 }\n[[methods]]\nname = \"typo\"\ncommand = [\"pyhton-that-is-not-there\"]\n",
    );
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    let row = &rows(&folder, "study.toml")[0];
    assert_eq!(row.status, RowStatus::Crashed);
    let note = row.note.as_ref().expect("a reason");
    assert!(
        note.contains("`pyhton-that-is-not-there`: No such file"),
        "{note}"
    );
}
