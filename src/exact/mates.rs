//! Slices of one part of a problem, laid out so that those which can share a stage with a slice of the other part are found
//! fast.

use std::ops::Range;

use super::cross::Cross;
use super::fronts::Front;
use super::part::{Busy, Ideal, Slice, Towards};

/// Slices that are passed over together where none of them fits.
const BLOCK: usize = 64;

/// Slices, and beside them what decides whether a slice of the other part can join.
///
/// A stage of slices `a` and `b` is busy with at least `own(a) + ends(a) + own(b) + ends(b) - saved min(cut(a), cut(b))` in load,
/// link in and link out: at best all transfers of the smaller side stay in the stage, see [`Cross::saved`]. As the minimum is
/// below either side, each of `b`'s columns has a limit that depends on `a` alone.
pub struct Mates<'a> {
    /// The slices.
    pub slices: Vec<Slice>,
    /// The ideals at their far ends.
    pub to: Vec<Ideal>,
    /// Their [`Cross::cut`]s, one after the other.
    cuts: Vec<u64>,
    words: usize,
    loads_ns: Vec<i64>,
    /// Resources that transfers between the parts may fill.
    resources: Vec<usize>,
    /// For each of those, `own + ends`, and the same less `saved * cut`; where transfers are part of the load, then the work,
    /// less than nothing.
    columns: Vec<Column>,
    /// See [`Cross::saved`].
    saved: Busy,
    /// How they lie in a front, if it is known.
    ranked: Option<Ranked<'a>>,
}

/// Slices to ideals of a front, which come by ideal.
struct Ranked<'a> {
    front: &'a Front,
    towards: Towards,
    /// Work, counted so that it grows with the ideals.
    works_ns: Vec<i64>,
    /// For each slice, the rank of its ideal in the front.
    ranks: Vec<u32>,
    /// For each rank, the slice, if there is one.
    places: Vec<u32>,
    /// Bits of the ranks with a slice.
    bits: Vec<u64>,
}

/// A number for each slice.
struct Column {
    values: Vec<i64>,
    /// The least of each [`BLOCK`].
    least: Vec<i64>,
}

impl Column {
    fn new(values: Vec<i64>) -> Self {
        let least = values
            .chunks(BLOCK)
            .map(|block| block.iter().copied().min().unwrap_or_default());
        Self {
            least: least.collect(),
            values,
        }
    }
}

impl<'a> Mates<'a> {
    /// Lays out slices of the second part that come by growing load, those that lead to a front by ideal. `cut` adds the
    /// [`Cross::cut`] of one.
    pub fn new(
        cross: &Cross,
        front: Option<(&'a Front, Towards)>,
        slices: Vec<Slice>,
        cut: impl Fn(&Slice, &mut Vec<u64>),
    ) -> Self {
        let mut cuts = Vec::with_capacity(slices.len() * cross.words());
        slices.iter().for_each(|slice| cut(slice, &mut cuts));
        let resources: Vec<usize> = (0..3).filter(|&r| cross.saved()[r] > 0).collect();
        let column = |value: &dyn Fn(&Slice) -> i64| Column::new(slices.iter().map(value).collect());
        let mut columns = Vec::new();
        for &r in &resources {
            let saved = cross.saved()[r] as i64;
            columns.push(column(&|slice| all_cut(slice, r)));
            columns.push(column(&|slice| all_cut(slice, r) - saved * slice.cut_ns as i64));
        }
        if resources == [0] {
            columns.push(column(&|slice| -(slice.work_ns as i64)));
        }
        Self {
            loads_ns: slices.iter().map(|slice| slice.busy[0] as i64).collect(),
            to: slices.iter().map(|slice| slice.to).collect(),
            columns,
            ranked: front.map(|(front, towards)| Ranked::new(front, towards, &slices)),
            saved: cross.saved(),
            resources,
            slices,
            cuts,
            words: cross.words(),
        }
    }

    /// The [`Cross::cut`] of a slice.
    pub fn cut(&self, at: u32) -> &[u64] {
        &self.cuts[at as usize * self.words..][..self.words]
    }

    /// Where to look for mates of the slice with the least load.
    pub fn all(&self) -> Range<usize> {
        self.slices.len()..self.slices.len()
    }

    /// Positions of the slices that may share a stage with `a`, if at least the first of `within_ns` of work comes together and
    /// the stage is busy for at most the second, where a front is known those that lead to a pair of it; returns how many were
    /// looked at.
    ///
    /// `range` comes from [`Mates::all`] or from the last slice, whose load was no larger, where a front is known whose ideal
    /// came before: the mates' loads, or ideals, shrink as those of the slices grow.
    pub fn fitting(
        &self,
        a: &Slice,
        within_ns: [u64; 2],
        range: &mut Range<usize>,
        found: &mut Vec<u32>,
    ) -> u64 {
        let limits = || self.limits(a, within_ns);
        if let Some(ranked) = &self.ranked {
            let looked_at = ranked.fitting(a, within_ns, range, found);
            if !found.is_empty() {
                let limits = limits();
                let columns = || self.columns.iter().zip(&limits);
                found.retain(|&at| columns().all(|(column, limit)| column.values[at as usize] <= *limit));
            }
            return looked_at;
        }
        let [least_ns, limit_ns] = within_ns;
        let load_ns = a.busy[0] as i64;
        while range.end > 0 && self.loads_ns[range.end - 1] + load_ns > limit_ns as i64 {
            range.end -= 1;
        }
        // What is paid can make up for missing work here; the caller looks again.
        while range.start > 0 && self.loads_ns[range.start - 1] + load_ns >= least_ns as i64 {
            range.start -= 1;
        }
        let (from, to) = (range.start, range.end);
        if from >= to {
            return 0;
        }
        let limits = limits();
        match (&self.columns[..], &limits[..]) {
            ([one, two, three], &[a, b, c]) => keep(from, to, found, [(one, a), (two, b), (three, c)]),
            ([one, two, three, four], &[a, b, c, d]) => {
                keep(from, to, found, [(one, a), (two, b), (three, c), (four, d)])
            }
            _ => {
                found.extend(from as u32..to as u32);
                (to - from) as u64
            }
        }
    }

    /// The most that the columns may say for a slice to share a stage with `a` that takes work of at least `least_ns`.
    fn limits(&self, a: &Slice, [least_ns, limit_ns]: [u64; 2]) -> Vec<i64> {
        let of = |&r: &usize| {
            let rest_ns = limit_ns as i64 - all_cut(a, r);
            [rest_ns + (self.saved[r] * a.cut_ns) as i64, rest_ns]
        };
        let work_ns = a.work_ns as i64 - least_ns as i64;
        self.resources
            .iter()
            .flat_map(of)
            .chain([work_ns])
            .take(self.columns.len())
            .collect()
    }
}

impl<'a> Ranked<'a> {
    fn new(front: &'a Front, towards: Towards, slices: &[Slice]) -> Self {
        let sign = match towards {
            Towards::Start => -1,
            Towards::End => 1,
        };
        let mut ranked = Self {
            front,
            towards,
            works_ns: slices.iter().map(|slice| sign * slice.work_ns as i64).collect(),
            ranks: Vec::with_capacity(slices.len()),
            places: Vec::new(),
            bits: Vec::new(),
        };
        let mut mates = (0..).zip(slices).peekable();
        for (rank, ideal) in (0..).zip(front.ideals[1].ones()) {
            let slice = mates.next_if(|(_, slice)| slice.to as usize == ideal);
            ranked.places.push(slice.map_or(u32::MAX, |(at, _)| at));
            if rank % 64 == 0 {
                ranked.bits.push(0);
            }
            if slice.is_some() {
                ranked.ranks.push(rank);
                ranked.bits[rank as usize / 64] |= 1 << (rank % 64);
            }
        }
        ranked
    }

