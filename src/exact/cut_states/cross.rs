//! Transfers between two parts of a problem, as dynamic programs over pairs of their ideals see them.

use crate::cost::Side;
use crate::exact::ideal_pairs::listing;
use crate::exact::ideal_pairs::part::{Busy, Ideal, Part, Towards, paid, plus};
use crate::exact::ideals::growth::has;
use crate::options::Communication;
use crate::problem::Problem;

/// What lies between the ideals `left` and `whole` of two parts.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// The larger ideals.
    pub whole: [Ideal; 2],
    /// The smaller ideals.
    pub left: [Ideal; 2],
}

impl Between {
    /// The stage between two pairs of ideals.
    pub fn new(towards: Towards, from: [Ideal; 2], to: [Ideal; 2]) -> Self {
        let [whole, left] = match towards {
            Towards::Start => [from, to],
            Towards::End => [to, from],
        };
        Self { whole, left }
    }
}

/// What stages pay for transfers between two parts.
pub struct Cross {
    /// For each part and ideal, what its ends of all transfers with one consumer would pay, and the ns of those transfers.
    ends: [Vec<(Busy, u64)>; 2],
    /// Transfers with their one consumer in the other part.
    pub narrow: Vec<Narrow>,
    /// Bits of those, so many words a set.
    words: usize,
    /// For each part and ideal, those with their end there in it.
    held: [Vec<u64>; 2],
    /// For each eight of them and each set of these, their ns.
    sums_ns: Vec<[u64; 256]>,
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
pub struct Narrow {
    /// Its ends, by position in each part.
    pub ends: [usize; 2],
    paid: [Busy; 2],
    /// What it takes.
    pub total_ns: u64,
}

impl Cross {
    /// Time and memory O((I + J) t) for I and J ideals and t transfers.
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
                    consumers: [part, 1 - part].map(|p| {
                        let there = consumers.iter().filter(|&&(other, _)| other == p);
                        let words = parts[p].items.len().div_ceil(64).max(1);
                        listing::set(words, there.map(|&(_, at)| at))
                    }),
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
        let words = narrow.len().div_ceil(64);
        let totals_ns: Vec<u64> = narrow.iter().map(|transfer| transfer.total_ns).collect();
        Self {
            ends: [0, 1].map(|p| ends(&parts[p], &narrow, p)),
            words,
            held: [0, 1].map(|p| held(&parts[p], &narrow, p, words)),
            sums_ns: totals_ns.chunks(8).map(|ns| sums(ns, |a, b| a + b)).collect(),
            narrow,
            saved,
            wide,
        }
    }

    /// Whether there are no such transfers.
    pub fn is_empty(&self) -> bool {
        self.words == 0 && self.wide.is_empty()
    }

    /// What a stage between ideals pays for transfers between the parts.
    pub fn busy(&self, parts: &[Part; 2], between: Between) -> Busy {
        let Between { whole, left } = between;
        let [first, second] = [0, 1].map(|p| self.ends(p, whole[p], left[p]).0);
        self.busy_with(plus(first, second), parts, between)
    }

    /// The same if it is known what its [`Cross::ends`] add up to.
    pub fn busy_with(&self, ends: Busy, parts: &[Part; 2], between: Between) -> Busy {
        let together_ns = self.together_ns(between);
        let mut busy = [0, 1, 2].map(|r| ends[r] - self.saved[r] * together_ns);
        for wide in &self.wide {
            if let Some(side) = wide.side(parts, between) {
                busy = plus(busy, wide.paid[side as usize]);
            }
        }
        busy
    }

    /// The ns of the transfers with one consumer that have both ends in a stage.
    fn together_ns(&self, Between { whole, left }: Between) -> u64 {
        let held = |p: usize| {
            self.held(p, whole[p])
                .zip(self.held(p, left[p]))
                .map(|(whole, left)| whole & !left)
        };
        let words = held(0).zip(held(1)).zip(self.sums_ns.chunks(8));
        words.map(|((a, b), sums_ns)| sum_ns(a & b, sums_ns)).sum()
    }

    /// Bits of the transfers with one consumer that have their end in an ideal.
    pub fn held(&self, p: usize, ideal: Ideal) -> impl Iterator<Item = u64> {
        self.held[p][ideal as usize * self.words..]
            .iter()
            .copied()
            .take(self.words)
    }

