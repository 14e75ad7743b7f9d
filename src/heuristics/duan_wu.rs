//! Duan and Wu's two steps: stages for equal workers, then groups of devices for the stages.
//!
//! Source: Y. Duan, J. Wu, *Optimizing resource allocation in pipeline parallelism for distributed DNN training*, ICPADS
//! 2022: Algorithm 1, see `binary_search`, then Algorithm 2, see [`Grouping::greedy`]. A reconstruction; the listings
//! were not available. The first step balances reference work, an item's time on the slowest device at rate 1, and knows
//! neither devices nor memory: where the groups cannot hold the stages, there is no plan.

use super::grouping::Grouping;
use super::{Effort, Heuristic, MustStop, Run, binary_search, global_shares, orders};
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "duan-wu",
    summary: "stages by binary search for equal workers, then greedily each device to the slowest stage",
    source: "Duan and Wu, ICPADS 2022, Algorithms 1 and 2 (reconstruction; the listings were not available)",
    exact_for: "chains on single devices of one kind without resource types, taking turns, \
                without communication and memory limit",
    effort: Effort::Quick,
    run: Run::Heterogeneous(|_, _| Ok(()), run),
};

fn run(problem: &Problem, workers: &Workers, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let grouped = partition_and_group(problem, workers)?;
    Some(global_shares::fill(problem, workers, grouped, must_stop))
}

/// Algorithm 1 on the items by number, then Algorithm 2; a plan but for a global share, or `None`.
pub(crate) fn partition_and_group(problem: &Problem, workers: &Workers) -> Option<Allocation> {
    let assignment = partition(problem, workers);
    let stages = assignment.iter().max()? + 1;
    let choices = Grouping::new(problem, workers, &assignment, stages).greedy()?;
    Some(Allocation {
        choices,
        ..Allocation::from(assignment)
    })
}

/// Algorithm 1 on the items by number, for as many stages as find a worker each.
pub fn partition(problem: &Problem, workers: &Workers) -> Assignment {
    let alike = problem.homogeneous(most_stages(problem, workers), None);
    binary_search::partition(&alike, &orders::by_number(problem))
}

/// Most stages that a plan may have and that find a worker each.
pub(crate) fn most_stages(problem: &Problem, workers: &Workers) -> usize {
    // Given groups take one of the inventory each; assigned ones at least one device.
    problem.stages().min(workers.inventory.iter().sum())
}
