//! What a row of devices holds at most if an iteration takes so long: no plan takes less than it needs for all items.
//!
//! A device begins when a micro-batch has passed the chunks before its first one, and behind its last operation one goes back through these. With `L_d` for
//! both, `M` micro-batches, and `w_d` of work for each, an iteration takes `L_d + M w_d` at least. So within `T` a device holds no more than `((T - L_d) / M - b_d) / θ`
//! of the items that take `θ` or longer, beside `b_d` that it does anyway, nor more of them than it has memory for; `θ` is as much longer there as every item is at
//! least, where devices differ. Where items have several ways to run, `θ` falls as the bytes of an item grow: `n` of them on a device with room for `R` take `n θ(R / n)` at
//! least, where `θ(b)` is the lower convex hull of all ways. That is the largest of `n a_l - k_l R` over its lines, so that `n` is bounded by each of them.
//! Where that leaves some without a place, no plan takes `T`: the pigeonhole principle, asked for every `θ`. Ours.

use std::collections::BTreeMap;

use crate::model::units::bisect;

/// Sets of items that are asked for.
const MOST_SETS: usize = 8;

/// Ways that are told apart in a set.
const MOST_WAYS: usize = 32;

/// What an item takes in ns in some way, and what it holds once, for each micro-batch in flight, and to share out among replicas.
pub(super) type Cost = (u64, [u64; 3]);

/// Items that take so long at least, in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub least_ns: u64,
    pub count: u64,
    /// Each of them costs as much as one of these at least.
    pub ways: Vec<Cost>,
}

/// How many items of a set a device has memory for, and for how many if they are to be fast.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Room {
    most: u64,
    /// The hull's lines: so many items take `n a - k R` ns at least, as `[k R, a]`.
    lines: Vec<[f64; 2]>,
}

