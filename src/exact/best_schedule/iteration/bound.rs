//! A lower bound on an iteration, whatever the order.
//!
//! For every operation: when it can start at the earliest (*head*), and how long the iteration lasts at least once it has ended (*tail*).
//! Then a device alone: all its operations, each after its head, with its tail behind it. Interrupting operations makes that
//! easy, always the one with the longest tail first (Jackson's preemptive schedule, 1955; Carlier, EJOR 1982).

use std::collections::BinaryHeap;

use super::tasks::{Kind, Tasks};
use super::work_before::WorkBefore;

/// Heads or tails by kind and micro-batch, in ns.
pub(super) type Lengths = Vec<Vec<u64>>;

/// Heads and tails of all operations, and the bound that they give.
pub(super) struct Bound {
    /// By kind and micro-batch.
    pub tails: Lengths,
    /// No order takes less.
    pub least_ns: u64,
}

impl Bound {
    pub(super) fn new(tasks: &Tasks) -> Self {
        let rooms = rooms(tasks);
        let shifts = shifts(tasks, &rooms);
        let (last_kind, last) = (tasks.kinds.len() - 1, tasks.micro_batches - 1);
        let turned: Vec<Room> = rooms
            .iter()
            .map(|room| Room {
                freed: last_kind - room.taken,
                taken: last_kind - room.freed,
                ..*room
            })
            .collect();
        let heads_ns = heads(tasks, &rooms, &|a, b| shifts[a][b]);
        let of_reversed = heads(&tasks.reversed(), &turned, &|a, b| {
            shifts[last_kind - b][last_kind - a]
        });
        let tail = |k: usize, m: usize| of_reversed[last_kind - k][last - m];
        let all = 0..tasks.micro_batches;
        let tails: Lengths = (0..tasks.kinds.len())
            .map(|k| all.clone().map(|m| tail(k, m)).collect())
            .collect();
        let device = |device: usize| {
            let own = tasks
                .kinds
                .iter()
                .enumerate()
                .filter(|(_, kind)| kind.device == device);
            let jobs = own.flat_map(|(k, kind)| {
                let of = |m: usize| Job {
                    head_ns: heads_ns[k][m],
                    duration_ns: kind.duration_ns,
                    tail_ns: tails[k][m],
                };
                all.clone().map(of).collect::<Vec<_>>()
            });
            preemptive_ns(jobs.collect())
        };
        let least_ns = (0..tasks.devices).map(device).max().unwrap_or(0);
        Self { tails, least_ns }
    }
}

/// An operation of a device alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub head_ns: u64,
    pub duration_ns: u64,
    pub tail_ns: u64,
}

/// When all jobs of one device are over with their tails, if jobs may be interrupted. Time O(n log n).
pub(super) fn preemptive_ns(mut jobs: Vec<Job>) -> u64 {
    jobs.sort_unstable_by_key(|job| job.head_ns);
    let mut open: BinaryHeap<(u64, u64)> = BinaryHeap::new();
    let (mut now_ns, mut end_ns, mut next) = (0, 0, 0);
    while next < jobs.len() || !open.is_empty() {
        if open.is_empty() {
            now_ns = now_ns.max(jobs[next].head_ns);
        }
        while let Some(job) = jobs.get(next).filter(|job| job.head_ns <= now_ns) {
            open.push((job.tail_ns, job.duration_ns));
            next += 1;
        }
        let Some((tail_ns, left_ns)) = open.pop() else {
            continue;
        };
        let until_ns = jobs.get(next).map_or(u64::MAX, |job| job.head_ns);
        let run_ns = left_ns.min(until_ns - now_ns);
        now_ns += run_ns;
        match left_ns - run_ns {
            0 => end_ns = end_ns.max(now_ns + tail_ns),
            left_ns => open.push((tail_ns, left_ns)),
        }
    }
    end_ns
}

