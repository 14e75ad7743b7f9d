//! Passes: what of a layer is placed by itself, before what must lie together becomes an item.
#![doc = include_str!("../../formulations/cuts.md")]

use std::collections::{BTreeMap, HashSet};

use crate::model::instance::Instance;
use crate::model::network::{LaidOut, Layer, Times};
use crate::model::options::Cuts;
use crate::model::settings::Settings;
use crate::model::units::transfer_ns;
use crate::problem::tables::Beside;

/// A forward or backward pass of a layer, or both where they are tied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Position of the layer.
    pub layer: usize,
    /// Whether the forward pass is part of it.
    pub forward: bool,
    /// Whether the backward pass is part of it.
    pub backward: bool,
}

impl Node {
    /// Its part of a layer's times. Nothing that is placed has a part of a backward pass alone.
    pub(crate) fn times(self, times: Times) -> Times {
        Times {
            forward_ns: if self.forward { times.forward_ns } else { 0 },
            backward_ns: if self.backward { times.backward_ns } else { 0 },
            weight_ns: 0,
        }
    }
}

/// Transfers by producer and consumers: forward, backward and gradient ns.
pub(crate) type TransferCosts = BTreeMap<(usize, Vec<usize>), [u64; 3]>;

/// The passes of one layer in items of their own, as far as memory cares where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The item of the forward pass.
    pub forward: usize,
    /// The item of the backward pass, which counts the layer's bytes as if both were together.
    pub backward: usize,
    /// Bytes of the weights, which the forward pass needs where it lies.
    pub weight_bytes: u64,
    /// Bytes of one further version of those that are trained.
    pub parameter_bytes: u64,
    /// Bytes kept for each micro-batch in flight, which lie with the backward pass.
    pub stash_bytes: u64,
}

/// All passes of a problem.
pub(crate) struct Passes {
    /// The passes.
    pub nodes: Vec<Node>,
    /// Where each layer's forward pass is.
    pub forward_of: Vec<Option<usize>>,
    /// Where each layer's backward pass is.
    pub backward_of: Vec<Option<usize>>,
    is_separate: bool,
    is_explicit: bool,
    /// Backward passes that are cut by themselves: where cuts are separate, those through which gradients return. The others take and keep nothing, and lie with the
    /// forward pass.
    cut_back: Vec<Option<usize>>,
    /// Layers as the framework takes them that plans are for, and as constraints join them.
    laid_out: Vec<LaidOut>,
    /// Forward passes that lie beside a copy of their table.
    beside: Beside,
}

impl Passes {
    /// The passes of the layers that the settings include.
    ///
    /// With an explicit backward graph every operator has the one pass that it is.
    ///
    /// * `beside`: forward passes that lie beside a copy of their table.
    pub(crate) fn new(instance: &Instance, settings: &Settings, beside: &Beside) -> Self {
        let layers = &instance.network.layers;
        let is_explicit = instance.network.has_explicit_backward();
        let trains = settings.mode.trains();
        let is_separate = settings.cuts == Cuts::Separate;
        let mut passes = Self {
            nodes: Vec::new(),
            forward_of: vec![None; layers.len()],
            backward_of: vec![None; layers.len()],
            is_separate,
            is_explicit,
            cut_back: vec![None; layers.len()],
            laid_out: laid_out(instance, settings),
            beside: beside.clone(),
        };
        let includes = |layer: &Layer| settings.includes(layer);
        for layer in (0..layers.len()).filter(|&layer| includes(&layers[layer])) {
            let forward = !layers[layer].backward;
            let backward = trains && (layers[layer].backward || !is_explicit);
            let alone = [(forward, false), (false, backward)];
            let nodes = match is_separate && forward && backward {
                true => &alone[..],
                false => &[(forward, backward)],
            };
            for &(forward, backward) in nodes {
                let at = passes.nodes.len();
                passes.nodes.push(Node {
                    layer,
                    forward,
                    backward,
                });
                if forward {
                    passes.forward_of[layer] = Some(at);
                }
                if backward {
                    passes.backward_of[layer] = Some(at);
                    let is_cut = is_separate && !is_explicit && layers[layer].returns;
                    passes.cut_back[layer] = Some(at).filter(|_| is_cut);
                }
            }
        }
        passes
    }

    /// Passes of layers that share a tie, or that constraints join; with separate cuts those of either direction by themselves.
    pub(crate) fn ties(&self, instance: &Instance) -> Vec<(usize, usize)> {
        let nodes = self.nodes.iter().enumerate();
        let (cut, idle): (Vec<usize>, Vec<usize>) =
            nodes.map(|(at, _)| at).partition(|&at| !self.is_idle(at));
        let mut ties = self.of_one_tie(instance, &cut, |node| self.is_separate && !node.forward);
        let of_layer = |at: usize| Some((self.forward_of[self.nodes[at].layer]?, at));
        ties.extend(idle.into_iter().filter_map(of_layer));
        ties.extend(&self.beside.joined);
        for group in self.laid_out.iter().flat_map(|laid_out| &laid_out.groups) {
            for passes in self.directions() {
                let nodes = group.iter().filter_map(|&layer| passes[layer]);
                let nodes: Vec<usize> = nodes.collect();
                ties.extend(nodes.windows(2).map(|two| (two[0], two[1])));
            }
        }
        ties
    }

