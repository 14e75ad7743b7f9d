//! Writing results and notes.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;

use crate::app::report::Style;
use crate::input::whole;
use crate::model::fault::{is_obeyed, visible};

use super::CliError;

/// Columns where nothing says otherwise.
const DEFAULT_WIDTH: usize = 100;

/// A note on stderr.
pub(super) fn note(text: &str) {
    anstream::eprintln!("note: {}", visible(text));
}

/// A warning on stderr: what makes an answer another one than was asked for.
pub(super) fn warning(text: &str) {
    anstream::eprintln!("warning: {}", visible(text));
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
            Err(CliError::Usage(
                format!(
                    "found output `{}`, expected a name that ends in {}, which is what this command writes",
                    path.display(),
                    names.join(" or ")
                )
                .into(),
            ))
        }
    }
}

/// The same for formats that files are named by, `.txt` for text.
///
/// # Errors
///
/// A name that promises a format which is none of these.
pub(super) fn format_of<F: ValueEnum + Copy>(
    path: Option<&Path>,
    asked: Option<F>,
    default: F,
) -> Result<F, CliError> {
    let names = F::value_variants().iter().rev().map(|&format| {
        let name = format
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned());
        (if name == "text" { "txt".to_owned() } else { name }, format)
    });
    let names: Vec<(String, F)> = names.collect();
    let known: Vec<(&str, F)> = names
        .iter()
        .map(|(name, format)| (name.as_str(), *format))
        .collect();
    self::format(path, asked, default, &known)
}

/// Whether a result can be written there: tried before a long search, not after it.
///
/// # Errors
///
/// [`CliError::NoPlace`], or that stdout is closed where the result is for it.
pub(super) fn check_path(path: Option<&Path>) -> Result<(), CliError> {
    match path {
        None => is_open().map_err(|error| CliError::write(Path::new(STDOUT), error)),
        Some(path) => whole::try_place(path).map_err(|source| CliError::NoPlace {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Whether files can be written into a folder, which is made.
///
/// # Errors
///
/// [`CliError::NoPlace`].
pub(super) fn check_folder(folder: &Path) -> Result<(), CliError> {
    let made = std::fs::create_dir_all(folder);
    made.and_then(|()| whole::try_place(&folder.join("file")))
        .map_err(|source| CliError::NoPlace {
            path: folder.to_owned(),
            source,
        })
}

/// What messages call it.
const STDOUT: &str = "stdout";

/// Whether this process was started without a stdout.
static STARTED_CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks whether stdout is open. Rust's runtime puts `/dev/null` in the place of a closed one, so the program asks before that begins.
pub fn look_for_stdout() {
    STARTED_CLOSED.store(!has_stdout(), Ordering::Relaxed);
}

#[cfg(unix)]
fn has_stdout() -> bool {
    rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok()
}

#[cfg(not(unix))]
fn has_stdout() -> bool {
    true
}

/// The error of a closed stdout, which is none to the runtime.
fn is_open() -> std::io::Result<()> {
    match has_stdout() && !STARTED_CLOSED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(std::io::Error::other("it is closed")),
    }
}

/// Writes a result to a file, which is then there whole or not at all, or to stdout.
///
/// What cannot be written to a file goes to stdout instead: it may
/// have taken hours to find.
pub(super) fn write(text: &str, path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else {
        return say(text);
    };
    write_file(text, path).inspect_err(|_| {
        if say(text).is_ok() {
            note(&format!("`{}` is on stdout instead", path.display()));
        }
    })
}

/// Writes one of several files, which is nowhere else where that fails.
pub(super) fn write_file(text: &str, path: &Path) -> Result<(), CliError> {
    whole::write(path, text).map_err(|error| CliError::write(path, error))
}

/// Prints help or the version, in colour where the terminal has it.
pub(super) fn print_help(help: &clap::Error) -> Result<(), CliError> {
    written(
        is_open()
            .and_then(|()| help.print())
            .and_then(|()| std::io::stdout().flush()),
    )
}

/// Writes to stdout.
fn say(text: &str) -> Result<(), CliError> {
    written(say_line(text))
}

/// Writes to stdout, at once.
pub(super) fn say_line(text: &str) -> std::io::Result<()> {
    let mut stdout = anstream::stdout();
    is_open()?;
    stdout.write_all(in_json(text).as_bytes())?;
    stdout.flush()
}

/// A reader that closes the pipe early, such as `head`, is no error.
fn written(to_stdout: std::io::Result<()>) -> Result<(), CliError> {
    match to_stdout {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::write(Path::new(STDOUT), error)),
        _ => Ok(()),
    }
}

/// JSON that says the same without a character that a terminal would obey: beyond ASCII they stand inside texts alone, where JSON has
/// other words for them. Anything else as it is.
fn in_json(text: &str) -> Cow<'_, str> {
    let is_meant = |c: char| is_obeyed(c) && !c.is_ascii() || c == '\u{7f}';
    match text.starts_with(['{', '[']) && text.contains(is_meant) {
        false => Cow::Borrowed(text),
        true => {
            let written = |c: char| match is_meant(c) {
                true => format!("\\u{:04x}", u32::from(c)),
                false => c.to_string(),
            };
            Cow::Owned(text.chars().map(written).collect())
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
