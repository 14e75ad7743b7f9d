//! The network: layers and tensors as a directed acyclic graph, and the items a program places.

mod items;
mod layout;
mod shared;
mod stack;
mod ties;

pub(crate) use items::contract;
pub(crate) use layout::{LaidOut, Open, Unfit, module_path};
pub(crate) use shared::SharedTable;
pub(crate) use stack::{Stack, predictor_of};
#[cfg(feature = "cli")]
pub(crate) use ties::Tied;

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;
use petgraph::visit::NodeIndexable;

use crate::model::precision::Precision;
use crate::model::prompt::Reading;
use crate::model::recompute;

/// A validated network. Layers are known by their position in [`Network::layers`], which never changes.
///
/// Built only by [`crate::model::instance`], so every value of this type is non-empty and acyclic, has unique names, and its
/// totals stay below `crate::model::units::LARGEST_EXACT`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Network {
    /// The layers, in file order.
    pub layers: Vec<Layer>,
    /// The tensors, in file order; every consumer list is sorted and without repetition.
    pub tensors: Vec<Tensor>,
    /// Numbers that it computes with, where the file says so.
    pub precision: Option<Precision>,
    /// What a micro-batch is, where the file says so.
    pub micro_batch: Option<MicroBatch>,
}

/// A micro-batch of a language model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MicroBatch {
    /// Tokens that a pass takes in, more than 0.
    pub tokens: f64,
    /// Sequences that these are of, as many of each, where the file says so.
    pub sequences: Option<u64>,
    /// FLOPs that the model asks for forward, where the file says so.
    pub forward_flops: Option<f64>,
    /// The same backward.
    pub backward_flops: Option<f64>,
    /// Passes forward that it is made of, at least 1.
    pub passes: u64,
}

/// A layer or operator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Layer {
    /// Name in the input file.
    pub id: String,
    /// What it computes, for reports.
    pub operator: Option<String>,
    /// Times by device kind, in the order of the cluster's kinds; `None` where the kind cannot run it.
    pub times: Vec<Option<Times>>,
    /// Of which parts its forward time is made, by device kind, where it runs there; of a layer that says nothing of attention, all is
    /// in proportion to tokens.
    pub readings: Vec<Option<Reading>>,
    /// Whether it says what of it is attention.
    pub says_attention: bool,
    /// Bytes of the parameters.
    pub parameter_bytes: u64,
    /// Bytes kept from forward to backward for each micro-batch in flight.
    pub stash_bytes: u64,
    /// Further bytes held once.
    pub resident_bytes: u64,
    /// What it keeps of the requests that are served.
    pub cache: Cache,
    /// Layers of one tie share a stage.
    pub tie: Option<String>,
    /// The table of weights that it reads together with others.
    pub shared: Option<String>,
    /// Bytes of that table, a part of the parameters; of a frozen layer, of its resident bytes.
    pub shared_bytes: u64,
    /// Its experts, whose parameters are among its own.
    pub experts: Option<Experts>,
    /// Whether training leaves its weights as they are. Bytes and times of the layer and its modes are then those that this leaves: see
    /// [`crate::model::instance`].
    pub frozen: bool,
    /// Of a frozen layer, the part of its resident bytes that are its weights.
    pub frozen_bytes: u64,
    /// Whether gradients flow back through it in training, so that those of its tensors move over what these cross: not where it and all
    /// before it are frozen.
    pub returns: bool,
    /// True for a layer that reads the network's own input beside other layers.
    pub reads_input: bool,
    /// True for an operator of an explicit backward graph.
    pub backward: bool,
    /// Ways to run it, each of another degree or recomputation; empty for a layer that has the one above.
    pub modes: Vec<LayerMode>,
    /// Whether its modes alone say what it is on one device, and what stands above is not all of it: none of them is of one device, or the one that
    /// is has a workspace or bytes beside tensors.
    pub only_in_modes: bool,
}