    /// The passes of layers that are cut: forward ones, and where cuts are separate backward ones besides.
    fn directions(&self) -> impl Iterator<Item = &[Option<usize>]> {
        [&self.forward_of, &self.cut_back].into_iter().map(Vec::as_slice)
    }

    /// Whether it is a backward pass by itself that does nothing, as no gradient returns through its layer.
    fn is_idle(&self, at: usize) -> bool {
        let node = self.nodes[at];
        self.is_separate && !self.is_explicit && !node.forward && self.cut_back[node.layer].is_none()
    }

    /// Passes that tied cuts join: both of a layer, and those of layers that share a tie.
    pub(crate) fn tied(&self, instance: &Instance) -> Vec<(usize, usize)> {
        let of_layers = self.forward_of.iter().zip(&self.backward_of);
        let both = of_layers.filter_map(|(forward, backward)| Some(((*forward)?, (*backward)?)));
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        both.chain(self.of_one_tie(instance, &all, |_| false)).collect()
    }

    /// Passes among some, of layers that share a tie, those of each side by themselves.
    fn of_one_tie(
        &self,
        instance: &Instance,
        among: &[usize],
        side: impl Fn(&Node) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut first: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        let mut pairs = Vec::new();
        for (at, node) in among.iter().map(|&at| (at, &self.nodes[at])) {
            if let Some(tie) = &instance.network.layers[node.layer].tie {
                pairs.push((*first.entry((tie, side(node))).or_insert(at), at));
            }
        }
        pairs
    }

    /// Order follows the forward tensors and the row in which a framework lays groups, and for backward passes again: backward propagation runs through the pipeline the
    /// other way. The operators of an explicit backward graph follow the forward ones of their ties, tied or not.
    pub(crate) fn order_pairs(&self, instance: &Instance) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for tensor in &instance.network.tensors {
            for &to in &tensor.consumers {
                let from = tensor.producer;
                let both = |of: &[Option<usize>]| Some((of[from]?, of[to]?));
                pairs.extend(self.directions().filter_map(both));
            }
        }
        if self.is_separate && self.is_explicit {
            pairs.extend(self.backward_pairs(instance));
        }
        for laid_out in self.laid_out.iter().filter(|laid_out| laid_out.in_a_row) {
            for passes in self.directions() {
                let first = |group: &Vec<usize>| group.iter().find_map(|&layer| passes[layer]);
                let groups = laid_out.groups.windows(2);
                pairs.extend(groups.filter_map(|two| Some((first(&two[0])?, first(&two[1])?))));
            }
        }
        pairs
    }

    /// Order pairs of the operators of an explicit backward graph: those that their ties would give them, from every tie to
    /// the next ones along the forward tensors that have backward operators.
    fn backward_pairs(&self, instance: &Instance) -> Vec<(usize, usize)> {
        let layers = &instance.network.layers;
        let mut first = BTreeMap::new();
        let tie_of: Vec<usize> = (0..layers.len())
            .map(|layer| match &layers[layer].tie {
                Some(tie) => *first.entry(tie).or_insert(layer),
                None => layer,
            })
            .collect();
        let mut after = vec![Vec::new(); layers.len()];
        for tensor in &instance.network.tensors {
            for &to in &tensor.consumers {
                if self.forward_of[tensor.producer]
                    .and(self.forward_of[to])
                    .is_some()
                {
                    after[tie_of[tensor.producer]].push(tie_of[to]);
                }
            }
        }
        // Backward operators of a tie lie together: one stands for all.
        let mut operator = vec![None; layers.len()];
        for (layer, &node) in self.backward_of.iter().enumerate() {
            operator[tie_of[layer]] = operator[tie_of[layer]].or(node);
        }
        let mut pairs = Vec::new();
        for (tie, from) in operator.iter().enumerate() {
            let Some(from) = *from else { continue };
            let mut seen = HashSet::new();
            let mut open = after[tie].clone();
            while let Some(next) = open.pop() {
                if !seen.insert(next) {
                    continue;
                }
                match operator[next] {
                    Some(to) => pairs.push((from, to)),
                    None => open.extend(&after[next]),
                }
            }
        }
        pairs
    }

    /// What moves between passes, by producing and consuming items.
    pub(crate) fn transfers(
        &self,
        instance: &Instance,
        settings: &Settings,
        item_of: impl Fn(usize) -> usize,
    ) -> TransferCosts {
        let mut moved = Moved {
            costs: TransferCosts::new(),
            item_of,
        };
        if !settings.communication.takes_time() {
            return moved.costs;
        }
        for tensor in &instance.network.tensors {
            let ns = settings.ticks_per_ns * settings.transfer_ns(tensor);
            let node = |layer: usize| self.forward_of[layer].or(self.backward_of[layer]);
            let consumers = tensor.consumers.iter().filter_map(|&to| node(to));
            let is_backward = instance.network.layers[tensor.producer].backward;
            let way = if is_backward { [0, ns, 0] } else { [ns, 0, 0] };
            moved.add(node(tensor.producer), consumers, way);
            let returns = instance.network.layers[tensor.producer].returns;
            if settings.mode.trains() && !self.is_explicit && returns {
                let consumers = tensor.consumers.iter().filter_map(|&to| self.backward_of[to]);
                moved.add(self.backward_of[tensor.producer], consumers, [0, 0, ns]);
            }
        }
        if settings.cuts == Cuts::Tied {
            return moved.costs;
        }
        for (layer, of) in instance.network.layers.iter().enumerate() {
            let (Some(forward), Some(backward)) = (self.forward_of[layer], self.backward_of[layer]) else {
                continue;
            };
            // What the backward pass needs, and the weights it has changed.
            moved.add(
                Some(forward),
                [backward].into_iter(),
                [stash_ns(settings, of), 0, 0],
            );
            moved.add(
                Some(backward),
                [forward].into_iter(),
                [0, weights_ns(settings, self.moved_bytes(layer, of)), 0],
            );
        }
        moved.costs
    }

    /// Bytes of weights that a forward pass away from the backward one receives after an update.
    fn moved_bytes(&self, layer: usize, of: &Layer) -> u64 {
        match self.beside.layers.contains(&layer) && !of.frozen {
            true => of.parameter_bytes - of.shared_bytes,
            false => of.parameter_bytes,
        }
    }

    /// Layers whose passes may lie apart and hold bytes.
    pub(crate) fn pairs(&self, instance: &Instance, item_of: impl Fn(usize) -> usize) -> Vec<Pair> {
        let of = |(layer, of): (usize, &Layer)| {
            let (forward, backward) = (self.forward_of[layer]?, self.backward_of[layer]?);
            let has_table = self.beside.layers.contains(&layer);
            let there_bytes = if has_table { of.shared_bytes } else { 0 };
            let pair = Pair {
                forward: item_of(forward),
                backward: item_of(backward),
                weight_bytes: of.parameter_bytes + of.frozen_bytes - there_bytes,
                parameter_bytes: of.parameter_bytes,
                stash_bytes: of.stash_bytes,
            };
            let holds = pair.weight_bytes + pair.stash_bytes > 0;
            (holds && pair.forward != pair.backward).then_some(pair)
        };
        instance
            .network
            .layers
            .iter()
            .enumerate()
            .filter_map(of)
            .collect()
    }
}

