//! The slices of one component that are compatible with a slice of the other: the two can share a stage. They are laid out so that
//! those whose work fits are found fast.

use std::ops::Range;

use crate::exact::busy_times::BusyTimes;
use crate::exact::components::component::Component;
use crate::exact::components::cross::Ends;
use crate::exact::components::ideal::{Ideal, Towards};

/// What a stage does in one component: all that can be told without the other one.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    /// Work and what is paid for transfers inside the component. Transfers to the other one can only add to it.
    pub busy: BusyTimes,
    /// Its ends of transfers to the other component.
    pub ends: Ends,
}

impl Slice {
    /// What a stage of two slices is busy with at least: at best all transfers of the smaller side stay in it, each ns of which
    /// saves so much.
    pub(super) fn least_with(&self, other: &Self, saved: BusyTimes) -> BusyTimes {
        let inside_ns = self.ends.cut_ns.min(other.ends.cut_ns);
        [0, 1, 2].map(|r| {
            let own_ns = self.busy[r] + other.busy[r];
            let cut_ns = self.ends.busy[r] + other.ends.busy[r];
            (own_ns + cut_ns).saturating_sub(saved[r] * inside_ns).max(own_ns)
        })
    }
}

/// The slices of the second component from one ideal.
pub(super) struct CompatibleSlices {
    /// The ideals that they lead to, in ascending order.
    pub to: Vec<Ideal>,
    /// Work of each, counted so that it grows with the ideals.
    works_ns: Vec<i64>,
    towards: Towards,
    /// For each of them the number of its slice, from one on, once it is known.
    slice_of: Vec<u32>,
    slices: Vec<Slice>,
}

impl CompatibleSlices {
    /// Lays out slices to ideals that come in ascending order.
    pub(super) fn new(component: &Component, from: Ideal, to: Vec<Ideal>, towards: Towards) -> Self {
        let own_ns = component.work_ns(from, 0) as i64;
        let work_ns = |&to: &Ideal| component.work_ns(to, 0) as i64 - own_ns;
        Self {
            works_ns: to.iter().map(work_ns).collect(),
            slice_of: vec![0; to.len()],
            slices: Vec::new(),
            to,
            towards,
        }
    }

    /// The slice at a position; `find` finds it.
    pub(super) fn slice(&mut self, at: u32, find: impl Fn(Ideal) -> Slice) -> Slice {
        let number = &mut self.slice_of[at as usize];
        if *number == 0 {
            self.slices.push(find(self.to[at as usize]));
            *number = self.slices.len() as u32;
        }
        self.slices[*number as usize - 1]
    }

    /// Where to look for those compatible with the first slice of the other component.
    pub(super) fn start(&self) -> Range<usize> {
        self.to.len()..self.to.len()
    }

    /// Positions of those that may share a stage with a slice of the first component whose work is `work_ns`, if their work together
    /// lies within limits.
    ///
    /// `range` comes from [`CompatibleSlices::start`] or from a smaller slice of the first component: as that one grows, these
    /// shrink.
    pub(super) fn fitting(&self, work_ns: u64, within_ns: [u64; 2], range: &mut Range<usize>) -> Range<u32> {
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
