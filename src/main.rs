//! The `stagecut` command: parse, run, and one place for errors and exit codes.

use std::process::ExitCode;

use stagecut::cli::{parse, run};

fn main() -> ExitCode {
    stagecut::program::save_addresses();
    let ended = match parse(std::env::args_os()) {
        Ok(cli) => run(cli),
        Err(code) => return code.into(),
    };
    match ended {
        Ok(ending) => ending.into(),
        Err(error) => {
            error.print();
            error.exit_code()
        }
    }
}

/// Before the runtime opens `/dev/null` where stdout is closed.
#[ctor::ctor(unsafe)]
fn look_for_stdout() {
    stagecut::cli::look_for_stdout();
}
