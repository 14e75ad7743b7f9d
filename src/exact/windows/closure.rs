//! Who lies before and after whom: the transitive closure of the order pairs, as bit sets.

use fixedbitset::FixedBitSet;
use petgraph::Direction;

use crate::problem::Problem;

/// Ancestors and descendants of every item, itself excluded.
#[derive(Clone, Debug)]
pub struct Closure {
    /// Items that must lie in the same stage or an earlier one.
    pub ancestors: Vec<FixedBitSet>,
    /// Items that must lie in the same stage or a later one.
    pub descendants: Vec<FixedBitSet>,
}

impl Closure {
    /// Closes the order pairs transitively. Items are numbered topologically, so one sweep each way is enough.
    ///
    /// Time and memory O(n e / 64) and O(n^2 / 4) bytes for n items and e order pairs.
    pub fn new(problem: &Problem) -> Self {
        let n = problem.items.len();
        Self {
            ancestors: close(problem, 0..n, Direction::Incoming),
            descendants: close(problem, (0..n).rev(), Direction::Outgoing),
        }
    }
}

fn close(problem: &Problem, sweep: impl Iterator<Item = usize>, towards: Direction) -> Vec<FixedBitSet> {
    let n = problem.items.len();
    let mut closed = vec![FixedBitSet::with_capacity(n); n];
    for item in sweep {
        let mut own = FixedBitSet::with_capacity(n);
        for next in problem.order.neighbors_directed((item as u32).into(), towards) {
            own.insert(next.index());
            own.union_with(&closed[next.index()]);
        }
        closed[item] = own;
    }
    closed
}
