//! What is wrong, for a caller that makes an exception of it.

use serde::Serialize;

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
        let (found, expected) = fault.kind.parts();
        Self {
            place: fault.at.to_string(),
            found: found.to_string(),
            expected: expected.to_string(),
            remedy: fault.kind.hint().map(|hint| hint.to_string()),
            excerpt: fault.excerpt.as_ref().map(|excerpt| excerpt.text.clone()),
            text: fault.to_string(),
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
            message,
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
            message: error.to_string(),
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
            planning::Error::Rejected { .. } | planning::Error::Contradiction(_) => {
                CliError::Broken(error.to_string()).into()
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
            CliError::Usage(message) => Self::other(Kind::Input, message.to_string()),
            CliError::Write { .. } | CliError::NoPlace { .. } => Self::other(Kind::Write, error.to_string()),
            CliError::Broken(_) => Self::internal(error.to_string()),
        }
    }
}
