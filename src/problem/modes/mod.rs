//! Modes: how many devices run a stage, in tensor groups and replicas, and what its layers compute again.
#![doc = include_str!("../../../formulations/modes.md")]

mod apart;
mod context;
mod copies;
mod cost;
mod degrees;
mod experts;
mod extremes;
mod hosts;
mod links;
mod recomputation;
mod region;
mod sharding;

use std::sync::Arc;

use self::apart::ApartLayer;
pub use self::apart::Pass;
pub use self::copies::{ModalCopies, Table};
pub use self::cost::{ModalStage, ModalStages, Moves};
pub use self::degrees::Degree;
pub use self::hosts::OnceBytes;
pub use self::links::{BETWEEN, ByLevel, INSIDE, LEVELS, Links};
pub use self::recomputation::{
    Knapsack, Memory, Ways, bytes_of, fastest_within, greedy_within, host_bytes_of, smallest_way,
};
use crate::model::cluster::{Cluster, Host, Link};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode, Size, Tensor};
use crate::model::options::{DeviceOrder, Mode, OptimizerSharding, Schedule, Synchronization};
use crate::model::recompute;
use crate::model::settings::Settings;
use crate::problem::tables::Copies;

/// What stages may be made of; times are in [ticks](Settings::ticks_per_ns).
#[derive(Clone, Debug, PartialEq)]
pub struct Modes {
    /// Most devices of all stages together.
    pub devices: usize,
    /// The kinds of these devices, of each as many in a row as there are.
    pub rows: Vec<Row>,
    /// What stages may be but for their replicas: by row, where states of optimisers lie, context, experts and tensor degree, each ascending.
    pub degrees: Vec<Degree>,
    /// Whether no stage is on a row before that of the stage ahead of it.
    pub rows_ascend: bool,
    /// Replicas that stages may have, ascending.
    pub replicas: Vec<usize>,
    /// For each item and degree, what runs it; `None` where some layer has no mode of that degree.
    pub items: Arc<Vec<Vec<Option<ModalItem>>>>,
    /// Tensors between items, none of them free.
    pub transfers: Arc<Vec<ModalTransfer>>,
    /// Transfers that touch each item, by position in `transfers`.
    pub transfers_of: Vec<Vec<usize>>,
    /// What two items keep equal: tables that their layers share, and weights of layers whose passes they are.
    pub copies: Vec<ModalCopies>,
    /// Layers whose passes are items of their own, by position in the network.
    apart: Arc<Vec<ApartLayer>>,
    /// The links.
    pub links: Links,
    /// Whether transfers run on them beside the work.
    pub has_links: bool,
    /// Micro-batches in flight.
    pub flight: Flight,
    /// How it is decided what a stage computes again.
    pub knapsack: Knapsack,
    /// For each layer the rank of its block, where the network is a stack of blocks; else empty.
    blocks: Vec<Option<usize>>,
    /// How many of these items hold.
    blocks_held: usize,
    /// Whether replicas exchange gradients.
    synchronizes: bool,
    /// What they share out.
    sharding: OptimizerSharding,
    /// Micro-batches from one update of the weights to the next; `None` where each follows a backward pass of every replica.
    micro_batches: Option<u64>,
    /// Tokens of a micro-batch, where the network says them.
    tokens: f64,
    ticks_per_ns: u64,
}

/// Devices of one kind, numbered behind those of the rows before.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position of the kind in the cluster.
    pub kind: usize,
    /// The number of its first device, from 0.
    pub first: usize,
    /// How many there are.
    pub devices: usize,
    /// Memory of a device in bytes; `u64::MAX` without a limit.
    pub memory_bytes: u64,
    /// How fast a device runs forward and backward passes: times are divided by it.
    rates: [f64; 2],
    /// Where a device may lay what it keeps meanwhile.
    host: Option<Host>,
}