    /// Bits of the transfers with one consumer that have one end in a pair of ideals and one outside.
    pub fn apart(&self, pair: [Ideal; 2]) -> impl Iterator<Item = u64> {
        self.held(0, pair[0])
            .zip(self.held(1, pair[1]))
            .map(|(a, b)| a ^ b)
    }

    /// The ns of these transfers.
    pub fn apart_ns(&self, pair: [Ideal; 2]) -> u64 {
        let words = self.apart(pair).zip(self.sums_ns.chunks(8));
        words.map(|(word, sums_ns)| sum_ns(word, sums_ns)).sum()
    }

    /// The ns of those that have one end outside for both of two pairs.
    pub fn apart_both_ns(&self, one: [Ideal; 2], other: [Ideal; 2]) -> u64 {
        let words = self.apart(one).zip(self.apart(other)).zip(self.sums_ns.chunks(8));
        words
            .map(|((one, other), sums_ns)| sum_ns(one & other, sums_ns))
            .sum()
    }

    /// The ns of the transfers that cross behind a pair of ideals, beside those inside either part.
    pub fn crossing_ns(&self, parts: &[Part; 2], pair: [Ideal; 2]) -> u64 {
        let between = Between {
            whole: pair,
            left: [0, 0],
        };
        let paid = |wide: &Wide| {
            wide.side(parts, between)
                .map_or(0, |side| wide.paid[side as usize][0])
        };
        self.apart_ns(pair) + self.wide.iter().map(paid).sum::<u64>()
    }

    /// Words of a set of transfers with one consumer.
    pub fn words(&self) -> usize {
        self.words
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
}

impl Wide {
    /// The side that the stage between ideals pays because of consumers in the other part, beyond what it pays because of
    /// those in the producer's.
    fn side(&self, parts: &[Part; 2], between: Between) -> Option<Side> {
        let words = |p: usize| {
            let of = |ideal: Ideal| parts[p].bits(ideal).iter();
            of(between.whole[p])
                .zip(of(between.left[p]))
                .map(|(whole, left)| whole & !left)
        };
        let (own, other) = (self.part, 1 - self.part);
        let has_some = |p: usize, to: &[u64]| words(p).zip(to).any(|(stage, to)| stage & to != 0);
        let has_all = |p: usize, to: &[u64]| words(p).zip(to).all(|(stage, to)| to & !stage == 0);
        let [near, far] = &self.consumers;
        let whole = parts[own].bits(between.whole[own]);
        let left = parts[own].bits(between.left[own]);
        let is_home = has(whole, self.producer) && !has(left, self.producer);
        match is_home {
            true => (has_all(own, near) && !has_all(other, far)).then_some(Side::Producer),
            false => (!has_some(own, near) && has_some(other, far)).then_some(Side::Consumer),
        }
    }
}

/// What the ends in one part pay, for each ideal, and the ns of their transfers.
fn ends(part: &Part, narrow: &[Narrow], p: usize) -> Vec<(Busy, u64)> {
    let with = |(busy, ns): (Busy, u64), (more, more_ns): (Busy, u64)| (plus(busy, more), ns + more_ns);
    let mut of_item = vec![([0; 3], 0); part.items.len()];
    for t in narrow {
        of_item[t.ends[p]] = with(of_item[t.ends[p]], (t.paid[p], t.total_ns));
    }
    part.sums(|at| of_item[at], with)
}

/// For each ideal of a part, bits of the transfers with their end there in it.
fn held(part: &Part, narrow: &[Narrow], p: usize, words: usize) -> Vec<u64> {
    let mut of_item = vec![Vec::new(); part.items.len()];
    for (t, transfer) in narrow.iter().enumerate() {
        of_item[transfer.ends[p]].push(t);
    }
    part.unions(words, &of_item)
}

/// The sum over every set of up to eight values.
pub fn sums<T: Copy + Default>(values: &[T], plus: impl Fn(T, T) -> T) -> [T; 256] {
    let mut sums = [T::default(); 256];
    for set in 1..256_usize {
        let first = set.trailing_zeros() as usize;
        sums[set] = plus(
            sums[set & (set - 1)],
            values.get(first).copied().unwrap_or_default(),
        );
    }
    sums
}

/// The ns of up to 64 transfers.
fn sum_ns(transfers: u64, sums_ns: &[[u64; 256]]) -> u64 {
    match transfers {
        0 => 0,
        _ => sums_ns
            .iter()
            .zip(transfers.to_le_bytes())
            .map(|(sums, byte)| sums[byte as usize])
            .sum(),
    }
}
