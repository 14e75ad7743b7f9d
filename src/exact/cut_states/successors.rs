//! The cut states of a boundary that one more stage may lead to: *Layers* in `formulations/cut_states.md`.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::exact::bits;
use crate::exact::components::component::Component;
use crate::exact::components::ideal::{Ideal, Towards};
use crate::exact::cut_states::costs::{BoundaryCosts, Crossers};
use crate::exact::cut_states::index::IndexedPairs;
use crate::exact::cut_states::refine::{RefinedPairs, Refinement, RefinementLimits};
use crate::exact::cut_states::states::CutStates;

/// A search for the cut states that one more stage may lead to from some pairs.
pub(crate) struct SuccessorSearch<'a> {
    pub pairs: IndexedPairs<'a>,
    pub cut_states: &'a CutStates,
    /// No stage may be busier.
    pub limit_ns: u64,
    pub towards: Towards,
    /// Where stages begin, all before one boundary.
    pub from: &'a [[Ideal; 2]],
}

/// Pairs that a stage may lead to.
pub(crate) struct SuccessorPairs {
    /// Each with what the left side of the inequality comes to, in ns, in ascending order.
    pub pairs: Vec<(i64, [Ideal; 2])>,
    /// For each pair they may be reached from, what the right side does, in ns.
    pub most_ns: Vec<i64>,
    /// Pairs of nodes that were looked at.
    pub looked_at: usize,
}

impl SuccessorSearch<'_> {
    /// The pairs before another boundary that a stage may lead to, or a sample of them; `None` if that does not come down to pairs of
    /// ideals.
    pub(crate) fn before(
        &self,
        boundary: usize,
        limits: RefinementLimits,
        must_stop: &dyn Fn() -> bool,
    ) -> Option<SuccessorPairs> {
        let (pairs, cut_states) = (self.pairs, self.cut_states);
        let most_ns: Vec<i64> = self.from.iter().map(|&from| self.most_ns(from)).collect();
        let costs = self.costs(boundary, most_ns.iter().copied().max()?);
        let windows = &cut_states.windows[boundary];
        let mut refinement = Refinement::new(pairs, windows, costs, pairs.index.take_bounds());
        let refined = refinement.refine(cut_states.pairs(boundary), limits, must_stop);
        let successors = (refined.pairs.level == 0).then(|| SuccessorPairs {
            pairs: self.sorted(&refinement, &refined),
            most_ns,
            looked_at: refined.looked_at,
        });
        pairs.index.return_bounds(refinement.bounds);
        successors
    }

    /// The side that stages are taken from.
    fn near_side(&self) -> usize {
        match self.towards {
            Towards::End => 0,
            Towards::Start => 1,
        }
    }

    /// Costs at the boundary, where those on the near side follow the inequality and may come to `most_ns`.
    fn costs(&self, boundary: usize, most_ns: i64) -> BoundaryCosts {
        let index = self.pairs.index;
        let near = self.near_side();
        let crossers = self.crossers();
        let shared = self.cut_states.costs(index, boundary);
        let mut limits_ns = shared.most_ns;
        limits_ns[near] = most_ns;
        BoundaryCosts::new(index, limits_ns, |of, t| {
            let mut cost = shared.of(of, t);
            let ns = index.transfers[of][t].ns as i64;
            let ns = if crossers[of].contains(t) { -ns } else { ns };
            cost[near] = ns.div_euclid(index.unit_ns) as i32;
            cost
        })
    }

    /// Pairs of ideals with what the left side of the inequality comes to.
    fn sorted(&self, refinement: &Refinement, refined: &RefinedPairs) -> Vec<(i64, [Ideal; 2])> {
        let near = self.near_side();
        let of = |&pair: &[u32; 2]| (refinement.leaf_pair_ns(pair)[near], pair);
        let mut pairs: Vec<(i64, [Ideal; 2])> = refined.pairs.nodes.par_iter().map(of).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The work on the near side of a pair, and the transfers across it.
    fn near_ns(&self, pair: [Ideal; 2]) -> [i64; 2] {
        let components = self.pairs.components;
        let work_ns = |p: usize| {
            let component = &components[p];
            match self.towards {
                Towards::End => component.work_ns(pair[p], 0),
                Towards::Start => component.work_ns(component.everything(), pair[p]),
            }
        };
        let crossing_ns = |p: usize| components[p].crossing_ns(pair[p]);
        [
            (work_ns(0) + work_ns(1)) as i64,
            (crossing_ns(0) + crossing_ns(1) + self.pairs.cross.cut_ns(pair)) as i64,
        ]
    }

    /// What the limit leaves for the left side of the inequality where stages start from a pair.
    fn most_ns(&self, from: [Ideal; 2]) -> i64 {
        let [work_ns, crossing_ns] = self.near_ns(from);
        self.limit_ns as i64 + work_ns - crossing_ns
    }

    /// What the left side comes to for a pair without what crosses two boundaries.
    pub(crate) fn least_ns(&self, to: [Ideal; 2]) -> i64 {
        let [work_ns, crossing_ns] = self.near_ns(to);
        work_ns + crossing_ns
    }

    /// Twice what crosses both of two pairs.
    pub(crate) fn through_ns(&self, from: [Ideal; 2], to: [Ideal; 2]) -> i64 {
        let inside = |p: usize| self.pairs.components[p].crossing_both_ns(from[p], to[p]);
        2 * (inside(0) + inside(1) + self.pairs.cross.cut_by_both_ns(from, to)) as i64
    }

    /// The transfers that cross behind some pair.
    fn crossers(&self) -> Crossers {
        let IndexedPairs {
            components,
            cross,
            index,
        } = self.pairs;
        let none = |of: usize| FixedBitSet::with_capacity(index.transfers[of].len());
        let mut all = [0, 1, 2].map(none);
        let inside = |component: &Component, ideal: Ideal, crossers: &mut FixedBitSet| {
            component.crossing(ideal).for_each(|t| crossers.insert(t));
        };
        for &from in self.from {
            (0..2).for_each(|p| inside(&components[p], from[p], &mut all[p]));
            bits::members(cross.cut(from)).for_each(|t| all[2].insert(t));
        }
        all
    }
}
