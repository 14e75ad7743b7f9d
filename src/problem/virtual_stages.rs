//! Virtual stages: the chunks of a pipeline that passes every device several times.
//!
//! Four chunks on two devices: in a *loop* device 1 holds the first and the third, in a *V* the first and the last. A plan says which
//! items each chunk holds; chunks may be empty and keep their places. Items of one device exchange nothing. A device is busy with all
//! its chunks and holds all of them: `formulations/virtual_stages.md`.

use std::sync::Arc;

use crate::model::options::Placement;
use crate::model::settings::Settings;
use crate::problem::pipeline::Sequence;

/// Chunks, the devices that hold them, and what is in flight there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualStages {
    /// Devices.
    pub devices: usize,
    /// How chunks lie on them.
    pub placement: Placement,
    /// The device of every chunk, from 0.
    pub device_of: Vec<usize>,
    /// The chunks of every device, in the order of the pipeline; as many for each.
    pub chunks_of: Vec<Vec<usize>>,
    /// The place of every chunk among those of its device.
    pub round_of: Vec<usize>,
    /// For every device, the largest counts of micro-batches in flight together, by chunk: at least one, of zeros in inference.
    pub in_flight: Vec<Vec<Vec<u64>>>,
    /// The operations of an iteration; `None` where its time is not what is asked for.
    pub sequence: Option<Arc<Sequence>>,
}

impl VirtualStages {
    /// Those that are asked for; `None` where every device has one chunk, or their number and that of devices is a matter of modes.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let laid = || {
            let rounds = [settings.stages, settings.virtual_stages];
            let laid = Self::new(rounds, settings.placement, settings.most_in_flight());
            let chunks = laid.chunks();
            let listed = |order: &_| Sequence::new(order, chunks, settings.run_micro_batches() as usize);
            let sequence = settings.order_of_objective().as_ref().map(listed).map(Arc::new);
            Self { sequence, ..laid }
        };
        (settings.has_virtual_stages() && !settings.modal).then(laid)
    }

    /// So many chunks on each of so many devices.
    ///
    /// * `in_flight`: as the field says.
    pub fn new(
        [devices, virtual_stages]: [usize; 2],
        placement: Placement,
        in_flight: Vec<Vec<Vec<u64>>>,
    ) -> Self {
        let chunks = 0..devices.saturating_mul(virtual_stages);
        let device_of: Vec<usize> = chunks.map(|chunk| placement.device(chunk, devices)).collect();
        let mut chunks_of = vec![Vec::new(); devices];
        let mut round_of = Vec::with_capacity(device_of.len());
        for (chunk, &device) in device_of.iter().enumerate() {
            round_of.push(chunks_of[device].len());
            chunks_of[device].push(chunk);
        }
        Self {
            devices,
            placement,
            device_of,
            chunks_of,
            round_of,
            in_flight,
            sequence: None,
        }
    }

    /// Chunks.
    pub fn chunks(&self) -> usize {
        self.device_of.len()
    }

    /// The most micro-batches of a chunk that are in flight at any time.
    pub fn most_of_chunk(&self, chunk: usize) -> u64 {
        let counts = self.in_flight[self.device_of[chunk]].iter();
        counts
            .map(|counts| counts[self.round_of[chunk]])
            .max()
            .unwrap_or(0)
    }

    /// The most micro-batches of any chunk that are in flight, and the most that every chunk has: an item holds a stash for at least so
    /// many, wherever it lies.
    pub fn extremes(&self) -> [u64; 2] {
        let most = (0..self.chunks()).map(|chunk| self.most_of_chunk(chunk));
        [most.clone().max().unwrap_or(0), most.min().unwrap_or(0)]
    }
}
