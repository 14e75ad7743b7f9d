//! When a transfer crosses a boundary.

use fixedbitset::FixedBitSet;

use crate::exact::bits;
use crate::exact::closure::Closure;
use crate::problem::Transfer;

/// The ends of a transfer that decide whether it crosses a boundary: it does if any of the first lie before it, and not all
/// of the last.
pub(super) struct Span {
    /// Any of them before the boundary, and it crosses;
    pub first: Vec<usize>,
    /// unless all of these are.
    pub last: Vec<usize>,
    /// What either side pays.
    pub ns: i128,
}

impl Span {
    /// One end stands for all where it lies before, or behind, all others. Items are numbered along the order.
    pub(super) fn new(transfer: &Transfer, closure: &Closure) -> Self {
        let mut ends: Vec<usize> = transfer.items().collect();
        ends.sort_unstable();
        let (least, most) = (ends[0], ends[ends.len() - 1]);
        let is_first = ends[1..]
            .iter()
            .all(|&end| bits::contains(closure.descendants.row(least), end));
        let is_last = ends[..ends.len() - 1]
            .iter()
            .all(|&end| bits::contains(closure.ancestors.row(most), end));
        Self {
            first: if is_first { vec![least] } else { ends.clone() },
            last: if is_last { vec![most] } else { ends },
            ns: i128::from(transfer.total_ns()),
        }
    }

    /// Whether it crosses the boundary behind a set.
    pub(super) fn crosses(&self, members: &FixedBitSet) -> bool {
        self.first.iter().any(|&end| members.contains(end))
            && !self.last.iter().all(|&end| members.contains(end))
    }
}
