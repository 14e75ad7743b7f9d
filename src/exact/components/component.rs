//! One component of a problem: its ideals, and the slices of stages between them.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, sum};
use crate::exact::components::ideal::{Ideal, Towards};
use crate::exact::components::inner::InnerTransfer;
use crate::exact::components::ranges::RangeUnion;
use crate::exact::components::table::{self, IdealTable, Items, TooMany};
use crate::exact::ideals::growth;
use crate::problem::Problem;
use crate::problem::cost::Side;

/// A set of items without order with the rest, and its ideals by growing work: the empty one first, all of them last.
pub(crate) struct Component {
    /// Its items, by position in the problem.
    pub items: Vec<usize>,
    /// Transfers as far as they lie inside it.
    pub transfers: Vec<InnerTransfer>,
    ideals: IdealTable,
    /// For each ideal, what the transfers between it and the rest of the component add to a load at either end, in ns.
    crossing_ns: Vec<u64>,
    /// Bits of the transfers with one consumer, directly behind its producer.
    ordered_unicast: Box<[u64]>,
    is_partial: bool,
}

impl Component {
    /// The component with these items, in ascending order, and its ideals, all or those whose work lies in the ranges.
    ///
    /// # Errors
    ///
    /// [`TooMany`] ideals.
    ///
    /// Time O(I t + J) and memory O(I (n + t) / 64) for J ideals of n items and t transfers, I of which are listed.
    pub(crate) fn new(
        problem: &Problem,
        items: Vec<usize>,
        relevant_ns: Option<&RangeUnion>,
        most_ideals: usize,
        most_bytes: usize,
    ) -> Result<Self, TooMany> {
        let positions = positions(&items);
        let before = before(problem, &items, &positions);
        let transfers = InnerTransfer::all(problem, &positions, &before);
        let [words, transfer_words] = [items.len(), transfers.len()].map(bits::words);
        // Sets of items and transfers, once as they are visited, once sorted, and while they grow.
        let bytes_of_an_ideal = 4 * 8 * (words.max(1) + transfer_words) + 64;
        let most_ideals = most_ideals.min(most_bytes / bytes_of_an_ideal);
        let listed = Items {
            works_ns: items.iter().map(|&item| problem.items[item].work_ns()).collect(),
            before: &before,
            transfers: &transfers,
        };
        let ideals = IdealTable::new(&listed, relevant_ns, most_ideals)?;
        let is_unicast = |&t: &usize| transfers[t].is_ordered_unicast;
        let mut component = Self {
            crossing_ns: Vec::new(),
            ordered_unicast: bits::from_members(transfer_words, (0..transfers.len()).filter(is_unicast)),
            is_partial: relevant_ns.is_some(),
            items,
            transfers,
            ideals,
        };
        let load_ns = |ideal| component.crossing_both_ns(ideal, ideal);
        component.crossing_ns = (0..component.len() as Ideal).map(load_ns).collect();
        Ok(component)
    }

    /// Whether only ideals are listed that are relevant for some limit.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The number of its ideals.
    pub(crate) fn len(&self) -> usize {
        self.ideals.works_ns.len()
    }

    /// Position of the ideal of everything.
    pub(crate) fn everything(&self) -> Ideal {
        (self.len() - 1) as Ideal
    }

    /// Bits of the items of an ideal, by position in the component.
    pub(crate) fn members(&self, ideal: Ideal) -> &[u64] {
        &self.ideals.members[ideal as usize * self.ideals.words..][..self.ideals.words]
    }

    /// The transfers between an ideal and the rest of the component, by position in [`Component::transfers`].
    pub(crate) fn crossing(&self, ideal: Ideal) -> impl Iterator<Item = usize> {
        bits::members(self.crossing_bits(ideal).iter().copied())
    }

    /// The same as bits.
    pub(crate) fn crossing_bits(&self, ideal: Ideal) -> &[u64] {
        let words = self.ideals.transfer_words;
        &self.ideals.crossing[ideal as usize * words..][..words]
    }

    /// What these transfers add to a load at either end, in ns.
    pub(crate) fn crossing_ns(&self, ideal: Ideal) -> u64 {
        self.crossing_ns[ideal as usize]
    }

    /// The same for those that cross behind both of two ideals.
    pub(crate) fn crossing_both_ns(&self, one: Ideal, other: Ideal) -> u64 {
        let words = self.crossing_bits(one).iter().zip(self.crossing_bits(other));
        let both = bits::members(words.map(|(one, other)| one & other));
        both.map(|t| self.transfers[t].load_ns()).sum()
    }

    /// The ideals whose work lies within limits.
    pub(crate) fn of_work(&self, within_ns: RangeInclusive<u64>) -> Range<Ideal> {
        let works_ns = &self.ideals.works_ns;
        let from = works_ns.partition_point(|ns| ns < within_ns.start());
        let to = works_ns.partition_point(|ns| ns <= within_ns.end());
        from as Ideal..to as Ideal
    }

    /// Whether a slice leads from one ideal to another.
    pub(crate) fn are_nested(&self, from: Ideal, towards: Towards, to: Ideal) -> bool {
        let [larger, smaller] = towards.larger_first(from, to);
        bits::is_subset(self.members(smaller), self.members(larger))
    }

