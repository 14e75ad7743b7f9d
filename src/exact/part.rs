//! One part of a problem that has no order with the rest: its ideals, and the stages between them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem;

use petgraph::unionfind::UnionFind;

use super::growth;
use crate::cost::{Side, StageCost};
use crate::problem::Problem;

/// Position of an ideal in [`Part::ideals`].
pub type Ideal = u32;

/// What a stage adds to load, link in and link out, in ns; blocking transfers are part of the load.
pub type Busy = [u64; 3];

/// A part of the items, and all its ideals by growing work: the empty one first, all of the part last.
pub struct Part {
    /// Its items, by position in the problem.
    pub items: Vec<usize>,
    /// Its ideals.
    pub ideals: Vec<Members>,
    /// How ideals grow: each but the empty one, one without one of its items, and that item by position in the part. The
    /// smaller ideal always comes first.
    pub chain: Vec<(Ideal, Ideal, usize)>,
    /// Transfers as far as they lie inside it.
    pub transfers: Vec<Inside>,
}

/// An ideal of a part.
pub struct Members {
    /// Bits of the items, by position in the part.
    pub bits: Box<[u64]>,
    /// Their work in ns.
    pub work_ns: u64,
    /// Transfers between it and the rest of the part, by position in [`Part::transfers`].
    pub crossing: Vec<usize>,
    /// What these add to a load at either end, in ns.
    pub crossing_ns: u64,
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
}

/// Which way a search takes stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// From the last stage: ideals shrink.
    Start,
    /// From the first stage: ideals grow.
    End,
}

