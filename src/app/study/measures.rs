//! The measures of a summary: methods over all runs, by group, against each other, and at their worst.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cells::{Bracket, Cell};
use super::row::Row;
use super::statistics::{bootstrap, geometric_mean, mean, quantile};

/// Objectives that differ by less, relatively, are alike where methods or versions are compared.
pub(super) const TIE: f64 = 1e-7;
/// No clock measures shorter times well; ratios of times are taken from here on.
pub(crate) const SHORTEST_S: f64 = 1e-6;
/// Cases that are named as the worst.
const WORST: usize = 10;

/// A method over all its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct MethodRow {
    /// The method.
    pub method: String,
    /// Runs on problems that are not proved to have no plan.
    pub runs: usize,
    /// Of them, those whose plan meets the best bound of all methods.
    pub solved: usize,
    /// The part of runs that are.
    pub solved_share: Option<f64>,
    /// Runs without a plan.
    pub without_plan: usize,
    /// Of them, those that crashed, or went over a limit.
    pub failed: usize,
    /// Gaps: at least and at most.
    pub mean_gap_low: Option<f64>,
    /// See `mean_gap_low`.
    pub mean_gap_high: Option<f64>,
    /// See `mean_gap_low`.
    pub median_gap_low: Option<f64>,
    /// See `mean_gap_low`.
    pub median_gap_high: Option<f64>,
    /// See `mean_gap_low`.
    pub p95_gap_low: Option<f64>,
    /// See `mean_gap_low`.
    pub p95_gap_high: Option<f64>,
    /// See `mean_gap_low`.
    pub worst_gap_low: Option<f64>,
    /// See `mean_gap_low`.
    pub worst_gap_high: Option<f64>,
    /// Median of seconds.
    pub median_s: Option<f64>,
    /// 95th percentile of seconds.
    pub p95_s: Option<f64>,
    /// Geometric mean over problems of its time over the reference's.
    pub time_ratio: Option<f64>,
    /// The interval of 95 % around it.
    pub time_ratio_low: Option<f64>,
    /// See `time_ratio_low`.
    pub time_ratio_high: Option<f64>,
}

/// Mean gaps of a method over a part of the problems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Group {
    /// The method.
    pub method: String,
    /// What the part has in common.
    pub group: String,
    /// Stages or layers; 0 where the group has no size.
    pub x: usize,
    /// Runs with a plan.
    pub runs: usize,
    /// Mean gap, at least.
    pub mean_gap_low: f64,
    /// Mean gap, at most.
    pub mean_gap_high: f64,
}

/// A run with a large gap.
pub(crate) struct Case<'a> {
    /// The run.
    pub row: &'a Row,
    /// The method's name among the others.
    pub method: String,
    /// The problem in words.
    pub name: String,
    /// Its gap.
    pub gap: Bracket,
    /// The best objective of the problem, in ms.
    pub best_ms: f64,
}

/// A run that counts, and its gap where it has a plan.
pub(super) struct Run<'a> {
    pub cell: usize,
    pub row: &'a Row,
    pub gap: Option<Bracket>,
}

pub(super) fn objective(run: &Run) -> f64 {
    run.row.objective_ms.unwrap_or(f64::INFINITY)
}

pub(super) fn seconds(run: &Run) -> f64 {
    run.row
        .seconds
        .map_or(f64::INFINITY, |seconds| seconds.max(SHORTEST_S))
}

fn is_solved(run: &Run) -> bool {
    run.gap.is_some_and(|gap| gap.high == 0.0)
}

pub(super) fn seconds_if_solved(run: &Run) -> f64 {
    match is_solved(run) {
        true => seconds(run),
        false => f64::INFINITY,
    }
}

/// Mean cost of a method's runs on every problem; absent where it has none.
pub(super) fn by_cell(runs: &[Run], cells: usize, cost: fn(&Run) -> f64) -> Vec<Option<f64>> {
    let mut of: Vec<Vec<f64>> = vec![Vec::new(); cells];
    for run in runs {
        of[run.cell].push(cost(run));
    }
    of.iter().map(|costs| mean(costs)).collect()
}

