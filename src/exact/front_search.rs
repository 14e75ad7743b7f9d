//! What is known of fronts while they are looked for.

use std::mem;
use std::ops::{Range, RangeInclusive};

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use super::cross::Cross;
use super::front_costs::{Cost, Costs, NEVER_NS, Own, changed, plus};
use super::front_ground::{Closeness, Ground, Link};
use super::listing;
use super::part::{Ideal, Part, is_subset};
use crate::formulations::staging::Windows;

/// Levels of the trees that are weighed at a time.
const BLOCK: usize = 8;

/// The items of a part that can lie before a boundary, and those that must, as bits.
pub struct Zone {
    pub may: Box<[u64]>,
    pub must: Box<[u64]>,
    /// Their work in all.
    work_ns: RangeInclusive<u64>,
}

/// For each boundary and part, the work of ideals that are looked at.
pub struct Corridor {
    pub work_ns: Vec<[RangeInclusive<u64>; 2]>,
}

/// Pairs of nodes of the two trees, both of one level: what may lie before a boundary is a pair of ideals below some of them.
#[derive(Clone)]
pub struct Pairs {
    /// The level, from the leaves up.
    pub level: usize,
    /// The pairs.
    pub nodes: Vec<[u32; 2]>,
}

/// The pairs of ideals below so many nodes.
fn leaves(level: usize, nodes: usize) -> usize {
    nodes.saturating_mul(1 << (2 * level).min(60))
}

/// What is known of all boundaries.
#[derive(Clone)]
pub struct Known {
    /// For each boundary, the pairs that can lie before it.
    pub pairs: Vec<Pairs>,
    /// For each boundary, the transfers that may cross it, as in [`Ground::links`].
    crossers: Vec<[FixedBitSet; 3]>,
    /// For each boundary, what counts there at least.
    least_ns: Vec<u64>,
}

/// What fronts are looked for.
pub struct Within<'a> {
    pub parts: &'a [Part; 2],
    pub cross: &'a Cross,
    pub ground: &'a Ground,
    pub limit_ns: u64,
    pub windows: &'a Windows,
    /// If only pairs in one are of interest.
    pub corridor: Option<&'a Corridor>,
    pub boundaries: usize,
}

/// The search for fronts.
pub struct Search<'a> {
    parts: &'a [Part; 2],
    cross: &'a Cross,
    pub ground: &'a Ground,
    limit_ns: u64,
    /// Work of all items.
    all_ns: u64,
    /// For each boundary and part, from windows.
    zones: Vec<[Zone; 2]>,
    pub known: Known,
    /// The crossers at the start of the round.
    counted: Vec<[FixedBitSet; 3]>,
    /// For each side and boundary, the least that it comes to, if this round has told.
    reached_ns: [Vec<Option<i64>>; 2],
    /// For each part and level what its nodes come to at the boundary in hand, as far as it was asked.
    own: [Vec<Vec<Own>>; 2],
}

impl<'a> Search<'a> {
    /// A search among all pairs of ideals, or among those that are known.
    pub fn new(within: &Within<'a>, known: Option<&Known>) -> Self {
        let &Within {
            parts,
            cross,
            ground,
            limit_ns,
            windows,
            corridor,
            boundaries,
        } = within;
        let zone = |boundary: usize, p: usize| Zone {
            may: parts[p].set(|item| windows.earliest[item] <= boundary),
            must: parts[p].set(|item| windows.latest[item] <= boundary),
            work_ns: match corridor {
                None => 0..=u64::MAX,
                Some(corridor) => corridor.work_ns[boundary][p].clone(),
            },
        };
        let zones: Vec<[Zone; 2]> = (0..boundaries)
            .map(|boundary| [zone(boundary, 0), zone(boundary, 1)])
            .collect();
        let crossers = |zones: &[Zone; 2]| {
            [0, 1, 2].map(|of: usize| {
                let links: &[Link] = &ground.links[of];
                (0..links.len()).filter(|&t| links[t].may_cross(zones)).collect()
            })
        };
        let all = || Known {
            pairs: vec![
                Pairs {
                    level: ground.top,
                    nodes: vec![[0, 0]],
                };
                boundaries
            ],
            crossers: zones.iter().map(crossers).collect(),
            least_ns: vec![0; boundaries],
        };
        let own = |p: usize| {
            (0..=ground.top)
                .map(|level| vec![Own::default(); ground.trees[p].width(level)])
                .collect()
        };
        Self {
            known: known.cloned().unwrap_or_else(all),
            parts,
            cross,
            ground,
            limit_ns,
            all_ns: parts.iter().map(|part| part.work_ns(part.everything(), 0)).sum(),
            zones,
            counted: Vec::new(),
            reached_ns: [vec![None; boundaries], vec![None; boundaries]],
            own: [own(0), own(1)],
        }
    }

