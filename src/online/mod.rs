//! The online controller: hybrid plans, decided again in every slot under budgets that hold on average.
#![doc = include_str!("../../formulations/online.md")]

mod chain;
pub mod controller;
pub mod policies;
pub mod record;
pub mod scenario;
pub mod spec;
pub mod states;
pub mod yardsticks;
