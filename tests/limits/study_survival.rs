//! What survives of a study when it, its workers or its tasks die, and what a task that dies leaves.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::command::Folder;
use crate::common::study::{assert_same, folder, rows, timeless};
use stagecut::study::{Row, RowStatus};

/// More than 2000 short tasks.
const LONG: &str = r#"
[limits]
time_limit_s = 30

[[instances]]
generator = "random"
parameters = { layers = [8, 12], seed = { from = 0, count = 18 } }

[[options]]
stages = [2, 3, 4]
communication = ["blocking", "overlapped"]

[[methods]]
names = ["exact", "ideals"]

[[methods]]
names = ["slicing", "local-moves", "binary-search", "equal-layers"]
seeds = [0, 1]
"#;
const LONG_TASKS: usize = 36 * 6 * (2 + 4 * 2);

fn start(folder: &Folder, results: &str) -> Child {
    let mut command = folder.command(&[
        "study",
        "run",
        "study.toml",
        "--results",
        results,
        "--jobs",
        "2",
        "--quiet",
    ]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_there() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(folder: &Folder, results: &str) -> usize {
    let shelves = std::fs::read_dir(folder.path(results).join("rows"))
        .into_iter()
        .flatten()
        .flatten();
    let files = shelves.filter_map(|shelf| Some(std::fs::read_dir(shelf.path()).ok()?.count()));
    files.sum()
}

#[test]
fn a_study_killed_three_times_has_the_results_of_an_unbroken_one() {
    let folder = folder(LONG);
    // Early enough that the study cannot end before it is killed.
    for at in [200, 600, 1000] {
        let mut child = start(&folder, "broken");
        wait_for("rows", || count(&folder, "broken") >= at);
        // SIGKILL: nothing can be tidied up.
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = rows(&folder, "broken").len();
        assert!((at - 10..LONG_TASKS).contains(&kept), "{kept} rows at {at}");
        println!("killed with {kept} of {LONG_TASKS} rows");
    }
    assert!(start(&folder, "broken").wait().unwrap().success());
    assert!(start(&folder, "unbroken").wait().unwrap().success());
    let unbroken = timeless(rows(&folder, "unbroken"));
    assert_eq!(unbroken.len(), LONG_TASKS);
    const { assert!(LONG_TASKS > 2_000) };
    assert_same(&timeless(rows(&folder, "broken")), &unbroken);
}

/// Processes whose parent this is.
#[cfg(target_os = "linux")]
fn children(of: u32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().nth(1).map(str::to_owned));
        fields.flatten() == Some(of.to_string())
    };
    pids.filter(parent).collect()
}

#[cfg(target_os = "linux")]
fn kill(pid: i32) {
    signal(pid, rustix::process::Signal::KILL);
}

#[cfg(target_os = "linux")]
fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_keeps_the_results() {
    let folder = folder(LONG);
    let mut child = start(&folder, "results");
    wait_for("rows", || count(&folder, "results") >= 200);
    signal(child.id() as i32, rustix::process::Signal::INT);
    // Not all is done: the exit code of a limit.
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let kept = rows(&folder, "results").len();
    assert!((200..LONG_TASKS).contains(&kept), "{kept}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_worker_loses_nothing() {
    let folder = folder(LONG);
    let mut child = start(&folder, "results");
    for at in [200, 700, 1200] {
        wait_for("rows", || count(&folder, "results") >= at);
        children(child.id()).first().copied().into_iter().for_each(kill);
    }
    assert!(child.wait().unwrap().success());
    let rows = rows(&folder, "results");
    assert_eq!(rows.len(), LONG_TASKS);
    assert!(rows.iter().all(|row| !row.status.is_failure()));
}

#[test]
#[cfg(target_os = "linux")]
fn no_worker_outlives_its_study() {
    let folder = folder(
        &LONG
            .replace("\"exact\", \"ideals\"", "\"brkga\"")
            .replace("[8, 12]", "[400]"),
    );
    let mut child = start(&folder, "results");
    wait_for("workers", || children(child.id()).len() == 2);
    let workers = children(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let is_gone = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    wait_for("the end of workers", || workers.iter().all(is_gone));
}

/// One instance with the given limits and methods.
fn limited(limits: &str, generator: &str, methods: &str) -> Vec<Row> {
    let folder = folder(&format!(
        "[limits]\n{limits}\n[[instances]]\n{generator}\n[[options]]\nstages = 4\n[[methods]]\nnames = [{methods}]\n"
    ));
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    rows(&folder, "study.toml")
}

#[test]
fn a_task_beyond_its_limit_is_a_row() {
    // Methods look at the clock; reading a large problem does not.
    let of_limits = |limits: &str| {
        let generator = "generator = \"random\"\nparameters = { layers = 100_000 }";
        let rows = limited(limits, generator, "\"equal-layers\"");
        rows.iter().map(|row| row.status).collect::<Vec<_>>()
    };
    assert_eq!(
        of_limits("time_limit_s = 0.01\ngrace_s = 0.01"),
        [RowStatus::OverLimit]
    );
    assert_eq!(
        of_limits("time_limit_s = 60\ngrace_s = 60"),
        [RowStatus::Feasible]
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_task_out_of_memory_is_a_row() {
    let rows = limited(
        "time_limit_s = 20\nmemory_limit_bytes = 3e8",
        "generator = \"random\"\nparameters = { layers = [10, 1_000_000] }",
        "\"equal-layers\"",
    );
    let status: Vec<RowStatus> = rows.iter().map(|row| row.status).collect();
    assert_eq!(status, [RowStatus::Feasible, RowStatus::OutOfMemory], "{rows:?}");
}

#[test]
fn what_cannot_be_asked_is_a_row() {
    let rows = limited("", "files = [\"net.toml\"]", "\"equal-layers\", \"lpt\"");
    assert_eq!(rows[0].status, RowStatus::Feasible);
    assert_eq!(rows[1].status, RowStatus::Inapplicable);
    assert_eq!(rows[1].note.as_deref(), Some("its workers are all alike"));
    let rows = limited(
        "",
        "files = [\"net.toml\"]\noptions = { device_kinds = [\"tpu\"] }",
        "\"exact\"",
    );
    assert_eq!(rows[0].status, RowStatus::Invalid);
    assert!(rows[0].note.as_ref().unwrap().contains("tpu"));
}
