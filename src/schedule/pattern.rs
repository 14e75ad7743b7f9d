//! Cyclic schedules: a pattern of one period that every micro-batch repeats.

use std::collections::HashMap;
use std::fmt;

use super::{Chunks, Operation, Order, Phase};

/// When the operations of the first micro-batch start, in slots; those of the next one follow a period later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A slot in ns: every operation takes whole slots, its time rounded up.
    pub slot_ns: u64,
    /// The period in slots.
    pub period: u64,
    /// Start of every operation; two or three a chunk.
    pub starts: Vec<(usize, Phase, u64)>,
}

/// Why a pattern cannot be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternFault {
    /// A chunk without one of its operations, or with one twice.
    Operations {
        /// The chunk.
        chunk: usize,
    },
    /// Two operations of a device at once.
    Overlap {
        /// The device.
        device: usize,
        /// The slot within a period.
        slot: u64,
    },
    /// An operation that starts before what it waits for is there.
    Early {
        /// The operation, of the first micro-batch.
        operation: Operation,
    },
}

impl fmt::Display for PatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations { chunk } => write!(f, "chunk {chunk} does not have each operation once"),
            Self::Overlap { device, slot } => write!(f, "device {device} runs two operations in slot {slot}"),
            Self::Early { operation } => write!(f, "`{operation}` starts before what it waits for"),
        }
    }
}

impl std::error::Error for PatternFault {}

impl Pattern {
    /// Slots that so many ns take.
    pub fn slots(ns: u64, slot_ns: u64) -> u64 {
        ns.div_ceil(slot_ns)
    }

    /// Slots that an operation takes: a forward pass one at least, so that what it takes up is held at some time.
    pub fn length(chunks: &Chunks, (chunk, phase): (usize, Phase), slot_ns: u64) -> u64 {
        let least = u64::from(phase == Phase::Forward);
        Self::slots(chunks.duration_ns(chunk, phase), slot_ns).max(least)
    }

    fn start(&self, chunk: usize, phase: Phase) -> Option<u64> {
        let mut found = self
            .starts
            .iter()
            .filter(|start| (start.0, start.1) == (chunk, phase));
        found.next().map(|start| start.2)
    }

    /// Recomputes a pattern from the chunks alone, and the most that each device holds in any slot once the pattern repeats.
    ///
    /// # Errors
    ///
    /// What makes it no pattern: operations that are missing, overlap or start too early.
    pub fn peaks(&self, chunks: &Chunks) -> Result<Vec<u64>, PatternFault> {
        self.check_operations(chunks)?;
        self.check_precedence(chunks)?;
        let starts: HashMap<(usize, Phase), u64> = self
            .starts
            .iter()
            .map(|&(chunk, phase, start)| ((chunk, phase), start))
            .collect();
        let mut own = vec![Vec::new(); chunks.devices()];
        for (chunk, of) in chunks.chunks.iter().enumerate() {
            own[of.device].push(chunk);
        }
        let mut peaks = Vec::new();
        for (device, own) in own.iter().enumerate() {
            self.check_overlap(chunks, device)?;
            let held = (0..self.period).map(|slot| self.held(chunks, own, &starts, slot));
            peaks.push(held.max().unwrap_or(0));
        }
        Ok(peaks)
    }

    fn check_overlap(&self, chunks: &Chunks, device: usize) -> Result<(), PatternFault> {
        let own = |start: &&(usize, Phase, u64)| chunks.chunks[start.0].device == device;
        let slots = self.starts.iter().filter(own).flat_map(|&(chunk, phase, start)| {
            let length = Self::length(chunks, (chunk, phase), self.slot_ns);
            (start..start + length).map(|slot| slot % self.period)
        });
        let mut busy = vec![false; self.period as usize];
        for slot in slots {
            if std::mem::replace(&mut busy[slot as usize], true) {
                return Err(PatternFault::Overlap { device, slot });
            }
        }
        Ok(())
    }

