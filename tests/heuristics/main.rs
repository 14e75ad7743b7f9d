//! The papers' methods and those of projects.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod allocation_heuristics;
mod bi_partition;
mod heuristics;
mod modal_heuristics;
mod pipedream;
mod rebalance;
mod sapp;
mod what_ships;
