//! The process that reads inputs, one after the other, until its time is over or one of them ends it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{CommandFactory, FromArgMatches};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stagecut::cli::{Cli, run};

use super::formats::{self, Format};
use super::{MEMORY_BYTES, SOON};

/// Where the last panic was, and what it said.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// The worker, which only [`super::fuzz`] starts.
#[test]
#[ignore = "a part of the other test, in a process of its own"]
fn works() {
    let set = |name: &str| std::env::var(name);
    let Ok(name) = set("FUZZ_WORKER") else { return };
    let folder = PathBuf::from(set("FUZZ_FOLDER").expect("a folder"));
    let from: u64 = set("FUZZ_FROM").expect("a number").parse().expect("a number");
    let seconds: f64 = set("FUZZ_SECONDS").expect("seconds").parse().expect("seconds");
    let end: u64 = set("FUZZ_END").expect("a number").parse().expect("a number");
    let format = formats::find(&name).expect("a format");
    let mut said = File::options()
        .append(true)
        .open(folder.join("said"))
        .expect("a file");
    let progress = File::options()
        .write(true)
        .open(folder.join("progress"))
        .expect("a file");
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = PANIC.lock() {
            *last = panic.to_string().replace('\n', " ");
        }
    }));
    stagecut::program::is(vec![env!("CARGO_BIN_EXE_stagecut").into()]);
    std::env::set_current_dir(&folder).expect("a folder");
    for (name, contents) in format.companions {
        std::fs::write(name, contents).expect("a file");
    }
    let mut command = Cli::command();
    limit_memory();
    let started = Instant::now();
    let (mut number, mut accepted) = (from, 0_u64);
    while started.elapsed().as_secs_f64() < seconds && number < end {
        progress.write_at(&number.to_le_bytes(), 0).expect("a file");
        let (is_accepted, elapsed) = one(&mut command, format, number);
        let why = match (is_accepted, elapsed > SOON) {
            (None, _) => panicked(),
            // A busy machine may be slow; the input is if it is so twice.
            (_, true) if one(&mut command, format, number).1 > SOON => {
                format!("{:.1} s", elapsed.as_secs_f64())
            }
            _ => String::new(),
        };
        if !why.is_empty() {
            writeln!(said, "{number} {why}").expect("a file");
        }
        accepted += u64::from(is_accepted == Some(true));
        number += 1;
    }
    progress.write_at(&number.to_le_bytes(), 0).expect("a file");
    writeln!(said, "accepted {accepted}").expect("a file");
}

fn panicked() -> String {
    PANIC.lock().map(|last| last.clone()).unwrap_or_default()
}

/// Reads an input: whether it was accepted, nothing if there was a panic; and how long it took.
fn one(command: &mut clap::Command, format: &Format, number: u64) -> (Option<bool>, Duration) {
    std::fs::write(format.file, format.input(number)).expect("a file");
    let args = format.commands[(number % format.commands.len() as u64) as usize];
    let started = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| read(command, args)));
    (ended.ok(), started.elapsed())
}

/// Runs a command as the program does, messages rendered; true if it has no complaint.
fn read(command: &mut clap::Command, args: &[&str]) -> bool {
    // Heuristics end by themselves, but where nothing fits the least memory that would do is searched for.
    let is_unlimited = args[0] == "solve" && !args.contains(&"--time-limit");
    let limit: &[&str] = if is_unlimited { &["--time-limit", "1"] } else { &[] };
    let args = ["stagecut"].iter().chain(args).chain(limit);
    let matches = command.try_get_matches_from_mut(args).expect("a command of ours");
    match run(Cli::from_arg_matches(&matches).expect("a command of ours")) {
        Ok(_) => true,
        Err(error) => {
            error.print();
            false
        }
    }
}

/// From now on, allocations beyond the limit end the process.
fn limit_memory() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split(' ')
        .next()
        .and_then(|pages| pages.parse::<u64>().ok());
    let now = pages.unwrap_or(0) * 4096;
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    let current = Some(now + MEMORY_BYTES);
    setrlimit(Resource::As, Rlimit { current, maximum }).expect("a limit");
}
