//! A worker process as the study that drives it sees it.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::outside::overheard;
use super::row::{Row, RowStatus};
use super::task::{Task, json};
use crate::input::import;
use crate::input::program;

/// How workers are started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The folder that paths of tasks are relative to.
    pub base: PathBuf,
    /// The folder of results.
    pub results: PathBuf,
    /// Whether instances may name files outside of their folders.
    trusts: bool,
}

impl Launch {
    /// For a study in a folder.
    pub(crate) fn new(base: &Path, results: &Path) -> Self {
        Self {
            base: base.to_owned(),
            results: results.to_owned(),
            trusts: import::is_trusting(),
        }
    }
}

/// What became of a task.
pub(crate) enum Answer {
    /// The worker kept this row.
    Done(Box<Row>),
    /// The worker cannot do its work at all: nothing is to blame but its surroundings.
    Unable(String),
    /// The worker died, or was ended, and this is why.
    Died(RowStatus, String),
    /// The study was told to stop.
    Stopped,
}

/// A running worker.
pub(crate) struct Worker {
    child: Child,
    stdin: ChildStdin,
    rows: Receiver<String>,
    /// The last that it wrote to stderr.
    said: Arc<Mutex<Vec<u8>>>,
}

/// How often a wait looks whether the study was told to stop.
const LOOK: Duration = Duration::from_millis(50);

impl Worker {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// Where the program cannot be started.
    pub(crate) fn start(launch: &Launch) -> io::Result<Self> {
        let mut command = program::command()?;
        command
            .args(["study", "worker", "--base"])
            .arg(&launch.base)
            .arg("--results")
            .arg(&launch.results)
            .args(launch.trusts.then_some("--outside-files"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C is for the study, which then ends its workers.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let taken = "a pipe was asked for";
        let stdin = child.stdin.take().expect(taken);
        let stdout = child.stdout.take().expect(taken);
        let stderr = child.stderr.take().expect(taken);
        let (sender, rows) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).count()
        });
        let said = overheard(stderr);
        Ok(Self {
            child,
            stdin,
            rows,
            said,
        })
    }

    /// Runs a task to its end, or to its limit and grace. After any answer but a row the worker is gone.
    pub(crate) fn run(&mut self, task: &Task, stop: &dyn Fn() -> bool) -> Answer {
        let sent = writeln!(self.stdin, "{}", json(task)).and_then(|()| self.stdin.flush());
        let allowed = Duration::from_secs_f64(task.time_limit_s + task.grace_s);
        let started = Instant::now();
        while sent.is_ok() {
            let left = allowed.saturating_sub(started.elapsed());
            match self.rows.recv_timeout(left.min(LOOK)) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(row) => return Answer::Done(row),
                    Err(error) => {
                        self.kill();
                        return Answer::Died(RowStatus::Crashed, format!("a row that is none: {error}"));
                    }
                },
                Err(RecvTimeoutError::Timeout) if stop() => {
                    self.kill();
                    return Answer::Stopped;
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    self.kill();
                    let seconds = allowed.as_secs_f64();
                    return Answer::Died(RowStatus::OverLimit, format!("ended after {seconds} s"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.died()
    }

    /// Why a worker is gone that nobody ended.
    fn died(&mut self) -> Answer {
        let ending = self.child.wait();
        // The other thread may not have read the last of it yet.
        thread::sleep(Duration::from_millis(10));
        let said = self.said.lock().map(|said| said.clone()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        // A worker ends by itself only where its store cannot be written or it was started wrongly; a panic has another code.
        if let Ok(Some(1 | 2)) = ending.as_ref().map(ExitStatus::code) {
            return Answer::Unable(said);
        }
        let ending = ending.map_or_else(|error| error.to_string(), ended_by);
        let status = match tells_of_memory(&said) {
            true => RowStatus::OutOfMemory,
            false => RowStatus::Crashed,
        };
        let note = match said.is_empty() {
            true => ending,
            false => format!("{ending}: {said}"),
        };
        Answer::Died(status, note)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the last words of a process are that it has no memory left.
pub(crate) fn tells_of_memory(said: &str) -> bool {
    let said = said.to_lowercase();
    let words = [
        "memory allocation",
        "memoryerror",
        "bad_alloc",
        "failed to allocate",
        "out of memory",
    ];
    words.iter().any(|words| said.contains(words))
}

/// How a process ended, in words that are the same on every run.
pub(crate) fn ended_by(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("ended with code {code}"),
        None => "ended".into(),
    }
}
