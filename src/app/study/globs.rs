//! Files by name and glob, below a limit of what is looked at: a slip such as `/**/*.toml` would walk the whole disk.

use std::path::{Component, Path, PathBuf};

use glob::Pattern;

use crate::model::fault::FaultKind;

/// Files and folders that one pattern may look at: ten times what a large folder of models holds.
const MOST_LOOKED_AT: usize = 100_000;

/// Why a pattern has no files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GlobError {
    /// It is no pattern.
    Syntax(&'static str),
    /// It stands for more than may be looked at, below this folder.
    TooMany(PathBuf),
}

impl From<GlobError> for FaultKind {
    fn from(error: GlobError) -> Self {
        let (found, expected) = match error {
            GlobError::Syntax(what) => (
                format!("a pattern that is none ({what})"),
                "a path, in which `*` stands for any name",
            ),
            GlobError::TooMany(folder) => (
                format!(
                    "a pattern with more than {MOST_LOOKED_AT} files and folders to look at, so far as `{}`",
                    folder.display()
                ),
                "one that begins with a folder that holds less, such as `models/**/*.onnx`",
            ),
        };
        let expected = expected.into();
        Self::Syntax { found, expected }
    }
}

/// The files that a pattern stands for, sorted. `base` is the folder that it is relative to, whatever that is called.
///
/// `*` does not cross folders, and `**` does not follow links. Time O(what is looked at).
///
/// # Errors
///
/// [`GlobError`]. What cannot be read is passed over.
pub(crate) fn files(base: &Path, pattern: &str) -> Result<Vec<PathBuf>, GlobError> {
    files_up_to(MOST_LOOKED_AT, base, pattern)
}

fn files_up_to(most: usize, base: &Path, pattern: &str) -> Result<Vec<PathBuf>, GlobError> {
    // The whole tells more than its parts, such as of `***`.
    Pattern::new(pattern).map_err(|error| GlobError::Syntax(error.msg))?;
    let mut found = vec![base.to_owned()];
    let mut left = most;
    for part in Path::new(pattern).components() {
        let mut next = Vec::new();
        for folder in &found {
            step(folder, part, &mut left, &mut next)?;
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    found.dedup();
    Ok(found)
}

/// Where one part of a pattern leads from a folder.
fn step(folder: &Path, part: Component, left: &mut usize, found: &mut Vec<PathBuf>) -> Result<(), GlobError> {
    let name = match part {
        Component::Normal(name) => name.to_string_lossy(),
        // An absolute pattern leaves its base behind.
        other => {
            found.push(folder.join(other));
            return Ok(());
        }
    };
    if name == "**" {
        found.push(folder.to_owned());
        for entry in entries(folder, left)? {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match is_folder {
                true => step(&entry.path(), part, left, found)?,
                // The last part of a pattern stands for files as well.
                false => found.push(entry.path()),
            }
        }
        return Ok(());
    }
    if !name.contains(['*', '?', '[']) {
        let path = folder.join(name.as_ref());
        found.extend(path.exists().then_some(path));
        return Ok(());
    }
    let pattern = Pattern::new(&name).map_err(|error| GlobError::Syntax(error.msg))?;
    let matching = entries(folder, left)?
        .into_iter()
        .filter(|entry| pattern.matches(&entry.file_name().to_string_lossy()));
    found.extend(matching.map(|entry| entry.path()));
    Ok(())
}

/// What a folder holds, as long as it may be looked at.
fn entries(folder: &Path, left: &mut usize) -> Result<Vec<std::fs::DirEntry>, GlobError> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        *left = left
            .checked_sub(1)
            .ok_or_else(|| GlobError::TooMany(folder.to_owned()))?;
        all.push(entry);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_shells() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("a [base]");
        for file in ["a.toml", "b.json", "sub/c.toml", "sub/deep/d.toml"] {
            let path = base.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        let of = |pattern: &str| -> Vec<String> {
            let found = files(&base, pattern).expect("a pattern");
            let relative = found.iter().map(|path| path.strip_prefix(&base).unwrap_or(path));
            relative.map(|path| path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(of("a.toml"), ["a.toml"]);
        assert_eq!(of("*.toml"), ["a.toml"]);
        assert_eq!(of("**/*.toml"), ["a.toml", "sub/c.toml", "sub/deep/d.toml"]);
        assert_eq!(of("*/?.toml"), ["sub/c.toml"]);
        assert_eq!(of("sub/../b.json"), ["sub/../b.json"]);
        assert_eq!(of("[ab].*"), ["a.toml", "b.json"]);
        assert_eq!(of("no*"), [""; 0]);
        let absolute = base.join("b.json");
        let absolute = Pattern::escape(&absolute.to_string_lossy());
        let absolute = files(Path::new("/elsewhere"), &absolute.replace("b.json", "b.*"));
        assert_eq!(absolute, Ok(vec![base.join("b.json")]));
        assert_eq!(
            files_up_to(3, &base, "**/*.toml"),
            Err(GlobError::TooMany(base.join("sub")))
        );
        assert!(matches!(files(&base, "***"), Err(GlobError::Syntax(_))));
    }
}
