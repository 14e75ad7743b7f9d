//! Searches that nobody waits for longer than they may take.
//!
//! Searches look at the clock in their loops, but what they call does not always: HiGHS factorises, cuts and presolves for
//! seconds, and a program of a million rows takes as long to build. So a search runs on a thread of its own and shows what it
//! [knows](Known). When its time is up, it has a moment to end by itself; then whoever waits takes the plan and the bound that
//! it has shown last, and leaves it. A search that is left ends at its next look at the clock, or with the process
//! (`solver::exit`).
//!
//! On a thread of rayon's pool a search runs where it is asked for: it may need the pool itself, and workers that wait for
//! it would leave it none.

mod latest;

pub(crate) use latest::{Ending, Latest, latest};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::formulations::solver::SolverError;
use crate::problem::Problem;
use crate::problem::control::{Control, Known, Progress};
use crate::problem::memory;
use crate::problem::plan::{Outcome, Statistics, StoppedBy};

/// The moment: what most searches need to put their plan together, on a busy machine too.
const MOMENT: Duration = Duration::from_millis(200);

/// How often the clock and interrupts are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// Stack of a search: what a process has by default.
const STACK_BYTES: usize = 8 << 20;

/// What a search and whoever waits for it share.
#[derive(Default)]
struct Shared {
    interrupt: AtomicBool,
    known: Known,
    progress: Mutex<Vec<Progress>>,
}

/// Runs a search of a problem, as long as `control` allows and a moment more.
///
/// # Errors
///
/// Those of the search.
///
/// # Panics
///
/// Where the search does.
pub(crate) fn run<S>(problem: &Problem, control: &Control, search: S) -> Result<Outcome, SolverError>
where
    S: FnOnce(&Problem, &Control) -> Result<Outcome, SolverError> + Send + 'static,
{
    if rayon::current_thread_index().is_some() {
        return counted(problem, control, search);
    }
    Running::start(problem, control, search)?.wait(problem, control)
}

/// Runs a search, and counts how often it looks at the clock.
fn counted<S>(problem: &Problem, control: &Control, search: S) -> Result<Outcome, SolverError>
where
    S: FnOnce(&Problem, &Control) -> Result<Outcome, SolverError>,
{
    let looks = AtomicU64::new(0);
    let control = Control {
        looks: Some(&looks),
        ..control.clone()
    };
    let mut outcome = search(problem, &control)?;
    outcome.statistics.looks = looks.load(Ordering::Relaxed);
    Ok(outcome)
}

/// A search on a thread of its own.
struct Running {
    shared: Arc<Shared>,
    result: Receiver<Result<Outcome, SolverError>>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start<S>(problem: &Problem, control: &Control, search: S) -> Result<Self, SolverError>
    where
        S: FnOnce(&Problem, &Control) -> Result<Outcome, SolverError> + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let (sender, result) = mpsc::channel();
        let own = shared.clone();
        let on_thread = problem.clone();
        let detached = control.detached();
        let body = move || {
            let note = |progress: &Progress| {
                if let Ok(mut noted) = own.progress.lock() {
                    noted.push(*progress);
                }
            };
            let control = Control {
                interrupt: &own.interrupt,
                progress: Some(&note),
                known: Some(&own.known),
                ..detached
            };
            // Nobody listens any more to a search that was left.
            let _ = sender.send(counted(&on_thread, &control, search));
        };
        let thread = thread::Builder::new()
            .name("search".into())
            .stack_size(STACK_BYTES);
        let thread = thread.spawn(body).map_err(|error| SolverError {
            doing: "starting a search",
            what: error.to_string(),
        })?;
        Ok(Self {
            shared,
            result,
            thread,
        })
    }

    /// The result of the search; when its time or memory is up, and a moment has passed, what it has shown.
    fn wait(self, problem: &Problem, control: &Control) -> Result<Outcome, SolverError> {
        let most_bytes = control.memory_bytes.unwrap_or_else(memory::default_limit_bytes);
        let mut over: Option<(StoppedBy, Instant)> = None;
        loop {
            let result = self.result.recv_timeout(LOOK);
            self.forward_progress(control);
            if over.is_none() {
                let memory = || memory::is_short(most_bytes).then_some(StoppedBy::MemoryLimit);
                over = control.limit().or_else(memory).map(|why| (why, Instant::now()));
            }
            match (result, over) {
                // It knows of an interrupt, not of memory.
                (Ok(Ok(outcome)), Some((StoppedBy::MemoryLimit, _)))
                    if outcome.stopped_by == StoppedBy::Interrupt =>
                {
                    let stopped_by = StoppedBy::MemoryLimit;
                    return Ok(Outcome {
                        stopped_by,
                        ..outcome
                    });
                }
                (Ok(result), _) => return result,
                (Err(RecvTimeoutError::Disconnected), _) => match self.thread.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("a search that does not panic sends its result"),
                },
                (Err(RecvTimeoutError::Timeout), None) => {}
                (Err(RecvTimeoutError::Timeout), Some((stopped_by, since))) => {
                    if stopped_by != StoppedBy::TimeLimit {
                        self.shared.interrupt.store(true, Ordering::Relaxed);
                    }
                    if since.elapsed() > MOMENT {
                        return Ok(self
                            .shared
                            .known
                            .outcome(stopped_by, statistics(problem, control)));
                    }
                }
            }
        }
    }

    /// Shows what progress the search has noted since the last look.
    fn forward_progress(&self, control: &Control) {
        let noted = self.shared.progress.lock();
        let noted = noted.map(|mut noted| std::mem::take(&mut *noted));
        if let Some(show) = control.progress {
            noted.iter().flatten().for_each(show);
        }
    }
}

/// What is known of a search that was left.
fn statistics(problem: &Problem, control: &Control) -> Statistics {
    Statistics {
        seconds: control.seconds(),
        items: problem.items.len(),
        items_after_presolve: problem.items.len(),
        ..Statistics::default()
    }
}
