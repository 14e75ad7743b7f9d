//! Which layers a framework keeps together, and in which order it lays them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::{Network, Stack};
use crate::model::constraint::{Constraint, NamedPlaces, Places};
use crate::model::region::Layout;

/// Layers as a framework takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaidOut {
    /// Layers that lie together.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Whether no group may lie behind the next one.
    pub(crate) in_a_row: bool,
}

/// Why a network cannot be laid out so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is no stack of blocks, or several.
    NoStack,
    /// A layer that reads a block and is read by one.
    BetweenBlocks(usize),
    /// A layer whose name is that of no module.
    NoModule(usize),
    /// Layers of which none needs the other.
    NotInARow,
}

impl Network {
    /// Its forward layers as a framework takes them.
    pub(crate) fn laid_out(&self, layout: Layout) -> Result<LaidOut, Unfit> {
        let forward = |layer: usize| !self.layers[layer].backward;
        let in_a_row = |groups| LaidOut {
            groups,
            in_a_row: true,
        };
        match layout {
            Layout::Layers => Ok(LaidOut::default()),
            Layout::ModuleTree => {
                let groups = self.whole_modules()?;
                Ok(LaidOut {
                    groups,
                    in_a_row: false,
                })
            }
            Layout::ModuleList => Ok(in_a_row(self.module_list())),
            Layout::Blocks { each, predictors } => {
                let stack = self.stack(forward).ok_or(Unfit::NoStack)?;
                let [before, after] = stack.ends(self, forward)?;
                let (predicting, after) = match predictors {
                    true => self.predictors(after),
                    false => (BTreeMap::new(), after),
                };
                let mut groups: Vec<Vec<usize>> = stack.blocks.into_values().collect();
                match each {
                    true => {
                        groups[0].extend(before);
                        groups.last_mut().into_iter().for_each(|last| last.extend(&after));
                    }
                    false => {
                        groups.insert(0, before);
                        groups.push(predicting.into_values().flatten().collect());
                        groups.push(after);
                    }
                }
                groups.retain(|group| !group.is_empty());
                Ok(in_a_row(groups))
            }
        }
    }

    /// Its forward layers as a constraint joins them.
    pub(crate) fn laid_out_by(&self, constraint: &Constraint) -> Result<LaidOut, Unfit> {
        let of_name = |name: &String| self.layers.iter().position(|layer| layer.id == *name);
        let groups = match constraint {
            Constraint::Apart(_) | Constraint::AtMost(_) => Vec::new(),
            Constraint::Together(names) => vec![names.iter().filter_map(of_name).collect()],
            Constraint::Cuts(Places::Named(NamedPlaces::Blocks)) => {
                let stack = self
                    .stack(|layer| !self.layers[layer].backward)
                    .ok_or(Unfit::NoStack)?;
                stack.blocks.into_values().collect()
            }
            Constraint::Cuts(Places::Behind(names)) => {
                let behind: Vec<usize> = names.iter().filter_map(of_name).collect();
                return Ok(LaidOut {
                    groups: self.between(&behind)?,
                    in_a_row: true,
                });
            }
        };
        Ok(LaidOut {
            groups,
            in_a_row: false,
        })
    }

    /// What lies between places behind some layers, each with all that it needs: the layers before the first, and so on to those behind the last.
    fn between(&self, behind: &[usize]) -> Result<Vec<Vec<usize>>, Unfit> {
        let order = self.positions(|layer| !self.layers[layer].backward);
        let mut left = vec![true; self.layers.len()];
        let mut groups = Vec::new();
        let places = order.iter().filter(|layer| behind.contains(layer));
        let mut last = None;
        for &place in places {
            let needed = self.needed_by(place);
            if last.is_some_and(|last: usize| !needed[last]) {
                return Err(Unfit::NotInARow);
            }
            last = Some(place);
            let own = order
                .iter()
                .copied()
                .filter(|&layer| needed[layer] && left[layer]);
            let own: Vec<usize> = own.collect();
            own.iter().for_each(|&layer| left[layer] = false);
            groups.push(own);
        }
        groups.push(order.into_iter().filter(|&layer| left[layer]).collect());
        groups.retain(|group| !group.is_empty());
        Ok(groups)
    }

