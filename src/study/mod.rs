//! Studies: many instances, options, methods and seeds, run as tasks that survive crashes, and what they say of the
//! methods.
//!
//! ```text
//! STUDY.toml --spec--> StudySpec --grid--> [Task] --runner, worker--> [Row] --store--> one file a task
//!
//! [Row] --cells--> gaps as brackets --summary--> tables --report, html--> text, CSV, a page
//! ```
//!
//! A [`Task`] is known by a hash of everything that decides its result, the program's version among it, so a second run does what
//! is missing and nothing else. A [`Row`] is written whole or not at all, see [`store`]. The page
#![doc = "[studies/README.md](https://docs.rs/crate/stagecut/latest/source/studies/README.md) describes both formats."]

pub mod cells;
pub mod collect;
pub mod content;
pub mod diff;
pub mod faults;
pub mod grid;
pub mod html;
pub mod measures;
pub mod places;
pub mod pool;
pub mod profile;
pub mod report;
pub mod row;
pub mod runner;
pub mod size;
pub mod solve;
pub mod spec;
pub mod statistics;
pub mod store;
pub mod submit;
pub mod summary;
pub mod table;
pub mod tables;
pub mod task;
pub mod values;
pub mod worker;

pub use self::row::{Row, RowStatus};
pub use self::spec::Study;
pub use self::task::Task;

/// The program as rows name it: its version and a fingerprint of the source that decides results.
pub const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("STAGECUT_FINGERPRINT"));
