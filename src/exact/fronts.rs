//! Fronts: the pairs of ideals that can lie before each boundary between stages, where transfers are blocking.
#![doc = include_str!("../../formulations/fronts.md")]

use std::mem;
use std::ops::Range;

use fixedbitset::FixedBitSet;

use super::cross::Cross;
use super::growth;
use super::pair_set::PairSet;
use super::part::{Ideal, Inside, Members, Part, is_subset};
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// Most pairs that are looked at for a front, and most that are kept: tenths of a second's work.
const MOST_LOOKED_AT: usize = 30_000_000;
const MOST_PAIRS: usize = 1_500_000;

/// Ideals that are passed over together where none has room.
const BLOCK: usize = 64;

/// Rounds go on while they take away one pair in so many.
const WORTH_A_ROUND: usize = 8;

/// The pairs of ideals that may lie before a boundary.
pub struct Front {
    /// The pairs.
    pub pairs: PairSet,
    /// For each part, the ideals of these pairs.
    pub ideals: [FixedBitSet; 2],
    /// The least and the most work before the boundary, in ns.
    pub work_ns: [u64; 2],
}

/// Fronts of plans whose stages are busy for at most `limit_ns`, with every item in its window: one for each boundary, none where
/// pairs are too many; `None` if no plan keeps the limit. It stops looking when it must.
///
/// Time O(p t / 64) a round for p pairs and t transfers, behind O(q I J) steps of a scan for q stages and I and J ideals.
pub fn fronts(
    problem: &Problem,
    parts: &[Part; 2],
    cross: &Cross,
    limit_ns: u64,
    windows: &Windows,
    must_stop: &dyn Fn() -> bool,
) -> Option<Vec<Option<Front>>> {
    let mut search = Search::new(problem, parts, cross, limit_ns, windows);
    // What is paid across narrow boundaries narrows the others.
    let sizes: Vec<usize> = (0..search.boundaries)
        .map(|boundary| search.size(boundary))
        .collect();
    let mut order: Vec<usize> = (0..search.boundaries).collect();
    order.sort_by_key(|&boundary| sizes[boundary]);
    let mut known = Vec::new();
    for boundary in order {
        if sizes[boundary] <= MOST_LOOKED_AT && !must_stop() && search.scan(boundary) {
            known.push(boundary);
            search.narrow(boundary);
            if search.fronts[boundary].is_empty() {
                return None;
            }
        }
    }
    loop {
        let pairs = search.pairs();
        for &boundary in &known {
            search.narrow(boundary);
            if search.fronts[boundary].is_empty() {
                return None;
            }
        }
        let left = search.pairs();
        if (pairs - left) * WORTH_A_ROUND <= left || must_stop() {
            break;
        }
    }
    let front = |boundary| {
        let is_known = known.contains(&boundary);
        is_known.then(|| Front::new(parts, &search.fronts[boundary]))
    };
    Some((0..search.boundaries).map(front).collect())
}

impl Front {
    fn new(parts: &[Part; 2], pairs: &[[Ideal; 2]]) -> Self {
        let mut front = Self {
            pairs: PairSet::new(parts),
            ideals: [0, 1].map(|p| FixedBitSet::with_capacity(parts[p].ideals.len())),
            work_ns: [u64::MAX, 0],
        };
        for &pair in pairs {
            front.pairs.insert(pair);
            let work_ns: u64 = (0..2).map(|p| parts[p].work_ns(pair[p], 0)).sum();
            front.work_ns = [front.work_ns[0].min(work_ns), front.work_ns[1].max(work_ns)];
            (0..2).for_each(|p| front.ideals[p].insert(pair[p] as usize));
        }
        front
    }
}

/// Of the transfers across a boundary, in units of [`Search::unit_ns`] and rounded down: what counts there, and what stages
/// before it and behind it pay beyond what counts at boundaries on their side.
type Cost = [i32; 4];
const SHARE: usize = 0;
const SIDES: usize = 1;

fn plus(a: Cost, b: Cost) -> Cost {
    [0, 1, 2, 3].map(|of| a[of] + b[of])
}

/// A transfer as boundaries see it: it can cross one that has some of its ends on either side.
struct Link {
    ends: [Vec<usize>; 2],
    ns: u64,
}

impl Link {
    /// Whether it may cross a boundary, as far as windows tell.
    fn may_cross(&self, zones: &[Zone; 2]) -> bool {
        let ends = || (0..2).flat_map(|p| self.ends[p].iter().map(move |&end| (p, end)));
        ends().any(|(p, end)| growth::has(&zones[p].may, end))
            && ends().any(|(p, end)| !growth::has(&zones[p].must, end))
    }
}