/// Layers as the framework takes them that plans are for, and as constraints join them; a network that cannot be so has been refused.
fn laid_out(instance: &Instance, settings: &Settings) -> Vec<LaidOut> {
    let network = &instance.network;
    let of_target = settings
        .target
        .map(|target| network.laid_out(target.limits().layout));
    let constraints = settings.constraints.iter();
    let all = of_target
        .into_iter()
        .chain(constraints.map(|constraint| network.laid_out_by(constraint)));
    all.filter_map(Result::ok).collect()
}

/// Time to move a layer's stash for one micro-batch, in ticks.
fn stash_ns(settings: &Settings, layer: &Layer) -> u64 {
    let link = settings.link;
    settings.ticks_per_ns * transfer_ns(layer.stash_bytes, link.bandwidth_bytes_per_s, link.latency_ns)
}

/// Time to move so many bytes of weights after an update, as far as each micro-batch bears it: all of it where there is no flush,
/// else its part of an iteration, in ticks.
fn weights_ns(settings: &Settings, bytes: u64) -> u64 {
    let link = settings.link;
    let all_ns = transfer_ns(bytes, link.bandwidth_bytes_per_s, link.latency_ns);
    match settings.schedule.flushes() {
        true => settings.shared_out(all_ns),
        false => settings.ticks_per_ns * all_ns,
    }
}

/// Transfers as they are found.
struct Moved<F> {
    costs: TransferCosts,
    item_of: F,
}

impl<F: Fn(usize) -> usize> Moved<F> {
    /// Adds ns of each way between passes, unless they are in one item.
    fn add(&mut self, producer: Option<usize>, consumers: impl Iterator<Item = usize>, ns: [u64; 3]) {
        let Some(producer) = producer.map(&self.item_of) else {
            return;
        };
        let mut consumers: Vec<usize> = consumers
            .map(&self.item_of)
            .filter(|&item| item != producer)
            .collect();
        consumers.sort_unstable();
        consumers.dedup();
        if consumers.is_empty() || ns == [0; 3] {
            return;
        }
        let sum = self.costs.entry((producer, consumers)).or_default();
        sum.iter_mut().zip(ns).for_each(|(sum, ns)| *sum += ns);
    }
}
