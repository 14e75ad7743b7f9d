//! What counts for transfers across a boundary, and what ideals come to with it.

use std::ops::Range;

use fixedbitset::FixedBitSet;

use crate::exact::cut_states::cross::{Cross, sums};
use crate::exact::cut_states::ground::Ground;
use crate::exact::cut_states::look::Zone;
use crate::exact::ideal_pairs::listing;
use crate::exact::ideal_pairs::part::{Ideal, Part, is_subset};

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
    /// What either side may come to.
    pub most_ns: [i64; 2],
}

impl Costs {
    /// Costs of the transfers, by their place in [`Ground::links`], if either side may come to so much.
    pub fn new(ground: &Ground, most_ns: [i64; 2], cost: impl Fn(usize, usize) -> Cost) -> Self {
        let [first, second, between] = [0, 1, 2].map(|of| {
            (0..ground.links[of].len())
                .map(|t| cost(of, t))
                .collect::<Vec<_>>()
        });
        let least_between = |side: usize| -> i64 {
            let units = between.iter().map(|cost| i64::from(cost[side].min(0)));
            units.sum::<i64>() * ground.unit_ns
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
            most_ns,
        }
    }
}

/// What counts for a transfer that crosses a boundary, if it does at all that it is said to cross.
pub fn counted(ground: &Ground, crossers: &[[FixedBitSet; 3]], boundary: usize, of: usize, t: usize) -> Cost {
    let number = |range: Range<usize>| range.filter(|&other| crossers[other][of].contains(t)).count() as i64;
    let [before, behind] = [number(0..boundary), number(boundary + 1..crossers.len())];
    let all = before + 1 + behind;
    let ns = ground.links[of][t].ns as i64;
    // What counts at boundaries on one side has been paid there. Everything is rounded down.
    let in_units = |numerator: i64| numerator.div_euclid(all * ground.unit_ns) as i32;
    [
        in_units(ns * (all - 2 * before)),
        in_units(ns * (all - 2 * behind)),
    ]
}

impl Costs {
    /// What one transfer costs, by its place in [`Ground::links`].
    pub fn of(&self, of: usize, t: usize) -> Cost {
        let [first, second] = &self.inside;
        [first, second, &self.between][of][t]
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

/// What ideals of a part come to at a boundary, one after the other: those near each other differ by little.
pub struct Scales<'a> {
    part: &'a Part,
    p: usize,
    cross: &'a Cross,
    zone: &'a Zone,
    costs: &'a Costs,
    unit_ns: i64,
    /// Work of all items of the part.
    all_ns: i64,
    /// The ideal weighed last, and what it came to.
    last: Ideal,
    inside: Cost,
    ends: Cost,
}

impl<'a> Scales<'a> {
    pub fn new(
        parts: &'a [Part; 2],
        p: usize,
        cross: &'a Cross,
        zone: &'a Zone,
        costs: &'a Costs,
        unit_ns: i64,
    ) -> Self {
        Self {
            part: &parts[p],
            p,
            cross,
            zone,
            costs,
            unit_ns,
            all_ns: parts[p].work_ns(parts[p].everything(), 0) as i64,
            last: 0,
            inside: [0; 2],
            ends: [0; 2],
        }
    }

    /// What the next one comes to.
    pub fn weigh(&mut self, ideal: Ideal) -> Own {
        let Self {
            part,
            p,
            cross,
            costs,
            last,
            ..
        } = *self;
        let bits = part.bits(ideal);
        let work_ns = part.work_ns(ideal, 0);
        let zone = self.zone;
        let may_lie =
            zone.work_ns.contains(&work_ns) && is_subset(bits, &zone.may) && is_subset(&zone.must, bits);
        if !may_lie {
            return Own::NEVER;
        }
        let crossing = part.crossing_bits(ideal).iter().zip(part.crossing_bits(last));
        self.inside = changed(
            self.inside,
            crossing.map(|(&new, &old)| (new, old)),
            &costs.inside[p],
        );
        let held = cross.held(p, ideal).zip(cross.held(p, last));
        self.ends = changed(self.ends, held, &costs.ends);
        self.last = ideal;
        let counted_ns = self.inside.map(|units| i64::from(units) * self.unit_ns);
        let work_ns = work_ns as i64;
        Own::of(
            [counted_ns[0] + work_ns, counted_ns[1] + self.all_ns - work_ns],
            self.ends,
        )
    }
}
