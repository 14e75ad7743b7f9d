//! What transfers cost at least that cross the ends of stages between cells.

use crate::exact::bits;
use crate::exact::heterogeneous::coarse::ideals::Ideal;
use crate::exact::heterogeneous::stage::sides;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::bottleneck_ns;
use crate::problem::cost::{Side, StageCost};
use crate::problem::plan::StoppedBy;

/// The transfers that cross each ideal: between items of it and others. With an explicit backward graph either end may lie in it.
pub(super) struct Crossings {
    /// What each side of each transfer costs.
    sides: Vec<[StageCost; 2]>,
    producers: Vec<usize>,
    consumers: Vec<Box<[u64]>>,
    /// Whether its producer lies in every ideal that it crosses: so it is but for gradients of an explicit backward graph.
    is_forward: Vec<bool>,
    of_ideal: Vec<CrossingOfIdeal>,
    /// What a stage pays for the transfers that cross each ideal if it holds all their ends on one side of it, in ns.
    pub busy_ns: Vec<u64>,
}

struct CrossingOfIdeal {
    /// Ascending.
    transfers: Box<[u32]>,
    /// What the last stage that makes up the ideal pays if it holds all their ends within.
    above: StageCost,
    /// What the next stage pays for those from within if it holds all their other ends.
    below: StageCost,
}

/// The transfers that cross the ideals of a cell.
#[derive(Default)]
pub(super) struct Crossing {
    /// Those that cross all of them, and any.
    all: Vec<usize>,
    any: Vec<usize>,
    /// The least of what [`CrossingOfIdeal`] says.
    above: StageCost,
    below: StageCost,
}

impl Crossings {
    /// # Errors
    ///
    /// A limit of the search.
    pub(super) fn new(problem: &Problem, ideals: &[Ideal], control: &Control) -> Result<Self, StoppedBy> {
        let words = bits::words(problem.items.len());
        let of = |consumers: &Vec<usize>| bits::from_members(words, consumers.iter().copied());
        let mut all = Self {
            sides: sides(problem),
            consumers: problem
                .transfers
                .iter()
                .map(|transfer| of(&transfer.consumers))
                .collect(),
            producers: problem
                .transfers
                .iter()
                .map(|transfer| transfer.producer)
                .collect(),
            is_forward: vec![true; problem.transfers.len()],
            of_ideal: Vec::new(),
            busy_ns: Vec::new(),
        };
        for ideal in ideals {
            control.check_limits()?;
            let crossing = all.of_ideal(&ideal.items);
            for t in crossing.transfers.iter().map(|&t| t as usize) {
                all.is_forward[t] &= bits::contains(&ideal.items, all.producers[t]);
            }
            all.of_ideal.push(crossing);
        }
        let busy_ns = |crossing: &CrossingOfIdeal| {
            let [above, below] = [crossing.above, crossing.below];
            bottleneck_ns(&problem.settings, &above).max(bottleneck_ns(&problem.settings, &below))
        };
        all.busy_ns = all.of_ideal.iter().map(busy_ns).collect();
        Ok(all)
    }

    fn of_ideal(&self, items: &[u64]) -> CrossingOfIdeal {
        let is_within = |t: usize| bits::contains(items, self.producers[t]);
        let crosses = |&t: &u32| match is_within(t as usize) {
            true => !bits::is_subset(&self.consumers[t as usize], items),
            false => bits::intersect(&self.consumers[t as usize], items),
        };
        let transfers: Box<[u32]> = (0..self.producers.len() as u32).filter(crosses).collect();
        let (mut above, mut below) = (StageCost::default(), StageCost::default());
        for t in transfers.iter().map(|&t| t as usize) {
            match is_within(t) {
                true => {
                    above = above.plus(self.cost(t, Side::Producer));
                    below = below.plus(self.cost(t, Side::Consumer));
                }
                false => above = above.plus(self.cost(t, Side::Consumer)),
            }
        }
        CrossingOfIdeal {
            transfers,
            above,
            below,
        }
    }

