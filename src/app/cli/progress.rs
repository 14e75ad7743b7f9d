//! A line on stderr that shows how far a search has come, and Ctrl-C or SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::settings::Settings;
use crate::problem::control::{Control, Progress};
use crate::problem::switches::Switches;

use super::args::SearchArgs;

/// Set by the first Ctrl-C; the second ends the process, see [`catch_interrupts`].
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A line on stderr that is rewritten in place, at most ten times a second; nothing where stderr is no terminal.
///
/// What does not fit the terminal is cut off at its right edge: a line that wrapped could not be erased. So what matters most
/// comes first.
pub(super) struct StatusLine(ProgressBar);

impl StatusLine {
    /// A line that is shown on a terminal unless `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        const TIMES_A_SECOND: u8 = 10;
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr_with_hz(TIMES_A_SECOND),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows a text of one line.
    pub(super) fn show(&self, text: impl FnOnce() -> String) {
        if !self.0.is_hidden() && !self.0.is_finished() {
            self.0.set_message(text());
        }
    }

    /// Clears the line for good, so that what follows starts on a clean one.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// A search in words.
pub(super) fn of_search(progress: &Progress, settings: &Settings) -> String {
    let bound = format!("bound {:.3} ms", settings.ms(progress.bound_ns));
    match progress.incumbent_ns {
        None => format!("{:.1} s  no plan yet  {bound}", progress.seconds),
        Some(ns) => {
            let gap = ns.saturating_sub(progress.bound_ns) as f64 / ns.max(1) as f64;
            let (seconds, plan) = (progress.seconds, settings.ms(ns));
            let gap = 100.0 * gap;
            format!("{seconds:.1} s  plan {plan:.3} ms  {bound}  gap {gap:.2} %  Ctrl-C keeps the plan")
        }
    }
}

/// A bar of what is done of something.
pub(super) fn bar(done: usize, total: usize) -> String {
    const CELLS: usize = 20;
    let full = (done * CELLS / total.max(1)).min(CELLS);
    format!("{}{}", "━".repeat(full), "─".repeat(CELLS - full))
}

/// The control of a search, as the flags ask for it.
pub(super) fn control<'a>(
    args: &SearchArgs,
    progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
) -> Control<'a> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    // Once a process: a second command in one process, as in tests, keeps the first one's threads.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global();
    Control {
        time_limit: args.time_limit.map(Duration::from_secs_f64),
        memory_bytes: args.memory.map(|bytes| bytes as u64),
        gap: args.gap,
        seed: args.seed,
        switches: Switches::without(args.without.iter().copied()).unwrap_or_default(),
        interrupt: &INTERRUPTED,
        progress,
        ..Control::default()
    }
}

/// Whether Ctrl-C came.
pub(super) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A control without limits that Ctrl-C stops.
pub(super) fn interrupt_control() -> Control<'static> {
    Control {
        interrupt: &INTERRUPTED,
        ..Control::default()
    }
}

/// From now on the first Ctrl-C or SIGTERM asks the search to stop, and the second ends the process, within a moment in which what the first
/// asked for can be written: whoever presses the keys twice loses nothing.
pub(super) fn catch_interrupts() {
    /// What a shell expects of a process that ended by SIGINT.
    const KILLED_BY_INTERRUPT: i32 = 130;
    /// Searches take a fraction of it to end, and their plan to be written, on a busy machine too.
    const MOMENT: Duration = Duration::from_secs(1);
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::thread::sleep(MOMENT);
            std::process::exit(KILLED_BY_INTERRUPT);
        }
    };
    // A handler that is there already, as in a test that runs two commands, serves as well.
    let _ = ctrlc::set_handler(handler);
}
