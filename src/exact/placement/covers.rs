//! Bounds by covers: whatever carries a rate past a layer is a set of machines whose rates add up to it.
//!
//! Every kind of machine has a price. One that holds `k` layers pays a `k`th of it for each, and a layer costs at least what the cheapest set
//! costs that carries the rate. Where all layers together cost more than all machines have, no placement carries the rate. The best prices are
//! those of a linear program, whose rows are sets that were cheapest. See `formulations/placement.md`.

use crate::formulations::placement::machine_prices;
use crate::formulations::solver::{self, SolverError};
use crate::problem::control::Control;
use crate::problem::placement::{Held, Serving};

/// Units that a rate is divided into. Rates of machines are rounded up to units, which the bound pays for by at most a unit a machine of a set.
const UNITS: usize = 1_000;

/// Rounding of sums of prices; all prices together are near the number of layers.
pub(super) const ROUNDING: f64 = 1e-7;

/// A number of layers that a machine of a kind may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub kind: usize,
    pub layers: usize,
    /// What passes at most, wherever the layers lie.
    pub rate: u64,
}

/// All choices of a problem through which something passes.
pub(super) fn choices(serving: &Serving) -> Vec<Choice> {
    let mut choices = Vec::new();
    for (kind, machines) in serving
        .kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.count > 0)
    {
        for layers in 1..=machines.rates.len() {
            let starts = [0, 1, serving.layers - layers];
            let starts = starts.iter().filter(|&start| start + layers <= serving.layers);
            let rates = starts.map(|&start| serving.usable(&Held { kind, start, layers }));
            let rate = rates.max().unwrap_or(0);
            if rate > 0 {
                choices.push(Choice { kind, layers, rate });
            }
        }
    }
    choices
}

/// Prices of machines for a rate.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// The rate that layers must carry.
    rate: u64,
    /// The price of a machine, by kind.
    pub of_a_machine: Vec<f64>,
    /// What the cheapest set costs that carries so many units past a layer.
    cover: Vec<f64>,
    /// The last choice of that set.
    last: Vec<usize>,
}

impl Prices {
    /// What sets cost at prices. Time `O(units × choices)`.
    fn new(choices: &[Choice], rate: u64, of_a_machine: Vec<f64>) -> Self {
        let options: Vec<(usize, f64)> = choices
            .iter()
            .map(|choice| {
                let units = in_units(choice.rate.min(rate), rate, true);
                (units, of_a_machine[choice.kind] / choice.layers as f64)
            })
            .collect();
        let (mut cover, mut last) = (vec![0.0], vec![usize::MAX]);
        for units in 1..=UNITS {
            let costs = options
                .iter()
                .map(|&(own, cost)| cover[units.saturating_sub(own)] + cost);
            let best = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            let (choice, cost) = best.unwrap_or((usize::MAX, f64::INFINITY));
            cover.push(cost);
            last.push(choice);
        }
        Self {
            rate,
            of_a_machine,
            cover,
            last,
        }
    }

    /// What a layer costs at least that must carry so much more.
    pub(super) fn of_a_layer(&self, missing: u64) -> f64 {
        self.cover[in_units(missing, self.rate, false)]
    }

    /// What all machines have.
    pub(super) fn of_all(&self, machines: &[usize]) -> f64 {
        let prices = self.of_a_machine.iter().zip(machines);
        prices.map(|(price, &machines)| price * machines as f64).sum()
    }

    /// The cheapest set that carries the whole rate: how many machines of each kind it takes a layer.
    fn cheapest(&self, choices: &[Choice]) -> Vec<f64> {
        let mut parts = vec![0.0; self.of_a_machine.len()];
        let mut units = UNITS;
        while units > 0 {
            let choice = &choices[self.last[units]];
            parts[choice.kind] += 1.0 / choice.layers as f64;
            units = units.saturating_sub(in_units(choice.rate.min(self.rate), self.rate, true));
        }
        parts
    }
}

/// A part of a rate in units, rounded up or down.
fn in_units(part: u64, rate: u64, up: bool) -> usize {
    let product = u128::from(part) * UNITS as u128;
    let rate = u128::from(rate);
    (if up {
        product.div_ceil(rate)
    } else {
        product / rate
    }) as usize
}

