//! Lists where tables belong. serde reads a list as a table without field names, and then finds fault with an element of it: what is wrong
//! is told of the list.

use serde_json::Value;

use super::{Source, has_extension};
use crate::model::fault::{Fault, FaultKind};

/// The first list of a file where a JSON Schema has a table; nothing where it is no well-formed JSON or TOML.
pub(crate) fn misshapen(source: &Source, schema: &Value) -> Option<Fault> {
    let text = source.text().ok()?;
    let value: Value = match has_extension(source.path, "toml") {
        true => toml::from_str(text).ok()?,
        false => serde_json::from_str(text).ok()?,
    };
    // A list in place of the whole file is told by its reader.
    // A list in place of the whole file is told by its reader.
    let at = misplaced(&value, schema, schema, "").filter(|at| !at.is_empty())?;
    let kind = FaultKind::WrongType {
        found: "a list".into(),
        expected: "a table of named fields".into(),
    };
    Some(Fault::new(at, kind))
}

/// The place of the first list where a table belongs.
fn misplaced(value: &Value, schema: &Value, all: &Value, at: &str) -> Option<String> {
    let schema = resolved(schema, all);
    match value {
        Value::Array(_) if is_table(schema) => Some(at.to_owned()),
        Value::Array(values) => {
            let items = schema.get("items")?;
            let mut each = values.iter().enumerate();
            each.find_map(|(k, value)| misplaced(value, items, all, &format!("{at}[{k}]")))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let named = schema.get("properties").and_then(|fields| fields.get(name));
            let of = named.or(schema.get("additionalProperties"))?;
            let dot = if at.is_empty() { "" } else { "." };
            misplaced(value, of, all, &format!("{at}{dot}{name}"))
        }),
        _ => None,
    }
}

/// What a reference names; of alternatives of which one is `null`, the other.
fn resolved<'a>(schema: &'a Value, all: &'a Value) -> &'a Value {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = all.pointer(name.trim_start_matches('#'));
        return target.map_or(&Value::Null, |target| resolved(target, all));
    }
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    let mut other = alternatives
        .into_iter()
        .flatten()
        .filter(|one| one.get("type") != Some(&"null".into()));
    match (other.next(), other.next()) {
        (Some(only), None) => resolved(only, all),
        _ => schema,
    }
}

/// Whether a schema allows tables and no lists.
fn is_table(schema: &Value) -> bool {
    let allows = |kind: &str| match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    };
    allows("object") && !allows("array")
}
