//! Where the boxes of a drawing go: a layered layout, from top to bottom.
//!
//! In the steps of K. Sugiyama, S. Tagawa and M. Toda, *Methods for visual understanding of hierarchical system
//! structures*, IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981: ranks by longest paths, bends where an
//! edge passes a rank, orders with few crossings, then coordinates. Two things are ours: layers of one *band* (a stage)
//! have ranks of their own, so that stages lie below each other; and all edges of a producer share their bends, since a
//! tensor is one thing however many layers read it.

use super::order;

/// Producer and its consumers, by position.
pub(super) type Fan = (usize, Vec<usize>);

/// Rank of every vertex so that edges go down, with bands below each other.
///
/// `bands[v]` must not fall along an edge; the network must be acyclic.
pub(super) fn ranks(bands: &[usize], fans: &[Fan]) -> Vec<usize> {
    let n = bands.len();
    let mut above = vec![Vec::new(); n];
    let mut below = vec![Vec::new(); n];
    for (from, consumers) in fans {
        for &to in consumers {
            above[to].push(*from);
            below[*from].push(to);
        }
    }
    let order = topological(&above, &below);
    // Depth inside the own band, and ranks that each band takes.
    let mut depth = vec![0; n];
    let last_band = bands.iter().copied().max().unwrap_or(0);
    let mut size = vec![0; last_band + 1];
    for &v in &order {
        let same = above[v].iter().filter(|&&u| bands[u] == bands[v]);
        depth[v] = same.map(|&u| depth[u] + 1).max().unwrap_or(0);
        size[bands[v]] = size[bands[v]].max(depth[v] + 1);
    }
    // Edges get shorter when a layer with more readers than inputs, such as a constant, sinks to its readers.
    for &v in order.iter().rev() {
        if above[v].len() < below[v].len() || (above[v].is_empty() && !below[v].is_empty()) {
            let same = below[v].iter().filter(|&&w| bands[w] == bands[v]);
            depth[v] = same.map(|&w| depth[w] - 1).min().unwrap_or(size[bands[v]] - 1);
        }
    }
    let mut start = vec![0; last_band + 1];
    for band in 1..=last_band {
        start[band] = start[band - 1] + size[band - 1];
    }
    (0..n).map(|v| start[bands[v]] + depth[v]).collect()
}

/// A topological order: of the vertices whose producers are all out, the first in the file comes next.
pub(super) fn topological(above: &[Vec<usize>], below: &[Vec<usize>]) -> Vec<usize> {
    use std::cmp::Reverse;
    let mut missing: Vec<usize> = above.iter().map(Vec::len).collect();
    let ready = (0..above.len()).filter(|&v| missing[v] == 0).map(Reverse);
    let mut ready: std::collections::BinaryHeap<_> = ready.collect();
    let mut order = Vec::with_capacity(above.len());
    while let Some(Reverse(v)) = ready.pop() {
        order.push(v);
        for &w in &below[v] {
            missing[w] -= 1;
            if missing[w] == 0 {
                ready.push(Reverse(w));
            }
        }
    }
    order
}

/// Vertices on ranks, with edges between neighbouring ranks only: the layers first, then bends.
pub(super) struct Ranked {
    /// Rank of every vertex.
    pub rank: Vec<usize>,
    /// Neighbours one rank up.
    pub above: Vec<Vec<usize>>,
    /// Neighbours one rank down.
    pub below: Vec<Vec<usize>>,
    /// How many of the neighbours one rank up, and one rank down, are layers.
    near_layers: Vec<[usize; 2]>,
    /// Vertices that are layers; the rest are bends.
    pub layers: usize,
    /// For each fan, the way to each consumer in turn: vertices from the producer to the consumer.
    pub ways: Vec<Vec<Vec<usize>>>,
}

