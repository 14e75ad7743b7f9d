//! Exact methods that share nothing with the solver: what the rest is tested against.
//!
//! They know neither presolve nor bounds nor incumbents, and of the library only problems, workers, what plans cost, labels
//! of partial plans and slots of hybrid parallelism.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

pub mod allocations;
pub mod brute_force;
pub mod chains;
pub mod chunk_iterations;
pub mod cut_and_order;
pub mod cut_pairs;
pub mod frontier;
pub mod groupings;
pub mod hybrid;
pub mod modal_chunks;
pub mod modes;
pub mod orders;
pub mod patterns;
pub mod replicas;
pub mod runs;
mod shares;
pub mod two_chains;
pub mod virtual_stages;
