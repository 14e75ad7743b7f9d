//! Orders of the vertices in each rank with few crossings of edges.

use super::layout::Ranked;

/// Orders the vertices of every rank: `result[rank]` lists them from left to right.
///
/// Barycenter sweeps, down and up in turn: each vertex goes to the mean position of its neighbours in the rank before.
/// The best order seen is kept. Finding the best of all is NP-hard even for two ranks. Time O(sweeps * E log E) for E
/// edges between neighbouring ranks.
///
/// K. Sugiyama, S. Tagawa and M. Toda, *Methods for visual understanding of hierarchical system structures*, IEEE
/// Transactions on Systems, Man, and Cybernetics 11(2), 1981.
pub(super) fn with_few_crossings(graph: &Ranked) -> Vec<Vec<usize>> {
    /// Sweeps after which drawings of a few hundred layers no longer change for the better.
    const SWEEPS: usize = 24;
    let mut ranks = first_seen(graph);
    let mut best = ranks.clone();
    let mut fewest = crossings(graph, &ranks);
    for sweep in 0..SWEEPS {
        if fewest == 0 {
            break;
        }
        let position = positions(graph, &ranks);
        let mut sweeper = Sweep { position };
        if sweep % 2 == 0 {
            for rank in ranks.iter_mut().skip(1) {
                sweeper.sort(rank, &graph.above);
            }
        } else {
            for rank in ranks.iter_mut().rev().skip(1) {
                sweeper.sort(rank, &graph.below);
            }
        }
        let found = crossings(graph, &ranks);
        if found < fewest {
            fewest = found;
            best.clone_from(&ranks);
        }
    }
    best
}

/// A pass over the ranks in one direction.
struct Sweep {
    position: Vec<f64>,
}

impl Sweep {
    /// Sorts a rank by the mean position of the neighbours; a vertex without any stays about where it is.
    fn sort(&mut self, rank: &mut [usize], neighbours: &[Vec<usize>]) {
        let mean = |&v: &usize| match &neighbours[v][..] {
            [] => self.position[v],
            near => near.iter().map(|&u| self.position[u]).sum::<f64>() / near.len() as f64,
        };
        let mut keyed: Vec<(f64, usize)> = rank.iter().map(|v| (mean(v), *v)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, (_, v)) in keyed.into_iter().enumerate() {
            rank[at] = v;
            self.position[v] = at as f64;
        }
    }
}

/// Vertices in the order in which a depth-first walk along edges of either direction meets them: what belongs together
/// starts side by side.
fn first_seen(graph: &Ranked) -> Vec<Vec<usize>> {
    let mut ranks = vec![Vec::new(); graph.ranks()];
    let mut seen = vec![false; graph.rank.len()];
    for start in 0..graph.rank.len() {
        let mut stack = vec![start];
        while let Some(v) = stack.pop() {
            if std::mem::replace(&mut seen[v], true) {
                continue;
            }
            ranks[graph.rank[v]].push(v);
            stack.extend(graph.above[v].iter().rev());
            stack.extend(graph.below[v].iter().rev());
        }
    }
    ranks
}

fn positions(graph: &Ranked, ranks: &[Vec<usize>]) -> Vec<f64> {
    let mut position = vec![0.0; graph.rank.len()];
    for rank in ranks {
        for (at, &v) in rank.iter().enumerate() {
            position[v] = at as f64;
        }
    }
    position
}

/// Pairs of edges that cross.
fn crossings(graph: &Ranked, ranks: &[Vec<usize>]) -> u64 {
    let position = positions(graph, ranks);
    let between = |pair: &[Vec<usize>]| {
        // Edges by their upper end; every inversion of the lower ends is a crossing.
        let mut lower_ends = Vec::new();
        for &u in &pair[0] {
            let mut ends: Vec<usize> = graph.below[u].iter().map(|&v| position[v] as usize).collect();
            ends.sort_unstable();
            lower_ends.extend(ends);
        }
        inversions(&lower_ends, pair[1].len())
    };
    ranks.windows(2).map(between).sum()
}

/// Pairs in the wrong order among numbers below `n`, by a Fenwick tree in O(values log n).
fn inversions(values: &[usize], n: usize) -> u64 {
    let mut tree = vec![0_u64; n + 1];
    let mut total = 0;
    for (before, &value) in values.iter().enumerate() {
        let mut not_larger = 0;
        let mut at = value + 1;
        while at > 0 {
            not_larger += tree[at];
            at &= at - 1;
        }
        total += before as u64 - not_larger;
        let mut at = value + 1;
        while at <= n {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_pairs_in_the_wrong_order() {
        assert_eq!(inversions(&[0, 1, 2], 3), 0);
        assert_eq!(inversions(&[2, 1, 0], 3), 3);
        assert_eq!(inversions(&[1, 1, 0], 2), 2);
    }

    /// Two chains that start crossed: a to d and b to c.
    #[test]
    fn a_needless_crossing_goes() {
        let graph = Ranked::new(&[0, 0, 1, 1], &[(0, vec![3]), (1, vec![2])]);
        let ranks = with_few_crossings(&graph);
        assert_eq!(crossings(&graph, &ranks), 0);
    }
}
