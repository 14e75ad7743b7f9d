//! One part of a problem that has no order with the rest: its ideals, and the stages between them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use petgraph::unionfind::UnionFind;

use crate::cost::{Side, StageCost};
use crate::exact::ideal_pairs::listing::{self, Ranges, Visitor};
use crate::exact::ideals::growth;
use crate::exact::room;
use crate::problem::Problem;

/// Position of an ideal in [`Part::ideals`].
pub type Ideal = u32;

/// What a stage adds to load, link in and link out, in ns; blocking transfers are part of the load.
pub type Busy = [u64; 3];

/// A part of the items, and its ideals by growing work: the empty one first, all of the part last.
pub struct Part {
    /// Its items, by position in the problem.
    pub items: Vec<usize>,
    /// Bits of the items of each ideal, by position in the part, so many words an ideal.
    bits: Vec<u64>,
    words: usize,
    /// Their work in ns.
    works_ns: Vec<u64>,
    /// How ideals grow: each but the empty one, and one with some items less that comes first.
    grown: Vec<[Ideal; 2]>,
    /// Transfers as far as they lie inside it.
    pub transfers: Vec<Inside>,
    /// Bits of the transfers between each ideal and the rest of the part, so many words an ideal.
    crossing: Vec<u64>,
    transfer_words: usize,
    /// What these add to a load at either end, in ns.
    crossing_ns: Vec<u64>,
    /// Bits of the transfers with one consumer that comes behind its producer.
    simple: Box<[u64]>,
    is_partial: bool,
}

/// A transfer as far as it lies inside a part.
pub struct Inside {
    /// Its producer, by position in the part.
    pub producer: usize,
    /// Bits of its consumers in the part.
    pub consumers: Box<[u64]>,
    /// See [`paid`].
    pub paid: [Busy; 2],
}

impl Inside {
    /// What it adds to a load at either end, in ns.
    pub fn load_ns(&self) -> u64 {
        self.paid[0][0].min(self.paid[1][0])
    }

    /// Whether some of its ends lie in a set and some outside.
    fn crosses(&self, bits: &[u64]) -> bool {
        match growth::has(bits, self.producer) {
            true => !is_subset(&self.consumers, bits),
            false => meets(&self.consumers, bits),
        }
    }

