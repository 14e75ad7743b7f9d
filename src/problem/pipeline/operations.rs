//! Operations of chunks in their order: listed once, timed as often as somebody asks.
//!
//! Every device does its operations one after the other, each as soon as what it waits for is there. Transfers are delays: they start when an
//! operation ends, and any number of them may be under way.

use crate::model::schedule::{Chunk, Operation, Order, Phase};

/// Parts of what a chunk does for a micro-batch, each of which has an end.
const PARTS: usize = 3;
/// No operation.
const NONE: u32 = u32::MAX;

/// A transfer between an operation and one that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// They lie in one chunk.
    Within,
    /// From the forward pass of the chunk to that of the next.
    Ahead,
    /// From the backward pass of the chunk to that of the one before.
    Back,
}

/// An operation and the operations that it waits for, by their places in the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    operation: Operation,
    device: usize,
    waits: [Option<(u32, Delay)>; 2],
}

/// The operations of an order, each behind all that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    steps: Vec<Step>,
    devices: usize,
    /// Where the parts of every chunk and micro-batch end.
    places: Places,
}

impl Sequence {
    /// As many operations of an order as can be run: all of them, unless devices wait for each other. Time O(n) for n operations.
    ///
    /// Operations are those of so many chunks and micro-batches.
    pub fn new(order: &Order, chunks: usize, micro_batches: usize) -> Self {
        let mut sequence = Self {
            steps: Vec::with_capacity(order.devices.iter().map(Vec::len).sum()),
            devices: order.devices.len(),
            places: Places {
                chunks,
                micro_batches,
                ends: vec![NONE; chunks * micro_batches * PARTS],
            },
        };
        let mut next = vec![0; order.devices.len()];
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for (device, list) in order.devices.iter().enumerate() {
                let from = next[device];
                let mut left = list[from..].iter();
                while left
                    .next()
                    .is_some_and(|&operation| sequence.take(operation, device))
                {
                    next[device] += 1;
                }
                has_moved |= next[device] > from;
            }
        }
        sequence
    }

    /// Takes an operation of a device, if all that it waits for is there; whether it was.
    fn take(&mut self, operation: Operation, device: usize) -> bool {
        let Some(waits) = self.places.waits(operation) else {
            return false;
        };
        self.places.note(operation, self.steps.len() as u32);
        self.steps.push(Step {
            operation,
            device,
            waits,
        });
        true
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether an operation is among them, as a part of another one too.
    pub fn has(&self, operation: Operation) -> bool {
        self.places.of(operation).is_some()
    }

    /// Runs them: of each its device, start and end in ns.
    ///
    /// * `duration_ns`: what an operation takes that starts then;
    /// * `delay_ns`: what a transfer takes behind an operation.
    pub fn run(
        &self,
        duration_ns: impl Fn(Operation, u64) -> u64,
        delay_ns: impl Fn(Operation, Delay) -> u64,
    ) -> impl Iterator<Item = (usize, Operation, u64, u64)> {
        let mut ends = vec![0; self.steps.len()];
        let mut free_ns = vec![0; self.devices];
        self.steps.iter().enumerate().map(move |(at, step)| {
            let mut start_ns = free_ns[step.device];
            for &(before, delay) in step.waits.iter().flatten() {
                let end_ns = ends[before as usize];
                let of = self.steps[before as usize].operation;
                // Whole backward passes are waited for because of the gradient of the input.
                let phase = Phase::InputGradient;
                let moved_ns = match delay {
                    Delay::Within => 0,
                    Delay::Ahead => delay_ns(of, delay),
                    Delay::Back => delay_ns(Operation { phase, ..of }, delay),
                };
                start_ns = start_ns.max(end_ns + moved_ns);
            }
            let end_ns = start_ns + duration_ns(step.operation, start_ns);
            (ends[at], free_ns[step.device]) = (end_ns, end_ns);
            (step.device, step.operation, start_ns, end_ns)
        })
    }

    /// When the last device is done with these chunks, and with what it does once for each of them, in ns. Time O(n) for n operations.
    pub fn makespan_ns(&self, chunks: &[Chunk]) -> u64 {
        let duration_ns = |operation: Operation, _| chunks[operation.chunk].duration_ns(operation.phase);
        let delay_ns = |operation: Operation, delay| chunks[operation.chunk].delay_ns(delay == Delay::Ahead);
        let mut ends_ns = vec![0; self.devices];
        for (device, _, _, end_ns) in self.run(duration_ns, delay_ns) {
            ends_ns[device] = end_ns;
        }
        for chunk in chunks {
            ends_ns[chunk.device] += chunk.once_ns;
        }
        ends_ns.into_iter().max().unwrap_or(0)
    }
}

