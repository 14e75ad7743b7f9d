//! The combinatorial problem: items, order pairs and transfers, with every time decided.
//!
//! Formulations, heuristics and oracles work on this; layers come back only in the plan.

pub(crate) mod beside;
pub mod bound_source;
pub mod confined;
pub mod control;
pub mod copies;
pub mod cost;
mod derived;
pub mod hybrid;
pub(crate) mod memory;
pub mod modal_chunks;
pub mod modes;
pub(crate) mod passes;
pub mod pipeline;
pub mod placement;
pub mod plan;
pub mod prompt;
pub mod shares;
pub mod switches;
pub mod tables;
pub mod virtual_stages;
pub mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::graph::DiGraph;
use serde::{Deserialize, Serialize};

use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::network::{Layer, Network, Times, contract};
use crate::model::objective::Formula;
use crate::model::options::{Cuts, Shares, WorkerMode};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::units::LARGEST_EXACT;
use crate::problem::beside::Cases;
use crate::problem::confined::Confined;
use crate::problem::modal_chunks::ModalChunks;
use crate::problem::modes::{Modes, Part, Pass};
pub use crate::problem::passes::Pair;
use crate::problem::passes::{Passes, TransferCosts};
use crate::problem::prompt::Reads;
use crate::problem::tables::{Beside, Copies};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::workers::{Choice, Workers};

/// Stage of every item, from 0; stages may be empty.
pub type Assignment = Vec<usize>;

/// What a program decides on: which of at most `stages` stages each item lies in.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The options it came from.
    pub settings: Settings,
    /// Most stages a plan may have: those of the settings, but never more than there are items to fill them. Where devices have several
    /// chunks, the chunks, all of which keep their places.
    stages: usize,
    /// The items, numbered in a topological order of the order pairs.
    pub items: Vec<Item>,
    /// Order pairs: an edge (u, v) says stage(u) <= stage(v). Acyclic; vertex indices are item positions.
    pub order: DiGraph<usize, ()>,
    /// Transfers between items, none of them free.
    pub transfers: Vec<Transfer>,
    /// Transfers that touch each item, by position in `transfers`.
    pub transfers_of: Vec<Vec<usize>>,
    /// Passes that may lie apart and hold bytes; empty with tied cuts.
    pub pairs: Vec<Pair>,
    /// Tables of weights that two items read.
    pub copies: Vec<Copies>,
    /// Items that tied cuts would join: the passes of a layer, and of a tie; empty with tied cuts.
    pub ties: Vec<(usize, usize)>,
    /// Workers, where they differ; `None` where every stage runs on one device like any other.
    pub workers: Option<Workers>,
    /// Modes of stages and layers, where there are any to choose from, or links have two levels.
    pub modes: Option<Modes>,
    /// Chunks of devices that have several; `None` where each has one, which is a stage.
    pub virtual_stages: Option<VirtualStages>,
    /// What stages may hold beside their memory; `None` without such constraints, and in problems of other items.
    pub confined: Option<Confined>,
    /// Where stages have modes and passes are items of their own, the same problem with tied cuts.
    pub(crate) with_tied_cuts: Option<Arc<Problem>>,
    /// The problem told apart, where forward passes may lie beside a copy of their table; else no cases but itself.
    pub(crate) cases: Arc<Cases>,
    /// Layers whose forward pass lies beside a copy of their table, by position, if it is away from the backward pass.
    beside: BTreeSet<usize>,
    /// Where stages have modes, the chunks that devices may have several of.
    pub modal_chunks: Arc<[ModalChunks]>,
    /// What items and transfers take for each chunk of a prompt, where one is read; `None` elsewhere, and in problems of other items.
    pub reads: Option<Arc<Reads>>,
    /// For each layer of the network the rank of its block, where the network is a stack of equal blocks; empty elsewhere, and in
    /// problems made of others.
    pub blocks: Vec<Option<usize>>,
}

