//! Orders of operations, what becomes of one that is run, and the simulator.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod cyclic;
mod disturbed_chunks;
mod in_flight;
mod iteration_orders;
mod period;
mod replicas;
mod schedule;
mod schedules;
mod simulate;
mod virtual_runs;
mod zero_bubble;
