//! Symmetry breaking: items that could change places in any plan, so that their stages may be sorted.

use std::collections::{HashMap, HashSet};

use petgraph::Direction;

use crate::model::network::Times;
use crate::problem::{Item, Problem};

/// All that a plan's cost and order depend on in an item, but which item it is.
#[derive(PartialEq, Eq, Hash)]
struct Signature {
    work_ns: [u64; 3],
    times: Vec<Option<Times>>,
    bytes: [u64; 3],
    before: Vec<usize>,
    after: Vec<usize>,
    received: Vec<usize>,
    sent: Vec<(Vec<usize>, [u64; 3])>,
}

/// Pairs of interchangeable items, the one with the lower number first: of each class, every item and the next. Passes whose layer has
/// another elsewhere are left out, since memory may depend on both.
///
/// Time O(n + e + c) for n items, e order pairs and c consumers, beside sorting and hashing.
pub(super) fn pairs(problem: &Problem) -> Vec<(usize, usize)> {
    let of_pairs = problem
        .pairs
        .iter()
        .flat_map(|pair| [pair.forward, pair.backward]);
    let of_copies = problem.copies.iter().flat_map(|copy| copy.items);
    let of_pairs: HashSet<usize> = of_pairs.chain(of_copies).collect();
    let mut last = HashMap::new();
    (0..problem.items.len())
        .filter(|item| !of_pairs.contains(item))
        .filter_map(|item| Some((last.insert(signature(problem, item), item)?, item)))
        .collect()
}

fn signature(problem: &Problem, item: usize) -> Signature {
    let neighbours = |direction| {
        let neighbours = problem.order.neighbors_directed((item as u32).into(), direction);
        let mut neighbours: Vec<usize> = neighbours.map(|other| other.index()).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for &t in &problem.transfers_of[item] {
        let transfer = &problem.transfers[t];
        match transfer.producer == item {
            true => sent.push((
                transfer.consumers.clone(),
                [transfer.forward_ns, transfer.backward_ns, transfer.gradient_ns],
            )),
            false => received.push(t),
        }
    }
    sent.sort_unstable();
    let Item {
        forward_ns,
        backward_ns,
        weight_ns,
        ref times,
        base_bytes,
        parameter_bytes,
        stash_bytes,
        ..
    } = problem.items[item];
    Signature {
        work_ns: [forward_ns, backward_ns, weight_ns],
        times: times.clone(),
        bytes: [base_bytes, parameter_bytes, stash_bytes],
        before: neighbours(Direction::Incoming),
        after: neighbours(Direction::Outgoing),
        received,
        sent,
    }
}
