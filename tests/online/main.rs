//! Plans over time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod horizon;
mod hybrid;
mod online;
mod online_layouts;
