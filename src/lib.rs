//! stagecut.

pub mod cluster;
pub mod cost;
pub mod fault;
pub mod import;
pub mod instance;
pub mod network;
pub mod options;
pub mod plan;
pub mod problem;
pub mod settings;
pub mod units;
