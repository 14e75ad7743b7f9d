//! stagecut.

pub mod check;
pub mod cli;
pub mod cluster;
pub mod cost;
pub mod exact;
pub mod fault;
pub mod formulations;
pub mod heuristics;
pub mod import;
pub mod instance;
pub mod methods;
pub mod network;
pub mod options;
pub mod oracles;
pub mod plan;
pub mod problem;
pub mod report;
pub mod settings;
pub mod units;
