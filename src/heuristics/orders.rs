//! Topological orders of the items, for methods that cut an order.
//!
//! All are Kahn's algorithm (A. Kahn, *Topological sorting of large networks*, CACM 5(11), 1962) with a rule for which of
//! the ready items comes next. From the end, the rule picks the last item first and the result is turned around.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction::{self, Incoming, Outgoing};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problem::{Assignment, Problem};

/// Smallest item number first, so that files listed in a sensible order keep it.
pub fn by_number(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |item, _| item as u64)
}

/// The item that became ready last comes first: follows branches to their end.
pub(crate) fn depth_first(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |_, ready| u64::MAX - ready)
}

/// The item that became ready first comes first: all branches side by side.
pub(crate) fn breadth_first(problem: &Problem) -> Vec<usize> {
    kahn(problem, Outgoing, |_, ready| ready)
}

/// Depth first from the end: what a branch needs comes right before it.
pub(crate) fn depth_first_from_end(problem: &Problem) -> Vec<usize> {
    kahn(problem, Incoming, |_, ready| u64::MAX - ready)
}

/// Breadth first from the end: every item as late as it may.
pub(crate) fn breadth_first_from_end(problem: &Problem) -> Vec<usize> {
    kahn(problem, Incoming, |_, ready| ready)
}

/// The ready item first that leaves the least transfer time between what is sorted and what is not: items come next to those they
/// exchange most with, which matters most where no order holds them there. Ours; the greedy rule for linear arrangements of least
/// cut width.
pub fn least_crossing(problem: &Problem) -> Vec<usize> {
    by_crossing(problem, Outgoing, |_| 0)
}

/// The same from the end.
pub fn least_crossing_from_end(problem: &Problem) -> Vec<usize> {
    by_crossing(problem, Incoming, |_| 0)
}

/// The stages of a plan one after the other, the items of each by least crossing, from either end.
pub(crate) fn within_stages(problem: &Problem, plan: &Assignment) -> [Vec<usize>; 2] {
    [
        by_crossing(problem, Outgoing, |item| plan[item]),
        by_crossing(problem, Incoming, |item| usize::MAX - plan[item]),
    ]
}

/// The ready item of the smallest priority first; ties by number. `priority` has one number for each item.
pub(crate) fn by_priority(problem: &Problem, priority: &[u64]) -> Vec<usize> {
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
        least_crossing,
        least_crossing_from_end,
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
    let mut waiting = Waiting::new(problem, direction);
    let mut ready = BinaryHeap::new();
    let mut counter = 0;
    let mut push = |ready: &mut BinaryHeap<Reverse<(u64, usize)>>, item| {
        ready.push(Reverse((rank(item, counter), item)));
        counter += 1;
    };
    waiting.first().for_each(|item| push(&mut ready, item));
    let mut sorted = Vec::with_capacity(problem.items.len());
    while let Some(Reverse((_, item))) = ready.pop() {
        sorted.push(item);
        waiting.after(item, |next| push(&mut ready, next));
    }
    waiting.turned(sorted)
}

/// Kahn's algorithm along edges of `direction`. Of the ready items of the least `group` the one is next behind which least
/// crosses; of equals the one that became ready last.
///
/// Time O((n + ends of transfers) log n + order pairs): an item is ranked again where one of its transfers begins to cross, or has
/// one end left.
fn by_crossing(problem: &Problem, direction: Direction, group: impl Fn(usize) -> usize) -> Vec<usize> {
    let n = problem.items.len();
    let ends: Vec<usize> = problem
        .transfers
        .iter()
        .map(|transfer| transfer.items().count())
        .collect();
    let mut sorted_ends = vec![0; ends.len()];
    // What crosses behind an item beyond what crosses before it, in ns.
    let growth_ns = |item: usize, sorted_ends: &[usize]| -> i128 {
        let change = |&t: &usize| {
            let crosses = |sorted: usize| i128::from(0 < sorted && sorted < ends[t]);
            i128::from(problem.transfers[t].total_ns())
                * (crosses(sorted_ends[t] + 1) - crosses(sorted_ends[t]))
        };
        problem.transfers_of[item].iter().map(change).sum()
    };
    let rank = |item: usize, sorted_ends: &[usize], ready_at: &[Option<usize>]| {
        let growth_ns = growth_ns(item, sorted_ends);
        Reverse((group(item), growth_ns, Reverse(ready_at[item]), item))
    };
    let mut waiting = Waiting::new(problem, direction);
    let mut fresh: Vec<usize> = waiting.first().collect();
    // How many were sorted when each item became ready.
    let mut ready_at: Vec<Option<usize>> = vec![None; n];
    let mut is_sorted = vec![false; n];
    let mut ranked = BinaryHeap::new();
    let mut sorted = Vec::with_capacity(n);
    while sorted.len() < n {
        for item in fresh.drain(..) {
            ready_at[item] = Some(sorted.len());
            ranked.push(rank(item, &sorted_ends, &ready_at));
        }
        let Some(Reverse((_, ns, _, item))) = ranked.pop() else {
            break;
        };
        // One that was ranked again since comes another time.
        if is_sorted[item] || ns != growth_ns(item, &sorted_ends) {
            continue;
        }
        is_sorted[item] = true;
        sorted.push(item);
        waiting.after(item, |next| fresh.push(next));
        for &t in &problem.transfers_of[item] {
            sorted_ends[t] += 1;
            if sorted_ends[t] == 1 || sorted_ends[t] + 1 == ends[t] {
                let again = problem.transfers[t].items();
                let again = again.filter(|&end| ready_at[end].is_some() && !is_sorted[end]);
                ranked.extend(again.map(|end| rank(end, &sorted_ends, &ready_at)));
            }
        }
    }
    waiting.turned(sorted)
}

/// How many others each item waits for, along edges of a direction.
struct Waiting<'a> {
    problem: &'a Problem,
    direction: Direction,
    waits_for: Vec<usize>,
}

impl<'a> Waiting<'a> {
    fn new(problem: &'a Problem, direction: Direction) -> Self {
        let before = |item: usize| {
            problem
                .order
                .neighbors_directed((item as u32).into(), direction.opposite())
        };
        Self {
            problem,
            direction,
            waits_for: (0..problem.items.len())
                .map(|item| before(item).count())
                .collect(),
        }
    }

    /// Items that wait for nothing, in ascending order.
    fn first(&self) -> impl Iterator<Item = usize> + use<> {
        let ready: Vec<usize> = (0..self.waits_for.len())
            .filter(|&item| self.waits_for[item] == 0)
            .collect();
        ready.into_iter()
    }

    /// Puts an item behind those sorted; names those that wait for nothing more.
    fn after(&mut self, item: usize, mut ready: impl FnMut(usize)) {
        for next in self
            .problem
            .order
            .neighbors_directed((item as u32).into(), self.direction)
        {
            self.waits_for[next.index()] -= 1;
            if self.waits_for[next.index()] == 0 {
                ready(next.index());
            }
        }
    }

    /// Sorted items from the first on, whichever end sorting began at.
    fn turned(&self, mut sorted: Vec<usize>) -> Vec<usize> {
        if self.direction == Incoming {
            sorted.reverse();
        }
        sorted
    }
}