/// The items of a stage that lie in one part: what is in one of two ideals alone.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The ideal at its far end.
    pub to: Ideal,
    /// Work in ns.
    pub work_ns: u64,
    /// Work and what is paid for transfers inside the part. Transfers to the other part can only add to it.
    pub busy: Busy,
    /// What its ends of transfers to the other part pay, if all of those are cut.
    pub ends: Busy,
    /// The ns of those transfers.
    pub cut_ns: u64,
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
    /// The part of the problem with these items, in ascending order; `None` if it has more than so many ideals.
    ///
    /// Time and memory O(I (n + t)) for I ideals of n items and t transfers.
    pub fn new(problem: &Problem, items: Vec<usize>, most_ideals: usize) -> Option<Self> {
        let at = positions(&items);
        let words = items.len().div_ceil(64).max(1);
        let before = before(problem, &items, &at);
        let transfers = inside(problem, &at, words);
        let sets = ideals(&before, words, most_ideals)?;
        let work_ns = |item: usize| problem.items[items[item]].work_ns();
        let mut works: Vec<u64> = Vec::with_capacity(sets.len());
        for set in &sets {
            works.push(
                set.grown
                    .map_or(0, |(smaller, item)| works[smaller] + work_ns(item)),
            );
        }
        let size = |set: usize| sets[set].bits.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_cached_key(|&set| (works[set], size(set), set));
        let mut rank = vec![0; sets.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(at, &set)| rank[set] = at as Ideal);
        let chain = |set: usize| {
            let (smaller, item) = sets[set].grown?;
            Some((rank[set], rank[smaller], item))
        };
        let chain = (0..sets.len()).filter_map(chain).collect();
        let mut crossing = crossing(&sets, &transfers, items.len());
        let members = |&set: &usize| Members {
            bits: sets[set].bits.clone(),
            work_ns: works[set],
            crossing_ns: crossing[set].iter().map(|&t| transfers[t].load_ns()).sum(),
            crossing: mem::take(&mut crossing[set]),
        };
        Some(Self {
            ideals: order.iter().map(members).collect(),
            chain,
            items,
            transfers,
        })
    }

    /// Every stage of at most `limit_ns` between an ideal and one further from where the search comes from, by growing
    /// load. `ends` tells what is known of its ends of transfers to the other part.
    pub fn slices(
        &self,
        from: Ideal,
        towards: Towards,
        limit_ns: u64,
        ends: impl Fn(Ideal, Ideal) -> (Busy, u64),
    ) -> Vec<Slice> {
        let is_near = |&to: &Ideal| {
            self.ideals[from as usize]
                .work_ns
                .abs_diff(self.ideals[to as usize].work_ns)
                <= limit_ns
        };
        let mut slices = match towards {
            Towards::Start => {
                let to = (0..=from).rev().take_while(is_near);
                self.slices_to(from, towards, limit_ns, to, ends)
            }
            Towards::End => {
                let to = (from..=self.everything()).take_while(is_near);
                self.slices_to(from, towards, limit_ns, to, ends)
            }
        };
        slices.sort_by_key(|slice| slice.busy[0]);
        slices
    }

    /// Those of these stages that lead to some ideals, in that order.
    pub fn slices_to(
        &self,
        from: Ideal,
        towards: Towards,
        limit_ns: u64,
        to: impl Iterator<Item = Ideal>,
        ends: impl Fn(Ideal, Ideal) -> (Busy, u64),
    ) -> Vec<Slice> {
        let slice = |to: Ideal| {
            let (rest, whole) = match towards {
                Towards::Start => (to, from),
                Towards::End => (from, to),
            };
            let [small, large] = [rest, whole].map(|ideal| &self.ideals[ideal as usize]);
            let work_ns = large.work_ns.checked_sub(small.work_ns)?;
            if work_ns > limit_ns || !is_subset(&small.bits, &large.bits) {
                return None;
            }
            let busy = self.busy(whole, rest);
            let (ends, cut_ns) = ends(whole, rest);
            let slice = Slice {
                to,
                work_ns,
                busy,
                ends,
                cut_ns,
            };
            busy.iter().all(|&ns| ns <= limit_ns).then_some(slice)
        };
        to.filter_map(slice).collect()
    }

    /// What the stage between two ideals adds up to. One stage never costs more than several that hold the same items.
    pub fn busy(&self, whole: Ideal, rest: Ideal) -> Busy {
        let [whole, rest] = [whole, rest].map(|ideal| &self.ideals[ideal as usize]);
        let mut busy = [whole.work_ns - rest.work_ns, 0, 0];
        // What has an end in the stage and another outside crosses the border of one of the two ideals.
        let again = |t: &&usize| whole.crossing.binary_search(t).is_err();
        for &t in whole.crossing.iter().chain(rest.crossing.iter().filter(again)) {
            let transfer = &self.transfers[t];
            let is_here =
                growth::has(&whole.bits, transfer.producer) && !growth::has(&rest.bits, transfer.producer);
            let mut consumers = transfer.consumers.iter().zip(&whole.bits).zip(&rest.bits);
            let side = match is_here {
                true => consumers
                    .any(|((to, whole), rest)| to & !(whole & !rest) != 0)
                    .then_some(Side::Producer),
                false => consumers
                    .any(|((to, whole), rest)| to & whole & !rest != 0)
                    .then_some(Side::Consumer),
            };
            if let Some(side) = side {
                busy = plus(busy, transfer.paid[side as usize]);
            }
        }
        busy
    }

    /// For each ideal, the sum over its items.
    pub fn sums(&self, of_item: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut sums = vec![0; self.ideals.len()];
        for &(ideal, smaller, at) in &self.chain {
            sums[ideal as usize] = sums[smaller as usize] + of_item(self.items[at]);
        }
        sums
    }

    /// The set of its items for which something holds, as bits by position in the part.
    pub fn set(&self, holds: impl Fn(usize) -> bool) -> Box<[u64]> {
        let mut bits = vec![0u64; self.ideals[0].bits.len()];
        for (at, _) in self.items.iter().enumerate().filter(|&(_, &item)| holds(item)) {
            bits[at / 64] |= 1 << (at % 64);
        }
        bits.into()
    }

    /// Work between two ideals, in ns.
    pub fn work_ns(&self, whole: Ideal, rest: Ideal) -> u64 {
        self.ideals[whole as usize].work_ns - self.ideals[rest as usize].work_ns
    }

    /// For each ideal, those with one item more.
    pub fn covers(&self) -> Vec<Vec<Ideal>> {
        let at: HashMap<&[u64], Ideal> = (0..)
            .zip(&self.ideals)
            .map(|(at, ideal)| (&*ideal.bits, at))
            .collect();
        let mut covers = vec![Vec::new(); self.ideals.len()];
        let mut smaller = self.ideals[0].bits.clone();
        for (ideal, members) in (0..).zip(&self.ideals) {
            smaller.copy_from_slice(&members.bits);
            for item in 0..self.items.len() {
                if growth::has(&members.bits, item) {
                    smaller[item / 64] ^= 1 << (item % 64);
                    if let Some(&below) = at.get(&*smaller) {
                        covers[below as usize].push(ideal);
                    }
                    smaller[item / 64] ^= 1 << (item % 64);
                }
            }
        }
        covers
    }

    /// Position of the ideal of everything.
    pub fn everything(&self) -> Ideal {
        (self.ideals.len() - 1) as Ideal
    }
}

