//! Processes that end while a thread is inside HiGHS: with their own exit code, soon, and with all that they wrote.
//!
//! HiGHS works on one program after the other, as each start needs the static objects that the end destroys. Mostly that goes well:
//! freed memory keeps what it held, and the end is short. So the allocator is asked to write into what is freed, and the end is made
//! longer; then all of these processes crash but for `solver::exit`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use good_lp::{Expression, variable};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::control::Control;
use stagecut::formulations::Program;
use stagecut::solver::solve;

/// Set for the processes that end so.
const ENDS: &str = "STAGECUT_TEST_ENDS";

/// Any code that nothing else ends with.
const CODE: i32 = 41;

const RUNS: usize = 10;

/// Nodes of branch and bound that each program gets, so that many are begun.
const NODES: u64 = 3;

/// What lets a process live on for a moment behind the destructors of its static objects, where the system loads it beforehand.
const SLOW_END: &str =
    "#include <unistd.h>\n__attribute__((destructor)) static void slow(void) { usleep(200000); }\n";

/// What a process may take to end, on a busy machine too.
const MOST: Duration = Duration::from_secs(10);

/// Numbers to be split evenly into two halves, each set of weights at once: the relaxation says nothing, so that it takes long.
fn program(seed: u64) -> Program {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut program = Program::new(1.0);
    let x: Vec<_> = (0..40)
        .map(|i| program.declare(variable().binary().name(format!("x{i}"))))
        .collect();
    let off = program.declare(variable().min(0.0).name("off"));
    for row in 0..4 {
        let weights: Vec<f64> = x.iter().map(|_| f64::from(rng.random_range(1..=99))).collect();
        let half = weights.iter().sum::<f64>() / 2.0;
        let sum = || -> Expression {
            x.iter()
                .zip(&weights)
                .map(|(x, &weight)| x.expression() * weight)
                .sum()
        };
        program.add_row(format!("most[{row}]"), sum(), half + off.expression());
        program.add_row(format!("least[{row}]"), half - off.expression(), sum());
    }
    program.objective = off.expression();
    program
}

/// Runs as a process of its own, which `ENDS` tells.
#[test]
fn ends_inside_highs() {
    if std::env::var_os(ENDS).is_none() {
        return;
    }
    let (sender, running) = mpsc::channel();
    for thread in 0..2 {
        let sender = sender.clone();
        thread::spawn(move || {
            for seed in 0.. {
                let control = Control::default();
                let solved = solve(program(2 * seed + thread), None, Some(NODES), &control, &|_| ());
                solved.expect("HiGHS works");
                // Nobody listens any more after the first time.
                let _ = sender.send(());
            }
        });
    }
    running.recv().expect("HiGHS tells how far it is");
    print!("all that was written");
    std::io::stdout().flush().expect("stdout");
    std::process::exit(CODE);
}

#[test]
fn a_process_ends_while_highs_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow_end = slow_end(folder.path());
    for run in 0..RUNS {
        let started = Instant::now();
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "exit::ends_inside_highs", "--nocapture"])
            .env(ENDS, "1")
            // Of glibc, and nothing to others: what is freed goes back to the heap, where pointers are written over it.
            .env(
                "GLIBC_TUNABLES",
                "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0",
            )
            .envs(slow_end.iter().map(|path| ("LD_PRELOAD", path)))
            .output()
            .expect("this program");
        assert_eq!(output.status.code(), Some(CODE), "run {run}: {output:?}");
        let written = String::from_utf8_lossy(&output.stdout);
        assert!(written.ends_with("all that was written"), "{written}");
        assert!(started.elapsed() < MOST, "{:?}", started.elapsed());
    }
}

/// The library of `SLOW_END`, where there is a C compiler; without it the test sees less.
fn slow_end(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("slow.c"), folder.join("slow.so"));
    std::fs::write(&source, SLOW_END).expect("a folder");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    compiled.is_ok_and(|status| status.success()).then_some(library)
}
