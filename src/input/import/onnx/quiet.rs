//! Panics of tract as errors: it asserts on models that it does not expect.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What the message of a panic begins with.
const PANICKED: &str = "tract panicked: ";

/// Whether a reason is that tract panicked, rather than one that it gives.
pub(super) fn is_panic(reason: &str) -> bool {
    reason.contains(PANICKED)
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic becomes an error with its message, and nothing is printed.
///
/// Whatever `work` changes must be dropped after an error: a panic may leave it half done. The hook is installed once
/// and looks at the thread, so that panics of other threads are still reported.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                report(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    outcome.map_err(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("{PANICKED}{}", message.unwrap_or("without a message"))
    })
}
