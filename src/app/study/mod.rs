//! Studies: many instances, options, methods and seeds, run as tasks that survive crashes, and what they say of the
//! methods.
//!
//! ```text
//! STUDY.toml --spec--> StudySpec --grid--> [Task] --runner, worker--> [Row] --store--> one file a task
//!
//! [Row] --cells--> gaps as brackets --summary--> tables --report, html--> text, CSV, a page
//! ```
//!
//! A `Task` is known by a hash of everything that decides its result, the program's version among it, so a second run does what
//! is missing and nothing else. A [`Row`] is written whole or not at all, see [`store`]. `studies/README.md` of the repository describes
//! both formats.

pub(crate) mod cells;
pub mod collect;
pub(crate) mod content;
pub mod diff;
pub(crate) mod faults;
pub(crate) mod globs;
pub(crate) mod grid;
pub(crate) mod html;
pub(crate) mod latex;
pub(crate) mod measures;
pub(crate) mod outside;
pub(crate) mod parent;
pub(crate) mod places;
pub(crate) mod pool;
pub(crate) mod profile;
pub(crate) mod reasons;
pub(crate) mod report;
pub(crate) mod row;
pub(crate) mod runner;
pub(crate) mod significance;
pub(crate) mod size;
pub(crate) mod solve;
pub(crate) mod spec;
pub(crate) mod statistics;
pub mod store;
pub(crate) mod submit;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod task;
pub(crate) mod values;
pub(crate) mod worker;

pub use self::row::{Row, RowStatus};
pub use self::spec::Study;
pub(crate) use self::task::Task;

/// The program as rows name it: its version and a fingerprint of the source that decides results.
pub(crate) const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("STAGECUT_FINGERPRINT"));