/// What a program places: layers that share a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Layers whose forward pass it holds, by position in the network.
    pub layers: Vec<usize>,
    /// Layers whose backward pass it holds: with tied cuts the same, with an explicit backward graph its operators.
    pub backward_layers: Vec<usize>,
    /// Forward work in ns; where workers differ, on the slowest class at rate 1.
    pub forward_ns: u64,
    /// Backward work in ns, likewise.
    pub backward_ns: u64,
    /// The part of it that is gradients of weights, in ns; 0 where nobody says.
    pub weight_ns: u64,
    /// Times on each class of worker, at rate 1, where workers differ; `None` where the class cannot run it.
    pub times: Vec<Option<Times>>,
    /// Bytes held once, one version of the weights among them.
    pub base_bytes: u64,
    /// Bytes of one further version of the weights.
    pub parameter_bytes: u64,
    /// Bytes held for each micro-batch in flight.
    pub stash_bytes: u64,
}

impl Item {
    /// Forward and backward work in ns.
    pub fn work_ns(&self) -> u64 {
        self.forward_ns + self.backward_ns
    }

    /// Layers of which it holds any pass, sorted.
    pub fn all_layers(&self) -> Vec<usize> {
        let mut layers = [&self.layers[..], &self.backward_layers].concat();
        layers.sort_unstable();
        layers.dedup();
        layers
    }

    /// What it holds of layers that may run in several modes; `is_cut` says whether their passes may be items of their own.
    fn parts(&self, is_cut: bool) -> Vec<Part> {
        let pass = |layer: &usize| match [&self.layers, &self.backward_layers].map(|of| of.contains(layer)) {
            [true, false] if is_cut => Pass::Forward,
            [false, true] if is_cut => Pass::Backward,
            _ => Pass::Whole,
        };
        let layers = self.all_layers().into_iter();
        layers
            .map(|layer| Part {
                pass: pass(&layer),
                layer,
            })
            .collect()
    }
}

/// Tensors of one producing item and one set of consuming items; costs of equals are added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The producing item.
    pub producer: usize,
    /// The other items that consume it, sorted; at least one.
    pub consumers: Vec<usize>,
    /// ns from producer to consumer during forward propagation.
    pub forward_ns: u64,
    /// ns from producer to consumer during backward propagation: tensors of an explicit backward graph.
    pub backward_ns: u64,
    /// ns from consumer to producer during backward propagation: the gradients of forward tensors.
    pub gradient_ns: u64,
}

impl Transfer {
    /// All that one side pays when the transfer crosses a cut, in ns.
    pub fn total_ns(&self) -> u64 {
        self.forward_ns + self.backward_ns + self.gradient_ns
    }

    /// Producer and consumers.
    pub fn items(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.producer).chain(self.consumers.iter().copied())
    }
}

impl Problem {
    /// Contracts an instance's network under its settings.
    ///
    /// # Errors
    ///
    /// Every layer that no stage could run or hold, more stages than items under `all_stages`, and totals that the
    /// settings push out of the exact range.
    pub fn new(instance: &Instance, settings: Settings) -> Result<Self, InputError> {
        let mut all = Beside::all(instance, &settings);
        let others = all.split_off(1);
        let mut problem = Self::beside(instance, settings, &all[0])?;
        problem.cases = Arc::new(Cases::new(instance, &problem, &others));
        Ok(problem)
    }