/// The number of ideals of some items without order with the rest, in ascending order; `None` if there are more than so many.
fn count_ideals(problem: &Problem, items: &[usize], most: usize) -> Option<usize> {
    let before = before(problem, items, &positions(items));
    Some(ideals(&before, items.len().div_ceil(64), most)?.len())
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
        let mut consumers = vec![0u64; words];
        for to in transfer.consumers.iter().filter_map(|to| at.get(to)) {
            consumers[to / 64] |= 1 << (to % 64);
        }
        let is_inside = consumers.iter().any(|&word| word != 0);
        is_inside.then(|| Inside {
            producer,
            consumers: consumers.into(),
            paid: paid(problem, t),
        })
    };
    (0..problem.transfers.len()).filter_map(of).collect()
}

/// For each set, the transfers between it and the rest of the part, in ascending order.
fn crossing(sets: &[Set], transfers: &[Inside], items: usize) -> Vec<Vec<usize>> {
    let of = |item: usize| {
        let is_end =
            |t: &usize| transfers[*t].producer == item || growth::has(&transfers[*t].consumers, item);
        (0..transfers.len()).filter(is_end).collect()
    };
    let of_item: Vec<Vec<usize>> = (0..items).map(of).collect();
    let mut crossing: Vec<Vec<usize>> = Vec::with_capacity(sets.len());
    for set in sets {
        let crosses = |t: &usize| match growth::has(&set.bits, transfers[*t].producer) {
            true => !is_subset(&transfers[*t].consumers, &set.bits),
            false => meets(&transfers[*t].consumers, &set.bits),
        };
        let of_set = set.grown.map_or_else(Vec::new, |(smaller, item)| {
            // What has no end at the item crosses as before.
            let touched = &of_item[item];
            let before = crossing[smaller].iter().copied();
            let mut of_set: Vec<usize> = before.filter(|t| !touched.contains(t)).collect();
            of_set.extend(touched.iter().copied().filter(crosses));
            of_set.sort_unstable();
            of_set
        });
        crossing.push(of_set);
    }
    crossing
}

/// An ideal as it is made, and the smaller one and the item that it is made of.
struct Set {
    bits: Box<[u64]>,
    grown: Option<(usize, usize)>,
}

/// All ideals of a partial order whose items are numbered topologically, smaller ones first; `None` if there are more than
/// so many.
///
/// Each is made once: added in ascending numbers, the items of an ideal have but one order, and what each start of it holds
/// is an ideal.
fn ideals(before: &[Vec<usize>], words: usize, most: usize) -> Option<Vec<Set>> {
    let mut sets = vec![Set {
        bits: vec![0u64; words].into(),
        grown: None,
    }];
    let mut next = 0;
    while next < sets.len() {
        let from = sets[next].grown.map_or(0, |(_, item)| item + 1);
        for item in from..before.len() {
            let bits = &sets[next].bits;
            if before[item].iter().all(|&before| growth::has(bits, before)) {
                let mut bits = bits.clone();
                bits[item / 64] |= 1 << (item % 64);
                sets.push(Set {
                    bits,
                    grown: Some((next, item)),
                });
            }
        }
        if sets.len() > most {
            return None;
        }
        next += 1;
    }
    Some(sets)
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
