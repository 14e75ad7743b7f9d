//! What ideals cost at a boundary, and what the ideals below a node of a tree cost at least.

/// Beyond all sums of times.
pub(super) const NEVER_NS: i64 = i64::MAX / 8;

/// Of the transfers across a boundary, in units of `CutStateIndex::unit_ns` and rounded down: what stages before it and behind it
/// pay beyond twice what is charged at boundaries on their side. What is charged at the boundary is half the sum of the two.
pub(super) type BoundaryCost = [i32; 2];

/// The sum of two.
pub(super) fn plus(a: BoundaryCost, b: BoundaryCost) -> BoundaryCost {
    [a[0] + b[0], a[1] + b[1]]
}

/// What an ideal of either component costs on either side, in ns, transfers between the components apart; or what some do at
/// least.
#[derive(Clone, Copy, Default)]
pub(crate) struct NodeBound {
    pub ns: [i64; 2],
    pub sum_ns: i64,
    /// What all ends of transfers between the components would cost, where that is not negative, in units: the least and the most.
    pub ends: [BoundaryCost; 2],
}

impl NodeBound {
    /// Of no ideal.
    pub(crate) const NEVER: Self = Self {
        ns: [NEVER_NS; 2],
        sum_ns: NEVER_NS,
        ends: [[i32::MAX; 2], [0; 2]],
    };

    /// Of a single ideal.
    pub(crate) fn of_leaf(ns: [i64; 2], ends: BoundaryCost) -> Self {
        Self {
            ns,
            sum_ns: ns[0] + ns[1],
            ends: [ends; 2],
        }
    }

    /// Of the ideals below two nodes.
    pub(crate) fn and(self, other: Self) -> Self {
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
    pub(crate) fn least_cut(&self, other: &Self, side: usize) -> i32 {
        let more = self.ends[0][side] - other.ends[1][side];
        let less = other.ends[0][side] - self.ends[1][side];
        more.max(less).max(0)
    }
}