    /// What a device holds in a slot, long after the first micro-batch: micro-batches whose forward pass has started, less those that have given
    /// back all or a part.
    fn held(&self, chunks: &Chunks, own: &[usize], starts: &HashMap<(usize, Phase), u64>, slot: u64) -> u64 {
        let last = self.starts.iter().map(|start| start.2).max().unwrap_or(0) / self.period + 2;
        let now = last * self.period + slot;
        let since = |from: u64| now.checked_sub(from).map_or(0, |slots| slots / self.period + 1);
        let of_chunk = |&chunk: &usize| {
            let of = &chunks.chunks[chunk];
            let ended = |phase: Phase| {
                let length = Self::length(chunks, (chunk, phase), self.slot_ns);
                starts
                    .get(&(chunk, phase))
                    .map_or(0, |start| since(start + length))
            };
            let started = starts
                .get(&(chunk, Phase::Forward))
                .map_or(0, |&start| since(start));
            let freed = ended(Phase::Backward).max(ended(Phase::WeightGradient));
            let apart = ended(Phase::InputGradient).saturating_sub(freed);
            of.kept * apart + of.stash * started.saturating_sub(freed + apart)
        };
        own.iter().map(of_chunk).sum()
    }

    fn check_operations(&self, chunks: &Chunks) -> Result<(), PatternFault> {
        for chunk in 0..chunks.len() {
            let mut phases: Vec<Phase> = self
                .starts
                .iter()
                .filter(|start| start.0 == chunk)
                .map(|s| s.1)
                .collect();
            phases.sort_unstable();
            let whole = [Phase::Forward, Phase::Backward];
            let parts = [Phase::Forward, Phase::InputGradient, Phase::WeightGradient];
            if phases != whole && phases != parts {
                return Err(PatternFault::Operations { chunk });
            }
        }
        Ok(())
    }

    fn check_precedence(&self, chunks: &Chunks) -> Result<(), PatternFault> {
        let slots = |ns: u64| Self::slots(ns, self.slot_ns);
        let end = |chunk: usize, phase: Phase| {
            let length = Self::length(chunks, (chunk, phase), self.slot_ns);
            self.start(chunk, phase).map(|start| start + length)
        };
        let back = |chunk: usize| end(chunk, Phase::InputGradient).or(end(chunk, Phase::Backward));
        for &(chunk, phase, start) in &self.starts {
            let of = &chunks.chunks;
            let before = chunk.checked_sub(1);
            let after = Some(chunk + 1).filter(|&after| after < chunks.len());
            let ready = match phase {
                Phase::Forward => {
                    before.and_then(|b| Some(end(b, Phase::Forward)? + slots(of[b].forward_transfer_ns)))
                }
                Phase::WeightGradient => end(chunk, Phase::InputGradient),
                Phase::Backward | Phase::InputGradient => {
                    let from_after = after.and_then(|a| Some(back(a)? + slots(of[a].backward_transfer_ns)));
                    from_after.max(end(chunk, Phase::Forward))
                }
            };
            if ready.is_some_and(|ready| start < ready) {
                return Err(PatternFault::Early {
                    operation: Operation::new(chunk, phase, 0),
                });
            }
        }
        Ok(())
    }

    /// The order of every device for so many micro-batches: no device ever holds more than the pattern does.
    pub fn order(&self, chunks: &Chunks, micro_batches: usize) -> Order {
        let mut devices: Vec<Vec<(u64, u64, Operation)>> = vec![Vec::new(); chunks.devices()];
        for &(chunk, phase, start) in &self.starts {
            let length = Self::length(chunks, (chunk, phase), self.slot_ns);
            for micro_batch in 0..micro_batches {
                let at = start + micro_batch as u64 * self.period;
                let operation = Operation::new(chunk, phase, micro_batch);
                devices[chunks.chunks[chunk].device].push((at, at + length, operation));
            }
        }
        let in_order = |mut list: Vec<(u64, u64, Operation)>| {
            // Operations that take no time come in the order of micro-batches and phases, as they wait for each other.
            list.sort_unstable_by_key(|&(start, end, operation)| {
                let (back, phase) = (operation.phase != Phase::Forward, operation.phase);
                let along = if back {
                    chunks.len() - operation.chunk
                } else {
                    operation.chunk
                };
                (start, end, operation.micro_batch, back, along, phase)
            });
            list.into_iter().map(|(_, _, operation)| operation).collect()
        };
        Order {
            devices: devices.into_iter().map(in_order).collect(),
        }
    }
}
