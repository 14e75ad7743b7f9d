//! What lies before a boundary, looked at ever more closely: pairs of nodes of two trees of ideals.

use std::ops::{Range, RangeInclusive};

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::exact::cut_states::costs::{Costs, Own, Scales, plus};
use crate::exact::cut_states::cross::Cross;
use crate::exact::cut_states::ground::{Closeness, Ground};
use crate::exact::ideal_pairs::listing;
use crate::exact::ideal_pairs::part::Part;

/// Levels of the trees that are weighed at a time.
const BLOCK: usize = 8;

/// The items of a part that can lie before a boundary, and those that must, as bits.
pub struct Zone {
    pub may: Box<[u64]>,
    pub must: Box<[u64]>,
    /// Their work in all.
    pub work_ns: RangeInclusive<u64>,
}

/// Pairs of nodes of the two trees, both of one level: what may lie before a boundary is a pair of ideals below some of them.
#[derive(Clone)]
pub struct Pairs {
    /// The level, from the leaves up.
    pub level: usize,
    /// The pairs.
    pub nodes: Vec<[u32; 2]>,
}

impl Pairs {
    /// All pairs in a zone, below few nodes.
    pub fn new(parts: &[Part; 2], zones: &[Zone; 2]) -> Self {
        let ranges = [0, 1].map(|p: usize| parts[p].of_work(zones[p].work_ns.clone()));
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
}

/// The pairs of ideals below so many nodes.
pub fn leaves(level: usize, nodes: usize) -> usize {
    nodes.saturating_mul(1 << (2 * level).min(60))
}

/// For each part and level what its nodes come to, as far as it was asked.
pub type Owns = [Vec<Vec<Own>>; 2];

/// A look at the pairs that may lie before a boundary.
pub struct Look<'a> {
    pub parts: &'a [Part; 2],
    pub cross: &'a Cross,
    pub ground: &'a Ground,
    /// Work of all items.
    all_ns: i64,
    /// For each part, from windows.
    zones: &'a [Zone; 2],
    costs: Costs,
    /// Made to be used again.
    pub own: Owns,
}

impl<'a> Look<'a> {
    pub fn new(
        parts: &'a [Part; 2],
        cross: &'a Cross,
        ground: &'a Ground,
        zones: &'a [Zone; 2],
        costs: Costs,
        own: Owns,
    ) -> Self {
        let all_ns = parts
            .iter()
            .map(|part| part.work_ns(part.everything(), 0) as i64)
            .sum();
        Self {
            parts,
            cross,
            ground,
            all_ns,
            zones,
            costs,
            own,
        }
    }

    /// Those of some pairs that have room, looked at as closely as is asked for where they are few, unless it must stop.
    pub fn closer(&mut self, pairs: &Pairs, closeness: Closeness, must_stop: &dyn Fn() -> bool) -> Kept {
        let mut level = pairs.level;
        for p in 0..2 {
            let nodes = pairs.nodes.iter().map(|pair| pair[p]);
            let nodes = distinct(nodes, self.ground.trees[p].width(level));
            self.weigh(p, level, &nodes);
        }
        let mut kept = self.kept(&pairs.nodes, [level, level]);
        let mut looked_at = pairs.nodes.len();
        while level > 0 && !must_stop() {
            let number = kept.nodes.len();
            let next = match leaves(level, number) <= closeness.leaves {
                true => 0,
                false if number <= closeness.nodes => level - 1,
                false if closeness.thins => {
                    let every = number.div_ceil(closeness.nodes);
                    kept.nodes = kept.nodes.into_iter().step_by(every).collect();
                    continue;
                }
                false => break,
            };
            looked_at += number << (2 * (level - next));
            kept = self.kept(&kept.nodes, [level, next]);
            level = next;
        }
        Kept {
            level,
            looked_at,
            ..kept
        }
    }

    /// What either side comes to with a pair of ideals, by their places in the trees.
    pub fn ns(&self, pair: [u32; 2]) -> [i64; 2] {
        let [first, second] = [0, 1].map(|p| &self.own[p][0][pair[p] as usize]);
        let [held, mate_held] = [0, 1].map(|p: usize| self.ground.trees[p].held(0, pair[p])[0]);
        let between_ns = self.between_ns(held, mate_held);
        [0, 1].map(|side| first.ns[side] + second.ns[side] + between_ns[side])
    }

