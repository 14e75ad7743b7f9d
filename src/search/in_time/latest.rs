//! Searches that are left with what they have shown last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{LOOK, MOMENT, STACK_BYTES};
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// What a search may take beyond its time limit to end by itself: some of its first steps are bounded in work, not in time.
const PATIENCE: Duration = Duration::from_millis(700);

/// The best that a search has found so far.
pub(crate) struct Latest<T>(Mutex<Option<T>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Latest<T> {
    /// Shows something better.
    pub(crate) fn show(&self, found: T) {
        if let Ok(mut latest) = self.0.lock() {
            *latest = Some(found);
        }
    }
}

/// How a search ended.
pub(crate) enum Ending<R, T> {
    /// By itself.
    Ended(R),
    /// It was left with what it had shown last.
    Left(Option<T>, StoppedBy),
}

/// Runs a search as long as `control` allows and a moment more, and leaves it then.
///
/// # Panics
///
/// Where the search does.
pub(crate) fn latest<R, T, S>(control: &Control, search: S) -> Ending<R, T>
where
    R: Send + 'static,
    T: Send + 'static,
    S: FnOnce(&Control, &Latest<T>) -> R + Send + 'static,
{
    if rayon::current_thread_index().is_some() {
        return Ending::Ended(search(control, &Latest::default()));
    }
    let shared = Arc::new((AtomicBool::new(false), Latest::default()));
    let (sender, result) = mpsc::channel();
    let own = shared.clone();
    let detached = control.detached();
    let body = move || {
        let control = Control {
            interrupt: &own.0,
            ..detached
        };
        // Nobody listens any more to a search that was left.
        let _ = sender.send(search(&control, &own.1));
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
    let Ok(thread) = thread else {
        return Ending::Left(None, StoppedBy::MemoryLimit);
    };
    let mut over: Option<(StoppedBy, Instant)> = None;
    loop {
        match result.recv_timeout(LOOK) {
            Ok(found) => return Ending::Ended(found),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a search that does not panic sends its result"),
            },
        }
        // An interrupt may follow when the time is up.
        if over.is_none_or(|(why, _)| why == StoppedBy::TimeLimit && control.is_interrupted()) {
            over = control.must_stop().map(|why| (why, Instant::now()));
        }
        let Some((stopped_by, since)) = over else {
            continue;
        };
        let patience = match stopped_by {
            StoppedBy::TimeLimit => PATIENCE,
            _ => {
                shared.0.store(true, Ordering::Relaxed);
                MOMENT
            }
        };
        if since.elapsed() > patience {
            shared.0.store(true, Ordering::Relaxed);
            let found = shared.1.0.lock().map(|mut latest| latest.take());
            return Ending::Left(found.unwrap_or_default(), stopped_by);
        }
    }
}