/// A way to run a layer on the devices of a tensor group; all sizes are those of one device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerMode {
    /// Devices of the tensor group.
    pub tensor: usize,
    /// What is computed again in the backward pass, by name.
    pub recompute: String,
    /// Times by device kind, in the order of the cluster's kinds; `None` where the kind cannot run it.
    pub times: Vec<Option<Times>>,
    /// Of which parts its forward time is made, as of a layer.
    pub readings: Vec<Option<Reading>>,
    /// Whether it says what of it is attention.
    pub says_attention: bool,
    /// Bytes of the parameters; the same for all modes of a degree.
    pub parameter_bytes: u64,
    /// Bytes of the table that it shares with others, as of a layer; the same for all modes of a degree.
    pub shared_bytes: u64,
    /// The experts, as of a layer.
    pub experts: Option<Experts>,
    /// Bytes of gradients that replicas exchange; the same for all modes of a degree.
    pub gradient_bytes: u64,
    /// Bytes kept for each micro-batch in flight.
    pub stash_bytes: u64,
    /// Bytes that lie at the host for each micro-batch in flight: copied there behind its forward pass, and back before the backward one.
    pub host_bytes: u64,
    /// Further bytes held once.
    pub resident_bytes: u64,
    /// What it keeps of the requests that are served.
    pub cache: Cache,
    /// Bytes needed while it runs.
    pub workspace_bytes: u64,
    /// Bytes that the group reduces for a micro-batch.
    pub collective_bytes: u64,
    /// Bytes to move beside what enters the stage, by producing layer; the same for all modes of a degree.
    pub input_bytes: Vec<(usize, u64)>,
    /// Bytes to move beside what leaves it, by consuming layer; the same for all modes of a degree.
    pub output_bytes: Vec<(usize, u64)>,
}

impl LayerMode {
    /// Bytes of the weights on a device that an update changes: of experts that so many share out its part.
    pub(crate) fn weights_of(&self, expert: usize) -> u64 {
        let of_experts = self.experts.map_or(0, |experts| experts.parameter_bytes);
        let of_experts = of_experts.min(self.parameter_bytes);
        self.parameter_bytes - of_experts + of_experts.div_ceil(expert as u64)
    }

    /// Whether the backward pass computes something of the forward pass again.
    pub(crate) fn computes_again(&self) -> bool {
        ![recompute::NONE, recompute::OFFLOAD].contains(&self.recompute.as_str())
    }
}

/// Experts of a layer, of which each token goes to some.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Experts {
    /// How many there are, at least 1.
    pub count: usize,
    /// Bytes of their parameters; of a frozen layer, a part of its resident bytes.
    pub parameter_bytes: u64,
    /// Bytes that a device exchanges for a micro-batch if all experts of its tokens are elsewhere.
    pub routed_bytes: u64,
    /// The part of the layer's time that is theirs.
    pub share: f64,
}

impl Layer {
    /// Its modes: what it is on one device, where it lists none.
    pub fn modes(&self) -> Cow<'_, [LayerMode]> {
        if !self.modes.is_empty() {
            return Cow::Borrowed(&self.modes);
        }
        Cow::Owned(vec![LayerMode {
            tensor: 1,
            recompute: recompute::NONE.to_owned(),
            times: self.times.clone(),
            readings: self.readings.clone(),
            says_attention: self.says_attention,
            parameter_bytes: self.parameter_bytes,
            shared_bytes: self.shared_bytes,
            experts: self.experts,
            gradient_bytes: self.parameter_bytes,
            stash_bytes: self.stash_bytes,
            host_bytes: 0,
            resident_bytes: self.resident_bytes,
            cache: self.cache,
            workspace_bytes: 0,
            collective_bytes: 0,
            input_bytes: Vec::new(),
            output_bytes: Vec::new(),
        }])
    }
}

/// What a layer keeps of the requests that are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cache {
    /// Bytes for each token.
    pub token_bytes: u64,
    /// Bytes for each sequence.
    pub sequence_bytes: u64,
}

/// Times of a layer on a device kind, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// Forward propagation.
    pub forward_ns: u64,
    /// Backward propagation: the gradients of the input and of the weights.
    pub backward_ns: u64,
    /// The part of it that is gradients of weights; 0 for a backward pass in one piece. What finds a plan never asks for it: a
    /// device does both parts for every micro-batch, whatever the order.
    pub weight_ns: u64,
}

impl Times {
    /// Both so many times as long.
    pub(crate) fn scaled(self, by: u64) -> Self {
        Self {
            forward_ns: self.forward_ns * by,
            backward_ns: self.backward_ns * by,
            weight_ns: self.weight_ns * by,
        }
    }
}

