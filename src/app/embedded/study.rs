//! Studies that a caller runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value;

use super::{Failure, asked};
use crate::app::cli::CliError;
use crate::app::cli::study::{report_into, source_of};
use crate::app::study::collect::judged;
use crate::app::study::pool::Launch;
use crate::app::study::runner::{self, Tally};
use crate::app::study::store::Store;
use crate::app::study::summary::Summary;
use crate::app::study::{self, Row, Task, report};

/// A study and the folder of its results.
#[derive(Debug)]
pub struct Study {
    study: study::Study,
    results: PathBuf,
}

/// How far a study has come.
#[derive(Serialize)]
struct Progress {
    done: usize,
    running: usize,
    failed: usize,
    total: usize,
}

impl Study {
    /// Reads a study in TOML; its results are beside it unless told otherwise.
    ///
    /// # Errors
    ///
    /// Every fault of the file.
    pub fn read(path: &Path, results: Option<&Path>) -> Result<Self, Failure> {
        let study = study::Study::read(path)?;
        let results = results.map_or_else(|| study.results_folder(), Path::to_owned);
        Ok(Self { study, results })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.study.name
    }

    /// The folder of its results.
    pub fn results(&self) -> &Path {
        &self.results
    }

    /// Its tasks, a list in JSON.
    pub fn tasks(&self) -> String {
        super::json(&self.study.tasks)
    }

    /// The rows that there are, in the order of the tasks, a list in JSON.
    pub fn rows(&self) -> String {
        super::json(&judged(&self.kept()))
    }

    fn kept(&self) -> Vec<Row> {
        let store = Store::new(&self.results);
        let tasks = self.study.tasks.iter();
        tasks.filter_map(|task| store.row(&task.id)).collect()
    }

    /// Runs what has no row yet, `jobs` tasks side by side, or as many as there are cores.
    ///
    /// `progress` is told, in JSON and from any thread, of every change; once `stop` is set, what runs is ended.
    ///
    /// # Errors
    ///
    /// Where a worker cannot be started or a row not be kept.
    pub fn run(
        &self,
        (jobs, retry_failed): (Option<usize>, bool),
        stop: &AtomicBool,
        progress: &(dyn Fn(String) + Sync),
    ) -> Result<(), Failure> {
        let tasks: &[Task] = &self.study.tasks;
        let store = Store::new(&self.results);
        let failed = |error| CliError::write(&self.results, error);
        store.prepare().map_err(failed)?;
        let missing = runner::missing(tasks, &store, retry_failed).tasks;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let told = |tally: Tally| {
            progress(super::json(&Progress {
                done: tally.before + tally.done,
                running: tally.running,
                failed: tally.failed,
                total: tally.total,
            }));
        };
        let request = runner::Request {
            launch: Launch::new(self.study.base(), &self.results),
            jobs: jobs.unwrap_or(cores),
            stop: &|| stop.load(Ordering::Relaxed),
            progress: &told,
        };
        let ran = runner::run(&missing, tasks.len() - missing.len(), &request);
        ran.map_err(failed)?;
        Ok(())
    }

    /// What its results show of the methods: the text, or with a folder also the page and the tables in it.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written.
    pub fn report(&self, folder: Option<&Path>) -> Result<String, Failure> {
        let rows = self.kept();
        let summary = Summary::new(&rows);
        let source = source_of(&self.study, &self.results);
        if let Some(folder) = folder {
            report_into(folder, &summary, &source)?;
        }
        Ok(report::text(&summary, &source))
    }
}

/// A study that is said in JSON, as the TOML that its file holds.
///
/// # Errors
///
/// What TOML cannot say, such as nothing.
pub fn toml_of(text: &str) -> Result<String, Failure> {
    let value: Value = asked::document(text, "the study")?;
    toml::to_string(&value)
        .map_err(|error| CliError::Usage(format!("the study cannot be written: {error}").into()).into())
}