    /// The problem in which some forward passes lie beside a copy of their table.
    fn beside(instance: &Instance, settings: Settings, beside: &Beside) -> Result<Self, InputError> {
        let network = &instance.network;
        let passes = Passes::new(instance, &settings, beside);
        let graph = contract(
            passes.nodes.len(),
            passes.ties(instance),
            &passes.order_pairs(instance),
        );
        let workers = match settings.heterogeneous {
            true => Some(workers(instance, &settings)?),
            false => None,
        };
        let classes = workers.as_ref().map_or(0, |workers| workers.classes.len());
        let mut faults = unplaceable(instance, &settings, workers.as_ref());
        let mut items = items(network, &settings, (&passes, &graph.members), classes);
        let item_of = |node: usize| graph.item_of[node];
        let (mut copies, of_tables) = copies::copies(instance, &settings, (&mut items, beside));
        faults.extend(of_tables);
        let mut transfers = passes.transfers(instance, &settings, item_of);
        copies::add_sums(&settings, &copies, &mut transfers);
        let mut pairs = passes.pairs(instance, item_of);
        let most_bytes = most_bytes(&settings, workers.as_ref()).filter(|_| !settings.modal);
        pairs.extend(copies::pairs(
            &settings,
            &mut copies,
            (&mut items, &graph.order),
            most_bytes,
        ));
        if settings.cuts == Cuts::Separate {
            pairs = summed(pairs);
        }
        let ties = apart(passes.tied(instance), item_of);
        let virtual_stages = VirtualStages::from_settings(&settings);
        let stages = match &virtual_stages {
            Some(virtual_stages) => virtual_stages.chunks(),
            None => settings.stages.min(items.len()),
        };
        // Operators of an explicit backward graph have the one pass that they are.
        let is_cut = settings.cuts == Cuts::Separate && !network.has_explicit_backward();
        let parts: Vec<Vec<Part>> = items.iter().map(|item| item.parts(is_cut)).collect();
        let (modes, modal_chunks) = modes(instance, &settings, (&parts, &copies));
        let reads = Reads::in_modes(instance, &settings, (&parts, &copies));
        if modes.is_some() {
            // They are counted at every degree.
            copies.clear();
            pairs.clear();
        }
        faults.extend(ModalChunks::fault_of_none(&settings, modes.as_ref()));
        let with_tied_cuts = Self::with_tied_cuts(instance, &settings, modes.as_ref(), beside);
        let problem = Self::assemble(settings, stages, items, graph.order, transfers);
        Self {
            modal_chunks,
            modes,
            with_tied_cuts,
            beside: beside.layers.clone(),
            virtual_stages,
            workers,
            pairs,
            copies,
            ties,
            confined: Confined::new(instance, &problem.settings, &problem.items),
            reads: reads
                .or_else(|| Reads::new(instance, &problem.settings, &problem.items, &problem.transfers))
                .map(Arc::new),
            blocks: network.equal_blocks(),
            ..problem
        }
        .validate(network, faults)
    }

    /// The same problem with tied cuts, where stages have modes and passes may lie apart wherever they like: of fewer items it may be none.
    fn with_tied_cuts(
        instance: &Instance,
        settings: &Settings,
        modes: Option<&Modes>,
        beside: &Beside,
    ) -> Option<Arc<Self>> {
        let may_be = beside.joined.is_empty() && modes.is_some_and(Modes::has_passes_apart);
        let tied = may_be.then(|| Self::new(instance, settings.with_tied_cuts()).ok());
        tied.flatten().map(Arc::new)
    }

    fn assemble(
        settings: Settings,
        stages: usize,
        items: Vec<Item>,
        order: DiGraph<usize, ()>,
        transfers: TransferCosts,
    ) -> Self {
        let transfers: Vec<Transfer> = transfers
            .into_iter()
            .map(
                |((producer, consumers), [forward_ns, backward_ns, gradient_ns])| Transfer {
                    producer,
                    consumers,
                    forward_ns,
                    backward_ns,
                    gradient_ns,
                },
            )
            .collect();
        let mut transfers_of = vec![Vec::new(); items.len()];
        for (t, transfer) in transfers.iter().enumerate() {
            transfer.items().for_each(|item| transfers_of[item].push(t));
        }
        Self {
            settings,
            stages,
            items,
            order,
            transfers,
            transfers_of,
            pairs: Vec::new(),
            copies: Vec::new(),
            ties: Vec::new(),
            workers: None,
            modes: None,
            virtual_stages: None,
            confined: None,
            with_tied_cuts: None,
            cases: Arc::default(),
            beside: BTreeSet::new(),
            modal_chunks: Arc::default(),
            reads: None,
            blocks: Vec::new(),
        }
    }

    /// Most stages a plan may have.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// Bytes an item takes on the stage that is `from_end` stages from the end (1 for the last), if the passes of its layers
    /// are together: see [`Problem::bytes_apart`].
    pub fn memory_bytes(&self, item: &Item, from_end: usize) -> u64 {
        let bytes = [item.base_bytes, item.parameter_bytes, item.stash_bytes];
        self.settings.bytes_on(bytes, from_end)
    }

    /// What a pair changes in the bytes of its backward pass's stage, and adds to those of its forward pass's, if they lie so
    /// many stages from the end.
    ///
    /// The stash lies with the backward pass, for all micro-batches that are away; a forward pass elsewhere needs the
    /// weights too.
    pub fn bytes_apart(&self, pair: &Pair, forward: usize, backward: usize) -> (i64, u64) {
        let settings = &self.settings;
        let more = settings.in_flight_between(forward, backward) as i64 - settings.in_flight(backward) as i64;
        let versions = settings.weight_versions(forward.max(backward)) - settings.weight_versions(backward);
        let stash = more * pair.stash_bytes as i64 + (versions * pair.parameter_bytes) as i64;
        (stash, if forward == backward { 0 } else { pair.weight_bytes })
    }

