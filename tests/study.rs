//! Studies: what a file may say, what survives, and what reports claim.

#[path = "common/command.rs"]
mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use command::{Folder, NET};
use stagecut::study::collect::{self, merged};
use stagecut::study::diff::diff;
use stagecut::study::store::Store;
use stagecut::study::{Row, RowStatus, Study};

/// Small networks that every method for alike workers is done with at once.
const SMALL: &str = r#"
name = "small"

[limits]
time_limit_s = 30

[[instances]]
generator = "random"
parameters = { layers = [6, 9], seed = { from = 0, count = 3 } }

[[instances]]
files = ["net.toml"]
family = "written"

[[options]]
stages = [2, 3]
communication = ["blocking", "overlapped"]

[[methods]]
names = ["exact", "ideals"]

[[methods]]
names = ["slicing", "local-moves", "binary-search", "equal-layers"]
seeds = [0, 1]
"#;
/// Its tasks: 7 instances, 4 options, 2 methods and 4 with 2 seeds.
const SMALL_TASKS: usize = 7 * 4 * (2 + 4 * 2);

fn folder(study: &str) -> Folder {
    let folder = Folder::with("study.toml", study);
    folder.write("net.toml", NET);
    folder
}

fn rows(folder: &Folder, name: &str) -> Vec<Row> {
    collect::rows(&folder.path(name)).unwrap()
}

/// Rows as lines without times, which no two runs share.
fn timeless(rows: Vec<Row>) -> BTreeSet<String> {
    let line = |row: Row| Row { seconds: None, ..row }.line();
    rows.into_iter().map(line).collect()
}

