//! Refines the pairs of ideals that may lie before a boundary: from pairs of nodes of two trees down to pairs of leaves.

use std::ops::Range;

use rayon::prelude::*;

use crate::exact::bits;
use crate::exact::cut_states::boundary_window::BoundaryWindow;
use crate::exact::cut_states::costs::BoundaryCosts;
use crate::exact::cut_states::index::{IndexedPairs, NodeBounds};
use crate::exact::cut_states::leaf_bounds::LeafBounds;
use crate::exact::cut_states::node_bound::{NodeBound, plus};
use crate::exact::tuning::TUNING;

/// Pairs of nodes of the two trees, both of one level: what may lie before a boundary is a pair of ideals below some of them.
#[derive(Clone)]
pub(crate) struct NodePairs {
    /// The level, from the leaves up.
    pub level: usize,
    /// The pairs.
    pub nodes: Vec<[u32; 2]>,
}

impl NodePairs {
    /// All pairs in two windows, below few nodes.
    pub(crate) fn within(pairs: IndexedPairs, windows: &[BoundaryWindow; 2]) -> Self {
        let ranges = [0, 1].map(|p: usize| pairs.components[p].of_work(windows[p].work_ns.clone()));
        if ranges.iter().any(Range::is_empty) {
            return Self {
                level: 0,
                nodes: Vec::new(),
            };
        }
        let ends = ranges.map(|range| [range.start, range.end - 1]);
        let is_wide = |level: usize| ends.iter().any(|[from, to]| (to >> level) - (from >> level) > 1);
        let level = (0..).find(|&level| !is_wide(level)).unwrap_or_default();
        let [first, second] = ends.map(|[from, to]| from >> level..=to >> level);
        let nodes = first.flat_map(|first| second.clone().map(move |second| [first, second]));
        Self {
            level,
            nodes: nodes.collect(),
        }
    }

    /// The pairs of ideals below them, at most.
    pub(crate) fn leaf_pairs(&self) -> usize {
        self.nodes.len().saturating_mul(1 << (2 * self.level).min(60))
    }
}

/// How far pairs are refined.
#[derive(Clone, Copy)]
pub(crate) struct RefinementLimits {
    /// Up to so many pairs of leaves below are looked at one by one.
    pub leaf_pairs: usize,
    /// Up to so many pairs of nodes are followed to those below.
    pub node_pairs: usize,
    /// Whether some of them are followed where they are more.
    pub samples: bool,
}

/// Pairs of nodes that may lie before a boundary, and what is known of them together.
pub(crate) struct RefinedPairs {
    /// The pairs.
    pub pairs: NodePairs,
    /// Pairs that were looked at, in all.
    pub looked_at: usize,
    /// Twice what is charged for them at least.
    pub charged_ns: i64,
    /// The least that either side costs.
    pub least_ns: [i64; 2],
    /// Bits of the transfers between the components that may cross behind some of them.
    pub cut: Vec<u64>,
}

impl RefinedPairs {
    fn new(level: usize, words: usize) -> Self {
        Self {
            pairs: NodePairs {
                level,
                nodes: Vec::new(),
            },
            looked_at: 0,
            charged_ns: i64::MAX,
            least_ns: [i64::MAX; 2],
            cut: vec![0; words],
        }
    }

    fn add(&mut self, pair: [u32; 2], ns: [i64; 2], charged_ns: i64) {
        self.pairs.nodes.push(pair);
        self.least_ns = [self.least_ns[0].min(ns[0]), self.least_ns[1].min(ns[1])];
        self.charged_ns = self.charged_ns.min(charged_ns);
    }

    /// These pairs, and others that come behind.
    fn and(mut self, mut other: Self) -> Self {
        self.pairs.nodes.append(&mut other.pairs.nodes);
        let cut = other.cut.iter().zip(&mut self.cut);
        cut.for_each(|(more, cut)| *cut |= more);
        Self {
            charged_ns: self.charged_ns.min(other.charged_ns),
            least_ns: [0, 1].map(|side| self.least_ns[side].min(other.least_ns[side])),
            ..self
        }
    }
}

/// Refines the pairs that may lie before one boundary.
pub(crate) struct Refinement<'a> {
    pairs: IndexedPairs<'a>,
    /// For each component, what windows let lie before the boundary.
    windows: &'a [BoundaryWindow; 2],
    costs: BoundaryCosts,
    /// Work of all items.
    all_ns: i64,
    /// Given back to be used again.
    pub bounds: NodeBounds,
}

impl<'a> Refinement<'a> {
    /// `bounds` is room for those of the nodes; what is there means nothing.
    pub(crate) fn new(
        pairs: IndexedPairs<'a>,
        windows: &'a [BoundaryWindow; 2],
        costs: BoundaryCosts,
        bounds: NodeBounds,
    ) -> Self {
        Self {
            all_ns: pairs.all_work_ns() as i64,
            pairs,
            windows,
            costs,
            bounds,
        }
    }

