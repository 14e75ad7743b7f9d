//! The process of a command: asked, timed, limited and ended.

use std::io::{self, Read, Write};
use std::path::Path;
#[cfg(not(unix))]
use std::process::Command;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::app::study::pool::{ended_by, tells_of_memory};
use crate::app::study::row::RowStatus;
use crate::app::study::task::Outside;
use crate::input::program;

/// What became of a command.
pub(super) struct Ran {
    /// How it ended; `None` where it was ended for its time.
    ending: Option<ExitStatus>,
    /// Its answer.
    pub(super) stdout: Vec<u8>,
    /// The last that it said.
    pub(super) stderr: String,
    /// Its own time, with its start where it read nothing.
    pub(super) seconds: f64,
    /// Its start; absent where it read nothing.
    pub(super) startup_seconds: Option<f64>,
}

/// Bytes of an answer beyond which it is none: a plan of a million layers has less.
const MOST_ANSWERED: u64 = 256 << 20;
/// Bytes of stderr that are kept.
const MOST_SAID: usize = 2_000;
/// How often the start is looked at; what it is measured to.
const LOOK: Duration = Duration::from_micros(200);
/// How often the end is looked at.
const LOOK_FOR_END: Duration = Duration::from_millis(20);
/// How long stdout may stay open once the command has ended: processes that it left behind may hold it.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long the supervisor may take to end what it supervises.
const PATIENCE: Duration = Duration::from_secs(3);

impl Ran {
    /// Why there is no answer, if there is none.
    pub(super) fn failure(&self, allowed: Duration) -> Option<(RowStatus, String)> {
        let Some(ending) = self.ending else {
            return Some((
                RowStatus::OverLimit,
                format!("ended after {} s", allowed.as_secs_f64()),
            ));
        };
        if self.stdout.len() as u64 > MOST_ANSWERED {
            return Some((
                RowStatus::Crashed,
                format!("more than {MOST_ANSWERED} bytes of answer"),
            ));
        }
        let status = match tells_of_memory(&self.stderr) {
            true => RowStatus::OutOfMemory,
            false => RowStatus::Crashed,
        };
        (!ending.success()).then(|| (status, ended_by(ending)))
    }
}

/// Runs a command to its end, or to its limit.
pub(super) fn run(outside: &Outside, base: &Path, question: String, allowed: Duration) -> io::Result<Ran> {
    let mut command = program::command()?;
    command
        .args(["study", "outside", "--worker"])
        .arg(std::process::id().to_string())
        .arg("--")
        .args(&outside.command)
        .current_dir(base)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Signals of a terminal are for the study; and what the command starts is found by the group.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let started = Instant::now();
    let mut running = Running {
        child: command.spawn()?,
        started,
        allowed,
    };
    let taken = "a pipe was asked for";
    let stdin = running.child.stdin.take().expect(taken);
    let answer = gather(running.child.stdout.take().expect(taken));
    let said = overheard(running.child.stderr.take().expect(taken));
    let begun = running.ask(stdin, question)?;
    let (ending, answered) = running.end(&answer);
    drop(running);
    // The other thread may not have read the last of it yet.
    thread::sleep(Duration::from_millis(5));
    let said = said.lock().map(|said| said.clone()).unwrap_or_default();
    let (stdout, closed) = answered.unwrap_or_else(|| (Vec::new(), Instant::now()));
    let between = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
    Ok(Ran {
        ending,
        stdout,
        stderr: String::from_utf8_lossy(&said).trim().to_owned(),
        seconds: between(begun.unwrap_or(started), closed),
        startup_seconds: begun.map(|begun| between(started, begun)),
    })
}

/// A command that runs.
struct Running {
    child: Child,
    started: Instant,
    allowed: Duration,
}

/// What was written to stdout, and when it was closed.
type Answered = (Vec<u8>, Instant);

impl Running {
    fn is_over(&self) -> bool {
        self.started.elapsed() >= self.allowed
    }

    /// Sends the question; returns when the command began to read it, if it did.
    fn ask(&mut self, mut stdin: ChildStdin, question: String) -> io::Result<Option<Instant>> {
        if stdin.write_all(&question.as_bytes()[..1]).is_err() {
            return Ok(None);
        }
        while is_unread(&stdin)? {
            if self.is_over() || self.child.try_wait()?.is_some() {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
        let begun = Instant::now();
        thread::spawn(move || {
            // A command that does not read it all may still answer.
            let _ = stdin.write_all(&question.as_bytes()[1..]);
        });
        Ok(Some(begun))
    }

    /// Waits for the end; nothing of it where the time is up.
    fn end(&mut self, answer: &Receiver<Answered>) -> (Option<ExitStatus>, Option<Answered>) {
        let mut answered = None;
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            if answered.is_none() {
                match answer.recv_timeout(LOOK_FOR_END) {
                    Ok(whole) => answered = Some(whole),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return (ended.map(|ended| ended.0), None),
                }
            } else {
                thread::sleep(LOOK);
            }
            if ended.is_none()
                && let Ok(Some(status)) = self.child.try_wait()
            {
                ended = Some((status, Instant::now()));
            }
            match (ended, &answered) {
                (Some((status, _)), Some(_)) => return (Some(status), answered),
                (Some((_, at)), None) if at.elapsed() >= LAST_WORDS => self.kill(),
                (None, _) if self.is_over() => return (None, answered),
                _ => {}
            }
        }
    }

    /// Ends the command and whatever it started: asks the supervisor to, and ends what is left of its group.
    fn kill(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process, kill_process_group};
            let supervisor = Pid::from_child(&self.child);
            if let Ok(None) = self.child.try_wait() {
                let _ = kill_process(supervisor, Signal::TERM);
                let asked = Instant::now();
                while asked.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
                    thread::sleep(LOOK);
                }
            }
            let _ = kill_process_group(supervisor, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether something that was sent waits to be read.
#[cfg(unix)]
fn is_unread(stdin: &ChildStdin) -> io::Result<bool> {
    Ok(rustix::io::ioctl_fionread(stdin)? > 0)
}

/// A system that does not tell counts start-up as time of the command.
#[cfg(not(unix))]
fn is_unread(_: &ChildStdin) -> io::Result<bool> {
    Ok(false)
}

/// All that is written to stdout, and when it was closed.
fn gather(stdout: ChildStdout) -> Receiver<Answered> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = stdout.take(MOST_ANSWERED + 1).read_to_end(&mut all);
        let _ = sender.send((all, Instant::now()));
    });
    receiver
}

/// The last that is written to stderr.
pub(in crate::app::study) fn overheard(mut stderr: ChildStderr) -> Arc<Mutex<Vec<u8>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut buffer) {
            if let Ok(mut said) = heard.lock() {
                said.extend_from_slice(&buffer[..read]);
                let beyond = said.len().saturating_sub(MOST_SAID);
                said.drain(..beyond);
            }
        }
    });
    said
}

/// Runs a command: elsewhere nobody stands between it and its worker, which ends it when its time is up.
///
/// # Errors
///
/// Where the program cannot be run, or fails.
#[cfg(not(unix))]
pub(crate) fn become_command(_: i32, command: &[String]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("no program is named");
    };
    match Command::new(program).args(arguments).status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