/// Fails with the first differences, not with thousands of equal rows.
fn assert_same(first: &BTreeSet<String>, second: &BTreeSet<String>) {
    let differing: Vec<&String> = first.symmetric_difference(second).take(4).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn faults_stand_at_their_place() {
    let cases = [
        (
            "methods = 3",
            "line 1, column 11: found the number `3`, expected a list",
        ),
        ("[[methods]]\nnames = [\"exact\"]", "found no field `instances`"),
        (
            "instances = [{ files = [\"net.toml\"] }]\nmethods = [{ names = [\"exakt\"] }]",
            "line 2, column 23: found `exakt`, expected one of `exact`",
        ),
        (
            "instances = [{ files = [\"no*.toml\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 25: found no readable file (no file matches), expected one",
        ),
        (
            "instances = [{ generator = \"randon\" }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 28: found `randon`, expected one of `random`",
        ),
        (
            "instances = [{ generator = \"random\", parameters = { layer = 3 } }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 61: found unknown field `layer`",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ stages = [2, \"two\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 23: found the text `two`, expected a whole number from 0",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ stages = [] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 23: found an empty list",
        ),
        (
            "instances = [{ files = [\"net.toml\"] }]\noptions = [{ comunication = \"blocking\" }]\nmethods = [{ names = [\"exact\"] }]",
            "line 2, column 29: found unknown field `comunication`",
        ),
        (
            "instances = [{ files = [\"net.toml\"], clusters = [\"v1000\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "line 1, column 50: found no readable file",
        ),
        (
            "instances = [{ files = [\"net.toml\"], family = \"a\" }]\nmethods = [{ names = [\"exact\"], families = [\"b\"] }]",
            "line 2, column 45: found `b`, expected `a`",
        ),
        (
            "limits = { time_limit_s = -1 }\ninstances = [{ files = [\"net.toml\"] }]\nmethods = [{ names = [\"exact\"] }]",
            "limits.time_limit_s: found -1, expected seconds from 0",
        ),
    ];
    for (text, expected) in cases {
        let folder = folder(text);
        let error = Study::read(&folder.path("study.toml")).unwrap_err();
        let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{text}\n{faults:?}\n{expected}"
        );
        assert_eq!(folder.run(&["study", "tasks", "study.toml"]).code, 2);
    }
}

#[test]
fn tasks_are_known_by_what_decides_their_results() {
    let folder = folder(SMALL);
    let ids = || -> BTreeSet<String> {
        let study = Study::read(&folder.path("study.toml")).unwrap();
        assert_eq!(study.tasks.len(), SMALL_TASKS);
        study.tasks.into_iter().map(|task| task.id).collect()
    };
    let before = ids();
    assert_eq!(before.len(), SMALL_TASKS);
    assert_eq!(ids(), before);
    // A byte of one instance changes its tasks and no other.
    folder.write("net.toml", NET.replace("5e5", "6e5"));
    assert_eq!(ids().intersection(&before).count(), SMALL_TASKS * 6 / 7);
    folder.write("net.toml", NET);
    folder.write(
        "study.toml",
        SMALL.replace("time_limit_s = 30", "time_limit_s = 31"),
    );
    assert!(ids().is_disjoint(&before));
    // The grace says when to give up on a task, not what it finds.
    folder.write(
        "study.toml",
        SMALL.replace("time_limit_s = 30", "time_limit_s = 30\ngrace_s = 3"),
    );
    assert_eq!(ids(), before);
}

#[test]
fn what_is_there_is_not_run_again() {
    let folder = folder(SMALL);
    let run = || folder.run(&["study", "run", "study.toml", "--jobs", "2"]);
    let said =
        |before: usize, run: usize| format!("{SMALL_TASKS} tasks: {before} had results, {run} run, 0 left");
    let first = run();
    assert!(first.stderr.contains(&said(0, SMALL_TASKS)), "{}", first.stderr);
    assert!(run().stderr.contains(&said(SMALL_TASKS, 0)));
    let all = rows(&folder, "study.toml");
    assert_eq!(all.len(), SMALL_TASKS);
    // A file that is lost, and two that a power cut left torn.
    let path = |row: &Row| {
        folder.path(&format!(
            "study.results/rows/{}/{}.json",
            &row.task.id[..2],
            row.task.id
        ))
    };
    std::fs::remove_file(path(&all[0])).unwrap();
    std::fs::write(path(&all[1]), "").unwrap();
    std::fs::write(path(&all[2]), &all[2].line()[..40]).unwrap();
    assert_eq!(rows(&folder, "study.results").len(), SMALL_TASKS - 3);
    let missing = folder.succeed(&["study", "tasks", "study.toml", "--missing"]);
    assert_eq!(missing.lines().count(), 3);
    assert!(run().stderr.contains(&said(SMALL_TASKS - 3, 3)));
    assert_same(&timeless(rows(&folder, "study.toml")), &timeless(all));
}

#[test]
fn parts_and_single_tasks_make_the_whole() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--results", "whole", "--quiet"]);
    for part in ["1/3", "2/3"] {
        folder.succeed(&[
            "study",
            "run",
            "study.toml",
            "--results",
            "parts",
            "--part",
            part,
            "--quiet",
        ]);
    }
    let left = folder.succeed(&["study", "tasks", "study.toml", "--results", "parts", "--missing"]);
    let mut command = vec!["study", "run-task", "study.toml", "--results", "parts"];
    // By the whole line, as engines hand it over, or by its identity.
    command.extend(left.lines());
    let printed = folder.succeed(&command);
    assert_eq!(printed.lines().count(), SMALL_TASKS / 3 + SMALL_TASKS % 3 / 2);
    let again = folder.succeed(&command);
    assert_eq!(again, printed, "a row that is there is not computed again");
    assert_same(
        &timeless(rows(&folder, "parts")),
        &timeless(rows(&folder, "whole")),
    );
    let unknown = folder.run(&["study", "run-task", "study.toml", "0123"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("0123"), "{}", unknown.stderr);
}

#[test]
fn rows_are_what_the_methods_find() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    for row in rows(&folder, "study.toml")
        .iter()
        .filter(|row| row.task.family == "written")
    {
        let options = row.task.options_text();
        let stages = if options.contains("stages=2") { "2" } else { "3" };
        let communication = if options.contains("blocking") {
            "blocking"
        } else {
            "overlapped"
        };
        let seed = row.task.seed.to_string();
        let plan = folder.succeed(&[
            "solve",
            "net.toml",
            "--stages",
            stages,
            "--communication",
            communication,
            "--method",
            &row.task.method,
            "--seed",
            &seed,
            "--format",
            "json",
        ]);
        let plan: stagecut::plan::Plan = serde_json::from_str(&plan).unwrap();
        assert_eq!(
            (row.objective_ms, row.bound_ms),
            (plan.objective_ms, plan.bound_ms),
            "{}",
            row.line()
        );
        assert_eq!(row.status, RowStatus::from(plan.status));
        let kept = Store::new(folder.path("study.results"))
            .plan(row.plan.as_ref().unwrap())
            .unwrap();
        assert_eq!(kept, plan.stages);
        // The command of a report is the one that was just run.
        let command = row.task.command("study.toml", Path::new("."));
        assert!(
            command.starts_with(&format!(
                "stagecut solve net.toml --stages {stages} --communication"
            )),
            "{command}"
        );
    }
}

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
    for at in [300, 900, 1500] {
        let mut child = start(&folder, "broken");
        wait_for("rows", || count(&folder, "broken") >= at);
        // SIGKILL: nothing can be tidied up.
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = rows(&folder, "broken").len();
        assert!((at - 10..LONG_TASKS).contains(&kept), "{kept} rows at {at}");
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
    let rows = limited(
        "time_limit_s = 1\ngrace_s = 2",
        "generator = \"random\"\nparameters = { layers = 20_000 }",
        "\"brkga\", \"equal-layers\"",
    );
    let status: BTreeMap<&str, RowStatus> = rows
        .iter()
        .map(|row| (row.task.method.as_str(), row.status))
        .collect();
    assert_eq!(status["brkga"], RowStatus::OverLimit);
    assert_eq!(status["equal-layers"], RowStatus::Feasible);
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

#[test]
fn collected_results_are_compared() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "collect", "study.toml", "--output", "a.jsonl"]);
    let all = rows(&folder, "a.jsonl");
    assert_same(&timeless(all.clone()), &timeless(rows(&folder, "study.toml")));
    // Halves make the whole, and a torn last line is left out.
    let text = folder.read("a.jsonl");
    let (first, second) = text.split_at(text.match_indices('\n').nth(100).unwrap().0 + 1);
    folder
        .write("first.jsonl", first)
        .write("second.jsonl", format!("{second}{{\"id\":\"12"));
    let both = folder.succeed(&["study", "collect", "first.jsonl", "second.jsonl", "a.jsonl"]);
    assert_eq!(both, text);
    assert_eq!(folder.run(&["study", "diff", "a.jsonl", "study.toml"]).code, 0);
    assert_eq!(folder.run(&["study", "diff", "a.jsonl", "first.jsonl"]).code, 1);

    let changed = |change: &dyn Fn(&mut Row)| {
        let mut changed = all.clone();
        let row = changed.iter_mut().find(|row| row.task.method == "exact").unwrap();
        change(row);
        diff(&all, &changed)
    };
    let optimum = changed(&|row| {
        row.objective_ms = row.objective_ms.map(|ms| ms * 1.01);
        row.bound_ms = row.objective_ms;
    });
    assert!(
        !optimum.passes(None) && optimum.contradictory.len() == 1 && optimum.worse.len() == 1,
        "{optimum:?}"
    );
    assert!(
        optimum.contradictory[0].contains("`exact` proves an optimum of"),
        "{optimum:?}"
    );
    let lost = changed(&|row| row.status = RowStatus::Feasible);
    assert!(!lost.passes(None) && lost.contradictory.is_empty(), "{lost:?}");
    let slow = changed(&|row| row.seconds = Some(1e9));
    assert!(slow.passes(None) && !slow.passes(Some(1.5)), "{slow:?}");
    assert!(diff(&all, &all).passes(Some(1.0)));
}

