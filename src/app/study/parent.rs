//! What a process of a study does when the one that started it ends, in whatever way: a worker with its study, a
//! [supervisor](super::outside) with its worker.
//!
//! Linux sends a signal of one's choice to the children of a process that ends. Elsewhere a process whose parent is gone is
//! given another one, and looks now and then whether it has.

/// From now on this process ends at once where its parent does: nobody would use what it finds.
#[cfg(target_os = "linux")]
pub(crate) fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without it a killed study leaves workers that end with their task, at a closed pipe.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// See above.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn end_with_parent() {
    if let Some(parent) = rustix::process::getppid() {
        watch(parent.as_raw_pid(), || std::process::exit(KILLED));
    }
}

#[cfg(not(unix))]
pub(crate) fn end_with_parent() {}

/// From now on this process gets SIGTERM where its parent ends; `is_gone` is called where that has happened already.
#[cfg(target_os = "linux")]
pub(crate) fn hear_of_the_end(parent: i32, is_gone: fn()) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid().map(|pid| pid.as_raw_pid()) != Some(parent) {
        is_gone();
    }
}

/// From now on `is_gone` is called where this process's parent ends.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn hear_of_the_end(parent: i32, is_gone: fn()) {
    watch(parent, is_gone);
}

/// What a shell expects of a process that was ended by SIGKILL.
#[cfg(all(unix, not(target_os = "linux")))]
const KILLED: i32 = 137;

/// Calls `is_gone` once this process has another parent.
#[cfg(all(unix, not(target_os = "linux")))]
fn watch(parent: i32, is_gone: fn()) {
    const LOOK: std::time::Duration = std::time::Duration::from_millis(100);
    std::thread::spawn(move || {
        while rustix::process::getppid().map(|pid| pid.as_raw_pid()) == Some(parent) {
            std::thread::sleep(LOOK);
        }
        is_gone();
    });
}
