//! Files: which formats are read, how much of them, what a fault says of its place, and how a file is written whole or not at all.

pub(crate) mod csv_text;
#[cfg(feature = "cli")]
pub mod generate;
pub mod import;
pub(crate) mod intake;
pub mod program;
pub(crate) mod read;
#[cfg(feature = "cli")]
pub(crate) mod sealed;
pub mod source;
pub(crate) mod transformer;
pub(crate) mod whole;
