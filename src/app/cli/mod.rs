//! The command line: what each command reads, runs and prints.
//!
//! Data go to stdout, everything else to stderr. Exit codes: 0 a plan was found or the check passed; 1 the check failed, a result
//! could not be written, or an internal error; 2 bad usage or input; 3 proved infeasible; 4 stopped by a limit without a plan.

mod args;
mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
mod completions;
mod convert;
mod documents;
mod error;
pub(crate) mod evaluate;
pub(crate) mod export;
mod formulate;
mod given_order;
mod joint;
mod layout;
mod online;
mod output;
mod place;
pub(crate) mod plan;
pub(crate) mod plans;
mod progress;
mod schedule;
mod show;
mod simulate;
pub(crate) mod solve;
pub(crate) mod study;
mod virtual_stages;
pub(crate) mod what_if;

use std::ffi::OsString;
use std::process::ExitCode;

pub use args::Cli;
pub use error::CliError;
pub use output::look_for_stdout;

use args::Command;

use crate::input::import::{self, open};
use crate::model::fault::InputError;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A plan was found, the check passed, or the output was written.
    Done,
    /// The check failed.
    CheckFailed,
    /// There is no plan.
    Infeasible,
    /// A limit came before a plan.
    NothingFound,
}

impl Ending {
    /// The exit code that it means.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::CheckFailed => 1,
            Self::Infeasible => 3,
            Self::NothingFound => 4,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}

/// Parses a command line, its first word the program's name. Help and what is wrong with it are printed here.
///
/// # Errors
///
/// The exit code, where there is nothing to run: 0 behind help that was read.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    use clap::Parser;
    Cli::try_parse_from(words).map_err(|error| {
        if error.use_stderr() {
            // Where that fails, too, there is nobody to tell.
            let _ = error.print();
            return error.exit_code() as u8;
        }
        match output::print_help(&error) {
            Ok(()) => 0,
            Err(error) => {
                error.print();
                error.code()
            }
        }
    })
}

/// Runs a parsed command line.
///
/// # Errors
///
/// What the user must be told, with the exit code it means, see [`CliError::exit_code`].
pub fn run(cli: Cli) -> Result<Ending, CliError> {
    if let Ok(program) = std::env::current_exe() {
        crate::input::program::is(vec![program.into()]);
    }
    let said = open::Said {
        dims: cli.dims,
        trips: cli.trips,
    };
    import::trusting(cli.outside_files, || {
        open::saying(said, || {
            let ending = run_command(cli.command)?;
            let unheard = open::unheard().map(|fault| InputError {
                path: None,
                faults: vec![fault],
            });
            unheard.map_or(Ok(ending), |error| Err(error.into()))
        })
    })
}

fn run_command(command: Command) -> Result<Ending, CliError> {
    match command {
        Command::Plan(args) => plan::plan(&args),
        Command::Solve(args) => solve::solve(&args),
        Command::Bound(args) => solve::bound(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::WhatIf(args) => what_if::what_if(&args),
        Command::Check(args) if args.evaluate => evaluate::evaluate(&args),
        Command::Check(args) => check::check(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Layout(args) => layout::layout(&args),
        Command::Export(args) => export::export(&args),
        Command::Formulate(args) => formulate::formulate(&args),
        Command::Show(args) => show::show(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Schedule(args) => schedule::schedule(&args),
        Command::Online(args) => online::online(&args),
        Command::Place(args) => place::place(&args),
        Command::Import(args) => convert::import(&args),
        Command::Generate(args) => convert::generate(&args),
        Command::Study { command } => study::study(&command),
        #[cfg(feature = "onnx")]
        Command::InferShapes => convert::infer_shapes(),
        Command::Schema { of } => documents::schema(of),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { output } => documents::man(output.as_deref()),
    }
}
