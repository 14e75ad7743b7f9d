//! Prices of tasks, and what a device can earn within a period: the bound behind the search.
//!
//! Give task i a price λ_i ≥ 0, and let z_k be the most that a device of class k can earn in one station: the largest sum of prices
//! of a *convex* set of tasks that it does within the period. (A set is convex if a task between two of its tasks is in it: the
//! tasks of a station are.) The stations of a plan earn Σ λ_i together, so no plan exists where Σ λ_i exceeds the sum of the largest
//! z_k over as many devices as there are stations. Example: two tasks of price 1, two devices that earn 1 and 0 within the period:
//! 2 > 1, no plan.
//!
//! The same holds for the rest of a line: tasks still to do against devices still free. One vector of prices is therefore a linear
//! test for every state of a search.
//!
//! The best prices are the Lagrangian dual of the set partitioning model with a column for each class and convex load, which is at
//! least as strong as the relaxations to unrelated machines that Borba and Ritt (2014) and Vila and Pereira (2014) use. They are
//! approached by subgradient steps (Held, Wolfe and Crowder 1974; step length after Polyak 1969). Any prices give a valid test:
//! they are whole numbers, and what devices earn at them is exact or rounded up.

use crate::search::device_levels::line::{Line, TaskSet, tasks};

/// What prices add up to. Large enough that rounding does not matter, small enough that sums of prices are exact in a double.
const TOTAL: f64 = (1u64 << 40) as f64;
/// Nodes of one search for the best load; beyond them its relaxation counts. 10 to 500 are usual.
const MOST_NODES: u32 = 1 << 14;
/// Subgradient steps aim at the best value plus a reach, in parts of [`TOTAL`]; the reach is halved after some steps without progress.
const FIRST_REACH: f64 = 0.05;
const LAST_REACH: f64 = 0.001;
const PATIENCE: usize = 8;

/// Whole prices of tasks, and what the classes earn at them.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// Price of each task.
    pub price: Vec<u64>,
    /// The most that one device of each class earns, or more.
    pub earns: Vec<u64>,
}

impl Prices {
    /// Sum of the prices of a set.
    pub(super) fn sum(&self, set: TaskSet) -> u64 {
        tasks(set).map(|i| self.price[i]).sum()
    }

    /// The most that `free[class]` devices earn in `stations` stations. `O(classes · log classes)`.
    pub(super) fn most(&self, free: &[usize], stations: usize) -> u64 {
        if free.iter().sum::<usize>() <= stations {
            return free
                .iter()
                .zip(&self.earns)
                .map(|(&count, &earns)| count as u64 * earns)
                .sum();
        }
        best_devices(&self.earns, free, stations)
            .map(|(class, count)| count as u64 * self.earns[class])
            .sum()
    }
}

/// How many devices of which classes stand in `stations` stations if those that earn most are taken.
fn best_devices(earns: &[u64], free: &[usize], stations: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut classes: Vec<usize> = (0..free.len()).collect();
    classes.sort_unstable_by_key(|&class| (std::cmp::Reverse(earns[class]), class));
    let mut left = stations;
    classes.into_iter().map(move |class| {
        let count = free[class].min(left);
        left -= count;
        (class, count)
    })
}

/// A line with a period: which tasks may share a station, by class.
pub(super) struct Pricing<'a> {
    line: &'a Line,
    period: u64,
    stations: usize,
    /// `together[class][i]`: tasks that a class can do in one station with task i, and all tasks between them.
    together: Vec<Vec<TaskSet>>,
    /// Search nodes so far.
    pub work: u64,
}

impl<'a> Pricing<'a> {
    /// A line with a period and a number of stations. `O(classes · n^3)`.
    pub(super) fn new(line: &'a Line, period: u64, stations: usize) -> Self {
        let fits = |class: usize, i: usize, j: usize| {
            let between = (line.after[i] & line.before[j]) | (line.after[j] & line.before[i]);
            line.load(class, between | 1 << i | 1 << j)
                .is_some_and(|load| load <= period)
        };
        let partners = |class: usize, i: usize| {
            (0..line.tasks())
                .filter(|&j| fits(class, i, j))
                .fold(0, |set, j| set | 1 << j)
        };
        let row = |class: usize| (0..line.tasks()).map(|i| partners(class, i)).collect();
        Self {
            line,
            period,
            stations,
            together: (0..line.classes()).map(row).collect(),
            work: 0,
        }
    }

