//! What heuristics and exact methods share: ideals, labels, levels of sets of tasks, and limits that are decided, and searches that somebody else ends in time.

pub mod device_levels;
pub mod ideals;
pub(crate) mod in_time;
pub mod labels;
pub mod limits;
