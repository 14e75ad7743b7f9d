//! Binary search on the period: hard to find the best partition directly, quick to verify whether one exists under a
//! limit.
//!
//! Source: Duan and Wu, *Optimizing resource allocation in pipeline parallelism for distributed DNN training*, ICPADS 2022,
//! Algorithm 1. This is our reconstruction; the paper's listing was not available. Like the paper it looks at work alone
//! and takes communication to hide behind computation; what the plan costs with communication, the caller finds out.
//! Ours: the order of a network that is no chain (by item number), and that every limit snaps to a value some partition
//! achieves, so that the search ends on the exact optimum instead of within a tolerance.

use super::{Effort, Heuristic, MustStop, Run, along, if_feasible, orders, uniform};
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::Modes;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "binary-search",
    summary: "smallest work limit under which filling stages greedily needs no more stages than there are; of modes one degree \
              and number of replicas for all, and what fits",
    source: "Duan and Wu, ICPADS 2022, Algorithm 1 (reconstruction; the paper's listing was not available)",
    exact_for: "the period, and the iteration of 1F1B, of chains without communication and memory limit",
    effort: Effort::Quick,
    run: Run::HomogeneousOrModal(run, run_modal),
};

fn run(problem: &Problem, _seed: u64, _must_stop: MustStop<'_>) -> Option<Assignment> {
    let order = orders::by_number(problem);
    if_feasible(problem, partition(problem, &order))
}

/// For each mode, stages filled from the end within memory: under any limit first, then under ever smaller ones.
fn run_modal(problem: &Problem, modes: &Modes, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let order = orders::by_number(problem);
    uniform::best_filled(problem, modes, &order, must_stop)
}

/// Cuts an order into at most q stages (just q under `all_stages`) so that the most work of a stage is least.
///
/// Communication and memory are ignored. Time O(n log W) for n items and W ns of work.
pub(crate) fn partition(problem: &Problem, order: &[usize]) -> Assignment {
    let work: Vec<u64> = order.iter().map(|&item| problem.items[item].work_ns()).collect();
    let all: u64 = work.iter().sum();
    let largest = work.iter().copied().max().unwrap_or(0);
    // No partition is below `low`; `best` achieves `high`.
    let mut low = largest.max(all.div_ceil(problem.stages() as u64));
    let mut best = vec![0; order.len()];
    let mut high = all;
    while low < high {
        let limit = low + (high - low) / 2;
        let (stages, most) = fill(&work, limit);
        if stages.last().is_none_or(|&last| last < problem.stages()) {
            (best, high) = (stages, most);
        } else {
            low = limit + 1;
        }
    }
    along(problem, order, &best)
}

/// Fills stages in turn and opens the next when the limit would be exceeded; no partition under the limit has fewer.
/// Returns the stages and the most work of one. The limit is at least the largest piece.
fn fill(work: &[u64], limit: u64) -> (Vec<usize>, u64) {
    let (mut stage, mut filled, mut most) = (0, 0, 0);
    let stages = work
        .iter()
        .map(|&piece| {
            if filled + piece > limit {
                stage += 1;
                filled = 0;
            }
            filled += piece;
            most = most.max(filled);
            stage
        })
        .collect();
    (stages, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_opens_a_stage_at_the_limit() {
        assert_eq!(fill(&[3, 2, 2, 3, 1], 5), (vec![0, 0, 1, 1, 2], 5));
    }
}