    /// Prices at which all devices earn little, by at most `steps` subgradient steps from `start`; it stops at the first proof that
    /// no plan has the period, and where `must_stop` says so.
    pub(super) fn improve(&mut self, start: &[u64], steps: usize, must_stop: &dyn Fn() -> bool) -> Prices {
        let mut price = scaled(start.iter().map(|&price| price as f64).collect());
        let (mut best, mut used) = self.evaluate(&price);
        let mut best_gain = self.gain(&best);
        let (mut best_used, mut gain) = (used.clone(), best_gain);
        let (mut reach, mut idle) = (FIRST_REACH, 0);
        for _ in 0..steps {
            let norm: f64 = used.iter().map(|&times| (1.0 - times).powi(2)).sum();
            if best_gain > 0.0 || norm == 0.0 || reach < LAST_REACH || must_stop() {
                break;
            }
            let step = (best_gain + reach - gain) * TOTAL / norm;
            price = scaled(
                price
                    .iter()
                    .zip(&used)
                    .map(|(&price, &times)| (price + step * (1.0 - times)).max(0.0))
                    .collect(),
            );
            let prices;
            (prices, used) = self.evaluate(&price);
            gain = self.gain(&prices);
            idle += 1;
            if gain > best_gain {
                (best, best_used, best_gain, idle) = (prices, used.clone(), gain, 0);
            } else if idle == PATIENCE {
                price = best.price.iter().map(|&price| price as f64).collect();
                (used, gain) = (best_used.clone(), best_gain);
                (reach, idle) = (reach / 2.0, 0);
            }
        }
        best
    }

    /// Prices of all tasks beyond what all devices earn, in parts of the former: a proof where it is positive.
    fn gain(&self, prices: &Prices) -> f64 {
        let total = prices.sum(self.line.all()) as f64;
        (total - prices.most(&self.line.counts, self.stations) as f64) / total.max(1.0)
    }

    /// What all classes earn at some whole prices, and how often the best loads do each task.
    fn evaluate(&mut self, price: &[f64]) -> (Prices, Vec<f64>) {
        let loads: Vec<(u64, TaskSet)> = (0..self.line.classes())
            .map(|class| self.best_load(class, price))
            .collect();
        let earns: Vec<u64> = loads.iter().map(|load| load.0).collect();
        let mut used = vec![0.0; self.line.tasks()];
        for (class, count) in best_devices(&earns, &self.line.counts, self.stations) {
            tasks(loads[class].1).for_each(|i| used[i] += count as f64);
        }
        (
            Prices {
                price: price.iter().map(|&price| price as u64).collect(),
                earns,
            },
            used,
        )
    }

    /// The best convex load of a class, and its value.
    fn best_load(&mut self, class: usize, price: &[f64]) -> (u64, TaskSet) {
        let (times, together) = (&self.line.times[class], &self.together[class]);
        let able = (0..times.len())
            .filter(|&i| together[i] >> i & 1 == 1)
            .fold(0, |set, i| set | 1 << i);
        let mut order: Vec<usize> = tasks(able).filter(|&i| price[i] > 0.0).collect();
        sort_by_rate(&mut order, times, |i| price[i] as u64);
        let mut knapsack = Knapsack {
            line: self.line,
            times,
            together,
            price,
            order,
            best: 0.0,
            set: 0,
            nodes: 0,
        };
        let empty = Load {
            set: 0,
            allowed: able,
            room: self.period,
            value: 0.0,
        };
        knapsack.search(0, empty);
        self.work += u64::from(knapsack.nodes);
        let most = if knapsack.nodes < MOST_NODES {
            knapsack.best
        } else {
            knapsack.relaxed(0, &empty).ceil()
        };
        (most as u64, knapsack.set)
    }
}

