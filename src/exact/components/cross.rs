//! Transfers between the two components of a problem, as stages between pairs of ideals see them.

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, paid, sum};
use crate::exact::components::component::Component;
use crate::exact::components::ideal::{Ideal, PairStage};
use crate::model::options::Communication;
use crate::problem::Problem;
use crate::problem::cost::Side;

/// The transfers between two components.
pub(crate) struct CrossTransfers {
    /// Those with their one consumer in the other component.
    pub unicast: Vec<Unicast>,
    /// Bits of those, so many words a set.
    words: usize,
    /// For each component and ideal, those with their end there in it.
    incident: [Vec<u64>; 2],
    /// For each component and ideal, what these ends pay if all the transfers are cut.
    ends: [Vec<Ends>; 2],
    /// For each eight of them and each set of these, their ns.
    subset_sums_ns: Vec<[u64; 256]>,
    /// See [`CrossTransfers::saved`].
    saved: BusyTimes,
    /// Transfers with more consumers.
    multicast: Vec<Multicast>,
}

/// A transfer with its one consumer in the other component.
pub(crate) struct Unicast {
    /// Its end in each component, by position there.
    pub ends: [usize; 2],
    /// What its end in each component pays.
    paid: [BusyTimes; 2],
    /// What it takes.
    pub total_ns: u64,
}

/// Ends of transfers with one consumer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ends {
    /// What they pay if all the transfers are cut.
    pub busy: BusyTimes,
    /// The ns of the transfers.
    pub cut_ns: u64,
}

impl Ends {
    fn and(self, other: Self) -> Self {
        Self {
            busy: sum(self.busy, other.busy),
            cut_ns: self.cut_ns + other.cut_ns,
        }
    }
}

/// A transfer with consumers in the other component, and further ones anywhere.
struct Multicast {
    /// The component of its producer, and its place there.
    producer: (usize, usize),
    /// Bits of the consumers in the producer's component, and in the other.
    consumers: [Box<[u64]>; 2],
    paid: [BusyTimes; 2],
}

impl CrossTransfers {
    /// Time and memory O((I + J) t) for I and J ideals and t transfers.
    pub(crate) fn new(problem: &Problem, components: &[Component; 2]) -> Self {
        let transfers = 0..problem.transfers.len();
        let places: Vec<Places> = transfers.map(|t| Places::new(problem, components, t)).collect();
        let unicast: Vec<Unicast> = places
            .iter()
            .filter_map(|places| places.unicast(problem))
            .collect();
        let multicast = places
            .iter()
            .filter_map(|places| places.multicast(problem, components));
        let saved = match problem.settings.communication {
            _ if unicast.is_empty() => [0, 0, 0],
            Communication::Ignored => [0, 0, 0],
            Communication::Blocking => [2, 0, 0],
            Communication::Overlapped => [0, 1, 1],
        };
        let words = bits::words(unicast.len());
        let totals_ns: Vec<u64> = unicast.iter().map(|transfer| transfer.total_ns).collect();
        Self {
            words,
            incident: [0, 1].map(|p| incident(&components[p], &unicast, p)),
            ends: [0, 1].map(|p| ends(&components[p], &unicast, p)),
            subset_sums_ns: totals_ns
                .chunks(8)
                .map(|ns| subset_sums(ns, |a, b| a + b))
                .collect(),
            saved,
            multicast: multicast.collect(),
            unicast,
        }
    }

    /// Whether there are no such transfers.
    pub(crate) fn is_empty(&self) -> bool {
        self.words == 0 && self.multicast.is_empty()
    }

    /// What a stage pays for transfers between the components.
    pub(crate) fn busy(&self, components: &[Component; 2], stage: PairStage) -> BusyTimes {
        let [first, second] = [0, 1].map(|p| self.ends(p, stage.whole[p], stage.rest[p]).busy);
        self.busy_with(sum(first, second), components, stage)
    }

