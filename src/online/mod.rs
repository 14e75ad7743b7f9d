//! The online controller: hybrid plans, decided again in every slot under budgets that hold on average.
#![doc = include_str!("../../formulations/online.md")]

mod chain;
pub mod controller;
pub(crate) mod decisions;
pub(crate) mod fixed;
pub mod known;
pub(crate) mod long_run;
pub mod moving;
pub mod pipedream;
pub mod policies;
pub mod record;
mod resumed;
pub mod scenario;
pub mod spec;
pub mod states;
pub mod stationary;
mod summary;
pub(crate) mod trace;
mod validate;
pub mod yardsticks;
