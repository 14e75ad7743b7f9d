//! What counts for transfers across a boundary, and what ideals come to with it.

use super::cross::sums;
use super::front_search::Search;
use super::listing;

/// Beyond all sums of times.
pub const NEVER_NS: i64 = i64::MAX / 8;

/// Of the transfers across a boundary, in units of [`Ground::unit_ns`] and rounded down: what stages before it and behind it pay
/// beyond twice what counts at boundaries on their side. What counts at the boundary is half the sum of the two.
pub type Cost = [i32; 2];

/// The sum of two.
pub fn plus(a: Cost, b: Cost) -> Cost {
    [a[0] + b[0], a[1] + b[1]]
}

/// What counts at a boundary.
pub struct Costs {
    /// For each part the transfers inside it.
    pub inside: [Vec<Cost>; 2],
    /// The transfers between the parts.
    pub between: Vec<Cost>,
    /// Sums over each set of eight of these.
    pub sums: Vec<[Cost; 256]>,
    /// The transfers between the parts, without what is negative.
    pub ends: Vec<Cost>,
    /// Bits of those that cost less than nothing on a side.
    pub negative: Box<[u64]>,
    /// What transfers between the parts come to at least.
    pub least_between_ns: [i64; 2],
    /// See [`Search::most_ns`].
    pub most_ns: [i64; 2],
}

impl Costs {
    pub fn new(search: &Search, boundary: usize) -> Self {
        let [first, second, between] = [0, 1, 2].map(|of| {
            (0..search.ground.links[of].len())
                .map(|t| search.cost(of, t, boundary))
                .collect::<Vec<_>>()
        });
        let least_between = |side: usize| -> i64 {
            let units = between.iter().map(|cost| i64::from(cost[side].min(0)));
            units.sum::<i64>() * search.ground.unit_ns
        };
        let is_negative = |&t: &usize| between[t].iter().any(|&units| units < 0);
        let negative = (0..between.len()).filter(is_negative);
        Self {
            sums: between.chunks(8).map(|costs| sums(costs, plus)).collect(),
            ends: between
                .iter()
                .map(|cost| cost.map(|units| units.max(0)))
                .collect(),
            negative: listing::set(between.len().div_ceil(64), negative),
            least_between_ns: [least_between(0), least_between(1)],
            inside: [first, second],
            between,
            most_ns: search.most_ns(boundary),
        }
    }
}

/// The sum of what transfers cost once some of them were exchanged for others, which come as words of new and old ones.
pub fn changed(mut sum: Cost, words: impl Iterator<Item = (u64, u64)>, costs: &[Cost]) -> Cost {
    for (at, (new, old)) in words.enumerate() {
        for t in listing::ones([new & !old]) {
            sum = plus(sum, costs[64 * at + t]);
        }
        for t in listing::ones([old & !new]) {
            sum = plus(sum, costs[64 * at + t].map(|units| -units));
        }
    }
    sum
}

/// What an ideal of either part comes to on either side, in ns, transfers between the parts apart; or what some do at least.
#[derive(Clone, Copy, Default)]
pub struct Own {
    pub ns: [i64; 2],
    pub sum_ns: i64,
    /// What all ends of transfers between the parts would come to, where that is not negative, in units: the least and the most.
    pub ends: [Cost; 2],
}

impl Own {
    /// What comes to nothing below.
    pub const NEVER: Self = Self {
        ns: [NEVER_NS; 2],
        sum_ns: NEVER_NS,
        ends: [[i32::MAX; 2], [0; 2]],
    };

    pub fn of(ns: [i64; 2], ends: Cost) -> Self {
        Self {
            ns,
            sum_ns: ns[0] + ns[1],
            ends: [ends; 2],
        }
    }

    /// The least of two.
    pub fn and(self, other: Self) -> Self {
        let [[least, most], [other_least, other_most]] = [self.ends, other.ends];
        let ends = |side: usize| {
            [
                least[side].min(other_least[side]),
                most[side].max(other_most[side]),
            ]
        };
        let [before, behind] = [ends(0), ends(1)];
        Self {
            ns: [self.ns[0].min(other.ns[0]), self.ns[1].min(other.ns[1])],
            sum_ns: self.sum_ns.min(other.sum_ns),
            ends: [[before[0], behind[0]], [before[1], behind[1]]],
        }
    }

    /// What crosses on a side at least, because ends in one are more than those in the other, in units.
    pub fn apart(&self, other: &Self, side: usize) -> i32 {
        let more = self.ends[0][side] - other.ends[1][side];
        let less = other.ends[0][side] - self.ends[1][side];
        more.max(less).max(0)
    }
}
