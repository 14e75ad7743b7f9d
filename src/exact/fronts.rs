//! Fronts: the pairs of ideals that can lie before each boundary between stages, where transfers are blocking.
#![doc = include_str!("../../formulations/fronts.md")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use super::cross::{Cross, sums};
use super::growth;
use super::part::{Ideal, Inside, Part, is_subset};
use crate::formulations::staging::Windows;
use crate::problem::Problem;

/// Most pairs that are looked at for a front, and most that are kept: about a second's work.
const MOST_LOOKED_AT: usize = 200_000_000;
const MOST_PAIRS: usize = 16_000_000;

/// Ideals that are passed over together where none has room.
const BLOCK: usize = 64;

/// Rounds go on while they take away one pair in so many.
const WORTH_A_ROUND: usize = 8;

/// The pairs of ideals that may lie before a boundary.
pub struct Front {
    /// For each ideal of the first part, those of the second that pair with it, by rank among the second ideals of the front.
    rows: Vec<Row>,
    /// For each part, the ideals of these pairs.
    pub ideals: [FixedBitSet; 2],
    /// The least and the most work before the boundary, in ns.
    pub work_ns: [u64; 2],
}

/// Bits from some word on; all others are zero.
#[derive(Clone, Default)]
pub struct Row {
    /// The word that the first bit lies in.
    pub from: usize,
    /// The words from there.
    pub words: Box<[u64]>,
}

/// The fronts of all boundaries within a limit, as far as they are known.
pub struct Fronts {
    /// The limit.
    limit_ns: u64,
    /// Down to this limit nearly all pairs are left.
    steady_ns: AtomicU64,
    /// For each boundary its pairs in ascending order; none where they are too many.
    pairs: Vec<Option<Vec<[Ideal; 2]>>>,
    /// The same as searches need them.
    fronts: Vec<Option<Front>>,
    /// For each boundary, the transfers that may cross it.
    crossers: Vec<[FixedBitSet; 3]>,
    /// For each boundary, what counts there at least.
    least_ns: Vec<u64>,
}

/// Fronts of plans whose stages are busy for at most `limit_ns`, with every item in its window; `None` if no plan keeps the
/// limit. It starts from those within a looser limit, if there are some, and stops looking when it must.
///
/// Time O(p t) a round for p pairs that t transfers cross, behind O(q I J) steps of a scan for q stages and I and J ideals.
pub fn fronts(
    problem: &Problem,
    parts: &[Part; 2],
    cross: &Cross,
    limit_ns: u64,
    windows: &Windows,
    looser: Option<&Arc<Fronts>>,
    must_stop: &dyn Fn() -> bool,
) -> Option<Arc<Fronts>> {
    let looser = looser.filter(|looser| limit_ns <= looser.limit_ns);
    if let Some(looser) = looser
        && limit_ns >= looser.steady_ns.load(Ordering::Relaxed)
    {
        return Some(looser.clone());
    }
    let mut search = Search::new(problem, parts, cross, limit_ns, windows);
    if let Some(looser) = looser {
        search.crossers.clone_from(&looser.crossers);
        search.least_ns.clone_from(&looser.least_ns);
        search.fronts.clone_from(&looser.pairs);
    }
    // What is paid across narrow boundaries narrows the others.
    let size = |boundary: usize| match &search.fronts[boundary] {
        Some(front) => (false, front.len()),
        None => (true, search.size(boundary)),
    };
    let mut order: Vec<_> = (0..search.boundaries)
        .map(|boundary| (size(boundary), boundary))
        .collect();
    order.sort_unstable();
    // What the last round left.
    let mut pairs = search.pairs();
    let mut is_steady = true;
    for ((is_new, size), boundary) in order {
        match is_new {
            false => search.narrow(boundary),
            true if size <= MOST_LOOKED_AT && !must_stop() => search.scan(boundary),
            true => {}
        }
        if search.is_empty(boundary) {
            return None;
        }
    }
    while !must_stop() {
        let left = search.pairs();
        if left <= pairs && (pairs - left) * WORTH_A_ROUND <= left {
            break;
        }
        is_steady = false;
        pairs = left;
        for boundary in 0..search.boundaries {
            search.narrow(boundary);
            if search.is_empty(boundary) {
                return None;
            }
        }
    }
    if let Some(looser) = looser.filter(|_| is_steady) {
        looser.steady_ns.store(limit_ns, Ordering::Relaxed);
    }
    let front = |pairs: &Option<Vec<[Ideal; 2]>>| Some(Front::new(parts, pairs.as_deref()?));
    Some(Arc::new(Fronts {
        limit_ns,
        steady_ns: AtomicU64::new(limit_ns),
        fronts: search.fronts.iter().map(front).collect(),
        pairs: search.fronts,
        crossers: search.crossers,
        least_ns: search.least_ns,
    }))
}

