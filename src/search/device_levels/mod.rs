//! Level by level over ideals and free devices: the least period of a pipeline of unlike devices without transfers.
#![doc = include_str!("../../../formulations/device_levels.md")]

mod levels;
pub mod line;
mod loads;
pub mod narrow;
mod neighbourhoods;
mod prices;
pub(crate) mod problem;
pub mod search;
