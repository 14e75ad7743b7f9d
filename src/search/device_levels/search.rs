//! Least period of a line of unlike devices: plans from narrow searches, proofs from wide ones.
//!
//! Prices alone refute small periods. Then a period just below the best plan's is searched level by level (`levels`): a
//! plan lowers the upper bound, an empty level in which nothing was dropped for width proves optimality, and otherwise the next
//! search is wider. Wide searches also refute periods between the bounds, so that a search that is stopped leaves a bound behind.

use std::collections::BTreeMap;

use crate::search::device_levels::levels::{Levels, Limits};
use crate::search::device_levels::line::{Line, TaskSet, tasks};
use crate::search::device_levels::prices::{Prices, Pricing};
use crate::search::limits::Answer;

/// First and last width of a search, and the factor between two widths.
const FIRST_WIDTH: usize = 60;
pub(super) const LAST_WIDTH: usize = 1 << 19;
const WIDER: usize = 3;
/// Width from which on periods between the bounds are refuted too.
const FIRST_RAISE: usize = 2000;
/// Subgradient steps for the prices of a period.
const STEPS: usize = 200;
/// The first plan is looked for at periods that grow by this part.
const GROWTH: u64 = 16;

/// Class and tasks of each station in order, tasks in ascending order.
pub(crate) type Stations = Vec<(usize, Vec<usize>)>;

/// What a search knows at its end.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The best plan found.
    pub plan: Option<Stations>,
    /// Period of the best plan, found or known to the caller.
    pub upper: Option<u64>,
    /// No plan has a smaller period; `u64::MAX` where there is no plan at all.
    pub lower: u64,
    /// Search nodes.
    pub work: u64,
}

impl Outcome {
    /// Whether the best plan is optimal, or it is proved that there is none.
    pub fn proved(&self) -> bool {
        self.lower >= self.upper.unwrap_or(u64::MAX)
    }
}

/// Finds the least period of a plan of at most `stations` stations.
///
/// `known` is the period of a plan that the caller has: only better ones are looked for. `budget` bounds the search nodes; how the
/// search goes depends on them alone. `must_stop`, asked every few milliseconds, ends it from outside.
pub fn search(
    line: &Line,
    stations: usize,
    known: Option<u64>,
    budget: u64,
    must_stop: &dyn Fn() -> bool,
) -> Outcome {
    let mut search = LevelSearch::new(line, stations, known, budget, must_stop);
    search.run();
    search.outcome
}

/// From how many ends a search of this width starts: both at the first width, then the one that took less work there.
fn ways(width: usize) -> usize {
    if width == FIRST_WIDTH { 2 } else { 1 }
}

/// A line, what is known of it, and the limits of its search.
pub(super) struct LevelSearch<'a> {
    /// The line, and the line read from its end.
    lines: [Line; 2],
    stations: usize,
    budget: u64,
    must_stop: &'a dyn Fn() -> bool,
    /// What is known so far.
    pub outcome: Outcome,
    /// Work of both directions at the first width or below.
    effort: [u64; 2],
    /// Subgradient steps for the prices of a period.
    pub steps: usize,
    /// Prices of the periods so far.
    prices: BTreeMap<u64, Prices>,
}

impl<'a> LevelSearch<'a> {
    /// A search that knows a plan's period at most.
    pub(super) fn new(
        line: &Line,
        stations: usize,
        known: Option<u64>,
        budget: u64,
        must_stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let outcome = Outcome {
            upper: known,
            ..Outcome::default()
        };
        Self {
            lines: [line.clone(), line.reversed()],
            stations,
            budget,
            must_stop,
            outcome,
            effort: [0; 2],
            steps: STEPS,
            prices: BTreeMap::new(),
        }
    }

    /// Raises the bound as far as simple bounds and prices do; whether there is anything to search for.
    pub(super) fn begin(&mut self) -> bool {
        let Some(lower) = self.simple_bound() else {
            self.outcome.lower = u64::MAX;
            return false;
        };
        if self.lines[0].tasks() == 0 {
            (self.outcome.plan, self.outcome.upper) = (Some(Vec::new()), Some(0));
            return false;
        }
        self.outcome.lower = lower;
        self.raise_by_prices();
        true
    }

    fn run(&mut self) {
        if !self.begin() {
            return;
        }
        let mut width = FIRST_WIDTH;
        while !self.is_over() && width <= LAST_WIDTH {
            self.descend(width);
            if width >= FIRST_RAISE {
                self.raise(width);
            }
            width *= WIDER;
        }
    }

    /// Whether nothing is left to find, or no work to find it with.
    pub(super) fn is_over(&self) -> bool {
        self.outcome.proved() || self.outcome.work > self.budget || (self.must_stop)()
    }

    /// The longest task on its fastest class, or all tasks on their fastest classes shared out among the stations; nothing where a
    /// task has no class. `O(classes · n)`.
    fn simple_bound(&self) -> Option<u64> {
        let line = &self.lines[0];
        let fastest = |i: usize| {
            (0..line.classes())
                .filter(|&k| line.counts[k] > 0)
                .filter_map(|k| line.times[k][i])
                .min()
        };
        let times: Vec<u64> = (0..line.tasks()).map(fastest).collect::<Option<_>>()?;
        let stations = line.counts.iter().sum::<usize>().min(self.stations) as u64;
        let share = times.iter().sum::<u64>().div_ceil(stations.max(1));
        Some(share.max(times.iter().copied().max().unwrap_or(0)))
    }

