//! Divides a problem into two components.

use std::cmp::Reverse;

use petgraph::unionfind::UnionFind;

use crate::exact::components::component::count_ideals;
use crate::problem::Problem;

/// The items in two components, with about as many ideals each; `None` if the order has but one connected component, or more than two
/// and one of them has more than so many ideals.
pub(crate) fn split_in_two(problem: &Problem, most_ideals: usize) -> Option<[Vec<usize>; 2]> {
    let connected = connected_components(problem);
    if let [first, second] = &connected[..] {
        return Some([first.clone(), second.clone()]);
    }
    let mut counted = Vec::new();
    for items in connected {
        counted.push((count_ideals(problem, &items, most_ideals)?, items));
    }
    counted.sort_by_key(|(ideals, items)| (Reverse(*ideals), items[0]));
    // The one with fewer ideals gets the next; numbers of ideals multiply.
    let mut split = [(1.0, Vec::new()), (1.0, Vec::new())];
    for (ideals, items) in counted {
        let smaller = &mut split[usize::from(split[1].0 < split[0].0)];
        smaller.0 *= ideals as f64;
        smaller.1.extend(items);
    }
    let [first, second] = split.map(|(_, mut items)| {
        items.sort_unstable();
        items
    });
    (!second.is_empty()).then_some([first, second])
}

/// The items of each connected component of the order, in ascending order.
fn connected_components(problem: &Problem) -> Vec<Vec<usize>> {
    let n = problem.items.len();
    let mut joined = UnionFind::new(n);
    for edge in problem.order.edge_indices() {
        if let Some((u, v)) = problem.order.edge_endpoints(edge) {
            joined.union(u.index(), v.index());
        }
    }
    let mut components = vec![Vec::new(); n];
    (0..n).for_each(|item| components[joined.find(item)].push(item));
    components.retain(|items| !items.is_empty());
    components
}
