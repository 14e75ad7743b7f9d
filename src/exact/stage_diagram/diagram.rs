//! The decision diagram of all stages that keep a limit.

use std::collections::HashMap;

use crate::exact::busy_times::{BusyTimes, keep_limit, sum};
use crate::exact::stage_diagram::budget::Budget;
use crate::exact::stage_diagram::sweep::{Choice, State, Step, Sweep};
use crate::exact::tuning::TUNING;
use crate::problem::Problem;
use crate::problem::plan::StoppedBy;

/// No node.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Layers of nodes, one before the decision on each item: a stage is a way from the first layer's only node through all of them.
/// Every stage that keeps the limit is one; a way may be busier.
pub(super) struct Diagram {
    /// The limit.
    pub limit_ns: u64,
    /// One for each decision.
    pub layers: Vec<Layer>,
    /// Nodes behind the last decision.
    pub last: usize,
    /// Labels that there is room for, about.
    pub labels: usize,
}

/// The decision on one item.
pub(super) struct Layer {
    /// The item.
    pub item: usize,
    /// What it may follow on.
    pub nodes: Vec<Node>,
    /// Where the ways into each node of the next layer end in `ways`.
    ends: Vec<u32>,
    /// Ways into the next layer: a node of this one, and a choice.
    ways: Vec<(u32, Choice)>,
}

/// What may follow on what has been decided.
pub(super) struct Node {
    /// The next node, by choice.
    pub to: [u32; 2],
    /// What that choice adds to the stage.
    pub busy: [BusyTimes; 2],
}

impl Layer {
    fn new(item: usize, nodes: Vec<Node>, next: usize) -> Self {
        let all = || {
            let choices = |at: usize| {
                [Choice::Outside, Choice::Inside]
                    .map(|choice| (at as u32, choice, nodes[at].to[choice as usize]))
            };
            (0..nodes.len())
                .flat_map(choices)
                .filter(|&(_, _, to)| to != NOWHERE)
        };
        let mut ends = vec![0; next];
        all().for_each(|(_, _, to)| ends[to as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // Where they start, until they are filled.
            sum += std::mem::replace(end, sum);
        }
        let mut ways = vec![(0, Choice::Outside); sum as usize];
        for (at, choice, to) in all() {
            ways[ends[to as usize] as usize] = (at, choice);
            ends[to as usize] += 1;
        }
        Self {
            item,
            nodes,
            ends,
            ways,
        }
    }

    /// The ways into each node of the next layer.
    pub(super) fn ways_into_next(&self) -> impl Iterator<Item = &[(u32, Choice)]> {
        let start = |to: usize| if to == 0 { 0 } else { self.ends[to - 1] };
        (0..self.ends.len()).map(move |to| &self.ways[start(to) as usize..self.ends[to] as usize])
    }
}

impl Diagram {
    /// Follows all stages from item to item, those together of which the same is remembered.
    ///
    /// # Errors
    ///
    /// [`StoppedBy::SizeLimit`] with too many nodes, or another limit of the search.
    pub(super) fn new(
        problem: &Problem,
        sweep: &Sweep,
        limit_ns: u64,
        budget: &mut Budget,
    ) -> Result<Self, StoppedBy> {
        let mut layers = Vec::with_capacity(problem.items.len());
        let mut front = Front::default();
        front.reach(State::default(), [0; 3]);
        let mut count = 0;
        let most = TUNING
            .most_diagram_nodes
            .min(budget.room_bytes / TUNING.bytes_of_a_diagram_node);
        for step in &sweep.steps {
            budget.take(TUNING.steps_of_a_diagram_node * front.nodes.len() as u64)?;
            let mut next = Front::default();
            let follow = |&(state, least): &(State, BusyTimes)| next.follow(step, state, least, limit_ns);
            let nodes = front.nodes.iter().map(follow).collect();
            count += next.nodes.len();
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
            layers.push(Layer::new(step.item, nodes, next.nodes.len()));
            front = next;
        }
        Ok(Self {
            limit_ns,
            layers,
            last: front.nodes.len(),
            labels: TUNING
                .labels_of_a_diagram
                .min(budget.room_bytes / TUNING.bytes_for_a_label),
        })
    }

    /// Nodes of all layers.
    pub(super) fn nodes(&self) -> usize {
        self.layers.iter().map(|layer| layer.nodes.len()).sum::<usize>() + self.last
    }
}

/// The nodes of a layer in the making.
#[derive(Default)]
struct Front {
    index: HashMap<State, u32>,
    /// What is remembered at each, and the least that ways to it are busy with.
    nodes: Vec<(State, BusyTimes)>,
}

impl Front {
    /// What may follow on a state of the layer before.
    fn follow(&mut self, step: &Step, state: State, least: BusyTimes, limit_ns: u64) -> Node {
        let mut node = Node {
            to: [NOWHERE; 2],
            busy: [[0; 3]; 2],
        };
        for choice in [Choice::Outside, Choice::Inside] {
            let after = step.after(state, choice);
            let within = after.filter(|(_, busy)| keep_limit(sum(least, *busy), limit_ns));
            if let Some((after, busy)) = within {
                node.to[choice as usize] = self.reach(after, sum(least, busy));
                node.busy[choice as usize] = busy;
            }
        }
        node
    }

    /// The node where a state is remembered, with another way to it.
    fn reach(&mut self, state: State, busy: BusyTimes) -> u32 {
        let new = self.nodes.len() as u32;
        let node = *self.index.entry(state).or_insert(new);
        if node == new {
            self.nodes.push((state, busy));
        }
        let least = &mut self.nodes[node as usize].1;
        *least = [0, 1, 2].map(|r| least[r].min(busy[r]));
        node
    }
}
