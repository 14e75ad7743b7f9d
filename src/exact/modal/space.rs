//! What all passes over one lattice share: what stages may be, and where they lie in their nodes.

use crate::exact::bits;
use crate::exact::modal::items::{self, Sum};
use crate::exact::modal::lattice::Lattice;
use crate::exact::modal::stages::{Crossing, Stage};
use crate::exact::modal::watched::Watched;
use crate::problem::confined::Confined;
use crate::problem::control::Control;
use crate::problem::modes::{ByLevel, INSIDE, LEVELS, Modes, StageMode};

/// A lattice and what its stages are made of.
pub(super) struct Space<'a> {
    pub modes: &'a Modes,
    /// What stages may hold beside their memory.
    pub confined: Option<&'a Confined>,
    pub control: &'a Control<'a>,
    pub lattice: Lattice,
    /// What each item adds to a stage, by degree.
    pub sums: Vec<Vec<Sum>>,
    /// The least time that each ideal takes of all devices together.
    device_times: Vec<u64>,
    /// Devices of a node; 1 where links have one level.
    pub node: usize,
    /// Transfers whose levels labels keep account of.
    pub watched: Watched,
    /// For each transfer, whether its level may be another than that of the boundaries at its ends, and cheaper.
    may_be_cheaper: Vec<bool>,
    /// By degree, replicas and place behind the end.
    placements: Vec<Placement>,
}

/// Where a stage lies in its nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// Whether no tensor group spans nodes.
    pub fits: bool,
    /// The place of its first device.
    pub start: usize,
    /// The level of the boundary ahead.
    pub ahead: usize,
    /// The level of the boundary behind.
    pub behind: usize,
    /// Of both the one that goes farther.
    pub farthest: usize,
    /// The level of its ring.
    pub ring: usize,
}

/// A number of replicas and what it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Position in [`Modes::replicas`].
    at: usize,
    /// What it is.
    pub mode: StageMode,
    /// Devices.
    pub devices: usize,
}

impl<'a> Space<'a> {
    /// The space of a lattice.
    pub(super) fn new(
        (modes, confined): (&'a Modes, Option<&'a Confined>),
        control: &'a Control<'a>,
        lattice: Lattice,
        sums: Vec<Vec<Sum>>,
    ) -> Self {
        let node = modes.links.node.unwrap_or(1);
        let mut placements = Vec::with_capacity(modes.degrees.len() * modes.replicas.len() * node);
        for degree in 0..modes.degrees.len() {
            for &replicas in &modes.replicas {
                let mode = StageMode { degree, replicas };
                placements.extend((0..node).map(|end| placement(modes, &mode, end)));
            }
        }
        Self {
            modes,
            confined,
            control,
            device_times: lattice.sums(&items::device_times(modes, &sums)),
            sums,
            node,
            watched: Watched::default(),
            may_be_cheaper: may_be_cheaper(modes, &lattice),
            lattice,
            placements,
        }
    }

    /// What a stage pays at least for a transfer of so many ticks, by the level of the boundary that it crosses: a tensor may go between
    /// nodes though the boundary lies inside one.
    pub(super) fn paid_at_least(&self, transfer: usize, ticks: ByLevel) -> ByLevel {
        match self.may_be_cheaper[transfer] {
            true => self.summed_at_least(ticks),
            false => ticks,
        }
    }

    /// Whether a transfer may go between nodes, at less cost, though a boundary at its end lies inside one.
    pub(super) fn may_be_cheaper(&self, transfer: usize) -> bool {
        self.may_be_cheaper[transfer]
    }

    /// Every number of replicas of a degree that all devices have room for, ascending.
    pub(super) fn runs(&self, degree: usize) -> impl Iterator<Item = Run> {
        let modes = self.modes;
        let width = modes.width(degree);
        let runs = modes.replicas.iter().enumerate().map(move |(at, &replicas)| Run {
            at,
            mode: StageMode { degree, replicas },
            devices: width * replicas,
        });
        let runs = runs.filter(move |run| modes.shares_out(degree, run.mode.replicas));
        runs.take_while(move |run| run.devices <= modes.row(degree).devices)
    }

    /// No fewer devices run an ideal within a limit: all of them share its work evenly.
    pub(super) fn least_devices(&self, ideal: usize, limit: u64) -> usize {
        let devices = self.device_times[ideal].div_ceil(limit.max(1));
        devices.min(self.modes.devices as u64 + 1) as usize
    }

