//! HiGHS when the process ends.
//!
//! Some threads may still be inside HiGHS then: a search that was left when its time was up (`in_time`), or one on a thread of the
//! caller's that nobody joins. `exit` destroys the static objects of C++ while they run. One of HiGHS's (`HighsExternalApi`) knows
//! whether an optional library is there, and is asked whenever branch and bound sets the solver of a linear program. Once it is
//! destroyed, what it says depends on what lies in freed memory: now and then a process that has done all its work ends by SIGSEGV
//! or SIGABRT.
//!
//! So whoever enters HiGHS is [`Inside`], and the process ends with nobody inside. At exit nobody enters any more, and who is inside
//! is told to stop where HiGHS calls back. It does not call back for seconds where it factorises, cuts or presolves; after
//! [`PATIENCE`] the process ends at once, with its exit code and without destructors. Rust and Python have written what they hold
//! before they call `exit`, and C's files are written here. Only the exit handlers of others that were registered earlier are lost.
//!
//! This stands in the library, not in `main`: a program that plans with it, the Python package, and a test all end in the same way.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use super::c;

/// How long the end of the process waits for HiGHS: nobody notices it who has waited for the end of a time limit.
const PATIENCE: Duration = Duration::from_millis(100);

/// Who is inside HiGHS, and whether anybody may enter.
struct Visitors {
    inside: usize,
    is_ending: bool,
}

static VISITORS: Mutex<Visitors> = Mutex::new(Visitors {
    inside: 0,
    is_ending: false,
});

/// Somebody has left HiGHS.
static LEFT: Condvar = Condvar::new();

/// While it lives, its thread may be inside HiGHS: from before a model is made until after it is dropped.
pub(super) struct Inside(());

impl Inside {
    /// Enters. Where the process ends, this does not return: the thread ends with the process.
    pub(super) fn enter() -> Self {
        static WATCHES: Once = Once::new();
        // What is registered last is called first. So HiGHS makes its static objects, and then the handler comes before their
        // destructors.
        WATCHES.call_once(|| {
            c::make_statics();
            c::at_exit(has_emptied);
        });
        let mut visitors = lock();
        while visitors.is_ending {
            visitors = LEFT.wait(visitors).unwrap_or_else(PoisonError::into_inner);
        }
        visitors.inside += 1;
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        lock().inside -= 1;
        LEFT.notify_all();
    }
}

/// Whether the process ends, and who is inside must leave.
pub(super) fn must_leave() -> bool {
    lock().is_ending
}

/// Lets nobody in, and waits for who is inside. Returns whether all have left.
fn has_emptied() -> bool {
    let mut visitors = lock();
    visitors.is_ending = true;
    let someone = |visitors: &mut Visitors| visitors.inside > 0;
    let waited = LEFT.wait_timeout_while(visitors, PATIENCE, someone);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}

fn lock() -> MutexGuard<'static, Visitors> {
    VISITORS.lock().unwrap_or_else(PoisonError::into_inner)
}
