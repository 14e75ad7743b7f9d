//! What the program says of options: by their field, in pieces, since whoever shows it writes options its own way.
//!
//! Nothing below a door knows how that is: the command line writes `--memory-limit 8GB`; the [`Display`](fmt::Display) of everything
//! here writes `memory_limit="8GB"`, as Python and files do.

use std::fmt;

/// An option of a problem, a search, a command or a generated network, by its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting(&'static str);

impl Setting {
    pub(crate) const fn new(field: &'static str) -> Self {
        Self(field)
    }

    /// Its name in files.
    pub fn field(self) -> &'static str {
        self.0
    }

    /// Its name where its unit goes without saying.
    pub fn name(self) -> &'static str {
        self.0.trim_end_matches("_bytes_per_s")
    }

    /// The option with a value.
    pub fn given(self, value: impl fmt::Display) -> Asked {
        Asked(vec![(self, Some(value.to_string()))])
    }
}

/// Options that are asked together, each with its value where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(pub Vec<(Setting, Option<String>)>);

impl Asked {
    /// These and those.
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }
}

impl From<Setting> for Asked {
    fn from(setting: Setting) -> Self {
        Self(vec![(setting, None)])
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.0.iter().map(|(setting, value)| match value {
            None => setting.name().to_owned(),
            Some(value) if value.parse::<f64>().is_ok() => format!("{}={value}", setting.name()),
            Some(value) => format!("{}=\"{value}\"", setting.name()),
        });
        f.write_str(&written.collect::<Vec<_>>().join(", "))
    }
}

/// How options are written somewhere.
pub type Writer = fn(&Asked) -> String;

/// How they are written where nobody says otherwise.
pub(crate) const BY_FIELD: Writer = Asked::to_string;

/// A piece of what is said, or a place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Words that are the same everywhere.
    Text(String),
    /// Options.
    Asked(Asked),
}

impl Piece {
    /// The same, with options as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Asked(asked) => writer(asked),
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(BY_FIELD))
    }
}

impl From<Setting> for Piece {
    fn from(setting: Setting) -> Self {
        Self::Asked(setting.into())
    }
}

impl From<Asked> for Piece {
    fn from(asked: Asked) -> Self {
        Self::Asked(asked)
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A phrase or sentence that may name options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<Piece>);

impl Words {
    /// A template with the pieces in its holes, `{}`.
    pub(crate) fn filled(template: &str, pieces: impl IntoIterator<Item = Self>) -> Self {
        let mut texts = template.split("{}");
        let mut all = Self::from(texts.next().unwrap_or_default());
        for (piece, text) in pieces.into_iter().zip(texts) {
            all.0.extend(piece.0);
            all.0.push(text.into());
        }
        all
    }

    /// All of it, with options in backticks as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Asked(asked) => format!("`{}`", writer(asked)),
        });
        pieces.collect()
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(BY_FIELD))
    }
}

impl<T> From<T> for Words
where
    Piece: From<T>,
{
    fn from(piece: T) -> Self {
        Self(vec![piece.into()])
    }
}

/// How many holes a template has.
pub(crate) const fn holes(template: &str) -> usize {
    let (bytes, mut at, mut found) = (template.as_bytes(), 1, 0);
    while at < bytes.len() {
        if bytes[at - 1] == b'{' && bytes[at] == b'}' {
            found += 1;
        }
        at += 1;
    }
    found
}

/// Words as a template, in which options, texts and other words take the places of `{}`.
macro_rules! words {
    ($template:literal, $($piece:expr),+ $(,)?) => {{
        let pieces = [$($crate::model::words::Words::from($piece)),+];
        const { assert!($crate::model::words::holes($template) == [$(stringify!($piece)),+].len()) };
        $crate::model::words::Words::filled($template, pieces)
    }};
}

pub(crate) use words;
