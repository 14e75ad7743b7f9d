//! Files that a file names: those of its own folder, unless somebody who trusts it says otherwise.
//!
//! An instance of somebody else may name any file, by `network.file`, as external data of a model, or by a link beside it, and what
//! is wrong with that file would be told with its words. So a name counts where it leads once links are resolved.

use std::cell::Cell;
use std::path::Path;

use crate::model::fault::FaultKind;
use crate::model::setting;
use crate::model::words::words;

thread_local! {
    /// Whether files that this thread reads may name others outside of their folders.
    static ANYWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Does some work in which instances may, if `trusts`, name files outside of their folders.
pub fn trusting<T>(trusts: bool, work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ANYWHERE.set(self.0);
        }
    }
    let _before = Before(ANYWHERE.replace(trusts));
    work()
}

/// Whether this thread reads files outside of the folders of those that name them.
pub fn is_trusting() -> bool {
    ANYWHERE.get()
}

/// Refuses a file that `owner` names under `name`, if it lies outside of the folder where `owner` lies.
///
/// A file that is a link lies in two folders: caches of models keep all files as links into a folder of their contents.
pub(crate) fn refuse_outside(owner: &Path, name: &str, path: &Path) -> Result<(), FaultKind> {
    let folder = |file: &Path| {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).canonicalize()
    };
    // Of a file that is not there its reader says so.
    let Ok(real) = path.canonicalize() else {
        return Ok(());
    };
    let folders = [
        folder(owner),
        owner.canonicalize().and_then(|owner| folder(&owner)),
    ];
    if is_trusting() || folders.iter().flatten().any(|folder| real.starts_with(folder)) {
        return Ok(());
    }
    Err(FaultKind::Conflict {
        found: format!("`{name}`, which lies outside of the folder of the file that names it").into(),
        expected: "a file of that folder, links resolved".into(),
        remedy: words!(
            "move it there, or allow it by {} if you trust who wrote this",
            setting::OUTSIDE_FILES
        ),
    })
}
