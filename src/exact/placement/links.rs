//! Bounds that know links: what is handed on at a boundary goes over links from machines that end there to machines that start there.
//!
//! `e` machines hand `t` on to `s` only if `t <= u e s`, where `u` is what a link carries: so either many end or many start. A machine ends once
//! and starts once. Prices of boundaries say what that costs, potentials what it costs to bring a rate past all layers. See
//! `formulations/placement.md`.

use super::covers::{Covers, Prices};
use crate::formulations::placement::{Holds, LinkPrices, Side, link_prices};
use crate::formulations::solver::{self, SolverError};
use crate::problem::control::Control;
use crate::problem::placement::{Held, Serving};

/// Rows of a program beyond which it is not built.
const MOST_ROWS: usize = 60_000;

/// Entries of its rows beyond which sides of kinds are left out.
const MOST_ENTRIES: usize = 100_000;

/// Rounding of sums of prices; all machines together have 1.
pub(super) const ROUNDING: f64 = 1e-9;

/// Prices of machines and boundaries for a rate.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// What a machine of a kind has.
    pub of_a_machine: Vec<f64>,
    /// What a rate costs from a boundary on that machines at work of a kind bring there, by kind and boundary; nothing behind the last layer.
    to_go: Vec<Vec<f64>>,
    /// What a machine of a kind that ends at a boundary has paid there.
    ended: Vec<Vec<f64>>,
    /// How much of the prices of covers machines pay beside.
    pub covers: f64,
    /// What all layers cost.
    all: f64,
}

impl Links {
    /// The prices that say most of a rate beside those of covers; none where the program would be too large or is not solved.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn new(
        covers: &Covers,
        serving: &Serving,
        (rate, prices): (u64, &Prices),
        control: &Control,
    ) -> Result<Option<Self>, SolverError> {
        let holds = holds(covers, serving, rate);
        if holds.len() * 2 > MOST_ROWS || serving.layers < 2 {
            return Ok(None);
        }
        let mut sides = sides(serving, rate);
        if holds.len() * sides.len() > MOST_ENTRIES {
            sides.retain(|side| side.from.is_none() && side.to.is_none());
        }
        let cover = prices.of_a_layer(rate) * serving.layers as f64;
        // Prices of covers in parts of what all layers cost at them.
        let of_covers: Vec<f64> = prices.of_a_machine.iter().map(|price| price / cover).collect();
        let asked = link_prices(serving, &holds, &sides, (&of_covers, 1.0));
        let solved = solver::solve(asked.program.clone(), None, None, control, &|_| {})?;
        let found = solved
            .values
            .map(|values| Self::read(serving, &sides, &asked, &values));
        Ok(found.map(|own| Self {
            covers: own.covers / cover,
            ..own.pay(&holds, &of_covers)
        }))
    }

    /// Prices of boundaries by column values; machines are not paid yet.
    fn read(serving: &Serving, sides: &[Side], asked: &LinkPrices, values: &[f64]) -> Own {
        let value = |column: &crate::formulations::Column| column.value(values).max(0.0);
        let potentials: Vec<f64> = std::iter::once(0.0)
            .chain(asked.potentials.iter().map(value))
            .collect();
        let zeros = || vec![vec![0.0; serving.layers + 1]; serving.kinds.len()];
        let mut own = Own {
            potentials,
            handed: zeros(),
            taken: zeros(),
            ended: zeros(),
            started: zeros(),
            covers: value(&asked.covers),
        };
        for (at, columns) in asked.sides.iter().enumerate() {
            for (column, side) in columns.iter().zip(sides) {
                let price = value(column);
                for kind in 0..serving.kinds.len() {
                    let (ends, handed) = side.ended(kind);
                    let (starts, taken) = side.started(kind);
                    own.ended[kind][at + 1] += price * ends;
                    own.started[kind][at + 1] += price * starts;
                    own.handed[kind][at + 1] += price * handed;
                    own.taken[kind][at + 1] += price * taken;
                }
            }
        }
        own
    }

    /// Whether no placement carries the rate.
    pub(super) fn refute(&self, machines: impl Iterator<Item = usize>) -> bool {
        self.all > self.of_all(machines) * (1.0 + ROUNDING) + ROUNDING
    }

    /// What machines have, by how many there are of each kind.
    pub(super) fn of_all(&self, machines: impl Iterator<Item = usize>) -> f64 {
        let prices = self.of_a_machine.iter().zip(machines);
        prices.map(|(price, machines)| price * machines as f64).sum()
    }

    /// What machines that start later must pay at least beside covers: by the groups at work, each with its kind, its end and how many machines it has, and by
    /// what may pass at most through a set of them, in parts of the rate.
    ///
    /// Flows that can be had are a polymatroid, and the cheapest goes to those groups first behind which least is left to pay.
    pub(super) fn rest(&self, groups: &[(usize, usize, usize)], most: &dyn Fn(usize) -> f64) -> f64 {
        let to_go = |group: usize| self.to_go[groups[group].0][groups[group].1];
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|&a, &b| to_go(a).total_cmp(&to_go(b)));
        let (mut set, mut passed, mut cost) = (0, 0.0, 0.0);
        for group in order {
            set |= 1 << group;
            let now = most(set);
            cost += (now - passed) * to_go(group);
            passed = now;
        }
        let paid = groups
            .iter()
            .map(|&(kind, end, count)| count as f64 * self.ended[kind][end]);
        cost - paid.sum::<f64>()
    }
}

/// Prices of boundaries, to which those of machines are found.
struct Own {
    potentials: Vec<f64>,
    /// What a whole rate costs that machines of a kind hand on at a boundary, and take there.
    handed: Vec<Vec<f64>>,
    taken: Vec<Vec<f64>>,
    ended: Vec<Vec<f64>>,
    started: Vec<Vec<f64>>,
    covers: f64,
}

