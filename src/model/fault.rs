//! What can be wrong with an input: where, what was found, what was expected, and what to do.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use super::setting::{ALL_STAGES, MEMORY_LIMIT, STAGES};
pub use super::words::{Asked, Piece, Setting, Words, Writer};
use super::words::{BY_FIELD, words};

/// Everything that is wrong with one input, found in one pass.
#[derive(Debug, Clone, PartialEq)]
pub struct InputError {
    /// The file, where there is one.
    pub path: Option<PathBuf>,
    /// At least one fault.
    pub faults: Vec<Fault>,
}

impl InputError {
    /// Faults of a file.
    pub fn in_file(path: &Path, faults: impl Into<Vec<Fault>>) -> Self {
        Self {
            path: Some(path.to_owned()),
            faults: faults.into(),
        }
    }

    /// How many faults there are, and in what: the heading of a list of them.
    pub fn title(&self) -> String {
        let count = self.faults.len();
        let plural = if count == 1 { "fault" } else { "faults" };
        match &self.path {
            Some(path) => format!("{count} {plural} in `{}`", path.display()),
            None => format!("{count} {plural} in the problem that is asked"),
        }
    }

    /// Whether it proves that there is no plan, rather than that something is wrong with the question.
    pub fn is_infeasible(&self) -> bool {
        let proves = |fault: &Fault| matches!(fault.kind, FaultKind::FitsNoMemory { .. });
        !self.faults.is_empty() && self.faults.iter().all(proves)
    }

    /// One fault of the options rather than of a file.
    pub fn option(at: impl Into<Piece>, kind: FaultKind) -> Self {
        Self {
            path: None,
            faults: vec![Fault::new(at, kind)],
        }
    }
}

impl InputError {
    /// The title and the faults, in one line, with options as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        /// A file with more has one cause.
        const MOST_SAID: usize = 10;
        let said = self.faults.iter().take(MOST_SAID);
        let said: Vec<String> = said.map(|fault| fault.written(writer)).collect();
        let more = match self.faults.len().saturating_sub(MOST_SAID) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{}: {}{more}", self.title(), said.join("; "))
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(BY_FIELD))
    }
}

impl std::error::Error for InputError {}

/// One fault and its place. Its text is fit for a terminal, whatever the input holds: see [`printable`].
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Where: a position such as `line 3, column 7`, a path such as ``layers[2] `conv1` ``, or an option.
    pub at: Piece,
    /// What is wrong there.
    pub kind: FaultKind,
    /// The line of the input, where the fault has one.
    pub excerpt: Option<Box<Excerpt>>,
}

/// A line of the input and the place in it that a fault points to.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt {
    /// Line, from 1.
    pub line: usize,
    /// Text of the line, or the part of a long one around the place.
    pub text: String,
    /// The bytes of `text` that are wrong.
    pub marked: std::ops::Range<usize>,
}

impl Fault {
    /// A fault at a place.
    pub fn new(at: impl Into<Piece>, kind: FaultKind) -> Self {
        Self {
            at: at.into(),
            kind,
            excerpt: None,
        }
    }

    /// Where it is and what is wrong, with options as `writer` has them.
    pub fn written(&self, writer: Writer) -> String {
        let (found, expected) = self.kind.parts();
        printable(&format!(
            "{}: found {}, expected {}",
            self.at.written(writer),
            found.written(writer),
            expected.written(writer)
        ))
    }

