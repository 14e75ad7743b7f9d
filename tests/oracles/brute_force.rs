//! Brute force: every plan of a handful of items.

use petgraph::Direction::Incoming;

use stagecut::cost;
use stagecut::problem::{Assignment, Problem};

/// Most items that brute force takes: 12 items without order on 4 stages are 17 million plans.
pub const MOST_ITEMS: usize = 12;

/// Too many items to try every plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {items} items, expected at most {MOST_ITEMS} for brute force; use the DP over ideals")]
pub struct TooManyItems {
    /// Items of the problem.
    pub items: usize,
}

/// A best plan and its objective in ns, or `None` where there is no plan at all.
///
/// Of the best plans without empty stages between used ones it returns the lexicographically smallest assignment. Plans
/// with such gaps need no look: closing them costs nothing, see [`cost::without_empty_stages`].
///
/// # Errors
///
/// More than [`MOST_ITEMS`] items.
///
/// # Complexity
///
/// O(q^n) plans for n items and q stages, fewer for the order pairs, each costed from scratch.
pub fn solve(problem: &Problem) -> Result<Option<(Assignment, u64)>, TooManyItems> {
    let items = problem.items.len();
    if items > MOST_ITEMS {
        return Err(TooManyItems { items });
    }
    let mut search = Search {
        problem,
        stages: problem.stages().min(items),
        assignment: Vec::with_capacity(items),
        best: None,
    };
    search.place_next();
    Ok(search.best)
}

struct Search<'a> {
    problem: &'a Problem,
    stages: usize,
    assignment: Assignment,
    best: Option<(Assignment, u64)>,
}

impl Search<'_> {
    /// Tries every stage for the first item without one. Items are in topological order, so all before it are placed.
    fn place_next(&mut self) {
        let item = self.assignment.len();
        if item == self.problem.items.len() {
            return self.keep_if_better();
        }
        let before = self
            .problem
            .order
            .neighbors_directed((item as u32).into(), Incoming);
        let earliest = before.map(|u| self.assignment[u.index()]).max().unwrap_or(0);
        for stage in earliest..self.stages {
            self.assignment.push(stage);
            self.place_next();
            self.assignment.pop();
        }
    }

    fn keep_if_better(&mut self) {
        let mut used = [false; MOST_ITEMS];
        self.assignment.iter().for_each(|&stage| used[stage] = true);
        if used.windows(2).any(|pair| pair == [false, true]) {
            return;
        }
        let objective_ns = cost::assignment_ns(self.problem, &self.assignment);
        let better = self.best.as_ref().is_none_or(|(_, best)| objective_ns < *best);
        if better && cost::is_feasible(self.problem, &self.assignment) {
            self.best = Some((self.assignment.clone(), objective_ns));
        }
    }
}