#[test]
fn of_two_rows_the_one_that_is_no_failure_stays() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--part", "1/40", "--quiet"]);
    let good = rows(&folder, "study.results");
    let bad: Vec<Row> = good
        .iter()
        .map(|row| Row::ended(row.task.clone(), RowStatus::Crashed, None))
        .collect();
    assert_eq!(merged(vec![bad.clone(), good.clone()]), good);
    assert_eq!(merged(vec![good.clone(), bad]), good);
}

#[test]
fn numbers_of_the_page_are_those_of_the_tables() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "report", "study.toml", "--output", "report"]);
    let page = folder.read("report/report.html");
    assert!(page.len() < 5_000_000);
    let document = roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>")).unwrap();
    let tables: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("table"))
        .collect();
    assert!(tables.len() >= 6);
    for table in tables {
        let name = table.attribute("data-name").unwrap();
        let mut csv = csv::Reader::from_reader(folder.read(&format!("report/{name}.csv")).leak().as_bytes());
        let expected: Vec<Vec<String>> = csv
            .records()
            .map(|record| record.unwrap().iter().map(str::to_owned).collect())
            .collect();
        let shown = table.descendants().filter(|node| node.has_tag_name("tr")).skip(1);
        let mut count = 0;
        for (row, expected) in shown.zip(&expected) {
            let mut fields = Vec::new();
            for cell in row.children().filter(|node| node.is_element()) {
                fields.extend(cell.attribute("data-low"));
                match cell.attribute("data-v") {
                    Some(value) => fields.push(value),
                    None => fields.extend(cell.descendants().find_map(|node| node.text()).or(Some(""))),
                }
            }
            let fields: Vec<&str> = fields
                .into_iter()
                .map(|field| if field == "-" { "" } else { field })
                .collect();
            // A range that does not apply has two columns in CSV and one here.
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            let without_empty = |fields: &[&str]| -> Vec<String> {
                fields
                    .iter()
                    .filter(|field| !field.is_empty())
                    .map(|&field| field.to_owned())
                    .collect()
            };
            assert_eq!(without_empty(&fields), without_empty(&expected), "{name}");
            count += 1;
        }
        assert_eq!(count, expected.len().min(600), "{name}");
    }
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|node| node.attribute("id"))
        .collect();
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "names of parts are unique"
    );
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn reports_need_no_study() {
    let folder = folder(SMALL);
    folder.succeed(&["study", "run", "study.toml", "--quiet"]);
    folder.succeed(&["study", "collect", "study.toml", "--output", "rows.jsonl"]);
    let from_study = folder.succeed(&["study", "report", "study.toml"]);
    let from_rows = folder.succeed(&["study", "report", "rows.jsonl", "--study", "study.toml"]);
    assert_eq!(from_study, from_rows);
    assert!(
        folder
            .succeed(&["study", "report", "rows.jsonl"])
            .contains("equal-layers")
    );
    for command in from_study
        .lines()
        .filter_map(|line| line.trim().strip_prefix("stagecut "))
    {
        let args: Vec<&str> = command.split_whitespace().collect();
        folder.succeed(&args);
    }
}

