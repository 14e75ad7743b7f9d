//! Brute force where workers differ: every plan of a handful of items on every choice of devices.

use petgraph::Direction::Incoming;

use crate::cost;
use crate::options::{Shares, WorkerMode};
use crate::problem::{Assignment, Problem};
use crate::shares::Level;
use crate::workers::{self, Allocation, StageWork, Workers};

/// Most items that brute force takes.
pub const MOST_ITEMS: usize = 10;

/// Most choices of devices for a stage.
pub const MOST_CHOICES: usize = 100;

/// Why brute force refuses a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many items or choices to try every plan.
    #[error(
        "found {items} items and {choices} choices of devices, expected at most {MOST_ITEMS} and {MOST_CHOICES} for brute force"
    )]
    TooMany {
        /// Items of the problem.
        items: usize,
        /// Choices of devices.
        choices: usize,
    },
    /// Devices of one resource type, or the types of one plan, allow different shares: one share means different levels.
    #[error(
        "found `{0}` with other levels than before, expected all types in all kinds alike for `--shares global`"
    )]
    UnlikeLevels(String),
}

/// A best plan and its objective in ns, or `None` where there is no plan at all.
///
/// Shares are those of the policy, as [`Workers::load`] takes them; global ones are chosen best for each plan, by trying
/// every vertex of the linear program in them, or every level.
///
/// # Errors
///
/// [`Refusal`].
///
/// # Complexity
///
/// O((q c)^n) plans for n items, q stages and c choices, fewer for order pairs, stock and plans that are already worse.
pub fn solve(problem: &Problem, workers: &Workers) -> Result<Option<(Allocation, u64)>, Refusal> {
    let (items, choices) = (problem.items.len(), workers.choices.len());
    if items > MOST_ITEMS || choices > MOST_CHOICES {
        return Err(Refusal::TooMany { items, choices });
    }
    let is_global =
        problem.settings.worker == WorkerMode::Concurrent && problem.settings.shares == Shares::Global;
    let mut search = Search {
        problem,
        workers,
        grid: match is_global {
            true => Some(grid(workers)?),
            false => None,
        },
        assignment: Vec::with_capacity(items),
        best: None,
    };
    search.place_next();
    Ok(search.best)
}

/// The shares to try for every resource type; `None` where any share goes.
fn grid(workers: &Workers) -> Result<Option<Vec<f64>>, Refusal> {
    let mut common: Option<Option<Vec<f64>>> = None;
    for class in &workers.classes {
        for (resource, levels) in class.resources.iter().zip(&class.levels) {
            let shares = |levels: &Vec<Level>| levels.iter().map(|level| level.share).collect();
            let grid: Option<Vec<f64>> = levels.as_ref().map(shares);
            if *common.get_or_insert_with(|| grid.clone()) != grid {
                return Err(Refusal::UnlikeLevels(resource.name.clone()));
            }
        }
    }
    Ok(common.flatten())
}

struct Search<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    /// With global shares, those to try, or `None` for any.
    grid: Option<Option<Vec<f64>>>,
    assignment: Assignment,
    best: Option<(Allocation, u64)>,
}

/// What every stage costs on every choice at best, in ns; `u64::MAX` where it cannot run.
type Costs = Vec<Vec<u64>>;

impl Search<'_> {
    /// Tries every stage for the first item without one. Items are in topological order, so all before it are placed.
    fn place_next(&mut self) {
        let item = self.assignment.len();
        if item == self.problem.items.len() {
            return self.choose_all();
        }
        let order = &self.problem.order;
        let before = order.neighbors_directed((item as u32).into(), Incoming);
        let earliest = before.map(|u| self.assignment[u.index()]).max().unwrap_or(0);
        for stage in earliest..self.problem.stages() {
            self.assignment.push(stage);
            self.place_next();
            self.assignment.pop();
        }
    }

    /// Tries every choice for the stages of the assignment, unless one of them is empty.
    fn choose_all(&mut self) {
        let used = self.assignment.iter().max().map_or(0, |most| most + 1);
        if (0..used).any(|stage| !self.assignment.contains(&stage)) {
            return;
        }
        let works = self.workers.works(self.problem, &self.assignment, used);
        let memory = cost::stage_memory_bytes(self.problem, &self.assignment, used);
        let cost = |stage: usize, choice| {
            let fits = memory[stage] <= self.workers.memory_bytes(&self.problem.settings, choice);
            let load = || self.workers.load(self.problem, choice, &works[stage], &[]);
            let load = if fits { load() } else { None };
            load.map_or(u64::MAX, |load| workers::objective_of(self.problem, &[&load]))
        };
        let choices = &self.workers.choices;
        let costs: Costs = (0..used)
            .map(|stage| choices.iter().map(|choice| cost(stage, choice)).collect())
            .collect();
        let left = self.workers.stock.clone();
        self.choose_next(&works, &costs, &mut Vec::new(), &left);
    }

    fn choose_next(&mut self, works: &[StageWork], costs: &Costs, chosen: &mut Vec<usize>, left: &[usize]) {
        let best_ns = self.best.as_ref().map_or(u64::MAX, |&(_, ns)| ns);
        let stage = chosen.len();
        if stage == costs.len() {
            return self.keep_if_better(works, chosen);
        }
        for (at, choice) in self.workers.choices.iter().enumerate() {
            let takes = left.iter().zip(&choice.takes);
            let left: Option<Vec<usize>> = takes.map(|(left, takes)| left.checked_sub(*takes)).collect();
            if let Some(left) = left.filter(|_| costs[stage][at] < best_ns) {
                chosen.push(at);
                self.choose_next(works, costs, chosen, &left);
                chosen.pop();
            }
        }
    }

    fn keep_if_better(&mut self, works: &[StageWork], choices: &[usize]) {
        let candidates = match &self.grid {
            None => vec![Vec::new()],
            Some(None) => vec![best_global(self.workers, works, choices)],
            Some(Some(shares)) => self.combinations(shares),
        };
        for global in candidates {
            let allocation = Allocation {
                assignment: self.assignment.clone(),
                choices: choices.to_vec(),
                global,
            };
            let objective_ns = self.workers.objective_ns(self.problem, &allocation);
            let is_better = self.best.as_ref().is_none_or(|&(_, best)| objective_ns < best);
            if is_better && self.workers.is_feasible(self.problem, &allocation) {
                self.best = Some((allocation, objective_ns));
            }
        }
    }

    /// Every combination of these shares, one for each type.
    fn combinations(&self, shares: &[f64]) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::new()];
        for _ in &self.workers.resource_names {
            let longer = |taken: &Vec<f64>| {
                let taken = taken.clone();
                shares
                    .iter()
                    .map(move |&share| [taken.clone(), vec![share]].concat())
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }
}

