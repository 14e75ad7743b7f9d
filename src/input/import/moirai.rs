//! Moirai's device tables: B. Zhang et al., *Moirai: towards optimal placement for distributed inference on heterogeneous
//! devices*, arXiv 2312.04025; moirai-placement/moirai, whose `main.py` reads a spreadsheet by position. This is that sheet,
//! saved as CSV.
//!
//! Under a row of headings, a row an operator, in topological order:
//!
//! | columns | hold |
//! |---|---|
//! | 1 | number of the operator |
//! | 2 | numbers of its transfers, `7,8` |
//! | 3 | numbers of its direct successors |
//! | 4 | the same, where the transfers stand between: successors without a transfer, and transfers |
//! | K | time on each of K devices |
//! | K·K | times of its transfers, in the order of column 2, from each device to each |
//! | 1 | memory footprint |
//! | K | memory of each device, in the first row |
//!
//! Hence K² + 2K + 5 columns. Transfer number i of a row goes to successor number i; a row without transfers, such as that of a
//! virtual source, moves nothing.

use std::collections::BTreeMap;

use super::{Imported, Source, has_extension};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Mode, PipelineOptions};
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, TensorSpec, TimesSpec,
};
use crate::model::words::Words;

/// Columns before the times.
const FIRST_TIME: usize = 4;

/// The most devices that a table is looked at for.
const MOST_DEVICES: usize = 64;

/// The number of devices of a table with so many columns.
fn devices(columns: usize) -> Option<usize> {
    (1..=MOST_DEVICES).find(|k| k * k + 2 * k + 5 == columns)
}

/// Whether a CSV file has as many columns as such a table, and begins its rows with a number.
pub(super) fn detect(source: &Source) -> bool {
    if !has_extension(source.path, "csv") {
        return false;
    }
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source.bytes);
    let is_wide = reader
        .headers()
        .is_ok_and(|header| devices(header.len()).is_some());
    let first = reader.records().next();
    is_wide && first.is_some_and(|row| row.is_ok_and(|row| row.get(0).is_some_and(is_whole)))
}

fn is_whole(text: &str) -> bool {
    text.trim()
        .parse::<f64>()
        .is_ok_and(|number| number.fract() == 0.0)
}

/// A row of the table.
struct Row {
    id: String,
    successors: Vec<String>,
    /// Time on each device.
    times: Vec<f64>,
    /// Transfer time to each successor: the longest between two devices.
    transfers: Vec<f64>,
    /// Whether some pair of devices is faster than another.
    links_differ: bool,
    footprint: f64,
}

/// Reads a table.
pub(super) fn read(source: &Source) -> Imported {
    let text = source.text()?;
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let columns = reader.headers().map_or(0, csv::StringRecord::len);
    // Detection has seen that the columns fit.
    let kinds = devices(columns).unwrap_or(1);
    let mut rows = Vec::new();
    let mut memory = Vec::new();
    let mut faults = Vec::new();
    for record in reader.records() {
        let cells = match record {
            Ok(record) => Cells::new(record, columns),
            Err(error) => Err(vec![Fault::new("the file", unreadable(&error))]),
        };
        let row = cells.and_then(|cells| {
            if rows.is_empty() {
                memory = (0..kinds)
                    .map(|k| cells.number(columns - kinds + k))
                    .collect::<Result<_, _>>()?;
            }
            cells.row(kinds)
        });
        match row {
            Ok(row) => rows.push(row),
            Err(more) => faults.extend(more),
        }
    }
    match faults.is_empty() {
        true => Ok((spec(&rows, &memory), notes(&rows))),
        false => Err(faults),
    }
}

fn unreadable(error: &csv::Error) -> FaultKind {
    FaultKind::Syntax {
        found: error.to_string(),
        expected: "a row of comma-separated values".into(),
    }
}

/// The cells of a row and the line they stand in.
struct Cells {
    record: csv::StringRecord,
    line: u64,
}

impl Cells {
    fn new(record: csv::StringRecord, columns: usize) -> Result<Self, Vec<Fault>> {
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() == columns {
            return Ok(Self { record, line });
        }
        let kind = FaultKind::Syntax {
            found: format!("{} values", record.len()),
            expected: format!("{columns}, as in the header"),
        };
        Err(vec![Fault::new(format!("line {line}"), kind)])
    }

    fn fault(&self, column: usize, expected: String) -> Vec<Fault> {
        let at = format!("line {}, column {}", self.line, column + 1);
        let found = format!("`{}`", &self.record[column]);
        vec![Fault::new(at, FaultKind::Syntax { found, expected })]
    }