    /// The fault of a file that cannot be read.
    pub fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        // Whoever reads files may refuse one for a reason of its own.
        if let Some(kind) = error.get_ref().and_then(|own| own.downcast_ref::<FaultKind>()) {
            return Self::new("the file", kind.clone());
        }
        let similar = match error.kind() {
            std::io::ErrorKind::NotFound => similar_file(path),
            _ => None,
        };
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "there is none of that name".into(),
            std::io::ErrorKind::IsADirectory => "it is a folder".into(),
            _ => error.to_string(),
        };
        Self::new("the file", FaultKind::Unreadable { reason, similar })
    }

    /// The same fault with the line it stands in.
    pub fn with_excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = Some(Box::new(excerpt));
        self
    }

    /// The same fault without the words of its file.
    pub(crate) fn unquoted(mut self) -> Self {
        const QUOTES: [char; 3] = ['`', '"', '\''];
        const NOT_REPEATED: &str = "something else, which is not repeated here";
        self.excerpt = None;
        if let FaultKind::UnknownField { known, .. } | FaultKind::UnknownValue { known, .. } = &self.kind {
            let expected = list(known);
            let found = "another word".into();
            self.kind = FaultKind::WrongType { found, expected };
        }
        match &mut self.kind {
            FaultKind::Syntax { found, .. }
            | FaultKind::Malformed { found, .. }
            | FaultKind::WrongType { found, .. }
                if found.contains(QUOTES) =>
            {
                *found = NOT_REPEATED.into();
            }
            FaultKind::Contradiction { found, .. }
            | FaultKind::Conflict { found, .. }
            | FaultKind::Unsupported { found, .. }
                if found.to_string().contains(QUOTES) =>
            {
                *found = NOT_REPEATED.into();
            }
            FaultKind::UnknownName { name, similar, .. } => {
                (*name, *similar) = ("...".into(), None);
            }
            FaultKind::DuplicateName { name, .. } => *name = "...".into(),
            FaultKind::Cycle { path } => *path = vec!["...".into()],
            _ => {}
        }
        self
    }

    /// The same fault, of another file than the one that the error names.
    pub fn in_other(mut self, file: &str) -> Self {
        self.at = format!("`{file}`, {}", self.at).into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(BY_FIELD))
    }
}

impl std::error::Error for Fault {}

/// The kinds of fault.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The file could not be read at all.
    Unreadable {
        /// What the system says.
        reason: String,
        /// A file that exists and is named alike.
        similar: Option<String>,
    },
    /// The text is not of the format it claims to be.
    Syntax {
        /// What stands there.
        found: String,
        /// What the format asks for.
        expected: String,
    },
    /// Text that the parser of its format refuses, where it can be said how it is written right.
    Malformed {
        /// What stands there.
        found: String,
        /// What the format asks for.
        expected: String,
        /// How to write it.
        remedy: Words,
    },
    /// A value of another type than its field has.
    WrongType {
        /// What stands there.
        found: String,
        /// The type of the field.
        expected: String,
    },
    /// A field that the format does not have.
    UnknownField {
        /// The field.
        name: String,
        /// Fields that exist there.
        known: Vec<String>,
    },
    /// A word where one of a few others is expected.
    UnknownValue {
        /// The word.
        found: String,
        /// Words that are allowed there.
        known: Vec<String>,
    },
    /// A reference to something that does not exist.
    UnknownName {
        /// What kind of thing is meant.
        what: &'static str,
        /// The name used.
        name: String,
        /// A name that exists and looks like it.
        similar: Option<String>,
    },
    /// Two things of one name.
    DuplicateName {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A directed cycle of tensors.
    Cycle {
        /// Layers along the cycle, the first repeated at the end.
        path: Vec<String>,
    },
    /// A number outside its range.
    BadNumber {
        /// The number.
        found: f64,
        /// The range.
        expected: &'static str,
    },
    /// A total beyond what stays exact.
    Overflow {
        /// The total.
        found: f64,
        /// The most that it may be, a power of two.
        most: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// Nothing to place.
    EmptyNetwork,
    /// Two fields, or none, where exactly one is expected; or a field that has no meaning there.
    Contradiction {
        /// What was found.
        found: Words,
        /// What was expected.
        expected: Words,
    },
    /// Things that do not go together, where there is a way out to name.
    Conflict {
        /// What was found.
        found: Words,
        /// What was expected.
        expected: Words,
        /// What to do instead.
        remedy: Words,
    },
    /// A needed field or option is missing.
    Missing {
        /// The field or option.
        what: String,
        /// What it should say.
        expected: Words,
        /// How to give it.
        remedy: Words,
    },
    /// More non-empty stages asked for than there are items.
    TooManyStages {
        /// Stages asked for.
        stages: usize,
        /// Items to fill them with.
        items: usize,
        /// The tie that keeps most layers together, in words.
        tied: Option<String>,
    },
    /// A layer that no device can run or hold.
    FitsNoDevice {
        /// Why not.
        reason: String,
    },
    /// A layer that no stage could hold, even if it held nothing else: a proof that there is no plan.
    FitsNoMemory {
        /// What it needs.
        needs_bytes: u64,
        /// The most that any stage has.
        most_bytes: u64,
        /// Names of the device kinds.
        of: String,
    },
    /// A feature that this program does not have.
    Unsupported {
        /// What was asked.
        found: Words,
        /// What there is.
        expected: Words,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, expected) = self.parts();
        write!(f, "found {found}, expected {expected}")
    }
}

impl std::error::Error for FaultKind {}