/// The items of a part that can lie before a boundary, and those that must, as bits.
struct Zone {
    may: Vec<u64>,
    must: Vec<u64>,
}

/// The search for fronts.
struct Search<'a> {
    parts: &'a [Part; 2],
    cross: &'a Cross,
    limit_ns: u64,
    /// Work of all items.
    all_ns: u64,
    boundaries: usize,
    /// Transfers inside each part, and between the parts. Of one with consumers in both parts only those in its producer's
    /// count.
    links: [Vec<Link>; 3],
    /// For each boundary and part, from windows.
    zones: Vec<[Zone; 2]>,
    /// For each boundary, the transfers that may cross it, as in `links`.
    crossers: Vec<[FixedBitSet; 3]>,
    /// For each boundary, the pairs that can lie before it; none before it is looked at.
    fronts: Vec<Vec<[Ideal; 2]>>,
    /// Costs are counted in so many ns.
    unit_ns: i64,
    /// For each boundary, what counts there at least.
    least_ns: Vec<u64>,
}

impl<'a> Search<'a> {
    fn new(
        problem: &Problem,
        parts: &'a [Part; 2],
        cross: &'a Cross,
        limit_ns: u64,
        windows: &Windows,
    ) -> Self {
        let boundaries = problem.stages() - 1;
        let zone = |boundary: usize, part: &Part| Zone {
            may: part.set(|item| windows.earliest[item] <= boundary).into(),
            must: part.set(|item| windows.latest[item] <= boundary).into(),
        };
        let inside = [0, 1].map(|p| links_inside(&parts[p], p));
        let between = cross.narrow.iter().map(|transfer| Link {
            ends: transfer.ends.map(|end| vec![end]),
            ns: transfer.total_ns,
        });
        let [first, second] = inside;
        let links = [first, second, between.collect()];
        let zones: Vec<[Zone; 2]> = (0..boundaries)
            .map(|boundary| [zone(boundary, &parts[0]), zone(boundary, &parts[1])])
            .collect();
        let crossers = |zones: &[Zone; 2]| {
            [0, 1, 2].map(|of: usize| {
                let links: &[Link] = &links[of];
                (0..links.len()).filter(|&t| links[t].may_cross(zones)).collect()
            })
        };
        let crossers = zones.iter().map(crossers).collect();
        let sum_ns: u64 = links.iter().flatten().map(|link| link.ns).sum();
        Self {
            parts,
            cross,
            limit_ns,
            all_ns: problem.work_ns(),
            boundaries,
            unit_ns: (sum_ns >> 30) as i64 + 1,
            links,
            zones,
            crossers,
            fronts: vec![Vec::new(); boundaries],
            least_ns: vec![0; boundaries],
        }
    }

    fn pairs(&self) -> usize {
        self.fronts.iter().map(Vec::len).sum()
    }

    fn work_ns(&self, [first, second]: [Ideal; 2]) -> u64 {
        self.parts[0].ideals[first as usize].work_ns + self.parts[1].ideals[second as usize].work_ns
    }

    /// Whether a pair with this work before a boundary has room on both sides, beside what counts at other boundaries.
    fn has_room(&self, boundary: usize, work_ns: u64, cost: Cost) -> bool {
        let stages = [boundary + 1, self.boundaries - boundary];
        let counted =
            [&self.least_ns[..boundary], &self.least_ns[boundary + 1..]].map(|of| 2 * of.iter().sum::<u64>());
        let work_ns = [work_ns, self.all_ns - work_ns];
        (0..2).all(|side| {
            let cost_ns = i64::from(cost[SIDES + side]) * self.unit_ns;
            (work_ns[side] + counted[side]) as i64 + cost_ns <= (stages[side] as u64 * self.limit_ns) as i64
        })
    }

    /// The ideals of a part that can lie before a boundary.
    fn ideals(&self, boundary: usize, p: usize) -> Vec<Ideal> {
        let zone = &self.zones[boundary][p];
        // Both sides pay for what crosses.
        let capacity_ns = (self.boundaries as u64 + 1) * self.limit_ns;
        let spare_ns = capacity_ns.saturating_sub(self.all_ns);
        let may_lie = |ideal: &Ideal| {
            let Members {
                bits, crossing_ns, ..
            } = &self.parts[p].ideals[*ideal as usize];
            2 * crossing_ns <= spare_ns && is_subset(bits, &zone.may) && is_subset(&zone.must, bits)
        };
        (0..self.parts[p].ideals.len() as Ideal).filter(may_lie).collect()
    }

