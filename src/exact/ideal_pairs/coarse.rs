//! Smaller problems whose plans are plans of a larger one, for searches that cannot list all of its ideals.

use petgraph::Direction;

use crate::exact::components::component::count_ideals;
use crate::exact::components::split::split_in_two;
use crate::exact::presolve::Reduced;
use crate::exact::tuning::TUNING;
use crate::problem::Problem;

/// The problem with a few items joined with their only successor or predecessor, the lightest first, so that it falls into two
/// components of at most so many ideals each; `None` if it does not. Plans of it are plans of the problem; the best one may be lost.
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
    let joined = |number: usize| {
        let (problem, item_of) = problem.merged(&together[..number]);
        let components = split_in_two(&problem, most_ideals)?;
        let is_small = |items: &Vec<usize>| count_ideals(&problem, items, most_ideals).is_some();
        let are_small = components.iter().all(is_small);
        are_small.then_some(Reduced { problem, item_of })
    };
    let mut numbers = (0..usize::BITS)
        .map(|power| 1 << power)
        .take_while(|number| number / 2 < together.len())
        .map(|number: usize| number.min(together.len()));
    let (mut most, mut found) = numbers.find_map(|number| Some((number, joined(number)?)))?;
    // As few as will do, or nearly so.
    let mut least = most / 2;
    for _ in 0..TUNING.coarsening_bisections {
        let number = least.midpoint(most);
        if number == least {
            break;
        }
        match joined(number) {
            Some(finer) => (most, found) = (number, finer),
            None => least = number,
        }
    }
    Some(found)
}