    /// Whether stages go through several kinds of devices in the order in which these are listed.
    pub fn has_ordered_rows(&self) -> bool {
        let modes = self.modes.as_ref();
        modes.is_some_and(|modes| modes.rows_ascend && modes.rows.len() > 1)
    }

    /// Whether a stage's memory depends on where the layers of other stages have their other pass.
    pub fn memory_is_joint(&self) -> bool {
        !self.pairs.is_empty() && !self.memory_never_binds()
    }

    /// Whether an item takes as many bytes on every stage, or memory never binds.
    pub fn memory_is_alike(&self) -> bool {
        let is_alike = |item| self.memory_bytes(item, 1) == self.memory_bytes(item, self.stages());
        self.memory_never_binds() || self.items.iter().all(is_alike)
    }

    /// Whether all stages have one share a resource type.
    pub fn shares_are_global(&self) -> bool {
        self.settings.worker == WorkerMode::Concurrent && self.settings.shares == Shares::Global
    }

    /// Work of all items, in ns.
    pub fn work_ns(&self) -> u64 {
        self.items.iter().map(Item::work_ns).sum()
    }

    /// More than any stage of any plan holds, in bytes.
    fn most_bytes(&self) -> u64 {
        if let Some(virtual_stages) = &self.virtual_stages {
            let [in_flight, _] = virtual_stages.extremes();
            let of_item = |item: &Item| item.base_bytes + in_flight * item.stash_bytes;
            return self.items.iter().map(of_item).sum();
        }
        let together = self
            .items
            .iter()
            .map(|item| self.memory_bytes(item, self.stages()));
        let apart = self.pairs.iter().map(|pair| pair.weight_bytes);
        together.chain(apart).sum()
    }

    /// Whether the memory of no stage could ever bind, so that programs may leave it out: all items together fit the
    /// stage that holds most.
    pub fn memory_never_binds(&self) -> bool {
        let all = self.most_bytes();
        match &self.workers {
            None => self.settings.memory_limit.is_none_or(|limit| all <= limit),
            Some(workers) => {
                let holds = |choice: &Choice| workers.memory_bytes(&self.settings, choice);
                workers.choices.iter().all(|choice| all <= holds(choice))
            }
        }
    }

    /// The objective as a function of what stages cost: see [`Settings::formula`].
    pub fn formula(&self) -> Formula {
        self.settings.formula()
    }

    fn validate(self, network: &Network, mut faults: Vec<Fault>) -> Result<Self, InputError> {
        if self.items.is_empty() {
            faults.push(Fault::new(
                setting::MODE.given("inference"),
                FaultKind::EmptyNetwork,
            ));
        }
        if self.settings.all_stages && self.settings.chunks() > self.items.len() {
            faults.push(Fault::new(
                setting::STAGES,
                FaultKind::TooManyStages {
                    stages: self.settings.chunks(),
                    items: self.items.len(),
                    tied: network.tied().first().map(|tied| tied.in_words(network)),
                },
            ));
        }
        let moving: f64 = self
            .transfers
            .iter()
            .map(|t| t.total_ns() as f64 * (1 + t.consumers.len()) as f64)
            .sum();
        let formula = self.formula();
        // Bottlenecks, what counts once, and one more for the links.
        // A simulated iteration is begun and ended stage by stage.
        let longer = match self.settings.is_simulated() {
            true => 2.0 * self.stages() as f64,
            false => 0.0,
        };
        let rounds = formula.weight as f64 + f64::from(u8::from(formula.counts_loads)) + 1.0 + longer;
        let in_flight = match &self.virtual_stages {
            Some(virtual_stages) => virtual_stages.extremes()[0],
            None => self.settings.in_flight(self.stages()),
        };
        let held: f64 = self
            .items
            .iter()
            .map(|i| {
                i.base_bytes as f64
                    + self.settings.weight_versions(self.stages()) as f64 * i.parameter_bytes as f64
                    + in_flight as f64 * i.stash_bytes as f64
            })
            .sum();
        let slowest = self.workers.as_ref().map_or(1.0, Workers::slowest);
        let parameters: f64 = self.items.iter().map(|item| item.parameter_bytes as f64).sum();
        let synchronizing = self.workers.as_ref().map_or(0.0, |workers| {
            workers.most_synchronization_ns(&self.settings, self.stages(), parameters)
        });
        // Loads, in ticks, must be exact in a double; so must iterations, in ns.
        let load = slowest * self.work_ns() as f64 + moving;
        let rounded = match self.workers {
            None => self.settings.ticks_per_ns as f64,
            Some(_) => 1.0,
        };
        let time = load.max((rounds * load + synchronizing) / rounded);
        for (found, unit) in [(time, "ns"), (held, "bytes")] {
            if found > LARGEST_EXACT as f64 {
                faults.push(Fault::new(
                    "the whole problem",
                    FaultKind::Overflow {
                        found,
                        most: LARGEST_EXACT,
                        unit,
                    },
                ));
            }
        }
        if faults.is_empty() {
            Ok(self)
        } else {
            Err(InputError { path: None, faults })
        }
    }
}

