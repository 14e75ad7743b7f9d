//! Faults of structured text, from what serde's parsers report.

use serde::de::{DeserializeOwned, IgnoredAny};

use super::toml_fault;
use crate::model::fault::{Excerpt, Fault, FaultKind};

/// Reads JSON; a fault carries line and column.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    let is_list = text.trim_start().starts_with('[');
    let error = match serde_json::from_str(text) {
        Ok(value) if !is_list => return Ok(value),
        // A file that was cut short is told so, whatever its first fields are.
        other => match (serde_json::from_str::<IgnoredAny>(text).err(), other.err()) {
            (Some(error), _) => error,
            (None, Some(error)) if !is_list => error,
            // serde reads a list as a struct without field names, and finds fault with its elements; every format of ours names its
            // fields.
            (None, _) => {
                let start = text.len() - text.trim_start().len();
                return Err(vec![wrong_type_at(
                    text,
                    start,
                    "a list",
                    "an object of named fields",
                )]);
            }
        },
    };
    let last = byte_of(text, error.line(), error.column());
    Err(vec![fault_at(
        text,
        token_ending_at(text, last),
        json_fault(&error),
    )])
}

/// What serde_json says, without the position that it repeats at the end of its message.
pub(crate) fn json_fault(error: &serde_json::Error) -> FaultKind {
    let message = error.to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(message, _)| message);
    parser_fault(message)
}

/// Reads TOML; a fault carries line and column.
pub(crate) fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let mut kind = parser_fault(error.message());
        if let (FaultKind::Syntax { .. }, Some(span)) = (&kind, error.span()) {
            kind = toml_fault::fault(text, span, error.message()).unwrap_or(kind);
        }
        if let (FaultKind::DuplicateName { name, .. }, Some(span)) = (&mut kind, error.span()) {
            *name = text.get(span).unwrap_or_default().into();
        }
        vec![match error.span() {
            // A field that is missing at the top has no line of its own.
            Some(span) if span.start > 0 || !matches!(kind, FaultKind::Missing { .. }) => {
                fault_at(text, span, kind)
            }
            _ => Fault::new("the file", kind),
        }]
    })
}

fn wrong_type_at(text: &str, byte: usize, found: &str, expected: &str) -> Fault {
    let kind = FaultKind::WrongType {
        found: found.into(),
        expected: expected.into(),
    };
    fault_at(text, byte..byte, kind)
}

/// A fault at a span of bytes, with its line.
pub(crate) fn fault_at(text: &str, span: std::ops::Range<usize>, kind: FaultKind) -> Fault {
    /// The most bytes shown on either side of a fault in a long line.
    const AROUND: usize = 45;
    let start = text.floor_char_boundary(span.start);
    let line = text[..start].matches('\n').count() + 1;
    let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let to = text[start..]
        .find('\n')
        .map_or(text.len(), |newline| start + newline);
    let column = text[from..start].chars().count() + 1;
    let fault = Fault::new(format!("line {line}, column {column}"), kind);
    if text[from..to].trim().is_empty() {
        return fault;
    }
    let (mut first, mut last) = (from, to);
    if to - from > 2 * AROUND {
        first = text.ceil_char_boundary(from.max(start.saturating_sub(AROUND)));
        last = text.floor_char_boundary(to.min(start + AROUND));
    }
    let end = text.floor_char_boundary(span.end.clamp(start, last));
    let before = if first > from { "..." } else { "" };
    let after = match last < to {
        true => "...",
        // A place for the mark at the end of the line.
        false if start == to => " ",
        false => "",
    };
    // One byte for one byte, so that the mark stays where it is.
    let middle = text[first..last].replace(|c: char| c.is_ascii_control(), " ");
    let marked_from = before.len() + start - first;
    fault.with_excerpt(Excerpt {
        line,
        text: format!("{before}{middle}{after}"),
        marked: marked_from..marked_from + end - start,
    })
}

/// The byte that serde_json means: it counts bytes in a line from 1, and 0 is the end of the line before.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let before = line.saturating_sub(2);
    let start = match line {
        0 | 1 => 0,
        _ => text
            .match_indices('\n')
            .nth(before)
            .map_or(text.len(), |(newline, _)| newline + 1),
    };
    match column {
        0 => text[..start].trim_end().len(),
        _ => (start + column - 1).min(text.len()),
    }
}

/// The text in quotes, the number or the word whose last byte is `last`: serde_json reports values by their end.
fn token_ending_at(text: &str, last: usize) -> std::ops::Range<usize> {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let before = &bytes[..last.min(bytes.len())];
    let start = match bytes.get(last) {
        Some(b'"') => {
            let opens = |&at: &usize| before[at] == b'"' && !before[..at].ends_with(b"\\");
            (0..before.len()).rev().find(opens)
        }
        Some(byte) if is_word(byte) => Some(
            before
                .iter()
                .rposition(|byte| !is_word(byte))
                .map_or(0, |other| other + 1),
        ),
        _ => None,
    };
    match start {
        Some(start) => start..last + 1,
        None => last..last,
    }
}

