//! Contraction of what must lie together into items.

use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

use super::digraph;

/// Things contracted into items, with the order pairs between items.
#[derive(Clone, Debug)]
pub(crate) struct ItemGraph {
    /// Item of each thing.
    pub item_of: Vec<usize>,
    /// Things of each item, sorted. Items are numbered in a topological order of `order`, ties by first member.
    pub members: Vec<Vec<usize>>,
    /// Order pairs: an edge (u, v) says stage(u) <= stage(v). Acyclic; vertex indices are item positions.
    pub order: DiGraph<usize, ()>,
}

/// Contracts `n` things: tied ones, and those on a cycle of order pairs, become one item.
///
/// * `ties`: pairs that share a stage;
/// * `order`: pairs (u, v) with stage(u) <= stage(v). Around a cycle all stages are equal, so contracting is exact.
///
/// Time O((n + ties + order) log n).
pub(crate) fn contract(
    n: usize,
    ties: impl IntoIterator<Item = (usize, usize)>,
    order: &[(usize, usize)],
) -> ItemGraph {
    let mut together = UnionFind::<usize>::new(n);
    for (a, b) in ties {
        together.union(a, b);
    }
    let class = together.into_labeling();
    let between = |of: &[usize]| -> Vec<(usize, usize)> {
        order
            .iter()
            .map(|&(u, v)| (of[u], of[v]))
            .filter(|(u, v)| u != v)
            .collect()
    };

    let tied = digraph(n, between(&class));
    let mut component = vec![0; n];
    // Without recursion: paths are as long as networks are deep.
    for members in kosaraju_scc(&tied) {
        // The first member stands for all, so that the numbering below follows the input.
        let first = members.iter().map(|v| v.index()).min().unwrap_or(0);
        for v in members {
            component[v.index()] = first;
        }
    }
    let root: Vec<usize> = (0..n).map(|thing| component[class[thing]]).collect();
    let is_item: Vec<bool> = {
        let mut seen = vec![false; n];
        root.iter().for_each(|&r| seen[r] = true);
        seen
    };

    let acyclic = digraph(n, between(&root));
    let mut number = vec![usize::MAX; n];
    let sorted = toposort(&acyclic, None).unwrap_or_default();
    let roots = sorted.into_iter().map(|v| v.index()).filter(|&v| is_item[v]);
    for (position, r) in roots.enumerate() {
        number[r] = position;
    }
    let item_of: Vec<usize> = root.iter().map(|&r| number[r]).collect();
    let mut members = vec![Vec::new(); is_item.iter().filter(|&&is| is).count()];
    for (thing, &item) in item_of.iter().enumerate() {
        members[item].push(thing);
    }
    let order = digraph(members.len(), between(&item_of));
    ItemGraph {
        item_of,
        members,
        order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_and_cycles_become_one_item() {
        // 0 -> 1 -> 2 -> 3 with 0 tied to 2: 1 lies between them, so 0, 1, 2 share a stage.
        let items = contract(4, [(0, 2)], &[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(items.members, vec![vec![0, 1, 2], vec![3]]);
        assert_eq!(items.order.edge_count(), 1);
    }

    #[test]
    fn items_are_numbered_along_the_order() {
        let items = contract(4, [], &[(3, 2), (2, 1), (1, 0)]);
        assert_eq!(items.item_of, vec![3, 2, 1, 0]);
    }
}