impl Fronts {
    /// The pairs that can lie before a boundary with so many stages in front, if they are known.
    pub fn before(&self, stages: usize) -> Option<&Front> {
        self.fronts.get(stages.wrapping_sub(1))?.as_ref()
    }

    /// Whether some are not known.
    pub fn has_gaps(&self) -> bool {
        self.fronts.iter().any(Option::is_none)
    }
}

impl Front {
    /// The front of pairs in ascending order.
    fn new(parts: &[Part; 2], pairs: &[[Ideal; 2]]) -> Self {
        let mut work_ns = [u64::MAX, 0];
        let mut ideals = [0, 1].map(|p| FixedBitSet::with_capacity(parts[p].len()));
        for &pair in pairs {
            let own_ns: u64 = (0..2).map(|p| parts[p].work_ns(pair[p], 0)).sum();
            work_ns = [work_ns[0].min(own_ns), work_ns[1].max(own_ns)];
            (0..2).for_each(|p| ideals[p].insert(pair[p] as usize));
        }
        let mut ranks = vec![0; parts[1].len()];
        for (rank, ideal) in ideals[1].ones().enumerate() {
            ranks[ideal] = rank;
        }
        let mut rows = vec![Row::default(); parts[0].len()];
        for row in pairs.chunk_by(|one, next| one[0] == next[0]) {
            let mates = || row.iter().map(|pair| ranks[pair[1] as usize]);
            let from = mates().next().unwrap_or(0) / 64;
            let to = mates().next_back().unwrap_or(0) / 64;
            let mut words = vec![0; to + 1 - from];
            mates().for_each(|rank| words[rank / 64 - from] |= 1 << (rank % 64));
            rows[row[0][0] as usize] = Row {
                from,
                words: words.into(),
            };
        }
        Self {
            rows,
            ideals,
            work_ns,
        }
    }

    /// The second ideals that pair with a first one, by rank among those of the front.
    pub fn row(&self, first: Ideal) -> &Row {
        &self.rows[first as usize]
    }
}

/// Of the transfers across a boundary, in units of [`Search::unit_ns`] and rounded down: what stages before it and behind it pay
/// beyond twice what counts at boundaries on their side. What counts at the boundary is half the sum of the two.
type Cost = [i32; 2];

