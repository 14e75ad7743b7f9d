//! What is asked of a network, and what a cut of it comes to.

use crate::model::instance::Instance;
use crate::model::options::Objective;
use crate::model::settings::Settings;
use crate::problem::cost::virtual_stages::pipeline;
use crate::problem::{Assignment, Item, Problem};
use crate::schedule::{Chunks, Moves, Placement, chunks_of_pipeline};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Devices.
    pub devices: usize,
    /// Chunks of every device.
    pub virtual_stages: usize,
    /// How they lie.
    pub placement: Placement,
    /// Micro-batches of an iteration, one at least.
    pub micro_batches: usize,
    /// Which part of backward passes is gradients of weights.
    pub weights: Weights,
    /// How many activations a device may hold; bytes within the problem's memory where nothing is said.
    pub room: Option<u64>,
}

/// Which part of backward passes is gradients of weights, which may run apart from the rest.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// None of any: backward passes are whole.
    Whole,
    /// The same part of each, of a chunk rounded to whole ns.
    Share(f64),
    /// What layers say, by item in ns.
    Told(Vec<u64>),
}

impl Weights {
    /// Those of a problem: the share, if one is asked for, or else what layers say, as in plans; backward passes are whole where neither is there.
    ///
    /// The problem is one that [`refusal`](super::refusal) has nothing against: times of items are those of their layers.
    pub fn of(instance: &Instance, problem: &Problem, share: Option<f64>) -> Self {
        if let Some(share) = share {
            return Self::Share(share);
        }
        if !instance.network.splits_backward() {
            return Self::Whole;
        }
        let of_layer = |&layer: &usize| {
            let times = instance.network.layers[layer].times[problem.settings.kind];
            times.map_or(0, |times| times.weight_ns)
        };
        let of_item = |item: &Item| item.backward_layers.iter().map(of_layer).sum();
        Self::Told(problem.items.iter().map(of_item).collect())
    }

    /// Whether backward passes may be split.
    pub fn may_split(&self) -> bool {
        *self != Self::Whole
    }

    /// What these items together have, with so many ns of backward work, in ns: as plans and [`chunks_of_pipeline`] round it.
    pub(super) fn of_items(&self, items: &[usize], backward_ns: u64) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Share(share) => (share * backward_ns as f64).round() as u64,
            Self::Told(told) => items.iter().map(|&item| told[item]).sum(),
        }
    }

    /// The most that these items have in so many chunks, however they are cut, in ns.
    pub(super) fn at_most(&self, items: &[usize], backward_ns: u64, chunks: usize) -> u64 {
        let of_one = self.of_items(items, backward_ns);
        match self {
            // A chunk's share is rounded, and so is all of them.
            Self::Share(_) => of_one + chunks as u64,
            Self::Whole | Self::Told(_) => of_one,
        }
    }
}

impl Question {
    /// One chunk a device.
    pub(super) fn is_plain(&self) -> bool {
        self.virtual_stages == 1
    }

    /// How many devices cuts may use. With one chunk each and free transfers all of them: a stage that is parted in two can be run as before, but
    /// for what rounding shares of gradients of weights adds.
    pub(super) fn device_counts(&self, problem: &Problem) -> std::ops::RangeInclusive<usize> {
        let settings = &problem.settings;
        let costs = settings.communication.takes_time() || matches!(self.weights, Weights::Share(_));
        let may_leave_some = self.is_plain() && costs && !settings.all_stages;
        let most = match self.is_plain() {
            true => self.devices.min(problem.items.len()),
            false => self.devices,
        };
        if may_leave_some { 1..=most } else { most..=most }
    }

    /// The problem with the period as its objective, no limit of memory, and so many stages at most.
    pub(super) fn at_most(&self, problem: &Problem, stages: usize) -> Problem {
        self.guide(problem, stages, problem.settings.all_stages)
    }

    /// The same with so many stages exactly.
    pub(super) fn exactly(&self, problem: &Problem, stages: usize) -> Problem {
        self.guide(problem, stages, true)
    }

    fn guide(&self, problem: &Problem, stages: usize, all_stages: bool) -> Problem {
        let stages = stages.min(problem.items.len());
        let mut guide = problem.homogeneous(stages, None);
        guide.settings = Settings {
            objective: Objective::Period,
            stages,
            all_stages,
            micro_batches: Some(self.micro_batches as u64),
            ..guide.settings
        };
        guide
    }

    /// Whether cuts into so many stages, none of them empty, are cuts of the problem.
    pub(super) fn can_have(&self, problem: &Problem, stages: usize) -> bool {
        match self.is_plain() && !problem.settings.all_stages {
            true => stages <= self.devices,
            false => stages == self.devices * self.virtual_stages,
        }
    }

    /// The chunks of a cut without empty stages, and the room of the devices; `None` where some device has none for its weights.
    pub(super) fn chunks(&self, problem: &Problem, cut: &Assignment) -> Option<Chunks> {
        let stages = cut.iter().max().map_or(0, |last| last + 1);
        let share = match self.weights {
            Weights::Share(share) => Some(share),
            Weights::Whole | Weights::Told(_) => None,
        };
        let devices = stages / self.virtual_stages;
        let moves = Moves {
            devices: Some(devices),
            placement: self.placement,
            weight_share: share,
        };
        let device_of: Vec<usize> = (0..stages).map(|c| self.placement.device(c, devices)).collect();
        let mut pipeline = pipeline(problem, &device_of, cut);
        if self.weights == Weights::Whole {
            pipeline.stages.iter_mut().for_each(|stage| stage.weight_ns = 0);
        }
        let mut chunks = chunks_of_pipeline(&pipeline, &moves, false);
        chunks.may_split = self.weights.may_split();
        match (self.room, problem.settings.memory_limit) {
            (None, Some(limit)) => take_bytes(problem, cut, limit, &mut chunks)?,
            (room, _) => chunks.room.iter_mut().for_each(|own| *own = room),
        }
        Some(chunks)
    }
}

/// Counts activations in bytes, in the room that weights and their like leave, if they leave any.
fn take_bytes(problem: &Problem, cut: &Assignment, limit: u64, chunks: &mut Chunks) -> Option<()> {
    for chunk in &mut chunks.chunks {
        (chunk.stash, chunk.kept) = (0, 0);
    }
    let mut left = vec![Some(limit); chunks.devices()];
    for (item, &stage) in problem.items.iter().zip(cut) {
        let chunk = &mut chunks.chunks[stage];
        chunk.stash += item.stash_bytes;
        chunk.kept = chunk.stash;
        let left = &mut left[chunk.device];
        *left = left.and_then(|bytes| bytes.checked_sub(item.base_bytes));
    }
    for (room, left) in chunks.room.iter_mut().zip(left) {
        *room = Some(left?);
    }
    Some(())
}
