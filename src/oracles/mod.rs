//! Exact methods that share nothing with the solver: what the rest is tested against.
//!
//! They know neither presolve nor bounds nor incumbents, and of the library only [`crate::problem`], [`crate::workers`] and
//! [`crate::cost`].

pub mod allocations;
pub mod brute_force;
pub mod chains;
pub mod groupings;
pub mod ideals;
pub mod labels;