/// The global shares that make the slowest phase of any stage as fast as can be, where speed is the share.
///
/// Maximise t with Σ_r A_kr β_r >= t and Σ_r B_kr (1 - β_r) >= t for each stage k that works in the phase, and shares β_r
/// from 0 to 1: some optimum is a vertex, where as many of these hold with equality as there are unknowns. With one type
/// that is β = B / (A + B) for the least speeds A and B.
pub fn best_global(workers: &Workers, works: &[StageWork], choices: &[usize]) -> Vec<f64> {
    let types = workers.resource_names.len();
    // Rows `a · (β, t) >= b`.
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for (work, &choice) in works.iter().zip(choices) {
        let choice = &workers.choices[choice];
        for phase in 0..2 {
            let mut speeds = vec![0.0; types];
            let mut works_in_phase = true;
            for (class, resource) in workers.resources(choice) {
                let time_ns = work.times_ns[class].map_or(0, |times| times[phase]);
                works_in_phase &= time_ns > 0;
                let rates = &workers.classes[class].resources[resource];
                let rate = [rates.forward_rate, rates.backward_rate][phase];
                // In stages per ms, so that numbers lie near 1.
                let speed = 1e6 * choice.devices[class] as f64 * rate / time_ns.max(1) as f64;
                speeds[workers.name_of(class, resource)] += speed;
            }
            if works_in_phase {
                let all: f64 = speeds.iter().sum();
                let (sign, most) = if phase == 0 { (1.0, 0.0) } else { (-1.0, -all) };
                let mut row: Vec<f64> = speeds.iter().map(|speed| sign * speed).collect();
                row.push(-1.0);
                rows.push((row, most));
            }
        }
    }
    for r in 0..types {
        let unit = |sign: f64| (0..=types).map(|at| if at == r { sign } else { 0.0 }).collect();
        rows.push((unit(1.0), 0.0));
        rows.push((unit(-1.0), -1.0));
    }
    let mut best: Option<Vec<f64>> = None;
    let mut at: Vec<usize> = (0..=types).collect();
    loop {
        let active: Vec<(Vec<f64>, f64)> = at.iter().map(|&row| rows[row].clone()).collect();
        if let Some(point) = intersection(active) {
            let holds = |(a, b): &(Vec<f64>, f64)| {
                let value: f64 = a.iter().zip(&point).map(|(a, x)| a * x).sum();
                let size = a.iter().map(|a| a.abs()).fold(1.0, f64::max);
                value >= b - 1e-12 * size
            };
            let is_better = best.as_ref().is_none_or(|best| point[types] > best[types]);
            if is_better && rows.iter().all(holds) {
                best = Some(point);
            }
        }
        // The next subset in lexicographic order.
        let last = rows.len() - at.len();
        let Some(grow) = (0..at.len()).rev().find(|&i| at[i] < last + i) else {
            break;
        };
        at[grow] += 1;
        (grow + 1..at.len()).for_each(|i| at[i] = at[i - 1] + 1);
    }
    // Without a vertex nothing works at all, and any shares do.
    let mut shares = best.unwrap_or_else(|| vec![0.5; types]);
    shares.truncate(types);
    shares.iter_mut().for_each(|share| *share = share.clamp(0.0, 1.0));
    shares
}

/// Where so many hyperplanes meet as there are dimensions; `None` if not in one point. Gauss with partial pivoting.
fn intersection(mut rows: Vec<(Vec<f64>, f64)>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let size = |row: &(Vec<f64>, f64)| row.0[column].abs();
        let pivot = (column..n).max_by(|&a, &b| size(&rows[a]).total_cmp(&size(&rows[b])))?;
        if size(&rows[pivot]) < 1e-12 {
            return None;
        }
        rows.swap(column, pivot);
        let (by, right) = rows[column].clone();
        for (other, row) in rows.iter_mut().enumerate() {
            if other != column {
                let factor = row.0[column] / by[column];
                row.0.iter_mut().zip(&by).for_each(|(a, b)| *a -= factor * b);
                row.1 -= factor * right;
            }
        }
    }
    Some((0..n).map(|i| rows[i].1 / rows[i].0[i]).collect())
}

#[cfg(test)]
mod tests {
    use super::intersection;

    #[test]
    fn hyperplanes_meet_in_one_point_or_not() {
        let point = intersection(vec![(vec![0.0, 2.0], 4.0), (vec![1.0, 1.0], 3.0)]);
        assert_eq!(point, Some(vec![1.0, 2.0]));
        let parallel = intersection(vec![(vec![1.0, 2.0], 4.0), (vec![2.0, 4.0], 3.0)]);
        assert_eq!(parallel, None);
    }
}