impl Row {
    /// The rows of the kinds in play.
    fn all(cluster: &Cluster, settings: &Settings) -> Vec<Self> {
        let mut first = 0;
        let row = |&kind: &usize| {
            let of = &cluster.kinds[kind];
            let devices = settings.count(cluster, kind).unwrap_or(settings.stages);
            let start = first;
            first += devices;
            Self {
                kind,
                first: start,
                devices,
                memory_bytes: settings.device_bytes(cluster, kind).unwrap_or(u64::MAX),
                rates: of.rates(),
                host: of.host,
            }
        };
        settings.kinds.iter().map(row).collect()
    }
}

/// An item at a tensor degree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModalItem {
    /// Bytes that move once an iteration.
    pub once_bytes: OnceBytes,
    /// Bytes that the replicas of a stage share out among them.
    pub shared_bytes: u64,
    /// Its layers, and the ways to run each: at least one.
    pub layers: Vec<LayerWays>,
}

/// What an item holds of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Position of the layer in the network.
    pub layer: usize,
    /// What of it.
    pub pass: Pass,
}

/// A layer and the ways to run it at a tensor degree.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWays {
    /// Position of the layer in the network.
    pub layer: usize,
    /// What of it this is.
    pub pass: Pass,
    /// The rank of its block, where the network is a stack of blocks.
    pub block: Option<usize>,
    /// The ways, the fastest first.
    pub ways: Vec<Way>,
}

/// A way to run a layer: the mode that it is, and what it costs a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Position among the layer's modes.
    pub mode: usize,
    /// The name of what it computes again.
    pub recompute: String,
    /// Forward time of a micro-batch.
    pub forward: u64,
    /// Backward time of a micro-batch.
    pub backward: u64,
    /// The part of it that is gradients of weights, where the schedule runs these apart; else 0.
    pub weight: u64,
    /// Time of what the tensor group reduces for a micro-batch.
    pub collective: u64,
    /// The part of it that is so in backward propagation, where there is any: half of the least that a way reduces, and what is reduced again.
    pub collective_back: u64,
    /// Bytes held once, without those that replicas share out.
    pub held_bytes: u64,
    /// Bytes for each micro-batch in flight.
    pub stash_bytes: u64,
    /// Bytes at the host for each micro-batch in flight.
    pub host_bytes: u64,
    /// Bytes needed while it runs.
    pub workspace_bytes: u64,
}

impl Way {
    /// All its time for a micro-batch.
    pub fn time(&self) -> u64 {
        self.forward + self.backward + self.collective
    }

    /// Forward and backward work, with what the tensor group reduces.
    pub fn passes(&self) -> [u64; 2] {
        let back = self.collective_back;
        [self.forward + self.collective - back, self.backward + back]
    }
}

/// A tensor between items: what a side pays for it, by level of the link.
#[derive(Clone, Debug, PartialEq)]
pub struct ModalTransfer {
    /// The producing item.
    pub producer: usize,
    /// The other items that consume it, sorted; at least one.
    pub consumers: Vec<usize>,
    /// What either side pays for a micro-batch.
    pub ticks: ByLevel,
    /// When it moves.
    pub passes: Passes,
    /// For each degree and consumer, what the producer's stage pays beside if that consumer is elsewhere.
    pub leaving: Vec<Vec<ByLevel>>,
    /// For each degree and consumer, what the consumer's stage pays beside if the producer is elsewhere.
    pub entering: Vec<Vec<ByLevel>>,
}

/// When a tensor moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// In forward propagation.
    Forward,
    /// In backward propagation: it is of an explicit backward graph.
    Backward,
    /// In forward propagation, and its gradient back.
    Both,
    /// Its gradient alone: from consumers to the producer in backward propagation.
    Gradient,
}

/// How many micro-batches a stage holds, by the replicas of it and of those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// None: inference.
    None,
    /// All that a replica takes in an iteration: GPipe.
    All(u64),
    /// As many as the stages from here on hold busy, at most all that a replica takes: 1F1B.
    Behind(u64),
}

