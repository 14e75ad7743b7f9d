//! Why there is no answer.

use std::path::PathBuf;

use crate::check::Violation;
use crate::formulations::solver::SolverError;
use crate::model::fault::InputError;

/// Why there is no answer. That no plan exists is an answer: a [`Plan`](crate::Plan) whose status says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The instance or the options are faulty, or contradict each other: every fault with its place. Options are named as on
    /// the command line, such as `--stages`.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The method is not for this problem.
    #[error("method `{method}` does not apply: {reason}")]
    Inapplicable {
        /// The method.
        method: &'static str,
        /// Why.
        reason: String,
    },
    /// No mixed-integer program of this crate says what is asked.
    #[error("no program can say this: {reason}")]
    NoProgram {
        /// Why.
        reason: &'static str,
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
    #[error("two results contradict each other: {0}")]
    Contradiction(String),
}

fn in_words(violations: &[Violation]) -> String {
    let words: Vec<String> = violations.iter().map(ToString::to_string).collect();
    words.join("; ")
}
