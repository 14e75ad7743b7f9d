//! What is wrong, for a caller that makes an exception of it.

use serde::Serialize;

use super::asked;
use crate::app::cli::CliError;
use crate::formulations::solver::SolverError;
use crate::model::fault::{Fault, InputError};
use crate::solve::planning;

/// Why there is no answer.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: Kind,
    /// All of it, in words.
    pub message: String,
    /// The file that is faulty, where there is one.
    pub path: Option<String>,
    /// Every fault of an input.
    pub faults: Vec<Told>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The input or what is asked of it is wrong.
    Input,
    /// The input proves that there is no plan.
    Infeasible,
    /// A method or a target is not for this.
    Inapplicable,
    /// A file could not be written.
    Write,
    /// HiGHS broke down.
    Solver,
    /// A fault of this program.
    Internal,
}

/// A fault in its parts.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Where it is.
    pub place: String,
    /// What stands there.
    pub found: String,
    /// What should.
    pub expected: String,
    /// What to do about it, where something can be said.
    pub remedy: Option<String>,
    /// The line that it stands in, where it has one.
    pub excerpt: Option<String>,
    /// The same, in a sentence.
    pub text: String,
}

impl From<&Fault> for Told {
    fn from(fault: &Fault) -> Self {
        // Every fault reads "found ..., expected ...".
        let text = fault.kind.to_string();
        let (found, expected) = text.rsplit_once(", expected ").unwrap_or((&text, ""));
        Self {
            place: asked::as_keyword(&fault.at),
            found: asked::as_keywords(found.strip_prefix("found ").unwrap_or(found)),
            expected: asked::as_keywords(expected),
            remedy: fault.kind.hint().map(|hint| asked::as_keywords(&hint)),
            excerpt: fault.excerpt.as_ref().map(|excerpt| excerpt.text.clone()),
            text: asked::as_keywords(&fault.to_string()),
        }
    }
}

impl Failure {
    pub(super) fn internal(message: String) -> Self {
        Self::other(Kind::Internal, message)
    }

    fn other(kind: Kind, message: String) -> Self {
        Self {
            kind,
            message: asked::as_keywords(&message),
            path: None,
            faults: Vec::new(),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self {
            kind: match error.is_infeasible() {
                true => Kind::Infeasible,
                false => Kind::Input,
            },
            message: asked::as_keywords(&error.to_string()),
            path: error.path.as_ref().map(|path| path.display().to_string()),
            faults: error.faults.iter().map(Told::from).collect(),
        }
    }
}

impl From<SolverError> for Failure {
    fn from(error: SolverError) -> Self {
        Self::other(Kind::Solver, error.to_string())
    }
}

impl From<planning::Error> for Failure {
    fn from(error: planning::Error) -> Self {
        match error {
            planning::Error::Inapplicable { .. } | planning::Error::NoProgram { .. } => {
                Self::other(Kind::Inapplicable, error.to_string())
            }
            other => CliError::from(other).into(),
        }
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        match error {
            CliError::Input(error) => error.into(),
            CliError::Solver(error) => error.into(),
            CliError::Usage(message) => Self::other(Kind::Input, message),
            CliError::Write { .. } | CliError::NoPlace { .. } => Self::other(Kind::Write, error.to_string()),
            CliError::Broken(_) => Self::internal(error.to_string()),
        }
    }
}