    /// The side that the stage between two ideals pays, if it does.
    fn side(&self, whole: &[u64], rest: &[u64]) -> Option<Side> {
        let is_here = growth::has(whole, self.producer) && !growth::has(rest, self.producer);
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

/// Which way a search takes stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// From the last stage: ideals shrink.
    Start,
    /// From the first stage: ideals grow.
    End,
}

/// What each side of a transfer pays.
pub fn paid(problem: &Problem, transfer: usize) -> [Busy; 2] {
    [Side::Producer, Side::Consumer].map(|side| {
        let mut cost = StageCost::default();
        cost.add_transfer(problem.settings.communication, &problem.transfers[transfer], side);
        let both = cost.both();
        [both.communication_ns, both.link_in_ns, both.link_out_ns]
    })
}

/// The sum of two.
pub fn plus(a: Busy, b: Busy) -> Busy {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

impl Part {
    /// The part of the problem with these items, in ascending order, and its ideals, of which only those count whose work is
    /// wanted.
    ///
    /// # Errors
    ///
    /// [`TooMany`] ideals.
    ///
    /// Time O(I t + J) and memory O(I (n + t) / 64) for J ideals of n items and t transfers, I of which count.
    pub fn new(
        problem: &Problem,
        items: Vec<usize>,
        wanted: Option<&Ranges>,
        most_ideals: usize,
    ) -> Result<Self, TooMany> {
        let at = positions(&items);
        let words = items.len().div_ceil(64).max(1);
        let before = before(problem, &items, &at);
        let transfers = inside(problem, &at, words);
        let simple = |transfer: &Inside| {
            let mut consumers = listing::ones(transfer.consumers.iter().copied());
            let first = consumers.next();
            consumers.next().is_none() && first.is_some_and(|to| precedes(&before, transfer.producer, to))
        };
        let is_simple: Vec<bool> = transfers.iter().map(simple).collect();
        // Sets of items and transfers, once as they are met, once sorted, and while they grow.
        let bytes_of_an_ideal = 4 * 8 * (words + transfers.len().div_ceil(64)) + 64;
        let most_ideals = most_ideals.min(room::bytes() / bytes_of_an_ideal);
        let mut lister = Lister::new(problem, &items, &transfers, &is_simple, wanted, most_ideals);
        if !listing::walk(&before, &mut lister) {
            return Err(match lister.listed.works_ns.len() > most_ideals {
                true => TooMany::Listed,
                false => TooMany::Met,
            });
        }
        let Listed {
            bits,
            works_ns,
            grown,
            crossing,
        } = lister.listed;
        let transfer_words = transfers.len().div_ceil(64);
        let row = |of: &[u64], words: usize, at: usize| of[at * words..][..words].to_vec();
        let size = |at: usize| {
            row(&bits, words, at)
                .iter()
                .map(|word| word.count_ones())
                .sum::<u32>()
        };
        let mut order: Vec<usize> = (0..works_ns.len()).collect();
        order.sort_by_cached_key(|&at| (works_ns[at], size(at), at));
        let mut rank = vec![0; order.len()];
        (0..).zip(&order).for_each(|(ideal, &at)| rank[at] = ideal);
        let rows = |of: &[u64], words: usize| order.iter().flat_map(|&at| row(of, words, at)).collect();
        let mut part = Self {
            bits: rows(&bits, words),
            words,
            works_ns: order.iter().map(|&at| works_ns[at]).collect(),
            grown: grown
                .iter()
                .map(|ends| ends.map(|at| rank[at as usize]))
                .collect(),
            crossing: rows(&crossing, transfer_words),
            transfer_words,
            crossing_ns: Vec::new(),
            simple: listing::set(transfer_words, (0..is_simple.len()).filter(|&t| is_simple[t])),
            is_partial: wanted.is_some(),
            items,
            transfers,
        };
        let load_ns = |ideal| part.crossing_both_ns(ideal, ideal);
        part.crossing_ns = (0..part.len() as Ideal).map(load_ns).collect();
        Ok(part)
    }

    /// Whether only ideals are listed that count for some limit.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The number of its ideals.
    pub fn len(&self) -> usize {
        self.works_ns.len()
    }

    /// Bits of the items of an ideal, by position in the part.
    pub fn bits(&self, ideal: Ideal) -> &[u64] {
        &self.bits[ideal as usize * self.words..][..self.words]
    }

    /// The transfers between an ideal and the rest of the part, by position in [`Part::transfers`].
    pub fn crossing(&self, ideal: Ideal) -> impl Iterator<Item = usize> {
        listing::ones(self.crossing_bits(ideal).iter().copied())
    }

    /// The same as bits.
    pub fn crossing_bits(&self, ideal: Ideal) -> &[u64] {
        &self.crossing[ideal as usize * self.transfer_words..][..self.transfer_words]
    }

    /// What these transfers add to a load at either end, in ns.
    pub fn crossing_ns(&self, ideal: Ideal) -> u64 {
        self.crossing_ns[ideal as usize]
    }

    /// The same for those that cross behind both of two ideals.
    pub fn crossing_both_ns(&self, one: Ideal, other: Ideal) -> u64 {
        let words = self.crossing_bits(one).iter().zip(self.crossing_bits(other));
        let both = listing::ones(words.map(|(one, other)| one & other));
        both.map(|t| self.transfers[t].load_ns()).sum()
    }

    /// The ideals whose work lies within limits.
    pub fn of_work(&self, within_ns: RangeInclusive<u64>) -> Range<Ideal> {
        let from = self.works_ns.partition_point(|ns| ns < within_ns.start());
        let to = self.works_ns.partition_point(|ns| ns <= within_ns.end());
        from as Ideal..to as Ideal
    }

    /// Whether one ideal lies in another.
    pub fn are_nested(&self, from: Ideal, towards: Towards, to: Ideal) -> bool {
        let [from, to] = [from, to].map(|ideal| self.bits(ideal));
        match towards {
            Towards::Start => is_subset(to, from),
            Towards::End => is_subset(from, to),
        }
    }

    /// Those of some ideals that lie in an ideal, or that it lies in.
    pub fn nested(&self, from: Ideal, towards: Towards, to: impl Iterator<Item = Ideal>) -> Vec<Ideal> {
        let own = self.bits(from);
        match towards {
            Towards::Start => to.filter(|&to| is_subset(self.bits(to), own)).collect(),
            Towards::End => to.filter(|&to| is_subset(own, self.bits(to))).collect(),
        }
    }

    /// What the stage between two ideals adds up to. One stage never costs more than several that hold the same items.
    pub fn busy(&self, whole: Ideal, rest: Ideal) -> Busy {
        let mut busy = [self.work_ns(whole, rest), 0, 0];
        let words = self.crossing_bits(whole).iter().zip(self.crossing_bits(rest));
        for (word, ((whole_crosses, rest_crosses), simple)) in words.zip(&self.simple).enumerate() {
            // What has an end in the stage and another outside crosses the border of one of the two ideals; with one consumer
            // behind it, of one alone, and then its producer lies in the smaller one if it crosses there.
            let mut pay = |bits: u64, side: Side| {
                for t in listing::ones([bits]) {
                    busy = plus(busy, self.transfers[word * 64 + t].paid[side as usize]);
                }
            };
            pay(whole_crosses & !rest_crosses & simple, Side::Producer);
            pay(rest_crosses & !whole_crosses & simple, Side::Consumer);
            for t in listing::ones([(whole_crosses | rest_crosses) & !simple]) {
                let transfer = &self.transfers[word * 64 + t];
                if let Some(side) = transfer.side(self.bits(whole), self.bits(rest)) {
                    busy = plus(busy, transfer.paid[side as usize]);
                }
            }
        }
        busy
    }

    /// For each ideal, the sum over its items.
    pub fn sums<T: Copy + Default>(&self, of_item: impl Fn(usize) -> T, plus: impl Fn(T, T) -> T) -> Vec<T> {
        let mut sums = vec![T::default(); self.len()];
        for &[ideal, smaller] in &self.grown {
            let sum = self
                .between(ideal, smaller)
                .fold(sums[smaller as usize], |sum, at| plus(sum, of_item(at)));
            sums[ideal as usize] = sum;
        }
        sums
    }

    /// For each ideal, bits that its items set, so many words an ideal.
    pub fn unions(&self, words: usize, of_item: &[Vec<usize>]) -> Vec<u64> {
        let mut unions = vec![0; self.len() * words];
        for &[ideal, smaller] in &self.grown {
            let [at, smaller_at] = [ideal, smaller].map(|ideal| ideal as usize * words);
            unions.copy_within(smaller_at..smaller_at + words, at);
            let bits = self.between(ideal, smaller).flat_map(|item| &of_item[item]);
            bits.for_each(|bit| unions[at + bit / 64] |= 1 << (bit % 64));
        }
        unions
    }

    /// The items between two ideals, by position in the part.
    pub fn between(&self, whole: Ideal, rest: Ideal) -> impl Iterator<Item = usize> {
        let words = self.bits(whole).iter().zip(self.bits(rest));
        listing::ones(words.map(|(whole, rest)| whole & !rest))
    }

    /// The set of its items for which something holds, as bits by position in the part.
    pub fn set(&self, holds: impl Fn(usize) -> bool) -> Box<[u64]> {
        let of_items = (0..self.items.len()).filter(|&at| holds(self.items[at]));
        listing::set(self.words, of_items)
    }

    /// Work between two ideals, in ns.
    pub fn work_ns(&self, whole: Ideal, rest: Ideal) -> u64 {
        self.works_ns[whole as usize] - self.works_ns[rest as usize]
    }

    /// Whether two ideals differ by just this item.
    pub fn differ_by(&self, one: Ideal, other: Ideal, item: usize) -> bool {
        let words = self.bits(one).iter().zip(self.bits(other)).enumerate();
        let bit = |word: usize| u64::from(word == item / 64) << (item % 64);
        words
            .map(|(word, (a, b))| a ^ b ^ bit(word))
            .all(|rest| rest == 0)
    }

    /// Position of the ideal of everything.
    pub fn everything(&self) -> Ideal {
        (self.len() - 1) as Ideal
    }
}

/// The number of ideals of some items without order with the rest, in ascending order; `None` if there are more than so many.
pub fn count_ideals(problem: &Problem, items: &[usize], most: usize) -> Option<usize> {
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
    let before = before(problem, items, &positions(items));
    listing::walk(&before, &mut count).then_some(count.ideals)
}

/// The position of each item.
fn positions(items: &[usize]) -> HashMap<usize, usize> {
    items.iter().enumerate().map(|(at, &item)| (item, at)).collect()
}

/// For each item of a part its predecessors, all by position.
fn before(problem: &Problem, items: &[usize], at: &HashMap<usize, usize>) -> Vec<Vec<usize>> {
    let predecessors = growth::predecessors(problem);
    let of = |&item: &usize| predecessors[item].iter().map(|before| at[before]).collect();
    items.iter().map(of).collect()
}

/// Whether all of one set is in another.
pub fn is_subset(small: &[u64], large: &[u64]) -> bool {
    small.iter().zip(large).all(|(small, large)| small & !large == 0)
}

/// Whether two sets have something in common.
pub fn meets(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).any(|(one, other)| one & other != 0)
}

/// Transfers as the part sees them: from a producer in it to consumers in it, whoever else consumes them.
fn inside(problem: &Problem, at: &HashMap<usize, usize>, words: usize) -> Vec<Inside> {
    let of = |t: usize| {
        let transfer = &problem.transfers[t];
        let producer = *at.get(&transfer.producer)?;
        let consumers = listing::set(
            words,
            transfer.consumers.iter().filter_map(|to| at.get(to).copied()),
        );
        let is_inside = consumers.iter().any(|&word| word != 0);
        is_inside.then(|| Inside {
            producer,
            consumers,
            paid: paid(problem, t),
        })
    };
    (0..problem.transfers.len()).filter_map(of).collect()
}

/// Whether one item comes directly before another.
fn precedes(before: &[Vec<usize>], one: usize, other: usize) -> bool {
    before[other].contains(&one)
}

/// Ideals as they are listed: the columns of a [`Part`] in another order.
struct Listed {
    bits: Vec<u64>,
    works_ns: Vec<u64>,
    grown: Vec<[Ideal; 2]>,
    crossing: Vec<u64>,
}

/// Why ideals are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// More count than may be listed.
    Listed,
    /// Whatever counts, it takes too long to meet all.
    Met,
}