    /// For each ideal of the first part that can lie before a boundary, those of the second that the work allows: by position
    /// in the second list.
    fn mates(&self, boundary: usize) -> (Vec<Ideal>, Vec<Ideal>, Vec<Range<usize>>) {
        let [first, second] = [0, 1].map(|p| self.ideals(boundary, p));
        let work_ns = |p: usize, ideal: Ideal| self.parts[p].ideals[ideal as usize].work_ns;
        let behind_ns = (self.boundaries - boundary) as u64 * self.limit_ns;
        let least_ns = self.all_ns.saturating_sub(behind_ns);
        let most_ns = (boundary as u64 + 1) * self.limit_ns;
        let range = |&ideal: &Ideal| {
            let own_ns = work_ns(0, ideal);
            let from = second.partition_point(|&mate| own_ns + work_ns(1, mate) < least_ns);
            let to = second.partition_point(|&mate| own_ns + work_ns(1, mate) <= most_ns);
            from..to.max(from)
        };
        let ranges = first.iter().map(range).collect();
        (first, second, ranges)
    }

    /// The number of pairs to look at before a boundary.
    fn size(&self, boundary: usize) -> usize {
        let (_, _, ranges) = self.mates(boundary);
        ranges.iter().map(|range| 1 + range.len()).sum()
    }

    /// Looks for all pairs that have room before a boundary; whether they are not too many.
    fn scan(&mut self, boundary: usize) -> bool {
        let (first, second, ranges) = self.mates(boundary);
        let known = |p: usize, ideal: Ideal| {
            let members = &self.parts[p].ideals[ideal as usize];
            let ends_ns = self.cross.ends(p, ideal, 0).1;
            (members.work_ns, members.crossing_ns, ends_ns)
        };
        let mates: Vec<(u64, u64, u64)> = second.iter().map(|&ideal| known(1, ideal)).collect();
        let stages = [boundary + 1, self.boundaries - boundary].map(|stages| stages as u64 * self.limit_ns);
        let all_ns = self.all_ns;
        let mut found = Vec::new();
        // The least that crosses behind the mates of a block, and the least and the most of their ends.
        let least_of = |block: &[(u64, u64, u64)]| {
            let fold = |(inside, least, most): (u64, u64, u64), mate: &(u64, u64, u64)| {
                (inside.min(mate.1), least.min(mate.2), most.max(mate.2))
            };
            block.iter().fold((u64::MAX, u64::MAX, 0), fold)
        };
        let blocks: Vec<(u64, u64, u64)> = mates.chunks(BLOCK).map(least_of).collect();
        let spare_ns = (stages[0] + stages[1]).saturating_sub(all_ns) / 2;
        for (&ideal, range) in first.iter().zip(ranges) {
            let (work_ns, inside_ns, ends_ns) = known(0, ideal);
            let is_dead = |block: usize| {
                let (least_inside_ns, least_ns, most_ns) = blocks[block];
                let apart_ns = least_ns
                    .saturating_sub(ends_ns)
                    .max(ends_ns.saturating_sub(most_ns));
                inside_ns + least_inside_ns + apart_ns > spare_ns
            };
            if found.len() > MOST_PAIRS {
                return false;
            }
            let alive = (range.start / BLOCK..range.end.div_ceil(BLOCK)).filter(|&block| !is_dead(block));
            let (from, to) = (range.start, range.end);
            for at in alive.flat_map(|block| from.max(block * BLOCK)..to.min((block + 1) * BLOCK)) {
                let mate = mates[at];
                let work_ns = work_ns + mate.0;
                let inside_ns = inside_ns + mate.1;
                let room_ns = (stages[0] - work_ns).min(stages[1] - (all_ns - work_ns));
                // No fewer transfers have one end in the pair than the difference.
                if inside_ns + ends_ns.abs_diff(mate.2) <= room_ns {
                    let pair = [ideal, second[at]];
                    if inside_ns + self.cross.apart_ns(pair) <= room_ns {
                        found.push(pair);
                    }
                }
            }
        }
        self.fronts[boundary] = found;
        true
    }

