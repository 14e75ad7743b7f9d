//! What a row of devices holds at most if an iteration takes so long: no plan takes less than it needs for all items.
//!
//! A device begins when a micro-batch has passed the chunks before its first one, and behind its last operation one goes back through these. With `L_d` for
//! both, `M` micro-batches, and `w_d` of work for each, an iteration takes `L_d + M w_d` at least. So within `T` a device holds no more than `((T - L_d) / M - b_d) / θ`
//! of the items that take `θ` or longer, beside `b_d` that it does anyway, nor more of them than it has memory for; `θ` is as much longer there as every item is at
//! least, where devices differ. Where that leaves some without a place, no plan takes `T`: the pigeonhole principle, asked for every `θ`. Ours.

use std::collections::BTreeMap;

/// Sets of items that are asked for.
const MOST_SETS: usize = 8;

/// Items that take so long at least, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub least_ns: u64,
    pub count: u64,
    /// What each of them holds once, for each micro-batch in flight, and to share out among replicas, at least.
    pub bytes: [u64; 3],
}

/// What is known of a device before its items are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Before its first operation and behind its last one, in ns.
    pub lead_ns: u64,
    /// Beside its items, for each micro-batch, in ns.
    pub beside_ns: u64,
    /// How many times as long every item takes there, at least.
    pub slower: f64,
}

impl Place {
    /// How many items that take so long at least it has time for.
    fn most(&self, left_ns: u64, least_ns: u64) -> u64 {
        /// Less than an item is, more than doubles lose.
        const ROUNDING: f64 = 1e-6;
        match self.slower > 1.0 {
            true => (left_ns as f64 / (least_ns as f64 * self.slower) + ROUNDING) as u64,
            false => left_ns / least_ns,
        }
    }
}

/// The sets of items of such work and bytes that say most, and their work in ns as items of one each.
pub(super) fn sets(items: impl Iterator<Item = (u64, [u64; 3])>) -> Vec<Set> {
    let mut by_work: BTreeMap<u64, (u64, [u64; 3])> = BTreeMap::new();
    let mut work_ns = 0;
    for (ns, bytes) in items.filter(|&(ns, _)| ns > 0) {
        work_ns += ns;
        let (count, least) = by_work.entry(ns).or_insert((0, bytes));
        *count += 1;
        *least = [0, 1, 2].map(|at| least[at].min(bytes[at]));
    }
    let mut count = 0;
    let mut bytes = [u64::MAX; 3];
    let longer = by_work.into_iter().rev().map(|(least_ns, (own, least))| {
        count += own;
        bytes = [0, 1, 2].map(|at| bytes[at].min(least[at]));
        Set {
            least_ns,
            count,
            bytes,
        }
    });
    let mut sets: Vec<Set> = longer.collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.least_ns.saturating_mul(set.count)));
    sets.truncate(MOST_SETS);
    sets.push(Set {
        least_ns: 1,
        count: work_ns,
        bytes: [0; 3],
    });
    sets
}

/// The least time of an iteration in which devices hold all items of a set, in ns; `u64::MAX` where they have no memory.
///
/// * `room`: how many of them each has memory for;
/// * `is_single`: a device has one chunk, so that the next waits for all that it holds.
///
/// In time linear in devices, and in the logarithm of the answer.
pub(super) fn least_ns(
    set: &Set,
    micro_batches: u64,
    (places, room): (&[Place], &[u64]),
    is_single: bool,
) -> u64 {
    let fits = |ns: u64| {
        let mut held = 0;
        for (place, &room) in places.iter().zip(room) {
            let before_ns = if is_single {
                set.least_ns.saturating_mul(held)
            } else {
                0
            };
            let left_ns = ns.saturating_sub(place.lead_ns).saturating_sub(before_ns) / micro_batches.max(1);
            let most = room.min(place.most(left_ns.saturating_sub(place.beside_ns), set.least_ns));
            held = set.count.min(held.saturating_add(most));
        }
        held >= set.count
    };
    let room = room.iter().fold(0u64, |all, &room| all.saturating_add(room));
    if room < set.count {
        return u64::MAX;
    }
    let work_ns = set.count.saturating_mul(set.least_ns);
    let longer = |place: &Place, ns: u64| (ns as f64 * place.slower.max(1.0)).ceil() as u64;
    let one_by_one_ns = |place: &Place| {
        let busy_ns = micro_batches.saturating_mul(place.beside_ns.saturating_add(longer(place, work_ns)));
        place.lead_ns.saturating_add(work_ns).saturating_add(busy_ns)
    };
    let (mut short, mut long) = (0, places.iter().map(one_by_one_ns).max().unwrap_or(0));
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        match fits(middle) {
            true => long = middle,
            false => short = middle,
        }
    }
    long
}
