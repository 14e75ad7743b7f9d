//! What chunks of devices may hold, and which plan is meant by it.

use crate::exact::bounds::all_in_one_ns;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::virtual_stages::chunk_times;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Plans that lay items in chunks of devices in a row, as [`super::super::options::StageOptions`] does in stages.
pub(in crate::exact) trait ChunkOptions: Send + Sync {
    /// The row of single devices that no plan is faster than: its items, transfers and micro-batches.
    fn row(&self) -> &Problem;

    /// The same of rows all of whose devices are alike to one of this row.
    fn row_on(&self, _device: usize) -> &Problem {
        self.row()
    }

    /// The chunks of its devices.
    fn laid(&self) -> &VirtualStages;

    /// What the backward pass of every chunk takes beside its items at least, in ns; then no chunk is empty.
    fn beside_ns(&self) -> Option<u64> {
        None
    }

    /// Blocks of the network that an item holds something of.
    fn blocks(&self, _item: usize) -> u64 {
        0
    }

    /// So many blocks lie in every chunk at least.
    fn least_blocks(&self) -> u64 {
        0
    }

    /// What tensors of an item take to the next one between two devices of the row, forward and back, at least on either side, in ns.
    fn passing_ns(&self, item: usize, _places: [usize; 2]) -> [u64; 2] {
        let row = self.row();
        let own = row.transfers_of[item].iter().map(|&t| &row.transfers[t]);
        let passing = own.filter(|t| t.producer == item && t.consumers.contains(&(item + 1)));
        passing.fold([0; 2], |[forward, back], t| {
            [forward + t.forward_ns, back + t.backward_ns + t.gradient_ns]
        })
    }

    /// What a device does once for an item at least, in ns.
    fn once_ns(&self, _item: usize) -> f64 {
        0.0
    }

    /// Bytes that a device may hold beside those of its items in the row, for every micro-batch of a chunk in flight.
    fn spare_bytes(&self) -> u64 {
        0
    }

    /// How much of that the row's limit of memory has already.
    fn spare_bytes_of_row(&self) -> u64 {
        0
    }

    /// What all devices of any plan do for a micro-batch at most, in ns.
    fn most_ns(&self) -> u64 {
        all_in_one_ns(self.row())
    }

    /// Whether no other plan with the same chunks is faster: if not, what is proved of these stays a bound.
    fn is_complete(&self) -> bool {
        true
    }

    /// The plan of an assignment, where there is one.
    fn plan(&self, assignment: Assignment) -> Option<Allocation>;
}

/// No plan of an assignment takes less, in ns.
pub(super) fn least_ns(options: &dyn ChunkOptions, assignment: &Assignment) -> u64 {
    let of = options.laid();
    let Some(sequence) = &of.sequence else { return 0 };
    let mut chunks = chunk_times(options.row(), of, assignment);
    for first in firsts_alike(options) {
        let row = options.row_on(first);
        if std::ptr::eq(row, options.row()) {
            continue;
        }
        let is_alike = |chunk: usize| std::ptr::eq(row, options.row_on(of.device_of[chunk]));
        let here = chunk_times(row, of, assignment);
        let both = chunks.iter_mut().zip(here).enumerate();
        both.filter(|(chunk, _)| is_alike(*chunk))
            .for_each(|(_, (chunk, here))| *chunk = here);
    }
    for chunk in &mut chunks {
        chunk.input_ns += options.beside_ns().unwrap_or(0);
    }
    sequence.makespan_ns(&chunks)
}

/// The first devices of a row that are unlike all before.
pub(super) fn firsts_alike(options: &dyn ChunkOptions) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::new();
    for device in 0..options.laid().devices {
        let is_alike = |&first: &usize| std::ptr::eq(options.row_on(first), options.row_on(device));
        if !firsts.iter().any(is_alike) {
            firsts.push(device);
        }
    }
    firsts
}

/// Single devices, alike.
pub(super) struct Plain<'a>(pub &'a Problem, pub &'a VirtualStages);

impl ChunkOptions for Plain<'_> {
    fn row(&self) -> &Problem {
        self.0
    }

    fn laid(&self) -> &VirtualStages {
        self.1
    }

    fn plan(&self, assignment: Assignment) -> Option<Allocation> {
        Some(assignment.into())
    }
}
