//! Items that hang loose: nothing comes to them, one item alone takes what they make, and they are next to nothing, such as a mask that is drawn or a scale.
//!
//! With every one of them the ideals are as many times more as it has places before its reader. If it took no time and no memory, it could lie with its reader in every
//! plan: what it makes would cross no boundary, and no stage would have more to do. A stage of loose items alone is left without any, but is still one of those that tell what is in flight; such plans are
//! bounded apart. So what bounds plans of the problem in which they do take nothing, joined to their readers, bounds those of the problem itself; a plan is measured with all that they
//! take. Ours.

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use super::options::{Alike, StageOption, StageOptions};
use crate::problem::cost::allocation::Allocation;
use crate::problem::{Assignment, Item, Problem};

/// What loose items take and hold at most until their reader, of all that there is.
const MOST_PART: u64 = 1_000;

/// Plans in which loose items lie with their readers.
pub(super) struct Loose {
    /// The problem with these joined, which take nothing.
    joined: Problem,
    /// Its item of each item.
    item_of: Vec<usize>,
}

impl Loose {
    /// `None` where nothing hangs loose, or it matters where an item lies.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let readers: Vec<(usize, usize)> = readers(problem);
        let is_plain = problem.pairs.is_empty() && problem.copies.is_empty() && problem.confined.is_none();
        if readers.is_empty() || !is_plain {
            return None;
        }
        let mut free = problem.clone();
        for &(item, _) in &readers {
            let item = &mut free.items[item];
            *item = Item {
                layers: std::mem::take(&mut item.layers),
                backward_layers: std::mem::take(&mut item.backward_layers),
                ..Item::default()
            };
        }
        let (joined, item_of) = free.merged(&readers);
        (joined.stages() == problem.stages()).then_some(Self { joined, item_of })
    }
}

/// Loose items, each with the one item that reads what it makes.
fn readers(problem: &Problem) -> Vec<(usize, usize)> {
    let parts = |item: &Item| [item.work_ns(), item.base_bytes + item.stash_bytes];
    let sum = |of: usize| problem.items.iter().map(|item| parts(item)[of]).sum::<u64>();
    let most = [0, 1].map(|of| sum(of) / MOST_PART);
    let mut reader_of: Vec<Option<usize>> = vec![None; problem.items.len()];
    // What each and the loose ones before it come to.
    let mut held: Vec<[u64; 2]> = problem.items.iter().map(parts).collect();
    // They are numbered in an order in which all that comes to an item comes before it.
    for item in 0..problem.items.len() {
        let near = |direction| {
            let near = problem.order.neighbors_directed(NodeIndex::new(item), direction);
            let mut near: Vec<usize> = near.map(NodeIndex::index).collect();
            near.sort_unstable();
            near.dedup();
            near
        };
        let before = near(Direction::Incoming);
        if before.iter().any(|&before| reader_of[before].is_none()) {
            continue;
        }
        // Each of them has this one reader.
        held[item] =
            [0, 1].map(|of| held[item][of] + before.iter().map(|&before| held[before][of]).sum::<u64>());
        let is_little = [0, 1].into_iter().all(|of| held[item][of] <= most[of]);
        if let [reader] = near(Direction::Outgoing)[..]
            && is_little
        {
            let ends = problem.transfers_of[item]
                .iter()
                .flat_map(|&t| problem.transfers[t].items());
            let is_known = |end: usize| end == item || end == reader || reader_of[end] == Some(item);
            reader_of[item] = ends.into_iter().all(is_known).then_some(reader);
        }
    }
    let all = reader_of.into_iter().enumerate();
    all.filter_map(|(item, reader)| Some((item, reader?))).collect()
}

impl StageOptions for Loose {
    fn pipeline(&self) -> &Problem {
        &self.joined
    }

    fn options(&self, members: &[usize]) -> Vec<StageOption> {
        Alike(&self.joined).options(members)
    }

    fn may_have_others(&self) -> bool {
        true
    }

    fn is_complete(&self) -> bool {
        // Loose items may do better elsewhere.
        false
    }

    fn plan(&self, assignment: Assignment, _tags: &[u32]) -> Option<Allocation> {
        let of_items = self.item_of.iter().map(|&item| assignment[item]);
        Some(of_items.collect::<Assignment>().into())
    }
}