    /// For each layer whether another needs it, itself included.
    fn needed_by(&self, layer: usize) -> Vec<bool> {
        let graph = self.graph();
        let mut needed = vec![false; self.layers.len()];
        let mut open = vec![layer];
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut needed[next], true) {
                let before = graph.neighbors_directed((next as u32).into(), petgraph::Incoming);
                open.extend(before.map(|from| from.index()));
            }
        }
        needed
    }

    /// Positions of the layers that count, producers before consumers and among equals as in the file.
    fn positions(&self, counts: impl Fn(usize) -> bool) -> Vec<usize> {
        let graph = self.graph();
        let mut waits_for: Vec<usize> = graph
            .node_indices()
            .map(|layer| graph.neighbors_directed(layer, petgraph::Incoming).count())
            .collect();
        let mut ready: BinaryHeap<Reverse<usize>> = (0..waits_for.len())
            .filter(|&layer| waits_for[layer] == 0)
            .map(Reverse)
            .collect();
        let mut order = Vec::new();
        while let Some(Reverse(layer)) = ready.pop() {
            order.push(layer);
            for next in graph.neighbors((layer as u32).into()) {
                waits_for[next.index()] -= 1;
                if waits_for[next.index()] == 0 {
                    ready.push(Reverse(next.index()));
                }
            }
        }
        order.retain(|&layer| counts(layer));
        order
    }

    /// The network as a list of modules, each of which runs on what the one before returns: it is parted where one layer's output is all
    /// that later ones still need.
    pub(crate) fn module_list(&self) -> Vec<Vec<usize>> {
        let order = self.positions(|layer| !self.layers[layer].backward);
        let mut open = Open::new(self, &order);
        let mut modules = vec![Vec::new()];
        for (at, &layer) in order.iter().enumerate() {
            if let Some(module) = modules.last_mut() {
                module.push(layer);
            }
            if at + 1 < order.len() && open.after(at) == [Some(layer)] {
                modules.push(Vec::new());
            }
        }
        modules
    }

    /// The layers inside of each outermost module that computes something itself.
    fn whole_modules(&self) -> Result<Vec<Vec<usize>>, Unfit> {
        let mut paths = Vec::new();
        for (at, layer) in self
            .layers
            .iter()
            .enumerate()
            .filter(|(_, layer)| !layer.backward)
        {
            paths.push((at, module_path(&layer.id).ok_or(Unfit::NoModule(at))?));
        }
        let own: BTreeSet<&[&str]> = paths.iter().map(|(_, path)| &path[..]).collect();
        let mut groups: BTreeMap<&[&str], Vec<usize>> = BTreeMap::new();
        for (at, path) in &paths {
            let outermost = (1..=path.len()).find(|&length| own.contains(&path[..length]));
            let module = &path[..outermost.unwrap_or(path.len())];
            groups.entry(module).or_default().push(*at);
        }
        Ok(groups.into_values().collect())
    }
}

/// The names of the modules that a layer lies in, from the outside in; `None` if its name is none of a module.
pub(crate) fn module_path(id: &str) -> Option<Vec<&str>> {
    let path = id.split_once('/').map_or(id, |(path, _)| path);
    let is_name = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let parts: Vec<&str> = path.split('.').collect();
    parts.iter().all(is_name).then_some(parts)
}

impl Stack {
    /// The layers that count, before the blocks and after them.
    pub(crate) fn ends(
        &self,
        network: &Network,
        counts: impl Fn(usize) -> bool,
    ) -> Result<[Vec<usize>; 2], Unfit> {
        let mut is_block = vec![false; network.layers.len()];
        self.blocks.values().flatten().for_each(|&at| is_block[at] = true);
        let graph = network.graph();
        let mut behind = vec![false; network.layers.len()];
        let [mut before, mut after] = [Vec::new(), Vec::new()];
        for at in network.positions(counts) {
            let mut read = graph.neighbors_directed((at as u32).into(), petgraph::Incoming);
            behind[at] = read.any(|from| is_block[from.index()] || behind[from.index()]);
            if is_block[at] {
                continue;
            }
            match behind[at] {
                false => before.push(at),
                true => after.push(at),
            }
            let mut next = graph.neighbors((at as u32).into());
            if behind[at] && next.any(|to| is_block[to.index()]) {
                return Err(Unfit::BetweenBlocks(at));
            }
        }
        Ok([before, after])
    }
}

/// What later layers of an order still read: earlier layers, and `None` for the network's input.
pub(crate) struct Open<'a> {
    /// The position of the last reader of what each position makes.
    last_reader: Vec<usize>,
    /// The layer at each position.
    order: &'a [usize],
    /// The position of the last reader of the network's input.
    last_input: usize,
    /// Positions whose layers are still read.
    open: BTreeSet<usize>,
}

impl<'a> Open<'a> {
    pub(crate) fn new(network: &Network, order: &'a [usize]) -> Self {
        let mut position = vec![None; network.layers.len()];
        for (at, &layer) in order.iter().enumerate() {
            position[layer] = Some(at);
        }
        let mut last_reader = vec![0; order.len()];
        let mut reads_layer = vec![false; order.len()];
        for tensor in &network.tensors {
            let Some(from) = position[tensor.producer] else {
                continue;
            };
            for to in tensor.consumers.iter().filter_map(|&to| position[to]) {
                last_reader[from] = last_reader[from].max(to);
                reads_layer[to] = true;
            }
        }
        Self {
            last_reader,
            order,
            last_input: (0..order.len())
                .rfind(|&at| !reads_layer[at] || network.layers[order[at]].reads_input)
                .unwrap_or(0),
            open: BTreeSet::new(),
        }
    }

    /// What is needed after a position; to be asked of one after the other.
    pub(crate) fn after(&mut self, at: usize) -> Vec<Option<usize>> {
        self.open.insert(at);
        self.open.retain(|&from| self.last_reader[from] > at);
        let input = (self.last_input > at).then_some(None);
        let layers = self.open.iter().map(|&from| Some(self.order[from]));
        layers.chain(input).collect()
    }
}