impl Own {
    /// The least that machines must have, whatever they hold: so the prices are right however the program was solved.
    fn pay(self, holds: &[Holds], of_covers: &[f64]) -> Links {
        let mut of_a_machine = vec![0.0_f64; of_covers.len()];
        for (held, part) in holds {
            let (kind, start, end) = (held.kind, held.start, held.end());
            let passes = self.potentials[end]
                - self.potentials[start]
                - self.handed[kind][end]
                - self.taken[kind][start];
            let stands = self.covers * of_covers[kind] + self.ended[kind][end] + self.started[kind][start];
            of_a_machine[kind] = of_a_machine[kind].max(stands + part * passes.max(0.0));
        }
        let last = self.potentials.last().copied().unwrap_or(0.0);
        let to_go = |handed: &Vec<f64>| {
            let costs = self.potentials.iter().zip(handed);
            costs
                .map(|(potential, handed)| last - potential + handed)
                .collect()
        };
        Links {
            of_a_machine,
            to_go: self.handed.iter().map(to_go).collect(),
            ended: self.ended,
            covers: self.covers,
            all: last - self.potentials[0] + self.covers,
        }
    }
}

/// What machines may hold.
fn holds(covers: &Covers, serving: &Serving, rate: u64) -> Vec<Holds> {
    let mut holds = Vec::new();
    for choice in &covers.choices {
        for start in 0..=serving.layers - choice.layers {
            let held = Held {
                kind: choice.kind,
                start,
                layers: choice.layers,
            };
            let passes = serving.usable(&held).min(rate);
            if passes > 0 {
                holds.push((held, passes as f64 / rate as f64));
            }
        }
    }
    holds
}

/// The sides of what machines can hand on, all of them, those of a kind to all, and all to those of a kind: lines below all points `(e, s)`
/// times the rate over what `e` machines can hand on to `s`.
fn sides(serving: &Serving, rate: u64) -> Vec<Side> {
    let kinds = || (0..serving.kinds.len()).filter(|&kind| serving.kinds[kind].count > 0);
    let mut sides = Vec::new();
    let several = kinds().count() > 1;
    let of_kinds = kinds()
        .filter(|_| several)
        .flat_map(|kind| [(Some(kind), None), (None, Some(kind))]);
    for (from, to) in [(None, None)].into_iter().chain(of_kinds) {
        let among = |own: Option<usize>| move |kind: &usize| own.is_none_or(|own| own == *kind);
        let count = |own| {
            kinds()
                .filter(among(own))
                .map(|kind| serving.kinds[kind].count)
                .sum::<usize>()
        };
        let fastest = |own| {
            let rates = kinds()
                .filter(among(own))
                .flat_map(|kind| serving.kinds[kind].rates.iter().copied());
            rates.max().unwrap_or(0)
        };
        let links = kinds()
            .filter(among(from))
            .flat_map(|from| kinds().filter(among(to)).map(move |to| serving.between[from][to]));
        let link = links.max().unwrap_or(0);
        let mut points = Vec::new();
        for ends in 1..=count(from) {
            for starts in 1..=count(to).min(serving.machines() - ends) {
                let over_links = link.saturating_mul((ends * starts) as u64);
                let of_ends = fastest(from).saturating_mul(ends as u64);
                let of_starts = fastest(to).saturating_mul(starts as u64);
                let handed = over_links.min(of_ends).min(of_starts).min(rate);
                if handed > 0 {
                    let times = rate as f64 / handed as f64;
                    points.push((ends as f64 * times, starts as f64 * times));
                }
            }
        }
        let of_all = |[ends, starts]: [f64; 2]| Side {
            ends,
            starts,
            from,
            to,
        };
        sides.extend(lower_left(points).into_iter().map(of_all));
    }
    sides
}

/// Lines through neighbours of the lower left hull of points, and the two that no point lies beyond, each scaled to 1.
fn lower_left(mut points: Vec<(f64, f64)>) -> Vec<[f64; 2]> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if hull.last().is_some_and(|last| last.1 <= point.1) {
            continue;
        }
        let turns = |a: (f64, f64), b: (f64, f64)| {
            (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0) <= 0.0
        };
        while hull.len() > 1 && turns(hull[hull.len() - 2], hull[hull.len() - 1]) {
            hull.pop();
        }
        hull.push(point);
    }
    let scaled = |(ends, starts): (f64, f64)| {
        let values = hull.iter().map(|point| ends * point.0 + starts * point.1);
        let least = values.fold(f64::INFINITY, f64::min);
        [ends / least, starts / least]
    };
    let between = hull
        .windows(2)
        .map(|two| (two[0].1 - two[1].1, two[1].0 - two[0].0));
    let sides = [(1.0, 0.0), (0.0, 1.0)].into_iter().chain(between).map(scaled);
    // Without points nothing can be handed on, which no line says.
    sides.filter(|_| !hull.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::lower_left;

    #[test]
    fn sides_lie_below_all_points_and_touch_some() {
        let points = vec![
            (1.0, 8.0),
            (2.0, 4.0),
            (4.0, 2.0),
            (3.0, 3.0),
            (8.0, 1.0),
            (5.0, 5.0),
        ];
        let sides = lower_left(points.clone());
        assert_eq!(sides.len(), 5);
        for [ends, starts] in sides {
            let values = points.iter().map(|point| ends * point.0 + starts * point.1);
            let least = values.fold(f64::INFINITY, f64::min);
            assert!((least - 1.0).abs() < 1e-12, "{ends} {starts}: {least}");
        }
    }
}
