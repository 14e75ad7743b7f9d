//! Prices of items such that no stage within the limit is worth more than one device.

use crate::exact::stage_diagram::budget::Budget;
use crate::exact::stage_diagram::completions::{Collector, Completions, Label, NOTHING};
use crate::exact::stage_diagram::diagram::{Diagram, NOWHERE};
use crate::exact::stage_diagram::sweep::Choice;
use crate::exact::tuning::TUNING;
use crate::problem::Problem;
use crate::problem::plan::StoppedBy;

/// The price of a device: prices of items are whole fractions of it.
pub(super) const DEVICE: u64 = 1 << 30;

/// Prices and what follows from them.
pub(super) struct Prices {
    /// The price of each item.
    pub of_item: Vec<u64>,
    /// What the rest of a stage may be worth.
    pub completions: Completions,
    /// What the devices are worth beyond the items.
    pub slack: u64,
}

impl Prices {
    /// Raises prices as far as a few rounds can; `None` if the items are worth more than the devices, so that no plan keeps the
    /// limit. Begins with prices that are known, and leaves the best there.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub(super) fn new(
        problem: &Problem,
        diagram: &Diagram,
        known: &mut Vec<u64>,
        budget: &mut Budget,
    ) -> Result<Option<Self>, StoppedBy> {
        let rounds = TUNING.rounds_of_prices[usize::from(!known.is_empty())];
        if known.is_empty() {
            let share = |work_ns: u64| {
                (u128::from(work_ns) * u128::from(DEVICE) / u128::from(diagram.limit_ns.max(1))) as u64
            };
            *known = problem
                .items
                .iter()
                .map(|item| share(item.work_ns()).clamp(1, DEVICE))
                .collect();
        }
        let mut raised = Raised {
            prices: known,
            sum: 0,
            devices: DEVICE * problem.stages() as u64,
        };
        let mut prices = raised.prices.clone();
        let mut idle_rounds = 0;
        for _ in 0..rounds {
            let completions = Completions::new(diagram, &prices, budget)?;
            let dearest = dearest_stages(diagram, &prices, &completions, budget)?;
            for (price, dearest) in prices.iter_mut().zip(dearest) {
                if dearest == 0 {
                    // No stage with the item keeps the limit.
                    return Ok(None);
                }
                // Rounded down, with 1 for each item that the rest of the device pays.
                *price = 1 + *price * (DEVICE - problem.items.len() as u64) / dearest;
            }
            let Some(is_much) = raised.offer(&prices) else {
                return Ok(None);
            };
            idle_rounds = if is_much { 0 } else { idle_rounds + 1 };
            if idle_rounds == TUNING.idle_rounds_of_prices {
                break;
            }
        }
        Ok(Some(Self {
            of_item: raised.prices.clone(),
            completions: Completions::new(diagram, raised.prices, budget)?,
            slack: raised.devices - raised.sum,
        }))
    }
}

/// The best prices so far.
struct Raised<'p> {
    prices: &'p mut Vec<u64>,
    sum: u64,
    /// What all devices are worth.
    devices: u64,
}

impl Raised<'_> {
    /// Keeps prices that are worth more; whether they are worth much more, and `None` if they are worth more than the devices.
    fn offer(&mut self, prices: &[u64]) -> Option<bool> {
        let sum = prices.iter().sum();
        let slack = self.devices.checked_sub(sum)?;
        let is_much = sum > self.sum + slack / TUNING.least_gain_of_a_round;
        if sum > self.sum {
            self.sum = sum;
            self.prices.clear();
            self.prices.extend(prices);
        }
        Some(is_much)
    }
}

/// For each item, at least what the dearest stage with it is worth that keeps the limit; 0 where there is none.
fn dearest_stages(
    diagram: &Diagram,
    prices: &[u64],
    completions: &Completions,
    budget: &mut Budget,
) -> Result<Vec<u64>, StoppedBy> {
    let mut dearest = vec![0; prices.len()];
    let mut collector = Collector::new(diagram);
    let mut front = vec![vec![NOTHING]];
    for (at, layer) in diagram.layers.iter().enumerate() {
        let price = prices[layer.item];
        for (labels, node) in front.iter().zip(&layer.nodes) {
            let to = node.to[Choice::Inside as usize];
            if to != NOWHERE {
                let with_item = labels.iter().map(|label| label.with(node, Choice::Inside, price));
                let best = dearest_way(with_item, completions.of(at + 1, to), diagram.limit_ns);
                dearest[layer.item] = best.max(dearest[layer.item]);
            }
        }
        let mut next = Vec::with_capacity(diagram.last);
        for ways in layer.ways_into_next() {
            for &(from, choice) in ways {
                let node = &layer.nodes[from as usize];
                collector.put(
                    front[from as usize]
                        .iter()
                        .map(|label| label.with(node, choice, price)),
                );
            }
            let mut labels = Vec::new();
            collector.hand_out(&mut labels);
            budget.take(2 * labels.len() as u64)?;
            next.push(labels);
        }
        front = next;
    }
    Ok(dearest)
}

/// At least what the dearest of all that begin with one of some labels and end with another is worth; 0 where none keeps the limit.
/// Labels come by load, those with less price left out.
fn dearest_way(starts: impl Iterator<Item = Label>, ends: &[Label], limit_ns: u64) -> u64 {
    let mut left = ends;
    let mut best = 0;
    for start in starts {
        while let Some((last, others)) = left.split_last()
            && start.load_ns + last.load_ns > limit_ns
        {
            left = others;
        }
        let Some(end) = left.last() else {
            break;
        };
        best = best.max(start.price + end.price);
    }
    best
}