    /// Those of some ideals that a slice leads to from one.
    pub(crate) fn nested(
        &self,
        from: Ideal,
        towards: Towards,
        to: impl Iterator<Item = Ideal>,
    ) -> Vec<Ideal> {
        let own = self.members(from);
        match towards {
            Towards::Start => to.filter(|&to| bits::is_subset(self.members(to), own)).collect(),
            Towards::End => to.filter(|&to| bits::is_subset(own, self.members(to))).collect(),
        }
    }

    /// What the slice between two ideals adds up to. One slice never costs more than several that hold the same items.
    pub(crate) fn busy(&self, whole: Ideal, rest: Ideal) -> BusyTimes {
        let mut busy = [self.work_ns(whole, rest), 0, 0];
        let words = self.crossing_bits(whole).iter().zip(self.crossing_bits(rest));
        for (word, ((whole_crosses, rest_crosses), unicast)) in words.zip(&self.ordered_unicast).enumerate() {
            // What has an end in the slice and another outside crosses the border of one of the two ideals; with one consumer
            // behind it, of one alone, and then its producer lies in the smaller one if it crosses there.
            let mut pay = |transfers: u64, side: Side| {
                for t in bits::members([transfers]) {
                    busy = sum(busy, self.transfers[word * 64 + t].paid[side as usize]);
                }
            };
            pay(whole_crosses & !rest_crosses & unicast, Side::Producer);
            pay(rest_crosses & !whole_crosses & unicast, Side::Consumer);
            for t in bits::members([(whole_crosses | rest_crosses) & !unicast]) {
                let transfer = &self.transfers[word * 64 + t];
                if let Some(side) = transfer.side(self.members(whole), self.members(rest)) {
                    busy = sum(busy, transfer.paid[side as usize]);
                }
            }
        }
        busy
    }

    /// For each ideal, the sum over its items.
    pub(crate) fn sums<T: Copy + Default>(
        &self,
        of_item: impl Fn(usize) -> T,
        plus: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let mut sums = vec![T::default(); self.len()];
        for &[ideal, smaller] in &self.ideals.grown {
            let sum = self
                .between(ideal, smaller)
                .fold(sums[smaller as usize], |sum, at| plus(sum, of_item(at)));
            sums[ideal as usize] = sum;
        }
        sums
    }

    /// For each ideal, the union of sets that its items have, so many words an ideal.
    pub(crate) fn unions(&self, words: usize, of_item: &[Vec<usize>]) -> Vec<u64> {
        let mut unions = vec![0; self.len() * words];
        for &[ideal, smaller] in &self.ideals.grown {
            let [at, smaller_at] = [ideal, smaller].map(|ideal| ideal as usize * words);
            unions.copy_within(smaller_at..smaller_at + words, at);
            let members = self.between(ideal, smaller).flat_map(|item| &of_item[item]);
            members.for_each(|&member| bits::insert(&mut unions[at..], member));
        }
        unions
    }

    /// The items between two ideals, by position in the component.
    pub(crate) fn between(&self, whole: Ideal, rest: Ideal) -> impl Iterator<Item = usize> {
        let words = self.members(whole).iter().zip(self.members(rest));
        bits::members(words.map(|(whole, rest)| whole & !rest))
    }

    /// The set of its items for which something holds, as bits by position in the component.
    pub(crate) fn items_where(&self, holds: impl Fn(usize) -> bool) -> Box<[u64]> {
        let of_items = (0..self.items.len()).filter(|&at| holds(self.items[at]));
        bits::from_members(self.ideals.words, of_items)
    }

    /// Work between two ideals, in ns.
    pub(crate) fn work_ns(&self, whole: Ideal, rest: Ideal) -> u64 {
        self.ideals.works_ns[whole as usize] - self.ideals.works_ns[rest as usize]
    }

    /// Work of all its items, in ns.
    pub(crate) fn all_work_ns(&self) -> u64 {
        self.work_ns(self.everything(), 0)
    }

    /// Whether two ideals differ by just this item.
    pub(crate) fn differ_by(&self, one: Ideal, other: Ideal, item: usize) -> bool {
        let words = self.members(one).iter().zip(self.members(other)).enumerate();
        let bit = |word: usize| u64::from(word == item / 64) << (item % 64);
        words
            .map(|(word, (a, b))| a ^ b ^ bit(word))
            .all(|rest| rest == 0)
    }
}

/// The number of ideals of some items without order with the rest, in ascending order; `None` if there are more than so many.
pub(crate) fn count_ideals(problem: &Problem, items: &[usize], most: usize) -> Option<usize> {
    table::count(&before(problem, items, &positions(items)), most)
}

/// The position of each item.
fn positions(items: &[usize]) -> HashMap<usize, usize> {
    items.iter().enumerate().map(|(at, &item)| (item, at)).collect()
}

/// For each item of a component its predecessors, all by position.
fn before(problem: &Problem, items: &[usize], positions: &HashMap<usize, usize>) -> Vec<Vec<usize>> {
    let predecessors = growth::predecessors(problem);
    let of = |&item: &usize| {
        predecessors[item]
            .iter()
            .map(|before| positions[before])
            .collect()
    };
    items.iter().map(of).collect()
}