    fn number(&self, column: usize) -> Result<f64, Vec<Fault>> {
        let number = self.record[column].parse();
        number.map_err(|_| self.fault(column, "a number".into()))
    }

    /// Numbers of operators, as text; spreadsheets write `3` as `3.0`.
    fn names(&self, column: usize) -> Result<Vec<String>, Vec<Fault>> {
        let parts = self.record[column].split(',').map(str::trim);
        let name = |part: &str| match part.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 => Ok(number.to_string()),
            _ => Err(self.fault(column, "whole numbers with commas between".into())),
        };
        parts.filter(|part| !part.is_empty()).map(name).collect()
    }

    fn numbers(&self, column: usize) -> Result<Vec<f64>, Vec<Fault>> {
        let parts = self.record[column].split(',').map(str::trim);
        let number = |part: &str| {
            part.parse()
                .map_err(|_| self.fault(column, "numbers with commas between".into()))
        };
        parts.filter(|part| !part.is_empty()).map(number).collect()
    }

    fn row(&self, kinds: usize) -> Result<Row, Vec<Fault>> {
        let [id] = &self.names(0)?[..] else {
            return Err(self.fault(0, "the number of an operator".into()));
        };
        let count = self.names(1)?.len();
        let successors = self.names(2)?;
        if count != 0 && count != successors.len() {
            let expected = format!("as many transfers as successors, {}, or none", successors.len());
            return Err(self.fault(1, expected));
        }
        let times = (0..kinds).map(|k| self.number(FIRST_TIME + k));
        // Operators without transfers, such as the virtual first and last one, cost none.
        let mut transfers = vec![0.0; successors.len()];
        let mut least = transfers.clone();
        if kinds > 1 && count > 0 {
            least.fill(f64::INFINITY);
        }
        for from in 0..kinds {
            for to in (0..kinds).filter(|&to| to != from) {
                let column = FIRST_TIME + kinds + from * kinds + to;
                let times = self.numbers(column)?;
                if times.len() != count {
                    return Err(self.fault(column, format!("{count} times, one a transfer")));
                }
                for (i, &time) in times.iter().enumerate() {
                    transfers[i] = f64::max(transfers[i], time);
                    least[i] = least[i].min(time);
                }
            }
        }
        Ok(Row {
            id: id.clone(),
            successors,
            times: times.collect::<Result<_, _>>()?,
            links_differ: least.iter().zip(&transfers).any(|(least, most)| least < most),
            transfers,
            footprint: self.number(FIRST_TIME + kinds + kinds * kinds)?,
        })
    }
}

fn spec(rows: &[Row], memory: &[f64]) -> InstanceSpec {
    let kind = |k: usize| format!("device{}", k + 1);
    let layer = |row: &Row| LayerSpec {
        id: row.id.clone(),
        times: row
            .times
            .iter()
            .enumerate()
            .map(|(k, &ms)| {
                let times = TimesSpec {
                    forward_ms: Some(ms),
                    ..TimesSpec::default()
                };
                (kind(k), times)
            })
            .collect(),
        resident_bytes: row.footprint,
        ..Default::default()
    };
    let device_kinds = memory.iter().enumerate().map(|(k, &bytes)| DeviceKindSpec {
        name: kind(k),
        count: Some(1),
        memory_bytes: Some(bytes),
        ..Default::default()
    });
    InstanceSpec {
        network: NetworkSpec {
            layers: rows.iter().map(layer).collect(),
            tensors: rows.iter().flat_map(tensors).collect(),
            ..Default::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: device_kinds.collect(),
            ..Default::default()
        }),
        pipeline: PipelineOptions {
            mode: Some(Mode::Inference),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// The tensors of an operator: transfers that take equally long carry the same one.
fn tensors(row: &Row) -> Vec<TensorSpec> {
    let mut by_time: BTreeMap<u64, TensorSpec> = BTreeMap::new();
    for (successor, ms) in row.successors.iter().zip(&row.transfers) {
        let tensor = by_time.entry(ms.to_bits()).or_insert_with(|| TensorSpec {
            producer: row.id.clone(),
            transfer_ms: Some(*ms),
            ..Default::default()
        });
        tensor.consumers.push(successor.clone());
    }
    by_time.into_values().collect()
}

fn notes(rows: &[Row]) -> Vec<Words> {
    let mut notes = vec![
        "the table has no units: times are taken for ms, footprints and memories for bytes".into(),
        "transfers of one operator that take equally long are taken for one tensor".into(),
    ];
    if rows.iter().any(|row| row.links_differ) {
        notes.push(
            "links differ between pairs of devices: each transfer takes as long as on the slowest".into(),
        );
    }
    notes
}