    /// No plan is longer than all tasks on their slowest classes. `O(classes · n)`.
    pub(super) fn longest(&self) -> u64 {
        let line = &self.lines[0];
        (0..line.tasks())
            .map(|i| line.times.iter().filter_map(|row| row[i]).max().unwrap_or(0))
            .sum()
    }

    /// Raises the bound to a period that prices do not refute, by growing steps and then bisection.
    fn raise_by_prices(&mut self) {
        let most = self.outcome.upper.unwrap_or(self.longest());
        let mut high = self.outcome.lower;
        let mut step = (high / GROWTH).max(1);
        while high < most && !self.is_over() && self.prices(high).1 {
            self.outcome.lower = high + 1;
            high = (high + step).min(most);
            step *= 2;
        }
        while self.outcome.lower < high && !self.is_over() {
            let middle = self.outcome.lower + (high - self.outcome.lower) / 2;
            if self.prices(middle).1 {
                self.outcome.lower = middle + 1;
            } else {
                high = middle;
            }
        }
    }

    /// Prices for a period, and whether they refute it. They start from those of the period below.
    fn prices(&mut self, period: u64) -> (Prices, bool) {
        let line = &self.lines[0];
        if !self.prices.contains_key(&period) {
            let near = self
                .prices
                .range(..period)
                .next_back()
                .or(self.prices.first_key_value());
            let start = near.map_or(vec![1; line.tasks()], |(_, prices)| prices.price.clone());
            let mut pricing = Pricing::new(line, period, self.stations);
            let prices = pricing.improve(&start, self.steps, self.must_stop);
            self.outcome.work += pricing.work;
            self.prices.insert(period, prices);
        }
        let prices = &self.prices[&period];
        (
            prices.clone(),
            prices.sum(line.all()) > prices.most(&line.counts, self.stations),
        )
    }

    /// Looks for a first plan at growing periods, then for better plans at periods below the best one's, in steps that double while
    /// plans are found; ends where the smallest step finds none.
    fn descend(&mut self, width: usize) {
        let mut low = self.outcome.lower;
        let mut step = 1;
        while !self.is_over() {
            low = low.max(self.outcome.lower);
            let period = match self.outcome.upper {
                Some(upper) => upper.saturating_sub(step).max(self.outcome.lower),
                None => (low + (low / GROWTH).max(1)).min(self.longest()),
            };
            let last = self
                .outcome
                .upper
                .map_or(period >= self.longest(), |upper| period + 1 >= upper);
            if self.decide(period, width, ways(width)) {
                step *= 2;
            } else if last {
                return;
            } else {
                (low, step) = (period, 1);
            }
        }
    }

    /// Refutes periods in the middle between the bounds while that succeeds.
    fn raise(&mut self, width: usize) {
        while let Some(upper) = self.outcome.upper {
            let period = self.outcome.lower + upper.saturating_sub(self.outcome.lower + 1) / 2;
            if self.is_over() || period + 1 >= upper || !self.decide(period, width, ways(width)) {
                return;
            }
        }
    }

    /// Whether a plan within a period was found, or proved not to be, in one or two ways: first from the end that took less work so far.
    pub(super) fn decide(&mut self, period: u64, width: usize, ways: usize) -> bool {
        let better = usize::from(self.effort[1] < self.effort[0]);
        (0..ways).any(|other| self.attempt((better + other) % 2, period, width))
    }

    /// Whether a search in one direction found a plan within a period, which is kept, or proved that there is none.
    fn attempt(&mut self, way: usize, period: u64, width: usize) -> bool {
        let (mut prices, refuted) = self.prices(period);
        if way == 1 {
            prices.price.reverse();
        }
        let limits = Limits {
            width,
            work: self.budget.saturating_sub(self.outcome.work),
            must_stop: self.must_stop,
        };
        let mut found = Answer::none_within(period);
        if !refuted {
            let mut levels = Levels::new(&self.lines[way], period, &prices, &limits);
            found = levels.run(self.stations);
            self.outcome.work += levels.work();
            self.effort[way] += if width <= FIRST_WIDTH { levels.work() } else { 0 };
        }
        match found {
            Answer::Plan(stations) => self.keep(way, &stations),
            Answer::NoPlan { .. } if self.outcome.upper.is_none() && period >= self.longest() => {
                self.outcome.lower = u64::MAX
            }
            Answer::NoPlan { .. } => self.outcome.lower = self.outcome.lower.max(period + 1),
            Answer::Undecided | Answer::Stopped(_) => return false,
        }
        true
    }

    /// Keeps a plan that is better than the best.
    fn keep(&mut self, way: usize, stations: &[(usize, TaskSet)]) {
        let line = &self.lines[way];
        let period = stations
            .iter()
            .filter_map(|&(class, set)| line.load(class, set))
            .max()
            .unwrap_or(0);
        if self.outcome.upper.is_some_and(|upper| upper <= period) {
            return;
        }
        let last = line.tasks().saturating_sub(1);
        let number = |task| if way == 1 { last - task } else { task };
        let numbered = |&(class, set): &(usize, TaskSet)| (class, tasks(set).map(number).collect());
        let mut plan: Stations = stations.iter().map(numbered).collect();
        if way == 1 {
            plan.reverse();
            plan.iter_mut().for_each(|(_, tasks)| tasks.reverse());
        }
        (self.outcome.plan, self.outcome.upper) = (Some(plan), Some(period));
    }
}
