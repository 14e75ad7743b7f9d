//! What chunks of devices may hold, and which plan is meant by it.

use crate::exact::bounds::all_in_one_ns;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::virtual_stages::chunk_times;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Item, Problem};

/// Plans that lay items in chunks of devices in a row, as [`super::super::options::StageOptions`] does in stages.
pub(in crate::exact) trait ChunkOptions: Send + Sync {
    /// The row of single devices that no plan is faster than: its items, transfers and micro-batches.
    fn row(&self) -> &Problem;

    /// The same of rows all of whose devices are alike to one of this row.
    fn row_on(&self, _device: usize) -> &Problem {
        self.row()
    }

    /// Ways to run an item, where all devices have the same and they are told apart: the row has the least of each part. Else none.
    fn ways(&self, _item: usize) -> Vec<ItemWay> {
        Vec::new()
    }

    /// The chunks of its devices.
    fn laid(&self) -> &VirtualStages;

    /// What the backward pass of a chunk takes beside its items at least, in ns, where each computes something again; then no chunk is empty.
    fn again_ns(&self, _chunk: usize) -> Option<u64> {
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

    /// What a device needs while an item runs, beside all that it holds, at least.
    fn workspace_bytes(&self, _item: usize) -> u64 {
        0
    }

    /// What a device does once for an item at least, in ns.
    fn once_ns(&self, _item: usize) -> f64 {
        0.0
    }

    /// Bytes that a device may hold beside those of its items in the row, for every micro-batch of a chunk in flight.
    fn spare_bytes(&self, _chunk: usize) -> u64 {
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

    /// Whether a plan that does not fit in its ways may fit in some that are left out: these are no better in what rows know of, but in what else is held.
    fn may_fit_otherwise(&self) -> bool {
        false
    }

    /// The plan of an assignment, where there is one.
    fn plan(&self, assignment: Assignment) -> Option<Allocation>;

    /// The plan of an assignment whose items run in such ways, by position in [`Self::ways`]: `None` where these are not told apart and
    /// there may be several.
    ///
    /// * `is_near`: whether faster ways may be taken where there is memory for them.
    fn plan_in(&self, assignment: &Assignment, ways: &[usize], is_near: bool) -> Option<Allocation>;
}

/// A way to run an item.
pub(in crate::exact) struct ItemWay {
    /// Forward pass, gradients of inputs, gradients of weights, in ns.
    pub(super) passes_ns: [u64; 3],
    /// Bytes for good, and for each micro-batch in flight.
    pub(super) bytes: [u64; 2],
}

impl ItemWay {
    /// What an item of a row is.
    pub(super) fn of(item: &Item) -> Self {
        Self {
            passes_ns: [item.forward_ns, item.backward_ns - item.weight_ns, item.weight_ns],
            bytes: [item.base_bytes, item.stash_bytes],
        }
    }
}

/// No plan of an assignment takes less, in ns.
pub(super) fn least_ns(options: &dyn ChunkOptions, assignment: &Assignment) -> u64 {
    let of = options.laid();
    let Some(sequence) = &of.sequence else { return 0 };
    let mut chunks = chunk_times(options.row(), of, assignment);
    let rows = Rows::of(options);
    for (at, row) in rows.all.iter().enumerate().skip(1) {
        let here = chunk_times(row, of, assignment);
        let own = here.into_iter().enumerate();
        own.filter(|&(chunk, _)| rows.of_devices[of.device_of[chunk]] == at)
            .for_each(|(chunk, times)| chunks[chunk] = times);
    }
    for (at, chunk) in chunks.iter_mut().enumerate() {
        chunk.input_ns += options.again_ns(at).unwrap_or(0);
    }
    sequence.makespan_ns(&chunks)
}

/// What items are on devices that differ.
pub(super) struct Rows<'a> {
    /// The row that no plan is faster than; then the others that devices have.
    pub(super) all: Vec<&'a Problem>,
    /// Which of these is that of each device.
    pub(super) of_devices: Vec<usize>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(options: &'a dyn ChunkOptions) -> Self {
        let mut all = vec![options.row()];
        let of_device = |device: usize| {
            let own = options.row_on(device);
            let known = all.iter().position(|row| std::ptr::eq(*row, own));
            known.unwrap_or_else(|| {
                all.push(own);
                all.len() - 1
            })
        };
        let of_devices = (0..options.laid().devices).map(of_device).collect();
        Self { all, of_devices }
    }
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

    fn plan_in(&self, assignment: &Assignment, _ways: &[usize], _is_near: bool) -> Option<Allocation> {
        Some(assignment.clone().into())
    }
}
