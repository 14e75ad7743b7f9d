//! Names in JSON files of other tools.

use serde::Deserialize;

/// A name written as a number or as text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "invalid type: another value, expected a name: text or a whole number"
)]
pub(super) enum Name {
    /// A whole number.
    Number(i64),
    /// Text in quotes.
    Text(String),
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
        }
    }
}