    /// What transfers between the parts come to, for those with an end in either ideal.
    fn between_ns(&self, held: &[u64], mate_held: &[u64]) -> [i64; 2] {
        let mut units = [0; 2];
        for (at, (a, b)) in held.iter().zip(mate_held).enumerate() {
            if a != b {
                let sums = self.costs.sums[8 * at..].iter().zip((a ^ b).to_le_bytes());
                units = sums.fold(units, |units, (sums, byte)| plus(units, sums[byte as usize]));
            }
        }
        units.map(|units| i64::from(units) * self.ground.unit_ns)
    }

    /// Finds what nodes of a tree come to, and those below them.
    fn weigh(&mut self, p: usize, level: usize, nodes: &[u32]) {
        let widths: Vec<usize> = self.own[p].iter().map(Vec::len).collect();
        let base = level.min(BLOCK);
        let below = |&node: &u32| {
            let from = (node as usize) << (level - base);
            from..(from + (1 << (level - base))).min(widths[base])
        };
        let blocks: Vec<usize> = nodes.iter().flat_map(below).collect();
        let of_block = |&block: &usize| self.of_block(p, base, block);
        let found: Vec<Vec<Vec<Own>>> = blocks.par_iter().map(of_block).collect();
        let own = &mut self.own[p];
        for (block, found) in blocks.iter().zip(found) {
            for (at, found) in found.into_iter().enumerate() {
                let from = block << (base - at);
                own[at][from..from + found.len()].copy_from_slice(&found);
            }
        }
        for above in base + 1..=level {
            for &node in nodes {
                let from = (node as usize) << (level - above);
                for node in from..(from + (1 << (level - above))).min(widths[above]) {
                    let [one, other] = [2 * node, 2 * node + 1].map(|at| own[above - 1].get(at).copied());
                    own[above][node] = one.unwrap_or(Own::NEVER).and(other.unwrap_or(Own::NEVER));
                }
            }
        }
    }

    /// What the nodes below one come to, level by level from the leaves up, and it does.
    fn of_block(&self, p: usize, level: usize, block: usize) -> Vec<Vec<Own>> {
        let unit_ns = self.ground.unit_ns;
        let mut scales = Scales::new(self.parts, p, self.cross, &self.zones[p], &self.costs, unit_ns);
        let ideals = self.ground.trees[p].below(level, block as u32);
        let mut levels: Vec<Vec<Own>> = vec![ideals.map(|ideal| scales.weigh(ideal)).collect()];
        for at in 0..level {
            let pairs = levels[at].chunks(2);
            levels.push(
                pairs
                    .map(|pair| pair.iter().copied().fold(Own::NEVER, Own::and))
                    .collect(),
            );
        }
        levels
    }

    /// The pairs of nodes of a level that have room, out of those below some of another level.
    fn kept(&self, nodes: &[[u32; 2]], [above, level]: [usize; 2]) -> Kept {
        let words = self.costs.negative.len();
        let below = |p: usize, node: u32| {
            let width = self.ground.trees[p].width(level) as u32;
            let by = above - level;
            node << by..((node + 1) << by).min(width)
        };
        let keep = |mut kept: Kept, &[first, second]: &[u32; 2]| {
            for first in below(0, first) {
                match level {
                    0 => self.keep_leaves(&mut kept, first, below(1, second)),
                    _ => below(1, second).for_each(|second| self.keep(&mut kept, level, [first, second])),
                }
            }
            kept
        };
        nodes
            .par_iter()
            .fold(|| Kept::new(words), keep)
            .reduce(|| Kept::new(words), Kept::and)
    }

    /// Keeps the pairs of an ideal with some of the second part that have room.
    fn keep_leaves(&self, kept: &mut Kept, first: u32, second: Range<u32>) {
        let (costs, unit_ns) = (&self.costs, self.ground.unit_ns);
        let own = self.own[0][0][first as usize];
        let [held, _] = self.ground.trees[0].held(0, first);
        let [least_ns, most_ns] = [costs.least_between_ns, costs.most_ns];
        let room_ns = [most_ns[0] - own.ns[0], most_ns[1] - own.ns[1]];
        let mates = &self.own[1][0][second.start as usize..second.end as usize];
        for (second, mate) in second.zip(mates) {
            // What the ends in one ideal come to beyond those in the other crosses.
            let apart_ns =
                |side: usize| (own.ends[0][side] - mate.ends[0][side]).unsigned_abs() as i64 * unit_ns;
            if mate.ns[0] + apart_ns(0) + least_ns[0] > room_ns[0]
                || mate.ns[1] + apart_ns(1) + least_ns[1] > room_ns[1]
            {
                continue;
            }
            let [mate_held, _] = self.ground.trees[1].held(0, second);
            let between_ns = self.between_ns(held, mate_held);
            if mate.ns[0] + between_ns[0] > room_ns[0] || mate.ns[1] + between_ns[1] > room_ns[1] {
                continue;
            }
            let ns = [
                own.ns[0] + mate.ns[0] + between_ns[0],
                own.ns[1] + mate.ns[1] + between_ns[1],
            ];
            kept.add([first, second], ns, ns[0] + ns[1] - self.all_ns);
            for (apart, (a, b)) in kept.apart.iter_mut().zip(held.iter().zip(mate_held)) {
                *apart |= a ^ b;
            }
        }
    }

