//! The command line, reports, exports and studies.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod calibrate;
mod carried_clusters;
mod cli;
mod export;
mod export_orders;
mod exported_devices;
mod layouts;
mod measured;
mod outputs;
mod page;
mod place;
mod progress;
mod prompts;
mod report;
mod room;
mod study;
mod study_engines;
mod study_results;
mod timeline;