/// The items of passes that lie together, on so many classes of workers.
fn items(
    network: &Network,
    settings: &Settings,
    (passes, groups): (&Passes, &[Vec<usize>]),
    classes: usize,
) -> Vec<Item> {
    let mut items = vec![Item::default(); groups.len()];
    for (item, members) in items.iter_mut().zip(groups) {
        item.times = vec![Some(Times::default()); classes];
        for node in members.iter().map(|&member| passes.nodes[member]) {
            let layer = &network.layers[node.layer];
            let times = node
                .times(settings.longest_times(layer))
                .scaled(settings.ticks_per_ns);
            item.forward_ns += times.forward_ns;
            item.backward_ns += times.backward_ns;
            if node.backward {
                item.weight_ns += settings.ticks_per_ns * settings.longest_times(layer).weight_ns;
            }
            for (class, sum) in item.times.iter_mut().enumerate() {
                let times = settings.times_on(layer, settings.kinds[class]);
                *sum = plus(
                    *sum,
                    times.map(|times| node.times(times).scaled(settings.ticks_per_ns)),
                );
            }
            if node.forward {
                item.layers.push(node.layer);
            }
            if node.backward {
                item.backward_layers.push(node.layer);
            }
            // The backward pass holds everything, if there is one.
            if node.backward || passes.backward_of[node.layer].is_none() {
                item.base_bytes += settings.base_bytes(layer);
                item.parameter_bytes += layer.parameter_bytes;
                item.stash_bytes += layer.stash_bytes;
            }
        }
    }
    items
}

/// Ties between items instead of what they hold, as far as it lies apart.
fn apart(ties: Vec<(usize, usize)>, item_of: impl Fn(usize) -> usize) -> Vec<(usize, usize)> {
    let items = ties.into_iter().map(|(a, b)| (item_of(a), item_of(b)));
    items.filter(|(a, b)| a != b).collect()
}

/// Pairs of the same items as one.
fn summed(pairs: Vec<Pair>) -> Vec<Pair> {
    let mut sums: BTreeMap<(usize, usize), [u64; 3]> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair.forward != pair.backward) {
        let sum = sums.entry((pair.forward, pair.backward)).or_default();
        sum[0] += pair.weight_bytes;
        sum[1] += pair.parameter_bytes;
        sum[2] += pair.stash_bytes;
    }
    type Sum = ((usize, usize), [u64; 3]);
    let pair = |((forward, backward), [weight_bytes, parameter_bytes, stash_bytes]): Sum| Pair {
        forward,
        backward,
        weight_bytes,
        parameter_bytes,
        stash_bytes,
    };
    sums.into_iter().map(pair).collect()
}

/// What stages with modes may be, and their chunks.
fn modes(
    instance: &Instance,
    settings: &Settings,
    items: (&[Vec<Part>], &[Copies]),
) -> (Option<Modes>, Arc<[ModalChunks]>) {
    let modes = settings.modal.then(|| Modes::new(instance, settings, items));
    let chunks = modes
        .as_ref()
        .map(|modes| ModalChunks::all(settings, modes, settings.fills_chunks()));
    (modes, chunks.unwrap_or_default().into())
}

