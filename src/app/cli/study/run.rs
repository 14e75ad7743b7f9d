//! `study run` and `study run-task`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use crate::app::cli::progress::{StatusLine, catch_interrupts, is_interrupted};
use crate::app::study::pool::Launch;
use crate::app::study::runner::{self, Missing, Request, Tally};
use crate::app::study::store::Store;
use crate::app::study::{Study, Task};
use crate::model::fault::{FaultKind, InputError};

use super::super::{CliError, Ending, output};
use super::args::{RunArgs, RunTaskArgs};
use super::note_damage;
use super::progress::of_study;

/// Runs what is missing.
pub(super) fn run(args: &RunArgs) -> Result<Ending, CliError> {
    let (study, results) = args.study.read()?;
    let is_mine = |at: usize| args.part.is_none_or(|(k, n)| at % n == k - 1);
    let tasks: Vec<Task> = study
        .tasks
        .iter()
        .enumerate()
        .filter(|(at, _)| is_mine(*at))
        .map(|(_, task)| task.clone())
        .collect();
    let store = Store::new(&results);
    prepare(&store, &results)?;
    let work = Work::new(&tasks, &store, args.retry_failed);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    let line = StatusLine::new(args.quiet);
    let tally = driven(
        &study,
        &results,
        &work,
        args.jobs.map_or(cores, usize::from),
        &|tally| line.show(|| of_study(tally, started.elapsed())),
    );
    line.clear();
    let tally = tally?;
    let left = work.missing.len() - tally.done;
    if !args.quiet {
        let failed = match tally.failed {
            0 => String::new(),
            failed => format!(", {failed} of them failed"),
        };
        output::note(&format!(
            "{} tasks: {} had results, {} run{failed}, {left} left; results in `{}`",
            tasks.len(),
            work.before,
            tally.done,
            results.display()
        ));
    }
    Ok(match left {
        0 => Ending::Done,
        _ => Ending::NothingFound,
    })
}

/// Runs single tasks that have no row, and prints the rows of all.
pub(super) fn run_tasks(args: &RunTaskArgs) -> Result<Ending, CliError> {
    let (study, results) = args.study.read()?;
    let ids: Vec<String> = args.ids.iter().map(|text| id(text)).collect();
    let asked: BTreeSet<&String> = ids.iter().collect();
    let tasks: Vec<Task> = study
        .tasks
        .iter()
        .filter(|task| asked.contains(&task.id))
        .cloned()
        .collect();
    if let Some(unknown) = ids.iter().find(|id| !tasks.iter().any(|task| task.id == **id)) {
        let kind = FaultKind::Missing {
            what: format!("task `{unknown}` in `{}`", study.path.display()),
            expected: "one that `stagecut study tasks` lists".into(),
            remedy: "the study, an instance or the program is another than the list was made with".into(),
        };
        return Err(InputError::option("the task", kind).into());
    }
    let store = Store::new(&results);
    prepare(&store, &results)?;
    let work = Work::new(&tasks, &store, false);
    driven(&study, &results, &work, 1, &|_| ())?;
    let rows: Vec<_> = ids.iter().filter_map(|id| store.row(id)).collect();
    output::write(&crate::app::study::collect::jsonl(&rows), None)?;
    Ok(match rows.len() == ids.len() {
        true => Ending::Done,
        false => Ending::NothingFound,
    })
}

/// Tries whether results can be kept, before they are looked for.
fn prepare(store: &Store, results: &Path) -> Result<(), CliError> {
    store.prepare().map_err(|source| CliError::NoPlace {
        path: results.to_owned(),
        source,
    })
}

/// An identity, or that of a line of `study tasks`.
fn id(text: &str) -> String {
    match serde_json::from_str::<Task>(text) {
        Ok(task) => task.id,
        Err(_) => text.trim().to_owned(),
    }
}

/// What there is to run.
struct Work<'a> {
    /// Tasks without a result.
    missing: Vec<&'a Task>,
    /// How many others have one.
    before: usize,
}

impl<'a> Work<'a> {
    fn new(tasks: &'a [Task], store: &Store, retry_failed: bool) -> Self {
        let Missing {
            tasks: missing,
            damage,
        } = runner::missing(tasks, store, retry_failed);
        note_damage(&damage, "what belongs to it is run again");
        let before = tasks.len() - missing.len();
        Self { missing, before }
    }
}

/// Runs tasks until they are done or Ctrl-C comes.
fn driven(
    study: &Study,
    results: &Path,
    work: &Work,
    jobs: usize,
    progress: &(dyn Fn(Tally) + Sync),
) -> Result<Tally, CliError> {
    catch_interrupts();
    let failed = |error| CliError::write(results, error);
    let request = Request {
        launch: Launch::new(study.base(), results),
        jobs,
        stop: &is_interrupted,
        progress,
    };
    runner::run(&work.missing, work.before, &request).map_err(failed)
}
