//! Tables of weights that layers of two items share.

use std::collections::BTreeSet;

/// A table that layers of two items share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Its name.
    pub table: String,
    /// The items, that of the first layer in the file first; of passes by themselves those of the backward passes.
    pub items: [usize; 2],
    /// Layers whose forward pass lies beside a copy, by position, if it is away from the backward pass.
    pub beside: Vec<usize>,
    /// Bytes that a stage of both holds less than two stages, one of each.
    pub bytes: u64,
    /// Whether a [pair](crate::problem::Pair) says so: one of the items counts none of its own then. Else memory leaves no plan a stage of both.
    pub is_paired: bool,
    /// What the gradients of copies take to be summed, once an iteration, in ns: at either end.
    pub once_ns: u64,
}

/// Which forward passes lie beside a copy of their table, be it that their backward pass is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The layers, by position.
    pub layers: BTreeSet<usize>,
    /// Passes that lie together for that, by position.
    pub joined: Vec<(usize, usize)>,
}
