//! Transfers inside one component.

use std::collections::HashMap;

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, paid};
use crate::problem::Problem;
use crate::problem::cost::Side;

/// A transfer as far as it lies inside a component, whoever else consumes it. Items are named by position in the component.
pub(crate) struct InnerTransfer {
    /// Its producer.
    pub producer: usize,
    /// Bits of its consumers in the component.
    pub consumers: Box<[u64]>,
    /// What each side of it pays.
    pub paid: [BusyTimes; 2],
    /// Whether it has one consumer, directly behind its producer in the order.
    pub is_ordered_unicast: bool,
}

impl InnerTransfer {
    /// All of a component: `positions` has the position of each of its items, `before` the predecessors by position.
    pub(crate) fn all(
        problem: &Problem,
        positions: &HashMap<usize, usize>,
        before: &[Vec<usize>],
    ) -> Vec<Self> {
        let words = bits::words(positions.len()).max(1);
        let of = |t: usize| {
            let transfer = &problem.transfers[t];
            let producer = *positions.get(&transfer.producer)?;
            let consumers = transfer.consumers.iter();
            let consumers = bits::from_members(words, consumers.filter_map(|to| positions.get(to).copied()));
            let first = bits::first_from(&consumers, 0)?;
            let is_unicast = bits::first_from(&consumers, first + 1).is_none();
            Some(Self {
                producer,
                consumers,
                paid: paid(problem, t),
                is_ordered_unicast: is_unicast && before[first].contains(&producer),
            })
        };
        (0..problem.transfers.len()).filter_map(of).collect()
    }

    /// Its ends: every consumer, and the producer last.
    pub(crate) fn ends(&self) -> impl Iterator<Item = usize> {
        bits::members(self.consumers.iter().copied()).chain([self.producer])
    }

    /// What it adds to a load at either end, in ns.
    pub(crate) fn load_ns(&self) -> u64 {
        self.paid[0][0].min(self.paid[1][0])
    }

    /// Whether some of its ends lie in an ideal and some outside.
    pub(crate) fn crosses(&self, ideal: &[u64]) -> bool {
        match bits::contains(ideal, self.producer) {
            true => !bits::is_subset(&self.consumers, ideal),
            false => bits::intersect(&self.consumers, ideal),
        }
    }

    /// The side that the stage between two ideals pays, if it does.
    pub(crate) fn side(&self, whole: &[u64], rest: &[u64]) -> Option<Side> {
        let is_here = bits::contains(whole, self.producer) && !bits::contains(rest, self.producer);
        let mut consumers = self.consumers.iter().zip(whole).zip(rest);
        match is_here {
            true => consumers
                .any(|((to, whole), rest)| to & !(whole & !rest) != 0)
                .then_some(Side::Producer),
            false => consumers
                .any(|((to, whole), rest)| to & whole & !rest != 0)
                .then_some(Side::Consumer),
        }
    }
}