fn plus(a: Cost, b: Cost) -> Cost {
    [a[0] + b[0], a[1] + b[1]]
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
    /// For each boundary, the pairs that can lie before it, if they are known.
    fronts: Vec<Option<Vec<[Ideal; 2]>>>,
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
            fronts: vec![None; boundaries],
            least_ns: vec![0; boundaries],
        }
    }

    fn pairs(&self) -> usize {
        self.fronts.iter().flatten().map(Vec::len).sum()
    }

    /// Whether no pair can lie before a boundary.
    fn is_empty(&self, boundary: usize) -> bool {
        self.fronts[boundary].as_ref().is_some_and(Vec::is_empty)
    }

    fn work_ns(&self, [first, second]: [Ideal; 2]) -> u64 {
        self.parts[0].work_ns(first, 0) + self.parts[1].work_ns(second, 0)
    }

    /// Whether a pair with this work before a boundary has room on both sides, beside what counts at other boundaries.
    fn has_room(&self, boundary: usize, work_ns: u64, cost: Cost) -> bool {
        let stages = [boundary + 1, self.boundaries - boundary];
        let counted =
            [&self.least_ns[..boundary], &self.least_ns[boundary + 1..]].map(|of| 2 * of.iter().sum::<u64>());
        let work_ns = [work_ns, self.all_ns - work_ns];
        (0..2).all(|side| {
            let cost_ns = i64::from(cost[side]) * self.unit_ns;
            (work_ns[side] + counted[side]) as i64 + cost_ns <= (stages[side] as u64 * self.limit_ns) as i64
        })
    }

    /// The ideals of a part that can lie before a boundary.
    fn ideals(&self, boundary: usize, p: usize) -> Vec<Ideal> {
        let zone = &self.zones[boundary][p];
        // Both sides pay for what crosses.
        let capacity_ns = (self.boundaries as u64 + 1) * self.limit_ns;
        let spare_ns = capacity_ns.saturating_sub(self.all_ns);
        let part = &self.parts[p];
        let may_lie = |&ideal: &Ideal| {
            let bits = part.bits(ideal);
            2 * part.crossing_ns(ideal) <= spare_ns
                && is_subset(bits, &zone.may)
                && is_subset(&zone.must, bits)
        };
        (0..part.len() as Ideal).filter(may_lie).collect()
    }

    /// For each ideal of the first part that can lie before a boundary, those of the second that the work allows: by position
    /// in the second list.
    fn mates(&self, boundary: usize) -> (Vec<Ideal>, Vec<Ideal>, Vec<Range<usize>>) {
        let [first, second] = [0, 1].map(|p| self.ideals(boundary, p));
        let work_ns = |p: usize, ideal: Ideal| self.parts[p].work_ns(ideal, 0);
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

    /// Looks for all pairs that have room before a boundary, unless they are too many.
    fn scan(&mut self, boundary: usize) {
        let (first, second, ranges) = self.mates(boundary);
        let costs = Costs::new(self, boundary);
        let known = |p: usize, ideal: Ideal| {
            let part = &self.parts[p];
            let ends_ns = self.cross.ends(p, ideal, 0).1;
            (part.work_ns(ideal, 0), part.crossing_ns(ideal), ends_ns)
        };
        let mates: Vec<(u64, u64, u64)> = second.iter().map(|&ideal| known(1, ideal)).collect();
        let stages = [boundary + 1, self.boundaries - boundary].map(|stages| stages as u64 * self.limit_ns);
        let all_ns = self.all_ns;
        // The least that crosses behind the mates of a block, and the least and the most of their ends.
        let least_of = |block: &[(u64, u64, u64)]| {
            let fold = |(inside, least, most): (u64, u64, u64), mate: &(u64, u64, u64)| {
                (inside.min(mate.1), least.min(mate.2), most.max(mate.2))
            };
            block.iter().fold((u64::MAX, u64::MAX, 0), fold)
        };
        let blocks: Vec<(u64, u64, u64)> = mates.chunks(BLOCK).map(least_of).collect();
        let spare_ns = (stages[0] + stages[1]).saturating_sub(all_ns) / 2;
        let found = AtomicUsize::new(0);
        let with_room = |mut kept: Kept, (&ideal, range): (&Ideal, &Range<usize>)| {
            let before = kept.pairs.len();
            if found.load(Ordering::Relaxed) > MOST_PAIRS {
                return kept;
            }
            let (work_ns, inside_ns, ends_ns) = known(0, ideal);
            let is_dead = |block: usize| {
                let (least_inside_ns, least_ns, most_ns) = blocks[block];
                let apart_ns = least_ns
                    .saturating_sub(ends_ns)
                    .max(ends_ns.saturating_sub(most_ns));
                inside_ns + least_inside_ns + apart_ns > spare_ns
            };
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
                        kept.keep(self, boundary, &costs, pair);
                    }
                }
            }
            found.fetch_add(kept.pairs.len() - before, Ordering::Relaxed);
            kept
        };
        let rows = first.par_iter().zip(&ranges);
        let kept = rows
            .fold(Kept::default, with_room)
            .reduce(Kept::default, Kept::and);
        if found.into_inner() <= MOST_PAIRS {
            self.note(boundary, kept);
        }
    }

    /// Takes pairs away that have no room before a boundary beside what counts at others.
    fn narrow(&mut self, boundary: usize) {
        let Some(front) = self.fronts[boundary].take() else {
            return;
        };
        let costs = Costs::new(self, boundary);
        let with_room = |mut kept: Kept, &pair: &[Ideal; 2]| {
            kept.keep(self, boundary, &costs, pair);
            kept
        };
        let kept = front
            .par_iter()
            .fold(Kept::default, with_room)
            .reduce(Kept::default, Kept::and);
        self.note(boundary, kept);
    }

    /// Notes the pairs before a boundary, what counts there, and what crosses it.
    fn note(&mut self, boundary: usize, kept: Kept) {
        let least = kept.least.unwrap_or(0).max(0);
        self.least_ns[boundary] = self.least_ns[boundary].max(least as u64 * self.unit_ns as u64);
        let [first, second] = [0, 1].map(|p| {
            let mut ideals = FixedBitSet::with_capacity(self.parts[p].len());
            kept.pairs.iter().for_each(|pair| ideals.insert(pair[p] as usize));
            let mut crossers = FixedBitSet::with_capacity(self.links[p].len());
            let crossing = ideals
                .ones()
                .flat_map(|ideal| self.parts[p].crossing(ideal as Ideal));
            crossing.for_each(|t| crossers.insert(t));
            crossers
        });
        let crosses = |&t: &usize| !kept.pairs.is_empty() && growth::has(&kept.apart, t);
        let between = (0..self.links[2].len()).filter(crosses);
        self.crossers[boundary] = [first, second, between.collect()];
        self.fronts[boundary] = Some(kept.pairs);
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
            in_units(ns * (all - 2 * before)),
            in_units(ns * (all - 2 * behind)),
        ]
    }
}

