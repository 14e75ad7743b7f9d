//! Runs the tasks of a study side by side, each in a worker process, until all have a row.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::pool::{Answer, Launch, Worker};
use super::row::{Row, RowStatus};
use super::store::Store;
use super::task::Task;

/// How far a study has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tasks that had a row before.
    pub before: usize,
    /// Tasks that got one since.
    pub done: usize,
    /// Tasks that are running.
    pub running: usize,
    /// Rows since that say of a failure, see [`RowStatus::is_failure`].
    pub failed: usize,
    /// All tasks.
    pub total: usize,
}

/// How tasks are run.
pub(crate) struct Request<'a> {
    /// How workers are started.
    pub launch: Launch,
    /// Workers side by side.
    pub jobs: usize,
    /// Whether to stop, asked all the time.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of every change.
    pub progress: &'a (dyn Fn(Tally) + Sync),
}

/// What is to be run.
pub(crate) struct Missing<'a> {
    /// The tasks.
    pub tasks: Vec<&'a Task>,
    /// Files of results that are torn, altered or missing, a sentence each.
    pub damage: Vec<String>,
}

/// The tasks that have no row yet, or one that is not as it was kept; with `retry`, also those whose row says of a failure.
pub(crate) fn missing<'a>(tasks: &'a [Task], store: &Store, retry: bool) -> Missing<'a> {
    let mut missing = Missing {
        tasks: Vec::new(),
        damage: Vec::new(),
    };
    for task in tasks {
        let (row, damage) = store.result(&task.id);
        let is_kept = row.is_some_and(|row| !(retry && row.status.is_failure()));
        if damage.is_some() || !is_kept {
            missing.tasks.push(task);
        }
        missing.damage.extend(damage);
    }
    missing.damage.sort();
    missing.damage.dedup();
    missing
}

/// Runs tasks and keeps a row of each. `before` counts those that have one already.
///
/// A worker that dies is asked once more, in a fresh process: what an earlier task left behind, or somebody who killed
/// the worker, is no fault of this one.
///
/// # Errors
///
/// Where a worker cannot be started or a row not be kept.
pub(crate) fn run(tasks: &[&Task], before: usize, request: &Request) -> io::Result<Tally> {
    let store = Store::new(&request.launch.results);
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(Tally {
        before,
        total: before + tasks.len(),
        ..Tally::default()
    });
    let change = |change: &dyn Fn(&mut Tally)| {
        let Ok(mut tally) = tally.lock() else { return };
        change(&mut tally);
        (request.progress)(*tally);
    };
    let serve = || -> io::Result<()> {
        let mut worker = None;
        while !(request.stop)() {
            let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            change(&|tally| tally.running += 1);
            let status = one(task, &mut worker, &store, request)?;
            change(&|tally| {
                tally.running -= 1;
                tally.done += usize::from(status.is_some());
                tally.failed += usize::from(status.is_some_and(RowStatus::is_failure));
            });
        }
        Ok(())
    };
    let jobs = request.jobs.clamp(1, tasks.len().max(1));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(serve)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<io::Result<()>>()
    })?;
    Ok(tally.into_inner().unwrap_or_default())
}

/// Runs one task; nothing where the study was told to stop.
fn one(
    task: &Task,
    worker: &mut Option<Worker>,
    store: &Store,
    request: &Request,
) -> io::Result<Option<RowStatus>> {
    /// Processes that may die of a task before it is to blame.
    const ATTEMPTS: usize = 2;
    let mut attempts = 0;
    loop {
        let running = match worker.take() {
            Some(running) => running,
            None => Worker::start(&request.launch)?,
        };
        let running = worker.insert(running);
        attempts += 1;
        match running.run(task, request.stop) {
            Answer::Done(row) => return Ok(Some(row.status)),
            Answer::Stopped => return Ok(None),
            Answer::Unable(why) => return Err(io::Error::other(why)),
            Answer::Died(status, note) => {
                *worker = None;
                if status == RowStatus::OverLimit || attempts == ATTEMPTS {
                    store.keep(&Row::ended(task.clone(), status, Some(note)))?;
                    return Ok(Some(status));
                }
            }
        }
    }
}