/// What a chunk takes: its forward pass, the gradients of its input, those of its weights, and what its device does for it once at the end.
pub type ChunkTimes = [f64; PARTS + 1];

/// What follows each other in a run: how often it has of every chunk what this takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// How long it is, in ns.
    pub length_ns: f64,
    /// By chunk.
    pub often: Vec<ChunkTimes>,
}

impl Sequence {
    /// For every device, the longest path to its last operation and what it does once, where chunks take such times and transfers none. Time O(n)
    /// for each of the devices.
    pub fn longest_paths(&self, times_ns: &[ChunkTimes]) -> Vec<Path> {
        let mut device_of = vec![0; self.places.chunks];
        self.steps
            .iter()
            .for_each(|step| device_of[step.operation.chunk] = step.device);
        let mut ends = Vec::with_capacity(self.steps.len());
        let mut before: Vec<Option<usize>> = Vec::with_capacity(self.steps.len());
        let mut last: Vec<Option<usize>> = vec![None; self.devices];
        for (at, step) in self.steps.iter().enumerate() {
            let waits = step.waits.iter().flatten().map(|&(wait, _)| wait as usize);
            let latest = waits
                .chain(last[step.device])
                .max_by(|&a, &b| f64::total_cmp(&ends[a], &ends[b]));
            let start_ns = latest.map_or(0.0, |latest| ends[latest]);
            let takes = step.parts().map(|part| times_ns[step.operation.chunk][part]);
            ends.push(start_ns + takes.sum::<f64>());
            before.push(latest);
            last[step.device] = Some(at);
        }
        let path = |end: usize| {
            let device = self.steps[end].device;
            let once = |chunk: usize| f64::from(u8::from(device_of[chunk] == device));
            let mut often: Vec<ChunkTimes> = (0..self.places.chunks)
                .map(|chunk| [0.0, 0.0, 0.0, once(chunk)])
                .collect();
            let once_ns: f64 = often
                .iter()
                .zip(times_ns)
                .map(|(often, ns)| often[PARTS] * ns[PARTS])
                .sum();
            let mut at = Some(end);
            while let Some(now) = at {
                let step = &self.steps[now];
                step.parts()
                    .for_each(|part| often[step.operation.chunk][part] += 1.0);
                at = before[now];
            }
            Path {
                length_ns: ends[end] + once_ns,
                often,
            }
        };
        last.into_iter().flatten().map(path).collect()
    }
}

impl Step {
    /// The parts of a chunk's work that it does.
    fn parts(&self) -> std::ops::Range<usize> {
        match self.operation.phase {
            Phase::Forward => 0..1,
            Phase::Backward => 1..3,
            Phase::InputGradient => 1..2,
            Phase::WeightGradient => 2..3,
        }
    }
}

/// Places of ends in a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places {
    chunks: usize,
    micro_batches: usize,
    ends: Vec<u32>,
}

impl Places {
    /// What an operation waits for: on the chunk before or after, and on its own; `None` while something of it is not there.
    fn waits(&self, operation: Operation) -> Option<[Option<(u32, Delay)>; 2]> {
        let Operation {
            chunk,
            phase,
            micro_batch,
        } = operation;
        let end = |chunk: usize, phase| self.of(Operation::new(chunk, phase, micro_batch));
        Some(match phase {
            Phase::Forward if chunk == 0 => [None, None],
            Phase::Forward => [Some((end(chunk - 1, Phase::Forward)?, Delay::Ahead)), None],
            Phase::WeightGradient => [Some((end(chunk, Phase::InputGradient)?, Delay::Within)), None],
            Phase::Backward | Phase::InputGradient => {
                let own = Some((end(chunk, Phase::Forward)?, Delay::Within));
                match chunk + 1 < self.chunks {
                    true => [own, Some((end(chunk + 1, Phase::InputGradient)?, Delay::Back))],
                    false => [own, None],
                }
            }
        })
    }

    /// Where an operation ends; a gradient of the input may come with that of the weights.
    fn of(&self, operation: Operation) -> Option<u32> {
        let place = self.ends[self.at(operation)];
        (place != NONE).then_some(place)
    }

    fn note(&mut self, operation: Operation, place: u32) {
        let at = self.at(operation);
        self.ends[at] = place;
        if operation.phase == Phase::Backward {
            self.ends[at + 1] = place;
        }
    }

    fn at(&self, operation: Operation) -> usize {
        let part = match operation.phase {
            Phase::Forward => 0,
            Phase::Backward | Phase::InputGradient => 1,
            Phase::WeightGradient => 2,
        };
        (operation.chunk * self.micro_batches + operation.micro_batch) * PARTS + part
    }
}
