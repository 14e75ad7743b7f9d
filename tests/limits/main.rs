//! Time, memory, signals and depth. Apart from the others, since what runs beside them would be measured too.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod deep_networks;
mod exit;
mod foreign_plans;
mod hostile;
mod limits;
mod schedule_limits;
mod study_outside;
mod study_survival;
mod survival;
