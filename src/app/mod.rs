//! The fronts: command line, studies, reports, and commands as functions of documents for the Python package.

pub mod cli;
pub mod embedded;
pub(crate) mod flags;
pub mod report;
pub mod study;
