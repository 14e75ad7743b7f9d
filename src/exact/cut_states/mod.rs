//! Feasible cut states: the pairs of ideals that can lie before each boundary between stages, where transfers are blocking.
#![doc = include_str!("../../../formulations/cut_states.md")]

mod boundary_window;
mod costs;
pub(crate) mod index;
mod leaf_bounds;
mod node_bound;
pub(crate) mod refine;
pub(crate) mod search;
pub(crate) mod states;
pub(crate) mod successors;
mod tree;