/// Ideals that are met for each one that may be listed, at most.
const MET: usize = 32;

/// Lists ideals.
struct Lister<'a> {
    /// The work of each item.
    of_item_ns: Vec<u64>,
    /// For each item, bits of the simple transfers with an end there, so many words an item: each changes whether they cross.
    flips: Vec<u64>,
    /// The others.
    others: Vec<(usize, &'a Inside)>,
    wanted: Option<&'a Ranges>,
    most: usize,
    met: usize,
    /// Of the ideal met last.
    work_ns: u64,
    crossing: Vec<u64>,
    /// The last listed one on the way to each ideal that holds fewer items, the empty one first, and to itself.
    way: Vec<Ideal>,
    listed: Listed,
}

impl<'a> Lister<'a> {
    fn new(
        problem: &Problem,
        items: &[usize],
        transfers: &'a [Inside],
        is_simple: &[bool],
        wanted: Option<&'a Ranges>,
        most: usize,
    ) -> Self {
        let words = transfers.len().div_ceil(64);
        let mut flips = vec![0; items.len() * words];
        let mut others = Vec::new();
        for (t, transfer) in transfers.iter().enumerate() {
            let consumers = listing::ones(transfer.consumers.iter().copied());
            match is_simple[t] {
                true => consumers
                    .chain([transfer.producer])
                    .for_each(|end| flips[end * words + t / 64] ^= 1 << (t % 64)),
                false => others.push((t, transfer)),
            }
        }
        Self {
            of_item_ns: items.iter().map(|&item| problem.items[item].work_ns()).collect(),
            flips,
            others,
            wanted,
            most,
            met: 1,
            work_ns: 0,
            crossing: vec![0; words],
            way: vec![0],
            listed: Listed {
                bits: vec![0; items.len().div_ceil(64).max(1)],
                works_ns: vec![0],
                grown: Vec::new(),
                crossing: vec![0; words],
            },
        }
    }