/// A tensor: one producer, many consumers, one cost however many edges it has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tensor {
    /// Position of the producing layer.
    pub producer: usize,
    /// Positions of the consuming layers, sorted.
    pub consumers: Vec<usize>,
    /// What moving it costs.
    pub size: Size,
}

/// What moving a tensor costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Size {
    /// So many bytes over a link.
    Bytes(u64),
    /// A measured time in ns, whatever the link.
    TransferNs(u64),
}

impl Size {
    /// A part of it, of bytes or of time alike.
    pub(crate) fn part(self, of: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(of(bytes)),
            Self::TransferNs(ns) => Self::TransferNs(of(ns)),
        }
    }
}

impl Network {
    /// Whether some layer can be split over several devices.
    pub fn has_tensor_degrees(&self) -> bool {
        let mut modes = self.layers.iter().flat_map(|layer| &layer.modes);
        modes.any(|mode| mode.tensor > 1)
    }

    /// Whether some layer says which part of its backward pass is gradients of weights, on some device kind.
    pub fn splits_backward(&self) -> bool {
        let splits = |times: &[Option<Times>]| times.iter().flatten().any(|times| times.weight_ns > 0);
        let of_layer =
            |layer: &Layer| splits(&layer.times) || layer.modes.iter().any(|mode| splits(&mode.times));
        self.layers.iter().any(of_layer)
    }

    /// Whether the file carries backward operators as layers of their own.
    pub fn has_explicit_backward(&self) -> bool {
        self.layers.iter().any(|layer| layer.backward)
    }

    /// The layers and their tensors as a graph: one vertex a layer, with its position; one edge a producer-consumer pair.
    pub(crate) fn graph(&self) -> DiGraph<usize, ()> {
        let pairs = self
            .tensors
            .iter()
            .flat_map(|tensor| tensor.consumers.iter().map(|&to| (tensor.producer, to)));
        digraph(self.layers.len(), pairs)
    }
}

/// A graph over positions `0..n`, so that a vertex index is the position it stands for; each edge once.
///
/// Time O(n + edges).
pub(crate) fn digraph(n: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> DiGraph<usize, ()> {
    let mut graph = DiGraph::with_capacity(n, n);
    for position in 0..n {
        graph.add_node(position);
    }
    // The graph itself would look through all edges of a vertex for each new one.
    let mut known = HashSet::with_capacity(n);
    for (from, to) in edges {
        let [from, to] = [from, to].map(|position| position as u32);
        if known.insert((from, to)) {
            graph.add_edge(from.into(), to.into(), ());
        }
    }
    graph
}

/// Some directed cycle of `graph`, as the positions along it with the first repeated at the end.
///
/// A shortest path inside a strongly connected component, back to its start. Time O(V + E) beside the components'.
pub(crate) fn find_cycle(graph: &DiGraph<usize, ()>) -> Option<Vec<usize>> {
    if let Some(loop_at) = graph.node_indices().find(|&v| graph.contains_edge(v, v)) {
        return Some(vec![graph[loop_at]; 2]);
    }
    // Without recursion: paths are as long as networks are deep.
    let component = kosaraju_scc(graph).into_iter().find(|c| c.len() > 1)?;
    let start = component[0];
    let mut came_from = vec![None; graph.node_bound()];
    let mut queue = VecDeque::from([start]);
    while let Some(v) = queue.pop_front() {
        for next in graph.neighbors(v) {
            if next == start {
                let mut path = vec![graph[start], graph[v]];
                let mut at = v;
                while let Some(before) = came_from[at.index()] {
                    path.push(graph[before]);
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            if came_from[next.index()].is_none() {
                came_from[next.index()] = Some(v);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_and_closed() {
        let graph = digraph(5, [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]);
        let cycle = find_cycle(&graph).unwrap();
        assert_eq!(cycle.first(), cycle.last());
        assert_eq!(cycle.len(), 4);
        assert!(
            cycle
                .windows(2)
                .all(|w| graph.contains_edge((w[0] as u32).into(), (w[1] as u32).into()))
        );
    }

    #[test]
    fn a_loop_is_a_cycle_and_a_chain_is_none() {
        assert_eq!(find_cycle(&digraph(2, [(1, 1)])), Some(vec![1, 1]));
        assert_eq!(find_cycle(&digraph(3, [(0, 1), (1, 2)])), None);
    }
}
