//! What the user is told when something is wrong, rendered in one place.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};

use crate::app::flags::as_flags;
use crate::formulations::solver::SolverError;
use crate::model::fault::{Excerpt, Fault, InputError, Words, printable};
use crate::solve::planning;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The input is wrong.
    #[error("{}", .0.written(as_flags))]
    Input(#[from] InputError),
    /// The solver broke down.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// Two flags, or a flag and a file name, do not go together.
    #[error("{}", .0.written(as_flags))]
    Usage(Words),
    /// A result could not be written.
    #[error("`{}` could not be written: {source}", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A result could not be written where it is to go, which is known before it is looked for.
    #[error("`{}` cannot be written: {source}", path.display())]
    NoPlace {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A plan that was found does not pass the checker, or two results cannot both be right: a fault of this program.
    #[error("{0}; please report this with the instance")]
    Broken(String),
}

impl From<planning::Error> for CliError {
    fn from(error: planning::Error) -> Self {
        match error {
            planning::Error::Input(error) => error.into(),
            planning::Error::Solver(error) => error.into(),
            planning::Error::Write { path, source } => Self::Write { path, source },
            planning::Error::Inapplicable { .. }
            | planning::Error::NoProgram { .. }
            | planning::Error::UnknownProgramFormat { .. } => Self::Usage(error.words()),
            planning::Error::Rejected { .. } | planning::Error::Contradiction(_) => {
                Self::Broken(error.words().written(as_flags))
            }
        }
    }
}

impl CliError {
    /// A plan that was found fails a check of this program's own.
    pub(super) fn bad_plan(what: impl std::fmt::Display) -> Self {
        Self::Broken(format!("the plan fails its own check: {what}"))
    }

    /// A write to `path` that failed.
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// The exit code that it means.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The same as a number.
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(input) if input.is_infeasible() => 3,
            Self::Input(_) | Self::Usage(_) | Self::NoPlace { .. } => 2,
            Self::Write { .. } | Self::Solver(_) | Self::Broken(_) => 1,
        }
    }

    /// Prints it to stderr, with every fault and its hint; colours follow the terminal and `NO_COLOR`.
    pub fn print(&self) {
        let plain = !std::io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some();
        let (theme, title) = match plain {
            true => (GraphicalTheme::unicode_nocolor(), anstyle::Style::new()),
            false => (
                GraphicalTheme::unicode(),
                anstyle::AnsiColor::Red.on_default().bold(),
            ),
        };
        let width = super::output::width(&std::io::stderr());
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width);
        let (heading, faults): (String, &[Fault]) = match self {
            Self::Input(input) => (input.title(), &input.faults),
            other => (other.to_string(), &[]),
        };
        let mut text = format!("{title}error{title:#}: {}\n", printable(&heading));
        for fault in faults.iter().take(MOST_SHOWN) {
            text.push('\n');
            if handler.render_report(&mut text, &Report(fault)).is_err() {
                text.push_str(&format!("  {}\n", fault.written(as_flags)));
            }
        }
        if faults.len() > MOST_SHOWN {
            text.push_str(&format!("\nand {} more faults\n", faults.len() - MOST_SHOWN));
        }
        anstream::eprint!("{text}");
    }
}

/// The most faults that are shown; a file with more has one cause.
const MOST_SHOWN: usize = 30;

/// A fault as miette renders it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.written(as_flags))]
struct Report<'a>(&'a Fault);

impl Diagnostic for Report<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let hint = printable(&self.0.kind.hint()?.written(as_flags));
        Some(Box::new(hint))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0
            .excerpt
            .as_deref()
            .map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let marked = self.0.excerpt.as_ref()?.marked.clone();
        let label = LabeledSpan::new(None, marked.start, marked.len());
        Some(Box::new(std::iter::once(label)))
    }
}

/// One line is all there is to read, whatever span is asked for.
impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        _: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let all = SourceSpan::from(0..self.text.len());
        let contents =
            MietteSpanContents::new(self.text.as_bytes(), all, self.line - 1, self.marked.start, 1);
        Ok(Box::new(contents))
    }
}
