//! What lies before and behind what: orders of items or tasks, closed transitively, as bit sets.

use std::collections::BTreeSet;

use crate::exact::bits::{self, Rows};
use crate::exact::ideals::growth;
use crate::problem::Problem;
use crate::problem::control::Control;

/// Ancestors and descendants of every item, itself excluded.
#[derive(Clone, Debug)]
pub struct Closure {
    /// Items that must lie in the same stage or an earlier one.
    pub ancestors: Rows,
    /// Items that must lie in the same stage or a later one.
    pub descendants: Rows,
}

impl Closure {
    /// Closes the order pairs of a problem, whose items are numbered topologically.
    ///
    /// Time and memory O(n e / 64) and O(n^2 / 4) bytes for n items and e order pairs.
    pub fn new(problem: &Problem) -> Self {
        Self::of_sorted(&growth::successors(problem))
    }

    /// Whether a search has room for that.
    pub(crate) fn has_room(problem: &Problem, control: &Control) -> bool {
        /// Items whose closure takes four megabytes: too little to ask the system.
        const FEW: usize = 4096;
        let n = problem.items.len();
        n <= FEW || n.saturating_mul(n) / 4 <= control.room_bytes()
    }

    /// The same for the direct successors of each item, which have larger numbers: one sweep each way is enough.
    pub(crate) fn of_sorted(successors: &[Vec<usize>]) -> Self {
        let items = 0..successors.len();
        Self {
            ancestors: close(&reversed(successors), items.clone()),
            descendants: close(successors, items.rev()),
        }
    }
}

/// All that lies behind each item, from its direct successors in any numbering; `None` where they have a cycle.
pub(crate) fn descendants(successors: &[Vec<usize>]) -> Option<Rows> {
    let order = topological(successors)?;
    Some(close(successors, order.into_iter().rev()))
}

/// Items such that each comes before its successors, smallest number first; `None` where there is a cycle.
pub(crate) fn topological(successors: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut waits = vec![0usize; successors.len()];
    for &j in successors.iter().flatten() {
        waits[j] += 1;
    }
    let mut ready: BTreeSet<usize> = (0..waits.len()).filter(|&i| waits[i] == 0).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(i) = ready.pop_first() {
        order.push(i);
        for &j in &successors[i] {
            waits[j] -= 1;
            if waits[j] == 0 {
                ready.insert(j);
            }
        }
    }
    (order.len() == successors.len()).then_some(order)
}

/// Every precedence turned round: the direct predecessors of each item.
pub(crate) fn reversed(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut reversed = vec![Vec::new(); successors.len()];
    for (item, later) in successors.iter().enumerate() {
        later.iter().for_each(|&later| reversed[later].push(item));
    }
    reversed
}

/// Closes neighbours on one side; the sweep meets each item behind all of its own.
fn close(neighbours: &[Vec<usize>], sweep: impl Iterator<Item = usize>) -> Rows {
    let mut closed = Rows::new(neighbours.len(), neighbours.len());
    for item in sweep {
        for &next in &neighbours[item] {
            bits::insert(closed.row_mut(item), next);
            closed.unite_rows(item, next);
        }
    }
    closed
}
