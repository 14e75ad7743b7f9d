//! Faults of TOML that its parser refuses: what stands there, what belongs there, and how it is written right.

use std::ops::Range;

use crate::model::fault::FaultKind;

/// Words of the parser's message, what it expects, and how to write it.
const RULES: &[(&[&str], &str, &str)] = &[
    (
        &[
            "must be quoted",
            "boolean",
            "literal string",
            "invalid number",
            "float",
            "integer",
        ],
        "a value: text in quotes, a number, `true` or `false`, a list or a table",
        "write text in quotes, such as `name = \"gpu\"`, and numbers with a point, such as `1.5`",
    ),
    (
        &["key with no value", "missing value"],
        "`=` and a value",
        "write `name = value`",
    ),
    (
        &["missing comma", "extra assignment"],
        "a comma between two values",
        "put a comma before it",
    ),
    (
        &["unclosed array"],
        "`]` at the end of the list",
        "close the list with `]`",
    ),
    (
        &["unclosed inline table", "missing inline table closing"],
        "`}` at the end of the table",
        "close the table with `}`",
    ),
    (
        &["missing inline table opening"],
        "a value, or the end of the list",
        "leave out the comma before it, or the bracket",
    ),
    (
        &["unclosed table"],
        "`]` at the end of the heading",
        "close the heading with `]`, such as `[network]`",
    ),
    (
        &["basic string", "multi-line"],
        "`\"` at the end of the text",
        "close the text with `\"`; a backslash in it is written twice",
    ),
    (
        &[
            "keys cannot be empty",
            "invalid key-value pair",
            "invalid key",
            "unquoted key",
        ],
        "a name, and `=` and a value behind it",
        "write `name = value`",
    ),
];

/// What is wrong with text that is no TOML, where one of the rules says it; `span` is the place that the parser means.
pub(super) fn fault(text: &str, span: Range<usize>, message: &str) -> Option<FaultKind> {
    let is_json = text.trim_start().starts_with('{');
    let (expected, remedy) = match is_json {
        true => (
            "TOML: lines `name = value` under headings such as `[network]`",
            "give a file in JSON a name that ends in `.json`",
        ),
        false => {
            let rule = RULES.iter();
            let mut fits = rule.filter(|(words, ..)| words.iter().any(|word| message.contains(word)));
            fits.next().map(|&(_, expected, remedy)| (expected, remedy))?
        }
    };
    Some(FaultKind::Malformed {
        found: found(text, span),
        expected: expected.into(),
        remedy: remedy.into(),
    })
}

/// The word that stands there, or the end that came instead.
fn found(text: &str, span: Range<usize>) -> String {
    let start = text.floor_char_boundary(span.start);
    let rest = &text[start..];
    let line = rest.split('\n').next().unwrap_or_default().trim_end();
    let is_last = text[start..].trim().is_empty();
    match line.chars().next() {
        None if is_last => "the end of the file".into(),
        None => "the end of the line".into(),
        Some(first) => {
            let ends = |c: char| c.is_whitespace() || ",=[]{}#\"".contains(c);
            let end = line.char_indices().skip(1).find(|(_, c)| ends(*c));
            let word = match ends(first) {
                true => &line[..first.len_utf8()],
                false => &line[..end.map_or(line.len(), |(end, _)| end)],
            };
            match word.trim().is_empty() {
                true => "a blank".into(),
                false => format!("`{word}`"),
            }
        }
    }
}
