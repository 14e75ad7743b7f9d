//! Whether an order can be cut into stages that fit the memory at all.
//!
//! Ours. What a stage holds depends on its position from the end, so stages are cut off from there. An interval inside one
//! that fits, fits; so of all ends that a stage could have, the nearest decides.

use super::along;
use crate::problem::{Assignment, Problem};

/// A feasible plan of the fewest stages (just q under `all_stages`) whose stages are intervals of a topological order;
/// `None` where there is none. Says nothing about its cost. Time O(n q) for n items and q stages.
pub fn slices(problem: &Problem, order: &[usize]) -> Option<Assignment> {
    let n = order.len();
    let limit = problem.settings.memory_limit.unwrap_or(u64::MAX);
    // next[r][start]: where the next stage begins if everything from `start` on lies in r stages, where it can.
    let mut next: Vec<Vec<Option<usize>>> = vec![vec![None; n + 1]];
    next[0][n] = Some(n);
    for r in 1..=problem.stages().min(n) {
        let bytes = |position: usize| problem.memory_bytes(&problem.items[order[position]], r);
        let mut row = vec![None; n + 1];
        let (mut nearest, mut held) = (None, 0);
        for start in (0..n).rev() {
            if next[r - 1][start + 1].is_some() {
                (nearest, held) = (Some(start + 1), 0);
            }
            held += bytes(start);
            row[start] = nearest.filter(|_| held <= limit);
        }
        next.push(row);
        let enough = !problem.settings.all_stages || r == problem.stages();
        if enough && next[r][0].is_some() {
            return Some(along(problem, order, &lay(&next, r)));
        }
    }
    None
}

/// The stage of every position.
fn lay(next: &[Vec<Option<usize>>], stages: usize) -> Vec<usize> {
    let mut along_order = Vec::new();
    let mut start = Some(0);
    for r in (1..=stages).rev() {
        start = start.and_then(|start| next[r][start]);
        along_order.resize(start.unwrap_or(0), stages - r);
    }
    along_order
}
