//! Two sets of results of the same questions: what is wrong, what got worse, what got better.

use std::collections::BTreeMap;

use super::cells::cells;
use super::measures::{SHORTEST_S, TIE};
use super::row::{Row, RowStatus};
use super::statistics::geometric_mean;

/// What two sets of results differ in. Each list holds a sentence a difference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Tasks that both sets have.
    pub compared: usize,
    /// Results that cannot both be true.
    pub contradictory: Vec<String>,
    /// Longer plans, lost proofs, new failures, lost tasks.
    pub worse: Vec<String>,
    /// The opposite.
    pub better: Vec<String>,
    /// Tasks that only the second set has.
    pub added: usize,
    /// Geometric mean of the second's seconds over the first's, by method, with the number of tasks.
    pub time_ratios: BTreeMap<String, (f64, usize)>,
}

/// Compares two sets of results task by task, whatever program they are of.
///
/// Contradictions are looked for in both sets together: an optimum that changed is one, and so is a bound of one method above a
/// plan of another.
pub fn diff(old: &[Row], new: &[Row]) -> Diff {
    let mut diff = Diff::default();
    let of_new: BTreeMap<String, &Row> = new.iter().map(|row| (row.task.question(), row)).collect();
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in old {
        let Some(again) = of_new.get(&row.task.question()) else {
            diff.worse.push(format!("{}: lost", name(row)));
            continue;
        };
        diff.compared += 1;
        diff.compare(row, again);
        if let (Some(before), Some(after)) = (row.seconds, again.seconds) {
            let ratio = after.max(SHORTEST_S) / before.max(SHORTEST_S);
            times.entry(row.task.method.clone()).or_default().push(ratio);
        }
    }
    diff.added = new.len() - diff.compared.min(new.len());
    let mean =
        |(method, ratios): (String, Vec<f64>)| Some((method, (geometric_mean(&ratios)?, ratios.len())));
    diff.time_ratios = times.into_iter().filter_map(mean).collect();
    let both: Vec<Row> = old.iter().chain(new).cloned().collect();
    for contradiction in cells(&both).iter().flat_map(|cell| cell.contradictions()) {
        diff.contradictory
            .push(format!("{}, but {}", contradiction.claim, contradiction.witness));
    }
    diff.contradictory.sort();
    diff.contradictory.dedup();
    diff
}

impl Diff {
    /// Whether the second set may replace the first. `time_ratio` is the largest mean ratio of times that is let pass.
    pub fn passes(&self, time_ratio: Option<f64>) -> bool {
        let slow = |&(ratio, _): &(f64, usize)| time_ratio.is_some_and(|most| ratio > most);
        self.contradictory.is_empty() && self.worse.is_empty() && !self.time_ratios.values().any(slow)
    }

    fn compare(&mut self, old: &Row, new: &Row) {
        let name = name(old);
        let (rank_old, rank_new) = (rank(old.status), rank(new.status));
        if rank_old != rank_new {
            let list = if rank_new < rank_old {
                &mut self.worse
            } else {
                &mut self.better
            };
            list.push(format!("{name}: {}, was {}", new.status, old.status));
        }
        let (Some(before), Some(after)) = (old.objective_ms, new.objective_ms) else {
            return;
        };
        if after > before * (1.0 + TIE) {
            self.worse.push(format!("{name}: {after} ms, was {before} ms"));
        } else if before > after * (1.0 + TIE) {
            self.better.push(format!("{name}: {after} ms, was {before} ms"));
        }
    }
}

/// How much a result says: a proof most, then a plan, then nothing, then a failure.
fn rank(status: RowStatus) -> u8 {
    match status {
        RowStatus::Optimal | RowStatus::Infeasible => 3,
        RowStatus::Feasible => 2,
        RowStatus::Unknown | RowStatus::Inapplicable => 1,
        _ => 0,
    }
}

fn name(row: &Row) -> String {
    let task = &row.task;
    let cluster = task
        .cluster
        .as_ref()
        .map_or_else(String::new, |name| format!(" on {name}"));
    let options = task.options_text();
    format!(
        "`{}`{cluster}, {options}, `{}`, seed {}, {} s",
        task.instance, task.method, task.seed, task.time_limit_s
    )
}
