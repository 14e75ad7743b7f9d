//! Files that are there whole or not at all, whatever ends the program while it writes.
//!
//! A file is written beside its place, under a name that nobody can know before, and moved onto it when it is done. While a run writes
//! it holds a lock on that part; so the next run tells the parts of others that still write from those that a killed run left, and
//! removes these.

#[cfg(feature = "cli")]
use std::fs::OpenOptions;
use std::fs::{File, TryLockError};
use std::io;
#[cfg(feature = "cli")]
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// What names of parts begin with.
const BEGINS: &str = ".stagecut-";
/// What stands between what is random and the name of the file.
const PART: &str = ".part.";

/// Bytes that a place must take before it counts as one with room.
#[cfg(feature = "cli")]
const PROBED_BYTES: usize = 4096;

/// Writes a file: beside its place, to the disk, and then in its place at once.
///
/// Pipes and devices are written as they are, since they cannot be replaced.
///
/// # Errors
///
/// What the file system says; whatever was at `path` before is there still.
#[cfg(feature = "cli")]
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    match is_replaced(path) {
        true => made(path, |part, _| part.write_all(contents.as_ref())),
        false => std::fs::write(path, contents),
    }
}

/// The same for one of very many files, which may be torn after a power cut: it is in its place before it is on the disk.
///
/// # Errors
///
/// Those of [`write`].
#[cfg(feature = "cli")]
pub(crate) fn write_soon(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut part = Part::create(path)?;
    part.0.as_file_mut().write_all(contents.as_ref())?;
    part.put(path)
}

/// Lets `make` write a file that is moved to its place when it is done: into the open part, or by its name, which ends like that of
/// `path`.
///
/// # Errors
///
/// Those of `make`, or what the file system says.
pub(crate) fn made<E: From<io::Error>>(
    path: &Path,
    make: impl FnOnce(&mut File, &Path) -> Result<(), E>,
) -> Result<(), E> {
    let path = resolved(path);
    let _ = sweep(&path);
    let mut part = Part::create(&path)?;
    let name = part.0.path().to_owned();
    make(part.0.as_file_mut(), &name)?;
    if let Ok(there) = std::fs::metadata(&path) {
        part.0.as_file().set_permissions(there.permissions())?;
    }
    part.0.as_file().sync_all()?;
    part.put(&path)?;
    // Not every system lets folders be opened, and the file is whole in any case.
    let _ = File::open(folder(&path)).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Tries whether a file could be written there, and leaves everything as it was.
///
/// # Errors
///
/// What the file system says.
#[cfg(feature = "cli")]
pub(crate) fn try_place(path: &Path) -> io::Result<()> {
    let there = std::fs::metadata(path);
    if there.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !is_replaced(path) {
        // To open a pipe waits for its reader, who may come later.
        return match there.is_ok_and(|there| is_device(&there)) {
            true => OpenOptions::new().write(true).open(path).map(drop),
            false => Ok(()),
        };
    }
    let path = resolved(path);
    if !folder(&path).is_dir() {
        return Err(io::Error::other("its folder does not exist"));
    }
    if there.is_ok() {
        OpenOptions::new().append(true).open(&path)?;
    }
    let mut part = Part::create(&path)?;
    part.0.as_file_mut().write_all(&[0; PROBED_BYTES])
}

/// Whether a file at this place is replaced, rather than written into: pipes, devices and what the system makes up are not.
#[cfg(feature = "cli")]
fn is_replaced(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(there) if path.starts_with("/dev") => there.is_file() && path.starts_with("/dev/shm"),
        Ok(there) => there.is_file() && !path.starts_with("/proc"),
        Err(_) => true,
    }
}

#[cfg(all(unix, feature = "cli"))]
fn is_device(there: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&there.file_type())
}

#[cfg(all(not(unix), feature = "cli"))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

/// A link stays a link: what it points to is replaced.
fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The end of a file's name, so that there is room for what stands before it.
fn name(path: &Path) -> String {
    const MOST: usize = 200;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name[name.ceil_char_boundary(name.len().saturating_sub(MOST))..].to_owned()
}

/// Whether a file is the part of another.
#[cfg(feature = "cli")]
pub(crate) fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(BEGINS) && name.contains(PART)
}

/// Removes the parts of a file that killed runs have left.
///
/// # Errors
///
/// A folder that cannot be listed.
pub(crate) fn sweep(path: &Path) -> io::Result<()> {
    let name = name(path);
    sweep_where(folder(path), |rest| rest == name)
}

/// Removes the parts of all files of a folder that killed runs have left.
///
/// # Errors
///
/// Those of [`sweep`].
#[cfg(feature = "cli")]
pub(crate) fn sweep_folder(folder: &Path) -> io::Result<()> {
    sweep_where(folder, |_| true)
}

fn sweep_where(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let random_and_rest = name.strip_prefix(BEGINS).and_then(|name| name.split_once(PART));
        let is_part = random_and_rest.is_some_and(|(_, rest)| is_meant(rest));
        if is_part && entry.file_type().is_ok_and(|kind| kind.is_file()) && is_left(&entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Whether nobody writes a part any more.
fn is_left(part: &Path) -> bool {
    File::open(part).is_ok_and(|part| part.try_lock().is_ok())
}

/// A file under way, which is gone if it does not come to its place.
struct Part(NamedTempFile);

impl Part {
    /// A new one beside a place, made anew under a random name, and locked.
    fn create(path: &Path) -> io::Result<Self> {
        let end = format!("{PART}{}", name(path));
        let mut builder = Builder::new();
        builder.prefix(BEGINS).suffix(&end);
        // As other files are made: what the user's mask leaves.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        loop {
            let part = builder.tempfile_in(folder(path))?;
            // Another run may have found it before it was locked, and remove it. A system without locks goes without.
            let is_taken = matches!(part.as_file().try_lock(), Err(TryLockError::WouldBlock));
            if !is_taken && part.path().exists() {
                return Ok(Self(part));
            }
        }
    }

    /// Moves it to its place.
    fn put(self, path: &Path) -> io::Result<()> {
        self.0.persist(path).map(drop).map_err(|error| error.error)
    }
}
