//! What is known of fronts while they are looked for.

use std::mem;
use std::ops::RangeInclusive;

use fixedbitset::FixedBitSet;

use crate::exact::cut_states::costs::{Costs, NEVER_NS, counted};
use crate::exact::cut_states::cross::Cross;
use crate::exact::cut_states::ground::{Closeness, Ground, Link};
use crate::exact::cut_states::look::{Kept, Look, Owns, Pairs, Zone, distinct};
use crate::exact::ideal_pairs::listing;
use crate::exact::ideal_pairs::part::Part;
use crate::formulations::staging::Windows;

/// For each boundary and part, the work of ideals that are looked at.
pub struct Corridor {
    pub work_ns: Vec<[RangeInclusive<u64>; 2]>,
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
    pub zones: Vec<[Zone; 2]>,
    pub known: Known,
    /// The crossers at the start of the round.
    pub counted: Vec<[FixedBitSet; 3]>,
    /// For each side and boundary, the least that it comes to, if this round has told.
    reached_ns: [Vec<Option<i64>>; 2],
    /// For each part and level what its nodes come to at the boundary in hand, as far as it was asked.
    pub own: Owns,
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
            pairs: zones.iter().map(|zones| Pairs::new(parts, zones)).collect(),
            crossers: zones.iter().map(crossers).collect(),
            least_ns: vec![0; boundaries],
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
            own: ground.owns(),
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
            let Some(reached_ns) = self.look(boundary, closeness, must_stop) else {
                return false;
            };
            self.reached_ns[side][boundary] = Some(reached_ns[side]);
        }
        true
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
    fn look(
        &mut self,
        boundary: usize,
        closeness: Closeness,
        must_stop: &dyn Fn() -> bool,
    ) -> Option<[i64; 2]> {
        let counted = |of: usize, t: usize| counted(self.ground, &self.counted, boundary, of, t);
        let costs = Costs::new(self.ground, self.most_ns(boundary), counted);
        let own = mem::take(&mut self.own);
        let zones = &self.zones[boundary];
        let mut look = Look::new(self.parts, self.cross, self.ground, zones, costs, own);
        let kept = look.closer(&self.known.pairs[boundary], closeness, must_stop);
        self.own = look.own;
        self.note(boundary, kept)
    }

    /// Notes the pairs before a boundary, what counts there, and what crosses it.
    fn note(&mut self, boundary: usize, kept: Kept) -> Option<[i64; 2]> {
        let level = kept.level;
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
                let own = &self.own[p][0];
                let ideals = tree.below(level, node);
                for ideal in ideals.filter(|&ideal| own[ideal as usize].sum_ns < NEVER_NS) {
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
}
