//! Faults of structured text, from what serde's parsers report.

use serde::de::DeserializeOwned;

use crate::fault::{Fault, FaultKind};

/// Reads JSON; a fault carries line and column.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    serde_json::from_str(text).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        // serde_json repeats the position at the end of its message.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        vec![Fault::new(at, parser_fault(message))]
    })
}

/// Reads TOML; a fault carries line and column.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = match error.span() {
            Some(span) => position(text, span.start),
            None => "the file".into(),
        };
        vec![Fault::new(at, parser_fault(error.message()))]
    })
}

/// Line and column, from 1, of a byte in a text.
pub fn position(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start_of_line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start_of_line..].chars().count() + 1;
    format!("line {line}, column {column}")
}

/// The longest excerpt of an input that a message repeats.
const EXCERPT: usize = 120;

/// Sorts a parser's message into our kinds. Serde words unknown fields and variants the same way in every format:
/// "unknown field `x`, expected one of `a`, `b`" and "invalid type: string \"x\", expected f64".
fn parser_fault(message: &str) -> FaultKind {
    let message: String = message.chars().take(4096).collect();
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let (what, expected) = message.split_once(", expected ").unwrap_or((&message, ""));
    let names = quoted(what);
    if what.starts_with("unknown field") && !names.is_empty() {
        return FaultKind::UnknownField {
            name: excerpt(&names[0]),
            known: quoted(expected),
        };
    }
    if what.starts_with("unknown variant") && !names.is_empty() {
        return FaultKind::UnknownValue {
            found: excerpt(&names[0]),
            known: quoted(expected),
        };
    }
    if what.starts_with("missing field") && !names.is_empty() {
        return FaultKind::Missing {
            what: format!("field `{}`", names[0]),
            expected: "it in every entry of this kind".into(),
            remedy: format!("add `{}`", names[0]),
        };
    }
    FaultKind::Syntax {
        found: excerpt(what),
        expected: match expected {
            "" => "well-formed text of this format".into(),
            expected => excerpt(&plain(expected)),
        },
    }
}

/// Rust's type names in words.
fn plain(expected: &str) -> String {
    match expected {
        "f64" => "a number".into(),
        "u64" | "usize" => "a whole number".into(),
        "a boolean" | "bool" => "true or false".into(),
        other => other.into(),
    }
}

fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}