    /// Takes pairs away that have no room before a boundary beside what counts at others.
    fn narrow(&mut self, boundary: usize) {
        let costs = self.costs(boundary);
        let least = costs.iter().map(|cost| cost[SHARE]).min().unwrap_or(0);
        self.least_ns[boundary] =
            self.least_ns[boundary].max(i64::from(least).max(0) as u64 * self.unit_ns as u64);
        let mut front = mem::take(&mut self.fronts[boundary]);
        let mut costs = costs.into_iter();
        front.retain(|&pair| {
            let cost = costs.next().unwrap_or_default();
            self.has_room(boundary, self.work_ns(pair), cost)
        });
        self.crossers[boundary] = self.crossers(&front);
        self.fronts[boundary] = front;
    }

    /// The transfers that cross behind some pair of a front.
    fn crossers(&self, front: &[[Ideal; 2]]) -> [FixedBitSet; 3] {
        let [first, second] = [0, 1].map(|p| {
            let mut ideals = FixedBitSet::with_capacity(self.parts[p].ideals.len());
            front.iter().for_each(|pair| ideals.insert(pair[p] as usize));
            let mut crossers = FixedBitSet::with_capacity(self.links[p].len());
            let crossing = ideals
                .ones()
                .flat_map(|ideal| &self.parts[p].ideals[ideal].crossing);
            crossing.for_each(|&t| crossers.insert(t));
            crossers
        });
        let mut sets = vec![0; self.links[2].len().div_ceil(64)];
        for &pair in front {
            self.cross
                .apart(pair)
                .zip(&mut sets)
                .for_each(|(apart, sets)| *sets |= apart);
        }
        let between = (0..self.links[2].len()).filter(|&t| growth::has(&sets, t));
        [first, second, between.collect()]
    }

    /// What counts for a transfer that crosses a boundary.
    fn cost(&self, of: usize, t: usize, boundary: usize) -> Cost {
        let number = |range: Range<usize>| {
            range
                .filter(|&other| self.crossers[other][of].contains(t))
                .count() as i64
        };
        let [before, behind] = [number(0..boundary), number(boundary + 1..self.boundaries)];
        let all = before + 1 + behind;
        let ns = self.links[of][t].ns as i64;
        // What counts at boundaries on one side has been paid there. Everything is rounded down.
        let in_units = |numerator: i64| numerator.div_euclid(all * self.unit_ns) as i32;
        [
            in_units(ns),
            in_units(ns * (all - 2 * before)),
            in_units(ns * (all - 2 * behind)),
            0,
        ]
    }

    /// What counts at a boundary for each pair of its front.
    fn costs(&self, boundary: usize) -> Vec<Cost> {
        let [first, second, between] = [0, 1, 2].map(|of| {
            (0..self.links[of].len())
                .map(|t| self.cost(of, t, boundary))
                .collect::<Vec<_>>()
        });
        let inside = [first, second];
        let between: Vec<[Cost; 16]> = between.chunks(4).map(sums).collect();
        let mut of_ideal = [0, 1].map(|p| vec![None; self.parts[p].ideals.len()]);
        let mut of = |p: usize, ideal: Ideal| {
            *of_ideal[p][ideal as usize].get_or_insert_with(|| {
                let crossing = self.parts[p].ideals[ideal as usize].crossing.iter();
                crossing.fold(Cost::default(), |sum, &t| plus(sum, inside[p][t]))
            })
        };
        let cost = |&pair: &[Ideal; 2]| {
            let mut sum = plus(of(0, pair[0]), of(1, pair[1]));
            for (apart, between) in self.cross.apart(pair).zip(between.chunks(16)) {
                for (at, sums) in between.iter().enumerate() {
                    sum = plus(sum, sums[(apart >> (4 * at)) as usize % 16]);
                }
            }
            sum
        };
        self.fronts[boundary].iter().map(cost).collect()
    }
}

/// The transfers inside a part.
fn links_inside(part: &Part, p: usize) -> Vec<Link> {
    let of = |transfer: &Inside| {
        let is_end = |&at: &usize| at == transfer.producer || growth::has(&transfer.consumers, at);
        let mut ends = [Vec::new(), Vec::new()];
        ends[p] = (0..part.items.len()).filter(is_end).collect();
        Link {
            ends,
            ns: transfer.load_ns(),
        }
    };
    part.transfers.iter().map(of).collect()
}

/// Sums over each set of up to four.
fn sums(costs: &[Cost]) -> [Cost; 16] {
    let mut sums = [Cost::default(); 16];
    for set in 1..16_usize {
        let first = set.trailing_zeros() as usize;
        sums[set] = plus(
            sums[set & (set - 1)],
            costs.get(first).copied().unwrap_or_default(),
        );
    }
    sums
}
