//! Smaller problems whose plans are plans of a larger one, for searches that cannot list all of its ideals.

use petgraph::Direction;

use super::part;
use super::presolve::Reduced;
use crate::problem::Problem;

/// The problem with a few items joined with their only successor or predecessor, the lightest first, so that it falls into two
/// parts of at most so many ideals each; `None` if it does not. Plans of it are plans of the problem; the best one may be lost.
///
/// An item with one successor lies on no path around it, so that joining the two closes no cycle, and likewise for predecessors.
pub fn coarsened(problem: &Problem, most_ideals: usize) -> Option<Reduced> {
    let only = |item: usize, direction| {
        let mut neighbours = problem.order.neighbors_directed((item as u32).into(), direction);
        let first = neighbours.next()?.index();
        neighbours.all(|other| other.index() == first).then_some(first)
    };
    let host = |item: usize| only(item, Direction::Outgoing).or_else(|| only(item, Direction::Incoming));
    let mut together: Vec<(usize, usize)> = (0..problem.items.len())
        .filter_map(|item| Some((item, host(item)?)))
        .collect();
    together.sort_by_key(|&(item, _)| problem.items[item].work_ns());
    let numbers = (0..usize::BITS)
        .map(|power| 1 << power)
        .take_while(|&number| number <= together.len());
    let mut joined = numbers.map(|number| problem.merged(&together[..number]));
    joined.find_map(|(problem, item_of)| {
        part::in_two(&problem, most_ideals)?;
        Some(Reduced { problem, item_of })
    })
}
