//! Files that are there whole or not at all, whatever ends the program while it writes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of files under way, unique in this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file: beside its place, to the disk, and then in its place at once.
///
/// Pipes and devices are written as they are, since they cannot be replaced.
///
/// # Errors
///
/// What the file system says; whatever was at `path` before is there still.
#[cfg(feature = "cli")]
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    use std::io::Write;

    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() || path.starts_with("/dev") || path.starts_with("/proc") => {
            std::fs::write(path, contents)
        }
        _ => made(path, |beside| File::create(beside)?.write_all(contents.as_ref())),
    }
}

/// Lets `make` write a file that is moved to its place when it is done. The temporary name ends like that of `path`.
///
/// # Errors
///
/// Those of `make`, or what the file system says.
pub(crate) fn made<E: From<io::Error>>(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    // A link stays a link: what it points to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = Beside::of(&path);
    make(&beside.0)?;
    let file = File::open(&beside.0)?;
    if let Ok(there) = std::fs::metadata(&path) {
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()?;
    std::fs::rename(&beside.0, &path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // Not every system lets folders be opened, and the file is whole in any case.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// A file under way, which is gone if it does not come to its place.
struct Beside(PathBuf);

impl Beside {
    fn of(path: &Path) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self(path.with_file_name(format!(".{}-{number}.part.{name}", std::process::id())))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