    /// Looks at all boundaries, there and back, as closely as is asked for where pairs are few; false if no pair can lie
    /// before one of them.
    pub fn round(&mut self, closeness: Closeness, must_stop: &dyn Fn() -> bool) -> bool {
        let boundaries = self.zones.len();
        self.counted.clone_from(&self.known.crossers);
        self.reached_ns.iter_mut().for_each(|of| of.fill(None));
        let forth = (0..boundaries).map(|boundary| (1, boundary));
        let back = (0..boundaries).rev().map(|boundary| (0, boundary));
        for (side, boundary) in forth.chain(back) {
            if must_stop() {
                break;
            }
            let Some(reached_ns) = self.look(boundary, closeness) else {
                return false;
            };
            self.reached_ns[side][boundary] = Some(reached_ns[side]);
        }
        true
    }

    /// Looks more closely at the boundary where that takes least, since what it tells may spare others: at all pairs of ideals unless
    /// they are more than `most.leaves`, or at nodes some levels down unless there are more than `most.nodes`. How many
    /// pairs it has looked at; `None` if no pair can lie there.
    pub fn look_closer(&mut self, most: Closeness) -> Option<usize> {
        let coarse = (0..self.zones.len()).filter(|&boundary| self.known.pairs[boundary].level > 0);
        let leaves = |boundary: usize| {
            let pairs = &self.known.pairs[boundary];
            leaves(pairs.level, pairs.nodes.len())
        };
        let Some((leaves, boundary)) = coarse.map(|boundary| (leaves(boundary), boundary)).min() else {
            return Some(0);
        };
        let nodes = self.known.pairs[boundary].nodes.len();
        if leaves > most.leaves && nodes > most.nodes {
            return Some(0);
        }
        let closeness = Closeness {
            leaves: most.leaves,
            nodes: nodes.saturating_mul(2).max(most.nodes / 8),
        };
        self.look(boundary, closeness)?;
        Some(if leaves <= most.leaves { leaves } else { nodes })
    }

    /// Twice what may count at boundaries, if at each of them as much does as there is room for; `None` if there is too little for the
    /// work.
    pub fn slack_ns(&self) -> Option<u64> {
        let of =
            |boundary: usize| u64::try_from(self.most_ns(boundary).iter().sum::<i64>() - self.all_ns as i64);
        (0..self.zones.len()).map(|boundary| of(boundary).ok()).sum()
    }

    /// What either side of a boundary may come to, in ns.
    pub fn most_ns(&self, boundary: usize) -> [i64; 2] {
        let boundaries = self.zones.len();
        let [limit_ns, all_ns] = [self.limit_ns, self.all_ns].map(|ns| ns as i64);
        let next = [
            boundary.checked_sub(1),
            (boundary + 1 < boundaries).then_some(boundary + 1),
        ];
        let stages = [boundary + 1, boundaries - boundary];
        let least_ns = &self.known.least_ns;
        let others = [&least_ns[..boundary], &least_ns[boundary + 1..]];
        [0, 1].map(|side| {
            let counted_ns: u64 = others[side].iter().sum();
            let sum_ns = stages[side] as i64 * limit_ns - 2 * counted_ns as i64;
            let next_ns = match next[side] {
                None => Some(0),
                Some(next) => self.reached_ns[1 - side][next].map(|least_ns| all_ns - least_ns),
            };
            next_ns.map_or(sum_ns, |next_ns| sum_ns.min(limit_ns + next_ns))
        })
    }

