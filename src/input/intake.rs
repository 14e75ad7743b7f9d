//! Everything that is read from the file system: within a limit of bytes, and of time where a file may have no end.
//!
//! A name that an input gives may lead to a device without an end, a pipe that nobody writes to, or a file as large as the disk. So
//! all readers ask here, and `tests/house/layers.rs` holds that nobody reads past it. What is safe to read is said in `docs/security.md`.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::model::fault::FaultKind;

/// The most bytes of a text: a network of a million layers takes half of it. Pipes have the same limit.
pub(crate) const MOST_BYTES: u64 = 512 << 20;

/// The most bytes of a model, which is the limit of protobuf, and of the rows of a study.
pub(crate) const MOST_LARGE_BYTES: u64 = 2 << 30;

/// How long a pipe, or what else tells no length, may take to its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Reads a file of at most [`MOST_BYTES`].
///
/// # Errors
///
/// What the system says, or a [`FaultKind`] that says what is not read.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, MOST_BYTES)
}

/// Reads a file of at most [`MOST_LARGE_BYTES`].
///
/// # Errors
///
/// Those of [`read`].
pub(crate) fn read_large(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, MOST_LARGE_BYTES)
}

/// Reads a text of at most [`MOST_LARGE_BYTES`].
///
/// # Errors
///
/// Those of [`read`], and bytes that are not UTF-8.
#[cfg(feature = "cli")]
pub(crate) fn read_large_text(path: &Path) -> io::Result<String> {
    let not_text = || io::Error::new(ErrorKind::InvalidData, "bytes that are not UTF-8");
    String::from_utf8(read_large(path)?).map_err(|_| not_text())
}

/// Reads a part of a file; nothing where the file ends before it does.
///
/// # Errors
///
/// Those of [`read`].
#[cfg(feature = "onnx")]
pub(crate) fn read_part(path: &Path, (offset, bytes): (u64, usize)) -> io::Result<Option<Vec<u8>>> {
    let about = regular(path)?;
    if about.len().saturating_sub(offset) < bytes as u64 {
        return Ok(None);
    }
    let mut part = vec![0; bytes];
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut part)?;
    Ok(Some(part))
}

/// How long a file is; one that has no length of its own is refused.
///
/// # Errors
///
/// Those of [`read`].
#[cfg(feature = "onnx")]
pub(crate) fn length(path: &Path) -> io::Result<u64> {
    Ok(regular(path)?.len())
}

#[cfg(feature = "onnx")]
fn regular(path: &Path) -> io::Result<Metadata> {
    let about = std::fs::metadata(path)?;
    match about.is_file() {
        true => Ok(about),
        false => Err(Refusal::NoFile.into()),
    }
}

fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if about.is_file() && about.len() > 0 {
        return match about.len() > most {
            true => Err(Refusal::TooLong { most }.into()),
            false => read_all(path, most),
        };
    }
    // A file that says it has no bytes may be one that the system makes up, such as those of `/proc`.
    match about.is_file() || is_pipe(&about) {
        true => in_time(path, most.min(MOST_BYTES)),
        false => Err(Refusal::NoFile.into()),
    }
}

/// Reads to the end, unless that lies beyond `most`: a file may grow while it is read.
fn read_all(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(Refusal::TooLong { most }.into()),
        false => Ok(bytes),
    }
}

/// Reads what may never end, on a thread that is left alone where it does not: to open a pipe waits for its writer.
fn in_time(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (sender, receiver) = channel();
    let path = path.to_owned();
    // Where nobody waits any more, there is nobody to tell.
    std::thread::Builder::new().spawn(move || drop(sender.send(read_all(&path, most))))?;
    match receiver.recv_timeout(PATIENCE) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => Err(Refusal::TooSlow.into()),
        Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::OutOfMemory.into()),
    }
}

#[cfg(unix)]
fn is_pipe(about: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&about.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

/// What is not read.
enum Refusal {
    /// A device, a socket.
    NoFile,
    /// More bytes than anything that is read here has.
    TooLong {
        /// The most of its kind.
        most: u64,
    },
    /// A pipe whose end did not come.
    TooSlow,
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let (kind, found, expected, remedy) = match refusal {
            Refusal::NoFile => (
                ErrorKind::InvalidInput,
                "a device or a socket, which is not read",
                "a regular file or a pipe".into(),
                "name a file, or `/dev/stdin` for what is piped into the command",
            ),
            Refusal::TooLong { most } => (
                ErrorKind::FileTooLarge,
                "more bytes than are read",
                format!("at most {} MiB", most >> 20),
                "check that it is the file you mean; a network as large as that has more layers than can be planned",
            ),
            Refusal::TooSlow => (
                ErrorKind::TimedOut,
                "a pipe that does not end",
                format!("a pipe that ends within {} s", PATIENCE.as_secs()),
                "write it to a file first, and name that",
            ),
        };
        let fault = FaultKind::Conflict {
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
        };
        Self::new(kind, fault)
    }
}
