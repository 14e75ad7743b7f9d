//! The least that says a plan: which layers lie on which stage, and on what the stages run where that is to be chosen.
//!
//! A planner of somebody else, or a person, knows no more than this; all numbers of a [`Plan`] follow from it and the instance
//! (see [`crate::evaluate()`]). It is written as JSON, `[["conv1", "conv2"], ["dense"]]` or with an object in place of a stage,
//! or as CSV with a row a layer, `layer,stage`.

use std::path::Path;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read::Form;
use super::{Plan, PlanMode, PlanStage, SCHEMA};
use crate::input::intake;
use crate::input::source::table;
use crate::input::source::text::{from_json, parser_fault};
use crate::input::source::{Source, has_extension};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::spec::GivenCluster;

/// Stages, and nothing that can be computed from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BarePlan {
    /// The stages, in pipeline order.
    pub stages: Vec<BareStage>,
}

/// One stage of a bare plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BareStage {
    /// Layers whose forward propagation runs here; operators of an explicit backward graph among them.
    pub layers: Vec<String>,
    /// Layers whose backward propagation runs here; by default those of `layers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<Vec<String>>,
    /// Devices, as `kind:number`, or `kind` for the next of that kind; by default one, where all are of one kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Tensor groups, replicas and recomputation, where the problem leaves them open; by default none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PlanMode>,
}

impl From<&Plan> for BarePlan {
    /// The stages of a plan, without what can be computed from them.
    fn from(plan: &Plan) -> Self {
        let stage = |stage: &PlanStage| BareStage {
            layers: stage.forward.clone(),
            backward: Some(stage.backward.clone()).filter(|backward| !backward.is_empty()),
            devices: stage.devices.clone(),
            mode: stage.mode.clone(),
        };
        Self {
            stages: plan.stages.iter().map(stage).collect(),
        }
    }
}

/// What a file that says a plan may hold: the whole of it, or the least.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(title = "stagecut plan")]
#[expect(dead_code, reason = "only its JSON Schema is used")]
enum Document {
    /// A plan with everything that is known of it, as `stagecut solve --format json` writes it.
    Whole(Box<Plan>),
    /// Stages alone, which `stagecut check --evaluate` costs.
    Stages(StagesAlone),
    /// The same without a name.
    List(Vec<StageForm>),
}

/// Stages alone.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
struct StagesAlone {
    /// The stages, in pipeline order.
    stages: Vec<StageForm>,
}

/// A stage: its layers, or an object that says more.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
enum StageForm {
    /// Names of its layers.
    Layers(Vec<String>),
    /// Its layers, and what else is chosen.
    Stage(BareStage),
}

/// The JSON Schema of files that say a plan, whole or bare.
pub fn json_schema() -> Value {
    schemars::schema_for!(Document).to_value()
}

/// Reads a bare plan from JSON or CSV, whichever it is. Of a whole plan the stages are taken, with their devices and modes,
/// and nothing that it states of them.
///
/// # Errors
///
/// A file of another kind; or else every field and value that has no place there.
pub fn read(path: &Path) -> Result<BarePlan, InputError> {
    read_with_cluster(path).map(|(plan, _)| plan)
}

/// Reads a bare plan like [`read`], with the cluster that a whole plan carries.
///
/// # Errors
///
/// Those of [`read`].
pub fn read_with_cluster(path: &Path) -> Result<(BarePlan, Option<GivenCluster>), InputError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
    let plan = parse_as(&bytes, has_extension(path, "json")).map_err(in_file)?;
    Ok((plan, cluster_of(&bytes)))
}

/// The cluster that a whole plan carries; nothing for stages alone.
pub(crate) fn cluster_of(bytes: &[u8]) -> Option<GivenCluster> {
    #[derive(Deserialize)]
    struct Carried {
        cluster: Option<GivenCluster>,
    }
    serde_json::from_slice::<Carried>(bytes).ok()?.cluster
}

/// Reads a bare plan from memory: the faults of [`read`].
///
/// # Errors
///
/// Those of [`read`].
pub fn parse(bytes: &[u8]) -> Result<BarePlan, Vec<Fault>> {
    parse_as(bytes, false)
}

