//! Topological orders of the items, for methods that cut an order.
//!
//! All are Kahn's algorithm (A. Kahn, *Topological sorting of large networks*, CACM 5(11), 1962) with a rule for which of
//! the ready items comes next. From the end, the rule picks the last item first and the result is turned around.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction::{self, Incoming, Outgoing};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problem::Problem;

/// Smallest item number first, so that files listed in a sensible order keep it.
pub fn by_number(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |item, _| item as u64)
}

/// The item that became ready last comes first: follows branches to their end.
pub fn depth_first(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |_, ready| u64::MAX - ready)
}

/// The item that became ready first comes first: all branches side by side.
pub fn breadth_first(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |_, ready| ready)
}

/// Depth first from the end: what a branch needs comes right before it.
pub fn depth_first_from_end(problem: &Problem) -> Vec<usize> {
    kahn(problem, Incoming, |_, ready| u64::MAX - ready)
}

/// Breadth first from the end: every item as late as it may.
pub fn breadth_first_from_end(problem: &Problem) -> Vec<usize> {
    kahn(problem, Incoming, |_, ready| ready)
}

/// The ready item of the smallest priority first; ties by number. `priority` has one number for each item.
pub fn by_priority(problem: &Problem, priority: &[u64]) -> Vec<usize> {
    kahn(problem, Outgoing, |item, _| priority[item])
}

/// Random priorities. Every order can come up, though not with the same chance.
pub fn random(problem: &Problem, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let priority: Vec<u64> = problem.items.iter().map(|_| rng.next_u64()).collect();
    by_priority(problem, &priority)
}

/// The fixed orders above, then `random` random ones of a seed; each order once.
pub fn handful(problem: &Problem, random_orders: usize, seed: u64) -> Vec<Vec<usize>> {
    let fixed = [
        by_number,
        depth_first,
        breadth_first,
        depth_first_from_end,
        breadth_first_from_end,
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut orders: Vec<Vec<usize>> = Vec::new();
    let drawn = (0..random_orders).map(|_| random(problem, &mut rng));
    for order in fixed.iter().map(|order| order(problem)).chain(drawn) {
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

/// Kahn's algorithm along edges of `direction`, `Incoming` meaning from the end. Of the ready items the one of the
/// smallest `rank(item, how many became ready before it)` is next; ties by number.
///
/// Time O(n log n + order pairs).
fn kahn(problem: &Problem, direction: Direction, rank: impl Fn(usize, u64) -> u64) -> Vec<usize> {
    let n = problem.items.len();
    let order = &problem.order;
    let mut waits_for: Vec<usize> = (0..n)
        .map(|item| {
            order
                .neighbors_directed((item as u32).into(), direction.opposite())
                .count()
        })
        .collect();
    let mut ready = BinaryHeap::new();
    let mut counter = 0;
    let mut push = |ready: &mut BinaryHeap<Reverse<(u64, usize)>>, item| {
        ready.push(Reverse((rank(item, counter), item)));
        counter += 1;
    };
    for item in (0..n).filter(|&item| waits_for[item] == 0) {
        push(&mut ready, item);
    }
    let mut sorted = Vec::with_capacity(n);
    while let Some(Reverse((_, item))) = ready.pop() {
        sorted.push(item);
        for next in order.neighbors_directed((item as u32).into(), direction) {
            waits_for[next.index()] -= 1;
            if waits_for[next.index()] == 0 {
                push(&mut ready, next.index());
            }
        }
    }
    if direction == Incoming {
        sorted.reverse();
    }
    sorted
}
