//! What the user is told when something is wrong, rendered in one place.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use crate::exact::highs::SolverError;
use crate::fault::{Fault, InputError};

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The input is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The solver broke down.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// Two flags, or a flag and a file name, do not go together.
    #[error("{0}")]
    Usage(String),
    /// A result could not be written.
    #[error("`{}` could not be written: {source}", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The plan that was found does not pass the checker: a fault of this program.
    #[error("the plan fails its own check: {0}; please report this with the instance")]
    BadPlan(String),
}

impl CliError {
    /// A write to `path` that failed.
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// The exit code that it means.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Input(_) | Self::Usage(_) | Self::Write { .. } => 2,
            Self::Solver(_) | Self::BadPlan(_) => 1,
        })
    }

    /// Prints it to stderr, with every fault and its hint; colours follow the terminal and `NO_COLOR`.
    pub fn print(&self) {
        let plain = !std::io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some();
        let theme = match plain {
            true => GraphicalTheme::unicode_nocolor(),
            false => GraphicalTheme::unicode(),
        };
        let width = super::output::width(&std::io::stderr());
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width);
        let mut text = String::new();
        if handler.render_report(&mut text, &Report::new(self)).is_err() {
            text = format!("error: {self}\n");
        }
        anstream::eprint!("{text}");
    }
}

/// The most faults that are shown; a file with more has one cause.
const MOST_SHOWN: usize = 30;

/// An error as miette renders it.
#[derive(Debug, thiserror::Error)]
#[error("{title}")]
struct Report {
    title: String,
    faults: Vec<FaultReport>,
    more: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FaultReport(Fault);

impl Report {
    fn new(error: &CliError) -> Self {
        let faults: &[Fault] = match error {
            CliError::Input(input) => &input.faults,
            _ => &[],
        };
        Self {
            title: error.to_string(),
            faults: faults.iter().take(MOST_SHOWN).cloned().map(FaultReport).collect(),
            more: faults.len().saturating_sub(MOST_SHOWN),
        }
    }
}

impl Diagnostic for Report {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        (self.more > 0).then(|| -> Box<dyn std::fmt::Display> { Box::new(format!("and {} more faults", self.more)) })
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.faults.iter().map(|fault| fault as &dyn Diagnostic)))
    }
}

impl Diagnostic for FaultReport {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let hint = self.0.kind.hint()?;
        Some(Box::new(hint))
    }
}
