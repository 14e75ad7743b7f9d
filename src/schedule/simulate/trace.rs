//! Traces: how fast each device is, over time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;

use crate::input::intake;
use crate::input::source::{Source, table};
use crate::model::fault::{Fault, FaultKind, InputError, closest};
use crate::model::units::ms_to_ns;
use crate::problem::plan::Plan;

/// The columns of a trace.
pub const COLUMNS: &[&str] = &["time_ms", "device", "multiplier"];

/// A slower device than this is dead.
const LARGEST_MULTIPLIER: f64 = 1e6;

/// By what the work of each device is multiplied: 1 until its first row, then piecewise constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Times in ns, increasing, and multipliers from then on.
    of_device: BTreeMap<String, Vec<(u64, f64)>>,
}

#[derive(Deserialize)]
struct Row {
    time_ms: f64,
    device: String,
    multiplier: f64,
}

impl Trace {
    /// Reads a CSV file with the columns `time_ms,device,multiplier`; devices are named as in the plan.
    ///
    /// # Errors
    ///
    /// A file that cannot be read; every broken row with its line, such as a device that the plan does not have, a
    /// negative multiplier, or a device whose times do not increase.
    pub fn read(path: &Path, plan: &Plan) -> Result<Self, InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let source = Source { path, bytes: &bytes };
        source
            .text()
            .and_then(|text| Self::parse(text, plan))
            .map_err(in_file)
    }

    fn parse(text: &str, plan: &Plan) -> Result<Self, Vec<Fault>> {
        let rows: Vec<(u64, Row)> = table::commented_rows(text, COLUMNS)
            .map_err(|faults| faults.into_iter().map(of_trace).collect::<Vec<_>>())?;
        let devices: Vec<String> = plan
            .stages
            .iter()
            .flat_map(|stage| stage.devices.clone())
            .collect();
        let mut trace = Self::default();
        let mut last_line: HashMap<String, u64> = HashMap::new();
        let mut faults = Vec::new();
        for (line, row) in rows {
            if let Some((column, kind)) = row_fault(&row, &devices) {
                faults.push(Fault::new(format!("line {line}, column `{column}`"), kind));
                continue;
            }
            let time_ns = ms_to_ns(row.time_ms).unwrap_or_default();
            let steps = trace.of_device.entry(row.device.clone()).or_default();
            let before = last_line.insert(row.device.clone(), line);
            match (steps.last(), before) {
                (Some(&(last_ns, _)), Some(before)) if last_ns >= time_ns => faults.push(Fault::new(
                    format!("line {line}, column `time_ms`"),
                    FaultKind::Contradiction {
                        found: format!(
                            "{}, not after that of `{}` in line {before}",
                            row.time_ms, row.device
                        )
                        .into(),
                        expected: "the times of each device in increasing order".into(),
                    },
                )),
                _ => steps.push((time_ns, row.multiplier)),
            }
        }
        match faults.is_empty() {
            true => Ok(trace),
            false => Err(faults),
        }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.of_device.is_empty()
    }

    /// The multiplier of a stage at a time: the largest of its devices', for all work together.
    pub fn multiplier(&self, devices: &[String], time_ns: u64) -> f64 {
        let at = |device: &String| {
            let steps = self.of_device.get(device).map_or(&[][..], Vec::as_slice);
            let begun = steps.partition_point(|&(from_ns, _)| from_ns <= time_ns);
            begun.checked_sub(1).map_or(1.0, |last| steps[last].1)
        };
        devices.iter().map(at).reduce(f64::max).unwrap_or(1.0)
    }

    /// The largest multiplier of any device, at least 1.
    pub fn largest(&self) -> f64 {
        let steps = self.of_device.values().flatten();
        steps.map(|&(_, multiplier)| multiplier).fold(1.0, f64::max)
    }
}

/// The column that is wrong, and how.
fn row_fault(row: &Row, devices: &[String]) -> Option<(&'static str, FaultKind)> {
    if ms_to_ns(row.time_ms).is_none() {
        let expected = "a time in ms from 0";
        return Some((
            "time_ms",
            FaultKind::BadNumber {
                found: row.time_ms,
                expected,
            },
        ));
    }
    if !devices.contains(&row.device) {
        let kind = FaultKind::UnknownName {
            what: "device of the plan",
            name: row.device.clone(),
            similar: closest(&row.device, devices).map(str::to_owned),
        };
        return Some(("device", kind));
    }
    let is_multiplier = row.multiplier > 0.0 && row.multiplier <= LARGEST_MULTIPLIER;
    (!is_multiplier).then_some((
        "multiplier",
        FaultKind::BadNumber {
            found: row.multiplier,
            expected: "a number above 0, at most 1000000",
        },
    ))
}

/// The same fault without the hint that lists the formats of networks.
fn of_trace(fault: Fault) -> Fault {
    match fault.kind {
        FaultKind::Syntax { found, expected } => Fault::new(
            fault.at,
            FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            },
        ),
        _ => fault,
    }
}
