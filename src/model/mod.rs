//! What may be asked and said: networks, clusters, instances, options with their meanings, and the faults of all of them.
//!
//! Nothing here knows what a plan costs. A file becomes an [`spec::InstanceSpec`], that an [`instance::Instance`], and together with
//! [`options`] it becomes [`settings::Settings`], in which everything is decided.

pub mod chunk_sizes;
pub mod cluster;
pub mod communication;
pub(crate) mod constraint;
pub mod degrees;
pub(crate) mod efficiency;
pub mod fault;
pub mod instance;
pub(crate) mod named_values;
pub mod network;
pub mod objective;
pub mod options;
pub(crate) mod precision;
pub mod prompt;
pub(crate) mod quantity;
pub mod recompute;
pub(crate) mod region;
pub(crate) mod roofline;
pub mod schedule;
pub(crate) mod setting;
pub mod settings;
pub mod spec;
pub(crate) mod states;
pub mod units;
pub mod words;
