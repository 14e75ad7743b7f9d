//! What is charged for transfers across a boundary: *Limits* in `formulations/cut_states.md`.

use std::ops::Range;

use fixedbitset::FixedBitSet;

use crate::exact::bits;
use crate::exact::components::cross::subset_sums;
use crate::exact::cut_states::index::CutStateIndex;
use crate::exact::cut_states::node_bound::{BoundaryCost, plus};

/// For each boundary, the transfers that may cross it, as in [`CutStateIndex::transfers`].
pub(super) type Crossers = [FixedBitSet; 3];

/// The costs of transfers across one boundary, and the limits of either side.
pub(crate) struct BoundaryCosts {
    /// For each component the transfers inside it.
    pub inside: [Vec<BoundaryCost>; 2],
    /// The transfers between the components.
    pub between: Vec<BoundaryCost>,
    /// Sums over each set of eight of these.
    pub subset_sums: Vec<[BoundaryCost; 256]>,
    /// The transfers between the components, without what is negative.
    pub ends: Vec<BoundaryCost>,
    /// Bits of those that cost less than nothing on a side.
    pub negative: Box<[u64]>,
    /// What transfers between the components cost at least.
    pub least_between_ns: [i64; 2],
    /// What either side may cost.
    pub most_ns: [i64; 2],
}

impl BoundaryCosts {
    /// Costs of the transfers, by their place in [`CutStateIndex::transfers`], if either side may cost so much.
    pub(crate) fn new(
        index: &CutStateIndex,
        most_ns: [i64; 2],
        cost: impl Fn(usize, usize) -> BoundaryCost,
    ) -> Self {
        let of = |of: usize| -> Vec<BoundaryCost> {
            let transfers = 0..index.transfers[of].len();
            transfers.map(|t| cost(of, t)).collect()
        };
        let [first, second, between] = [0, 1, 2].map(of);
        let least_between = |side: usize| -> i64 {
            let units = between.iter().map(|cost| i64::from(cost[side].min(0)));
            units.sum::<i64>() * index.unit_ns
        };
        let is_negative = |&t: &usize| between[t].iter().any(|&units| units < 0);
        let negative = (0..between.len()).filter(is_negative);
        Self {
            subset_sums: between.chunks(8).map(|costs| subset_sums(costs, plus)).collect(),
            ends: between
                .iter()
                .map(|cost| cost.map(|units| units.max(0)))
                .collect(),
            negative: bits::from_members(bits::words(between.len()), negative),
            least_between_ns: [least_between(0), least_between(1)],
            inside: [first, second],
            between,
            most_ns,
        }
    }

    /// Costs at a boundary where every transfer is charged in equal shares at all boundaries that it may cross.
    pub(crate) fn shared(
        index: &CutStateIndex,
        most_ns: [i64; 2],
        crossers: &[Crossers],
        boundary: usize,
    ) -> Self {
        let crossed = |range: Range<usize>, of: usize, t: usize| {
            range.filter(|&other| crossers[other][of].contains(t)).count() as i64
        };
        Self::new(index, most_ns, |of, t| {
            let before = crossed(0..boundary, of, t);
            let behind = crossed(boundary + 1..crossers.len(), of, t);
            let all = before + 1 + behind;
            let ns = index.transfers[of][t].ns as i64;
            // What is charged at boundaries on one side has been paid there. Everything is rounded down.
            let in_units = |numerator: i64| numerator.div_euclid(all * index.unit_ns) as i32;
            [
                in_units(ns * (all - 2 * before)),
                in_units(ns * (all - 2 * behind)),
            ]
        })
    }

    /// The cost of one transfer, by its place in [`CutStateIndex::transfers`].
    pub(crate) fn of(&self, of: usize, t: usize) -> BoundaryCost {
        let [first, second] = &self.inside;
        [first, second, &self.between][of][t]
    }
}
