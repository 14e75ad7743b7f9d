//! Exact methods that share nothing with the solver: what the rest is tested against.
//!
//! They know neither presolve nor bounds nor incumbents, and of the library only [`crate::problem`], [`crate::workers`] and
//! [`crate::cost`].

pub mod allocations;
pub mod brute_force;
pub mod chains;
pub mod cut_pairs;
pub mod frontier;
pub mod groupings;
pub mod hybrid;
pub mod ideals;
pub mod labels;
mod shares;
pub mod two_chains;
