//! Rows from wherever they are: a study, a folder of results, a JSONL file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Serialize;

use super::cells::{Cell, cells};
use super::row::Row;
use super::spec::Study;
use super::store::{Rows, Store};
use super::task::json;
use crate::input::intake;
use crate::input::sealed::{opened, sealed};
use crate::model::fault::{Fault, FaultKind, InputError};

/// Rows of a study, a folder or a file, in the order of the study or the file; those of a folder by problem and method.
///
/// # Errors
///
/// Those of `read`.
pub fn rows(path: &Path) -> Result<Vec<Row>, InputError> {
    Ok(read(path)?.rows)
}

/// The same, with what is wrong with the others: files of a folder that are torn or altered, plans that are missing, and the last
/// line of a file where a run was broken off in it.
///
/// # Errors
///
/// What cannot be read, or a line that is no row, or another one than was written.
pub(crate) fn read(path: &Path) -> Result<Rows, InputError> {
    let unreadable = |error: &std::io::Error| InputError::in_file(path, [Fault::unreadable(path, error)]);
    if path.is_dir() {
        let mut read = Store::new(path).rows().map_err(|error| unreadable(&error))?;
        read.rows.sort_by_cached_key(order);
        return Ok(read);
    }
    if path.extension().is_some_and(|extension| extension == "toml") {
        let study = Study::read(path)?;
        return Ok(Store::new(study.results_folder()).rows_of(&study.tasks));
    }
    let text = intake::read_large_text(path).map_err(|error| unreadable(&error))?;
    let lines: Vec<(usize, &str)> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let mut read = Rows::default();
    for (at, &(number, line)) in lines.iter().enumerate() {
        let is_last = at + 1 == lines.len() && !text.ends_with('\n');
        match row(line) {
            Ok(row) => read.rows.push(row),
            Err(found) if is_last => read
                .damage
                .push(format!("line {number} of `{}`: {found}", path.display())),
            Err(found) => {
                let kind = FaultKind::Syntax {
                    found,
                    expected: "a row of a study, as `stagecut study collect` writes it".into(),
                };
                return Err(InputError::in_file(
                    path,
                    [Fault::new(format!("line {number}"), kind)],
                ));
            }
        }
    }
    Ok(read)
}

/// The row of a line, or what is wrong with it.
pub(super) fn row(line: &str) -> Result<Row, String> {
    let object = opened(line).map_err(|altered| altered.to_string())?;
    serde_json::from_str(&object).map_err(|error| error.to_string())
}

/// What rows are sorted by where no study says their order.
fn order(row: &Row) -> (String, String, String, Option<usize>, String, String, u64) {
    let task = &row.task;
    (
        task.family.clone(),
        task.instance.clone(),
        task.content.clone(),
        row.stages,
        task.options_text(),
        task.method.clone(),
        task.seed,
    )
}

/// Several sets of rows as one, each task once: of two rows of a task one that is no failure stays, else the first.
pub fn merged(sets: Vec<Vec<Row>>) -> Vec<Row> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut merged: Vec<Row> = Vec::new();
    for row in sets.into_iter().flatten() {
        match places.get(&row.task.id) {
            None => {
                places.insert(row.task.id.clone(), merged.len());
                merged.push(row);
            }
            Some(&place) if merged[place].status.is_failure() && !row.status.is_failure() => {
                merged[place] = row
            }
            Some(_) => {}
        }
    }
    merged
}

/// A row, and what the other methods say of its plan.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Judged<'a> {
    /// The row.
    #[serde(flatten)]
    pub row: &'a Row,
    /// The best bound of all methods on its problem, in ms.
    pub best_bound_ms: Option<f64>,
    /// (objective - that bound) / objective.
    pub gap_to_best_bound: Option<f64>,
}

/// Rows in their order, each held against the best bound of all.
pub(crate) fn judged(rows: &[Row]) -> Vec<Judged<'_>> {
    let cells = cells(rows);
    let of: HashMap<_, _> = cells.iter().map(|cell| (cell.task.problem_key(), cell)).collect();
    rows.iter()
        .map(|row| Judged::new(row, of.get(&row.task.problem_key()).copied()))
        .collect()
}

impl<'a> Judged<'a> {
    fn new(row: &'a Row, cell: Option<&Cell>) -> Self {
        let best_bound_ms = cell.and_then(|cell| cell.bound_ms);
        // Without any bound there is nothing to be near to.
        let known = cell.filter(|_| best_bound_ms.is_some());
        let gap = known.zip(row.objective_ms).and_then(|(cell, ms)| cell.gap(ms));
        Self {
            row,
            best_bound_ms,
            gap_to_best_bound: gap.map(|gap| gap.high),
        }
    }
}

/// Rows as JSONL.
pub(crate) fn jsonl(rows: &[Row]) -> String {
    let lines = judged(rows).into_iter().map(|row| sealed(&json(&row)) + "\n");
    lines.collect()
}