/// Sorts a parser's message into our kinds. Serde words its messages the same way in every format: "unknown field `x`,
/// expected one of `a`, `b`", "invalid type: string \"x\", expected f64".
pub(crate) fn parser_fault(message: &str) -> FaultKind {
    /// Enough for every field that a format knows, however long the value that a message repeats.
    const ENOUGH: usize = 4_096;
    let (what, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let start = |text: &str| -> String { text.chars().take(ENOUGH).collect() };
    let (what, expected) = (start(what), start(expected));
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let name = quoted(&what).into_iter().next().unwrap_or_default();
    if what.starts_with("unknown field") {
        let known = quoted(&expected);
        return FaultKind::UnknownField { name, known };
    }
    if what.starts_with("unknown variant") {
        let known = quoted(&expected);
        return FaultKind::UnknownValue { found: name, known };
    }
    if what.starts_with("missing field") {
        return FaultKind::Missing {
            what: format!("field `{name}`"),
            expected: "one".into(),
            remedy: format!("add `{name}`").into(),
        };
    }
    if what.starts_with("duplicate field") || what.starts_with("duplicate key") {
        return FaultKind::DuplicateName { what: "field", name };
    }
    if let Some(found) = what
        .strip_prefix("invalid type: ")
        .or(what.strip_prefix("invalid value: "))
    {
        return FaultKind::WrongType {
            found: found_in_words(found),
            expected: expected_in_words(&expected),
        };
    }
    if what.starts_with("invalid length") {
        return FaultKind::WrongType {
            found: "a list".into(),
            expected: expected_in_words(&expected),
        };
    }
    syntax(&what, &expected)
}

/// What the parsers themselves say of text that is not of their format.
fn syntax(what: &str, expected: &str) -> FaultKind {
    let (found, expected) = match (what, expected) {
        ("EOF while parsing a value", _) => ("the end of the file".into(), "a value".into()),
        ("recursion limit exceeded" | "recursion limit", _) => (
            "values nested too deeply".into(),
            "a flat file: tables and lists a few levels deep".into(),
        ),
        (what, _) if what.contains("surrogate") => (
            "half of a surrogate pair".into(),
            "text of whole characters".into(),
        ),
        ("number out of range", _) => (
            "a number beyond the range of doubles".into(),
            "one within about 1e308".into(),
        ),
        (what, "") => match (
            what.strip_prefix("EOF while parsing "),
            what.strip_prefix("expected "),
        ) {
            (Some(inside), _) => (
                format!("the end of the file inside {inside}"),
                "the rest of it".into(),
            ),
            (_, Some(expected)) => ("something else".into(), expected.into()),
            _ if what.contains("max recursion depth") => (
                "values nested too deeply".into(),
                "a flat file: tables and lists a few levels deep".into(),
            ),
            _ => (what.into(), "well-formed text of this format".into()),
        },
        (what, expected) => (what.into(), expected.into()),
    };
    FaultKind::Syntax { found, expected }
}

/// Serde's names of values in words: `string "x"`, `integer `5``, `floating point `1.5``.
fn found_in_words(found: &str) -> String {
    match found.split_once(' ') {
        Some(("string", text)) => format!("the text `{}`", text.trim_matches('"')),
        Some(("integer", number)) => format!("the number {number}"),
        Some(("floating", number)) => format!("the number {}", number.trim_start_matches("point ")),
        Some(("boolean", value)) => value.into(),
        _ => match found {
            "sequence" => "a list".into(),
            "map" => "a table".into(),
            other => other.into(),
        },
    }
}

/// Rust's type names in words.
fn expected_in_words(expected: &str) -> String {
    match expected {
        "f64" | "f32" => "a number".into(),
        "u64" | "usize" | "u8" => "a whole number from 0".into(),
        "a boolean" | "bool" => "`true` or `false`".into(),
        "a string" => "text in quotes".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table of named values".into(),
        other if other.starts_with("struct ") => "a table of named fields".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stays_within_long_lines_of_wide_characters() {
        let text = format!("{{\n\"{}\" 1}}", "ä".repeat(1_000));
        let faults = from_json::<IgnoredAny>(&text).map(|_| ()).unwrap_err();
        let excerpt = faults[0].excerpt.as_ref().unwrap();
        assert!(excerpt.text.len() <= 130 && excerpt.line == 2, "{excerpt:?}");
        assert!(excerpt.text.is_char_boundary(excerpt.marked.start), "{excerpt:?}");
    }

    #[test]
    fn the_end_of_a_cut_file_is_the_end_of_its_last_line() {
        let faults = from_json::<IgnoredAny>("{\"a\":\n  1,\n\n")
            .map(|_| ())
            .unwrap_err();
        assert_eq!(faults[0].at.to_string(), "line 2, column 5");
    }
}
