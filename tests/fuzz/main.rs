//! Fuzzing: mutated files of every format through the commands that read them. No input may panic, end the process, take more
//! than [`SOON`], or more memory than [`MEMORY_BYTES`].
//!
//! `cargo test` reads the first [`FEW`] inputs of each format, or as many as a few seconds allow; `make fuzz` as many as the time
//! that it is told:
//!
//! | variable | meaning |
//! |---|---|
//! | `FUZZ_SECONDS` | seconds a format |
//! | `FUZZ_INPUTS` | inputs a format, however long they take |
//! | `FUZZ_FORMATS` | formats, separated by commas; all by default |
//! | `FUZZ_FROM` | number of the first input; input `n` of a format is the same on every machine |
//!
//! What breaks is written to `target/fuzz/`. Once it is mended, it belongs into `tests/corpus/`.
#![cfg(all(unix, feature = "onnx"))]

mod formats;
mod mutate;
mod onnx;
mod worker;

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use formats::{FORMATS, Format};

/// Inputs of a format in a short run: the same in every run, so that it finds what it found before.
const FEW: u64 = 2_000;

/// No input of these sizes may take longer.
const SOON: Duration = Duration::from_secs(2);

/// Memory of an input, beyond what the program has at its start.
const MEMORY_BYTES: u64 = 1 << 30;

/// Without a word from the worker for so long, the input it works on counts as endless.
const ENDLESS: Duration = Duration::from_secs(40);

/// Where broken inputs are kept.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz")
}

/// What came of a format.
#[derive(Default)]
struct Tally {
    inputs: u64,
    accepted: u64,
    broken: Vec<String>,
}

/// Runs workers on a format until its time is over: one that dies is followed by another behind the input that it died of.
fn fuzz(format: &Format, from: u64, most: u64, seconds: f64) -> Tally {
    let folder = tempfile::tempdir_in(memory()).expect("a folder");
    let said = folder.path().join("said");
    let progress = folder.path().join("progress");
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut inputs = from..from.saturating_add(most);
    while started.elapsed().as_secs_f64() < seconds && !inputs.is_empty() {
        std::fs::write(&progress, inputs.start.to_le_bytes()).expect("a file");
        std::fs::write(&said, "").expect("a file");
        let left = seconds - started.elapsed().as_secs_f64();
        let mut worker = worker(format, folder.path(), &inputs, left);
        let status = wait(&mut worker, &progress);
        for line in std::fs::read_to_string(&said).expect("what it said").lines() {
            match line.split_once(' ') {
                Some(("accepted", count)) => tally.accepted += count.parse::<u64>().expect("a number"),
                _ => tally.broken.push(line.to_owned()),
            }
        }
        let reached = reached(&progress).unwrap_or(inputs.start);
        tally.inputs += reached - inputs.start;
        inputs.start = reached;
        if !status.is_some_and(|status| status.success()) {
            let why = status.map_or("it does not end".to_owned(), |status| status.to_string());
            tally.broken.push(format!("{reached} {why}"));
            tally.inputs += 1;
            inputs.start += 1;
            if tally.broken.len() > 100 {
                break;
            }
        }
    }
    tally.broken.iter().for_each(|line| keep(format, line));
    tally
}

/// Starts a worker on some inputs of a format; it says what it finds in files of the folder.
fn worker(format: &Format, folder: &Path, inputs: &Range<u64>, seconds: f64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "worker::works",
            "--ignored",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env("FUZZ_WORKER", format.name)
        .env("FUZZ_FOLDER", folder)
        .env("FUZZ_FROM", inputs.start.to_string())
        .env("FUZZ_SECONDS", seconds.to_string())
        .env("FUZZ_END", inputs.end.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a worker starts")
}

/// How a worker ends; `None` where an input is endless.
fn wait(worker: &mut Child, progress: &Path) -> Option<ExitStatus> {
    let mut last = (reached(progress), Instant::now());
    loop {
        if let Some(status) = worker.try_wait().expect("a child of ours") {
            return Some(status);
        }
        if reached(progress) != last.0 {
            last = (reached(progress), Instant::now());
        } else if last.1.elapsed() > ENDLESS {
            worker.kill().expect("it runs");
            worker.wait().expect("it ends");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of the input that a worker is at.
fn reached(progress: &Path) -> Option<u64> {
    let bytes = std::fs::read(progress).ok()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Keeps the input that a line of a worker tells of.
fn keep(format: &Format, line: &str) {
    let number: u64 = line
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number");
    std::fs::create_dir_all(kept()).expect("a folder");
    let name = format!("{}-{number}-{}", format.name, format.file);
    std::fs::write(kept().join(name), format.input(number)).expect("a file");
}

/// A folder in memory, where there is one: a million files a format would wear a disk.
fn memory() -> &'static str {
    match Path::new("/dev/shm").is_dir() {
        true => "/dev/shm",
        false => "/tmp",
    }
}

#[test]
fn mutated_inputs_of_every_format_do_no_harm() {
    let set = |name: &str| std::env::var(name).ok();
    let seconds = set("FUZZ_SECONDS").map(|text| text.parse::<f64>().expect("seconds"));
    let inputs = set("FUZZ_INPUTS").map(|text| text.parse::<u64>().expect("a number"));
    let (most, seconds) = match (inputs, seconds) {
        (Some(inputs), _) => (inputs, f64::MAX),
        (None, Some(seconds)) => (u64::MAX, seconds),
        (None, None) => (FEW, 3.0),
    };
    let from: u64 = set("FUZZ_FROM").map_or(0, |text| text.parse().expect("a number"));
    let wanted = set("FUZZ_FORMATS");
    let is_wanted = |format: &&Format| {
        wanted
            .as_ref()
            .is_none_or(|names| names.split(',').any(|name| name == format.name))
    };
    let mut broken = String::new();
    for format in FORMATS.iter().filter(is_wanted) {
        let started = Instant::now();
        let tally = fuzz(format, from, most, seconds);
        println!(
            "{:<18} {:>9} inputs, {:>8} accepted, {:>3} broken, {:>6.0} s",
            format.name,
            tally.inputs,
            tally.accepted,
            tally.broken.len(),
            started.elapsed().as_secs_f64()
        );
        assert!(tally.inputs > 0, "{}: nothing was read", format.name);
        for line in tally.broken {
            writeln!(broken, "{}: {line}", format.name).expect("memory");
        }
    }
    assert_eq!(broken, "", "the inputs are in {}", kept().display());
}

#[test]
fn inputs_have_numbers() {
    for format in FORMATS {
        assert_eq!(format.input(7), format.input(7), "{}", format.name);
        let distinct: std::collections::HashSet<Vec<u8>> = (0..200).map(|n| format.input(n)).collect();
        assert!(distinct.len() > 150, "{}: {} of 200", format.name, distinct.len());
    }
}