/// Pairs with room before a boundary.
#[derive(Default)]
struct Kept {
    /// The pairs.
    pairs: Vec<[Ideal; 2]>,
    /// What counts for them at least.
    least: Option<i32>,
    /// Bits of the transfers between the parts that cross behind some of them.
    apart: Vec<u64>,
}

impl Kept {
    /// Keeps a pair if it has room.
    fn keep(&mut self, search: &Search, boundary: usize, costs: &Costs, pair: [Ideal; 2]) {
        let cost = costs.of(search, pair);
        if search.has_room(boundary, search.work_ns(pair), cost) {
            self.pairs.push(pair);
            let share = (cost[0] + cost[1]).div_euclid(2);
            self.least = self.least.into_iter().chain([share]).min();
            self.apart.resize(search.cross.words(), 0);
            let apart = search.cross.apart(pair).zip(&mut self.apart);
            apart.for_each(|(more, apart)| *apart |= more);
        }
    }

    /// These pairs, and others that come behind.
    fn and(mut self, mut other: Self) -> Self {
        if self.pairs.is_empty() {
            return other;
        }
        self.pairs.append(&mut other.pairs);
        self.least = self.least.into_iter().chain(other.least).min();
        let apart = other.apart.iter().zip(&mut self.apart);
        apart.for_each(|(more, apart)| *apart |= more);
        self
    }
}

/// What counts at a boundary.
struct Costs {
    /// For each part and ideal, transfers inside the part.
    of_ideal: [Vec<Cost>; 2],
    /// Each set of eight transfers between the parts.
    between: Vec<[Cost; 256]>,
}

impl Costs {
    fn new(search: &Search, boundary: usize) -> Self {
        let [first, second, between] = [0, 1, 2].map(|of| {
            (0..search.links[of].len())
                .map(|t| search.cost(of, t, boundary))
                .collect::<Vec<_>>()
        });
        let of_ideals = |p: usize, inside: &[Cost]| {
            let part = &search.parts[p];
            let of = |ideal: Ideal| {
                let crossing = part.crossing(ideal);
                crossing.fold(Cost::default(), |sum, t| plus(sum, inside[t]))
            };
            (0..part.len() as Ideal).map(of).collect()
        };
        Self {
            of_ideal: [of_ideals(0, &first), of_ideals(1, &second)],
            between: between.chunks(8).map(|costs| sums(costs, plus)).collect(),
        }
    }

    /// What counts for a pair.
    fn of(&self, search: &Search, pair: [Ideal; 2]) -> Cost {
        let [first, second] = [0, 1].map(|p| self.of_ideal[p][pair[p] as usize]);
        let mut sum = plus(first, second);
        for (apart, between) in search.cross.apart(pair).zip(self.between.chunks(8)) {
            if apart != 0 {
                let bytes = between.iter().zip(apart.to_le_bytes());
                sum = bytes.fold(sum, |sum, (sums, byte)| plus(sum, sums[byte as usize]));
            }
        }
        sum
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