#[test]
fn engines_are_told_what_to_run() {
    let folder = folder(SMALL);
    let submit = |args: &[&str]| {
        let start = ["study", "submit", "study.toml", "--dry-run", "--engine"];
        folder.succeed(&[&start[..], args].concat())
    };
    let slurm = submit(&["slurm", "--parts", "8", "--cores", "2"]);
    assert!(
        slurm.contains("#SBATCH --array=1-8\n") && slurm.contains("--part \"$SLURM_ARRAY_TASK_ID/8\""),
        "{slurm}"
    );
    let absolute = std::fs::canonicalize(folder.path("study.toml")).unwrap();
    assert!(slurm.contains(absolute.to_str().unwrap()), "{slurm}");
    let hyperqueue = submit(&["hyperqueue"]);
    assert!(
        hyperqueue.starts_with("exec '") && hyperqueue.lines().count() == 1 + SMALL_TASKS,
        "{hyperqueue}"
    );
    assert!(submit(&["dask", "--scheduler", "tcp://127.0.0.1:8786"]).contains("client.submit("));
    assert_eq!(
        folder
            .run(&["study", "submit", "study.toml", "--engine", "dask"])
            .code,
        2
    );
    assert!(!Path::new(&folder.path("study.results")).exists());
}

/// A stand-in for HyperQueue that does what its manual says of `submit --each-line`: the command once a line, in `HQ_ENTRY`.
const HQ: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "submit --cpus 1 --each-line" ] || exit 1
lines=$5; shift 6
while read -r line; do HQ_ENTRY="$line" "$@" </dev/null >/dev/null || exit 1; done < "$lines"
"#;

#[test]
#[cfg(unix)]
fn hyperqueue_runs_a_task_a_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(&SMALL.replace("count = 3", "count = 1"));
    folder.write("hq", HQ);
    std::fs::set_permissions(folder.path("hq"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path("").display(), std::env::var("PATH").unwrap());
    let submit = [
        "study",
        "submit",
        "study.toml",
        "--results",
        "remote",
        "--engine",
        "hyperqueue",
    ];
    let submitted = folder.command(&submit).env("PATH", path).status().unwrap();
    assert!(submitted.success());
    folder.succeed(&["study", "run", "study.toml", "--results", "local", "--quiet"]);
    assert_same(
        &timeless(rows(&folder, "remote")),
        &timeless(rows(&folder, "local")),
    );
    assert_eq!(rows(&folder, "remote").len(), 3 * 4 * (2 + 4 * 2));
}

#[test]
fn studies_of_this_repository_can_be_read() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("studies")
        .read_dir()
        .unwrap()
        .flatten();
    let studies: Vec<_> = folders
        .map(|folder| folder.path().join("study.toml"))
        .filter(|path| path.exists())
        .collect();
    assert!(!studies.is_empty());
    for path in studies {
        let study = Study::read(&path).unwrap();
        assert!(study.tasks.len() > 100, "{}", path.display());
    }
}