fn workers(instance: &Instance, settings: &Settings) -> Result<Workers, InputError> {
    Workers::new(&instance.cluster, settings).map_err(|fault| InputError {
        path: None,
        faults: vec![fault],
    })
}

/// Times of what runs together; `None` if part of it cannot run.
fn plus(sum: Option<Times>, times: Option<Times>) -> Option<Times> {
    let (sum, times) = (sum?, times?);
    Some(Times {
        forward_ns: sum.forward_ns + times.forward_ns,
        backward_ns: sum.backward_ns + times.backward_ns,
        weight_ns: sum.weight_ns + times.weight_ns,
    })
}

/// A layer that no stage could hold, even if it held nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TooLarge {
    /// The layer.
    pub layer: String,
    /// What it needs alone on the stage that holds fewest micro-batches in flight, the last one, in bytes.
    pub needs_bytes: u64,
}

/// Layers that need more memory, alone on the stage that holds fewest micro-batches in flight, than any stage has. None is told where layers have modes, of which each takes
/// another share of a device.
pub fn too_large(instance: &Instance, settings: &Settings) -> Vec<TooLarge> {
    if settings.modal {
        return Vec::new();
    }
    let workers = match settings.heterogeneous {
        true => Workers::new(&instance.cluster, settings).ok(),
        false => None,
    };
    most_bytes(settings, workers.as_ref()).map_or(Vec::new(), |most| larger_than(instance, settings, most))
}

/// The most that any stage may hold, in bytes; `None` without a limit.
fn most_bytes(settings: &Settings, workers: Option<&Workers>) -> Option<u64> {
    match workers {
        None => settings.memory_limit,
        Some(workers) => {
            let of = |choice| workers.memory_bytes(settings, choice);
            workers.choices.iter().map(of).max()
        }
    }
}

fn larger_than(instance: &Instance, settings: &Settings, most_bytes: u64) -> Vec<TooLarge> {
    let layers = instance
        .network
        .layers
        .iter()
        .filter(|layer| settings.includes(layer));
    let in_flight = match VirtualStages::from_settings(settings) {
        Some(virtual_stages) => virtual_stages.extremes()[1],
        None => settings.in_flight(1),
    };
    let needs = |layer: &Layer| TooLarge {
        layer: layer.id.clone(),
        needs_bytes: settings
            .base_bytes(layer)
            .saturating_add(in_flight.saturating_mul(layer.stash_bytes)),
    };
    layers
        .map(needs)
        .filter(|layer| layer.needs_bytes > most_bytes)
        .collect()
}

/// Layers that no stage could run, or hold even alone on the last stage.
fn unplaceable(instance: &Instance, settings: &Settings, workers: Option<&Workers>) -> Vec<Fault> {
    let names: Vec<&str> = settings
        .kinds
        .iter()
        .map(|&kind| instance.cluster.kinds[kind].name.as_str())
        .collect();
    let names = names.join("` or `");
    let layers = instance
        .network
        .layers
        .iter()
        .filter(|layer| settings.includes(layer));
    let runs_on = |layer: &Layer, kind: usize| match settings.modal {
        true => layer.modes().iter().any(|mode| mode.times[kind].is_some()),
        false => layer.times[kind].is_some(),
    };
    let runs = |layer: &&Layer| settings.kinds.iter().any(|&kind| runs_on(layer, kind));
    let fault = |layer: &str, kind| Fault::new(format!("layer `{layer}`"), kind);
    let idle = layers.filter(|layer| !runs(layer)).map(|layer| {
        let reason = format!("it has no time on `{names}`");
        fault(&layer.id, FaultKind::FitsNoDevice { reason })
    });
    // Modes may take less.
    let most_bytes = most_bytes(settings, workers).filter(|_| !settings.modal);
    let large = most_bytes.map_or(Vec::new(), |most| larger_than(instance, settings, most));
    let large = large.into_iter().map(|layer| {
        let kind = FaultKind::FitsNoMemory {
            needs_bytes: layer.needs_bytes,
            most_bytes: most_bytes.unwrap_or(u64::MAX),
            of: names.clone(),
        };
        fault(&layer.layer, kind)
    });
    idle.chain(large).collect()
}