pub(super) fn method_row(name: &str, runs: &[Run], reference_s: &[Option<f64>]) -> MethodRow {
    let gaps: Vec<Bracket> = runs.iter().filter_map(|run| run.gap).collect();
    let low: Vec<f64> = gaps.iter().map(|gap| gap.low).collect();
    let high: Vec<f64> = gaps.iter().map(|gap| gap.high).collect();
    let times: Vec<f64> = runs.iter().filter_map(|run| run.row.seconds).collect();
    let own_s = by_cell(runs, reference_s.len(), seconds);
    let pairs = own_s
        .iter()
        .zip(reference_s)
        .filter_map(|(own, other)| own.zip(*other));
    let ratios: Vec<f64> = pairs
        .map(|(own, other)| own / other)
        .filter(|ratio| ratio.is_normal())
        .collect();
    let interval = bootstrap(&ratios, geometric_mean);
    let solved = runs.iter().filter(|run| is_solved(run)).count();
    MethodRow {
        method: name.into(),
        runs: runs.len(),
        solved,
        solved_share: Some(solved as f64 / runs.len() as f64).filter(|share| share.is_finite()),
        without_plan: runs.iter().filter(|run| run.row.objective_ms.is_none()).count(),
        failed: runs.iter().filter(|run| run.row.status.is_failure()).count(),
        mean_gap_low: mean(&low),
        mean_gap_high: mean(&high),
        median_gap_low: quantile(&low, 0.5),
        median_gap_high: quantile(&high, 0.5),
        p95_gap_low: quantile(&low, 0.95),
        p95_gap_high: quantile(&high, 0.95),
        worst_gap_low: quantile(&low, 1.0),
        worst_gap_high: quantile(&high, 1.0),
        median_s: quantile(&times, 0.5),
        p95_s: quantile(&times, 0.95),
        time_ratio: geometric_mean(&ratios),
        time_ratio_low: interval.map(|interval| interval.0),
        time_ratio_high: interval.map(|interval| interval.1),
    }
}

/// Mean gaps of every method over the runs that share a group.
pub(super) fn groups(
    methods: &[String],
    all: &[&[Run]],
    group: fn(&Run) -> Option<(usize, String)>,
) -> Vec<Group> {
    let mut out = Vec::new();
    for (method, runs) in methods.iter().zip(all) {
        let mut gaps: BTreeMap<(usize, String), Vec<Bracket>> = BTreeMap::new();
        for run in *runs {
            if let (Some(key), Some(gap)) = (group(run), run.gap) {
                gaps.entry(key).or_default().push(gap);
            }
        }
        for ((x, name), gaps) in gaps {
            let end = |end: fn(&Bracket) -> f64| {
                let ends: Vec<f64> = gaps.iter().map(end).collect();
                mean(&ends).unwrap_or_default()
            };
            out.push(Group {
                method: method.clone(),
                group: name,
                x,
                runs: gaps.len(),
                mean_gap_low: end(|gap| gap.low),
                mean_gap_high: end(|gap| gap.high),
            });
        }
    }
    out
}

/// The runs that are certainly furthest from the optimum, one a method and instance.
pub(super) fn worst<'a>(methods: &[String], all: &[&[Run<'a>]], cells: &[Cell<'a>]) -> Vec<Case<'a>> {
    let mut cases: Vec<Case> = Vec::new();
    for (method, runs) in methods.iter().zip(all) {
        // Of several options, seeds or limits one is enough: ten cases are to show ten things.
        let low = |run: &Run| run.gap.map_or(0.0, |gap| gap.low);
        let mut worst_of: BTreeMap<&str, &Run> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.gap.is_some()) {
            let place = worst_of.entry(&run.row.task.content).or_insert(run);
            if low(run) > low(place) {
                *place = run;
            }
        }
        for run in worst_of.into_values() {
            let cell = &cells[run.cell];
            if let (Some(gap), Some(best_ms)) = (run.gap, cell.best_ms) {
                cases.push(Case {
                    row: run.row,
                    method: method.clone(),
                    name: cell.name(),
                    gap,
                    best_ms,
                });
            }
        }
    }
    let key = |case: &Case| (case.gap.low, case.gap.high);
    cases.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
    cases.truncate(WORST);
    cases.retain(|case| case.gap.low > TIE);
    cases
}
