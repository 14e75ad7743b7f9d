//! Slices of one part of a problem, laid out so that those which can share a stage with a slice of the other part are found
//! fast.

use std::ops::Range;

use super::cross::Cross;
use super::part::{Busy, Ideal, Slice};

/// Slices that are passed over together where none of them fits.
const BLOCK: usize = 64;

/// Slices by growing load, and beside them what decides whether a slice of the other part can join.
///
/// A stage of slices `a` and `b` is busy with at least `own(a) + ends(a) + own(b) + ends(b) - saved min(cut(a), cut(b))` in load,
/// link in and link out: at best all transfers of the smaller side stay in the stage, see [`Cross::saved`]. As the minimum is
/// below either side, each of `b`'s columns has a limit that depends on `a` alone.
pub struct Mates {
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
    /// For each of those, `own + ends`, and the same less `saved * cut`.
    columns: Vec<[Column; 2]>,
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

impl Mates {
    /// Lays out slices of the second part that come by growing load. `cut` adds the [`Cross::cut`] of one.
    pub fn new(cross: &Cross, slices: Vec<Slice>, cut: impl Fn(&Slice, &mut Vec<u64>)) -> Self {
        let mut cuts = Vec::with_capacity(slices.len() * cross.words());
        slices.iter().for_each(|slice| cut(slice, &mut cuts));
        let resources: Vec<usize> = (0..3).filter(|&r| cross.saved()[r] > 0).collect();
        let column = |r: usize, value: fn(&Slice, usize, i64) -> i64| {
            let saved = cross.saved()[r] as i64;
            Column::new(slices.iter().map(|slice| value(slice, r, saved)).collect())
        };
        let of = |&r: &usize| {
            [
                column(r, |slice, r, _| all_cut(slice, r)),
                column(r, |slice, r, saved| {
                    all_cut(slice, r) - saved * slice.cut_ns as i64
                }),
            ]
        };
        Self {
            loads_ns: slices.iter().map(|slice| slice.busy[0] as i64).collect(),
            to: slices.iter().map(|slice| slice.to).collect(),
            columns: resources.iter().map(of).collect(),
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

    /// Positions of the slices that may share a stage of at most `limit_ns` with `a`, if work of at least `least_ns` comes
    /// together; returns how many were looked at.
    ///
    /// `range` comes from [`Mates::all`] or from the last slice, whose load was no larger: the mates' loads shrink as those
    /// of the slices grow.
    pub fn fitting(
        &self,
        cross: &Cross,
        a: &Slice,
        least_ns: u64,
        limit_ns: u64,
        range: &mut Range<usize>,
        found: &mut Vec<u32>,
    ) -> u64 {
        let load_ns = a.busy[0] as i64;
        while range.end > 0 && self.loads_ns[range.end - 1] + load_ns > limit_ns as i64 {
            range.end -= 1;
        }
        // What is paid can make up for missing work here; the caller looks again.
        while range.start > 0 && self.loads_ns[range.start - 1] + load_ns >= least_ns as i64 {
            range.start -= 1;
        }
        let (from, to) = (range.start, range.end);
        let limits = |r: usize| {
            let rest_ns = limit_ns as i64 - all_cut(a, r);
            [rest_ns + (cross.saved()[r] * a.cut_ns) as i64, rest_ns]
        };
        if from >= to {
            return 0;
        }
        match self.columns[..] {
            [] => {
                found.extend(from as u32..to as u32);
                (to - from) as u64
            }
            [ref one] => keep(from, to, found, [(one, limits(self.resources[0]))]),
            [ref one, ref two, ..] => {
                let [first, second] = [0, 1].map(|at| limits(self.resources[at]));
                keep(from, to, found, [(one, first), (two, second)])
            }
        }
    }
}

/// What a slice is busy with if all its transfers to the other part are cut.
fn all_cut(slice: &Slice, resource: usize) -> i64 {
    (slice.busy[resource] + slice.ends[resource]) as i64
}

/// Adds the positions within all limits, without branches in a block that may have some; returns how many were looked at.
fn keep<const N: usize>(
    from: usize,
    to: usize,
    found: &mut Vec<u32>,
    columns: [(&[Column; 2], [i64; 2]); N],
) -> u64 {
    let mut looked_at = 0;
    for block in from / BLOCK..=(to - 1) / BLOCK {
        looked_at += 1;
        let is_dead = columns
            .iter()
            .any(|([one, two], limits)| one.least[block] > limits[0] || two.least[block] > limits[1]);
        if is_dead {
            continue;
        }
        let range = from.max(block * BLOCK)..to.min((block + 1) * BLOCK);
        looked_at += range.len() as u64;
        let columns = columns
            .map(|([one, two], limits)| ([&one.values[range.clone()], &two.values[range.clone()]], limits));
        let mut kept = found.len();
        found.resize(kept + range.len(), 0);
        for (at, position) in range.enumerate() {
            let within = columns.iter().fold(true, |within, ([one, two], limits)| {
                within & (one[at] <= limits[0]) & (two[at] <= limits[1])
            });
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
