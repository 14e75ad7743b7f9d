//! What devices have to do and hold, kept up to date while items move from chunk to chunk.

use crate::problem::cost::{Side, StageCost};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// What each side of every transfer adds to load, link in and link out, in ns.
pub(super) fn paid_ns(problem: &Problem) -> Vec<[[u64; 3]; 2]> {
    let mode = problem.settings.communication;
    let of = |transfer, side| {
        let mut cost = StageCost::default();
        cost.add_transfer(mode, transfer, side);
        let both = cost.both();
        [both.communication_ns, both.link_in_ns, both.link_out_ns]
    };
    let mut paid = vec![[[0; 3]; 2]; problem.transfers.len()];
    for (paid, transfer) in paid.iter_mut().zip(&problem.transfers) {
        for side in [Side::Producer, Side::Consumer] {
            paid[side as usize] = of(transfer, side);
        }
    }
    paid
}

/// The costs of an assignment, device by device.
#[derive(Clone)]
pub(super) struct Loads<'a> {
    problem: &'a Problem,
    of: &'a VirtualStages,
    paid_ns: &'a [[[u64; 3]; 2]],
    has_links: bool,
    has_memory: bool,
    /// The chunk of every item.
    pub chunk_of: Assignment,
    /// Consumers of every transfer on every device: a row of devices for each transfer.
    consumers: Vec<u32>,
    /// Devices other than its producer's that consume a transfer.
    away: Vec<u32>,
    /// Load, link in and link out of every device.
    busy: Vec<[u64; 3]>,
    /// What every chunk holds for good, and for each micro-batch in flight.
    bytes: Vec<[u64; 2]>,
}

impl<'a> Loads<'a> {
    pub fn new(
        problem: &'a Problem,
        of: &'a VirtualStages,
        paid_ns: &'a [[[u64; 3]; 2]],
        chunk_of: Assignment,
    ) -> Self {
        let mut loads = Self {
            problem,
            of,
            paid_ns,
            has_links: paid_ns.iter().flatten().any(|paid| paid[1] > 0 || paid[2] > 0),
            has_memory: !problem.memory_never_binds(),
            chunk_of,
            consumers: vec![0; problem.transfers.len() * of.devices],
            away: vec![0; problem.transfers.len()],
            busy: vec![[0; 3]; of.devices],
            bytes: vec![[0; 2]; of.chunks()],
        };
        for (item, &chunk) in problem.items.iter().zip(&loads.chunk_of) {
            loads.busy[of.device_of[chunk]][0] += item.work_ns();
            loads.bytes[chunk][0] += item.base_bytes;
            loads.bytes[chunk][1] += item.stash_bytes;
        }
        for (t, transfer) in problem.transfers.iter().enumerate() {
            let home = loads.device(transfer.producer);
            for &consumer in &transfer.consumers {
                loads.add_consumer(t, home, loads.device(consumer));
            }
        }
        loads
    }

    pub fn device(&self, item: usize) -> usize {
        self.of.device_of[self.chunk_of[item]]
    }

    /// Moves an item to another chunk. Time O(transfers of the item).
    pub fn place(&mut self, item: usize, chunk: usize) {
        let own = &self.problem.items[item];
        let before = std::mem::replace(&mut self.chunk_of[item], chunk);
        for (bytes, held) in [own.base_bytes, own.stash_bytes].into_iter().enumerate() {
            self.bytes[before][bytes] -= held;
            self.bytes[chunk][bytes] += held;
        }
        let [from, to] = [before, chunk].map(|chunk| self.of.device_of[chunk]);
        if from == to {
            return;
        }
        self.busy[from][0] -= own.work_ns();
        self.busy[to][0] += own.work_ns();
        for &t in &self.problem.transfers_of[item] {
            let producer = self.problem.transfers[t].producer;
            if producer == item {
                self.move_producer(t, [from, to]);
            } else {
                let home = self.device(producer);
                self.remove_consumer(t, home, from);
                self.add_consumer(t, home, to);
            }
        }
    }

    fn add_consumer(&mut self, transfer: usize, home: usize, device: usize) {
        let count = &mut self.consumers[transfer * self.of.devices + device];
        *count += 1;
        if *count == 1 && device != home {
            self.away[transfer] += 1;
            self.pay(transfer, Side::Consumer, device);
            if self.away[transfer] == 1 {
                self.pay(transfer, Side::Producer, home);
            }
        }
    }

    fn remove_consumer(&mut self, transfer: usize, home: usize, device: usize) {
        let count = &mut self.consumers[transfer * self.of.devices + device];
        *count -= 1;
        if *count == 0 && device != home {
            self.away[transfer] -= 1;
            self.take_back(transfer, Side::Consumer, device);
            if self.away[transfer] == 0 {
                self.take_back(transfer, Side::Producer, home);
            }
        }
    }

    fn move_producer(&mut self, transfer: usize, [from, to]: [usize; 2]) {
        let row = transfer * self.of.devices;
        if self.away[transfer] > 0 {
            self.take_back(transfer, Side::Producer, from);
        }
        if self.consumers[row + to] > 0 {
            self.away[transfer] -= 1;
            self.take_back(transfer, Side::Consumer, to);
        }
        if self.consumers[row + from] > 0 {
            self.away[transfer] += 1;
            self.pay(transfer, Side::Consumer, from);
        }
        if self.away[transfer] > 0 {
            self.pay(transfer, Side::Producer, to);
        }
    }

    fn pay(&mut self, transfer: usize, side: Side, device: usize) {
        let paid = self.paid_ns[transfer][side as usize];
        let busy = &mut self.busy[device];
        (0..3).for_each(|resource| busy[resource] += paid[resource]);
    }

    fn take_back(&mut self, transfer: usize, side: Side, device: usize) {
        let paid = self.paid_ns[transfer][side as usize];
        let busy = &mut self.busy[device];
        (0..3).for_each(|resource| busy[resource] -= paid[resource]);
    }

    /// The busiest of load, link in and link out.
    pub fn bottleneck_ns(&self, device: usize) -> u64 {
        self.busy[device].into_iter().max().unwrap_or(0)
    }

    /// Bytes beyond its memory.
    pub fn excess_bytes(&self, device: usize) -> u64 {
        let limit = self.problem.settings.memory_limit.unwrap_or(u64::MAX);
        match self.has_memory {
            true => self.held(device).max().unwrap_or(0).saturating_sub(limit),
            false => 0,
        }
    }

    /// Bytes that a device holds, for each of its largest counts in flight.
    fn held(&self, device: usize) -> impl Iterator<Item = u64> + '_ {
        let chunks = &self.of.chunks_of[device];
        self.of.in_flight[device].iter().map(move |counts| {
            let both = chunks.iter().zip(counts);
            both.map(|(&chunk, count)| self.bytes[chunk][0] + count * self.bytes[chunk][1])
                .sum()
        })
    }

    /// How many of a device's [rows](Self::rows) are times.
    pub fn times(&self) -> usize {
        if self.has_links { 3 } else { 1 }
    }

    /// Writes down all that a device has limits for: load, links where they are limits of their own, and bytes for each of its largest
    /// counts in flight.
    pub fn rows(&self, device: usize, rows: &mut Vec<i64>) {
        // All are at most 2^53: `Problem::validate`.
        rows.extend(self.busy[device][..self.times()].iter().map(|&ns| ns as i64));
        if self.has_memory {
            rows.extend(self.held(device).map(|bytes| bytes as i64));
        }
    }
}
