//! `kill -9` at fifty moments drawn at random: no half-written file is ever taken for a whole one, and what goes on afterwards ends
//! where an unbroken run does.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::command::Folder;
use crate::common::study::{SMALL, SMALL_TASKS, assert_same, folder, rows, timeless};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Starts a command and kills it after a while; true if it had not ended by itself.
fn killed(folder: &Folder, args: &[&str], after: Duration) -> bool {
    let mut child = folder
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(after);
    let is_running = child.try_wait().expect("a child of ours").is_none();
    child.kill().expect("it runs or has ended");
    child.wait().expect("it ends");
    is_running
}

/// Moments up to a little behind the end of a run.
fn moments(seed: u64, count: usize, run: Duration) -> impl Iterator<Item = Duration> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(move |_| run.mul_f64(rng.random_range(0.0..1.1)))
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

#[test]
fn an_output_is_whole_or_not_there_at_seventeen_kills() {
    let folder = Folder::new();
    folder.succeed(&["generate", "random", "--layers", "4000", "--output", "net.json"]);
    let args = |format: &'static str, output: &'static str| {
        [
            "solve",
            "net.json",
            "--stages",
            "4",
            "--method",
            "equal-layers",
            "--quiet",
            "--reproducible",
            "--format",
            format,
            "--output",
            output,
        ]
    };
    let mut interrupted = 0;
    for (seed, format, output) in [(1, "json", "plan.json"), (2, "csv", "plan.csv")] {
        let args = args(format, output);
        let run = timed(|| drop(folder.succeed(&args)));
        let whole = folder.read(output);
        assert!(whole.len() > 40_000, "{} bytes", whole.len());
        for (at, after) in moments(seed, if seed == 1 { 9 } else { 8 }, run).enumerate() {
            // By turns nothing and an older result lies there before.
            let older = (at % 2 == 1).then_some("an older result");
            match older {
                Some(text) => drop(folder.write(output, text)),
                None => std::fs::remove_file(folder.path(output)).expect("the last result"),
            }
            interrupted += usize::from(killed(&folder, &args, after));
            let found = std::fs::read_to_string(folder.path(output)).ok();
            let is_older = found.as_deref() == older;
            assert!(
                is_older || found.as_deref() == Some(&whole),
                "half a result after {after:?}"
            );
            folder.succeed(&args);
            assert!(folder.read(output) == whole, "another result after {after:?}");
        }
    }
    assert!(interrupted >= 8, "only {interrupted} of 17 were killed");
}

#[test]
fn a_study_killed_sixteen_times_has_the_results_of_an_unbroken_one() {
    let folder = folder(SMALL);
    let run = |results: &'static str| {
        [
            "study",
            "run",
            "study.toml",
            "--results",
            results,
            "--jobs",
            "2",
            "--quiet",
        ]
    };
    let whole = timed(|| drop(folder.succeed(&run("unbroken"))));
    let unbroken = timeless(rows(&folder, "unbroken"));
    assert_eq!(unbroken.len(), SMALL_TASKS);
    let mut interrupted = 0;
    // Each goes on where the last was killed, so that an eighth of a run is what one may last.
    for after in moments(3, 16, whole / 8) {
        interrupted += usize::from(killed(&folder, &run("broken"), after));
        // Killed before it began, it has left nothing.
        if !folder.path("broken").exists() {
            continue;
        }
        let kept = timeless(rows(&folder, "broken"));
        let strange: Vec<&String> = kept.difference(&unbroken).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
    assert!(interrupted >= 8, "only {interrupted} of 16 were killed");
    folder.succeed(&run("broken"));
    assert_same(&timeless(rows(&folder, "broken")), &unbroken);
}

#[test]
fn an_online_run_killed_seventeen_times_has_the_lines_of_an_unbroken_one() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/online/stragglers.toml");
    let args = [
        "online",
        scenario,
        "--slots",
        "300",
        "--policies",
        "tentative,exact,static",
        "--quiet",
    ];
    let folder = Folder::new();
    let run = timed(|| drop(folder.succeed(&[&args[..], &["--output", "whole.jsonl"]].concat())));
    let whole = folder.read("whole.jsonl");
    let resumed = [&args[..], &["--output", "run.jsonl", "--resume"]].concat();
    let mut interrupted = 0;
    for after in moments(4, 17, run / 8) {
        interrupted += usize::from(killed(&folder, &resumed, after));
        let kept = std::fs::read_to_string(folder.path("run.jsonl")).unwrap_or_default();
        assert!(
            whole.starts_with(&kept),
            "lines that no unbroken run writes, after {after:?}"
        );
    }
    assert!(interrupted >= 8, "only {interrupted} of 17 were killed");
    folder.succeed(&resumed);
    assert!(
        folder.read("run.jsonl") == whole,
        "another run than the unbroken one"
    );
}
