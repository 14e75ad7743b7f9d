//! Lists the ideals of a component with their work and the transfers that cross behind them.

use crate::exact::bits;
use crate::exact::components::enumerate::{self, Visitor};
use crate::exact::components::ideal::Ideal;
use crate::exact::components::inner::InnerTransfer;
use crate::exact::components::ranges::RangeUnion;
use crate::exact::tuning::TUNING;

/// The items of a component as far as listing their ideals takes, by position in the component.
pub(crate) struct Items<'a> {
    /// The work of each, in ns.
    pub works_ns: Vec<u64>,
    /// Those directly before each.
    pub before: &'a [Vec<usize>],
    /// The transfers between them.
    pub transfers: &'a [InnerTransfer],
}

/// Ideals by growing work, the empty one first and all of the component last.
pub(crate) struct IdealTable {
    /// Bits of the items of each ideal, so many words an ideal.
    pub members: Vec<u64>,
    pub words: usize,
    /// Their work in ns.
    pub works_ns: Vec<u64>,
    /// Each but the empty ideal, and one with some items less that comes first.
    pub grown: Vec<[Ideal; 2]>,
    /// Bits of the transfers between each ideal and the rest of the component, so many words an ideal.
    pub crossing: Vec<u64>,
    pub transfer_words: usize,
}

/// Why ideals are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// More are relevant than may be listed.
    Listed,
    /// However few are relevant, it takes too long to visit all.
    Visited,
}

impl IdealTable {
    /// Those ideals whose work lies in the ranges, or all.
    ///
    /// # Errors
    ///
    /// [`TooMany`] of them.
    pub(crate) fn new(items: &Items, relevant_ns: Option<&RangeUnion>, most: usize) -> Result<Self, TooMany> {
        let mut lister = Lister::new(items, relevant_ns, most);
        if enumerate::walk(items.before, &mut lister) {
            return Ok(lister.table.sorted());
        }
        Err(match lister.table.works_ns.len() > most {
            true => TooMany::Listed,
            false => TooMany::Visited,
        })
    }

    /// The same by growing work, then by number of items.
    fn sorted(self) -> Self {
        let members = |at: usize| &self.members[at * self.words..][..self.words];
        let size = |at: usize| members(at).iter().map(|word| word.count_ones()).sum::<u32>();
        let mut order: Vec<usize> = (0..self.works_ns.len()).collect();
        order.sort_by_cached_key(|&at| (self.works_ns[at], size(at), at));
        let mut rank = vec![0; order.len()];
        (0..).zip(&order).for_each(|(ideal, &at)| rank[at] = ideal);
        let rows = |of: &[u64], words: usize| {
            let row = |&at: &usize| of[at * words..][..words].iter().copied();
            order.iter().flat_map(row).collect()
        };
        Self {
            members: rows(&self.members, self.words),
            works_ns: order.iter().map(|&at| self.works_ns[at]).collect(),
            grown: self
                .grown
                .iter()
                .map(|ends| ends.map(|at| rank[at as usize]))
                .collect(),
            crossing: rows(&self.crossing, self.transfer_words),
            ..self
        }
    }
}

/// The number of ideals of some items, those directly before each given by position; `None` if there are more than so many.
pub(crate) fn count(before: &[Vec<usize>], most: usize) -> Option<usize> {
    struct Count {
        ideals: usize,
        most: usize,
    }
    impl Visitor for Count {
        fn enter(&mut self, _: usize, _: &[u64]) -> bool {
            self.ideals += 1;
            self.ideals <= self.most
        }
        fn leave(&mut self, _: usize) {}
    }
    let mut count = Count { ideals: 1, most };
    enumerate::walk(before, &mut count).then_some(count.ideals)
}

/// Lists ideals in the order in which they are visited.
struct Lister<'a> {
    items: &'a Items<'a>,
    /// For each item, bits of the ordered transfers with one consumer that have an end there, so many words an item: as it joins or
    /// leaves, each of them begins or ceases to cross.
    toggled: Vec<u64>,
    /// The other transfers.
    others: Vec<(usize, &'a InnerTransfer)>,
    relevant_ns: Option<&'a RangeUnion>,
    most: usize,
    visited: usize,
    /// Of the ideal visited last.
    work_ns: u64,
    crossing: Vec<u64>,
    /// For each ideal on the way from the empty one to the one in hand, the largest listed one on the way there, itself included.
    listed_on_way: Vec<Ideal>,
    table: IdealTable,
}

impl<'a> Lister<'a> {
    fn new(items: &'a Items<'a>, relevant_ns: Option<&'a RangeUnion>, most: usize) -> Self {
        let n = items.works_ns.len();
        let transfer_words = bits::words(items.transfers.len());
        let mut toggled = vec![0; n * transfer_words];
        let mut others = Vec::new();
        for (t, transfer) in items.transfers.iter().enumerate() {
            if transfer.is_ordered_unicast {
                for end in transfer.ends() {
                    bits::toggle(&mut toggled[end * transfer_words..], t);
                }
            } else {
                others.push((t, transfer));
            }
        }
        let words = bits::words(n).max(1);
        Self {
            items,
            toggled,
            others,
            relevant_ns,
            most,
            visited: 1,
            work_ns: 0,
            crossing: vec![0; transfer_words],
            listed_on_way: vec![0],
            table: IdealTable {
                members: vec![0; words],
                words,
                works_ns: vec![0],
                grown: Vec::new(),
                crossing: vec![0; transfer_words],
                transfer_words,
            },
        }
    }

    fn toggle_crossing(&mut self, item: usize) {
        let words = self.table.transfer_words;
        let toggled = &self.toggled[item * words..][..words];
        let crossing = self.crossing.iter_mut().zip(toggled);
        crossing.for_each(|(word, toggled)| *word ^= toggled);
    }

    fn last_listed(&self) -> Ideal {
        self.listed_on_way.last().copied().unwrap_or_default()
    }

    fn list(&mut self, members: &[u64]) -> Ideal {
        let smaller = self.last_listed();
        let table = &mut self.table;
        let ideal = table.works_ns.len() as Ideal;
        table.members.extend(members);
        table.works_ns.push(self.work_ns);
        table.grown.push([ideal, smaller]);
        let from = table.crossing.len();
        table.crossing.extend(&self.crossing);
        let others = self
            .others
            .iter()
            .filter(|(_, transfer)| transfer.crosses(members));
        others.for_each(|&(t, _)| bits::insert(&mut table.crossing[from..], t));
        ideal
    }
}

impl Visitor for Lister<'_> {
    fn enter(&mut self, item: usize, ideal: &[u64]) -> bool {
        self.visited += 1;
        self.work_ns += self.items.works_ns[item];
        self.toggle_crossing(item);
        let is_all = self.listed_on_way.len() == self.items.works_ns.len();
        let is_relevant = self
            .relevant_ns
            .is_none_or(|relevant| is_all || relevant.contains(self.work_ns));
        let last = match is_relevant {
            true => self.list(ideal),
            false => self.last_listed(),
        };
        self.listed_on_way.push(last);
        self.table.works_ns.len() <= self.most && self.visited / TUNING.visits_per_listed_ideal <= self.most
    }

    fn leave(&mut self, item: usize) {
        self.work_ns -= self.items.works_ns[item];
        self.toggle_crossing(item);
        self.listed_on_way.pop();
    }
}
