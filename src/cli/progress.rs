//! A line on stderr that shows how far a search has come, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::exact::control::{Control, Progress};
use crate::units::ns_to_ms;

use super::args::SearchArgs;

/// Set by the first Ctrl-C; the second ends the process.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(100);

/// A progress line; nothing where stderr is no terminal.
pub struct ProgressLine {
    shown: bool,
    last: Mutex<Option<Instant>>,
}

impl ProgressLine {
    /// A line that is shown on a terminal unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self {
            shown: !quiet && std::io::stderr().is_terminal(),
            last: Mutex::new(None),
        }
    }

    /// Shows progress, at most ten times a second.
    pub fn show(&self, progress: &Progress) {
        let Ok(mut last) = self.last.lock() else {
            return;
        };
        if !self.shown || last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{}", line(progress));
        let _ = stderr.flush();
    }

    /// Shows how much of something is done, at most ten times a second, with a bar.
    pub fn show_share(&self, done: usize, total: usize, what: &str) {
        const CELLS: usize = 24;
        let Ok(mut last) = self.last.lock() else {
            return;
        };
        if !self.shown || last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let full = done * CELLS / total.max(1);
        let bar = format!("{}{}", "#".repeat(full), ".".repeat(CELLS - full.min(CELLS)));
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K[{bar}] {done}/{total}  {what}");
        let _ = stderr.flush();
    }

    /// Clears the line, so that what follows starts on a clean one.
    pub fn clear(&self) {
        if self.shown {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K");
            let _ = stderr.flush();
        }
    }
}

fn line(progress: &Progress) -> String {
    let bound = format!("bound {:.3} ms", ns_to_ms(progress.bound_ns));
    match progress.incumbent_ns {
        None => format!("{:7.1} s  no plan yet  {bound}", progress.seconds),
        Some(ns) => {
            let gap = ns.saturating_sub(progress.bound_ns) as f64 / ns.max(1) as f64;
            let incumbent = ns_to_ms(ns);
            format!(
                "{:7.1} s  incumbent {incumbent:.3} ms  {bound}  gap {:.2} %  (Ctrl-C keeps the best plan)",
                progress.seconds,
                100.0 * gap
            )
        }
    }
}

/// The control of a search, as the flags ask for it.
pub fn control<'a>(args: &SearchArgs, progress: Option<&'a (dyn Fn(&Progress) + Sync)>) -> Control<'a> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    // Once a process: a second command in one process, as in tests, keeps the first one's threads.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global();
    Control {
        time_limit: args.time_limit.map(Duration::from_secs_f64),
        gap: args.gap,
        seed: args.seed,
        interrupt: &INTERRUPTED,
        progress,
        ..Control::default()
    }
}

/// Whether Ctrl-C came.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A control without limits that Ctrl-C stops.
pub fn interrupt_control() -> Control<'static> {
    Control {
        interrupt: &INTERRUPTED,
        ..Control::default()
    }
}

/// From now on the first Ctrl-C asks the search to stop, and the second ends the process.
pub fn catch_interrupts() {
    /// What a shell expects of a process that ended by SIGINT.
    const KILLED_BY_INTERRUPT: i32 = 130;
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(KILLED_BY_INTERRUPT);
        }
    };
    // A handler that is there already, as in a test that runs two commands, serves as well.
    let _ = ctrlc::set_handler(handler);
}