fn parse_as(bytes: &[u8], is_json: bool) -> Result<BarePlan, Vec<Fault>> {
    let source = Source {
        path: Path::new("plan"),
        bytes,
    };
    let text = source.text()?;
    match is_json || text.trim_start().starts_with(['[', '{']) {
        true => from_value(text),
        false => from_table(text),
    }
}

fn from_value(text: &str) -> Result<BarePlan, Vec<Fault>> {
    // A list at the top is a plan here, and the reader of other formats refuses it.
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return Err(from_json::<Value>(text).err().unwrap_or_default());
    };
    match &value {
        Value::Array(stages) => of_stages(stages),
        Value::Object(fields) => match (fields.get("schema").and_then(Value::as_str), fields.get("stages")) {
            (Some(SCHEMA), _) => of_whole(&value),
            (_, Some(Value::Array(stages))) if fields.len() == 1 => of_stages(stages),
            _ => Err(other_kind(&value)),
        },
        _ => Err(vec![Fault::new("the plan", wrong_type(&value, EXPECTED))]),
    }
}

const EXPECTED: &str = "a list of stages, each a list of layers";

fn wrong_type(found: &Value, expected: &str) -> FaultKind {
    let found = match found {
        Value::Null => "nothing".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text `{text}`"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a table".into(),
    };
    FaultKind::Conflict {
        found: found.into(),
        expected: expected.into(),
        remedy: REMEDY.into(),
    }
}

const REMEDY: &str = "write the stages as `[[\"conv1\", \"conv2\"], [\"dense\"]]`, or as CSV with the header `layer,stage`; \
                      `stagecut schema plan` says all that a stage may hold";

/// What a parser says of a value in a stage, with the remedy for stages.
fn in_stages(error: &serde_json::Error) -> FaultKind {
    match parser_fault(&error.to_string()) {
        FaultKind::WrongType { found, expected } => FaultKind::Conflict {
            found: found.into(),
            expected: expected.into(),
            remedy: REMEDY.into(),
        },
        other => other,
    }
}

/// Faults of an object that is neither a plan nor a list of stages under its name.
fn other_kind(value: &Value) -> Vec<Fault> {
    let fields = value.as_object().into_iter().flatten();
    let unknown = fields
        .filter(|(name, _)| name.as_str() != "stages")
        .map(|(name, _)| {
            let kind = FaultKind::UnknownField {
                name: name.clone(),
                known: vec!["stages".into()],
            };
            Fault::new("the plan", kind)
        });
    let kind = match (value.get("network"), value.get("stages")) {
        (Some(_), _) => FaultKind::Conflict {
            found: "an instance".into(),
            expected: "the stages of a plan".into(),
            remedy: "the instance comes first, then the stages".into(),
        },
        (None, None) => FaultKind::Missing {
            what: "field `stages`".into(),
            expected: EXPECTED.into(),
            remedy: REMEDY.into(),
        },
        (None, Some(Value::Array(_))) => return unknown.collect(),
        (None, Some(stages)) => wrong_type(stages, EXPECTED),
    };
    vec![Fault::new("stages", kind)]
}

/// The JSON Schema of a stage.
static STAGE: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(BareStage).to_value());

fn of_stages(values: &[Value]) -> Result<BarePlan, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut stages = Vec::with_capacity(values.len());
    for (k, value) in values.iter().enumerate() {
        match of_stage(value, &format!("stages[{k}]")) {
            Ok(stage) => stages.push(stage),
            Err(more) => faults.extend(more),
        }
    }
    match faults.is_empty() {
        true => Ok(BarePlan { stages }),
        false => Err(faults),
    }
}