impl FaultKind {
    /// What was found, and what was expected.
    pub fn parts(&self) -> (Words, Words) {
        match self {
            Self::Syntax { found, expected }
            | Self::Malformed { found, expected, .. }
            | Self::WrongType { found, expected } => (found.as_str().into(), expected.as_str().into()),
            Self::Contradiction { found, expected }
            | Self::Conflict { found, expected, .. }
            | Self::Unsupported { found, expected } => (found.clone(), expected.clone()),
            Self::Missing { what, expected, .. } => (format!("no {what}").into(), expected.clone()),
            Self::TooManyStages { stages, items, tied } => {
                let tied = in_brackets(tied.as_deref());
                (
                    words!("{} stages under {}", stages.to_string(), ALL_STAGES),
                    format!("at most the {items} items that can be told apart{tied}").into(),
                )
            }
            plain => {
                let (found, expected) = plain.plain_parts();
                (found.into(), expected.into())
            }
        }
    }

    /// The same of those that name no option.
    fn plain_parts(&self) -> (String, String) {
        match self {
            Self::Unreadable { reason, .. } => (format!("no readable file ({reason})"), "one".into()),
            Self::UnknownField { name, known } => (format!("unknown field `{name}`"), list(known)),
            Self::UnknownValue { found, known } => (format!("`{found}`"), list(known)),
            Self::UnknownName { what, name, .. } => (format!("`{name}`"), format!("the name of a {what}")),
            Self::DuplicateName { what, name } => (
                format!("a second {what} named `{name}`"),
                "every name once".into(),
            ),
            Self::Cycle { path } => (format!("the cycle {}", arrows(path)), "an acyclic network".into()),
            Self::BadNumber { found, expected } => (in_digits(*found), (*expected).into()),
            Self::Overflow { found, most, unit } => (
                format!("a total of {found:.3e}"),
                format!("at most 2^{} (about {:.3e}) {unit}", most.ilog2(), *most as f64),
            ),
            Self::EmptyNetwork => ("no layers".into(), "at least one".into()),
            Self::FitsNoDevice { reason } => (
                format!("a layer that fits no device ({reason})"),
                "one that some device can run".into(),
            ),
            Self::FitsNoMemory {
                needs_bytes,
                most_bytes,
                of,
            } => (
                format!("a layer that needs {needs_bytes} bytes alone"),
                format!("at most the {most_bytes} bytes of `{of}`"),
            ),
            _ => Default::default(),
        }
    }

    /// What the reader can do about it, where something general can be said.
    pub fn hint(&self) -> Option<Words> {
        let plain = match self {
            Self::Unreadable {
                similar: Some(name), ..
            }
            | Self::UnknownName {
                similar: Some(name), ..
            } => format!("did you mean `{name}`?"),
            Self::Unreadable { .. } => "check the path and its permissions".into(),
            Self::UnknownName { what, .. } => format!("add the {what}, or correct the name"),
            Self::Syntax { .. } => "`stagecut import --help` lists the formats".into(),
            Self::WrongType { .. } => {
                "`stagecut schema` prints what every field of an instance may hold".into()
            }
            Self::UnknownField { name, known } | Self::UnknownValue { found: name, known } => {
                format!("did you mean `{}`?", closest(name, known)?)
            }
            Self::DuplicateName { what, .. } => format!("rename or remove one {what}"),
            Self::Cycle { .. } => "unroll the loop, or give layers that belong together one `tie`".into(),
            Self::BadNumber { found, .. } if !found.is_finite() => {
                "correct it where the file was made; such values come from divisions by zero".into()
            }
            Self::BadNumber { found, .. } if *found >= 1e9 => "check the unit".into(),
            Self::Overflow { .. } => "check the unit: times are in ms, sizes in bytes".into(),
            Self::EmptyNetwork => "add a layer; a native instance lists them under `network.layers`".into(),
            Self::FitsNoDevice { .. } => "give the layer a time on a device kind".into(),
            Self::BadNumber { .. } | Self::Contradiction { .. } | Self::Unsupported { .. } => return None,
            Self::Conflict { remedy, .. } | Self::Malformed { remedy, .. } | Self::Missing { remedy, .. } => {
                return Some(remedy.clone());
            }
            Self::TooManyStages { tied: None, .. } => {
                return Some(words!("lower {}, or drop {}", STAGES, ALL_STAGES));
            }
            Self::TooManyStages { .. } => {
                let rest = ", or take the `tie` out of the instance if each end may keep a copy of its own";
                return Some(words!("lower {}, drop {}{}", STAGES, ALL_STAGES, rest));
            }
            Self::FitsNoMemory { needs_bytes, .. } => {
                return Some(words!(
                    "raise `memory_bytes` or {} to {} at least, or lift it: {}",
                    MEMORY_LIMIT,
                    needs_bytes.to_string(),
                    MEMORY_LIMIT.given("none")
                ));
            }
        };
        Some(plain.into())
    }
}