impl Flight {
    fn new(settings: &Settings) -> Self {
        let all = settings.micro_batches.unwrap_or(u64::MAX);
        match (settings.mode, settings.schedule) {
            (Mode::Inference, _) => Self::None,
            (Mode::Training, Schedule::Gpipe) => Self::All(all),
            (Mode::Training, Schedule::Pipedream) => Self::Behind(u64::MAX),
            (Mode::Training, _) => Self::Behind(all),
        }
    }

    /// Micro-batches in flight in each of so many replicas, with so many replicas in all stages behind.
    pub fn of(self, replicas: usize, behind: usize) -> u64 {
        let each = |all: u64| all.div_ceil(replicas as u64);
        match self {
            Self::None => 0,
            Self::All(all) => each(all),
            Self::Behind(all) => each((replicas + behind) as u64).min(each(all)),
        }
    }
}

/// How a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageMode {
    /// Position of its tensor degree in [`Modes::degrees`].
    pub degree: usize,
    /// Its replicas.
    pub replicas: usize,
}

/// How all stages and layers of a plan run.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The mode of each stage.
    pub stages: Vec<StageMode>,
    /// The mode of each layer of the network, by its position among the layer's own; 0 for layers that no item holds.
    pub layers: Vec<usize>,
    /// How many stages each device has in turn, as its chunks: these have one mode then, all of them.
    pub virtual_stages: usize,
}

impl Modes {
    /// The modes of a problem whose items hold these layers.
    pub(crate) fn new(
        instance: &Instance,
        settings: &Settings,
        (items, copies): (&[Vec<Part>], &[Copies]),
    ) -> Self {
        let network = &instance.network;
        let rows = Row::all(&instance.cluster, settings);
        let devices = rows.iter().map(|row| row.devices).sum();
        let most = rows.iter().map(|row| row.devices).max().unwrap_or(0);
        let divides = |d: &usize| match (settings.mode, settings.micro_batches) {
            (Mode::Training, Some(all)) => all % *d as u64 == 0,
            _ => true,
        };
        let allowed = (1..=most).filter(|&d| settings.replicas.allows(d));
        let replicas: Vec<usize> = allowed.filter(divides).collect();
        let mut modes = Self {
            links: Links::new(&instance.cluster, settings, &rows),
            has_links: settings.communication.has_links(),
            degrees: Degree::all(network, settings, (&rows, &replicas)),
            devices,
            rows,
            rows_ascend: settings.device_order == DeviceOrder::Given,
            replicas,
            items: Arc::default(),
            transfers: Arc::default(),
            transfers_of: vec![Vec::new(); items.len()],
            copies: Vec::new(),
            apart: Arc::default(),
            flight: Flight::new(settings),
            knapsack: Knapsack::Exact,
            blocks: network.block_ranks(),
            blocks_held: Self::count_blocks(&network.block_ranks(), items),
            synchronizes: settings.synchronization == Synchronization::Ring
                && settings.mode.trains()
                && settings.communication.takes_time(),
            sharding: settings.optimizer_sharding,
            micro_batches: settings
                .updates_once()
                .then(|| settings.micro_batches.unwrap_or(1)),
            tokens: network.micro_batch.map_or(0.0, |of| of.tokens),
            ticks_per_ns: settings.ticks_per_ns,
        };
        modes.apart = Arc::new(modes.all_apart(instance, settings, items));
        let at_degrees = |parts: &Vec<Part>| {
            let degrees = 0..modes.degrees.len();
            degrees
                .map(|degree| modes.item(instance, settings, parts, degree))
                .collect()
        };
        modes.items = Arc::new(items.iter().map(at_degrees).collect());
        if settings.communication.takes_time() {
            modes.add_transfers(instance, settings, items);
            modes.add_between_passes();
        }
        modes.add_copies(instance, settings, copies);
        modes
    }