/// For kinds `a` and `b` the least `s` such that `b` of micro-batch `m` waits for `a` of `m - s`, if it waits for any: by what follows what
/// within a micro-batch, the order of micro-batches, and room.
fn shifts(tasks: &Tasks, rooms: &[Room]) -> Vec<Vec<Option<usize>>> {
    let count = tasks.kinds.len();
    let mut shifts = vec![vec![None; count]; count];
    let mut lower = |a: usize, b: usize, shift: usize| {
        let known: &mut Option<usize> = &mut shifts[a][b];
        *known = Some(known.map_or(shift, |known| known.min(shift)));
    };
    for (k, kind) in tasks.kinds.iter().enumerate() {
        lower(k, k, 1);
        kind.before.iter().for_each(|&(before, _)| lower(before, k, 0));
    }
    rooms
        .iter()
        .for_each(|room| lower(room.freed, room.taken, room.shift));
    for via in 0..count {
        for a in 0..count {
            for b in 0..count {
                let sum = shifts[a][via].zip(shifts[via][b]).map(|(one, two)| one + two);
                shifts[a][b] = [shifts[a][b], sum].into_iter().flatten().min();
            }
        }
    }
    shifts
}

/// A forward pass waits for what frees the stash of so many micro-batches before.
#[derive(Clone, Copy, Debug)]
struct Room {
    freed: usize,
    taken: usize,
    shift: usize,
}

/// What forward passes wait for on devices with limited room. Each chunk is counted alone, so that this holds in every order.
fn rooms(tasks: &Tasks) -> Vec<Room> {
    let mut rooms = Vec::new();
    for (taken, kind) in tasks.kinds.iter().enumerate().filter(|(_, kind)| kind.takes > 0) {
        let Some(room) = tasks.room[kind.device] else {
            continue;
        };
        // What is held until a kind ends: all of it up to the gradient of the input, the rest up to that of the weights.
        let mut held = kind.takes;
        let frees = tasks.kinds.iter().enumerate();
        for (freed, freeing) in frees.filter(|(_, other)| other.chunk == kind.chunk && other.frees > 0) {
            if let Some(shift) = room.checked_div(held) {
                let shift = shift as usize;
                rooms.push(Room { freed, taken, shift });
            }
            held = held.saturating_sub(freeing.frees);
        }
    }
    rooms.retain(|room| room.shift > 0);
    rooms
}

/// Heads: the longest path, and on every device the work that must come before an operation. Time O(k² M log M) for each of k kinds on a
/// device.
fn heads(tasks: &Tasks, rooms: &[Room], shift: &dyn Fn(usize, usize) -> Option<usize>) -> Lengths {
    let mut heads = vec![vec![0; tasks.micro_batches]; tasks.kinds.len()];
    let durations_ns: Vec<u64> = tasks.kinds.iter().map(|kind| kind.duration_ns).collect();
    let before = |(k, kind): (usize, &Kind)| {
        let own = tasks.of_device[kind.device].iter();
        let kinds = own.filter_map(|&a| Some((a, shift(a, k)?))).collect();
        WorkBefore::new(kinds, tasks.micro_batches)
    };
    let mut before: Vec<WorkBefore> = tasks.kinds.iter().enumerate().map(before).collect();
    for m in 0..tasks.micro_batches {
        for (k, kind) in tasks.kinds.iter().enumerate() {
            let end = |heads: &Lengths, k: usize, m: usize| heads[k][m] + tasks.kinds[k].duration_ns;
            let within = kind
                .before
                .iter()
                .map(|&(before, delay_ns)| end(&heads, before, m) + delay_ns);
            let own = m.checked_sub(1).map(|before| end(&heads, k, before));
            let freed = rooms.iter().filter(|room| room.taken == k && room.shift <= m);
            let freed = freed.map(|room| end(&heads, room.freed, m - room.shift));
            let path_ns = within.chain(own).chain(freed).max().unwrap_or(0);
            heads[k][m] = path_ns.max(before[k].next_ns(m, &heads, &durations_ns));
        }
    }
    heads
}
