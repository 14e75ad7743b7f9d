//! The cheapest closed set of a directed graph, by a minimum cut.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// A capacity above all finite ones together, low enough that one path of it and all of them still add up.
const UNBOUNDED: u128 = 1 << 120;

/// Nodes to choose from, what they cost, and what they need.
///
/// The classical closure problem: J. Picard, *Maximal closure of a graph and applications to combinatorial problems*,
/// Management Science 22(11), 1976. A set is what lies on the source's side of a cut.
pub struct Closure {
    network: DiGraph<(), u128>,
    source: NodeIndex,
    sink: NodeIndex,
    /// Cost of each node, in the set; negative if it is a gain.
    costs: Vec<i128>,
}

impl Closure {
    /// A choice among so many nodes, all of them free.
    pub fn new(nodes: usize) -> Self {
        let mut network = DiGraph::new();
        for _ in 0..nodes {
            network.add_node(());
        }
        let (source, sink) = (network.add_node(()), network.add_node(()));
        Self {
            network,
            source,
            sink,
            costs: vec![0; nodes],
        }
    }

    /// A set with the node costs so much more.
    pub fn charge(&mut self, node: usize, cost: i128) {
        self.costs[node] += cost;
    }

    /// A set with the node has the other one as well.
    pub fn require(&mut self, node: usize, other: usize) {
        self.network
            .add_edge(NodeIndex::new(node), NodeIndex::new(other), UNBOUNDED);
    }

    /// A set that has any of the first nodes, but not all of the second, costs so much more. `None` stands for a node that
    /// every set has, among the first, or that no set has, among the second.
    pub fn charge_split(&mut self, any: Option<&[usize]>, all: Option<&[usize]>, cost: u128) {
        let from = match any {
            None => self.source,
            Some(&[only]) => NodeIndex::new(only),
            Some(nodes) => {
                let any = self.network.add_node(());
                for &node in nodes {
                    self.network.add_edge(NodeIndex::new(node), any, UNBOUNDED);
                }
                any
            }
        };
        let to = match all {
            None => self.sink,
            Some(&[only]) => NodeIndex::new(only),
            Some(nodes) => {
                let all = self.network.add_node(());
                for &node in nodes {
                    self.network.add_edge(all, NodeIndex::new(node), UNBOUNDED);
                }
                all
            }
        };
        self.network.add_edge(from, to, cost);
    }

    /// The smallest set of least cost: whether it has each node.
    ///
    /// Time O(v^2 e) at worst for v nodes and e requirements and charges, about e in practice.
    pub fn cheapest(mut self) -> Vec<bool> {
        for (node, &cost) in self.costs.iter().enumerate() {
            let (from, to) = match cost > 0 {
                true => (NodeIndex::new(node), self.sink),
                false => (self.source, NodeIndex::new(node)),
            };
            if cost != 0 {
                self.network.add_edge(from, to, cost.unsigned_abs());
            }
        }
        let (_, flows) = dinics(&self.network, self.source, self.sink);
        let mut reached = vec![false; self.network.node_count()];
        reached[self.source.index()] = true;
        let mut stack = vec![self.source];
        while let Some(node) = stack.pop() {
            let onwards = self.network.edges_directed(node, petgraph::Outgoing);
            let onwards = onwards.filter(|edge| flows[edge.id().index()] < *edge.weight());
            let back = self.network.edges_directed(node, petgraph::Incoming);
            let back = back.filter(|edge| flows[edge.id().index()] > 0);
            for next in onwards
                .map(|edge| edge.target())
                .chain(back.map(|edge| edge.source()))
            {
                if !std::mem::replace(&mut reached[next.index()], true) {
                    stack.push(next);
                }
            }
        }
        reached.truncate(self.costs.len());
        reached
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Nodes that a charge names; `None` where it names what is always, or never, in a set.
    type Nodes = Option<Vec<usize>>;

    /// What sets cost, told apart from how the cheapest is found.
    struct Case {
        costs: Vec<i128>,
        requirements: Vec<(usize, usize)>,
        charges: Vec<(Nodes, Nodes, u128)>,
    }

    impl Case {
        fn random(rng: &mut ChaCha8Rng) -> Self {
            let nodes = rng.random_range(1..=9);
            let some = |rng: &mut ChaCha8Rng| -> Nodes {
                let count = rng.random_range(0..4);
                let named = (0..count).map(|_| rng.random_range(0..nodes)).collect();
                (count > 0).then_some(named)
            };
            let pair = |rng: &mut ChaCha8Rng| (rng.random_range(0..nodes), rng.random_range(0..nodes));
            Self {
                costs: (0..nodes).map(|_| rng.random_range(-9..=9)).collect(),
                requirements: (0..rng.random_range(0..10)).map(|_| pair(rng)).collect(),
                charges: (0..rng.random_range(0..8))
                    .map(|_| (some(rng), some(rng), rng.random_range(0..9)))
                    .collect(),
            }
        }

        /// The cost of a set; `None` if it is not closed.
        fn cost(&self, has: impl Fn(usize) -> bool) -> Option<i128> {
            let closed = self.requirements.iter().all(|&(a, b)| !has(a) || has(b));
            let nodes = (0..self.costs.len()).filter(|&node| has(node));
            let own: i128 = nodes.map(|node| self.costs[node]).sum();
            let charged = self.charges.iter().filter(|(any, all, _)| {
                let has_any = any.as_ref().is_none_or(|any| any.iter().any(|&node| has(node)));
                let has_all = all.as_ref().is_some_and(|all| all.iter().all(|&node| has(node)));
                has_any && !has_all
            });
            let charged: u128 = charged.map(|(_, _, cost)| cost).sum();
            closed.then_some(own + charged as i128)
        }

        fn cheapest(&self) -> Vec<bool> {
            let mut closure = Closure::new(self.costs.len());
            for (node, &cost) in self.costs.iter().enumerate() {
                closure.charge(node, cost);
            }
            for &(node, other) in &self.requirements {
                closure.require(node, other);
            }
            for (any, all, cost) in &self.charges {
                closure.charge_split(any.as_deref(), all.as_deref(), *cost);
            }
            closure.cheapest()
        }
    }

    #[test]
    fn no_closed_set_is_cheaper() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for round in 0..3000 {
            let case = Case::random(&mut rng);
            let found = case.cheapest();
            let all = 0..1usize << case.costs.len();
            let least = all.filter_map(|set| case.cost(|node| set >> node & 1 == 1)).min();
            assert_eq!(case.cost(|node| found[node]), least, "round {round}");
        }
    }
}