    /// Those of some pairs that keep the limits, refined as far as `limits` say, unless it must stop.
    pub(crate) fn refine(
        &mut self,
        pairs: &NodePairs,
        limits: RefinementLimits,
        must_stop: &dyn Fn() -> bool,
    ) -> RefinedPairs {
        let mut level = pairs.level;
        for p in 0..2 {
            let nodes = pairs.nodes.iter().map(|pair| pair[p]);
            let nodes = self.pairs.index.trees[p].distinct(level, nodes);
            self.bound_below(p, level, &nodes);
        }
        let mut looked_at = pairs.nodes.len();
        let mut refined = self.feasible_below(pairs, level);
        while level > 0 && !must_stop() {
            let number = refined.pairs.nodes.len();
            let next = if refined.pairs.leaf_pairs() <= limits.leaf_pairs {
                0
            } else if number <= limits.node_pairs {
                level - 1
            } else if limits.samples {
                let every = number.div_ceil(limits.node_pairs);
                refined.pairs.nodes = refined.pairs.nodes.into_iter().step_by(every).collect();
                continue;
            } else {
                break;
            };
            looked_at += number << (2 * (level - next));
            refined = self.feasible_below(&refined.pairs, next);
            level = next;
        }
        RefinedPairs { looked_at, ..refined }
    }

    /// What either side costs with a pair of ideals, by their places in the trees.
    pub(crate) fn leaf_pair_ns(&self, pair: [u32; 2]) -> [i64; 2] {
        let [first, second] = [0, 1].map(|p| &self.bounds[p][0][pair[p] as usize]);
        let [incident, other_incident] =
            [0, 1].map(|p: usize| self.pairs.index.trees[p].incident(0, pair[p])[0]);
        let between_ns = self.between_ns(incident, other_incident);
        [0, 1].map(|side| first.ns[side] + second.ns[side] + between_ns[side])
    }

    /// What transfers between the components cost with a pair of ideals, given those with an end in either.
    fn between_ns(&self, incident: &[u64], other_incident: &[u64]) -> [i64; 2] {
        let mut units = [0; 2];
        for (at, (a, b)) in incident.iter().zip(other_incident).enumerate() {
            if a != b {
                let sums = self.costs.subset_sums[8 * at..].iter().zip((a ^ b).to_le_bytes());
                units = sums.fold(units, |units, (sums, byte)| plus(units, sums[byte as usize]));
            }
        }
        units.map(|units| i64::from(units) * self.pairs.index.unit_ns)
    }

    /// Bounds some nodes of a level, and all below them.
    fn bound_below(&mut self, p: usize, level: usize, nodes: &[u32]) {
        let base = level.min(TUNING.levels_of_a_block);
        let width = self.bounds[p][base].len();
        let below = |&node: &u32| {
            let from = (node as usize) << (level - base);
            from..(from + (1 << (level - base))).min(width)
        };
        let blocks: Vec<usize> = nodes.iter().flat_map(below).collect();
        let of_block = |&block: &usize| self.of_block(p, base, block);
        let found: Vec<Vec<Vec<NodeBound>>> = blocks.par_iter().map(of_block).collect();
        let bounds = &mut self.bounds[p];
        for (block, found) in blocks.iter().zip(found) {
            for (at, found) in found.into_iter().enumerate() {
                let from = block << (base - at);
                bounds[at][from..from + found.len()].copy_from_slice(&found);
            }
        }
        for above in base + 1..=level {
            let width = bounds[above].len();
            let of_level = |&node: &u32| {
                let from = (node as usize) << (level - above);
                from..(from + (1 << (level - above))).min(width)
            };
            for node in nodes.iter().flat_map(of_level) {
                let [one, other] = [2 * node, 2 * node + 1].map(|at| bounds[above - 1].get(at).copied());
                bounds[above][node] = one
                    .unwrap_or(NodeBound::NEVER)
                    .and(other.unwrap_or(NodeBound::NEVER));
            }
        }
    }

    /// The bounds of a node and of those below it, level by level from the leaves up.
    fn of_block(&self, p: usize, level: usize, block: usize) -> Vec<Vec<NodeBound>> {
        let mut leaf_bounds = LeafBounds::new(self.pairs, p, &self.windows[p], &self.costs);
        let ideals = self.pairs.index.trees[p].below(level, block as u32);
        let mut levels: Vec<Vec<NodeBound>> = vec![ideals.map(|ideal| leaf_bounds.of(ideal)).collect()];
        for at in 0..level {
            let pairs = levels[at].chunks(2);
            levels.push(
                pairs
                    .map(|pair| pair.iter().copied().fold(NodeBound::NEVER, NodeBound::and))
                    .collect(),
            );
        }
        levels
    }

