//! Transfers between two parts of a problem, as dynamic programs over pairs of their ideals see them.

use std::cell::{Cell, OnceCell};

use super::growth::has;
use super::part::{Busy, Ideal, Part, paid, plus};
use crate::cost::Side;
use crate::options::Communication;
use crate::problem::Problem;

/// Entries beyond which a row of the table takes longer to make than it saves.
const MOST_OF_A_ROW: usize = 1 << 16;

/// Most entries of all rows: a GiB.
const MOST_OF_THE_TABLE: usize = 1 << 27;

/// What lies between the ideals `left` and `whole` of two parts.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// The larger ideals.
    pub whole: [Ideal; 2],
    /// The smaller ideals.
    pub left: [Ideal; 2],
}

/// What stages pay for transfers between two parts.
pub struct Cross {
    /// For each part and ideal, what its ends of all transfers with one consumer would pay, and the ns of those transfers.
    ends: [Vec<(Busy, u64)>; 2],
    /// For each pair of ideals, the ns of the transfers with one consumer that have both ends in it: a row for each ideal of
    /// the first part, made when first asked for.
    both: Vec<OnceCell<Box<[u64]>>>,
    /// For each item of the first part, ends of such transfers in the second, with their ns.
    by_end: Vec<Vec<(usize, u64)>>,
    /// Entries of all rows so far.
    held: Cell<usize>,
    /// See [`Cross::saved`].
    saved: Busy,
    /// Transfers with more consumers.
    wide: Vec<Wide>,
}

/// A transfer with consumers in the other part, and further ones anywhere.
struct Wide {
    part: usize,
    producer: usize,
    /// Consumers in the producer's part, and in the other.
    consumers: [Box<[u64]>; 2],
    paid: [Busy; 2],
}

/// A transfer with its one consumer in the other part: its ends by part.
struct Narrow {
    ends: [usize; 2],
    paid: [Busy; 2],
    total_ns: u64,
}

impl Cross {
    /// Time and memory O((I + J) t) for I and J ideals and t transfers, and O(J) for each row of the table that is asked for.
    pub fn new(problem: &Problem, parts: &[Part; 2]) -> Self {
        let place = |item: usize| {
            let at = |p: usize| parts[p].items.binary_search(&item).ok().map(|at| (p, at));
            at(0).or_else(|| at(1)).unwrap_or_default()
        };
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        for (t, transfer) in problem.transfers.iter().enumerate() {
            let (part, producer) = place(transfer.producer);
            let consumers: Vec<(usize, usize)> = transfer.consumers.iter().map(|&to| place(to)).collect();
            match consumers[..] {
                [(other, consumer)] if other != part => {
                    let ordered =
                        |mine: usize, others: usize| if part == 0 { [mine, others] } else { [others, mine] };
                    let [at_producer, at_consumer] = paid(problem, t);
                    let paid = if part == 0 {
                        [at_producer, at_consumer]
                    } else {
                        [at_consumer, at_producer]
                    };
                    narrow.push(Narrow {
                        ends: ordered(producer, consumer),
                        paid,
                        total_ns: transfer.total_ns(),
                    });
                }
                _ if consumers.iter().all(|&(other, _)| other == part) => {}
                _ => wide.push(Wide {
                    part,
                    producer,
                    consumers: [part, 1 - part].map(|p| bits(&consumers, p, parts[p].items.len())),
                    paid: paid(problem, t),
                }),
            }
        }
        let saved = match problem.settings.communication {
            _ if narrow.is_empty() => [0, 0, 0],
            Communication::Ignored => [0, 0, 0],
            Communication::Blocking => [2, 0, 0],
            Communication::Overlapped => [0, 1, 1],
        };
        let mut by_end = vec![Vec::new(); parts[0].items.len()];
        for t in &narrow {
            by_end[t.ends[0]].push((t.ends[1], t.total_ns));
        }
        let rows = if narrow.is_empty() {
            0
        } else {
            parts[0].ideals.len()
        };
        Self {
            ends: [0, 1].map(|p| ends(&parts[p], &narrow, p)),
            both: vec![OnceCell::new(); rows],
            by_end,
            held: Cell::new(0),
            saved,
            wide,
        }
    }

    /// Whether there are no such transfers.
    pub fn is_empty(&self) -> bool {
        self.both.is_empty() && self.wide.is_empty()
    }

    /// What a stage between ideals pays for transfers between the parts.
    pub fn busy(&self, parts: &[Part; 2], between: Between) -> Busy {
        let [(first, _), (second, _)] = [0, 1].map(|p| self.ends(p, between.whole[p], between.left[p]));
        self.busy_with(plus(first, second), parts, between)
    }

    /// The same if it is known what its [`Cross::ends`] add up to.
    pub fn busy_with(&self, ends: Busy, parts: &[Part; 2], between: Between) -> Busy {
        let mut busy = ends;
        if !self.both.is_empty() {
            let Between { whole, left } = between;
            let rows = [whole[0], left[0]].map(|first| self.row(parts, first));
            let [whole, left] = [whole[1] as usize, left[1] as usize];
            let together = match rows {
                [Some(of_whole), Some(of_left)] => {
                    of_whole[whole] + of_left[left] - of_whole[left] - of_left[whole]
                }
                _ => self.counted(parts, between),
            };
            (0..3).for_each(|r| busy[r] -= self.saved[r] * together);
        }
        for wide in &self.wide {
            if let Some(side) = wide.side(parts, between) {
                busy = plus(busy, wide.paid[side as usize]);
            }
        }
        busy
    }