impl Ranked {
    /// Puts a bend on every rank that a fan passes.
    pub(super) fn new(rank: &[usize], fans: &[Fan]) -> Self {
        let layers = rank.len();
        let mut graph = Self {
            rank: rank.to_vec(),
            above: vec![Vec::new(); layers],
            below: vec![Vec::new(); layers],
            near_layers: vec![[0; 2]; layers],
            layers,
            ways: Vec::with_capacity(fans.len()),
        };
        for (from, consumers) in fans {
            let lowest = consumers.iter().map(|&to| rank[to]).max().unwrap_or(rank[*from]);
            let mut trunk = vec![*from];
            for passed in rank[*from] + 1..lowest {
                let bend = graph.add_bend(passed);
                graph.join(trunk[trunk.len() - 1], bend);
                trunk.push(bend);
            }
            let mut ways = Vec::with_capacity(consumers.len());
            for &to in consumers {
                let steps = rank[to] - rank[*from];
                graph.join(trunk[steps - 1], to);
                let way = trunk[..steps].iter().copied().chain([to]);
                ways.push(way.collect());
            }
            graph.ways.push(ways);
        }
        graph
    }

    /// How many ranks there are.
    pub(super) fn ranks(&self) -> usize {
        self.rank.iter().max().map_or(0, |last| last + 1)
    }

    fn add_bend(&mut self, rank: usize) -> usize {
        self.rank.push(rank);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        self.near_layers.push([0; 2]);
        self.rank.len() - 1
    }

    fn join(&mut self, upper: usize, lower: usize) {
        self.below[upper].push(lower);
        self.above[lower].push(upper);
        self.near_layers[lower][0] += usize::from(upper < self.layers);
        self.near_layers[upper][1] += usize::from(lower < self.layers);
    }
}

/// Horizontal room that vertices need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Width of a box.
    pub layer: f64,
    /// Width of a line.
    pub bend: f64,
    /// Between two vertices.
    pub gap: f64,
}

/// Horizontal centre of every vertex; the leftmost box or line starts at 0.
///
/// Sweeps move each rank as near as its order and the gaps allow to the means of its neighbours. For one rank that is
/// isotonic regression, which pooling adjacent violators solves in linear time (M. Ayer et al., *An empirical
/// distribution function for sampling with incomplete information*, 1955). Long lines weigh more, which keeps them
/// straight, as in E. Gansner et al., *A technique for drawing directed graphs*, IEEE Transactions on Software
/// Engineering 19(3), 1993.
pub(super) fn centres(graph: &Ranked, room: Room) -> Vec<f64> {
    /// Sweeps after which the eye sees no change.
    const SWEEPS: usize = 30;
    /// Of these, the last that look both ways. More of them would make waves of long lines.
    const BALANCING: usize = 4;
    let ranks = order::with_few_crossings(graph);
    let width = |v: usize| if v < graph.layers { room.layer } else { room.bend };
    // Offsets of a rank's vertices when packed without slack.
    let offsets: Vec<Vec<f64>> = ranks
        .iter()
        .map(|rank| {
            let mut at = 0.0;
            let place = |&v: &usize| {
                let centre = at + width(v) / 2.0;
                at += width(v) + room.gap;
                centre
            };
            rank.iter().map(place).collect()
        })
        .collect();
    let mut x = vec![0.0; graph.rank.len()];
    for (rank, offsets) in ranks.iter().zip(&offsets) {
        let middle = offsets.last().map_or(0.0, |last| last / 2.0);
        for (&v, offset) in rank.iter().zip(offsets) {
            x[v] = offset - middle;
        }
    }
    for sweep in 0..SWEEPS {
        let settle = |x: &mut Vec<f64>, at: usize| {
            // Along one direction a line stays straight however long it is; in the end both directions balance.
            let (up, down) = match sweep {
                s if s >= SWEEPS - BALANCING => (true, true),
                s => (s % 2 == 0, s % 2 == 1),
            };
            let wishes: Vec<(f64, f64)> = ranks[at].iter().map(|&v| wish(graph, x, v, up, down)).collect();
            for (&v, centre) in ranks[at].iter().zip(nearest(&wishes, &offsets[at])) {
                x[v] = centre;
            }
        };
        match sweep % 2 == 0 {
            true => (0..ranks.len()).for_each(|at| settle(&mut x, at)),
            false => (0..ranks.len()).rev().for_each(|at| settle(&mut x, at)),
        }
    }
    let left = (0..x.len())
        .map(|v| x[v] - width(v) / 2.0)
        .fold(f64::INFINITY, f64::min);
    x.iter().map(|centre| centre - left).collect()
}

