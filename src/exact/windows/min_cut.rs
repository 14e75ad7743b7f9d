//! The cheapest closed set of a directed graph, by a minimum cut.

/// A capacity above all finite ones together, low enough that one path of it and all of them still add up.
const UNBOUNDED: u128 = 1 << 120;

/// Nodes to choose from, what they cost, and what they need.
///
/// The classical closure problem: J. Picard, *Maximal closure of a graph and applications to combinatorial problems*,
/// Management Science 22(11), 1976. A set is what lies on the source's side of a cut.
#[derive(Clone)]
pub(crate) struct MinCostClosure {
    network: Network,
    /// Cost of each node, in the set; negative if it is a gain.
    costs: Vec<i128>,
}

/// The node where all flow begins, and the one where it ends.
const SOURCE: usize = 0;
const SINK: usize = 1;

/// The number of a node to choose, in the network.
fn number(node: usize) -> usize {
    node + 2
}

impl MinCostClosure {
    /// A choice among so many nodes, all of them free.
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            network: Network {
                nodes: number(nodes),
                ..Network::default()
            },
            costs: vec![0; nodes],
        }
    }

    /// A set with the node costs so much more.
    pub(crate) fn charge(&mut self, node: usize, cost: i128) {
        self.costs[node] += cost;
    }

    /// A set with the node has the other one as well.
    pub(crate) fn require(&mut self, node: usize, other: usize) {
        self.network.add(number(node), number(other), UNBOUNDED);
    }

    /// A set that has any of the first nodes, but not all of the second, costs so much more. `None` stands for a node that
    /// every set has, among the first, or that no set has, among the second.
    pub(crate) fn charge_split(&mut self, any: Option<&[usize]>, all: Option<&[usize]>, cost: u128) {
        let from = match any {
            None => SOURCE,
            Some(&[only]) => number(only),
            Some(nodes) => {
                let any = self.network.add_node();
                nodes
                    .iter()
                    .for_each(|&node| self.network.add(number(node), any, UNBOUNDED));
                any
            }
        };
        let to = match all {
            None => SINK,
            Some(&[only]) => number(only),
            Some(nodes) => {
                let all = self.network.add_node();
                nodes
                    .iter()
                    .for_each(|&node| self.network.add(all, number(node), UNBOUNDED));
                all
            }
        };
        self.network.add(from, to, cost);
    }

    /// The smallest set of least cost: whether it has each node.
    ///
    /// Time O(v^2 e) at worst for v nodes and e requirements and charges, about e in practice.
    pub(crate) fn cheapest(mut self) -> Vec<bool> {
        for (node, &cost) in self.costs.iter().enumerate() {
            match cost > 0 {
                true => self.network.add(number(node), SINK, cost.unsigned_abs()),
                false if cost < 0 => self.network.add(SOURCE, number(node), cost.unsigned_abs()),
                false => {}
            }
        }
        let reached = self.network.cut();
        (0..self.costs.len()).map(|node| reached[number(node)]).collect()
    }
}

/// Edges with capacities. Each comes with its reverse, so that what flows along the one can be taken back along the other.
#[derive(Default, Clone)]
struct Network {
    nodes: usize,
    /// Tail, head and what can still flow; edge `e ^ 1` is the reverse of edge `e`.
    edges: Vec<(usize, usize, u128)>,
}

impl Network {
    fn add_node(&mut self) -> usize {
        self.nodes += 1;
        self.nodes - 1
    }

    fn add(&mut self, from: usize, to: usize, capacity: u128) {
        self.edges.push((from, to, capacity));
        self.edges.push((to, from, 0));
    }

    /// The nodes on the source's side of the minimum cut nearest to it, by E. A. Dinic's blocking flows in layered networks
    /// (*Algorithm for solution of a problem of maximum flow in networks with power estimation*, Soviet Mathematics Doklady 11,
    /// 1970).
    ///
    /// Ours, since the time of boundaries is spent here: a library's, which kept its network in a general graph, took most of a
    /// solve.
    fn cut(mut self) -> Vec<bool> {
        // The edges of each node, one node after the other.
        let mut first = vec![0; self.nodes + 1];
        self.edges.iter().for_each(|&(from, _, _)| first[from + 1] += 1);
        (0..self.nodes).for_each(|node| first[node + 1] += first[node]);
        let mut at = first.clone();
        let mut of_node = vec![0; self.edges.len()];
        for (edge, &(from, _, _)) in self.edges.iter().enumerate() {
            of_node[at[from]] = edge;
            at[from] += 1;
        }
        loop {
            let layers = self.layers(&first, &of_node);
            if layers[SINK] == usize::MAX {
                return layers.iter().map(|&layer| layer < usize::MAX).collect();
            }
            self.fill(&first, &of_node, &layers);
        }
    }

    /// For each node, how many edges with capacity left it takes to closure it; `usize::MAX` if none lead there.
    fn layers(&self, first: &[usize], of_node: &[usize]) -> Vec<usize> {
        let mut layers = vec![usize::MAX; self.nodes];
        layers[SOURCE] = 0;
        let mut queue = vec![SOURCE];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &edge in &of_node[first[node]..first[node + 1]] {
                let (_, to, left) = self.edges[edge];
                if left > 0 && layers[to] == usize::MAX {
                    layers[to] = layers[node] + 1;
                    queue.push(to);
                }
            }
        }
        layers
    }

    /// Sends flow along paths from layer to layer until none is left.
    fn fill(&mut self, first: &[usize], of_node: &[usize], layers: &[usize]) {
        let mut next = first.to_vec();
        let mut path: Vec<usize> = Vec::new();
        loop {
            let node = path.last().map_or(SOURCE, |&edge| self.edges[edge].1);
            if node == SINK {
                let flow = path.iter().map(|&edge| self.edges[edge].2).min().unwrap_or(0);
                for &edge in &path {
                    self.edges[edge].2 -= flow;
                    self.edges[edge ^ 1].2 += flow;
                }
                // Back to where the first edge is full.
                let full = path.iter().position(|&edge| self.edges[edge].2 == 0);
                path.truncate(full.unwrap_or(0));
            } else if next[node] < first[node + 1] {
                let edge = of_node[next[node]];
                let (_, to, left) = self.edges[edge];
                match left > 0 && layers[to] == layers[node] + 1 {
                    true => path.push(edge),
                    false => next[node] += 1,
                }
            } else {
                let Some(edge) = path.pop() else {
                    return;
                };
                next[self.edges[edge].0] += 1;
            }
        }
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
            let mut closure = MinCostClosure::new(self.costs.len());
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
