//! The best shares for stages on given devices, where each type of resource has one share in all stages.
//!
//! Let `v` be the speed of the slowest phase of any stage, in stages per ns; the period is `1 / v`. Where speed is the share,
//! the greatest `v` is a linear program in the shares `β_j`: `v <= Σ_j A_kj β_j` and `v <= Σ_j B_kj (1 - β_j)` for each stage
//! `k` that has work in the phase. A resource with levels takes the one nearest to its share, so that its speeds are steps: the
//! points where some level changes cut the range of a share into *cells*, and within a cell what has levels adds constants.
//!
//! *Example.* Levels at 0, 1/2 and 1 change at 1/4 and 3/4: three cells. Beside a free resource of the same name each of them
//! is a linear program; by itself, a comparison of three numbers.
//!
//! Branch and bound over boxes of cells: with the fastest level in the box for either phase, the program of a box is an upper
//! bound on `v` in it, and exact in a box of single cells. A box that could be better is halved, so that the search ends.

use super::allocation::StageWork;
use crate::problem::shares::whole_on_shares_ns;
use crate::problem::shares::{self, Level};
use crate::problem::workers::{Choice, Workers};

/// How far inside a cell a share stays, for the lower end belongs to the cell below.
const INSIDE: f64 = 1e-14;

/// What rounding of doubles may make of a sum of a hundred speeds, relative to the sum of their sizes.
const DOUBLES: f64 = 2e-14;

/// Speeds that differ by no more than this, relatively, count as the same.
const SAME: f64 = 10.0 * DOUBLES;

/// The best shares, and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    /// A share for each of [`Workers::resource_names`].
    pub global: Vec<f64>,
    /// No shares make the longest phase of any stage shorter, in real ns. Infinite if some phase never ends.
    pub longest_ns: f64,
}

impl Best {
    /// A bound on the longest phase in whole ns: it is rounded as plans are, so that both agree also where real numbers lie midway.
    pub(crate) fn least_ns(&self) -> u64 {
        whole_on_shares_ns(self.longest_ns)
    }
}

/// A phase of a stage that has something to do.
struct Row {
    /// Speed of the free resources of each name, on all of them.
    free: Vec<f64>,
    /// Speed of the resources with levels of each name, by cell.
    stepped: Vec<Vec<f64>>,
    is_forward: bool,
}

/// Cells of each name, the first and the last.
type Area = Vec<[usize; 2]>;

struct PartSearch {
    rows: Vec<Row>,
    /// Ends of the cells of each name, from 0 to 1.
    edges: Vec<Vec<f64>>,
}

/// The best global shares for stages on choices that can run them.
pub(crate) fn best(workers: &Workers, stages: &[(&Choice, &StageWork)]) -> Best {
    let names = workers.resource_names.len();
    let mut search = PartSearch {
        rows: Vec::new(),
        edges: (0..names).map(|name| edges(workers, name)).collect(),
    };
    for (choice, work) in stages {
        search.add_stage(workers, choice, work);
    }
    let (speed, global) = search.run();
    Best {
        global,
        longest_ns: 1.0 / speed,
    }
}

/// Where some resource of this name changes its level, between 0 and 1.
fn edges(workers: &Workers, name: usize) -> Vec<f64> {
    let mut edges = vec![0.0, 1.0];
    for (class, of) in workers.classes.iter().enumerate() {
        for (resource, levels) in of.levels.iter().enumerate() {
            if let (Some(levels), true) = (levels, workers.name_of(class, resource) == name) {
                let change = |pair: &[Level]| shares::change(&pair[0], &pair[1]);
                edges.extend(levels.windows(2).map(change));
            }
        }
    }
    edges.sort_unstable_by(f64::total_cmp);
    edges.dedup();
    edges
}

impl PartSearch {
    fn add_stage(&mut self, workers: &Workers, choice: &Choice, work: &StageWork) {
        let Some(speeds) = workers.speeds(choice, work) else {
            return;
        };
        for phase in (0..2).filter(|&phase| !speeds.idle[phase]) {
            let cells = self.edges.iter().map(|edges| vec![0.0; edges.len() - 1]);
            let mut row = Row {
                free: vec![0.0; self.edges.len()],
                stepped: cells.collect(),
                is_forward: phase == 0,
            };
            for ((class, resource), speed) in workers.resources(choice).zip(&speeds.by_resource) {
                let name = workers.name_of(class, resource);
                let speed = [speed.forward, speed.backward][phase];
                let Some(levels) = &workers.classes[class].levels[resource] else {
                    row.free[name] += speed;
                    continue;
                };
                let ends = self.edges[name].windows(2);
                for (sum, ends) in row.stepped[name].iter_mut().zip(ends) {
                    let level = shares::nearest(levels, f64::midpoint(ends[0], ends[1]));
                    let part = level.map_or(0.0, |level| [level.forward, level.backward][phase]);
                    *sum += speed * part;
                }
            }
            self.rows.push(row);
        }
    }

