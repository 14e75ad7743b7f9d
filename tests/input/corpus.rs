//! Inputs that once ended the program, held it up or led it astray: `tests/corpus/README.md` says what each did.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Far above what any of them takes, on a machine that is busy with other tests; none ended within minutes, or at all.
const SOON: Duration = Duration::from_secs(10);

/// Address space of a run, in KiB.
const MEMORY_KIB: u64 = 1 << 20;

fn corpus(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder)
}

/// Runs the program under a limit on its memory: exit code, and what it wrote to both outputs.
fn replay(folder: &str, args: &[&str]) -> (i32, String) {
    let started = Instant::now();
    let output = Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_stagecut"),
        ])
        .args(args)
        .current_dir(corpus(folder))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked at"), "{args:?}: {said}");
    assert!(started.elapsed() < SOON, "{args:?}: {:?}", started.elapsed());
    let code = output.status.code();
    (
        code.unwrap_or_else(|| panic!("{args:?}: {}", output.status)),
        said.into_owned(),
    )
}

/// Refused as input, with these words wherever lines are wrapped.
fn refused(folder: &str, args: &[&str], words: &[&str]) {
    let (code, said) = replay(folder, args);
    assert_eq!(code, 2, "{args:?}: {said}");
    let said: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
    for word in words {
        assert!(said.join(" ").contains(word), "{args:?}: no `{word}` in {said:?}");
    }
}

fn files(folder: &str, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(corpus(folder)).expect("the corpus").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(extension)).collect();
    names.sort();
    names
}

#[test]
#[cfg(feature = "onnx")]
fn hostile_models_end_no_process_and_are_refused_at_their_node() {
    let models = files("onnx", ".onnx");
    assert!(models.len() >= 13, "{models:?}");
    for model in models {
        let args = ["solve", model.as_str(), "--stages", "2", "--quiet"];
        // What these two count is refused by arithmetic that looks out for overflow; the file itself claims the shape.
        match model.contains("HANG") {
            true => assert_eq!(replay("onnx", &args).0, 0, "{model}"),
            false => refused("onnx", &args, &["node `"]),
        }
    }
}

/// In words: each stage is held against the busiest of all, and each device's chunks are gathered.
#[test]
fn reports_of_many_devices_with_chunks_are_soon_written() {
    let (code, said) = replay(
        "native",
        &[
            "solve",
            "chunks-many-devices.json",
            "--method",
            "chunk-even",
            "--quiet",
        ],
    );
    assert_eq!(code, 0, "{said}");
}

#[test]
fn counts_beyond_any_cluster_are_refused() {
    let assign = ["--stages", "2", "--groups", "assign", "--quiet"];
    let asked = |file| [&["solve", file], &assign[..]].concat();
    refused(
        "native",
        &asked("cl_million.json"),
        &["more than 200000 ways to form a group"],
    );
    for file in ["cl_u64.json", "cl_wrap.json", "dnn-ov.json"] {
        refused(
            "native",
            &asked(file),
            &["count: found 1.8446744073709552e19", "from 1 to 1000000"],
        );
    }
    for command in ["solve", "bound", "compare"] {
        refused(
            "native",
            &[command, "chunks-u64.json", "--quiet"],
            &["stages: found"],
        );
    }
    assert_eq!(
        replay(
            "native",
            &["solve", "cl_million.json", "--stages", "2", "--quiet"]
        )
        .0,
        0
    );
}

#[test]
fn prices_that_leave_the_range_of_the_solver_are_refused() {
    refused(
        "scenario",
        &["online", "scen-1016121.toml"],
        &["prices.h.dollars: found 9", "from 0 to 1e12"],
    );
    refused(
        "scenario",
        &["online", "scen-1040628.toml"],
        &["prices.g.dollars: found 9", "from 0 to 1e12"],
    );
    refused(
        "scenario",
        &["online", "st-1155072.toml"],
        &["line 5, column `factor`", "from 1e-6 to 1e6"],
    );
}

/// With 2.5 dollars a slot, two devices at 1.25 each are bought twice: 26.0 ms. HiGHS called 32.7 ms optimal.
#[test]
fn prices_a_part_in_a_billion_apart_do_not_mislead_the_solver() {
    for (file, most_ms) in [("scen-1313409.toml", 25.2), ("scen-2124392.toml", 23.5)] {
        let (code, said) = replay("scenario", &["online", file, "--quiet"]);
        assert_eq!(code, 0, "{said}");
        let last: serde_json::Value =
            serde_json::from_str(said.lines().last().expect("lines")).expect("a line of JSON");
        let clairvoyant_ms = last["yardsticks"]["clairvoyant_ms"].as_f64().expect("a number");
        assert!(clairvoyant_ms < most_ms, "{file}: {clairvoyant_ms}");
    }
}

#[test]
fn studies_of_very_many_tasks_are_refused_before_they_are_listed() {
    refused(
        "study",
        &["study", "tasks", "study-count.toml"],
        &["1000000 tasks or more", "--most-tasks"],
    );
    refused(
        "study",
        &["study", "tasks", "study-hang.toml"],
        &["tasks or more", "at most 100000"],
    );
    let asked = ["study", "tasks", "study-hang.toml", "--most-tasks", "1000"];
    refused("study", &asked, &["65540 tasks or more", "at most 1000;"]);
}

#[test]
fn simulations_of_very_many_tasks_are_refused() {
    let asked = ["simulate", "million-micro-batches.json", "--format", "json"];
    refused(
        "simulate",
        &asked,
        &["--micro-batches: found 1000000", "500000 tasks"],
    );
}

#[test]
fn classes_of_very_unlike_speeds_are_weighed() {
    let asked = [
        "solve",
        "dnn-unlike.json",
        "--stages",
        "2",
        "--method",
        "lpt",
        "--quiet",
    ];
    let (code, said) = replay("native", &asked);
    assert_eq!(code, 4, "{said}");
}
