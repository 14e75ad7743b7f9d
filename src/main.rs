//! The `stagecut` command: parse, run, and one place for errors and exit codes.

use std::process::ExitCode;

use clap::Parser;
use stagecut::cli::{Cli, run};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(ending) => ending.into(),
        Err(error) => {
            error.print();
            error.exit_code()
        }
    }
}
