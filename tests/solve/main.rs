//! What is asked around a plan.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod calibration;
mod compare;
mod evaluate;
mod evaluate_chunks;
mod formulate;
mod global_batch;
mod planning;
mod remedies;
mod unrestricted;
mod what_if;
