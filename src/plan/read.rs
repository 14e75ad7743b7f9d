//! Reading a plan from a file, with everything that is wrong with its form told at once.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Plan, SCHEMA};
use crate::fault::{Fault, FaultKind, InputError};
use crate::source::text::from_json;
use crate::source::{Source, from_structured};

/// The most faults that are looked for; a file with more has one cause.
const MOST_FAULTS: usize = 1_000;

/// Reads a plan in JSON.
///
/// # Errors
///
/// A file of another kind; or else every field that is missing or unknown; or else the first value of a wrong type.
pub fn read(path: &Path) -> Result<Plan, InputError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = std::fs::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
    parse(&bytes).map_err(in_file)
}

/// Reads a plan in JSON from memory: the faults of [`read`].
///
/// # Errors
///
/// Those of [`read`].
pub fn parse(bytes: &[u8]) -> Result<Plan, Vec<Fault>> {
    // Named so that a plan is read as JSON whatever its extension.
    let source = Source {
        path: Path::new("plan.json"),
        bytes,
    };
    let text = source.text()?;
    let Ok(value) = from_json::<Value>(text) else {
        return from_structured(&source);
    };
    kind_of(&value)?;
    let mut form = Form::default();
    form.compare(&value, &DEFINITIONS, "");
    match form.faults.is_empty() {
        true => from_structured(&source),
        false => Err(form.faults),
    }
}

/// A file of another kind is told so, not that it lacks the fields of a plan.
fn kind_of(value: &Value) -> Result<(), Vec<Fault>> {
    let found = value.get("schema").and_then(Value::as_str);
    if found == Some(SCHEMA) {
        return Ok(());
    }
    let kind = match found {
        _ if value.get("network").is_some() => FaultKind::Conflict {
            found: "an instance".into(),
            expected: "a plan".into(),
            remedy:
                "write a plan with `stagecut solve --format json`; the instance comes first, then the plan"
                    .into(),
        },
        Some(found) => FaultKind::UnknownValue {
            found: found.into(),
            known: vec![SCHEMA.into()],
        },
        None => FaultKind::Missing {
            what: "field `schema`".into(),
            expected: format!("`{SCHEMA}`"),
            remedy: "write the plan with `stagecut solve --format json`".into(),
        },
    };
    Err(vec![Fault::new("schema", kind)])
}

/// The JSON Schema of a plan.
static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Plan).to_value());

/// The form that a plan has by its JSON Schema, and where a file departs from it.
#[derive(Default)]
struct Form {
    faults: Vec<Fault>,
}

impl Form {
    /// Compares fields, and those of all they hold. Types of single values are left to the reader.
    fn compare(&mut self, value: &Value, schema: &'static Value, at: &str) {
        let schema = resolved(schema, value);
        match value {
            _ if self.faults.len() >= MOST_FAULTS => {}
            Value::Object(fields) => self.fields(fields, schema, at),
            Value::Array(values) => {
                let Some(items) = schema.get("items") else {
                    return;
                };
                for (position, value) in values.iter().enumerate() {
                    self.compare(value, items, &format!("{at}[{position}]"));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, schema: &'static Value, at: &str) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        let place = if at.is_empty() { "the plan" } else { at };
        for name in schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let name = name.as_str().unwrap_or_default();
            if !fields.contains_key(name) {
                let kind = FaultKind::Missing {
                    what: format!("field `{name}`"),
                    expected: "one".into(),
                    remedy: format!("add `{name}`"),
                };
                self.faults.push(Fault::new(place, kind));
            }
        }
        for (name, value) in fields {
            match known.get(name) {
                Some(schema) => {
                    let dot = if at.is_empty() { "" } else { "." };
                    self.compare(value, schema, &format!("{at}{dot}{name}"));
                }
                None => {
                    let kind = FaultKind::UnknownField {
                        name: name.clone(),
                        known: known.keys().cloned().collect(),
                    };
                    self.faults.push(Fault::new(place, kind));
                }
            }
        }
    }
}

/// The schema that a value is held against: what a reference names and, of alternatives, the one with fields.
fn resolved(schema: &'static Value, value: &Value) -> &'static Value {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = DEFINITIONS.pointer(name.trim_start_matches('#'));
        return target.map_or(&Value::Null, |target| resolved(target, value));
    }
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    let mut alternatives = alternatives.into_iter().flatten().map(|one| resolved(one, value));
    let has_fields = |one: &&Value| value.is_object() && one.get("properties").is_some();
    alternatives.find(has_fields).unwrap_or(schema)
}