    fn flip(&mut self, item: usize) {
        let words = self.crossing.len();
        let flips = &self.flips[item * words..][..words];
        self.crossing
            .iter_mut()
            .zip(flips)
            .for_each(|(bits, flips)| *bits ^= flips);
    }

    fn list(&mut self, bits: &[u64]) -> Ideal {
        let Listed {
            bits: all_bits,
            works_ns,
            grown,
            crossing,
        } = &mut self.listed;
        let ideal = works_ns.len() as Ideal;
        let smaller = self.way.last().copied().unwrap_or_default();
        all_bits.extend(bits);
        works_ns.push(self.work_ns);
        grown.push([ideal, smaller]);
        let at = crossing.len();
        crossing.extend(&self.crossing);
        for (t, _) in self.others.iter().filter(|(_, transfer)| transfer.crosses(bits)) {
            crossing[at + t / 64] |= 1 << (t % 64);
        }
        ideal
    }
}

impl Visitor for Lister<'_> {
    fn enter(&mut self, item: usize, bits: &[u64]) -> bool {
        self.met += 1;
        self.work_ns += self.of_item_ns[item];
        self.flip(item);
        let is_all = self.way.len() == self.of_item_ns.len();
        let is_wanted = self
            .wanted
            .is_none_or(|wanted| is_all || wanted.contains(self.work_ns));
        let last = match is_wanted {
            true => self.list(bits),
            false => self.way.last().copied().unwrap_or_default(),
        };
        self.way.push(last);
        self.listed.works_ns.len() <= self.most && self.met / MET <= self.most
    }

    fn leave(&mut self, item: usize) {
        self.work_ns -= self.of_item_ns[item];
        self.flip(item);
        self.way.pop();
    }
}