fn of_stage(value: &Value, at: &str) -> Result<BareStage, Vec<Fault>> {
    match value {
        Value::Array(names) => {
            let faults = names.iter().enumerate().filter(|(_, name)| !name.is_string());
            let fault = |(i, name): (usize, &Value)| {
                Fault::new(
                    format!("{at}[{i}]"),
                    wrong_type(name, "the name of a layer, in quotes"),
                )
            };
            let faults: Vec<Fault> = faults.map(fault).collect();
            let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
            match faults.is_empty() {
                true => Ok(BareStage {
                    layers: names.collect(),
                    ..BareStage::default()
                }),
                false => Err(faults),
            }
        }
        Value::Object(_) => {
            let faults = Form::faults(value, &STAGE, (at, "the plan"));
            if !faults.is_empty() {
                return Err(faults);
            }
            BareStage::deserialize(value).map_err(|error| vec![Fault::new(at, in_stages(&error))])
        }
        other => Err(vec![Fault::new(
            at,
            wrong_type(other, "a list of layers, or an object with `layers`"),
        )]),
    }
}

/// The part of a whole plan that is taken.
#[derive(Deserialize)]
struct Whole {
    stages: Vec<WholeStage>,
}

#[derive(Deserialize)]
struct WholeStage {
    forward: Vec<String>,
    #[serde(default)]
    backward: Option<Vec<String>>,
    #[serde(default)]
    devices: Vec<String>,
    #[serde(default)]
    mode: Option<PlanMode>,
}

fn of_whole(value: &Value) -> Result<BarePlan, Vec<Fault>> {
    let whole = Whole::deserialize(value).map_err(|error| vec![Fault::new("stages", in_stages(&error))])?;
    let stage = |stage: WholeStage| BareStage {
        layers: stage.forward,
        backward: stage.backward,
        devices: stage.devices,
        mode: stage.mode,
    };
    Ok(BarePlan {
        stages: whole.stages.into_iter().map(stage).collect(),
    })
}

#[derive(Deserialize)]
struct Row {
    layer: String,
    stage: f64,
    backward_stage: Option<f64>,
}

/// The most stages that a table may number: as many as there may be devices. A row names all stages before its own, so that a few
/// bytes more would ask for gigabytes.
const MOST_STAGES: f64 = 65_536.0;

/// The columns of a table, behind comments.
fn header(text: &str) -> &str {
    let mut lines = text.lines();
    lines.find(|line| !line.starts_with('#')).unwrap_or_default()
}

/// Whether a text begins as a table of stages does.
pub(super) fn is_table(text: &str) -> bool {
    let columns: Vec<&str> = header(text).split(',').map(str::trim).collect();
    columns.contains(&"layer") && columns.contains(&"stage")
}

fn from_table(text: &str) -> Result<BarePlan, Vec<Fault>> {
    let header = header(text);
    let columns: &[&str] = match header.contains("backward_stage") {
        true => &["layer", "stage", "backward_stage"],
        false => &["layer", "stage"],
    };
    let rows: Vec<(u64, Row)> = table::commented_rows(text, columns)?;
    let mut plan = BarePlan::default();
    let mut faults = Vec::new();
    for (line, row) in rows {
        let mut stage = |column: &str, number: f64| {
            let is_stage = number.fract() == 0.0 && (1.0..=MOST_STAGES).contains(&number);
            if !is_stage {
                let kind = FaultKind::Conflict {
                    found: number.to_string().into(),
                    expected: format!("the whole number of a stage, from 1 to {MOST_STAGES}").into(),
                    remedy: "number the stages along the pipeline: 1, 2, 3".into(),
                };
                faults.push(Fault::new(format!("line {line}, column `{column}`"), kind));
            }
            is_stage.then_some(number as usize)
        };
        let places = (
            stage("stage", row.stage),
            row.backward_stage.map(|number| stage("backward_stage", number)),
        );
        let (Some(at), backward) = places else { continue };
        plan.stage(at).layers.push(row.layer.clone());
        if let Some(Some(back)) = backward {
            plan.stage(back).backward.get_or_insert_default().push(row.layer);
        }
    }
    if columns.len() > 2 {
        // Where the table says where gradients are computed, it says so of every stage.
        for stage in &mut plan.stages {
            stage.backward.get_or_insert_default();
        }
    }
    match faults.is_empty() {
        true => Ok(plan),
        false => Err(faults),
    }
}

impl BarePlan {
    /// The stage of a number from 1, with all those before it.
    fn stage(&mut self, number: usize) -> &mut BareStage {
        if self.stages.len() < number {
            self.stages.resize_with(number, BareStage::default);
        }
        &mut self.stages[number - 1]
    }
}
