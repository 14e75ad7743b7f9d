//! Reading a plan from a file, with everything that is wrong with its form told at once.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Plan, SCHEMA};
use crate::input::intake;
use crate::input::source::text::from_json;
use crate::input::source::{Source, from_structured};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::setting;
use crate::model::words::words;

/// The most faults that are looked for; a file with more has one cause.
const MOST_FAULTS: usize = 1_000;

/// Reads a plan in JSON.
///
/// # Errors
///
/// A file of another kind; or else every field that is missing or unknown; or else the first value of a wrong type.
pub fn read(path: &Path) -> Result<Plan, InputError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
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
    let is_bare = match serde_json::from_str::<Value>(text) {
        Ok(value) => is_bare(&value),
        Err(_) => super::bare::is_table(text),
    };
    if is_bare {
        return Err(vec![bare()]);
    }
    let Ok(value) = from_json::<Value>(text) else {
        return from_structured(&source);
    };
    kind_of(&value)?;
    let faults = Form::faults(&value, &DEFINITIONS, ("", "the plan"));
    match faults.is_empty() {
        true => from_structured(&source),
        false => Err(faults),
    }
}

/// Whether a file says stages and no more: a list of them, or one under its name. What says more of a plan is a whole one, with
/// whatever is wrong with it.
fn is_bare(value: &Value) -> bool {
    match value {
        Value::Array(stages) => stages
            .first()
            .is_some_and(|first| first.is_array() || first.get("layers").is_some()),
        value => value.get("stages").is_some() && value.as_object().is_some_and(|fields| fields.len() == 1),
    }
}

/// What is said of stages alone where a whole plan is needed.
fn bare() -> Fault {
    let kind = FaultKind::Conflict {
        found: "stages alone".into(),
        expected: format!("a whole plan, `{SCHEMA}`").into(),
        remedy: words!(
            "`stagecut check --evaluate INSTANCE STAGES` says what they cost, and with {} writes them as a whole plan",
            setting::OUTPUT.given("PLAN")
        ),
    };
    Fault::new("the plan", kind)
}

/// A file of another kind is told so, not that it lacks the fields of a plan.
fn kind_of(value: &Value) -> Result<(), Vec<Fault>> {
    let found = value.get("schema").and_then(Value::as_str);
    if found == Some(SCHEMA) {
        return Ok(());
    }
    let kind = match found {
        // A plan without its first field: that is told with all others that it lacks.
        None if value.get("stages").is_some() => return Ok(()),
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
            expected: format!("`{SCHEMA}`").into(),
            remedy: "write the plan with `stagecut solve --format json`".into(),
        },
    };
    Err(vec![Fault::new("schema", kind)])
}

/// The JSON Schema of a plan.
static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Plan).to_value());

/// The form that a JSON Schema describes, and where a file departs from it.
pub(crate) struct Form {
    definitions: &'static Value,
    /// What the whole of it is called.
    whole: &'static str,
    faults: Vec<Fault>,
}

impl Form {
    /// Every field that is missing or unknown, at its place in a file.
    ///
    /// * `at`: the place of the value, empty for a whole file;
    /// * `whole`: what such a file is called.
    pub(crate) fn faults(
        value: &Value,
        definitions: &'static Value,
        (at, whole): (&str, &'static str),
    ) -> Vec<Fault> {
        let mut form = Self {
            definitions,
            whole,
            faults: Vec::new(),
        };
        form.compare(value, definitions, at);
        form.faults
    }

    /// Compares fields, and those of all they hold. Types of single values are left to the reader.
    fn compare(&mut self, value: &Value, schema: &'static Value, at: &str) {
        let schema = self.resolved(schema, value);
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
        let place = if at.is_empty() { self.whole } else { at };
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
                    remedy: format!("add `{name}`").into(),
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

    /// The schema that a value is held against: what a reference names and, of alternatives, the one with fields.
    fn resolved(&self, schema: &'static Value, value: &Value) -> &'static Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.definitions.pointer(name.trim_start_matches('#'));
            return target.map_or(&Value::Null, |target| self.resolved(target, value));
        }
        let alternatives = schema.get("anyOf").and_then(Value::as_array);
        let mut alternatives = alternatives
            .into_iter()
            .flatten()
            .map(|one| self.resolved(one, value));
        let has_fields = |one: &&Value| value.is_object() && one.get("properties").is_some();
        alternatives.find(has_fields).unwrap_or(schema)
    }
}
