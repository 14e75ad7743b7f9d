//! CSV tables with a known header: rows with their lines, or every fault with its place.

use serde::de::DeserializeOwned;

use crate::input::csv_text;
use crate::model::fault::{Fault, FaultKind, closest};

/// Reads a table whose columns, in any order, are `columns`. Returns the rows with their lines, from 1.
///
/// # Errors
///
/// Unknown and missing columns; or else every row of another length, and every value that is not what its column holds.
pub(crate) fn rows<T: DeserializeOwned>(text: &str, columns: &[&str]) -> Result<Vec<(u64, T)>, Vec<Fault>> {
    read(text, columns, None)
}

/// The same for tables that people write by hand: a line that begins with `#` is a comment.
///
/// # Errors
///
/// Those of [`rows`].
pub(crate) fn commented_rows<T: DeserializeOwned>(
    text: &str,
    columns: &[&str],
) -> Result<Vec<(u64, T)>, Vec<Fault>> {
    read(text, columns, Some(b'#'))
}

fn read<T: DeserializeOwned>(
    text: &str,
    columns: &[&str],
    comment: Option<u8>,
) -> Result<Vec<(u64, T)>, Vec<Fault>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(comment)
        .from_reader(text.as_bytes());
    let faults = header_faults(reader.headers().ok(), columns);
    if !faults.is_empty() {
        return Err(faults);
    }
    let header = reader.headers().cloned().unwrap_or_default();
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for record in records(&mut reader) {
        let (line, record) = match record {
            Ok(row) => row,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        let plain: csv::StringRecord = record.iter().map(csv_text::unmarked).collect();
        match plain.deserialize(Some(&header)) {
            Ok(row) => rows.push((line, row)),
            Err(error) => faults.push(value_fault(&error, &header, &record)),
        }
    }
    match faults.is_empty() {
        true => Ok(rows),
        false => Err(faults),
    }
}

/// Rows as they stand with their lines, from 1, and a fault in place of each that has another length than the header.
pub(crate) fn records(
    reader: &mut csv::Reader<&[u8]>,
) -> impl Iterator<Item = Result<(u64, csv::StringRecord), Fault>> {
    let of_line = |record: csv::StringRecord| (record.position().map_or(0, csv::Position::line), record);
    let records = reader.records();
    records.map(move |record| record.map(of_line).map_err(|error| unequal(&error)))
}

/// Columns that are unknown, and columns that are missing.
fn header_faults(header: Option<&csv::StringRecord>, columns: &[&str]) -> Vec<Fault> {
    let found: Vec<String> = header.into_iter().flatten().map(str::to_owned).collect();
    let line = header
        .and_then(csv::StringRecord::position)
        .map_or(1, csv::Position::line);
    let at = format!("line {line}");
    let known: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
    if !found.iter().any(|name| known.contains(name)) {
        let kind = FaultKind::Syntax {
            found: format!("the header `{}`", found.join(",")),
            expected: format!("`{}`", known.join(",")),
        };
        return vec![Fault::new(at, kind)];
    }
    let unknown: Vec<&String> = found.iter().filter(|name| !known.contains(name)).collect();
    // A column under a slightly wrong name is one fault, not two.
    let meant = |name: &String| unknown.iter().any(|slip| closest(slip, &known) == Some(name));
    let missing = known.iter().filter(|name| !found.contains(name) && !meant(name));
    let missing = missing.map(|name| FaultKind::Missing {
        what: format!("column `{name}`"),
        expected: "one".into(),
        remedy: format!("add `{name}` to the header, and its values").into(),
    });
    let unknown = unknown.iter().map(|name| FaultKind::UnknownField {
        name: name.to_string(),
        known: known.clone(),
    });
    unknown
        .chain(missing)
        .map(|kind| Fault::new(at.clone(), kind))
        .collect()
}

/// A row with other columns than the header's.
fn unequal(error: &csv::Error) -> Fault {
    let line = error.position().map_or(0, csv::Position::line);
    let (found, expected) = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => (
            format!("{len} {}", if *len == 1 { "value" } else { "values" }),
            format!("{expected_len}, as in the header"),
        ),
        _ => (error.to_string(), "a row with the header's columns".into()),
    };
    Fault::new(format!("line {line}"), FaultKind::Syntax { found, expected })
}

/// A value that is no number, and its column.
fn value_fault(error: &csv::Error, header: &csv::StringRecord, record: &csv::StringRecord) -> Fault {
    let line = record.position().map_or(0, csv::Position::line);
    let field = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.field().map(|field| field as usize),
        _ => None,
    };
    let (at, found) = match field.and_then(|field| Some((header.get(field)?, record.get(field)?))) {
        Some((column, value)) => (format!("line {line}, column `{column}`"), format!("`{value}`")),
        None => (format!("line {line}"), error.to_string()),
    };
    let expected = "a number".into();
    Fault::new(at, FaultKind::Syntax { found, expected })
}