    /// Adds the slices that lead to a pair of the front with `a`, if the work together lies within limits; returns how many words
    /// were looked at.
    fn fitting(&self, a: &Slice, within_ns: [u64; 2], range: &mut Range<usize>, found: &mut Vec<u32>) -> u64 {
        let [least_ns, most_ns] = within_ns.map(|ns| ns as i64 - a.work_ns as i64);
        let [least_ns, most_ns] = match self.towards {
            Towards::End => [least_ns, most_ns],
            Towards::Start => [-most_ns, -least_ns],
        };
        let row = self.front.row(a.to);
        while range.end > 0 && self.works_ns[range.end - 1] > most_ns {
            range.end -= 1;
        }
        while range.start > 0 && self.works_ns[range.start - 1] >= least_ns {
            range.start -= 1;
        }
        if range.start >= range.end {
            return 1;
        }
        let [first, last] = [range.start, range.end - 1].map(|at| self.ranks[at] as usize);
        let (from, to) = (
            row.from.max(first / 64),
            (row.from + row.words.len()).min(last / 64 + 1),
        );
        for word in from..to {
            let mut bits = row.words[word - row.from] & self.bits[word];
            if word == first / 64 {
                bits &= u64::MAX << (first % 64);
            }
            if word == last / 64 {
                bits &= u64::MAX >> (63 - last % 64);
            }
            while bits != 0 {
                found.push(self.places[word * 64 + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
        1 + to.saturating_sub(from) as u64
    }
}

/// What a slice is busy with if all its transfers to the other part are cut.
fn all_cut(slice: &Slice, resource: usize) -> i64 {
    (slice.busy[resource] + slice.ends[resource]) as i64
}

/// Adds the positions within all limits, without branches in a block that may have some; returns how many were looked at.
fn keep<const N: usize>(from: usize, to: usize, found: &mut Vec<u32>, columns: [(&Column, i64); N]) -> u64 {
    let mut looked_at = 0;
    for block in from / BLOCK..=(to - 1) / BLOCK {
        looked_at += 1;
        if columns.iter().any(|(column, limit)| column.least[block] > *limit) {
            continue;
        }
        let range = from.max(block * BLOCK)..to.min((block + 1) * BLOCK);
        looked_at += range.len() as u64;
        let columns = columns.map(|(column, limit)| (&column.values[range.clone()], limit));
        let mut kept = found.len();
        found.resize(kept + range.len(), 0);
        for (at, position) in range.enumerate() {
            let within = columns
                .iter()
                .fold(true, |within, (values, limit)| within & (values[at] <= *limit));
            found[kept] = position as u32;
            kept += usize::from(within);
        }
        found.truncate(kept);
    }
    looked_at
}

/// Whether every resource keeps a limit.
pub fn keeps(busy: Busy, limit_ns: u64) -> bool {
    busy.iter().all(|&ns| ns <= limit_ns)
}