/// A file in the same folder whose name looks like that of `path`.
fn similar_file(path: &Path) -> Option<String> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_file());
    let names: Vec<String> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    // Without extensions: few as they are, they would make any two names look alike.
    let stem = |name: &str| {
        Path::new(name)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let stems: Vec<String> = names.iter().map(|name| stem(name)).collect();
    let similar = closest(&stem(&path.to_string_lossy()), &stems)?;
    names.iter().find(|name| stem(name) == similar).cloned()
}

/// The name among `known` that looks most like `name`, if one is near enough to be meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    // Jaro-Winkler likeness above which two names read as a slip of the other; found by trying typical slips.
    const ALIKE: f64 = 0.8;
    // Nobody mistypes a longer name, and the likeness takes time quadratic in the length.
    const LONGEST: usize = 200;
    if name.len() > LONGEST {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate.as_str()))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A number as people write it: a large one with an exponent.
fn in_digits(value: f64) -> String {
    match value.is_finite() && value.abs() >= 1e7 {
        true => format!("{value:e}"),
        false => value.to_string(),
    }
}

/// Words behind others, where there are any.
fn in_brackets(words: Option<&str>) -> String {
    words.map_or_else(String::new, |words| format!(" ({words})"))
}

/// Words in backticks: `one of` several, or the only one there is.
fn list(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.len() {
        0 => "nothing here".into(),
        1 => quoted[0].clone(),
        _ => format!("one of {}", quoted.join(", ")),
    }
}

/// A path with arrows; the middle of a long one is left out.
fn arrows(path: &[String]) -> String {
    const MOST: usize = 12;
    let quoted = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(" -> ")
    };
    if path.len() <= MOST {
        return quoted(path);
    }
    let (head, tail) = (&path[..MOST / 2], &path[path.len() - MOST / 2..]);
    let left_out = path.len() - head.len() - tail.len();
    format!("{} -> ({left_out} more) -> {}", quoted(head), quoted(tail))
}

/// Text that may repeat any input, made fit for a terminal: control characters are escaped, what stands in backticks is
/// cut to a readable length, and so is the whole.
pub fn printable(text: &str) -> String {
    const LONGEST_NAME: usize = 80;
    const LONGEST_TEXT: usize = 2_000;
    let parts = text
        .split('`')
        .take(LONGEST_TEXT)
        .enumerate()
        .map(|(i, part)| match i % 2 {
            0 => shortened(part, LONGEST_TEXT),
            _ => shortened(part, LONGEST_NAME),
        });
    let joined = parts.collect::<Vec<_>>().join("`");
    visible(&shortened(&joined, LONGEST_TEXT)).into_owned()
}

/// Text in which characters that a terminal or a page would obey, rather than show, are written out, such as `\u{1b}`. Whatever holds
/// names of an input goes through here where it becomes a report or a drawing.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        false => Cow::Borrowed(text),
        true => {
            let written = |c: char| match is_obeyed(c) {
                true => c.escape_default().collect::<Vec<_>>(),
                false => vec![c],
            };
            Cow::Owned(text.chars().flat_map(written).collect())
        }
    }
}

/// Control characters, ends of lines among them, and those that turn the direction of writing (Unicode, annex 9).
pub(crate) fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns
}

/// The beginning of a text that is longer than `most` characters.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_control_characters_escaped() {
        let fault = Fault::new(
            format!("layers[0] `{}`", "x".repeat(1_000)),
            FaultKind::UnknownName {
                what: "layer",
                name: "\u{1b}[31m".into(),
                similar: None,
            },
        );
        let text = fault.to_string();
        assert!(text.len() < 200, "{text}");
        assert!(text.contains("x...`") && text.contains("`\\u{1b}[31m`"), "{text}");
    }

    #[test]
    fn a_long_cycle_shows_its_ends() {
        let path: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let text = FaultKind::Cycle { path }.to_string();
        assert!(text.contains("`5` -> (88 more) -> `94`"), "{text}");
    }
}