    /// The same if it is known what its [`CrossTransfers::ends`] add up to.
    pub(crate) fn busy_with(
        &self,
        ends: BusyTimes,
        components: &[Component; 2],
        stage: PairStage,
    ) -> BusyTimes {
        let inside_ns = self.inside_ns(stage);
        let mut busy = [0, 1, 2].map(|r| ends[r] - self.saved[r] * inside_ns);
        for multicast in &self.multicast {
            if let Some(side) = multicast.side(components, stage) {
                busy = sum(busy, multicast.paid[side as usize]);
            }
        }
        busy
    }

    /// The ns of the transfers with one consumer that have both ends in a stage.
    fn inside_ns(&self, PairStage { whole, rest }: PairStage) -> u64 {
        let incident = |p: usize| {
            self.incident(p, whole[p])
                .zip(self.incident(p, rest[p]))
                .map(|(whole, rest)| whole & !rest)
        };
        let words = incident(0).zip(incident(1)).zip(self.subset_sums_ns.chunks(8));
        words.map(|((a, b), sums_ns)| sum_ns(a & b, sums_ns)).sum()
    }

    /// Bits of the transfers with one consumer that have their end in an ideal.
    pub(crate) fn incident(&self, p: usize, ideal: Ideal) -> impl Iterator<Item = u64> {
        self.incident[p][ideal as usize * self.words..]
            .iter()
            .copied()
            .take(self.words)
    }

    /// Bits of the transfers with one consumer that a pair of ideals cuts: one end in it and one outside.
    pub(crate) fn cut(&self, pair: [Ideal; 2]) -> impl Iterator<Item = u64> {
        self.incident(0, pair[0])
            .zip(self.incident(1, pair[1]))
            .map(|(a, b)| a ^ b)
    }

    /// The ns of these transfers.
    pub(crate) fn cut_ns(&self, pair: [Ideal; 2]) -> u64 {
        let words = self.cut(pair).zip(self.subset_sums_ns.chunks(8));
        words.map(|(word, sums_ns)| sum_ns(word, sums_ns)).sum()
    }

    /// The ns of those that each of two pairs cuts.
    pub(crate) fn cut_by_both_ns(&self, one: [Ideal; 2], other: [Ideal; 2]) -> u64 {
        let words = self
            .cut(one)
            .zip(self.cut(other))
            .zip(self.subset_sums_ns.chunks(8));
        words
            .map(|((one, other), sums_ns)| sum_ns(one & other, sums_ns))
            .sum()
    }

    /// The ns of the transfers that cross behind a pair of ideals, beside those inside either component.
    pub(crate) fn crossing_ns(&self, components: &[Component; 2], pair: [Ideal; 2]) -> u64 {
        let stage = PairStage {
            whole: pair,
            rest: [0, 0],
        };
        let paid = |multicast: &Multicast| {
            multicast
                .side(components, stage)
                .map_or(0, |side| multicast.paid[side as usize][0])
        };
        self.cut_ns(pair) + self.multicast.iter().map(paid).sum::<u64>()
    }

    /// Words of a set of transfers with one consumer.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// The ends in the slice between two ideals of a component. Transfers with more consumers are left out.
    pub(crate) fn ends(&self, component: usize, whole: Ideal, rest: Ideal) -> Ends {
        let [whole, rest] = [whole, rest].map(|ideal| self.ends[component][ideal as usize]);
        Ends {
            busy: [0, 1, 2].map(|r| whole.busy[r] - rest.busy[r]),
            cut_ns: whole.cut_ns - rest.cut_ns,
        }
    }

    /// What a stage saves in load, link in and link out for each ns of transfers that stay in it, against paying at both
    /// ends; nothing where no transfer has its one consumer in the other component.
    pub(crate) fn saved(&self) -> BusyTimes {
        self.saved
    }
}

/// Where the ends of a transfer lie: their component, and their place there.
struct Places {
    transfer: usize,
    producer: (usize, usize),
    consumers: Vec<(usize, usize)>,
}

impl Places {
    fn new(problem: &Problem, components: &[Component; 2], transfer: usize) -> Self {
        let place = |item: usize| {
            let at = |p: usize| components[p].items.binary_search(&item).ok().map(|at| (p, at));
            at(0).or_else(|| at(1)).unwrap_or_default()
        };
        let ends = &problem.transfers[transfer];
        Self {
            transfer,
            producer: place(ends.producer),
            consumers: ends.consumers.iter().map(|&to| place(to)).collect(),
        }
    }