    /// The row of a degree's devices.
    pub fn row(&self, degree: usize) -> &Row {
        &self.rows[self.degrees[degree].row]
    }

    /// Whether a stage of a row may lie right behind one of another.
    pub fn may_follow(&self, ahead: usize, behind: usize) -> bool {
        !self.rows_ascend || ahead <= behind
    }

    /// Memory of a device of a degree in bytes; `u64::MAX` without a limit.
    pub fn memory_bytes(&self, degree: usize) -> u64 {
        self.row(degree).memory_bytes
    }

    /// What the host of a device of a degree may hold of it, in bytes; `u64::MAX` without a limit.
    pub fn host_memory_bytes(&self, degree: usize) -> u64 {
        let host = self.row(degree).host;
        host.and_then(|host| host.memory_bytes).unwrap_or(u64::MAX)
    }

    /// What rows of a program call a row: `all` where there is one.
    pub(crate) fn name_of_row(&self, row: usize) -> String {
        match self.rows.len() {
            1 => "all".into(),
            _ => format!("row {}", row + 1),
        }
    }

    /// How many stages of a mode its devices are enough for.
    pub fn most_of(&self, mode: &StageMode) -> usize {
        self.row(mode.degree).devices / self.devices_of(mode)
    }

    /// Devices of a replica of a degree.
    pub fn width(&self, degree: usize) -> usize {
        self.degrees[degree].tensor * self.degrees[degree].parts()
    }

    /// Devices that have the same weights in a stage of a mode: as many exchange gradients, and share out what replicas do.
    pub fn copies_of_weights(&self, mode: &StageMode) -> usize {
        self.degrees[mode.degree].parts() * mode.replicas
    }

    /// Whether memory limits anything.
    pub fn limits_memory(&self) -> bool {
        self.rows.iter().any(|row| row.memory_bytes < u64::MAX)
    }

    /// Whether two modes are alike but for the kind of device.
    pub(crate) fn are_alike(&self, one: &StageMode, other: &StageMode) -> bool {
        let of = |mode: &StageMode| {
            let of_any = Degree {
                row: 0,
                ..self.degrees[mode.degree]
            };
            (of_any, mode.replicas)
        };
        of(one) == of(other)
    }