    /// The pairs of nodes of a level that keep the limits, out of those below some of the same or a higher level.
    fn feasible_below(&self, above: &NodePairs, level: usize) -> RefinedPairs {
        let words = self.costs.negative.len();
        let below = |p: usize, node: u32| {
            let width = self.pairs.index.trees[p].width(level) as u32;
            let by = above.level - level;
            node << by..((node + 1) << by).min(width)
        };
        let add_below = |mut refined: RefinedPairs, &[first, second]: &[u32; 2]| {
            for first in below(0, first) {
                match level {
                    0 => self.add_leaves(&mut refined, first, below(1, second)),
                    _ => {
                        below(1, second).for_each(|second| self.add_node_pair(&mut refined, [first, second]))
                    }
                }
            }
            refined
        };
        above
            .nodes
            .par_iter()
            .fold(|| RefinedPairs::new(level, words), add_below)
            .reduce(|| RefinedPairs::new(level, words), RefinedPairs::and)
    }

    /// Adds the pairs of an ideal with some of the second component that keep the limits.
    fn add_leaves(&self, refined: &mut RefinedPairs, first: u32, second: Range<u32>) {
        let (costs, unit_ns) = (&self.costs, self.pairs.index.unit_ns);
        let own = self.bounds[0][0][first as usize];
        let [incident, _] = self.pairs.index.trees[0].incident(0, first);
        let [least_ns, most_ns] = [costs.least_between_ns, costs.most_ns];
        let room_ns = [most_ns[0] - own.ns[0], most_ns[1] - own.ns[1]];
        let others = &self.bounds[1][0][second.start as usize..second.end as usize];
        for (second, other) in second.zip(others) {
            // What the ends in one ideal cost beyond those in the other crosses.
            let cut_ns =
                |side: usize| (own.ends[0][side] - other.ends[0][side]).unsigned_abs() as i64 * unit_ns;
            if other.ns[0] + cut_ns(0) + least_ns[0] > room_ns[0]
                || other.ns[1] + cut_ns(1) + least_ns[1] > room_ns[1]
            {
                continue;
            }
            let [other_incident, _] = self.pairs.index.trees[1].incident(0, second);
            let between_ns = self.between_ns(incident, other_incident);
            if other.ns[0] + between_ns[0] > room_ns[0] || other.ns[1] + between_ns[1] > room_ns[1] {
                continue;
            }
            let ns = [
                own.ns[0] + other.ns[0] + between_ns[0],
                own.ns[1] + other.ns[1] + between_ns[1],
            ];
            refined.add([first, second], ns, ns[0] + ns[1] - self.all_ns);
            for (cut, (a, b)) in refined.cut.iter_mut().zip(incident.iter().zip(other_incident)) {
                *cut |= a ^ b;
            }
        }
    }

    /// Adds a pair of nodes if it keeps the limits.
    fn add_node_pair(&self, refined: &mut RefinedPairs, pair: [u32; 2]) {
        let (costs, unit_ns, level) = (&self.costs, self.pairs.index.unit_ns, refined.pairs.level);
        let first = &self.bounds[0][level][pair[0] as usize];
        let second = &self.bounds[1][level][pair[1] as usize];
        let own_ns = [first.ns[0] + second.ns[0], first.ns[1] + second.ns[1]];
        let [least_ns, most_ns] = [costs.least_between_ns, costs.most_ns];
        // What the ends in one node cost beyond those in the other crosses.
        let cut_ns = |side: usize| i64::from(first.least_cut(second, side)) * unit_ns;
        if own_ns[0] + cut_ns(0) + least_ns[0] > most_ns[0]
            || own_ns[1] + cut_ns(1) + least_ns[1] > most_ns[1]
        {
            return;
        }
        let [some, all] = self.pairs.index.trees[0].incident(level, pair[0]);
        let [other_some, other_all] = self.pairs.index.trees[1].incident(level, pair[1]);
        // What crosses behind all pairs of ideals below, and at worst behind some.
        let (mut units, mut worst) = ([0; 2], [0; 2]);
        for at in 0..some.len() {
            let all_cross = all[at] & !other_some[at] | other_all[at] & !some[at];
            let some_cross = some[at] & !other_all[at] | other_some[at] & !all[at];
            let between = &costs.between[64 * at..];
            for t in bits::members([all_cross]) {
                units = plus(units, between[t]);
            }
            for t in bits::members([some_cross & !all_cross & costs.negative[at]]) {
                worst = plus(worst, between[t].map(|units| units.min(0)));
            }
        }
        let least = plus(units, worst);
        let ns = [
            own_ns[0] + i64::from(least[0]) * unit_ns,
            own_ns[1] + i64::from(least[1]) * unit_ns,
        ];
        if ns[0] > most_ns[0] || ns[1] > most_ns[1] {
            return;
        }
        let between_ns = i64::from(units[0] + units[1]) * unit_ns;
        let charged_ns = first.sum_ns + second.sum_ns - self.all_ns + between_ns;
        refined.add(pair, ns, charged_ns);
        for (at, cut) in refined.cut.iter_mut().enumerate() {
            *cut |= some[at] & !other_all[at] | other_some[at] & !all[at];
        }
    }
}
