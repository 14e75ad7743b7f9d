//! The pairs of a front that one more stage may lead to: *Layers* in `formulations/cut_states.md`.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::exact::cut_states::Fronts;
use crate::exact::cut_states::costs::Costs;
use crate::exact::cut_states::cross::Cross;
use crate::exact::cut_states::ground::{Closeness, Ground};
use crate::exact::cut_states::look::Look;
use crate::exact::ideal_pairs::listing;
use crate::exact::ideal_pairs::part::{Ideal, Part, Towards};

/// Pairs of ideals from which one more stage is taken.
pub struct Reaching<'a> {
    pub parts: &'a [Part; 2],
    pub cross: &'a Cross,
    pub ground: &'a Ground,
    pub fronts: &'a Fronts,
    /// No stage may be busier.
    pub limit_ns: u64,
    pub towards: Towards,
    /// The pairs, all before one boundary.
    pub from: &'a [[Ideal; 2]],
}

/// Pairs that a stage may lead to.
pub struct Layer {
    /// Each with what the left side of the inequality comes to, in ns, in ascending order.
    pub pairs: Vec<(i64, [Ideal; 2])>,
    /// For each pair they may be reached from, what the right side does, in ns.
    pub most_ns: Vec<i64>,
    /// Pairs of nodes that were looked at.
    pub looked_at: usize,
}

impl Reaching<'_> {
    /// The pairs before another boundary that a stage may lead to, or some of them if it is not looked at all; `None` if that
    /// does not come down to pairs of ideals.
    pub fn boundary(
        &self,
        boundary: usize,
        closeness: Closeness,
        must_stop: &dyn Fn() -> bool,
    ) -> Option<Layer> {
        let Self {
            parts,
            cross,
            ground,
            fronts,
            ..
        } = *self;
        // The side that stages are taken from.
        let near = match self.towards {
            Towards::End => 0,
            Towards::Start => 1,
        };
        let most_ns: Vec<i64> = self.from.iter().map(|&from| self.most_ns(from)).collect();
        let crossers = self.crossers();
        let counted = fronts.costs(ground, boundary);
        let mut limits_ns = counted.most_ns;
        limits_ns[near] = most_ns.iter().copied().max()?;
        let costs = Costs::new(ground, limits_ns, |of, t| {
            let mut cost = counted.of(of, t);
            let ns = ground.links[of][t].ns as i64;
            let ns = if crossers[of].contains(t) { -ns } else { ns };
            cost[near] = ns.div_euclid(ground.unit_ns) as i32;
            cost
        });
        let zones = &fronts.zones[boundary];
        let mut look = Look::new(parts, cross, ground, zones, costs, ground.owns());
        let kept = look.closer(&fronts.known.pairs[boundary], closeness, must_stop);
        if kept.level > 0 {
            ground.keep(look.own);
            return None;
        }
        let of = |&pair: &[u32; 2]| (look.ns(pair)[near], pair);
        let mut pairs: Vec<(i64, [Ideal; 2])> = kept.nodes.par_iter().map(of).collect();
        pairs.sort_unstable();
        ground.keep(look.own);
        Some(Layer {
            pairs,
            most_ns,
            looked_at: kept.looked_at,
        })
    }

    /// The work on the near side of a pair, and the transfers across it.
    fn near_ns(&self, pair: [Ideal; 2]) -> [i64; 2] {
        let work_ns = |p: usize| {
            let part = &self.parts[p];
            match self.towards {
                Towards::End => part.work_ns(pair[p], 0),
                Towards::Start => part.work_ns(part.everything(), pair[p]),
            }
        };
        let crossing_ns = |p: usize| self.parts[p].crossing_ns(pair[p]);
        [
            (work_ns(0) + work_ns(1)) as i64,
            (crossing_ns(0) + crossing_ns(1) + self.cross.apart_ns(pair)) as i64,
        ]
    }

    /// What the limit leaves for the left side of the inequality where stages start from a pair.
    fn most_ns(&self, from: [Ideal; 2]) -> i64 {
        let [work_ns, crossing_ns] = self.near_ns(from);
        self.limit_ns as i64 + work_ns - crossing_ns
    }

    /// What the left side comes to for a pair without what crosses two boundaries.
    pub fn least_ns(&self, to: [Ideal; 2]) -> i64 {
        let [work_ns, crossing_ns] = self.near_ns(to);
        work_ns + crossing_ns
    }

    /// Twice what crosses both of two pairs.
    pub fn through_ns(&self, from: [Ideal; 2], to: [Ideal; 2]) -> i64 {
        let inside = |p: usize| self.parts[p].crossing_both_ns(from[p], to[p]);
        2 * (inside(0) + inside(1) + self.cross.apart_both_ns(from, to)) as i64
    }

    /// The transfers that cross behind some pair, as in [`Ground::links`].
    fn crossers(&self) -> [FixedBitSet; 3] {
        let mut all = [0, 1, 2].map(|of: usize| FixedBitSet::with_capacity(self.ground.links[of].len()));
        for &from in self.from {
            for p in 0..2 {
                self.parts[p].crossing(from[p]).for_each(|t| all[p].insert(t));
            }
            listing::ones(self.cross.apart(from)).for_each(|t| all[2].insert(t));
        }
        all
    }
}
