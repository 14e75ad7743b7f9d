//! What the rows of a study say of its methods.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{Bracket, Cell, Contradiction, cells};
use super::measures::{
    Case, Group, MethodRow, Run, by_cell, groups, method_row, objective, seconds, seconds_if_solved, worst,
};
use super::profile::{Curve, distribution, performance};
use super::row::Row;
use super::significance::{Comparison, comparisons};
use super::task::Task;
use crate::solve::methods;

/// Everything a report shows.
pub(crate) struct Summary<'a> {
    /// All rows.
    pub rows: &'a [Row],
    /// The problems.
    pub cells: Vec<Cell<'a>>,
    /// The methods in the order of the study, each under the name that tells it from the others.
    pub methods: Vec<String>,
    /// One row a method.
    pub table: Vec<MethodRow>,
    /// The method that times are compared with.
    pub reference: String,
    /// Objectives over the best, as performance profiles.
    pub quality: Vec<Curve>,
    /// Seconds to a plan that is proved by anybody, as performance profiles.
    pub speed: Vec<Curve>,
    /// Distributions of gaps: at most.
    pub gaps_high: Vec<Curve>,
    /// Distributions of gaps: at least.
    pub gaps_low: Vec<Curve>,
    /// Mean gaps by family.
    pub by_family: Vec<Group>,
    /// Mean gaps by stages.
    pub by_stages: Vec<Group>,
    /// Mean gaps by instance, for its number of layers.
    pub by_size: Vec<Group>,
    /// Every two methods with a common problem: who has the better plans, and whether that may be chance.
    pub comparisons: Vec<Comparison>,
    /// The methods that are commands from outside.
    pub outside: BTreeSet<String>,
    /// The largest gaps, largest first.
    pub worst: Vec<Case<'a>>,
    /// What must not be.
    pub contradictions: Vec<Contradiction>,
    labels: Labels,
}

impl<'a> Summary<'a> {
    /// Sums up rows.
    pub(crate) fn new(rows: &'a [Row]) -> Self {
        let cells = cells(rows);
        let labels = Labels::new(rows);
        let mut runs: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.infeasible) {
            for row in &cell.rows {
                let gap = row.objective_ms.and_then(|ms| cell.gap(ms));
                let of_method = runs.entry(labels.label(&row.task)).or_default();
                of_method.push(Run { cell: at, row, gap });
            }
        }
        let methods: Vec<String> = labels
            .all
            .iter()
            .filter(|name| runs.contains_key(*name))
            .cloned()
            .collect();
        let reference = methods
            .iter()
            .find(|name| name.starts_with(methods::DEFAULT))
            .or(methods.first());
        let reference = reference.cloned().unwrap_or_default();
        let of = |name: &String| runs.get(name).map_or(&[][..], Vec::as_slice);
        let all: Vec<&[Run]> = methods.iter().map(of).collect();
        let costs = |cost: fn(&Run) -> f64| -> Vec<Vec<Option<f64>>> {
            all.iter().map(|runs| by_cell(runs, cells.len(), cost)).collect()
        };
        let objectives = costs(objective);
        let seconds = by_cell(of(&reference), cells.len(), seconds);
        let gaps = |end: fn(Bracket) -> f64| -> Vec<Curve> {
            let curve = |(name, runs): (&String, &&[Run])| {
                let gaps: Vec<f64> = runs
                    .iter()
                    .map(|run| run.gap.map_or(f64::INFINITY, end))
                    .collect();
                distribution(name, &gaps)
            };
            methods.iter().zip(&all).map(curve).collect()
        };
        let contradictions = cells.iter().flat_map(Cell::contradictions).collect();
        Self {
            rows,
            table: methods
                .iter()
                .zip(&all)
                .map(|(name, runs)| method_row(name, runs, &seconds))
                .collect(),
            quality: performance(&methods, &objectives),
            speed: performance(&methods, &costs(seconds_if_solved)),
            gaps_high: gaps(|gap| gap.high),
            gaps_low: gaps(|gap| gap.low),
            by_family: groups(&methods, &all, |run| Some((0, run.row.task.family.clone()))),
            by_stages: groups(&methods, &all, |run| {
                let stages = run.row.stages?;
                Some((stages, stages.to_string()))
            }),
            by_size: groups(&methods, &all, |run| {
                Some((run.row.layers?, run.row.task.instance.clone()))
            }),
            comparisons: comparisons(&objectives),
            outside: (rows.iter().filter(|row| row.task.outside.is_some()))
                .map(|row| labels.label(&row.task))
                .collect(),
            worst: worst(&methods, &all, &cells),
            contradictions,
            reference,
            methods,
            cells,
            labels,
        }
    }

    /// What the method of a task is called.
    pub(crate) fn label(&self, task: &Task) -> String {
        self.labels.label(task)
    }

    /// What all methods are called in the order of the study, those without a run that counts among them.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels.all
    }
}

/// What methods are called: by name, and by limit too where one has several.
struct Labels {
    all: Vec<String>,
    limited: BTreeSet<String>,
}

impl Labels {
    fn new(rows: &[Row]) -> Self {
        let mut limits: BTreeMap<&str, f64> = BTreeMap::new();
        let mut limited = BTreeSet::new();
        for row in rows {
            let first = *limits.entry(&row.task.method).or_insert(row.task.time_limit_s);
            if first != row.task.time_limit_s {
                limited.insert(row.task.method.clone());
            }
        }
        let mut labels = Self {
            all: Vec::new(),
            limited,
        };
        for row in rows {
            let label = labels.label(&row.task);
            if !labels.all.contains(&label) {
                labels.all.push(label);
            }
        }
        labels
    }

    fn label(&self, task: &Task) -> String {
        match self.limited.contains(&task.method) {
            true => format!("{}, {} s", task.method, task.time_limit_s),
            false => task.method.clone(),
        }
    }
}
