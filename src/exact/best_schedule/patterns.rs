//! Patterns without a program: on every device one operation follows the other, and moves within its row are kept while they do no harm.
//!
//! Any row of a device's operations that fits its period is a pattern, since offsets make up for every wait ([`super::cyclic`]). Given the
//! slots, the earliest start of each operation holds least: between the forward pass of a chunk and the end of its backward pass lies a chain
//! of waits, each of which is as short as slots allow. So a search over rows is enough (hill climbing over plateaus; ours).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problem::control::Control;
use crate::schedule::{Chunks, Pattern, Phase};

/// Moves before a search is over, for each operation, and at most.
const MOVES_OF_AN_OPERATION: usize = 400;
const MOST_MOVES: usize = 40_000;
/// Pieces of the time that a device is idle for.
const MOST_BREAKS: u64 = 4;

/// What is wanted of a pattern: less of these numbers, the first of which counts most.
pub(super) type Merit<'a> = &'a dyn Fn(&[u64]) -> [u64; 2];

/// A pattern of a period that every device has time for; the search ends where the first number of the merit is no more than `enough`.
pub(super) fn good(
    chunks: &Chunks,
    [slot_ns, period]: [u64; 2],
    merit: Merit,
    enough: u64,
    control: &Control,
) -> Pattern {
    let board = Board::new(chunks, slot_ns, period);
    let mut random = ChaCha8Rng::seed_from_u64(control.seed);
    let mut rows = board.rows();
    let mut starts = board.starts(&rows);
    let mut best = merit(&board.peaks(&starts));
    for at in 0..(MOVES_OF_AN_OPERATION * board.operations.len()).min(MOST_MOVES) {
        if best[0] <= enough || (at % 64 == 0 && control.must_stop().is_some()) {
            break;
        }
        let device = random.random_range(0..rows.len());
        let before = rows[device].clone();
        let row = &mut rows[device];
        if row.tasks.is_empty() {
            continue;
        }
        match random.random_range(0..4) {
            0 => row.first = random.random_range(0..period),
            1 => {
                let [a, b] = [(); 2].map(|()| random.random_range(0..row.tasks.len()));
                row.tasks.swap(a, b);
            }
            _ => {
                let task = row.tasks.remove(random.random_range(0..row.tasks.len()));
                row.tasks.insert(random.random_range(0..=row.tasks.len()), task);
            }
        }
        let moved = board.starts(&rows);
        let found = merit(&board.peaks(&moved));
        if found <= best {
            (best, starts) = (found, moved);
        } else {
            rows[device] = before;
        }
    }
    board.pattern(&starts)
}

/// Operations and what they wait for, in slots.
struct Board<'a> {
    chunks: &'a Chunks,
    slot_ns: u64,
    period: u64,
    /// Forward passes by chunk, then backward passes from the last chunk on, each with its gradient of weights behind it.
    operations: Vec<(usize, Phase, u64)>,
}

/// What a device does, and how long it takes; a break is no operation.
#[derive(Clone)]
struct Row {
    tasks: Vec<(Option<usize>, u64)>,
    /// The slot in which the first task starts.
    first: u64,
}

impl<'a> Board<'a> {
    fn new(chunks: &'a Chunks, slot_ns: u64, period: u64) -> Self {
        let back: &[Phase] = match chunks.may_split {
            true => &[Phase::InputGradient, Phase::WeightGradient],
            false => &[Phase::Backward],
        };
        let forward = (0..chunks.len()).map(|chunk| (chunk, Phase::Forward));
        let backward = (0..chunks.len())
            .rev()
            .flat_map(|chunk| back.iter().map(move |&phase| (chunk, phase)));
        let length = |(chunk, phase)| (chunk, phase, Pattern::length(chunks, (chunk, phase), slot_ns));
        Self {
            chunks,
            slot_ns,
            period,
            operations: forward.chain(backward).map(length).collect(),
        }
    }

    /// Operations in the order in which a micro-batch meets them, the first one as soon as it gets there if nothing had to wait.
    fn rows(&self) -> Vec<Row> {
        let idle = Row {
            tasks: Vec::new(),
            first: 0,
        };
        let mut rows = vec![idle; self.chunks.devices()];
        let soonest = self.started(|_, ready| ready);
        for (at, &(chunk, _, length)) in self.operations.iter().enumerate() {
            let row = &mut rows[self.chunks.chunks[chunk].device];
            if row.tasks.is_empty() {
                row.first = soonest[at] % self.period;
            }
            // What takes no time is in nobody's way.
            if length > 0 {
                row.tasks.push((Some(at), length));
            }
        }
        for row in &mut rows {
            let busy: u64 = row.tasks.iter().map(|task| task.1).sum();
            let mut left = self.period.saturating_sub(busy);
            let piece = left.div_ceil(MOST_BREAKS);
            while left > 0 {
                row.tasks.push((None, piece.min(left)));
                left -= piece.min(left);
            }
        }
        rows
    }