/// The items in two parts without order between them, each made of whole components, with about as many ideals each; `None`
/// if there is but one component, or one has more than so many ideals.
pub fn in_two(problem: &Problem, most_ideals: usize) -> Option<[Vec<usize>; 2]> {
    let n = problem.items.len();
    let mut joined = UnionFind::new(n);
    for edge in problem.order.edge_indices() {
        if let Some((u, v)) = problem.order.edge_endpoints(edge) {
            joined.union(u.index(), v.index());
        }
    }
    let mut components = vec![Vec::new(); n];
    (0..n).for_each(|item| components[joined.find(item)].push(item));
    components.retain(|items| !items.is_empty());
    if let [first, second] = &components[..] {
        return Some([first.clone(), second.clone()]);
    }
    let mut counted = Vec::new();
    for items in components {
        counted.push((count_ideals(problem, &items, most_ideals)?, items));
    }
    counted.sort_by_key(|(ideals, items)| (Reverse(*ideals), items[0]));
    let mut parts = [(1.0, Vec::new()), (1.0, Vec::new())];
    for (ideals, items) in counted {
        let part = &mut parts[usize::from(parts[1].0 < parts[0].0)];
        part.0 *= ideals as f64;
        part.1.extend(items);
    }
    let [first, second] = parts.map(|(_, mut items)| {
        items.sort_unstable();
        items
    });
    (!second.is_empty()).then_some([first, second])
}