    /// What the speed of the slowest phase is at most, and shares that reach it but for what doubles cannot tell.
    fn run(&self) -> (f64, Vec<f64>) {
        if self.rows.is_empty() {
            return (f64::INFINITY, vec![0.5; self.edges.len()]);
        }
        let mut best = (0.0, vec![0.5; self.edges.len()]);
        let mut most = 0.0f64;
        let mut open: Vec<Area> = vec![self.edges.iter().map(|edges| [0, edges.len() - 2]).collect()];
        while let Some(area) = open.pop() {
            let (speed, shares) = self.relaxed(&area);
            let sizes = area.iter().map(|[first, last]| last - first);
            match (0..).zip(sizes).max_by_key(|&(_, size)| size) {
                // As fast is no better, and there may be many of these.
                _ if speed <= best.0 * (1.0 + SAME) => most = most.max(speed),
                Some((name, size)) if size > 0 => open.extend(self.halves(&area, name, shares[name])),
                _ => {
                    most = most.max(speed);
                    best = (speed, self.inside(&area, shares));
                }
            }
        }
        (most, best.1)
    }

    /// Both halves of an area, the one that holds a share last: it is looked at first.
    fn halves(&self, area: &Area, name: usize, share: f64) -> [Area; 2] {
        let [first, last] = area[name];
        let middle = first + (last - first) / 2;
        let (mut low, mut high) = (area.clone(), area.clone());
        (low[name], high[name]) = ([first, middle], [middle + 1, last]);
        match share <= self.edges[name][middle + 1] {
            true => [high, low],
            false => [low, high],
        }
    }

    /// No shares of an area make the slowest phase faster than this; some do just that in an area of single cells.
    fn relaxed(&self, area: &Area) -> (f64, Vec<f64>) {
        let ends = |name: usize| {
            let [first, last] = area[name];
            [self.edges[name][first], self.edges[name][last + 1]]
        };
        let names = 0..self.edges.len();
        let row = |row: &Row| {
            let mut constant = 0.0;
            for name in names.clone() {
                let [first, last] = area[name];
                let fastest = row.stepped[name][first..=last]
                    .iter()
                    .copied()
                    .fold(0.0, f64::max);
                let at_first = match row.is_forward {
                    true => ends(name)[0],
                    false => 1.0 - ends(name)[0],
                };
                constant += fastest + row.free[name] * at_first;
            }
            let sign = if row.is_forward { 1.0 } else { -1.0 };
            (row.free.iter().map(|speed| sign * speed).collect(), constant)
        };
        let rows: Vec<(Vec<f64>, f64)> = self.rows.iter().map(row).collect();
        let widths: Vec<f64> = names.clone().map(|name| ends(name)[1] - ends(name)[0]).collect();
        let (speed, steps) = max_min(&rows, &widths);
        let shares = names.map(|name| ends(name)[0] + steps[name]).collect();
        (speed, shares)
    }

    /// The shares moved into their single cells, to a level where nothing else decides.
    fn inside(&self, area: &Area, shares: Vec<f64>) -> Vec<f64> {
        let of = |(name, share): (usize, f64)| {
            let ends = &self.edges[name][area[name][0]..][..2];
            let is_stepped = self.edges[name].len() > 2;
            match (is_stepped, self.rows.iter().all(|row| row.free[name] == 0.0)) {
                (true, true) => f64::midpoint(ends[0], ends[1]),
                (true, false) => share.clamp(ends[0] + INSIDE, ends[1] - INSIDE),
                (false, _) => share.clamp(0.0, 1.0),
            }
        };
        shares.into_iter().enumerate().map(of).collect()
    }
}