    /// Every mode that a stage may have.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = StageMode> + '_ {
        let degrees = 0..self.degrees.len();
        degrees.flat_map(move |degree| {
            let replicas = self.replicas.iter();
            let replicas = replicas.filter(move |&&replicas| self.shares_out(degree, replicas));
            replicas.map(move |&replicas| StageMode { degree, replicas })
        })
    }

    /// The modes of [`Modes::kinds`] that are alike but for the kind of device, set by set.
    pub(crate) fn alike_kinds(&self) -> Vec<Vec<StageMode>> {
        let mut sets: Vec<Vec<StageMode>> = Vec::new();
        for mode in self.kinds() {
            match sets.iter_mut().find(|set| self.are_alike(&set[0], &mode)) {
                Some(set) => set.push(mode),
                None => sets.push(vec![mode]),
            }
        }
        sets
    }

    /// The same where stages have one of these modes of so many replicas all, the only ones that are left.
    pub(crate) fn only(&self, alike: &[StageMode]) -> Self {
        let of = |all: &[Vec<ByLevel>]| alike.iter().map(|mode| all[mode.degree].clone()).collect();
        let transfer = |transfer: &ModalTransfer| ModalTransfer {
            leaving: of(&transfer.leaving),
            entering: of(&transfer.entering),
            ..transfer.clone()
        };
        let degrees = || alike.iter().map(|mode| mode.degree);
        let of_item =
            |of_degrees: &Vec<Option<ModalItem>>| degrees().map(|at| of_degrees[at].clone()).collect();
        let apart = |apart: &ApartLayer| ApartLayer {
            degrees: degrees().map(|at| apart.degrees[at].clone()).collect(),
            ..apart.clone()
        };
        Self {
            apart: Arc::new(self.apart.iter().map(apart).collect()),
            degrees: degrees().map(|at| self.degrees[at]).collect(),
            replicas: alike.first().map(|mode| mode.replicas).into_iter().collect(),
            items: Arc::new(self.items.iter().map(of_item).collect()),
            transfers: Arc::new(self.transfers.iter().map(transfer).collect()),
            copies: self
                .copies
                .iter()
                .map(|copy| ModalCopies {
                    tables: degrees().map(|at| copy.tables[at]).collect(),
                    ..copy.clone()
                })
                .collect(),
            ..self.clone()
        }
    }

    /// The same with another rule for what stages compute again.
    pub(crate) fn deciding_by(self, knapsack: Knapsack) -> Self {
        Self { knapsack, ..self }
    }

    /// An item at a tensor degree.
    fn item(
        &self,
        instance: &Instance,
        settings: &Settings,
        parts: &[Part],
        degree: usize,
    ) -> Option<ModalItem> {
        let mut item = ModalItem::default();
        for &part in parts {
            let layer = &instance.network.layers[part.layer];
            let own = self.part_ways((layer, part), settings, degree)?;
            let mode = own.ways[0].mode;
            item.layers.push(own);
            if part.pass == Pass::Forward {
                continue;
            }
            // Modes of a degree have the same weights.
            let weights = &layer.modes()[mode];
            let [all, of_experts] = self.gradients_of(layer, weights, degree);
            let states = self.states_at_host(settings, layer, weights, degree);
            let once = [all, of_experts, states];
            item.once_bytes = [0, 1, 2].map(|of| item.once_bytes[of] + once[of]);
            item.shared_bytes += self.kept(settings, weights.parameter_bytes, degree).shared;
        }
        Some(item)
    }

    /// A layer and all ways to run it at a degree; `None` where it has none, or its experts cannot be shared out so.
    fn ways_of_layer(
        &self,
        (layer, at): (&Layer, usize),
        settings: &Settings,
        degree: usize,
    ) -> Option<LayerWays> {
        let ways = self.ways(layer, settings, degree);
        let experts = layer.modes()[ways.first()?.mode].experts;
        let shares_out =
            experts.is_none_or(|experts| experts.count.is_multiple_of(self.degrees[degree].expert));
        shares_out.then(|| LayerWays {
            layer: at,
            pass: Pass::Whole,
            block: self.blocks.get(at).copied().flatten(),
            ways,
        })
    }

    /// The ways to run a layer at a tensor degree, the fastest first: those of the names that are asked for, else those that keep
    /// everything.
    fn ways(&self, layer: &Layer, settings: &Settings, degree: usize) -> Vec<Way> {
        let modes = layer.modes();
        let tensor = self.degrees[degree].tensor;
        let of_degree = |mode: &&LayerMode| mode.tensor == tensor;
        let least = modes
            .iter()
            .filter(of_degree)
            .map(|mode| self.reduced(settings, mode, degree))
            .min();
        let is_asked = modes.iter().filter(of_degree).any(|mode| settings.may_run(mode));
        let is_allowed = |mode: &LayerMode| match is_asked {
            true => settings.may_run(mode),
            false => mode.recompute == recompute::NONE,
        };
        let of_degree = modes.iter().enumerate().filter(|(_, mode)| of_degree(mode));
        let allowed = of_degree.filter(|(_, mode)| is_allowed(mode));
        let mut ways: Vec<Way> = allowed
            .filter_map(|(at, mode)| self.way((settings, layer), (at, mode), (degree, least.unwrap_or(0))))
            .collect();
        ways.sort_by_key(|way| (way.time(), way.mode));
        ways
    }

    fn way(
        &self,
        (settings, layer): (&Settings, &Layer),
        (at, mode): (usize, &LayerMode),
        (degree, least): (usize, u64),
    ) -> Option<Way> {
        let row = self.row(degree);
        let times = mode.times[row.kind]?;
        let [forward, backward] = [times.forward_ns, times.backward_ns].map(|ns| ns * self.ticks_per_ns);
        let trains = settings.mode.trains() && layer.returns;
        let reduced = self.reduced(settings, mode, degree);
        let [gathered, exchanged] = self.exchanged_a_pass((settings, layer), mode, degree);
        let [handed, handed_back] = self.handed_round(mode, (degree, trains));
        let longer = |ticks: u64| self.with_load(settings, mode, degree, ticks);
        let part = |bytes: u64| bytes.div_ceil(self.degrees[degree].context as u64);
        let copied = self.copied(row, part(mode.host_bytes));
        // What is held once holds the version of a micro-batch in flight too: of every one, there is always one.
        let version = self.version_bytes(settings, mode, degree);
        Some(Way {
            mode: at,
            recompute: mode.recompute.clone(),
            forward: longer(at_rate(
                forward,
                row.rates[0] * self.degrees[degree].parts() as f64,
            )) + copied,
            backward: if trains {
                longer(self.backward(degree, backward)) + copied
            } else {
                0
            },
            weight: if trains && settings.splits_backward() {
                longer(self.backward(degree, times.weight_ns * self.ticks_per_ns))
            } else {
                0
            },
            collective: reduced + gathered + exchanged + handed + handed_back,
            // What is computed again is reduced again in the backward pass.
            collective_back: if trains {
                reduced - (least - least / 2) + exchanged + handed_back
            } else {
                0
            },
            held_bytes: self.held_bytes(settings, layer, mode, degree) - version,
            stash_bytes: part(mode.stash_bytes) + version,
            host_bytes: part(mode.host_bytes),
            workspace_bytes: part(mode.workspace_bytes) + self.whole_bytes((settings, layer), mode, degree),
        })
    }

    /// Time to copy bytes to the host of a device of a row, or back: the device does nothing else meanwhile.
    fn copied(&self, row: &Row, bytes: u64) -> u64 {
        let link = |host: Host| Link {
            bandwidth_bytes_per_s: host.bytes_per_s,
            latency_ns: 0,
        };
        row.host.map_or(0, |host| self.moving(bytes as f64, link(host)))
    }

    /// Time to move bytes over a link.
    fn moving(&self, bytes: f64, link: Link) -> u64 {
        if bytes == 0.0 {
            return 0;
        }
        let ns = bytes / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        (ns * self.ticks_per_ns as f64).round() as u64
    }

    fn add_transfers(&mut self, instance: &Instance, settings: &Settings, items: &[Vec<Part>]) {
        let none = vec![usize::MAX; instance.network.layers.len()];
        let [mut forward_of, mut backward_of] = [none.clone(), none];
        for (item, parts) in items.iter().enumerate() {
            for part in parts {
                if part.pass != Pass::Backward {
                    forward_of[part.layer] = item;
                }
                if part.pass != Pass::Forward {
                    backward_of[part.layer] = item;
                }
            }
        }
        // A tensor and its gradient, unless gradients are tensors of their own.
        let has_gradients = settings.mode.trains() && !instance.network.has_explicit_backward();
        for tensor in &instance.network.tensors {
            let made_by = &instance.network.layers[tensor.producer];
            let has_gradient = has_gradients && made_by.returns;
            let of = |item_of: &[usize]| self.between_items(instance, tensor, item_of);
            let (moved, back) = (of(&forward_of), of(&backward_of));
            let ends = |moved: &Option<ModalTransfer>| {
                let ends = moved.as_ref().map(|moved| (moved.producer, &moved.consumers));
                ends.map(|(producer, consumers)| (producer, consumers.clone()))
            };
            if has_gradient && ends(&moved) == ends(&back) {
                moved
                    .into_iter()
                    .for_each(|moved| self.add_transfer(moved.and_gradient()));
                continue;
            }
            let passes = if made_by.backward {
                Passes::Backward
            } else {
                Passes::Forward
            };
            let back = back.filter(|_| has_gradient);
            for (moved, passes) in [(moved, passes), (back, Passes::Gradient)] {
                moved
                    .into_iter()
                    .for_each(|moved| self.add_transfer(ModalTransfer { passes, ..moved }));
            }
        }
    }

    /// Adds what is not free.
    fn add_transfer(&mut self, transfer: ModalTransfer) {
        if transfer.is_free() {
            return;
        }
        let all = Arc::make_mut(&mut self.transfers);
        let ends = transfer.consumers.iter().copied().chain([transfer.producer]);
        ends.for_each(|item| self.transfers_of[item].push(all.len()));
        all.push(transfer);
    }

    /// A tensor between the items of some pass of layers; `None` where it stays in one.
    fn between_items(
        &self,
        instance: &Instance,
        tensor: &Tensor,
        item_of: &[usize],
    ) -> Option<ModalTransfer> {
        let producer = item_of[tensor.producer];
        let mut consumers: Vec<usize> = tensor.consumers.iter().map(|&to| item_of[to]).collect();
        consumers.sort_unstable();
        consumers.dedup();
        consumers.retain(|&item| item != producer && item != usize::MAX);
        let crosses = producer < usize::MAX && !consumers.is_empty();
        crosses.then(|| self.transfer(instance, tensor, (producer, consumers), item_of))
    }

    fn transfer(
        &self,
        instance: &Instance,
        tensor: &Tensor,
        (producer, consumers): (usize, Vec<usize>),
        item_of: &[usize],
    ) -> ModalTransfer {
        let layers = &instance.network.layers;
        let moving = |bytes: u64| self.links.by_level(|link| self.moving(bytes as f64, link));
        // What moves beside a tensor is part of its message. A tensor without bytes has none, so that what is beside it takes the latency.
        let is_alone = matches!(tensor.size, Size::Bytes(0));
        let beside = |bytes: u64| {
            let within = |link: Link| Link {
                latency_ns: if is_alone { link.latency_ns } else { 0 },
                ..link
            };
            self.links
                .by_level(|link| self.moving(bytes as f64, within(link)))
        };
        // The most that any of the layers involved adds.
        let extra = |layer: usize, degree: usize, other: usize, of: fn(&LayerMode) -> &[(usize, u64)]| {
            let modes = layers[layer].modes();
            let mode = modes.iter().find(|mode| mode.tensor == degree);
            let bytes = mode.and_then(|mode| of(mode).iter().find(|(named, _)| *named == other));
            bytes.map_or(0, |(_, bytes)| *bytes)
        };
        let of_consumers = |degree: usize, bytes: &dyn Fn(usize, usize) -> u64| -> Vec<ByLevel> {
            let of_item = |&item: &usize| {
                let inside = tensor.consumers.iter().filter(|&&to| item_of[to] == item);
                beside(inside.map(|&to| bytes(to, degree)).max().unwrap_or(0))
            };
            consumers.iter().map(of_item).collect()
        };
        let leaving =
            |to: usize, degree: usize| extra(tensor.producer, degree, to, |mode| &mode.output_bytes);
        let entering =
            |to: usize, degree: usize| extra(to, degree, tensor.producer, |mode| &mode.input_bytes);
        ModalTransfer {
            producer,
            passes: Passes::Forward,
            ticks: match tensor.size {
                Size::Bytes(bytes) => moving(bytes),
                Size::TransferNs(ns) => [ns * self.ticks_per_ns; LEVELS],
            },
            leaving: self
                .degrees
                .iter()
                .map(|of| of_consumers(of.tensor, &leaving))
                .collect(),
            entering: self
                .degrees
                .iter()
                .map(|of| of_consumers(of.tensor, &entering))
                .collect(),
            consumers,
        }
    }

    /// The exchange of gradients among so many devices of a stage over links of a level; `None` where there is none.
    pub fn ring(&self, mode: &StageMode, members: usize, level: usize) -> Option<Ring> {
        let rounds = self.sharding.rounds_an_iteration();
        self.ring_of((members, self.updates_every(mode)), level, rounds)
            .filter(|_| self.synchronizes)
    }

    /// Micro-batches of an iteration, at least one.
    pub(crate) fn micro_batches(&self) -> u64 {
        self.micro_batches.unwrap_or(1).max(1)
    }

    /// Micro-batches from one update of a stage's weights to the next.
    pub(crate) fn updates_every(&self, mode: &StageMode) -> u64 {
        self.micro_batches.unwrap_or(mode.replicas as u64)
    }

    /// What a ring takes for so many bytes, as far as a micro-batch bears it, in ticks.
    fn shared_out(&self, ring: Option<Ring>, bytes: f64) -> f64 {
        match ring {
            Some(ring) if bytes > 0.0 => ring.byte_ticks * bytes + ring.start_ticks,
            _ => 0.0,
        }
    }

    /// The same once an iteration, in whole ns.
    fn once_ns(&self, ring: Option<Ring>, bytes: f64) -> u64 {
        match ring {
            Some(ring) if bytes > 0.0 => {
                let ticks = ring.byte_ticks * bytes + ring.start_ticks;
                (ticks * ring.every as f64 / self.ticks_per_ns as f64).ceil() as u64
            }
            _ => 0,
        }
    }

    /// A ring of so many members over links of a level: in each round each sends and receives (d - 1) / d of the bytes, once in so many micro-batches. A sum
    /// that all get takes two (P. Patarasuk, X. Yuan, JPDC 69(2), 2009).
    fn ring_of(&self, (members, every): (usize, u64), level: usize, rounds: u64) -> Option<Ring> {
        if members < 2 || rounds == 0 {
            return None;
        }
        let link = self.links.link(level);
        let messages = rounds as f64 * (members - 1) as f64;
        let ticks = messages * self.ticks_per_ns as f64 / every as f64;
        Some(Ring {
            every,
            byte_ticks: ticks * 1e9 / (members as f64 * link.bandwidth_bytes_per_s),
            start_ticks: ticks * link.latency_ns as f64,
        })
    }
}

