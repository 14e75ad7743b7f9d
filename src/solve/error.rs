//! Why there is no answer.

use std::path::PathBuf;

use crate::check::Violation;
use crate::formulations::solver::SolverError;
use crate::model::fault::{InputError, Words};
use crate::model::words::words;

/// Why there is no answer. That no plan exists is an answer: a [`Plan`](crate::Plan) whose status says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The instance or the options are faulty, or contradict each other: every fault with its place. Options are named by
    /// their fields, such as `stages`.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The method is not for this problem.
    #[error("{}", inapplicable(method, reason))]
    Inapplicable {
        /// The method.
        method: &'static str,
        /// Why.
        reason: Words,
    },
    /// No mixed-integer program of this crate says what is asked.
    #[error("{}", no_program(reason))]
    NoProgram {
        /// Why.
        reason: Words,
    },
    /// A program is written as LP or MPS, by the extension of the file's name.
    #[error("found output `{}`, expected a name that ends in `.lp` or `.mps`", path.display())]
    UnknownProgramFormat {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("`{}` could not be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// HiGHS broke down.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// A method made a plan that the checker refuses: a fault of this library.
    #[error("the plan of `{method}` fails its check: {}", in_words(violations))]
    Rejected {
        /// The method.
        method: &'static str,
        /// What the checker says.
        violations: Vec<Violation>,
    },
    /// Two results that cannot both be right: a fault of this library.
    #[error("{}", contradiction(.0))]
    Contradiction(Words),
}

impl Error {
    /// The same, with what it says of options in pieces; not so the faults of an input.
    pub fn words(&self) -> Words {
        match self {
            Self::Inapplicable { method, reason } => inapplicable(method, reason),
            Self::NoProgram { reason } => no_program(reason),
            Self::Contradiction(what) => contradiction(what),
            other => other.to_string().into(),
        }
    }
}

fn inapplicable(method: &str, reason: &Words) -> Words {
    words!("method `{}` does not apply: {}", method, reason.clone())
}

fn contradiction(what: &Words) -> Words {
    words!("two results contradict each other: {}", what.clone())
}

fn no_program(reason: &Words) -> Words {
    words!("no program can say this: {}", reason.clone())
}

fn in_words(violations: &[Violation]) -> String {
    let words: Vec<String> = violations.iter().map(ToString::to_string).collect();
    words.join("; ")
}