/// Where a vertex wants to be, and how much: the weighted mean of its neighbours. Without any in the direction asked for,
/// such as a constant on the way down, it follows those in the other.
fn wish(graph: &Ranked, x: &[f64], v: usize, up: bool, down: bool) -> (f64, f64) {
    let (above, below) = (&graph.above[v], &graph.below[v]);
    let up = up || below.is_empty();
    let down = down || above.is_empty();
    let near = above.iter().filter(|_| up).chain(below.iter().filter(|_| down));
    let pulls = near.map(|&u| (x[u], strength(graph, u, v)));
    let (sum, weight) = pulls.fold((0.0, 0.0), |(sum, weight), (at, pull)| {
        (sum + pull * at, weight + pull)
    });
    match weight {
        // Nothing pulls: stay, but give way to everything else.
        0.0 => (x[v], 0.01),
        weight => (sum / weight, weight),
    }
}

/// How much `u` pulls at its neighbour `v`: lines should be straight, then chains; where a line branches off to one of
/// several readers, the line goes on and the branch bends. What has no other neighbour follows rather than pulls.
fn strength(graph: &Ranked, u: usize, v: usize) -> f64 {
    let (upper, lower) = if graph.rank[u] < graph.rank[v] {
        (u, v)
    } else {
        (v, u)
    };
    if graph.above[u].len() + graph.below[u].len() == 1 {
        return 0.1;
    }
    let is_layer = |w: usize| w < graph.layers;
    let [_, readers] = graph.near_layers[upper];
    let [producers, _] = graph.near_layers[lower];
    match (is_layer(upper), is_layer(lower)) {
        (false, false) => 8.0,
        (true, true) if readers == 1 && producers == 1 => 6.0,
        (true, true) => 1.0,
        (false, true) if readers < graph.below[upper].len() => 0.25,
        _ => 1.0,
    }
}

/// Centres nearest to the wishes in weighted squares, no two nearer than their offsets are.
fn nearest(wishes: &[(f64, f64)], offsets: &[f64]) -> Vec<f64> {
    // Blocks of vertices that touch: mean of wish less offset, weight, members.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (&(wish, weight), offset) in wishes.iter().zip(offsets) {
        let mut block = (wish - offset, weight, 1);
        while let Some(&(mean, before, members)) = blocks.last() {
            if mean < block.0 {
                break;
            }
            blocks.pop();
            let total = before + block.1;
            block = (
                (mean * before + block.0 * block.1) / total,
                total,
                members + block.2,
            );
        }
        blocks.push(block);
    }
    let starts = blocks
        .into_iter()
        .flat_map(|(mean, _, members)| std::iter::repeat_n(mean, members));
    starts
        .zip(offsets)
        .map(|(start, offset)| start + offset)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_down_and_bands_do_not_mix() {
        // 0 -> 1 -> 3, 0 -> 2, 2 in the second band; 4 is a constant that 3 reads.
        let fans = [(0, vec![1, 2]), (1, vec![3]), (4, vec![3])];
        assert_eq!(ranks(&[0, 0, 1, 0, 0], &fans), [0, 1, 3, 2, 1]);
    }

    #[test]
    fn a_long_edge_bends_on_every_rank_it_passes() {
        let graph = Ranked::new(&[0, 1, 3], &[(0, vec![1, 2])]);
        assert_eq!(graph.ways, [vec![vec![0, 1], vec![0, 3, 4, 2]]]);
        assert_eq!(graph.rank[3..], [1, 2]);
    }

    #[test]
    fn vertices_keep_their_distance() {
        let placed = nearest(&[(0.0, 1.0), (0.0, 1.0), (50.0, 1.0)], &[0.0, 10.0, 20.0]);
        assert_eq!(placed, [-5.0, 5.0, 50.0]);
    }

    #[test]
    fn a_chain_is_straight() {
        let graph = Ranked::new(&[0, 1, 2], &[(0, vec![1]), (1, vec![2])]);
        let room = Room {
            layer: 10.0,
            bend: 1.0,
            gap: 2.0,
        };
        assert_eq!(centres(&graph, room), [5.0, 5.0, 5.0]);
    }
}
