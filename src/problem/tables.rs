//! Tables of weights that layers of two items share.

/// A table that layers of two items share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Its name.
    pub table: String,
    /// The items, that of the first layer in the file first.
    pub items: [usize; 2],
    /// Bytes that a stage of both holds less than two stages, one of each.
    pub bytes: u64,
    /// Whether a [pair](crate::problem::Pair) says so: one of the items counts none of its own then. Else memory leaves no plan a stage of both.
    pub is_paired: bool,
    /// What the gradients of copies take to be summed, once an iteration, in ns: at either end.
    pub once_ns: u64,
}
