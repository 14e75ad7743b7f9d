//! What certainly crosses the boundary between two chunks, wherever the others lie.
//!
//! A device that holds several chunks sends and receives for all of them, and nothing to itself. So what a chunk sends and receives is not told by
//! its own items: its tensors may be read on its own device alone, and what it reads may be there already. **Example.** Four items in a row, a
//! tensor from the first to the last, four chunks on two devices. In a loop the two lie on different devices and the tensor is moved; in a V both lie
//! on the first one.

use fixedbitset::FixedBitSet;
use petgraph::Direction;

use crate::model::communication::Communication;
use crate::problem::Problem;
use crate::problem::cost::{Side, StageCost};

/// The transfers of a boundary, as its two neighbours pay them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossing {
    /// The chunk before it.
    pub before: StageCost,
    /// The chunk behind it.
    pub behind: StageCost,
}

/// What crosses the boundary behind these items at least, if the chunks before and behind it hold some items each and lie on different devices.
///
/// The chunk before the boundary holds an item of the set that nothing in it waits for, and the chunk behind one outside that waits for nothing
/// outside. Where there is one such item on either side, and the first makes a tensor that the second reads, both pay for it: nobody on the device
/// behind can have read it earlier.
pub(super) fn crossing(problem: &Problem, set: &FixedBitSet, mode: Communication) -> Crossing {
    let items = 0..problem.items.len();
    let is_end = |item: usize, direction: Direction| {
        let mut beside = problem.order.neighbors_directed((item as u32).into(), direction);
        beside.all(|other| set.contains(other.index()) != set.contains(item))
    };
    let last = |&item: &usize| set.contains(item) && is_end(item, Direction::Outgoing);
    let first = |&item: &usize| !set.contains(item) && is_end(item, Direction::Incoming);
    let (Some(from), Some(to)) = (only(items.clone().filter(last)), only(items.filter(first))) else {
        return Crossing::default();
    };
    let mut crossing = Crossing::default();
    for &t in &problem.transfers_of[from] {
        let transfer = &problem.transfers[t];
        let is_read = transfer.producer == from && transfer.consumers.contains(&to);
        if is_read && transfer.consumers.iter().all(|&reader| !set.contains(reader)) {
            crossing.before.add_transfer(mode, transfer, Side::Producer);
            crossing.behind.add_transfer(mode, transfer, Side::Consumer);
        }
    }
    crossing
}

/// The one element, if there is just one.
fn only(mut all: impl Iterator<Item = usize>) -> Option<usize> {
    all.next().filter(|_| all.next().is_none())
}
