//! What accepts a plan.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod check;
mod check_modal_cuts;
mod check_modal_groups;
mod check_modal_shares;
mod check_mutations;
mod check_problem;
mod check_separate_tables;
mod numbers;