    /// Keeps a pair of nodes if it has room.
    fn keep(&self, kept: &mut Kept, level: usize, pair: [u32; 2]) {
        let costs = &self.costs;
        let first = &self.own[0][level][pair[0] as usize];
        let second = &self.own[1][level][pair[1] as usize];
        let own_ns = [first.ns[0] + second.ns[0], first.ns[1] + second.ns[1]];
        let [least_ns, most_ns] = [costs.least_between_ns, costs.most_ns];
        // What the ends in one node come to beyond those in the other crosses.
        let unit_ns = self.ground.unit_ns;
        let apart_ns = |side: usize| i64::from(first.apart(second, side)) * unit_ns;
        if own_ns[0] + apart_ns(0) + least_ns[0] > most_ns[0]
            || own_ns[1] + apart_ns(1) + least_ns[1] > most_ns[1]
        {
            return;
        }
        let [some, all] = self.ground.trees[0].held(level, pair[0]);
        let [other_some, other_all] = self.ground.trees[1].held(level, pair[1]);
        // What crosses behind all pairs of ideals below, and at worst behind some.
        let (mut units, mut worst) = ([0; 2], [0; 2]);
        for at in 0..some.len() {
            let all_cross = all[at] & !other_some[at] | other_all[at] & !some[at];
            let some_cross = some[at] & !other_all[at] | other_some[at] & !all[at];
            let between = &costs.between[64 * at..];
            for t in listing::ones([all_cross]) {
                units = plus(units, between[t]);
            }
            for t in listing::ones([some_cross & !all_cross & costs.negative[at]]) {
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
        let counted_ns = first.sum_ns + second.sum_ns - self.all_ns + between_ns;
        kept.add(pair, ns, counted_ns);
        for (at, apart) in kept.apart.iter_mut().enumerate() {
            *apart |= some[at] & !other_all[at] | other_some[at] & !all[at];
        }
    }
}

/// Pairs of nodes with room before a boundary.
pub struct Kept {
    /// Their level.
    pub level: usize,
    /// Pairs that were looked at, in all.
    pub looked_at: usize,
    pub nodes: Vec<[u32; 2]>,
    /// Twice what counts for them at least.
    pub counted_ns: i64,
    /// The least that either side comes to.
    pub ns: [i64; 2],
    /// Bits of the transfers between the parts that may cross behind some of them.
    pub apart: Vec<u64>,
}

impl Kept {
    fn new(words: usize) -> Self {
        Self {
            level: 0,
            looked_at: 0,
            nodes: Vec::new(),
            counted_ns: i64::MAX,
            ns: [i64::MAX; 2],
            apart: vec![0; words],
        }
    }

    fn add(&mut self, pair: [u32; 2], ns: [i64; 2], counted_ns: i64) {
        self.nodes.push(pair);
        self.ns = [self.ns[0].min(ns[0]), self.ns[1].min(ns[1])];
        self.counted_ns = self.counted_ns.min(counted_ns);
    }

    /// These pairs, and others that come behind.
    fn and(mut self, mut other: Self) -> Self {
        self.nodes.append(&mut other.nodes);
        let apart = other.apart.iter().zip(&mut self.apart);
        apart.for_each(|(more, apart)| *apart |= more);
        Self {
            counted_ns: self.counted_ns.min(other.counted_ns),
            ns: [0, 1].map(|side| self.ns[side].min(other.ns[side])),
            ..self
        }
    }
}

/// Distinct nodes, in ascending order.
pub fn distinct(nodes: impl Iterator<Item = u32>, width: usize) -> Vec<u32> {
    let mut set = FixedBitSet::with_capacity(width);
    nodes.for_each(|node| set.insert(node as usize));
    set.ones().map(|node| node as u32).collect()
}