impl Room {
    /// Of so many bytes, of which an item holds such a part of its cost.
    pub(super) fn new(ways: &[Cost], room: u64, held: impl Fn([u64; 3]) -> u64) -> Self {
        let mut points: Vec<[u64; 2]> = ways.iter().map(|&(ns, bytes)| [held(bytes), ns]).collect();
        points.sort_unstable();
        let mut hull: Vec<[f64; 2]> = Vec::new();
        for point in points.iter().map(|point| point.map(|part| part as f64)) {
            if hull.last().is_some_and(|last| last[1] <= point[1]) {
                continue;
            }
            while let [.., p, q] = hull[..] {
                if (q[0] - p[0]) * (point[1] - p[1]) > (q[1] - p[1]) * (point[0] - p[0]) {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        let line = |pair: &[[f64; 2]]| {
            let fall = (pair[0][1] - pair[1][1]) / (pair[1][0] - pair[0][0]);
            [fall * room as f64, pair[0][1] + fall * pair[0][0]]
        };
        let is_limited = room < u64::MAX;
        let lines = hull.windows(2).filter(|_| is_limited).map(line);
        let fastest = hull.last().map(|point| [0.0, point[1]]);
        Self {
            most: points
                .first()
                .and_then(|point| room.checked_div(point[0]))
                .unwrap_or(u64::MAX),
            lines: lines.chain(fastest).collect(),
        }
    }

    /// Where both are asked.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.most = self.most.min(other.most);
        self.lines.extend(other.lines);
        self
    }

    /// How many items there are time and room for.
    fn within(&self, left_ns: f64) -> u64 {
        /// Less than an item is, more than doubles lose.
        const ROUNDING: f64 = 1e-6;
        let lines = self.lines.iter().filter(|[_, each]| *each > 0.0);
        let most = lines.map(|[gain, each]| (left_ns + gain) / each * (1.0 + 1e-12));
        let most = most.fold(f64::INFINITY, f64::min);
        self.most.min((most + ROUNDING) as u64)
    }
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

/// Those of which no other is as little in every part; where these are many, one that is.
pub(super) fn not_dominated(mut ways: Vec<Cost>) -> Vec<Cost> {
    ways.sort_unstable();
    let mut kept: Vec<Cost> = Vec::new();
    for (ns, bytes) in ways {
        let is_beaten = |other: &Cost| (0..3).all(|at| other.1[at] <= bytes[at]);
        if !kept.iter().any(is_beaten) {
            kept.push((ns, bytes));
        }
    }
    match kept.len() > MOST_WAYS {
        true => vec![least(&kept)],
        false => kept,
    }
}

/// The least of each part.
pub(super) fn least(ways: &[Cost]) -> Cost {
    let ns = ways.iter().map(|way| way.0).min().unwrap_or(0);
    let bytes = [0, 1, 2].map(|at| ways.iter().map(|way| way.1[at]).min().unwrap_or(0));
    (ns, bytes)
}

/// The sets of items of such ways that say most, and their work in ns as items of one each.
pub(super) fn sets(items: impl Iterator<Item = Vec<Cost>>) -> Vec<Set> {
    let mut by_work: BTreeMap<u64, (u64, Vec<Cost>)> = BTreeMap::new();
    let mut work_ns = 0;
    for ways in items {
        let (ns, _) = least(&ways);
        if ns > 0 {
            work_ns += ns;
            let (count, all) = by_work.entry(ns).or_default();
            *count += 1;
            if ways.iter().any(|way| !all.contains(way)) {
                *all = not_dominated([&all[..], &ways].concat());
            }
        }
    }
    let mut count = 0;
    let mut all = Vec::new();
    let longer = by_work.into_iter().rev().map(|(least_ns, (own, ways))| {
        count += own;
        all = not_dominated([&all[..], &ways].concat());
        Set {
            least_ns,
            count,
            ways: all.clone(),
        }
    });
    let mut sets: Vec<Set> = longer.collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.least_ns.saturating_mul(set.count)));
    sets.truncate(MOST_SETS);
    sets.push(Set {
        least_ns: 1,
        count: work_ns,
        ways: vec![(1, [0; 3])],
    });
    sets
}

/// The least time of an iteration in which devices hold all items of a set, in ns; `u64::MAX` where they have no memory.
///
/// * `rooms`: how many of them each has memory for;
/// * `is_single`: a device has one chunk, so that the next waits for all that it holds.
///
/// In time linear in devices, and in the logarithm of the answer.
pub(super) fn least_ns(
    set: &Set,
    micro_batches: u64,
    (places, rooms): (&[Place], &[Room]),
    is_single: bool,
) -> u64 {
    let fits = |ns: u64| {
        let mut held = 0;
        for (place, room) in places.iter().zip(rooms) {
            let before_ns = if is_single {
                set.least_ns.saturating_mul(held)
            } else {
                0
            };
            let left_ns = ns.saturating_sub(place.lead_ns).saturating_sub(before_ns) / micro_batches.max(1);
            let most = room.within(left_ns.saturating_sub(place.beside_ns) as f64 / place.slower.max(1.0));
            held = set.count.min(held.saturating_add(most));
        }
        held >= set.count
    };
    let most = rooms.iter().fold(0u64, |all, room| all.saturating_add(room.most));
    if most < set.count {
        return u64::MAX;
    }
    let longest_ns = set.ways.iter().map(|way| way.0).max().unwrap_or(0);
    let work_ns = set.count.saturating_mul(longest_ns);
    let longer = |place: &Place, ns: u64| (ns as f64 * place.slower.max(1.0)).ceil() as u64;
    let one_by_one_ns = |place: &Place| {
        let busy_ns = micro_batches.saturating_mul(place.beside_ns.saturating_add(longer(place, work_ns)));
        place.lead_ns.saturating_add(work_ns).saturating_add(busy_ns)
    };
    bisect([0, places.iter().map(one_by_one_ns).max().unwrap_or(0)], fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_as_many_as_some_mixture_of_their_ways_allows() {
        let ways: [Cost; 4] = [(10, [8, 0, 0]), (12, [4, 0, 0]), (13, [5, 0, 0]), (20, [2, 0, 0])];
        for room in 0..60 {
            let of = Room::new(&ways, room, |[held, ..]| held);
            for left in 0..200u64 {
                // Of each way so many, in parts of a fifth.
                let keeps_to = |[fast, middle, slow]: [u64; 3]| {
                    10 * fast + 12 * middle + 20 * slow <= 5 * left
                        && 8 * fast + 4 * middle + 2 * slow <= 5 * room
                };
                let fits = |n: u64| {
                    let fast = (0..=5 * n).flat_map(|fast| (0..=5 * n - fast).map(move |rest| (fast, rest)));
                    fast.map(|(fast, rest)| [fast, rest, 5 * n - fast - rest])
                        .any(keeps_to)
                };
                let most = of.within(left as f64);
                assert!(!fits(most + 1), "room {room}, {left} ns, {most}");
            }
        }
        let endless = Room::new(&ways, u64::MAX, |[held, ..]| held);
        assert_eq!(endless.within(99.0), 9);
    }
}
