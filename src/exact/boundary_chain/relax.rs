//! The most that one of the sets before a boundary carries, relaxed.

use fixedbitset::FixedBitSet;

use crate::exact::boundary_chain::boundary::{Boundary, Candidate, Crossing, Sides, Totals};
use crate::exact::windows::min_cut::MinCostClosure;

/// Parts of one that the multiplier of a need is counted in.
const PARTS: i128 = 1 << 16;
/// Multipliers tried for one relaxation: a handful is usual.
const MOST_MULTIPLIERS: usize = 24;
/// More than any set costs: it holds an item on one side.
const HELD: i128 = 1 << 100;

/// What is known of the sets on given sides.
pub(super) struct Relaxed {
    /// None carries more, in ns.
    pub most_ns: i128,
    /// One that needs no more than it may, if one is known.
    pub within: Option<Candidate>,
    /// An item that tells those that need too much from the others; `None` where nothing more can be learnt.
    pub undecided: Option<usize>,
}

/// What is made least: so many parts of what a set needs, less so many of what it carries.
#[derive(Clone, Copy)]
struct Weights {
    of_need: i128,
    of_carried: i128,
}

/// A set that is cheapest but for crossings that gain something, and what no set costs less than.
struct Cheapest {
    candidate: Candidate,
    least: i128,
}

impl Weights {
    fn cost(self, totals: Totals) -> i128 {
        self.of_need * totals.need_ns - self.of_carried * totals.carried_ns
    }
}

impl Boundary<'_> {
    /// The most that sets on these sides carry, which need no more than `most_need_ns`; `None` where all need more.
    ///
    /// A multiplier of the need makes it part of the cost: the cheapest set is a minimum cut, and says what none exceeds. The multiplier
    /// that says most lies where a set that needs too much and one that does not cost the same.
    pub(super) fn relax(&self, sides: &Sides, most_need_ns: i128) -> Option<Relaxed> {
        let carried_alone = Weights {
            of_need: 0,
            of_carried: PARTS,
        };
        let free = self.cheapest(sides, carried_alone);
        let mut most_ns = (-free.least).div_euclid(PARTS);
        if free.candidate.totals.need_ns <= most_need_ns {
            return Some(Relaxed {
                most_ns,
                within: Some(free.candidate),
                undecided: None,
            });
        }
        let need_alone = Weights {
            of_need: PARTS,
            of_carried: 0,
        };
        let least = self.cheapest(sides, need_alone);
        if least.least > PARTS * most_need_ns {
            return None;
        }
        let [mut within, mut beyond] = [least.candidate, free.candidate];
        if within.totals.need_ns > most_need_ns {
            let undecided = between(sides, &within, &beyond);
            return Some(Relaxed {
                most_ns,
                within: None,
                undecided,
            });
        }
        let mut best = within.clone();
        for _ in 0..MOST_MULTIPLIERS {
            let [low, high] = [within.totals, beyond.totals];
            let gain_ns = high.carried_ns - low.carried_ns;
            let weights = Weights {
                of_need: (PARTS * gain_ns / (high.need_ns - low.need_ns)).max(1),
                of_carried: PARTS,
            };
            let Cheapest {
                candidate: set,
                least,
            } = self.cheapest(sides, weights);
            most_ns = most_ns.min((weights.of_need * most_need_ns - least).div_euclid(PARTS));
            let known = weights.cost(low).min(weights.cost(high));
            let is_known = weights.cost(set.totals) >= known;
            match set.totals.need_ns <= most_need_ns {
                true => {
                    if set.totals.carried_ns > best.totals.carried_ns {
                        best = set.clone();
                    }
                    within = set;
                }
                false => beyond = set,
            }
            if is_known || most_ns <= best.totals.carried_ns {
                break;
            }
        }
        let undecided = between(sides, &within, &beyond);
        Some(Relaxed {
            most_ns,
            within: Some(best),
            undecided,
        })
    }

    /// The set for which the weighed cost is least.
    fn cheapest(&self, sides: &Sides, weights: Weights) -> Cheapest {
        let mut choice = self.choice.clone();
        let of_work = weights.of_need - weights.of_carried;
        for (node, work_ns) in self.work_ns.iter().enumerate() {
            let held = match () {
                () if sides.0[0].contains(node) => -HELD,
                () if sides.0[1].contains(node) => HELD,
                () => 0,
            };
            choice.charge(node, held + of_work * work_ns);
        }
        // What sets cost less for crossings that gain something, at most: a sum, and a sum over their items.
        let mut gains = Gains {
            of_all: 0,
            of_nodes: vec![0; self.open.len()],
        };
        for crossing in &self.crossings {
            match weights.cost(crossing.costs) {
                0 => {}
                gain if gain < 0 => gains.add(self, crossing, gain),
                charge => choice.charge_split(
                    crossing.first.as_deref(),
                    crossing.last.as_deref(),
                    charge.unsigned_abs(),
                ),
            }
        }
        gains.charge(&mut choice);
        let has = choice.cheapest();
        let chosen: FixedBitSet = (0..has.len()).filter(|&node| has[node]).collect();
        let mut least = weights.cost(self.common) + gains.of_all;
        let mut totals = self.common;
        for node in chosen.ones() {
            least += of_work * self.work_ns[node] + gains.of_nodes[node];
            totals.add(Totals {
                need_ns: self.work_ns[node],
                carried_ns: self.work_ns[node],
            });
        }
        for crossing in self.crossings.iter().filter(|crossing| crossing.is_by(&has)) {
            least += weights.cost(crossing.costs).max(0);
            totals.add(crossing.costs);
        }
        Cheapest {
            candidate: Candidate { chosen, totals },
            least,
        }
    }
}

/// What crossings with a negative cost are counted for: no set costs less for them.
struct Gains {
    of_all: i128,
    of_nodes: Vec<i128>,
}

impl Gains {
    /// A crossing happens for `z_u - z_v` where one end `u` comes before all others and one, `v`, behind them; never for more than `z_u`, or
    /// `1 - z_v`, where only one of the two is known.
    fn add(&mut self, boundary: &Boundary, crossing: &Crossing, gain: i128) {
        let only = |ends: &Option<Vec<usize>>| match ends.as_deref() {
            Some(&[end]) => Some(end),
            _ => None,
        };
        let [first, last] = [only(&crossing.first), only(&crossing.last)];
        match (first, last) {
            (Some(u), Some(v)) if boundary.comes_with(v, u) => {
                self.of_nodes[u] += gain;
                self.of_nodes[v] -= gain;
            }
            (Some(u), _) => self.of_nodes[u] += gain,
            (None, Some(v)) => {
                self.of_all += gain;
                self.of_nodes[v] -= gain;
            }
            (None, None) => self.of_all += gain,
        }
    }

    fn charge(&self, choice: &mut MinCostClosure) {
        let gains = self.of_nodes.iter().enumerate();
        gains.for_each(|(node, &gain)| choice.charge(node, gain));
    }
}

/// The middle one of the items that only one of two sets has.
fn between(sides: &Sides, within: &Candidate, beyond: &Candidate) -> Option<usize> {
    let mut differ = within.chosen.clone();
    differ.symmetric_difference_with(&beyond.chosen);
    sides.0.iter().for_each(|side| differ.difference_with(side));
    differ.ones().nth(differ.count_ones(..) / 2)
}