/// The covers of a problem.
pub(super) struct Covers<'a> {
    serving: &'a Serving,
    pub choices: Vec<Choice>,
}

impl<'a> Covers<'a> {
    pub(super) fn new(serving: &'a Serving) -> Self {
        let choices = choices(serving);
        Self { serving, choices }
    }

    fn machines(&self) -> Vec<usize> {
        self.serving.kinds.iter().map(|kind| kind.count).collect()
    }

    /// Given prices for a rate.
    pub(super) fn at(&self, rate: u64, of_a_machine: &[f64]) -> Prices {
        Prices::new(&self.choices, rate, of_a_machine.to_vec())
    }

    /// The prices that say most of a rate; it is at least 1, and there are choices.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn prices(&self, rate: u64, control: &Control) -> Result<Prices, SolverError> {
        /// Sets after which prices are good enough: each is a valid choice.
        const MOST_SETS: usize = 200;
        /// How near to the best they must be.
        const NEAR: f64 = 1e-4;
        let work = |kind: usize| {
            let own = self.choices.iter().filter(|choice| choice.kind == kind);
            let work = own.map(|choice| choice.layers as f64 * choice.rate.min(rate) as f64 / rate as f64);
            work.fold(0.0, f64::max)
        };
        let work = (0..self.serving.kinds.len()).map(work).collect();
        let mut prices = Prices::new(&self.choices, rate, work);
        let machines = self.machines();
        let worth = |prices: &Prices| prices.of_all(&machines) / prices.of_a_layer(rate);
        if self.refute(&prices) {
            return Ok(prices);
        }
        let mut best = prices.clone();
        let mut sets = Vec::new();
        while sets.len() < MOST_SETS && control.limit().is_none() {
            sets.push(prices.cheapest(&self.choices));
            let Some((next, value)) = self.next(&sets, control)? else {
                break;
            };
            prices = Prices::new(&self.choices, rate, next);
            if worth(&prices) < worth(&best) {
                best = prices.clone();
            }
            if worth(&best) <= value * (1.0 + NEAR) || self.refute(&best) {
                break;
            }
        }
        Ok(best)
    }

    /// Prices at which every set costs 1 at least and all machines have the least.
    fn next(&self, sets: &[Vec<f64>], control: &Control) -> Result<Option<(Vec<f64>, f64)>, SolverError> {
        let (program, columns) = machine_prices(sets, &self.machines(), self.serving.layers);
        let solved = solver::solve(program, None, None, control, &|_| {})?;
        let prices = solved.values.map(|values| {
            let prices: Vec<f64> = columns
                .iter()
                .map(|column| column.value(&values).max(0.0))
                .collect();
            (prices, solved.bound)
        });
        Ok(prices.filter(|_| solved.bound.is_finite()))
    }

    /// Whether no placement carries the rate, by its prices.
    pub(super) fn refute(&self, prices: &Prices) -> bool {
        let needed = prices.of_a_layer(prices.rate) * self.serving.layers as f64;
        needed > prices.of_all(&self.machines()) * (1.0 + ROUNDING)
    }

    /// A rate that no placement exceeds, found by halving, and prices near to it.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn bound(&self, control: &Control) -> Result<(u64, Vec<f64>), SolverError> {
        /// Where halving ends, as a part of the bound.
        const NEAR: u64 = 1_000;
        let most = |kind: usize| {
            let own = self.choices.iter().filter(|choice| choice.kind == kind);
            own.map(|choice| choice.rate).max().unwrap_or(0)
        };
        let all = |(kind, machines): (usize, usize)| machines as u64 * most(kind);
        let mut refuted: u64 = self.machines().into_iter().enumerate().map(all).sum::<u64>() + 1;
        let (mut open, mut near) = (0, vec![1.0; self.serving.kinds.len()]);
        while refuted - open > 1 + refuted / NEAR && control.limit().is_none() {
            let middle = open + (refuted - open) / 2;
            let prices = self.prices(middle, control)?;
            match self.refute(&prices) {
                true => refuted = middle,
                false => (open, near) = (middle, prices.of_a_machine),
            }
        }
        Ok((refuted - 1, near))
    }
}
