//! The process between a worker and a command from outside: whatever the command started is ended with it, and it is ended
//! with its study, however that ends.
//!
//! ```text
//! study run --> worker --> supervisor --> command --> what it starts
//! ```
//!
//! A worker may be killed at any moment, and then the system tells the supervisor, see [`super::super::parent`]; the worker tells
//! it where the time is up. What the command starts may leave its process group and outlive whoever started it. On Linux such
//! processes fall to the supervisor, which is their subreaper, and it ends them generation by generation. Elsewhere it ends
//! its process group, which is also the command's.

use std::fs::File;
use std::io;
use std::process::{Command, exit};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use rustix::process::{getpid, kill_process, setrlimit, wait};

use super::process::LAST_WORDS;
use crate::app::study::parent::hear_of_the_end;

/// Held while processes are started and ended, so that none is started after the last was ended.
static PROCESSES: Mutex<()> = Mutex::new(());

/// How often a wait looks whether processes are gone.
const LOOK: Duration = Duration::from_millis(2);

/// Runs a command, passes on how it ended, and ends with it.
///
/// `worker` is the process that started this one. stdin, stdout and stderr are the command's.
///
/// # Errors
///
/// Where the program cannot be run.
pub(crate) fn become_command(worker: i32, command: &[String]) -> io::Error {
    match supervised(worker, command) {
        Ok(status) => end_like(status),
        Err(error) => error,
    }
}

fn supervised(worker: i32, command: &[String]) -> io::Result<WaitStatus> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("no program is named"));
    };
    ctrlc::set_handler(end).map_err(io::Error::other)?;
    become_heir();
    hear_of_the_end(worker, end);
    let child = {
        let _held = PROCESSES.lock();
        Command::new(program).args(arguments).spawn()?
    };
    let pid = Pid::from_child(&child);
    close_pipes()?;
    let status = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => break status,
            // Another process that fell to this one.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let ended = Instant::now();
    while ended.elapsed() < LAST_WORDS && has_children() {
        thread::sleep(LOOK);
    }
    let _held = PROCESSES.lock();
    end_children();
    Ok(status)
}

/// Ends the command, whatever it started, and this process: its worker is gone, or does not want it any longer.
fn end() {
    /// What a shell expects of a process that was ended by SIGTERM.
    const TERMINATED: i32 = 143;
    let _held = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    end_children();
    end_group();
    exit(TERMINATED);
}

/// The pipes are the command's: they are closed when it closes them.
fn close_pipes() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// Ends this process as another one ended.
fn end_like(status: WaitStatus) -> ! {
    /// Signals whose handler is [`end`]: shells say by this code that one of them ended a process.
    const HANDLED: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
    const BY_SIGNAL: i32 = 128;
    if let Some(code) = status.exit_status() {
        exit(code);
    }
    let raw = status.terminating_signal().unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(raw).filter(|signal| !HANDLED.contains(signal)) {
        let nothing = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        // The command has left its memory already, if it was to.
        let _ = setrlimit(Resource::Core, nothing);
        // The first may meet a handler that looks for overflows of the stack and then lets the next one pass.
        for _ in 0..2 {
            let _ = kill_process(getpid(), signal);
            thread::sleep(LOOK);
        }
    }
    exit(BY_SIGNAL + raw)
}

/// From now on processes whose parent ends below this one become children of it.
#[cfg(target_os = "linux")]
fn become_heir() {
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

#[cfg(not(target_os = "linux"))]
fn become_heir() {}

/// Whether a child runs; those that ended are forgotten.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Ends all children, and the children that they leave, until there are none or it takes too long.
#[cfg(target_os = "linux")]
fn end_children() {
    /// A process that waits for a disk is not ended before it has it.
    const PATIENCE: Duration = Duration::from_secs(2);
    let started = Instant::now();
    while has_children() && started.elapsed() < PATIENCE {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        thread::sleep(LOOK);
    }
}

/// The worker ends the group when this process is gone, see `Running::kill`.
#[cfg(not(target_os = "linux"))]
fn end_children() {}

#[cfg(target_os = "linux")]
fn end_group() {}

#[cfg(not(target_os = "linux"))]
fn end_group() {
    let _ = rustix::process::kill_current_process_group(Signal::KILL);
}

/// Processes whose parent this one is.
#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_pid().to_string();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name of a program, in brackets, may hold anything; state and parent come behind it.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind.split_whitespace().nth(1) == Some(&own)
    };
    pids.filter(is_child).filter_map(Pid::from_raw).collect()
}
