//! Brute force: every plan of a handful of items.

use stagecut::cost;
use stagecut::problem::{Assignment, Problem};

use super::each_assignment;

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
    let mut search = Search { problem, best: None };
    let stages = problem.stages().min(items);
    each_assignment(problem, stages, &mut |assignment| {
        search.keep_if_better(assignment)
    });
    Ok(search.best)
}

struct Search<'a> {
    problem: &'a Problem,
    best: Option<(Assignment, u64)>,
}

impl Search<'_> {
    fn keep_if_better(&mut self, assignment: &Assignment) {
        let mut used = [false; MOST_ITEMS];
        assignment.iter().for_each(|&stage| used[stage] = true);
        if used.windows(2).any(|pair| pair == [false, true]) {
            return;
        }
        let objective_ns = cost::assignment_ns(self.problem, assignment);
        let better = self.best.as_ref().is_none_or(|(_, best)| objective_ns < *best);
        if better && cost::is_feasible(self.problem, assignment) {
            self.best = Some((assignment.clone(), objective_ns));
        }
    }
}
