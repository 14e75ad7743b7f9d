//! The chunks of a pipeline: what they take, and which device holds which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;
use crate::model::named_values::named_values;

named_values! {
    /// Which device holds which chunk, where devices hold several.
    Placement {
        /// Chunk c lies on device c mod p (Narayanan et al., SC 2021).
        Loop = "loop",
        /// Every other round goes backwards, so that the last chunk of two rounds lies on the first device (Qi et al., 2024).
        V = "v",
    }
}

impl Placement {
    /// The device of a chunk, of so many devices.
    pub fn device(self, chunk: usize, devices: usize) -> usize {
        let (round, at) = (chunk / devices, chunk % devices);
        match self {
            Self::V if round % 2 == 1 => devices - 1 - at,
            Self::Loop | Self::V => at,
        }
    }
}

/// What one chunk takes for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The device that holds it.
    pub device: usize,
    /// Its forward pass.
    pub forward_ns: u64,
    /// Its backward pass without the gradients of weights.
    pub input_ns: u64,
    /// The gradients of its weights.
    pub weight_ns: u64,
    /// From the end of its forward pass until the next chunk has what it needs.
    pub forward_transfer_ns: u64,
    /// From the end of its backward pass until the chunk before has what it needs.
    pub backward_transfer_ns: u64,
    /// What its device does for it once, behind its last operation.
    pub once_ns: u64,
    /// What a micro-batch in flight holds, from the start of the forward pass on.
    pub stash: u64,
    /// What is left of it between the two gradients; no more than `stash`.
    pub kept: u64,
}

impl Chunk {
    /// How long an operation of it takes.
    pub fn duration_ns(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Forward => self.forward_ns,
            Phase::Backward => self.input_ns + self.weight_ns,
            Phase::InputGradient => self.input_ns,
            Phase::WeightGradient => self.weight_ns,
        }
    }

    /// From the end of its forward pass, or of its backward pass, until the chunk that waits for that has what it needs.
    pub fn delay_ns(&self, is_ahead: bool) -> u64 {
        match is_ahead {
            true => self.forward_transfer_ns,
            false => self.backward_transfer_ns,
        }
    }
}

/// The chunks of a pipeline, in the order in which micro-batches pass them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// How they lie on devices.
    pub placement: Placement,
    /// What each holds and takes.
    pub chunks: Vec<Chunk>,
    /// How much every device may hold of what is in flight; `None` for as much as there is. One a device.
    pub room: Vec<Option<u64>>,
    /// Whether the two gradients of a backward pass may be apart.
    pub may_split: bool,
    /// Whether there are backward passes.
    pub trains: bool,
}

impl Chunks {
    /// Chunks that are all alike, with a stash of 1 each, and no limit on what devices hold.
    pub fn even(devices: usize, virtual_stages: usize, placement: Placement, chunk: Chunk) -> Self {
        let chunks = (0..devices * virtual_stages).map(|c| Chunk {
            device: placement.device(c, devices),
            ..chunk
        });
        let mut all = Self {
            placement,
            chunks: chunks.collect(),
            room: vec![None; devices],
            may_split: true,
            trains: true,
        };
        all.drop_transfers_within_devices();
        all
    }

    /// Nothing is moved between chunks of one device.
    pub(crate) fn drop_transfers_within_devices(&mut self) {
        for c in 1..self.chunks.len() {
            if self.chunks[c - 1].device == self.chunks[c].device {
                self.chunks[c - 1].forward_transfer_ns = 0;
                self.chunks[c].backward_transfer_ns = 0;
            }
        }
    }

    /// The same chunks with the times of others, one by one.
    #[cfg(feature = "cli")]
    pub(crate) fn with_times_of(&self, others: &Self) -> Self {
        let own = self.chunks.iter().zip(&others.chunks);
        let with = |(own, other): (&Chunk, &Chunk)| Chunk {
            stash: own.stash,
            kept: own.kept,
            ..*other
        };
        Self {
            chunks: own.map(with).collect(),
            room: self.room.clone(),
            may_split: self.may_split,
            ..others.clone()
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Devices.
    pub fn devices(&self) -> usize {
        self.room.len()
    }

    /// Chunks of every device, where all have as many.
    pub fn virtual_stages(&self) -> usize {
        self.chunks.len() / self.room.len()
    }

    /// The chunks of a device, in the order of the pipeline.
    pub fn of_device(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.chunks.len()).filter(move |&c| self.chunks[c].device == device)
    }

    /// How long an operation takes.
    pub fn duration_ns(&self, chunk: usize, phase: Phase) -> u64 {
        self.chunks[chunk].duration_ns(phase)
    }

    /// The busiest device's time for one micro-batch: no schedule has a shorter period.
    pub fn least_period_ns(&self) -> u64 {
        let mut loads_ns = vec![0; self.devices()];
        for of in &self.chunks {
            loads_ns[of.device] += of.forward_ns + of.input_ns + of.weight_ns;
        }
        loads_ns.into_iter().max().unwrap_or(0)
    }

    /// What a device must hold in any schedule: one micro-batch passes all its chunks forwards before the first of them is free
    /// again, and one micro-batch after the other holds no more.
    pub fn least_held(&self, device: usize) -> u64 {
        self.of_device(device).map(|c| self.chunks[c].stash).sum()
    }
}
