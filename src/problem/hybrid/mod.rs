//! Hybrid data and model parallelism for one slot of time: who runs which layers, on how many samples of each batch.
#![doc = include_str!("../../../formulations/hybrid.md")]

pub mod check;
pub mod counts;
pub mod exact;
mod groups;
mod pipelines;
pub mod plan;
pub(crate) mod shares;
pub mod tentative;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Least time of a sample on a device, in ms, so that every rate is finite.
pub const LEAST_SAMPLE_MS: f64 = 1e-9;

/// How data and model parallelism are nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Data parallel across pipelines: every pipeline holds the whole network, one device a stage, and takes some samples.
    ParallelPipelines,
    /// One pipeline, data parallel inside each stage: the devices of a stage divide the samples of every batch.
    PipelineOfGroups,
}

/// A network as a row of layers; amounts are for one sample where they depend on samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// Time of each layer in ms, by device kind, forward and backward; infinite where the kind cannot run it.
    pub work_ms: Vec<Vec<f64>>,
    /// Bytes that pass each boundary, both ways together; `layers + 1` of them, none at the ends.
    pub cut_bytes: Vec<f64>,
    /// Tensors that pass each boundary, both ways together, for each of which the link waits; none where nothing passes.
    pub cut_messages: Vec<f64>,
    /// Bytes of parameters, which rings reduce.
    pub parameter_bytes: Vec<f64>,
    /// Bytes that a device holds for a layer, whatever the samples.
    pub state_bytes: Vec<f64>,
    /// Bytes that a device holds for a sample in flight.
    pub stash_bytes: Vec<f64>,
}

impl Chain {
    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.parameter_bytes.len()
    }
}

/// A device that can be used in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name, the same in every slot.
    pub name: String,
    /// Position of its kind in [`Chain::work_ms`].
    pub kind: usize,
    /// By what its times are multiplied.
    pub slowdown: f64,
    /// Bytes that its link moves in a ms.
    pub bandwidth_bytes_per_ms: f64,
    /// Memory, infinite without a limit.
    pub memory_bytes: f64,
    /// What it costs to use it for the slot, by budget.
    pub prices: Vec<f64>,
}

/// All that one slot's decision depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot<'a> {
    /// The network.
    pub chain: &'a Chain,
    /// How the two kinds of parallelism are nested.
    pub reading: Reading,
    /// Devices that are there.
    pub devices: Vec<Device>,
    /// Bytes that pass between two groups in a ms.
    pub backbone_bytes_per_ms: f64,
    /// Time before the first byte of a message, in ms, on every link of finite bandwidth.
    pub latency_ms: f64,
    /// Samples of a batch.
    pub samples: u32,
    /// Samples of a micro-batch, which memory counts in flight.
    pub micro_batch: f64,
    /// Whether devices take whole samples only.
    pub whole: bool,
    /// Weight `V` of a ms of batch time.
    pub time_weight: f64,
    /// Weight `Q_i` of each budget's cost.
    pub queues: Vec<f64>,
}

impl Slot<'_> {
    /// Time of a sample on a device that runs these layers, in ms: work, and what passes its link.
    pub(crate) fn sample_ms(&self, device: usize, layers: &Range<usize>) -> f64 {
        let Device { kind, slowdown, .. } = self.devices[device];
        let work_ms: f64 = self.chain.work_ms[kind][layers.clone()].iter().sum();
        let moving_ms = self.moving_ms(device, layers.start) + self.moving_ms(device, layers.end);
        (work_ms * slowdown + moving_ms).max(LEAST_SAMPLE_MS)
    }

    /// Time that a sample takes to pass a boundary on a device's link, in ms.
    ///
    /// In parallel pipelines that is its bytes and its part of the micro-batch's messages. In a group every device takes
    /// part in every micro-batch, so messages do not depend on its samples: [`Self::waiting_ms`] counts them.
    pub(crate) fn moving_ms(&self, device: usize, boundary: usize) -> f64 {
        let own = self.devices[device].bandwidth_bytes_per_ms;
        let bytes = self.chain.cut_bytes[boundary];
        match self.reading {
            Reading::ParallelPipelines => {
                let messages = self.chain.cut_messages[boundary] / self.micro_batch;
                bytes / own + messages * self.message_ms(own)
            }
            Reading::PipelineOfGroups => bytes / own.min(self.backbone_bytes_per_ms),
        }
    }

    /// Time that a group waits for the messages of a batch at a boundary, in ms; none in parallel pipelines.
    pub(crate) fn waiting_ms(&self, boundary: usize) -> f64 {
        match self.reading {
            Reading::ParallelPipelines => 0.0,
            Reading::PipelineOfGroups => {
                let micro_batches = f64::from(self.samples) / self.micro_batch;
                self.chain.cut_messages[boundary]
                    * micro_batches
                    * self.message_ms(self.backbone_bytes_per_ms)
            }
        }
    }

    /// Time before the first byte on a link, in ms; where bytes take no time, neither do messages.
    fn message_ms(&self, bandwidth_bytes_per_ms: f64) -> f64 {
        match bandwidth_bytes_per_ms.is_finite() {
            true => self.latency_ms,
            false => 0.0,
        }
    }

    /// Samples of each batch for which a device has memory: `None` if it cannot even hold the layers.
    ///
    /// `depth` counts the stages from this one to the last; so many micro-batches are in flight. In parallel pipelines
    /// every stage holds whole micro-batches; in a group each device holds its share of them.
    pub(crate) fn room(&self, device: usize, layers: &Range<usize>, depth: usize) -> Option<f64> {
        let sum = |bytes: &[f64]| bytes[layers.clone()].iter().sum::<f64>();
        let left = self.devices[device].memory_bytes - sum(&self.chain.state_bytes);
        let in_flight = sum(&self.chain.stash_bytes) * self.micro_batch * depth as f64;
        if left < 0.0 || self.sample_ms(device, layers).is_infinite() {
            return None;
        }
        let samples = f64::from(self.samples);
        match self.reading {
            Reading::ParallelPipelines => (in_flight <= left).then_some(samples),
            Reading::PipelineOfGroups if in_flight <= left => Some(samples),
            Reading::PipelineOfGroups => Some(left / in_flight * samples),
        }
    }

    /// Time of a ring that reduces these layers' gradients among so many members, in ms.
    pub(crate) fn ring_ms(&self, layers: &Range<usize>, members: usize, bandwidth_bytes_per_ms: f64) -> f64 {
        let bytes: f64 = self.chain.parameter_bytes[layers.clone()].iter().sum();
        let steps_ms = self.ring_steps_ms(members, bandwidth_bytes_per_ms);
        let members = members as f64;
        2.0 * (members - 1.0) / members * bytes / bandwidth_bytes_per_ms + steps_ms
    }

    /// The part of it that does not depend on bytes: members wait for a message in each of `2 (members - 1)` steps. A
    /// network without parameters has no ring.
    pub(crate) fn ring_steps_ms(&self, members: usize, bandwidth_bytes_per_ms: f64) -> f64 {
        match self.chain.parameter_bytes.iter().any(|bytes| *bytes > 0.0) {
            true => 2.0 * (members as f64 - 1.0) * self.message_ms(bandwidth_bytes_per_ms),
            false => 0.0,
        }
    }

    /// What using a device adds to the objective.
    pub fn weight(&self, device: usize) -> f64 {
        let prices = self.devices[device].prices.iter();
        prices.zip(&self.queues).map(|(price, queue)| price * queue).sum()
    }
}
