//! The results of a study on disk: one file a task, which is there whole or not at all.
//!
//! ```text
//! STUDY.results/rows/3f/3f9a...json     a row, in one line
//! STUDY.results/plans/a0/a0c4...json    the stages of a plan, once for all rows that found it
//! ```
//!
//! A file is written beside its place and renamed onto it, so that any number of processes on any number of machines can write
//! to one folder, and one that is killed leaves nothing half done. A file that a power cut left torn does not parse; its task
//! counts as missing and is run again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::digest;
use super::row::Row;
use super::task::json;
use crate::plan::PlanStage;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Names of files that are being written, unique in this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Store {
    /// The store in a folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Keeps a row; of two for the same task the later stays.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn keep(&self, row: &Row) -> io::Result<()> {
        self.write(&self.row_path(&row.task.id), &(row.line() + "\n"))
    }

    /// Keeps the stages of a plan and returns the name they are known by: their hash.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn keep_plan(&self, stages: &[PlanStage]) -> io::Result<String> {
        let text = json(&stages);
        let mut name = digest(&[&text]);
        name.truncate(32);
        let path = self.path("plans", &name);
        if !path.exists() {
            self.write(&path, &text)?;
        }
        Ok(name)
    }

    /// The stages of a plan, if they are here.
    pub fn plan(&self, name: &str) -> Option<Vec<PlanStage>> {
        let bytes = std::fs::read(self.path("plans", name)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The row of a task, if it is here and whole.
    pub(crate) fn row(&self, id: &str) -> Option<Row> {
        let bytes = std::fs::read(self.row_path(id)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// All rows that are here and whole, by identity.
    ///
    /// # Errors
    ///
    /// What the file system says; a folder that does not exist is empty.
    pub(crate) fn rows(&self) -> io::Result<Vec<Row>> {
        let mut files = Vec::new();
        for folder in entries(&self.folder.join("rows"))? {
            let shelf = entries(&folder)?.into_iter();
            files.extend(shelf.filter(|file| file.extension().is_some_and(|extension| extension == "json")));
        }
        files.sort();
        let read = |file: &PathBuf| serde_json::from_slice(&std::fs::read(file).ok()?).ok();
        Ok(files.iter().filter_map(read).collect())
    }

    fn row_path(&self, id: &str) -> PathBuf {
        self.path("rows", id)
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        let shelf = name.get(..2).unwrap_or(name);
        self.folder.join(kind).join(shelf).join(format!("{name}.json"))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{number}.part", std::process::id()));
        if let Err(error) = std::fs::write(&beside, text) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // The first of its shelf.
            std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            std::fs::write(&beside, text)?;
        }
        std::fs::rename(&beside, path)
    }
}

/// What a folder holds; nothing where there is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
