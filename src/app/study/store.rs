//! The results of a study on disk: one file a task, which is there whole or not at all.
//!
//! ```text
//! STUDY.results/rows/3f/3f9a...json     a row, in one line
//! STUDY.results/plans/a0/a0c4...json    the stages of a plan, once for all rows that found it
//! ```
//!
//! A file is written beside its place and renamed onto it, so that any number of processes on any number of machines can write
//! to one folder, and one that is killed leaves nothing half done. A row ends with a digest of itself, and a plan is called by one
//! of itself: what a power cut left torn, or somebody altered, is noticed, and its task counts as missing and is run again.

use std::io;
use std::path::{Path, PathBuf};

use super::collect;
use super::content::digest;
use super::row::Row;
use super::task::{Task, json};
use crate::input::intake;
use crate::input::sealed::sealed;
use crate::input::whole;
use crate::problem::plan::PlanStage;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Rows, and what is wrong with the files of others, a sentence each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Rows that are whole.
    pub rows: Vec<Row>,
    /// Files that are torn, altered or missing.
    pub damage: Vec<String>,
}

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
        self.write(&self.row_path(&row.task.id), &(sealed(&row.line()) + "\n"))
    }

    /// Keeps the stages of a plan and returns the name they are known by: their hash.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn keep_plan(&self, stages: &[PlanStage]) -> io::Result<String> {
        let text = json(&stages);
        let name = plan_name(&text);
        if self.plan_text(&name).is_none() {
            self.write(&self.path("plans", &name), &text)?;
        }
        Ok(name)
    }

    /// The stages of a plan, if they are here and whole.
    pub fn plan(&self, name: &str) -> Option<Vec<PlanStage>> {
        serde_json::from_str(&self.plan_text(name)?).ok()
    }

    /// The file of a plan, if it is what its name says.
    fn plan_text(&self, name: &str) -> Option<String> {
        let text = intake::read_large_text(&self.path("plans", name)).ok()?;
        (plan_name(&text) == name).then_some(text)
    }

    /// The row of a task, if it is here and whole.
    pub(crate) fn row(&self, id: &str) -> Option<Row> {
        self.read(&self.row_path(id)).ok()?
    }

    /// The row of a file; none where there is no file.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn read(&self, path: &Path) -> Result<Option<Row>, String> {
        let wrong = |what: String| format!("`{}`: {what}", path.display());
        match intake::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
            Ok(bytes) => {
                let row = collect::row(&String::from_utf8_lossy(&bytes));
                row.map(Some)
                    .map_err(|what| wrong(format!("torn or altered: {what}")))
            }
        }
    }

    /// The rows of some tasks, with their plans, in their order.
    pub(crate) fn rows_of(&self, tasks: &[Task]) -> Rows {
        self.whole(tasks.iter().map(|task| self.row_path(&task.id)))
    }

    /// All rows that are here and whole, with their plans, by identity.
    ///
    /// # Errors
    ///
    /// What the file system says; a folder that does not exist is empty.
    pub(crate) fn rows(&self) -> io::Result<Rows> {
        let mut files = Vec::new();
        for folder in entries(&self.folder.join("rows"))? {
            let shelf = entries(&folder)?.into_iter();
            let is_json = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "json");
            files.extend(shelf.filter(|file| is_json(file) && !whole::is_part(file)));
        }
        files.sort();
        Ok(self.whole(files.into_iter()))
    }

    /// The rows of files. One whose plan is lost stays: what it says is true.
    fn whole(&self, files: impl Iterator<Item = PathBuf>) -> Rows {
        let mut read = Rows::default();
        for file in files {
            let (row, damage) = self.checked(&file);
            read.rows.extend(row);
            read.damage.extend(damage);
        }
        // Many rows may have one plan.
        read.damage.sort();
        read.damage.dedup();
        read
    }

    /// The row of a task, and what of it or of its plan is not as it was kept.
    pub(crate) fn result(&self, id: &str) -> (Option<Row>, Option<String>) {
        self.checked(&self.row_path(id))
    }

    fn checked(&self, path: &Path) -> (Option<Row>, Option<String>) {
        match self.read(path) {
            Err(damage) => (None, Some(damage)),
            Ok(row) => {
                let plan = row.as_ref().and_then(|row| row.plan.as_deref());
                let damage = plan.and_then(|name| self.lost(name));
                (row, damage)
            }
        }
    }

    /// What is wrong with a plan that is not as it was kept.
    fn lost(&self, name: &str) -> Option<String> {
        if self.plan_text(name).is_some() {
            return None;
        }
        let path = self.path("plans", name);
        let what = match path.exists() {
            true => "torn or altered",
            false => "missing",
        };
        Some(format!("`{}`: {what}", path.display()))
    }

    /// Tries whether results can be kept, and removes what killed runs have left half written.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        whole::try_place(&self.folder.join("row.json"))?;
        for kind in ["rows", "plans"] {
            for shelf in entries(&self.folder.join(kind))? {
                // What cannot be removed is in nobody's way.
                let _ = whole::sweep_folder(&shelf);
            }
        }
        Ok(())
    }

    fn row_path(&self, id: &str) -> PathBuf {
        self.path("rows", id)
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        let shelf = name.get(..2).unwrap_or(name);
        self.folder.join(kind).join(shelf).join(format!("{name}.json"))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        match whole::write_soon(path, text) {
            // The first of its shelf.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
                whole::write_soon(path, text)
            }
            written => written,
        }
    }
}

/// The name of a plan, from its file.
fn plan_name(text: &str) -> String {
    let mut name = digest(&[text]);
    name.truncate(32);
    name
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