    /// Takes pairs away that have no room before a boundary, and looks as closely as is asked for where they are few; the least
    /// that either side comes to, if there are pairs left.
    fn look(&mut self, boundary: usize, closeness: Closeness) -> Option<[i64; 2]> {
        let old = &mut self.known.pairs[boundary];
        let level = old.level;
        let nodes = mem::take(&mut old.nodes);
        let costs = Costs::new(self, boundary);
        for p in 0..2 {
            let asked = distinct(
                nodes.iter().map(|pair| pair[p]),
                self.ground.trees[p].width(level),
            );
            self.weigh(boundary, p, level, &asked, &costs);
        }
        let mut kept = self.kept(&costs, &nodes, [level, level]);
        let mut level = level;
        while level > 0 {
            let number = kept.nodes.len();
            let next = match leaves(level, number) <= closeness.leaves {
                true => 0,
                false if number <= closeness.nodes => level - 1,
                false => break,
            };
            kept = self.kept(&costs, &kept.nodes, [level, next]);
            level = next;
        }
        self.note(boundary, level, kept)
    }

    /// Finds what nodes of a tree come to, and those below them.
    fn weigh(&mut self, boundary: usize, p: usize, level: usize, nodes: &[u32], costs: &Costs) {
        let widths: Vec<usize> = self.own[p].iter().map(Vec::len).collect();
        let base = level.min(BLOCK);
        let below = |&node: &u32| {
            let from = (node as usize) << (level - base);
            from..(from + (1 << (level - base))).min(widths[base])
        };
        let blocks: Vec<usize> = nodes.iter().flat_map(below).collect();
        let of_block = |&block: &usize| self.of_block(boundary, p, base, block, costs);
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
    fn of_block(
        &self,
        boundary: usize,
        p: usize,
        level: usize,
        block: usize,
        costs: &Costs,
    ) -> Vec<Vec<Own>> {
        let (part, zone) = (&self.parts[p], &self.zones[boundary][p]);
        let unit_ns = self.ground.unit_ns;
        let all_ns = if p == 0 { self.all_ns as i64 } else { 0 };
        // Ideals near each other differ by little.
        let mut sums = [[0; 2]; 2];
        let mut last = 0;
        let mut of_ideal = |&ideal: &Ideal| {
            let bits = part.bits(ideal);
            let work_ns = part.work_ns(ideal, 0);
            let may_lie =
                zone.work_ns.contains(&work_ns) && is_subset(bits, &zone.may) && is_subset(&zone.must, bits);
            if !may_lie {
                return Own::NEVER;
            }
            let crossing = part.crossing_bits(ideal).iter().zip(part.crossing_bits(last));
            sums[0] = changed(sums[0], crossing.map(|(&new, &old)| (new, old)), &costs.inside[p]);
            let held = self.cross.held(p, ideal).zip(self.cross.held(p, last));
            sums[1] = changed(sums[1], held, &costs.ends);
            last = ideal;
            let counted_ns = sums[0].map(|units| i64::from(units) * unit_ns);
            let work_ns = work_ns as i64;
            Own::of(
                [counted_ns[0] + work_ns, counted_ns[1] + all_ns - work_ns],
                sums[1],
            )
        };
        let ideals = self.ground.trees[p].below(level, block as u32);
        let mut levels: Vec<Vec<Own>> = vec![ideals.iter().map(&mut of_ideal).collect()];
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
    fn kept(&self, costs: &Costs, nodes: &[[u32; 2]], [above, level]: [usize; 2]) -> Kept {
        let words = costs.negative.len();
        let below = |p: usize, node: u32| {
            let width = self.ground.trees[p].width(level) as u32;
            let by = above - level;
            node << by..((node + 1) << by).min(width)
        };
        let keep = |mut kept: Kept, &[first, second]: &[u32; 2]| {
            for first in below(0, first) {
                match level {
                    0 => self.keep_leaves(&mut kept, costs, first, below(1, second)),
                    _ => below(1, second)
                        .for_each(|second| self.keep(&mut kept, costs, level, [first, second])),
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
    fn keep_leaves(&self, kept: &mut Kept, costs: &Costs, first: u32, second: Range<u32>) {
        let unit_ns = self.ground.unit_ns;
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
            let mut units = [0; 2];
            for (at, (a, b)) in held.iter().zip(mate_held).enumerate() {
                if a != b {
                    let sums = costs.sums[8 * at..].iter().zip((a ^ b).to_le_bytes());
                    units = sums.fold(units, |units, (sums, byte)| plus(units, sums[byte as usize]));
                }
            }
            let between_ns = units.map(|units| i64::from(units) * unit_ns);
            if mate.ns[0] + between_ns[0] > room_ns[0] || mate.ns[1] + between_ns[1] > room_ns[1] {
                continue;
            }
            let ns = [
                own.ns[0] + mate.ns[0] + between_ns[0],
                own.ns[1] + mate.ns[1] + between_ns[1],
            ];
            kept.add([first, second], ns, ns[0] + ns[1] - self.all_ns as i64);
            for (apart, (a, b)) in kept.apart.iter_mut().zip(held.iter().zip(mate_held)) {
                *apart |= a ^ b;
            }
        }
    }

    /// Keeps a pair of nodes if it has room.
    fn keep(&self, kept: &mut Kept, costs: &Costs, level: usize, pair: [u32; 2]) {
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
        let counted_ns = first.sum_ns + second.sum_ns - self.all_ns as i64 + between_ns;
        kept.add(pair, ns, counted_ns);
        for (at, apart) in kept.apart.iter_mut().enumerate() {
            *apart |= some[at] & !other_all[at] | other_some[at] & !all[at];
        }
    }

    /// Notes the pairs before a boundary, what counts there, and what crosses it.
    fn note(&mut self, boundary: usize, level: usize, kept: Kept) -> Option<[i64; 2]> {
        if kept.nodes.is_empty() {
            return None;
        }
        let least_ns = &mut self.known.least_ns[boundary];
        *least_ns = (kept.counted_ns.max(0) as u64 / 2).max(*least_ns);
        let inside = [0, 1].map(|p: usize| {
            let tree = &self.ground.trees[p];
            let mut crossers = FixedBitSet::with_capacity(self.ground.links[p].len());
            let nodes = distinct(kept.nodes.iter().map(|pair| pair[p]), tree.width(level));
            for node in nodes {
                let from = (node as usize) << level;
                let ideals = tree.below(level, node).iter().zip(&self.own[p][0][from..]);
                for (&ideal, _) in ideals.filter(|(_, own)| own.sum_ns < NEVER_NS) {
                    self.parts[p].crossing(ideal).for_each(|t| crossers.insert(t));
                }
            }
            crossers
        });
        let [first, second] = inside;
        let crossers = &mut self.known.crossers[boundary];
        let between: FixedBitSet = listing::ones(kept.apart).collect();
        for (old, new) in crossers.iter_mut().zip([first, second, between]) {
            old.intersect_with(&new);
        }
        self.known.pairs[boundary] = Pairs {
            level,
            nodes: kept.nodes,
        };
        Some(kept.ns)
    }

    /// What counts for a transfer that crosses a boundary.
    pub fn cost(&self, of: usize, t: usize, boundary: usize) -> Cost {
        let number =
            |range: Range<usize>| range.filter(|&other| self.counted[other][of].contains(t)).count() as i64;
        let [before, behind] = [number(0..boundary), number(boundary + 1..self.zones.len())];
        let all = before + 1 + behind;
        let ns = self.ground.links[of][t].ns as i64;
        // What counts at boundaries on one side has been paid there. Everything is rounded down.
        let in_units = |numerator: i64| numerator.div_euclid(all * self.ground.unit_ns) as i32;
        [
            in_units(ns * (all - 2 * before)),
            in_units(ns * (all - 2 * behind)),
        ]
    }
}

/// Pairs of nodes with room before a boundary.
struct Kept {
    nodes: Vec<[u32; 2]>,
    /// Twice what counts for them at least.
    counted_ns: i64,
    /// The least that either side comes to.
    ns: [i64; 2],
    /// Bits of the transfers between the parts that may cross behind some of them.
    apart: Vec<u64>,
}

impl Kept {
    fn new(words: usize) -> Self {
        Self {
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
fn distinct(nodes: impl Iterator<Item = u32>, width: usize) -> Vec<u32> {
    let mut set = FixedBitSet::with_capacity(width);
    nodes.for_each(|node| set.insert(node as usize));
    set.ones().map(|node| node as u32).collect()
}
