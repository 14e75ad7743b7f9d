//! What the rest of a stage may still be worth, from each node of a diagram.

use std::cmp::Reverse;
use std::mem;

use crate::exact::busy_times::{BusyTimes, sum};
use crate::exact::stage_diagram::budget::Budget;
use crate::exact::stage_diagram::diagram::{Diagram, Layer, NOWHERE, Node};
use crate::exact::stage_diagram::sweep::Choice;
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;

/// Parts of a stage: none has less load, and none is worth more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub load_ns: u64,
    pub price: u64,
}

/// What an empty part comes to.
pub(super) const NOTHING: Label = Label { load_ns: 0, price: 0 };

/// For each node, what ways from it to the end may be worth by what they add to the load: no way is worth more than the labels say.
pub(super) struct Completions {
    layers: Vec<LabelsOfLayer>,
    /// For each layer and node, what the stage is busy with if nothing else joins.
    closing: Vec<Vec<Option<BusyTimes>>>,
}

#[derive(Default)]
struct LabelsOfLayer {
    /// Where the labels of each node end.
    ends: Vec<u32>,
    labels: Vec<Label>,
}

impl LabelsOfLayer {
    fn of(&self, node: usize) -> &[Label] {
        let start = if node == 0 { 0 } else { self.ends[node - 1] };
        &self.labels[start as usize..self.ends[node] as usize]
    }
}

/// Collects the labels of one node after the other.
pub(super) struct Collector {
    labels: Vec<Label>,
    limit_ns: u64,
    /// One label for each range of loads, and how wide a range is.
    shelves: Vec<Label>,
    width_ns: u64,
}

impl Collector {
    /// For loads up to the limit of a diagram.
    pub(super) fn new(diagram: &Diagram) -> Self {
        let [least, most] = TUNING.labels_of_a_node;
        let most = (diagram.labels / diagram.nodes()).clamp(least, most);
        Self {
            labels: Vec::new(),
            limit_ns: diagram.limit_ns,
            shelves: vec![EMPTY; most],
            width_ns: diagram.limit_ns / most as u64 + 1,
        }
    }

    /// Takes labels that come by load, up to the limit.
    pub(super) fn put(&mut self, labels: impl Iterator<Item = Label>) {
        let limit_ns = self.limit_ns;
        self.labels
            .extend(labels.take_while(|label| label.load_ns <= limit_ns));
    }

    /// Hands out, by load, what is worth more than all with no more load. Of many, those of about the same load become one, with the
    /// least load and the highest price.
    pub(super) fn hand_out(&mut self, into: &mut Vec<Label>) {
        if self.labels.len() > self.shelves.len() / 2 {
            for label in self.labels.drain(..) {
                let shelf = &mut self.shelves[(label.load_ns / self.width_ns) as usize];
                shelf.load_ns = shelf.load_ns.min(label.load_ns);
                shelf.price = shelf.price.max(label.price);
            }
            for shelf in &mut self.shelves {
                if shelf.load_ns < u64::MAX {
                    self.labels.push(mem::replace(shelf, EMPTY));
                }
            }
        } else {
            // Runs that are sorted are only merged.
            self.labels
                .sort_by_key(|label| (label.load_ns, Reverse(label.price)));
        }
        let mut best = None;
        let better = self.labels.drain(..).filter(|label| {
            let is_better = best.is_none_or(|best| label.price > best);
            if is_better {
                best = Some(label.price);
            }
            is_better
        });
        into.extend(better);
    }
}

/// No label, on a shelf.
const EMPTY: Label = Label {
    load_ns: u64::MAX,
    price: 0,
};

impl Completions {
    /// From the last layer to the first.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub(super) fn new(diagram: &Diagram, prices: &[u64], budget: &mut Budget) -> Result<Self, StoppedBy> {
        let n = diagram.layers.len();
        let mut layers: Vec<LabelsOfLayer> = Vec::with_capacity(n + 1);
        layers.push(LabelsOfLayer {
            ends: (1..=diagram.last as u32).collect(),
            labels: vec![NOTHING; diagram.last],
        });
        let mut closing = vec![vec![Some([0; 3]); diagram.last]];
        let mut collector = Collector::new(diagram);
        for Layer { item, nodes, .. } in diagram.layers.iter().rev() {
            let (next, closing_next) = (&layers[layers.len() - 1], &closing[closing.len() - 1]);
            let mut layer = LabelsOfLayer::default();
            for node in nodes {
                let choices = [Choice::Outside, Choice::Inside].into_iter();
                for choice in choices.filter(|&choice| node.to[choice as usize] != NOWHERE) {
                    let labels = next.of(node.to[choice as usize] as usize).iter();
                    collector.put(labels.map(|label| label.with(node, choice, prices[*item])));
                }
                collector.hand_out(&mut layer.labels);
                layer.ends.push(layer.labels.len() as u32);
            }
            let close = |node: &Node| {
                let to = node.to[Choice::Outside as usize];
                let rest = (to != NOWHERE).then(|| closing_next[to as usize])??;
                Some(sum(rest, node.busy[Choice::Outside as usize]))
            };
            let closing_here = nodes.iter().map(close).collect();
            budget.take(2 * layer.labels.len() as u64)?;
            closing.push(closing_here);
            layers.push(layer);
        }
        layers.reverse();
        closing.reverse();
        Ok(Self { layers, closing })
    }

    /// The labels of a node, by load.
    pub(super) fn of(&self, layer: usize, node: u32) -> &[Label] {
        self.layers[layer].of(node as usize)
    }

    /// What a stage at a node is busy with beyond, if nothing else joins; `None` where that breaks the limit.
    pub(super) fn closing(&self, layer: usize, node: u32) -> Option<BusyTimes> {
        self.closing[layer][node as usize]
    }

    /// What the rest of a stage may be worth with no more load than this; `None` if there is no such rest.
    pub(super) fn most(&self, layer: usize, node: u32, load_ns: u64) -> Option<u64> {
        let labels = self.of(layer, node);
        let fitting = labels.partition_point(|label| label.load_ns <= load_ns);
        Some(labels[fitting.checked_sub(1)?].price)
    }
}

impl Label {
    /// The same with a choice before it.
    pub(super) fn with(self, node: &Node, choice: Choice, price: u64) -> Self {
        Self {
            load_ns: self.load_ns + node.busy[choice as usize][0],
            price: self.price + if choice == Choice::Inside { price } else { 0 },
        }
    }
}
