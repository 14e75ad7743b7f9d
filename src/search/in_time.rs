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

use std::io;
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
    let shared = Arc::new(Shared::default());
    let own = shared.clone();
    let on_thread = problem.clone();
    let detached = control.detached();
    let running = Running::start(move || {
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
        counted(&on_thread, &control, search)
    });
    let running = running.map_err(|error| SolverError {
        doing: "starting a search",
        what: error.to_string(),
    })?;
    let most_bytes = control.memory_bytes.unwrap_or_else(memory::default_limit_bytes);
    let ended = running.wait(&shared.interrupt, MOMENT, &mut |over| {
        shared.forward_progress(control);
        let memory = || memory::is_short(most_bytes).then_some(StoppedBy::MemoryLimit);
        over.or_else(|| control.limit()).or_else(memory)
    });
    match ended {
        // It knows of an interrupt, not of memory.
        (Some(Ok(outcome)), Some(StoppedBy::MemoryLimit)) if outcome.stopped_by == StoppedBy::Interrupt => {
            let stopped_by = StoppedBy::MemoryLimit;
            Ok(Outcome {
                stopped_by,
                ..outcome
            })
        }
        (Some(result), _) => result,
        (None, over) => {
            let stopped_by = over.unwrap_or(StoppedBy::Interrupt);
            Ok(shared.known.outcome(stopped_by, statistics(problem, control)))
        }
    }
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

impl Shared {
    /// Shows what progress the search has noted since the last look.
    fn forward_progress(&self, control: &Control) {
        let noted = self.progress.lock();
        let noted = noted.map(|mut noted| std::mem::take(&mut *noted));
        if let Some(show) = control.progress {
            noted.iter().flatten().for_each(show);
        }
    }
}

/// A search on a thread of its own.
struct Running<R> {
    result: Receiver<R>,
    thread: JoinHandle<()>,
}

impl<R: Send + 'static> Running<R> {
    fn start(search: impl FnOnce() -> R + Send + 'static) -> io::Result<Self> {
        let (sender, result) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("search".into())
            .stack_size(STACK_BYTES);
        // Nobody listens any more to a search that was left.
        let thread = thread.spawn(move || {
            let _ = sender.send(search());
        })?;
        Ok(Self { result, thread })
    }

    /// The result of the search, and why it is over; no result where it was left, some time after that.
    ///
    /// * `patience`: how long it may go on when its time is up. Other limits interrupt it, and leave it a [`MOMENT`];
    /// * `look`: why it is over, if it is, of what it said last; called now and then.
    fn wait(
        self,
        interrupt: &AtomicBool,
        patience: Duration,
        look: &mut dyn FnMut(Option<StoppedBy>) -> Option<StoppedBy>,
    ) -> (Option<R>, Option<StoppedBy>) {
        let (mut over, mut since) = (None, Instant::now());
        loop {
            let result = self.result.recv_timeout(LOOK);
            let now = look(over);
            if now != over {
                (over, since) = (now, Instant::now());
            }
            match result {
                Ok(result) => return (Some(result), over),
                Err(RecvTimeoutError::Disconnected) => match self.thread.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("a search that does not panic sends its result"),
                },
                Err(RecvTimeoutError::Timeout) => {}
            }
            let patience = match over {
                None => continue,
                Some(StoppedBy::TimeLimit) => patience,
                Some(_) => {
                    interrupt.store(true, Ordering::Relaxed);
                    MOMENT
                }
            };
            if since.elapsed() > patience {
                interrupt.store(true, Ordering::Relaxed);
                return (None, over);
            }
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
