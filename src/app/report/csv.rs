//! Plans and comparisons as CSV and JSON, for spreadsheets and programs.

use serde::Serialize;

use super::comparison::{ComparisonRow, Ranked, ranked};
use crate::input::csv_text;
use crate::problem::plan::split::SplitLayer;
use crate::problem::plan::{Plan, PlanStage, Status};

/// A row of the CSV of a plan. Names are those of the JSON; what is absent there is empty here.
#[derive(Serialize)]
struct Row<'a> {
    instance: &'a str,
    method: &'a str,
    status: Status,
    objective_ms: Option<f64>,
    bound_ms: Option<f64>,
    gap: Option<f64>,
    stage: Option<usize>,
    forward: String,
    backward: String,
    devices: String,
    shares: String,
    load_ms: Option<f64>,
    forward_ms: Option<f64>,
    backward_ms: Option<f64>,
    weight_ms: Option<f64>,
    communication_ms: Option<f64>,
    memory_bytes: Option<u64>,
    in_flight: Option<u64>,
    weight_versions: Option<u64>,
    split: String,
}

impl<'a> Row<'a> {
    fn new(plan: &'a Plan, stage: Option<&PlanStage>) -> Self {
        let join =
            |names: fn(&PlanStage) -> &Vec<String>| stage.map_or_else(String::new, |s| names(s).join(";"));
        Self {
            instance: &plan.instance,
            method: &plan.method,
            status: plan.status,
            objective_ms: plan.objective_ms,
            bound_ms: plan.bound_ms,
            gap: plan.gap,
            stage: stage.map(|stage| stage.index),
            forward: join(|stage| &stage.forward),
            backward: join(|stage| &stage.backward),
            devices: join(|stage| &stage.devices),
            shares: stage.map_or_else(String::new, shares),
            load_ms: stage.map(|stage| stage.load_ms),
            forward_ms: stage.map(|stage| stage.forward_ms),
            backward_ms: stage.map(|stage| stage.backward_ms),
            weight_ms: stage.and_then(|stage| stage.weight_ms),
            communication_ms: stage.map(|stage| stage.communication_ms),
            memory_bytes: stage.map(|stage| stage.memory_bytes),
            in_flight: stage.and_then(|stage| stage.in_flight),
            weight_versions: stage.and_then(|stage| stage.weight_versions),
            split: stage.map_or_else(String::new, |stage| split(plan, stage)),
        }
    }
}

/// Shares of forward propagation as `resource=share`.
fn shares(stage: &PlanStage) -> String {
    let share = |(name, share): (&String, &f64)| format!("{name}={share}");
    stage.shares.iter().map(share).collect::<Vec<_>>().join(";")
}

/// Layers whose backward pass alone is here, as `layer=forward stage`.
fn split(plan: &Plan, stage: &PlanStage) -> String {
    let layers = plan.split.iter().flat_map(|split| &split.layers);
    let here = layers.filter(|layer| layer.backward_stage == stage.index);
    let layer = |layer: &SplitLayer| format!("{}={}", layer.layer, layer.forward_stage);
    here.map(layer).collect::<Vec<_>>().join(";")
}

/// A plan as CSV, a row a stage; one row with empty stage columns where there is no plan.
///
/// Layers, devices, shares and split layers of a stage are joined by `;`. For names that hold one, use [`json`].
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
pub fn csv(plan: &Plan) -> Result<String, ::csv::Error> {
    let rows = plan.stages.iter().map(|stage| Row::new(plan, Some(stage)));
    match plan.stages.is_empty() {
        true => to_csv([Row::new(plan, None)]),
        false => to_csv(rows),
    }
}

/// A comparison as CSV, a row a method, best first; fields are those of [`comparison_json`].
///
/// # Errors
///
/// As for [`csv()`].
pub fn comparison_csv(rows: &[ComparisonRow]) -> Result<String, ::csv::Error> {
    /// Stated here too, so that a comparison without rows has a heading.
    const HEADINGS: [&str; 10] = [
        "method",
        "source",
        "status",
        "objective_ms",
        "bound_ms",
        "gap",
        "ratio",
        "stopped_by",
        "seconds",
        "note",
    ];
    if rows.is_empty() {
        return Ok(HEADINGS.join(",") + "\n");
    }
    to_csv(ranked(rows))
}

/// A plan as JSON, with the keys of the plan format, for people and programs.
pub fn json(plan: &Plan) -> String {
    pretty(plan)
}

/// A comparison as JSON: an array of methods, best first, each with its `gap` to the best bound of all methods and the
/// `ratio` of its objective to the best.
pub fn comparison_json(rows: &[ComparisonRow]) -> String {
    pretty(&ranked(rows).collect::<Vec<Ranked>>())
}

pub(crate) fn to_csv<T: Serialize>(rows: impl IntoIterator<Item = T>) -> Result<String, ::csv::Error> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    csv_text::written(writer)
}

pub(super) fn pretty<T: Serialize>(value: &T) -> String {
    // Only maps whose keys are no strings cannot be written, and none of these types has one.
    let text = serde_json::to_string_pretty(value).expect("reports have string keys alone");
    text + "\n"
}
