//! Stages within one part of a problem, laid out so that those which can share a stage with one of the other part are found
//! fast.

use std::ops::Range;

use crate::exact::ideal_pairs::part::{Busy, Ideal, Part, Towards};

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
pub struct Mates {
    /// The ideals, in ascending order.
    pub to: Vec<Ideal>,
    /// Work on the way there, counted so that it grows with the ideals.
    works_ns: Vec<i64>,
    towards: Towards,
    /// For each of them the number of its slice, from one on, once it is known.
    slice_of: Vec<u32>,
    slices: Vec<Slice>,
}

impl Mates {
    /// Lays out ideals of the second part that come in ascending order.
    pub fn new(part: &Part, from: Ideal, to: Vec<Ideal>, towards: Towards) -> Self {
        let own_ns = part.work_ns(from, 0) as i64;
        Self {
            works_ns: to.iter().map(|&to| part.work_ns(to, 0) as i64 - own_ns).collect(),
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

    /// Positions of those that may share a stage with a slice of the first part whose work is `work_ns`, if work together lies within
    /// limits.
    ///
    /// `range` comes from [`Mates::all`] or from a smaller slice of the first part: the mates shrink as that one grows.
    pub fn fitting(&self, work_ns: u64, within_ns: [u64; 2], range: &mut Range<usize>) -> Range<u32> {
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
        range.start as u32..range.end as u32
    }
}

/// Whether every resource keeps a limit.
pub fn keeps(busy: Busy, limit_ns: u64) -> bool {
    busy.iter().all(|&ns| ns <= limit_ns)
}
