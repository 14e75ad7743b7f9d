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

/// Starts the program again in its place, where the addresses that it may have are few: glibc sets 64 MiB of them aside for each thread,
/// unless its environment says otherwise.
#[cfg(all(feature = "cli", target_os = "linux"))]
pub fn save_addresses() {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Resource, getrlimit};

    const SETTING: &str = "MALLOC_ARENA_MAX";
    /// Beyond, what threads set aside is a small part.
    const FEW_BYTES: u64 = 1 << 30;
    let are_few = getrlimit(Resource::As)
        .current
        .is_some_and(|bytes| bytes < FEW_BYTES);
    if !are_few || std::env::var_os(SETTING).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        // Where it cannot be started again, it goes on as it is.
        let _ = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(SETTING, "1")
            .exec();
    }
}

/// See Linux.
#[cfg(all(feature = "cli", not(target_os = "linux")))]
pub fn save_addresses() {}

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