    fn unicast(&self, problem: &Problem) -> Option<Unicast> {
        let (own, producer) = self.producer;
        let &[(other, consumer)] = &self.consumers[..] else {
            return None;
        };
        let [at_producer, at_consumer] = paid(problem, self.transfer);
        (other != own).then(|| Unicast {
            ends: by_component(own, producer, consumer),
            paid: by_component(own, at_producer, at_consumer),
            total_ns: problem.transfers[self.transfer].total_ns(),
        })
    }

    fn multicast(&self, problem: &Problem, components: &[Component; 2]) -> Option<Multicast> {
        let (own, _) = self.producer;
        let is_inside = self.consumers.iter().all(|&(other, _)| other == own);
        (!is_inside && self.consumers.len() > 1).then(|| Multicast {
            producer: self.producer,
            consumers: [own, 1 - own].map(|p| {
                let there = self.consumers.iter().filter(|&&(other, _)| other == p);
                let words = bits::words(components[p].items.len()).max(1);
                bits::from_members(words, there.map(|&(_, at)| at))
            }),
            paid: paid(problem, self.transfer),
        })
    }
}

/// What belongs to a component, and to the other, by component.
fn by_component<T>(own: usize, here: T, there: T) -> [T; 2] {
    match own {
        0 => [here, there],
        _ => [there, here],
    }
}

impl Multicast {
    /// The side that a stage pays because of consumers in the other component, beyond what it pays because of those in the
    /// producer's.
    fn side(&self, components: &[Component; 2], stage: PairStage) -> Option<Side> {
        let members = |p: usize| {
            let of = |ideal: Ideal| components[p].members(ideal).iter();
            of(stage.whole[p])
                .zip(of(stage.rest[p]))
                .map(|(whole, rest)| whole & !rest)
        };
        let (own, producer) = self.producer;
        let other = 1 - own;
        let has_some = |p: usize, to: &[u64]| members(p).zip(to).any(|(stage, to)| stage & to != 0);
        let has_all = |p: usize, to: &[u64]| members(p).zip(to).all(|(stage, to)| to & !stage == 0);
        let [near, far] = &self.consumers;
        let [whole, rest] = [stage.whole, stage.rest].map(|pair| components[own].members(pair[own]));
        let is_home = bits::contains(whole, producer) && !bits::contains(rest, producer);
        match is_home {
            true => (has_all(own, near) && !has_all(other, far)).then_some(Side::Producer),
            false => (!has_some(own, near) && has_some(other, far)).then_some(Side::Consumer),
        }
    }
}

/// For each ideal of a component, the ends of transfers with one consumer in it.
fn ends(component: &Component, unicast: &[Unicast], p: usize) -> Vec<Ends> {
    let mut of_item = vec![Ends::default(); component.items.len()];
    for transfer in unicast {
        let end = Ends {
            busy: transfer.paid[p],
            cut_ns: transfer.total_ns,
        };
        let of_item = &mut of_item[transfer.ends[p]];
        *of_item = of_item.and(end);
    }
    component.sums(|at| of_item[at], Ends::and)
}

/// For each ideal of a component, bits of the transfers with their end there in it.
fn incident(component: &Component, unicast: &[Unicast], p: usize) -> Vec<u64> {
    let mut of_item = vec![Vec::new(); component.items.len()];
    for (t, transfer) in unicast.iter().enumerate() {
        of_item[transfer.ends[p]].push(t);
    }
    component.unions(bits::words(unicast.len()), &of_item)
}

/// The sum over every set of up to eight values.
pub(crate) fn subset_sums<T: Copy + Default>(values: &[T], plus: impl Fn(T, T) -> T) -> [T; 256] {
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
fn sum_ns(transfers: u64, subset_sums_ns: &[[u64; 256]]) -> u64 {
    match transfers {
        0 => 0,
        _ => subset_sums_ns
            .iter()
            .zip(transfers.to_le_bytes())
            .map(|(sums, byte)| sums[byte as usize])
            .sum(),
    }
}
