//! Ranges of NVTX as `nsys stats` of NVIDIA Nsight Systems writes them as CSV: reports `nvtx_gpu_proj_trace`, of what the GPU ran, and
//! `nvtx_pushpop_trace`, of what the CPU did.
//!
//! Names say a module and a pass, see [`super::ranges`]; a domain before them, as in `:encoder.0/forward`, is left out. What `nsys` says before
//! the table is skipped.

use super::ranges::{self, Range};
use super::{Imported, Source, has_extension};
use crate::model::fault::{Fault, FaultKind};

/// Lines before the header.
const MOST_BEFORE: usize = 50;

/// Names of a report's columns: the start and the duration.
const REPORTS: [[&str; 2]; 2] = [
    ["Projected Start (ns)", "Projected Duration (ns)"],
    ["Start (ns)", "Duration (ns)"],
];

/// Where the table begins.
fn table(text: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').take(MOST_BEFORE).enumerate() {
        if line.contains("RangeStack") && line.contains("Name") {
            return Some((number, &text[at..]));
        }
        at += line.len();
    }
    None
}

/// Whether a CSV file has the columns that reports of NVTX ranges share.
pub(super) fn detect(source: &Source) -> bool {
    has_extension(source.path, "csv") && source.text().is_ok_and(|text| table(text).is_some())
}

/// Reads a report.
pub(super) fn read(source: &Source) -> Imported {
    // Detection has found it.
    let (before, text) = table(source.text()?).unwrap_or_default();
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let column = |name: &str| header.iter().position(|found| found == name);
    let times = REPORTS
        .into_iter()
        .find_map(|[start, duration]| Some([column(start)?, column(duration)?]));
    let (Some(name), Some([start, duration])) = (column("Name"), times) else {
        let kind = FaultKind::Syntax {
            found: format!("the header `{}`", header.iter().collect::<Vec<_>>().join(",")),
            expected: "`Name`, and `Start (ns)` with `Duration (ns)`, or `Projected Start (ns)` with `Projected Duration (ns)`".into(),
        };
        return Err(vec![Fault::new(format!("line {}", before + 1), kind)]);
    };
    let threads = [column("PID"), column("TID")];
    let (mut ranges, mut faults) = (Vec::new(), Vec::new());
    for record in reader.records() {
        // A last line of blanks, or of another report behind this one.
        let Ok(record) = record else { break };
        let Some(range_name) = record.get(name).filter(|_| record.len() == header.len()) else {
            break;
        };
        let mut number = |at: usize| {
            let text = record.get(at).unwrap_or_default().replace(',', "");
            text.parse::<f64>().map(|ns| ns / 1e6).unwrap_or_else(|_| {
                let line = record.position().map_or(0, csv::Position::line) + before as u64;
                let (found, expected) = (format!("`{text}`"), "a number of ns".into());
                faults.push(Fault::new(
                    format!("line {line}, column `{}`", &header[at]),
                    FaultKind::Syntax { found, expected },
                ));
                0.0
            })
        };
        let thread = threads
            .iter()
            .flatten()
            .filter_map(|&at| record.get(at))
            .collect::<Vec<_>>();
        ranges.push(Range {
            name: range_name.to_owned(),
            thread: thread.join(" "),
            start_ms: number(start),
            duration_ms: number(duration),
        });
    }
    match faults.is_empty() {
        true => ranges::network(ranges, "a report of ranges"),
        false => Err(faults),
    }
}
