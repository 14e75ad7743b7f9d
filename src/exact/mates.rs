//! Stages within one part of a problem, laid out so that those which can share a stage with one of the other part are found
//! fast.

use std::ops::Range;

use super::fronts::Front;
use super::part::{Busy, Ideal, Part, Towards};

/// What a stage does in one part: all that can be told without the other part.
#[derive(Clone, Copy)]
pub struct Slice {
    /// Work and what is paid for transfers inside the part. Transfers to the other part can only add to it.
    pub busy: Busy,
    /// What its ends of transfers to the other part pay, if all of those are cut.
    pub ends: Busy,
    /// The ns of those transfers.
    pub cut_ns: u64,
}

impl Slice {
    /// What a stage of two slices is busy with at least: at best all transfers of the smaller side stay in it, each ns of which
    /// saves so much.
    pub fn least_with(&self, other: &Self, saved: Busy) -> Busy {
        let together_ns = self.cut_ns.min(other.cut_ns);
        [0, 1, 2].map(|r| {
            let apart_ns = self.busy[r] + self.ends[r] + other.busy[r] + other.ends[r];
            apart_ns
                .saturating_sub(saved[r] * together_ns)
                .max(self.busy[r] + other.busy[r])
        })
    }
}

/// The ideals of the second part that a stage can lead to from one.
pub struct Mates<'a> {
    /// The ideals, in ascending order.
    pub to: Vec<Ideal>,
    /// Work on the way there, counted so that it grows with the ideals.
    works_ns: Vec<i64>,
    towards: Towards,
    /// For each of them the number of its slice, from one on, once it is known.
    slice_of: Vec<u32>,
    slices: Vec<Slice>,
    /// How they lie in a front, if it is known.
    ranked: Option<Ranked<'a>>,
}

/// Ideals of a front.
struct Ranked<'a> {
    front: &'a Front,
    /// For each ideal, its rank in the front.
    ranks: Vec<u32>,
    /// For each rank, the position of its ideal, if it is one of them.
    places: Vec<u32>,
    /// Bits of the ranks of these ideals.
    bits: Vec<u64>,
}

impl<'a> Mates<'a> {
    /// Lays out ideals of the second part that come in ascending order.
    pub fn new(part: &Part, from: Ideal, to: Vec<Ideal>, front: Option<&'a Front>, towards: Towards) -> Self {
        let own_ns = part.work_ns(from, 0) as i64;
        Self {
            works_ns: to.iter().map(|&to| part.work_ns(to, 0) as i64 - own_ns).collect(),
            ranked: front.map(|front| Ranked::new(front, &to)),
            slice_of: vec![0; to.len()],
            slices: Vec::new(),
            to,
            towards,
        }
    }

    /// The slice of one of them; `find` finds it.
    pub fn slice(&mut self, at: u32, find: impl Fn(Ideal) -> Slice) -> Slice {
        let number = &mut self.slice_of[at as usize];
        if *number == 0 {
            self.slices.push(find(self.to[at as usize]));
            *number = self.slices.len() as u32;
        }
        self.slices[*number as usize - 1]
    }

    /// Where to look for mates of the first ideal of the other part.
    pub fn all(&self) -> Range<usize> {
        self.to.len()..self.to.len()
    }

    /// Positions of those that may share a stage with a slice of the first part to `first` whose work is `work_ns`, if work
    /// together lies within limits, where a front is known those that lead to a pair of it; returns how many, or how many words,
    /// were looked at.
    ///
    /// `range` comes from [`Mates::all`] or from a smaller ideal of the first part: the mates shrink as that one grows.
    pub fn fitting(
        &self,
        first: Ideal,
        work_ns: u64,
        within_ns: [u64; 2],
        range: &mut Range<usize>,
        found: &mut Vec<u32>,
    ) -> u64 {
        let [least_ns, most_ns] = within_ns.map(|ns| ns as i64 - work_ns as i64);
        let [least_ns, most_ns] = match self.towards {
            Towards::End => [least_ns, most_ns],
            Towards::Start => [-most_ns, -least_ns],
        };
        while range.end > 0 && self.works_ns[range.end - 1] > most_ns {
            range.end -= 1;
        }
        while range.start > 0 && self.works_ns[range.start - 1] >= least_ns {
            range.start -= 1;
        }
        match &self.ranked {
            _ if range.start >= range.end => 1,
            Some(ranked) => ranked.paired(first, range, found),
            None => {
                found.extend(range.start as u32..range.end as u32);
                1
            }
        }
    }
}

impl<'a> Ranked<'a> {
    fn new(front: &'a Front, to: &[Ideal]) -> Self {
        let mut ranked = Self {
            front,
            ranks: Vec::with_capacity(to.len()),
            places: Vec::new(),
            bits: Vec::new(),
        };
        let mut mates = (0..).zip(to).peekable();
        for (rank, ideal) in (0..).zip(front.ideals[1].ones()) {
            let mate = mates.next_if(|&(_, &to)| to as usize == ideal);
            ranked.places.push(mate.map_or(u32::MAX, |(at, _)| at));
            if rank % 64 == 0 {
                ranked.bits.push(0);
            }
            if mate.is_some() {
                ranked.ranks.push(rank);
                ranked.bits[rank as usize / 64] |= 1 << (rank % 64);
            }
        }
        ranked
    }

    /// Adds the ideals in a range that pair with a first one; returns how many words were looked at.
    fn paired(&self, first: Ideal, range: &Range<usize>, found: &mut Vec<u32>) -> u64 {
        let row = self.front.row(first);
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

/// Whether every resource keeps a limit.
pub fn keeps(busy: Busy, limit_ns: u64) -> bool {
    busy.iter().all(|&ns| ns <= limit_ns)
}