/// What replicas pay to exchange their gradients, for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// In how many there is one.
    pub every: u64,
    /// For each byte.
    pub byte_ticks: f64,
    /// For the latency of its messages, where there are bytes.
    pub start_ticks: f64,
}

impl ModalTransfer {
    /// Whether it may take longer inside a node than between nodes, at some degree.
    pub fn may_be_slower_inside(&self) -> bool {
        let levels = |ticks: &[ByLevel]| ticks.iter().any(|ticks| ticks[INSIDE] > ticks[BETWEEN]);
        let mut beside = self.leaving.iter().chain(&self.entering);
        levels(&[self.ticks]) || beside.any(|ticks| levels(ticks))
    }

    fn is_free(&self) -> bool {
        let beside = self.leaving.iter().chain(&self.entering).flatten();
        self.ticks == [0; LEVELS] && beside.clone().all(|ticks| *ticks == [0; LEVELS])
    }

    /// With its gradient, which takes as long.
    fn and_gradient(mut self) -> Self {
        self.passes = Passes::Both;
        let beside = self.leaving.iter_mut().chain(&mut self.entering).flatten();
        beside
            .chain([&mut self.ticks])
            .flatten()
            .for_each(|ticks| *ticks *= 2);
        self
    }
}

/// What takes so many ticks at rate 1.
fn at_rate(ticks: u64, rate: f64) -> u64 {
    match rate == 1.0 {
        true => ticks,
        false => (ticks as f64 / rate).round() as u64,
    }
}
