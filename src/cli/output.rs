//! Writing results and notes.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use crate::report::Style;
use crate::whole;

use super::CliError;

/// Columns where nothing says otherwise.
const DEFAULT_WIDTH: usize = 100;

/// A note on stderr.
pub(super) fn note(text: &str) {
    anstream::eprintln!("note: {text}");
}

/// A warning on stderr: what makes an answer another one than was asked for.
pub(super) fn warning(text: &str) {
    anstream::eprintln!("warning: {text}");
}

/// Columns of the terminal behind a stream, or a default.
pub(super) fn width(stream: &impl std::os::fd::AsFd) -> usize {
    terminal_size::terminal_size_of(stream).map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// Extensions of files that some command writes, in a format of their own.
const WRITTEN: [&str; 11] = [
    "csv", "dot", "gv", "html", "json", "jsonl", "lp", "mps", "py", "svg", "toml",
];

/// The format of a result: the one asked for, or else what the name of the file promises, or else `default`.
///
/// # Errors
///
/// A name that promises a format which is not among the `known` ones of the command, by extension.
pub(super) fn format<F: Copy>(
    path: Option<&Path>,
    asked: Option<F>,
    default: F,
    known: &[(&str, F)],
) -> Result<F, CliError> {
    let extension = path.and_then(Path::extension).and_then(std::ffi::OsStr::to_str);
    let (Some(path), Some(extension), None) = (path, extension, asked) else {
        return Ok(asked.unwrap_or(default));
    };
    let extension = extension.to_ascii_lowercase();
    if let Some((_, format)) = known.iter().find(|(name, _)| *name == extension) {
        return Ok(*format);
    }
    match WRITTEN.contains(&extension.as_str()) {
        false => Ok(default),
        true => {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("`.{name}`")).collect();
            Err(CliError::Usage(format!(
                "found output `{}`, expected a name that ends in {}, which is what this command writes",
                path.display(),
                names.join(" or ")
            )))
        }
    }
}

/// Whether a result could be written there at all: asked before a long search, not after it.
pub(super) fn check_path(path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else {
        return Ok(());
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return Err(CliError::write(
            path,
            std::io::Error::from(ErrorKind::IsADirectory),
        ));
    }
    match folder.is_none_or(Path::is_dir) {
        true => Ok(()),
        false => Err(CliError::write(
            path,
            std::io::Error::other("its folder does not exist"),
        )),
    }
}

/// Writes a result to a file, which is then there whole or not at all, or to stdout.
///
/// A reader that closes the pipe early, such as `head`, is no error.
pub(super) fn write(text: &str, path: Option<&Path>) -> Result<(), CliError> {
    match path {
        Some(path) => whole::write(path, text).map_err(|error| CliError::write(path, error)),
        None => {
            let written = anstream::stdout().write_all(text.as_bytes());
            match written {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    Err(CliError::write(Path::new("stdout"), error))
                }
                _ => Ok(()),
            }
        }
    }
}

/// How a report for stdout looks: colour and width follow the terminal, and a file gets neither.
pub(super) fn style(path: Option<&Path>) -> Style {
    let stdout = std::io::stdout();
    let shown = path.is_none() && stdout.is_terminal();
    Style {
        width: if shown { width(&stdout) } else { DEFAULT_WIDTH },
        color: shown && std::env::var_os("NO_COLOR").is_none(),
        ..Style::default()
    }
}
