//! JSON as Python writes it: `Infinity`, `-Infinity` and `NaN` stand in some configurations, and none of these is a size.

use serde_json::{Map, Value};

/// The object of a configuration, with `null` in place of numbers that are none.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(&strict(text))
}

/// The same text as strict JSON, as long as before, so that positions stay.
fn strict(text: &str) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("-Infinity", "null     "),
        ("Infinity", "null    "),
        ("NaN", "0.0"),
    ];
    let mut strict = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_quoted = false;
    while let Some(first) = rest.chars().next() {
        let word = WORDS
            .iter()
            .find(|(word, _)| !is_quoted && rest.starts_with(word));
        let taken = match (word, first) {
            (Some((word, instead)), _) => {
                strict.push_str(instead);
                word.len()
            }
            // What is escaped ends no text.
            (None, '\\') if is_quoted => {
                let escaped = first.len_utf8() + rest.chars().nth(1).map_or(0, char::len_utf8);
                strict.push_str(&rest[..escaped]);
                escaped
            }
            _ => {
                is_quoted ^= first == '"';
                strict.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    strict
}
