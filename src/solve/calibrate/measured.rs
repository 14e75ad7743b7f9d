//! Files of measurements.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::input::import::{read_spec, refuse_outside};
use crate::input::intake;
use crate::input::source::{Source, has_extension, table};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::PipelineOptions;
use crate::model::spec::{LayerSpec, TimesSpec};
use crate::problem::plan::bare::{self, BarePlan};
use crate::problem::plan::{self, Plan};

/// What a file may hold, for help.
pub const FORMS: &str = "any file that `import` reads, whose layers have times; or CSV with the columns `layer,device,forward_ms,backward_ms`, \
`bytes,measured_ms`, `bytes,within_ms` (inside of nodes), or `plan,measured_ms` (an iteration of a plan, whose file lies beside)";

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Profiles.
    pub(super) layers: Vec<Profile>,
    /// Between two devices, or nodes where there are any.
    pub(super) transfers: Vec<Transfer>,
    /// Between two devices of a node.
    pub(super) transfers_within: Vec<Transfer>,
    /// Iterations of plans.
    pub(super) runs: Vec<Run>,
}

/// Layers with their times.
#[derive(Debug)]
pub(super) struct Profile {
    pub layers: Vec<LayerSpec>,
}

/// A message from one device to another.
#[derive(Debug)]
pub(super) struct Transfer {
    pub bytes: f64,
    pub measured_ms: f64,
}

/// An iteration of a plan.
#[derive(Debug)]
pub(super) struct Run {
    pub name: String,
    pub stages: BarePlan,
    /// The plan, where it is a whole one, without claims of links.
    pub plan: Option<Box<Plan>>,
    pub measured_ms: f64,
}

/// Forms of CSV.
const LAYERS: [&str; 4] = ["layer", "device", "forward_ms", "backward_ms"];
const TRANSFERS: [&str; 2] = ["bytes", "measured_ms"];
const WITHIN: [&str; 2] = ["bytes", "within_ms"];
const RUNS: [&str; 2] = ["plan", "measured_ms"];

impl Measured {
    /// Reads a file, and adds what it says.
    ///
    /// # Errors
    ///
    /// Every fault of the file, or of a plan that it names.
    pub fn read(&mut self, path: &Path) -> Result<(), InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        if !has_extension(path, "csv") {
            return self.profile(path);
        }
        let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let source = Source { path, bytes: &bytes };
        let text = source.text().map_err(in_file)?;
        let mut header = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let header = header.headers().cloned().unwrap_or_default();
        let has = |column: &str| header.iter().any(|found| found == column);
        if has("plan") {
            return self.runs(path, text);
        }
        if has("layer") {
            return self.layers(text).map_err(in_file);
        }
        if has("bytes") && has("within_ms") {
            let rows: Vec<(u64, Within)> = table::commented_rows(text, &WITHIN).map_err(in_file)?;
            let rows = rows
                .into_iter()
                .map(|(line, row)| (line, row.bytes, row.within_ms));
            return add(&mut self.transfers_within, rows).map_err(in_file);
        }
        if has("bytes") {
            let rows: Vec<(u64, Between)> = table::commented_rows(text, &TRANSFERS).map_err(in_file)?;
            let rows = rows
                .into_iter()
                .map(|(line, row)| (line, row.bytes, row.measured_ms));
            return add(&mut self.transfers, rows).map_err(in_file);
        }
        self.profile(path)
    }

    /// Layers of any file that can be imported.
    fn profile(&mut self, path: &Path) -> Result<(), InputError> {
        let (spec, _) = read_spec(path)?;
        let layers = spec.network.layers;
        let is_timed = |layer: &LayerSpec| {
            let modes = layer
                .modes
                .iter()
                .any(|mode| mode.forward_ms.is_some() || !mode.times.is_empty());
            modes || layer.forward_ms.is_some() || layer.backward_ms.is_some() || !layer.times.is_empty()
        };
        if !layers.iter().any(is_timed) {
            let kind = FaultKind::Missing {
                what: "time of a layer".into(),
                expected: FORMS.into(),
                remedy: "measure the layers, with `tools/profile_torch.py` for one".into(),
            };
            return Err(InputError::in_file(path, [Fault::new("the file", kind)]));
        }
        self.layers.push(Profile { layers });
        Ok(())
    }

    fn layers(&mut self, text: &str) -> Result<(), Vec<Fault>> {
        let rows: Vec<(u64, Timed)> = table::commented_rows(text, &LAYERS)?;
        let mut faults = Vec::new();
        let layers = rows.into_iter().map(|(line, row)| {
            for (column, ms) in [("forward_ms", row.forward_ms), ("backward_ms", row.backward_ms)] {
                faults.extend(ms.filter(|ms| !is_time(*ms)).map(|ms| bad(line, column, ms)));
            }
            let times = TimesSpec {
                forward_ms: row.forward_ms,
                backward_ms: row.backward_ms,
                ..TimesSpec::default()
            };
            Profile {
                layers: vec![LayerSpec {
                    id: row.layer,
                    times: [(row.device, times)].into(),
                    ..LayerSpec::default()
                }],
            }
        });
        let layers: Vec<Profile> = layers.collect();
        self.layers.extend(layers);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    fn runs(&mut self, path: &Path, text: &str) -> Result<(), InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        let rows: Vec<(u64, Ran)> = table::commented_rows(text, &RUNS).map_err(in_file)?;
        for (line, row) in rows {
            let wrong = (!is_time(row.measured_ms)).then(|| bad(line, "measured_ms", row.measured_ms));
            if let Some(fault) = wrong {
                return Err(in_file(vec![fault]));
            }
            let file: PathBuf = path.parent().unwrap_or(Path::new("")).join(&row.plan);
            refuse_outside(path, &row.plan, &file)
                .map_err(|kind| in_file(vec![Fault::new(format!("line {line}, column `plan`"), kind)]))?;
            self.runs.push(Run {
                name: format!("`{}`", row.plan),
                stages: bare::read(&file)?,
                plan: whole(&file)?,
                measured_ms: row.measured_ms,
            });
        }
        Ok(())
    }
}

