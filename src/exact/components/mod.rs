//! The two components that some problems fall into: their ideals, the slices of stages between these, and the transfers from one
//! component to the other. `cut_states` and `ideal_pairs` build on them.
//!
//! A component here is a set of items without order with the rest: one connected component of the order, or several.

pub(crate) mod component;
pub(crate) mod cross;
pub(crate) mod enumerate;
pub(crate) mod ideal;
pub(crate) mod inner;
pub(crate) mod pair;
pub(crate) mod ranges;
pub(crate) mod split;
pub(crate) mod table;