    /// Where a stage lies whose last device is just before a place of a node.
    pub(super) fn placement(&self, run: &Run, end: usize) -> Placement {
        let mode = run.mode.degree * self.modes.replicas.len() + run.at;
        self.placements[mode * self.node + end]
    }

    /// The time of a stage between its micro-batches: its layers take `work`, and no tensor goes farther than over the boundary.
    pub(super) fn time(&self, stage: &Stage, run: &Run, placement: &Placement, work: u64) -> u64 {
        let each = self.each(stage, placement, work);
        each.div_ceil(run.mode.replicas as u64) + self.ring(stage, run, placement)
    }

    /// What a replica is busy with for one of its micro-batches.
    pub(super) fn each(&self, stage: &Stage, placement: &Placement, work: u64) -> u64 {
        (work + placement.moved(&stage.crossing)).max(placement.on_links(stage))
    }

    /// What moves once an iteration adds to that, and sums over copies of tables.
    pub(super) fn ring(&self, stage: &Stage, run: &Run, placement: &Placement) -> u64 {
        let ring = self
            .modes
            .synchronization(stage.sum.once_bytes, &run.mode, placement.ring);
        ring + placement.moved(&stage.sums)
    }

    /// What a sum of gradients takes at least, by the level of the boundary that it crosses: inside a node, it may go between nodes all the same, and
    /// between kinds of devices inside one.
    pub(super) fn summed_at_least(&self, mut ticks: ByLevel) -> ByLevel {
        let least = ticks.into_iter().min().unwrap_or(0);
        match self.modes.rows.len() {
            1 => ticks[INSIDE] = least,
            // Its ends may share a node, or have a link of their own, though the stages between them lie elsewhere.
            _ => ticks = [least; LEVELS],
        }
        ticks
    }

    /// No stage of these replicas takes less, wherever it lies.
    pub(super) fn least_time(&self, stage: &Stage, run: &Run) -> u64 {
        let links = stage.links.iter().flat_map(|links| links.iter());
        let links = links.map(Crossing::least).max().unwrap_or(0);
        let each = (stage.sum.time + stage.crossing.least()).max(links);
        each.div_ceil(run.mode.replicas as u64) + stage.sums.least()
    }
}

impl Placement {
    /// What the busier link of a stage here moves beside its work, where transfers run there.
    pub(super) fn on_links(&self, stage: &Stage) -> u64 {
        let links = stage.links.iter().flat_map(|links| links.iter());
        links.map(|link| self.moved(link)).max().unwrap_or(0)
    }

    /// What crosses the ends of a stage here takes, if every tensor goes no farther than over the boundary.
    pub(super) fn moved(&self, crossing: &Crossing) -> u64 {
        crossing.ahead[self.ahead] + crossing.behind[self.behind] + crossing.both[self.farthest]
    }
}

/// Transfers that may take longer inside a node than between nodes and can skip a stage: those that cross several boundaries. What crosses
/// one alone goes from the stage ahead of it to the one behind it.
fn may_be_cheaper(modes: &Modes, lattice: &Lattice) -> Vec<bool> {
    let crosses = |ideal: usize, t: usize| {
        let transfer = &modes.transfers[t];
        let holds = |item: usize| bits::contains(lattice.set(ideal), item);
        let is_produced = holds(transfer.producer);
        transfer.consumers.iter().any(|&to| holds(to) != is_produced)
    };
    let skips = |t: usize| {
        (0..lattice.len())
            .filter(|&ideal| crosses(ideal, t))
            .nth(1)
            .is_some()
    };
    let transfers = 0..modes.transfers.len();
    transfers
        .map(|t| (modes.rows.len() > 1 || modes.transfers[t].may_be_slower_inside()) && skips(t))
        .collect()
}

fn placement(modes: &Modes, mode: &StageMode, end: usize) -> Placement {
    let node = modes.links.node.unwrap_or(1);
    let devices = modes.devices_of(mode);
    // Devices are counted from far enough on that no stage begins below 0.
    let behind = devices.next_multiple_of(node) + node + end;
    let first = behind - devices;
    let row = modes.degrees[mode.degree].row;
    let level = |one: usize, other: usize| {
        let share_node = modes.links.share_node(one, other);
        modes.links.level_between([row; 2], share_node)
    };
    let (ahead, behind_it) = (level(first - 1, first), level(behind - 1, behind));
    Placement {
        fits: modes.groups_fit(first, mode),
        start: first % node,
        ahead,
        behind: behind_it,
        farthest: modes.links.farther(ahead, behind_it),
        ring: level(first, behind - 1),
    }
}