/// The greatest `t` with `t <= b + a · x` for every row `(a, b)` and `0 <= x <= w`, and an `x` that reaches it but for what doubles are
/// off by; no `t` is greater. All `b >= 0`.
///
/// The simplex method from `x = 0`, `t = 0`. Bland's rule takes the first column and the first row of those that qualify, so
/// that no basis comes back (R. Bland, *New finite pivoting rules for the simplex method*, Math. Oper. Res. 2, 1977); doubles
/// might break that, so that pivots are counted. If they run out, `t` is the least upper bound of a row: still a bound.
///
/// What is said of `t` does not rest on the pivots: see [`most_by`].
fn max_min(rows: &[(Vec<f64>, f64)], widths: &[f64]) -> (f64, Vec<f64>) {
    const MOST_PIVOTS: usize = 10_000;
    const ZERO: f64 = 1e-12;
    let n = widths.len();
    let most_of = |(a, b): &(Vec<f64>, f64)| {
        let up = a.iter().zip(widths).map(|(a, w)| a.max(0.0) * w);
        b + up.sum::<f64>()
    };
    let most = rows.iter().map(most_of).fold(f64::INFINITY, f64::min);
    if most <= 0.0 {
        return (0.0, vec![0.0; n]);
    }
    // Speeds in units of the most that `t` can be. Columns: x, t, slacks, right-hand side.
    let slacks = rows.len() + n;
    let width = n + 2 + slacks;
    let mut tableau: Vec<Vec<f64>> = Vec::with_capacity(slacks + 1);
    for (at, (a, b)) in rows.iter().enumerate() {
        let mut row = vec![0.0; width];
        a.iter().zip(&mut row).for_each(|(a, cell)| *cell = -a / most);
        (row[n], row[n + 1 + at], row[width - 1]) = (1.0, 1.0, b / most);
        tableau.push(row);
    }
    for (at, &w) in widths.iter().enumerate() {
        let mut row = vec![0.0; width];
        (row[at], row[n + 1 + rows.len() + at], row[width - 1]) = (1.0, 1.0, w);
        tableau.push(row);
    }
    let mut objective = vec![0.0; width];
    objective[n] = -1.0;
    let mut basis: Vec<usize> = (n + 1..n + 1 + slacks).collect();
    for _ in 0..MOST_PIVOTS {
        let Some(column) = objective[..width - 1].iter().position(|&cost| cost < -ZERO) else {
            let mut x = vec![0.0; n];
            for (row, &column) in tableau.iter().zip(&basis).filter(|(_, column)| **column < n) {
                x[column] = row[width - 1];
            }
            return (most_by(rows, widths, &objective[n + 1..][..rows.len()]), x);
        };
        let ratio = |row: &Vec<f64>| row[width - 1] / row[column];
        let qualifying = (0..slacks).filter(|&row| tableau[row][column] > ZERO);
        let first = |&a: &usize, &b: &usize| {
            let ratios = ratio(&tableau[a]).total_cmp(&ratio(&tableau[b]));
            ratios.then(basis[a].cmp(&basis[b]))
        };
        // `t` has a bound in every row, so that some row qualifies.
        let Some(row) = qualifying.min_by(first) else {
            break;
        };
        let pivot = tableau[row][column];
        tableau[row].iter_mut().for_each(|cell| *cell /= pivot);
        let taken = tableau[row].clone();
        let others = tableau.iter_mut().enumerate().filter(|(at, _)| *at != row);
        for other in others.map(|(_, other)| other).chain([&mut objective]) {
            let factor = other[column];
            if factor != 0.0 {
                other
                    .iter_mut()
                    .zip(&taken)
                    .for_each(|(cell, taken)| *cell -= factor * taken);
            }
        }
        basis[row] = column;
    }
    (most * (1.0 + DOUBLES), widths.iter().map(|w| w / 2.0).collect())
}

/// What `t` is at most by rows of these weights `y >= 0`: `t Σ y_r <= Σ y_r b_r + Σ_j w_j max(0, Σ_r y_r a_rj)`, whatever the weights
/// are, and with equality for those that the simplex method ends with. What doubles make of these sums, and of the speeds in them,
/// is added.
fn most_by(rows: &[(Vec<f64>, f64)], widths: &[f64], weights: &[f64]) -> f64 {
    let weighted = || rows.iter().zip(weights.iter().map(|weight| weight.max(0.0)));
    let mut sum: f64 = weighted().map(|((_, b), y)| y * b).sum();
    let mut size = sum;
    for (at, w) in widths.iter().enumerate() {
        sum += w * weighted().map(|((a, _), y)| y * a[at]).sum::<f64>().max(0.0);
        size += w * weighted().map(|((a, _), y)| y * a[at].abs()).sum::<f64>();
    }
    (sum + DOUBLES * size) / weighted().map(|(_, y)| y).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::max_min;

    #[test]
    fn two_phases_meet_where_they_take_the_same_time() {
        // t <= 2 x and t <= 3 (1 - x): x = 3/5.
        let (t, x) = max_min(&[(vec![2.0], 0.0), (vec![-3.0], 3.0)], &[1.0]);
        assert!((t - 1.2).abs() < 1e-12 && (x[0] - 0.6).abs() < 1e-12);
    }

    #[test]
    fn two_types_follow_comparative_advantage() {
        // Speeds 4 and 1 forwards, 1 and 4 backwards: all of the first forwards, all of the second backwards.
        let rows = [(vec![4.0, 1.0], 0.0), (vec![-1.0, -4.0], 5.0)];
        let (t, x) = max_min(&rows, &[1.0, 1.0]);
        assert!((t - 4.0).abs() < 1e-12 && (x[0] - 1.0).abs() < 1e-12 && x[1].abs() < 1e-12);
    }

    #[test]
    fn a_phase_without_speed_never_ends() {
        assert_eq!(max_min(&[(vec![0.0], 0.0), (vec![-1.0], 1.0)], &[1.0]).0, 0.0);
    }
}
