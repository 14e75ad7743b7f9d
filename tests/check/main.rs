//! What accepts a plan.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod check;
mod check_mutations;
mod check_problem;
