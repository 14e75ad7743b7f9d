//! Files in memory: text, JSON, TOML and tables, with every fault at its place.

pub(crate) mod shape;
pub(crate) mod table;
pub(crate) mod text;
mod toml_fault;

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::model::fault::{Fault, FaultKind};

/// A file in memory.
pub(crate) struct Source<'a> {
    /// Where it lies; importers of several files look beside it.
    pub path: &'a Path,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Source<'_> {
    /// The file as text.
    ///
    /// # Errors
    ///
    /// A fault with the position of the first byte that is not UTF-8.
    pub(crate) fn text(&self) -> Result<&str, Vec<Fault>> {
        std::str::from_utf8(self.bytes).map_err(|error| {
            let at = format!("byte {}", error.valid_up_to());
            vec![Fault::new(
                at,
                FaultKind::Syntax {
                    found: "bytes that are not UTF-8".into(),
                    expected: "text".into(),
                },
            )]
        })
    }

    /// The name without folders.
    pub(crate) fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

/// Reads TOML by the extension, JSON otherwise.
pub(crate) fn from_structured<T: DeserializeOwned>(source: &Source) -> Result<T, Vec<Fault>> {
    let text = source.text()?;
    match has_extension(source.path, "toml") {
        true => text::from_toml(text),
        false => text::from_json(text),
    }
}

/// Whether a path ends so, in any case.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
