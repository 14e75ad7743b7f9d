//! What the search over stages of a diagram leaves for its next turn.

/// What later turns take up from earlier ones.
#[derive(Clone, Default)]
pub(crate) struct Resumed {
    /// How many sets of items the last pass kept of each number of stages.
    pub width: usize,
    /// Prices, and the items that the presolve for them has left.
    pub prices: Vec<u64>,
    pub item_of: Vec<usize>,
}

impl Resumed {
    /// Takes what a copy of the search has come to.
    pub(crate) fn join(&mut self, copy: Self) {
        if copy.width > self.width {
            *self = copy;
        }
    }
}
