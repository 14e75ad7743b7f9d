//! The process that runs tasks: it reads one a line, and answers each with its row.
//!
//! A task that dies takes its process with it and nothing else. One process runs many tasks, since starting one for each would
//! cost more than most heuristics take.

use std::io::{self, BufRead, Write};
use std::path::Path;

use super::parent::end_with_parent;
use super::solve::Solver;
use super::store::Store;
use super::task::Task;

/// Serves tasks from stdin until it is closed.
///
/// # Errors
///
/// Where the store cannot be written, or the other side is gone.
pub(crate) fn serve(base: &Path, store: &Store) -> io::Result<()> {
    end_with_parent();
    // One core a task: several tasks run side by side.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    let mut solver = Solver::new(base);
    for line in io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?).map_err(io::Error::other)?;
        limit_memory(task.memory_limit_bytes);
        let row = solver.run(&task, store)?;
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", row.line())?;
        stdout.flush()?;
    }
    Ok(())
}

/// From now on allocations beyond the limit fail, which ends the process.
#[cfg(unix)]
fn limit_memory(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    let current = bytes.or(maximum);
    // A system without such limits runs the task without.
    let _ = setrlimit(Resource::As, Rlimit { current, maximum });
}

#[cfg(not(unix))]
fn limit_memory(_: Option<u64>) {}