/// The plan of a file, where it is a whole one. What it says of links and its cluster is what is to be found.
fn whole(file: &Path) -> Result<Option<Box<Plan>>, InputError> {
    let bytes =
        intake::read(file).map_err(|error| InputError::in_file(file, [Fault::unreadable(file, &error)]))?;
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "schema")]
        _schema: String,
    }
    if serde_json::from_slice::<Kind>(&bytes).is_err() {
        return Ok(None);
    }
    let mut plan = plan::read(file)?;
    plan.cluster = None;
    plan.problem = PipelineOptions {
        bandwidth_bytes_per_s: None,
        ..plan.problem
    };
    Ok(Some(Box::new(plan)))
}

#[derive(Deserialize)]
struct Timed {
    layer: String,
    device: String,
    forward_ms: Option<f64>,
    backward_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Between {
    bytes: f64,
    measured_ms: f64,
}

#[derive(Deserialize)]
struct Within {
    bytes: f64,
    within_ms: f64,
}

#[derive(Deserialize)]
struct Ran {
    plan: String,
    measured_ms: f64,
}

/// Adds transfers, or says what is wrong with them.
fn add(to: &mut Vec<Transfer>, rows: impl Iterator<Item = (u64, f64, f64)>) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    for (line, bytes, measured_ms) in rows {
        if !(0.0..=9e15).contains(&bytes) {
            let expected = "a size from 0 to 9e15 bytes";
            let kind = FaultKind::BadNumber {
                found: bytes,
                expected,
            };
            faults.push(Fault::new(format!("line {line}, column `bytes`"), kind));
        } else if !is_time(measured_ms) {
            faults.push(bad(line, "time", measured_ms));
        } else {
            to.push(Transfer { bytes, measured_ms });
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// Whether a number may be a measured time: errors are parts of it.
fn is_time(ms: f64) -> bool {
    (1e-6..=9e9).contains(&ms)
}

fn bad(line: u64, column: &str, found: f64) -> Fault {
    let expected = "a measured time from 1e-6 to 9e9 ms";
    Fault::new(
        format!("line {line}, column `{column}`"),
        FaultKind::BadNumber { found, expected },
    )
}
