//! Rows from wherever they are: a study, a folder of results, a JSONL file.

use std::collections::BTreeMap;
use std::path::Path;

use super::row::Row;
use super::spec::Study;
use super::store::Store;
use crate::fault::{Fault, FaultKind, InputError};

/// Rows of a study, a folder or a file, in the order of the study or the file; those of a folder by problem and method.
///
/// The last line of a file may be torn; it is left out, like a torn file of a folder.
///
/// # Errors
///
/// What cannot be read, or a line that is no row.
pub fn rows(path: &Path) -> Result<Vec<Row>, InputError> {
    let unreadable = |error: &std::io::Error| InputError::in_file(path, [Fault::unreadable(path, error)]);
    if path.is_dir() {
        let mut rows = Store::new(path).rows().map_err(|error| unreadable(&error))?;
        rows.sort_by_cached_key(order);
        return Ok(rows);
    }
    if path.extension().is_some_and(|extension| extension == "toml") {
        let study = Study::read(path)?;
        let store = Store::new(study.results_folder());
        return Ok(study
            .tasks
            .iter()
            .filter_map(|task| store.row(&task.id))
            .collect());
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut rows = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(_) if at + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(error) => {
                let kind = FaultKind::Syntax {
                    found: error.to_string(),
                    expected: "a row of a study, as `stagecut study collect` writes it".into(),
                };
                return Err(InputError::in_file(
                    path,
                    [Fault::new(format!("line {}", at + 1), kind)],
                ));
            }
        }
    }
    Ok(rows)
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

/// Rows as JSONL.
pub(crate) fn jsonl(rows: &[Row]) -> String {
    rows.iter().map(|row| row.line() + "\n").collect()
}
