//! How another copy of this program is started: workers of studies, and what reads models that nobody vouches for.
//!
//! The program `stagecut` is its own executable. Where the crate is part of another one, such as an interpreter, that one says with
//! which words it becomes `stagecut`.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// From now on these words start `stagecut`; its arguments come behind them. The first call decides.
pub fn is(words: Vec<OsString>) {
    let _ = WORDS.set(words);
}

/// The words that start `stagecut`, where they are known.
pub(crate) fn words() -> Option<&'static [OsString]> {
    WORDS.get().map(Vec::as_slice).filter(|words| !words.is_empty())
}

/// The command that starts `stagecut`, where its words are known.
pub(crate) fn known() -> Option<Command> {
    let (program, arguments) = words()?.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// The command that starts `stagecut`: as it is known, else this process's executable.
///
/// # Errors
///
/// Where the system does not tell which program this is.
#[cfg(feature = "cli")]
pub(crate) fn command() -> std::io::Result<Command> {
    match known() {
        Some(command) => Ok(command),
        None => Ok(Command::new(std::env::current_exe()?)),
    }
}