    /// What the ends in the stage between two ideals of a part pay if their transfers are all cut, and the ns of those
    /// transfers. Transfers with more consumers are left out.
    pub fn ends(&self, part: usize, whole: Ideal, left: Ideal) -> (Busy, u64) {
        let [whole, left] = [whole, left].map(|ideal| self.ends[part][ideal as usize]);
        let busy = [0, 1, 2].map(|r| whole.0[r] - left.0[r]);
        (busy, whole.1 - left.1)
    }

    /// What a stage saves in load, link in and link out for each ns of transfers that stay in it, against paying at both
    /// ends; nothing where no transfer has its one consumer in the other part.
    pub fn saved(&self) -> Busy {
        self.saved
    }

    /// For an ideal of the first part and each of the second, the ns of transfers with both ends in them; none where the
    /// table has no room for it.
    fn row(&self, parts: &[Part; 2], first: Ideal) -> Option<&[u64]> {
        let row = &self.both[first as usize];
        let entries = parts[1].ideals.len();
        let has_room = entries <= MOST_OF_A_ROW && self.held.get() + entries <= MOST_OF_THE_TABLE;
        if row.get().is_none() && !has_room {
            return None;
        }
        Some(row.get_or_init(|| {
            let mut of_item = vec![0; parts[1].items.len()];
            let ends = |&at: &usize| has(&parts[0].ideals[first as usize].bits, at);
            for at in (0..parts[0].items.len()).filter(ends) {
                self.by_end[at].iter().for_each(|&(end, ns)| of_item[end] += ns);
            }
            let mut row = vec![0; entries];
            for &(ideal, smaller, item) in &parts[1].chain {
                row[ideal as usize] = row[smaller as usize] + of_item[item];
            }
            self.held.set(self.held.get() + entries);
            row.into()
        }))
    }

    /// The ns of transfers with both ends between ideals, without the table.
    fn counted(&self, parts: &[Part; 2], between: Between) -> u64 {
        let is_inside = |p: usize, at: usize| {
            let holds = |ideal: Ideal| has(&parts[p].ideals[ideal as usize].bits, at);
            holds(between.whole[p]) && !holds(between.left[p])
        };
        let ends = self.by_end.iter().enumerate();
        ends.filter(|(at, ends)| !ends.is_empty() && is_inside(0, *at))
            .flat_map(|(_, ends)| ends)
            .filter(|(end, _)| is_inside(1, *end))
            .map(|(_, ns)| ns)
            .sum()
    }
}

impl Wide {
    /// The side that the stage between ideals pays because of consumers in the other part, beyond what it pays because of
    /// those in the producer's.
    fn side(&self, parts: &[Part; 2], between: Between) -> Option<Side> {
        let words = |p: usize| {
            let of = |ideal: Ideal| parts[p].ideals[ideal as usize].bits.iter();
            of(between.whole[p])
                .zip(of(between.left[p]))
                .map(|(whole, left)| whole & !left)
        };
        let (own, other) = (self.part, 1 - self.part);
        let has_some = |p: usize, to: &[u64]| words(p).zip(to).any(|(stage, to)| stage & to != 0);
        let has_all = |p: usize, to: &[u64]| words(p).zip(to).all(|(stage, to)| to & !stage == 0);
        let [near, far] = &self.consumers;
        let whole = &parts[own].ideals[between.whole[own] as usize].bits;
        let left = &parts[own].ideals[between.left[own] as usize].bits;
        let is_home = has(whole, self.producer) && !has(left, self.producer);
        match is_home {
            true => (has_all(own, near) && !has_all(other, far)).then_some(Side::Producer),
            false => (!has_some(own, near) && has_some(other, far)).then_some(Side::Consumer),
        }
    }
}

fn bits(consumers: &[(usize, usize)], part: usize, items: usize) -> Box<[u64]> {
    let mut bits = vec![0u64; items.div_ceil(64).max(1)];
    for &(_, at) in consumers.iter().filter(|&&(p, _)| p == part) {
        bits[at / 64] |= 1 << (at % 64);
    }
    bits.into()
}

/// What the ends in one part pay, for each ideal, and the ns of their transfers.
fn ends(part: &Part, narrow: &[Narrow], p: usize) -> Vec<(Busy, u64)> {
    let with = |(busy, ns): (Busy, u64), (more, more_ns): (Busy, u64)| (plus(busy, more), ns + more_ns);
    let mut of_item = vec![([0; 3], 0); part.items.len()];
    for t in narrow {
        of_item[t.ends[p]] = with(of_item[t.ends[p]], (t.paid[p], t.total_ns));
    }
    let mut sums = vec![([0; 3], 0); part.ideals.len()];
    for &(ideal, smaller, item) in &part.chain {
        sums[ideal as usize] = with(sums[smaller as usize], of_item[item]);
    }
    sums
}
