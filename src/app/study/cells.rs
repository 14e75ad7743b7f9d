//! Rows that answer one question, and how far each is from the best answer.
//!
//! A cell is a problem: an instance, its cluster and its options. Its optimum lies between the best bound of all methods and the best
//! objective. So the gap of a plan is a bracket: at least its distance to the best plan, at most that to the best bound; where the
//! optimum is proved, both are the same.

use std::collections::BTreeMap;

use serde::Serialize;

use super::row::{Row, RowStatus};
use super::task::Task;

/// A number of which only a range is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bracket {
    /// It is at least this.
    pub low: f64,
    /// It is at most this.
    pub high: f64,
}

/// A problem and all rows on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell<'a> {
    /// One of its tasks: they differ in method, seed and limits alone.
    pub task: &'a Task,
    /// Its rows in the order of the study.
    pub rows: Vec<&'a Row>,
    /// The best objective, in ms.
    pub best_ms: Option<f64>,
    /// The best bound, in ms.
    pub bound_ms: Option<f64>,
    /// Whether a method proves that there is no plan.
    pub infeasible: bool,
}

/// What must not be: two rows of one cell that contradict each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contradiction {
    /// The row that claims too much.
    pub claim: String,
    /// The row that shows it wrong.
    pub witness: String,
}

/// The cells of some rows, in the order of their first rows. Rows of faulty inputs and methods that do not apply belong to none.
pub(crate) fn cells(rows: &[Row]) -> Vec<Cell<'_>> {
    let mut places: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows {
        if matches!(row.status, RowStatus::Inapplicable | RowStatus::Invalid) {
            continue;
        }
        let place = *places.entry(row.task.problem_key()).or_insert(cells.len());
        if place == cells.len() {
            cells.push(Cell {
                task: &row.task,
                rows: Vec::new(),
                best_ms: None,
                bound_ms: None,
                infeasible: false,
            });
        }
        cells[place].add(row);
    }
    cells
}

impl<'a> Cell<'a> {
    fn add(&mut self, row: &'a Row) {
        let better = |old: Option<f64>, new: Option<f64>, choose: fn(f64, f64) -> f64| match (old, new) {
            (Some(old), Some(new)) => Some(choose(old, new)),
            (old, new) => old.or(new),
        };
        self.best_ms = better(self.best_ms, row.objective_ms, f64::min);
        self.bound_ms = better(self.bound_ms, row.bound_ms, f64::max);
        self.infeasible |= row.status == RowStatus::Infeasible;
        self.rows.push(row);
    }

    /// The gap of a plan of this objective: (objective - optimum) / objective, as far as the optimum is known.
    pub(crate) fn gap(&self, objective_ms: f64) -> Option<Bracket> {
        let to = |other: f64| match objective_ms > 0.0 {
            true => ((objective_ms - other) / objective_ms).max(0.0),
            false => 0.0,
        };
        let low = to(self.best_ms?);
        // A bound above the best plan is a contradiction, reported as one.
        let high = to(self.bound_ms.unwrap_or(0.0)).max(low);
        Some(Bracket { low, high })
    }

    /// Whether the optimum is known.
    pub(crate) fn is_solved(&self) -> bool {
        self.best_ms
            .and_then(|best| self.gap(best))
            .is_some_and(|gap| gap.high == 0.0)
    }

    /// Layers of its network and stages it allows, where some row says.
    pub(crate) fn size(&self) -> (Option<usize>, Option<usize>) {
        let known = |of: fn(&Row) -> Option<usize>| self.rows.iter().find_map(|row| of(row));
        (known(|row| row.layers), known(|row| row.stages))
    }

    /// The problem in words.
    pub(crate) fn name(&self) -> String {
        self.task.problem()
    }

    /// Claims of its rows that other rows show wrong: bounds above plans, and proofs that there is no plan.
    pub(crate) fn contradictions(&self) -> Vec<Contradiction> {
        let Some(best_ms) = self.best_ms else {
            return Vec::new();
        };
        let best = self.rows.iter().find(|row| row.objective_ms == Some(best_ms));
        let best = best.map_or("", |row| row.task.method.as_str());
        let too_high = |row: &&&Row| {
            let bound = row.bound_ms.is_some_and(|bound| bound > best_ms);
            bound || row.status == RowStatus::Infeasible
        };
        let describe = |row: &Row| {
            let found = match (row.status, row.bound_ms) {
                (RowStatus::Infeasible, _) => "proves that there is no plan".to_owned(),
                (RowStatus::Optimal, Some(ms)) => format!("proves an optimum of {ms} ms"),
                (_, Some(ms)) => format!("proves a bound of {ms} ms"),
                (_, None) => String::new(),
            };
            format!("{}: `{}` {found}", self.name(), row.task.method)
        };
        let witness = format!("`{best}` has a plan of {best_ms} ms");
        let wrong = self.rows.iter().filter(too_high);
        wrong
            .map(|row| Contradiction {
                claim: describe(row),
                witness: witness.clone(),
            })
            .collect()
    }
}