    fn cost(&self, t: usize, side: Side) -> StageCost {
        self.sides[t][side as usize]
    }

    /// The transfers of a cell, which has some ideals.
    pub(super) fn of(&self, members: &[u32]) -> Crossing {
        let all = || members.iter().map(|&member| &self.of_ideal[member as usize]);
        let mut met = vec![0; self.sides.len()];
        for crossing in all() {
            crossing.transfers.iter().for_each(|&t| met[t as usize] += 1);
        }
        let least = |costs: &mut dyn Iterator<Item = StageCost>| {
            costs
                .reduce(|one, other| one.with(other, u64::min))
                .unwrap_or_default()
        };
        let is_often = |at_least: usize| (0..met.len()).filter(|&t| met[t] >= at_least).collect();
        Crossing {
            all: is_often(members.len()),
            any: is_often(1),
            above: least(&mut all().map(|crossing| crossing.above)),
            below: least(&mut all().map(|crossing| crossing.below)),
        }
    }

    /// What the transfers of every stage cost at least that holds an ideal of one cell but for one of another.
    ///
    /// At its upper end it pays for what crosses it and surely has its end within, or for all that crosses but for what may end further
    /// down; likewise at its lower end. No transfer is counted at both.
    pub(super) fn least(&self, left: &StageEnd, rest: &StageEnd) -> StageCost {
        let holds = |item: usize| bits::contains(left.common, item) && !bits::contains(rest.any, item);
        let consumes = |t: usize| {
            let mut words = self.consumers[t].iter().zip(left.common).zip(rest.any);
            words.any(|((consumers, left), rest)| consumers & left & !rest != 0)
        };
        let above = |t: usize| match holds(self.producers[t]) {
            true => Some(Side::Producer),
            // Where it crosses, its producer is on this side.
            false if self.is_forward[t] => {
                (!bits::contains(rest.any, self.producers[t])).then_some(Side::Producer)
            }
            false if !bits::contains(left.any, self.producers[t]) && consumes(t) => Some(Side::Consumer),
            false => None,
        };
        let below = |t: usize| match bits::contains(rest.common, self.producers[t]) {
            true => consumes(t).then_some(Side::Consumer),
            false => {
                let is_counted_above = left.crossing.any.binary_search(&t).is_ok();
                (holds(self.producers[t]) && !is_counted_above).then_some(Side::Producer)
            }
        };
        let sum = |transfers: &[usize], side: &dyn Fn(usize) -> Option<Side>| {
            let paid = transfers.iter().filter_map(|&t| Some(self.cost(t, side(t)?)));
            paid.fold(StageCost::default(), StageCost::plus)
        };
        let either = |t: usize| {
            self.cost(t, Side::Producer)
                .with(self.cost(t, Side::Consumer), u64::max)
        };
        let without = |least: StageCost, cost: StageCost| least.with(cost, u64::saturating_sub);
        let unsure_above = left.crossing.any.iter().filter(|&&t| above(t).is_none());
        let above_at_least = unsure_above.fold(left.crossing.above, |least, &t| without(least, either(t)));
        let unsure_below = rest.crossing.any.iter().filter(|&&t| !consumes(t));
        let below_at_least = unsure_below.fold(rest.crossing.below, |least, &t| {
            without(least, self.cost(t, Side::Consumer))
        });
        let at_upper_end = sum(&left.crossing.all, &above).with(above_at_least, u64::max);
        let at_lower_end = sum(&rest.crossing.all, &below).with(below_at_least, u64::max);
        at_upper_end.plus(at_lower_end)
    }
}

/// One end of stages between two cells.
pub(super) struct StageEnd<'c> {
    pub crossing: &'c Crossing,
    /// Items of all its ideals, and of any.
    pub common: &'c [u64],
    pub any: &'c [u64],
}