/// Sorts tasks by price per time, highest first; tasks that take no time come before all others. Exact, so that the relaxations of
/// knapsacks are bounds.
pub(super) fn sort_by_rate(order: &mut [usize], times: &[Option<u64>], price: impl Fn(usize) -> u64) {
    let fraction = |i: usize| match times[i] {
        Some(0) => (1, 0),
        Some(time) => (u128::from(price(i)), u128::from(time)),
        None => (0, 1),
    };
    order.sort_by(|&i, &j| {
        let ((price_i, time_i), (price_j, time_j)) = (fraction(i), fraction(j));
        (price_j * time_i).cmp(&(price_i * time_j))
    });
}

/// Whole prices in proportion to some weights that add up to about [`TOTAL`]; all alike where all weights are zero.
fn scaled(weights: Vec<f64>) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return vec![(TOTAL / weights.len().max(1) as f64).floor(); weights.len()];
    }
    weights
        .iter()
        .map(|weight| (weight / total * TOTAL).floor())
        .collect()
}

/// A search for the best convex load of a class: a knapsack in which tasks bring along all tasks between them and the load.
struct Knapsack<'a> {
    line: &'a Line,
    times: &'a [Option<u64>],
    together: &'a [TaskSet],
    price: &'a [f64],
    /// Tasks by price per time, highest first.
    order: Vec<usize>,
    best: f64,
    set: TaskSet,
    nodes: u32,
}

/// A load of a [`Knapsack`] in the making.
#[derive(Clone, Copy)]
struct Load {
    set: TaskSet,
    /// Tasks that are not excluded, those of the load among them.
    allowed: TaskSet,
    room: u64,
    value: f64,
}

impl Knapsack<'_> {
    /// Depth-first search: each task of `order[from..]` first in, then out.
    fn search(&mut self, from: usize, mut load: Load) {
        self.nodes = (self.nodes + 1).min(MOST_NODES);
        if load.value > self.best {
            (self.best, self.set) = (load.value, load.set);
        }
        for at in from..self.order.len() {
            let i = self.order[at];
            if (load.allowed & !load.set) >> i & 1 == 0 {
                continue;
            }
            if self.times[i].is_some_and(|time| time <= load.room) {
                if self.nodes == MOST_NODES || self.relaxed(at, &load) <= self.best {
                    return;
                }
                if let Some(with) = self.with(i, &load) {
                    self.search(at + 1, with);
                }
            }
            load.allowed &= !(1 << i);
        }
    }

    /// Value of a load with the best allowed tasks of `order[from..]`, the last one in part: the knapsack's linear relaxation. `O(n)`.
    fn relaxed(&self, from: usize, load: &Load) -> f64 {
        let (mut room, mut value) = (load.room, load.value);
        let open = load.allowed & !load.set;
        for &i in &self.order[from..] {
            if open >> i & 1 == 0 {
                continue;
            }
            let time = self.times[i].unwrap_or(u64::MAX);
            if time > room {
                return value + self.price[i] * room as f64 / time as f64;
            }
            room -= time;
            value += self.price[i];
        }
        value
    }

    /// A load with a task and all tasks between, where they are allowed and fit. `O(n)`.
    ///
    /// One round closes the set: the load is convex, so what lies between a new task and the load lies between the task and one of
    /// its relatives in the load.
    fn with(&self, task: usize, load: &Load) -> Option<Load> {
        let (before, after) = (self.line.before[task], self.line.after[task]);
        let from_load = tasks(load.set & before).fold(0, |set, i| set | (self.line.after[i] & before));
        let to_load = tasks(load.set & after).fold(0, |set, i| set | (self.line.before[i] & after));
        let added = (from_load | to_load | 1 << task) & !load.set;
        let mut next = Load {
            set: load.set | added,
            ..*load
        };
        for i in tasks(added) {
            next.room = next.room.checked_sub(self.times[i]?)?;
            next.value += self.price[i];
            next.allowed &= self.together[i];
        }
        (next.set & !next.allowed == 0).then_some(next)
    }
}
