//! Searches that are left with what they have shown last.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Running;
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
    let own = shared.clone();
    let detached = control.detached();
    let running = Running::start(move || {
        let control = Control {
            interrupt: &own.0,
            ..detached
        };
        search(&control, &own.1)
    });
    let Ok(running) = running else {
        return Ending::Left(None, StoppedBy::MemoryLimit);
    };
    let ended = running.wait(&shared.0, PATIENCE, &mut |over| match over {
        // An interrupt may follow when the time is up.
        Some(StoppedBy::TimeLimit) if control.is_interrupted() => control.must_stop(),
        None => control.must_stop(),
        over => over,
    });
    match ended {
        (Some(found), _) => Ending::Ended(found),
        (None, over) => {
            let found = shared.1.0.lock().map(|mut latest| latest.take());
            Ending::Left(found.unwrap_or_default(), over.unwrap_or(StoppedBy::Interrupt))
        }
    }
}
