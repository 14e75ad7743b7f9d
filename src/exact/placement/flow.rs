//! The most that passes through a placement: a maximum flow by Dinic's method, from machine to machine.
//!
//! Source: E. A. Dinic, *Algorithm for solution of a problem of maximum flow in a network with power estimation* (1970).

use std::collections::VecDeque;

use crate::problem::placement::{Flow, Held, Placement, Serving};

/// A network of arcs with what they still carry; arc `2 i + 1` is the way back of arc `2 i`.
struct Network {
    to: Vec<usize>,
    left: Vec<u64>,
    arcs: Vec<Vec<usize>>,
    level: Vec<usize>,
    next: Vec<usize>,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Network {
    fn new(nodes: usize) -> Self {
        Self {
            to: Vec::new(),
            left: Vec::new(),
            arcs: vec![Vec::new(); nodes],
            level: Vec::new(),
            next: Vec::new(),
        }
    }

    fn add(&mut self, from: usize, to: usize, carries: u64) -> usize {
        let arc = self.to.len();
        for (node, head, left) in [(from, to, carries), (to, from, 0)] {
            self.arcs[node].push(self.to.len());
            self.to.push(head);
            self.left.push(left);
        }
        arc
    }

    /// Levels from the source; whether the sink has one.
    fn reaches(&mut self) -> bool {
        self.level = vec![usize::MAX; self.arcs.len()];
        self.level[SOURCE] = 0;
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(node) = queue.pop_front() {
            for &arc in &self.arcs[node] {
                let to = self.to[arc];
                if self.left[arc] > 0 && self.level[to] == usize::MAX {
                    self.level[to] = self.level[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        self.level[SINK] < usize::MAX
    }

    /// Sends at most so much on from a node; a path is as long as the chain of machines, at most two arcs a layer.
    fn send(&mut self, node: usize, most: u64) -> u64 {
        if node == SINK {
            return most;
        }
        while self.next[node] < self.arcs[node].len() {
            let arc = self.arcs[node][self.next[node]];
            let to = self.to[arc];
            if self.left[arc] > 0 && self.level[to] == self.level[node] + 1 {
                let sent = self.send(to, most.min(self.left[arc]));
                if sent > 0 {
                    self.left[arc] -= sent;
                    self.left[arc ^ 1] += sent;
                    return sent;
                }
            }
            self.next[node] += 1;
        }
        0
    }

    fn maximise(&mut self) -> u64 {
        let mut total = 0;
        while self.reaches() {
            self.next = vec![0; self.arcs.len()];
            loop {
                let sent = self.send(SOURCE, u64::MAX);
                if sent == 0 {
                    break;
                }
                total += sent;
            }
        }
        total
    }
}

/// What passes through what machines hold: those that are alike are one node, since the mean of a flow over all their permutations is a flow.
pub(super) fn rate(serving: &Serving, held: &[Held]) -> u64 {
    let mut sorted = held.to_vec();
    sorted.sort_unstable();
    let groups: Vec<(Held, u64)> = sorted
        .chunk_by(|a, b| a == b)
        .map(|alike| (alike[0], alike.len() as u64))
        .collect();
    let (into, out) = (|i: usize| 2 + 2 * i, |i: usize| 3 + 2 * i);
    let mut network = Network::new(2 + 2 * groups.len());
    for (i, (own, count)) in groups.iter().enumerate() {
        let kind = &serving.kinds[own.kind];
        network.add(into(i), out(i), count * kind.rate(own.layers));
        if own.start == 0 {
            network.add(SOURCE, into(i), count.saturating_mul(kind.from_source));
        }
        if own.end() == serving.layers {
            network.add(out(i), SINK, count.saturating_mul(kind.to_sink));
        }
        let next = groups
            .iter()
            .enumerate()
            .filter(|(_, (other, _))| other.start == own.end());
        for (j, (other, others)) in next {
            let carries = serving.between[own.kind][other.kind].saturating_mul(count * others);
            network.add(out(i), into(j), carries);
        }
    }
    network.maximise()
}

/// The placement of what machines hold, with a flow of most tokens. Machines that nothing passes through are left out, except where
/// nothing passes at all. Time `O(n² m)` for `n` machines with `m` links in use.
pub(super) fn placement(serving: &Serving, held: &[Held]) -> Placement {
    let (into, out) = (|i: usize| 2 + 2 * i, |i: usize| 3 + 2 * i);
    let mut network = Network::new(2 + 2 * held.len());
    let mut links: Vec<(Option<usize>, Option<usize>, usize)> = Vec::new();
    // Machines first: their arcs are the first of their nodes.
    for (i, own) in held.iter().enumerate() {
        network.add(into(i), out(i), serving.kinds[own.kind].rate(own.layers));
    }
    for (i, own) in held.iter().enumerate() {
        let kind = &serving.kinds[own.kind];
        if own.start == 0 {
            links.push((None, Some(i), network.add(SOURCE, into(i), kind.from_source)));
        }
        if own.end() == serving.layers {
            links.push((Some(i), None, network.add(out(i), SINK, kind.to_sink)));
        }
        for (j, other) in held
            .iter()
            .enumerate()
            .filter(|(_, other)| other.start == own.end())
        {
            let carries = serving.between[own.kind][other.kind];
            links.push((Some(i), Some(j), network.add(out(i), into(j), carries)));
        }
    }
    let rate = network.maximise();
    let passes = |i: usize| network.left[network.arcs[into(i)][0] ^ 1] > 0;
    let kept: Vec<usize> = (0..held.len()).filter(|&i| passes(i)).collect();
    let position = |machine: Option<usize>| machine.map(|machine| kept.partition_point(|&i| i < machine));
    let flows = links.iter().filter_map(|&(from, to, arc)| {
        let rate = network.left[arc ^ 1];
        (rate > 0).then(|| Flow {
            from: position(from),
            to: position(to),
            rate,
        })
    });
    Placement {
        flows: flows.collect(),
        held: kept.iter().map(|&i| held[i]).collect(),
        rate,
    }
}
