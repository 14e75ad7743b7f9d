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
mod phases;
mod recomputation;
mod region;
mod rings;
mod sharding;
mod transfers;
mod ways;

use std::sync::Arc;

use self::apart::ApartLayer;
pub use self::apart::Pass;
pub use self::copies::{ModalCopies, Table};
pub use self::cost::{ModalStage, ModalStages, Moves};
pub use self::degrees::Degree;
pub use self::hosts::OnceBytes;
pub use self::links::{BETWEEN, ByLevel, INSIDE, LEVELS, Links};
pub use self::phases::PhaseShares;
pub(crate) use self::phases::passes_of;
pub use self::recomputation::{
    Knapsack, Memory, Ways, bytes_of, fastest_within, greedy_within, host_bytes_of, smallest_way,
};
pub use self::rings::Ring;
pub use self::transfers::{ModalTransfer, Passes};
use self::ways::at_rate;
pub use self::ways::{LayerWays, ModalItem, Way};
use crate::model::cluster::{Cluster, Host, Link};
use crate::model::instance::Instance;
use crate::model::options::{DeviceOrder, Mode, OptimizerSharding, Schedule, Synchronization};
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
    /// How devices share themselves out, where they run both phases at once.
    pub shares: Option<PhaseShares>,
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

/// What an item holds of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Position of the layer in the network.
    pub layer: usize,
    /// What of it.
    pub pass: Pass,
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
    /// Twice as many, where a stage has both phases in work.
    Twice(u64),
}

impl Flight {
    fn new(settings: &Settings) -> Self {
        let all = settings.micro_batches.unwrap_or(u64::MAX);
        match (settings.mode, settings.schedule) {
            (Mode::Inference, _) => Self::None,
            (Mode::Training, Schedule::Gpipe) => Self::All(all),
            (Mode::Training, Schedule::Pipedream) => Self::Behind(u64::MAX),
            (Mode::Training, Schedule::Concurrent) => Self::Twice(all),
            (Mode::Training, _) => Self::Behind(all),
        }
    }

    /// Whether they depend on how many replicas lie behind.
    pub(crate) fn counts_behind(self) -> bool {
        matches!(self, Self::Behind(_) | Self::Twice(_))
    }

    /// Micro-batches in flight in each of so many replicas, with so many replicas in all stages behind.
    pub fn of(self, replicas: usize, behind: usize) -> u64 {
        self.between(replicas, [replicas + behind; 2])
    }

    /// The same between a forward and a backward pass on stages with so many replicas there and behind, in each of so many replicas of the latter.
    pub(crate) fn between(self, replicas: usize, ways: [usize; 2]) -> u64 {
        let each = |all: u64| all.div_ceil(replicas as u64);
        let [there, back] = ways.map(|through| each(through as u64));
        match self {
            Self::None => 0,
            Self::All(all) => each(all),
            Self::Behind(all) => there.max(back).min(each(all)),
            Self::Twice(all) => (there + back).min(each(all)),
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
            shares: PhaseShares::new(&instance.cluster, settings),
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
        modes.apart = Arc::new(modes.all_apart(instance, settings, (items, copies)));
        let at_degrees = |parts: &Vec<Part>| {
            let degrees = 0..modes.degrees.len();
            degrees
                .map(|degree| modes.item(instance, settings, parts, degree))
                .collect()
        };
        modes.items = Arc::new(items.iter().map(at_degrees).collect());
        modes.add_prices();
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

    /// Time to move bytes over a link.
    fn moving(&self, bytes: f64, link: Link) -> u64 {
        if bytes == 0.0 {
            return 0;
        }
        let ns = bytes / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        (ns * self.ticks_per_ns as f64).round() as u64
    }

    /// Micro-batches of an iteration, at least one.
    pub(crate) fn micro_batches(&self) -> u64 {
        self.micro_batches.unwrap_or(1).max(1)
    }

    /// Micro-batches from one update of a stage's weights to the next.
    pub(crate) fn updates_every(&self, mode: &StageMode) -> u64 {
        self.micro_batches.unwrap_or(mode.replicas as u64)
    }
}
