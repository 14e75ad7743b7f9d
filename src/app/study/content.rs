//! What a task reads, as a hash: the bytes of its files, or the parameters of its generator.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::input::import::CLUSTER_PRESETS;
use crate::input::intake;
use crate::input::source::{Source, from_structured};
use crate::model::fault::{Fault, InputError};

/// SHA-256 of several texts in hexadecimal; each is preceded by its length, so that no two lists share a hash.
pub(crate) fn digest(parts: &[&(impl AsRef<[u8]> + ?Sized)]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        let bytes = part.as_ref();
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    let hash = hasher.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hash of the bytes of one file.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    digest(&[bytes])
}

/// Hash of an instance's files.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn of_file(path: &Path) -> Result<String, InputError> {
    let bytes = read(path)?;
    let beside = companion(path, &bytes);
    let other = match beside.filter(|path| path.exists()) {
        Some(path) => read(&path)?,
        None => Vec::new(),
    };
    Ok(digest(&[&bytes, &other]))
}

/// Hash of a cluster: a preset's text, or a file's.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn of_cluster(name: &str, path: &Path) -> Result<String, InputError> {
    match CLUSTER_PRESETS.iter().find(|(preset, _)| *preset == name) {
        Some((_, text)) => Ok(digest(&[text.as_bytes()])),
        None => Ok(digest(&[&read(path)?])),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, InputError> {
    intake::read(path).map_err(|error| InputError::in_file(path, [Fault::unreadable(path, &error)]))
}

/// The part of a native instance that names another file.
#[derive(Deserialize)]
struct Referring {
    network: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    file: Option<String>,
}

/// The second file that an instance is made of: the edges of a CSV, or the network that a native file refers to.
fn companion(path: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(path.with_extension("edges.csv")),
        "toml" | "json" => {
            let referring: Referring = from_structured(&Source { path, bytes }).ok()?;
            Some(path.parent()?.join(referring.network?.file?))
        }
        _ => None,
    }
}