    /// Starts as early as the rows' slots allow.
    fn starts(&self, rows: &[Row]) -> Vec<u64> {
        let mut slots: Vec<Option<u64>> = vec![None; self.operations.len()];
        for row in rows {
            let mut slot = row.first;
            for &(operation, length) in &row.tasks {
                if let Some(operation) = operation {
                    slots[operation] = Some(slot % self.period);
                }
                slot += length;
            }
        }
        self.started(|at, ready| match slots[at] {
            Some(slot) => ready + (slot + self.period - ready % self.period) % self.period,
            None => ready,
        })
    }

    /// The start of every operation, by its position and the slot from which on it may start.
    fn started(&self, start: impl Fn(usize, u64) -> u64) -> Vec<u64> {
        let chunks = self.chunks.len();
        let slots = |ns: u64| Pattern::slots(ns, self.slot_ns);
        let phases = (self.operations.len() - chunks) / chunks;
        let mut starts: Vec<u64> = Vec::with_capacity(self.operations.len());
        for (at, &(chunk, phase, _)) in self.operations.iter().enumerate() {
            let end = |of: usize| starts[of] + self.operations[of].2;
            let ready = match phase {
                Phase::Forward if chunk == 0 => 0,
                Phase::Forward => end(at - 1) + slots(self.chunks.chunks[chunk - 1].forward_transfer_ns),
                Phase::WeightGradient => end(at - 1),
                Phase::Backward | Phase::InputGradient if chunk + 1 == chunks => end(chunk),
                Phase::Backward | Phase::InputGradient => {
                    end(at - phases) + slots(self.chunks.chunks[chunk + 1].backward_transfer_ns)
                }
            };
            starts.push(start(at, ready));
        }
        starts
    }

    /// The most that every device holds: whole periods that an activation lives count once in all slots, the rest of its life in some.
    fn peaks(&self, starts: &[u64]) -> Vec<u64> {
        let chunks = self.chunks.len();
        let phases = (self.operations.len() - chunks) / chunks;
        let mut always = vec![0; self.chunks.devices()];
        // Slots in which a device holds less or more from then on.
        let mut changes: Vec<Vec<(u64, bool, u64)>> = vec![Vec::new(); self.chunks.devices()];
        let mut hold = |device: usize, from: u64, to: u64, bytes: u64| {
            let (from_slot, to_slot) = (from % self.period, to % self.period);
            always[device] += (to - from) / self.period * bytes;
            // Held across the end of a period is held in its first slots.
            always[device] += u64::from(to_slot < from_slot) * bytes;
            if from_slot != to_slot {
                changes[device].push((to_slot, false, bytes));
                changes[device].push((from_slot, true, bytes));
            }
        };
        for (chunk, of) in self.chunks.chunks.iter().enumerate() {
            let first = chunks + (chunks - 1 - chunk) * phases;
            let last = first + phases - 1;
            let ends = [first, last].map(|at| starts[at] + self.operations[at].2);
            hold(of.device, starts[chunk], ends[0], of.stash);
            hold(of.device, ends[0], ends[1], of.kept);
        }
        let peak = |(always, mut changes): (u64, Vec<(u64, bool, u64)>)| {
            changes.sort_unstable();
            let (mut held, mut most) = (always, always);
            for (_, is_more, bytes) in changes {
                held = if is_more { held + bytes } else { held - bytes };
                most = most.max(held);
            }
            most
        };
        always.into_iter().zip(changes).map(peak).collect()
    }

    fn pattern(&self, starts: &[u64]) -> Pattern {
        // A pattern may begin at any time: it does with the first forward pass, behind which all else lies.
        let start =
            |(&(chunk, phase, _), &start): (&(usize, Phase, u64), &u64)| (chunk, phase, start - starts[0]);
        let mut starts: Vec<_> = self.operations.iter().zip(starts).map(start).collect();
        starts.sort_unstable_by_key(|&(chunk, phase, _)| (chunk, phase));
        Pattern {
            slot_ns: self.slot_ns,
            period: self.period,
            starts,
        }
    }
}
