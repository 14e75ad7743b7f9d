//! List scheduling: whatever a device could start first, the most urgent of it.
//!
//! Urgent is what has most behind it, its tail; how much forward passes are held back against backward ones, and gradients of weights
//! against both, are weights that differ from one list to the next.

use super::bound::Lengths;
use super::tasks::{Lists, Tasks};
use crate::schedule::Phase;

/// How a list prefers operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taste {
    /// A forward pass counts as so much less urgent, as a part of the longest tail.
    pub forward: f64,
    /// Gradients of weights likewise.
    pub weight: f64,
    /// How many micro-batches a chunk may be ahead; no limit if 0.
    pub ahead: usize,
}

/// Orders operations by time: again and again, of all that could start next the one that can start first, and of those that
/// could start before it would end the most urgent.
///
/// No device runs out of room: it takes a forward pass only if its micro-batches could then pass it one after the other, the oldest first
/// (as in Dijkstra's banker's algorithm, 1965).
pub(super) fn list(tasks: &Tasks, tails: &Lengths, taste: Taste) -> Lists {
    let mut state = State::new(tasks);
    let longest = tails.iter().flatten().max().copied().unwrap_or(0) as f64;
    let urgency = |k: usize, m: usize| {
        let held_back = match tasks.kinds[k].phase {
            Phase::Forward => taste.forward,
            Phase::WeightGradient => taste.weight,
            Phase::Backward | Phase::InputGradient => 0.0,
        };
        tails[k][m] as f64 - held_back * longest
    };
    // When the next operation of each kind can start; what has just started changes that of its own device and of what waits for it.
    let mut starts: Vec<Option<u64>> = (0..tasks.kinds.len())
        .map(|k| state.earliest(k, taste.ahead))
        .collect();
    for _ in 0..tasks.count() {
        let can = starts
            .iter()
            .enumerate()
            .filter_map(|(k, start)| Some((k, (*start)?)));
        let can: Vec<(usize, u64)> = can.collect();
        let end = |&(k, start_ns): &(usize, u64)| start_ns + tasks.kinds[k].duration_ns;
        let Some(&first) = can.iter().min_by_key(|can| (end(can), can.1)) else {
            break;
        };
        let device = tasks.kinds[first.0].device;
        let before = |&&(k, start_ns): &&(usize, u64)| {
            tasks.kinds[k].device == device && (start_ns < end(&first) || k == first.0)
        };
        let urgent = |can: &&(usize, u64)| {
            let waits = can.1.saturating_sub(first.1) as f64;
            urgency(can.0, state.done[can.0]) - waits
        };
        let chosen = can
            .iter()
            .filter(before)
            .max_by(|a, b| urgent(a).total_cmp(&urgent(b)));
        let (k, start_ns) = *chosen.unwrap_or(&first);
        state.start(k, start_ns);
        let waiting = tasks.kinds[k].after.iter().map(|(after, _)| after);
        for &other in tasks.of_device[device].iter().chain(waiting) {
            starts[other] = state.earliest(other, taste.ahead);
        }
    }
    state.lists
}

struct State<'a> {
    tasks: &'a Tasks,
    lists: Lists,
    /// Started operations of every kind, and their ends.
    done: Vec<usize>,
    ends: Vec<Vec<u64>>,
    free_ns: Vec<u64>,
    held: Vec<u64>,
}

impl<'a> State<'a> {
    fn new(tasks: &'a Tasks) -> Self {
        Self {
            tasks,
            lists: vec![Vec::new(); tasks.devices],
            done: vec![0; tasks.kinds.len()],
            ends: vec![Vec::with_capacity(tasks.micro_batches); tasks.kinds.len()],
            free_ns: vec![0; tasks.devices],
            held: vec![0; tasks.devices],
        }
    }

    /// When the next operation of a kind can start, if it can.
    fn earliest(&self, k: usize, ahead: usize) -> Option<u64> {
        let (kind, m) = (&self.tasks.kinds[k], self.done[k]);
        if m == self.tasks.micro_batches || !self.has_room(k, ahead) {
            return None;
        }
        kind.start_ns(m, self.free_ns[kind.device], &self.ends)
    }

    fn has_room(&self, k: usize, ahead: usize) -> bool {
        let kind = &self.tasks.kinds[k];
        if kind.phase != Phase::Forward {
            return true;
        }
        let oldest = self.passed(kind.device, None);
        let freed = self.passed(kind.device, Some(kind.chunk));
        if ahead > 0 && self.done[k] >= freed + ahead && self.done[k] > oldest {
            return false;
        }
        let Some(room) = self.tasks.room[kind.device] else {
            return true;
        };
        // Micro-batch by micro-batch: there is room for what one has still to pass, and then what it holds is free.
        let mut held = self.held[kind.device] + kind.takes;
        for m in oldest..=self.done[k] {
            let (holds, passes) = self.of_micro_batch(k, m);
            if held + passes > room {
                return false;
            }
            held -= holds;
        }
        true
    }

    /// Micro-batches that a device, or a chunk, is done with.
    fn passed(&self, device: usize, chunk: Option<usize>) -> usize {
        let own = self.tasks.of_device[device].iter();
        let own = own.filter(|&&k| chunk.is_none_or(|chunk| self.tasks.kinds[k].chunk == chunk));
        own.map(|&k| self.done[k]).min().unwrap_or(0)
    }

    /// What a micro-batch holds on the device of a kind once that has run once more, and what it will take there.
    fn of_micro_batch(&self, k: usize, m: usize) -> (u64, u64) {
        let (mut holds, mut passes) = (0, 0);
        for &other in &self.tasks.of_device[self.tasks.kinds[k].device] {
            let kind = &self.tasks.kinds[other];
            match self.done[other] + usize::from(other == k) > m {
                // Kinds come after those that they wait for, so that nothing is freed before it is taken.
                true => holds = holds + kind.takes - kind.frees,
                false => passes += kind.takes,
            }
        }
        (holds, passes)
    }

    fn start(&mut self, k: usize, start_ns: u64) {
        let kind = &self.tasks.kinds[k];
        self.lists[kind.device].push(k);
        self.done[k] += 1;
        let end_ns = start_ns + kind.duration_ns;
        self.ends[k].push(end_ns);
        self.free_ns[kind.device] = end_ns;
        self.held[kind.device] = (self.held[kind.device] + kind.takes).saturating_sub(kind.frees);
    }
}

/// One micro-batch after the other: no order holds less on any device.
pub(super) fn one_by_one(tasks: &Tasks) -> Lists {
    let devices = tasks.of_device.iter();
    devices.map(|own| own.repeat(tasks.micro_batches)).collect()
}
