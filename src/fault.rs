//! What can be wrong with an input: where, what was found, what was expected, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

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

    /// One fault of the options rather than of a file.
    pub fn option(at: impl Into<String>, kind: FaultKind) -> Self {
        Self {
            path: None,
            faults: vec![Fault::new(at, kind)],
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len();
        let plural = if count == 1 { "fault" } else { "faults" };
        match &self.path {
            Some(path) => write!(f, "{count} {plural} in `{}`", path.display()),
            None => write!(f, "{count} {plural} in the options"),
        }
    }
}

impl std::error::Error for InputError {}

/// One fault and its place.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct Fault {
    /// Where: a position such as `line 3, column 7`, or a path such as ``layers[2] `conv1` ``.
    pub at: String,
    /// What is wrong there.
    pub kind: FaultKind,
}

impl Fault {
    /// A fault at a place.
    pub fn new(at: impl Into<String>, kind: FaultKind) -> Self {
        Self { at: at.into(), kind }
    }
}

/// The kinds of fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FaultKind {
    /// The file could not be read at all.
    #[error("found no readable file ({0}), expected an instance or a model")]
    Unreadable(String),
    /// The text is not of the format it claims to be.
    #[error("found {found}, expected {expected}")]
    Syntax {
        /// What stands there.
        found: String,
        /// What the format asks for.
        expected: String,
    },
    /// A field that the format does not have.
    #[error("found unknown field `{name}`, expected one of {}", list(known))]
    UnknownField {
        /// The field.
        name: String,
        /// Fields that exist there.
        known: Vec<String>,
    },
    /// A word where one of a few others is expected.
    #[error("found `{found}`, expected one of {}", list(known))]
    UnknownValue {
        /// The word.
        found: String,
        /// Words that are allowed there.
        known: Vec<String>,
    },
    /// A reference to something that does not exist.
    #[error("found `{name}`, expected the name of a {what}")]
    UnknownName {
        /// What kind of thing is meant.
        what: &'static str,
        /// The name used.
        name: String,
        /// A name that exists and looks like it.
        similar: Option<String>,
    },
    /// Two things of one name.
    #[error("found a second {what} named `{name}`, expected every name once")]
    DuplicateName {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A directed cycle of tensors.
    #[error("found the cycle {}, expected an acyclic network", path.join(" -> "))]
    Cycle {
        /// Layers along the cycle, the first repeated at the end.
        path: Vec<String>,
    },
    /// A number outside its range.
    #[error("found {found}, expected {expected}")]
    BadNumber {
        /// The number.
        found: f64,
        /// The range.
        expected: &'static str,
    },
    /// A total beyond what stays exact.
    #[error("found a total of {found:.3e}, expected at most 2^53 (about 9.007e15) {unit}")]
    Overflow {
        /// The total.
        found: f64,
        /// Its unit.
        unit: &'static str,
    },
    /// Nothing to place.
    #[error("found no layers, expected at least one")]
    EmptyNetwork,
    /// Two fields, or none, where exactly one is expected; or a field that has no meaning there.
    #[error("found {found}, expected {expected}")]
    Contradiction {
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A needed field or option is missing.
    #[error("found no {what}, expected {expected}")]
    Missing {
        /// The field or option.
        what: String,
        /// What it should say.
        expected: String,
        /// How to give it.
        remedy: String,
    },
    /// More non-empty stages asked for than there are items.
    #[error(
        "found {stages} stages under `--all-stages`, expected at most the {items} items that can be told apart"
    )]
    TooManyStages {
        /// Stages asked for.
        stages: usize,
        /// Items to fill them with.
        items: usize,
    },
    /// A layer that no device can run or hold.
    #[error("found a layer that fits no device ({reason}), expected one that some device can run and hold")]
    FitsNoDevice {
        /// Why not.
        reason: String,
    },
    /// A feature that this program does not have.
    #[error("found {found}, expected {expected}")]
    Unsupported {
        /// What was asked.
        found: String,
        /// What there is.
        expected: String,
    },
}

impl FaultKind {
    /// What the reader can do about it, where something general can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable(_) => Some("check the path and its permissions".into()),
            Self::Syntax { .. } => {
                Some("`stagecut import --help` lists the formats, with an example of each".into())
            }
            Self::UnknownField { name, known } | Self::UnknownValue { found: name, known } => {
                closest(name, known).map(|name| format!("did you mean `{name}`?"))
            }
            Self::UnknownName { similar, what, .. } => Some(match similar {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("add the {what}, or correct the name"),
            }),
            Self::DuplicateName { what, .. } => Some(format!("rename or remove one {what}")),
            Self::Cycle { .. } => {
                Some("unroll the loop, or give layers that belong together one `tie`".into())
            }
            Self::BadNumber { .. } => Some("correct the number; times are in ms, sizes in bytes".into()),
            Self::Overflow { .. } => Some("check the unit: times are in ms, sizes in bytes".into()),
            Self::EmptyNetwork => Some("add layers to `network.layers`".into()),
            Self::Contradiction { .. } => None,
            Self::Missing { remedy, .. } => Some(remedy.clone()),
            Self::TooManyStages { .. } => Some("lower `--stages`, or drop `--all-stages`".into()),
            Self::FitsNoDevice { .. } => {
                Some("give the layer a time on a device kind, or raise `memory_bytes` (`--memory-limit none` lifts it)".into())
            }
            Self::Unsupported { .. } => None,
        }
    }
}

/// The name among `known` that looks most like `name`, if one is near enough to be meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    // Jaro-Winkler likeness above which two names read as a slip of the other; found by trying typical slips.
    const ALIKE: f64 = 0.8;
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate.as_str()))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn list(words: &[String]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
