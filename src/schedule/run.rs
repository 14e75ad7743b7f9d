//! Runs an order: every operation as soon as its device and what it waits for allow.

use std::collections::HashMap;
use std::fmt;

use super::{Chunks, Operation, Order, Phase};
use crate::model::fault::FaultKind;
use crate::problem::pipeline::{Delay, Sequence};
use crate::schedule::simulate::ChunkTimes;

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// By device, the operations in their order with start and end in ns.
    pub devices: Vec<Vec<(Operation, u64, u64)>>,
    /// The most that each device held at once of what was in flight.
    pub peak: Vec<u64>,
    /// When the last operation has ended, and all that devices do once behind theirs.
    pub makespan_ns: u64,
}

impl Ran {
    /// The longest time that a device was idle between the start of its first and the end of its last operation: what is
    /// published as the bubble of a schedule.
    pub fn bubble_ns(&self) -> u64 {
        let idle = |device: &Vec<(Operation, u64, u64)>| {
            let busy: u64 = device.iter().map(|(_, start, end)| end - start).sum();
            let span = device.last().map_or(0, |last| last.2) - device.first().map_or(0, |first| first.1);
            span - busy
        };
        self.devices.iter().map(idle).max().unwrap_or(0)
    }
}

/// A device that waits, for what, and where that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The device.
    pub device: usize,
    /// What it would do next.
    pub next: Operation,
    /// What must be done before.
    pub waits_for: Operation,
    /// The device that is to do that.
    pub on: usize,
}

/// Why an order cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// A device has no list, or there are more lists than devices.
    Devices {
        /// Lists.
        found: usize,
        /// Devices.
        expected: usize,
    },
    /// An operation of a chunk or micro-batch that there is not, or a backward pass in inference.
    Unknown(Operation),
    /// An operation on a device that does not hold its chunk.
    Elsewhere {
        /// The operation.
        operation: Operation,
        /// Where it stands.
        device: usize,
        /// Where its chunk lies.
        expected: usize,
    },
    /// An operation that stands there twice, or a gradient both alone and with the other.
    Twice(Operation),
    /// An operation that no device does.
    Missing(Operation),
    /// Devices that wait for each other.
    Deadlock(Vec<Wait>),
    /// A device that has no room for what it is to do.
    Memory {
        /// The device.
        device: usize,
        /// What it has no room for.
        operation: Operation,
        /// What it would hold then.
        held: u64,
        /// What it may hold.
        room: u64,
    },
}

impl OrderFault {
    /// What was found, and what was expected.
    fn words(&self) -> (String, String) {
        match self {
            Self::Devices { found, expected } => (
                format!("{found} orders"),
                format!("one for each of {expected} devices"),
            ),
            Self::Unknown(operation) => (
                format!("`{operation}`"),
                "chunks and micro-batches that there are".into(),
            ),
            Self::Elsewhere {
                operation,
                device,
                expected,
            } => (
                format!("`{operation}` on device {device}"),
                format!("it on device {expected}"),
            ),
            Self::Twice(operation) => (format!("`{operation}` a second time"), "it once".into()),
            Self::Missing(operation) => (format!("no `{operation}`"), "it once".into()),
            Self::Deadlock(waits) => {
                let waits: Vec<String> = waits.iter().map(ToString::to_string).collect();
                (
                    format!("a deadlock ({})", waits.join(", ")),
                    "an order in which no device waits for itself".into(),
                )
            }
            Self::Memory {
                device,
                operation,
                held,
                room,
            } => (
                format!("`{operation}`, with which device {device} would hold {held}"),
                format!("at most {room}"),
            ),
        }
    }

    /// The same as a fault of an input.
    pub fn kind(&self) -> FaultKind {
        let (found, expected) = self.words();
        FaultKind::Contradiction {
            found: found.into(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for OrderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, expected) = self.words();
        write!(f, "found {found}, expected {expected}")
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "device {} waits with `{}` for `{}` of device {}",
            self.device, self.next, self.waits_for, self.on
        )
    }
}

impl std::error::Error for OrderFault {}

/// What operations and transfers take.
pub trait Times {
    /// What an operation takes that starts then, in ns.
    fn duration_ns(&self, operation: Operation, start_ns: u64) -> u64;

    /// What a transfer takes that would take so long by itself and starts when an operation has ended, in ns.
    fn delay_ns(&self, after: Operation, ns: u64) -> u64;
}

/// As the chunks say.
impl Times for Chunks {
    fn duration_ns(&self, operation: Operation, _start_ns: u64) -> u64 {
        self.duration_ns(operation.chunk, operation.phase)
    }

    fn delay_ns(&self, _after: Operation, ns: u64) -> u64 {
        ns
    }
}

/// As a trace and jitter make them.
impl Times for ChunkTimes<'_> {
    fn duration_ns(&self, operation: Operation, start_ns: u64) -> u64 {
        self.duration_ns(operation, start_ns)
    }

    fn delay_ns(&self, after: Operation, ns: u64) -> u64 {
        self.delay_ns(after, ns)
    }
}

/// Runs an order of so many micro-batches.
///
/// Transfers are delays: they start when the operation ends, and any number of them may be under way. Time O(n) for n operations.
///
/// # Errors
///
/// What is wrong with the order: operations that are missing, elsewhere or there twice; memory; a deadlock.
pub fn run(chunks: &Chunks, order: &Order, micro_batches: usize) -> Result<Ran, OrderFault> {
    run_with(chunks, order, micro_batches, chunks)
}

/// The same where operations and transfers take other times than the chunks say.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_with(
    chunks: &Chunks,
    order: &Order,
    micro_batches: usize,
    times: &dyn Times,
) -> Result<Ran, OrderFault> {
    check_operations(chunks, order, micro_batches)?;
    let peak = peaks(chunks, order)?;
    let sequence = Sequence::new(order, chunks.len(), micro_batches);
    let all: usize = order.devices.iter().map(Vec::len).sum();
    let duration_ns = |operation, start_ns| times.duration_ns(operation, start_ns);
    let delay_ns = |operation: Operation, delay| {
        let of = &chunks.chunks[operation.chunk];
        times.delay_ns(operation, of.delay_ns(delay == Delay::Ahead))
    };
    let mut devices: Vec<Vec<(Operation, u64, u64)>> = vec![Vec::new(); order.devices.len()];
    for (device, operation, start_ns, end_ns) in sequence.run(duration_ns, delay_ns) {
        devices[device].push((operation, start_ns, end_ns));
    }
    if sequence.len() < all {
        return Err(OrderFault::Deadlock(deadlock(chunks, order, &devices, &sequence)));
    }
    let done = |(device, operations): (usize, &Vec<(Operation, u64, u64)>)| {
        let once_ns: u64 = chunks.of_device(device).map(|c| chunks.chunks[c].once_ns).sum();
        operations.last().map_or(0, |&(.., end_ns)| end_ns) + once_ns
    };
    Ok(Ran {
        peak,
        makespan_ns: devices.iter().enumerate().map(done).max().unwrap_or(0),
        devices,
    })
}

/// What an operation waits for: on the chunk before or after, and on its own.
fn waits_for(chunks: &Chunks, operation: Operation) -> impl Iterator<Item = Operation> {
    let Operation {
        chunk,
        phase,
        micro_batch,
    } = operation;
    let of = move |chunk: usize, phase| Operation::new(chunk, phase, micro_batch);
    let before = (phase == Phase::Forward && chunk > 0).then(|| of(chunk - 1, Phase::Forward));
    let goes_back = matches!(phase, Phase::Backward | Phase::InputGradient);
    let own = match phase {
        Phase::Forward => None,
        Phase::Backward | Phase::InputGradient => Some(of(chunk, Phase::Forward)),
        Phase::WeightGradient => Some(of(chunk, Phase::InputGradient)),
    };
    let after = (goes_back && chunk + 1 < chunks.len()).then(|| of(chunk + 1, Phase::InputGradient));
    [before, own, after].into_iter().flatten()
}

/// Every chunk has for every micro-batch one forward pass and, in training, one backward pass, whole or in two parts, where it lies.
fn check_operations(chunks: &Chunks, order: &Order, micro_batches: usize) -> Result<(), OrderFault> {
    if order.devices.len() != chunks.devices() {
        return Err(OrderFault::Devices {
            found: order.devices.len(),
            expected: chunks.devices(),
        });
    }
    let mut found: HashMap<(usize, usize, Phase), ()> = HashMap::new();
    for (device, list) in order.devices.iter().enumerate() {
        for &operation in list {
            let Operation {
                chunk, micro_batch, ..
            } = operation;
            let is_known = chunks.trains || operation.phase == Phase::Forward;
            if chunk >= chunks.len() || micro_batch >= micro_batches || !is_known {
                return Err(OrderFault::Unknown(operation));
            }
            let expected = chunks.chunks[chunk].device;
            if device != expected {
                return Err(OrderFault::Elsewhere {
                    operation,
                    device,
                    expected,
                });
            }
            let parts: &[Phase] = match operation.phase {
                Phase::Backward => &[Phase::InputGradient, Phase::WeightGradient],
                Phase::Forward => &[Phase::Forward],
                Phase::InputGradient => &[Phase::InputGradient],
                Phase::WeightGradient => &[Phase::WeightGradient],
            };
            for &part in parts {
                if found.insert((chunk, micro_batch, part), ()).is_some() {
                    return Err(OrderFault::Twice(operation));
                }
            }
        }
    }
    for chunk in 0..chunks.len() {
        for micro_batch in 0..micro_batches {
            let is_there = |phase| found.contains_key(&(chunk, micro_batch, phase));
            let missing = match [Phase::Forward, Phase::InputGradient, Phase::WeightGradient].map(is_there) {
                [true, true, true] => continue,
                [true, false, false] if !chunks.trains => continue,
                [false, ..] => Phase::Forward,
                [true, false, false] if !order.splits() => Phase::Backward,
                [true, false, _] => Phase::InputGradient,
                [true, true, false] => Phase::WeightGradient,
            };
            return Err(OrderFault::Missing(Operation::new(chunk, missing, micro_batch)));
        }
    }
    Ok(())
}

/// The most that every device holds. A device does one operation after the other, so its order alone decides.
fn peaks(chunks: &Chunks, order: &Order) -> Result<Vec<u64>, OrderFault> {
    let mut peaks = Vec::new();
    for (device, list) in order.devices.iter().enumerate() {
        let (mut held, mut peak) = (0u64, 0u64);
        for &operation in list {
            let of = &chunks.chunks[operation.chunk];
            match operation.phase {
                Phase::Forward => held += of.stash,
                // An order that gives back what it never took is a deadlock, and is named as one when it is run.
                Phase::Backward => held = held.saturating_sub(of.stash),
                Phase::InputGradient => held = held.saturating_sub(of.stash - of.kept),
                Phase::WeightGradient => held = held.saturating_sub(of.kept),
            }
            peak = peak.max(held);
            if let Some(room) = chunks.room[device].filter(|&room| held > room) {
                return Err(OrderFault::Memory {
                    device,
                    operation,
                    held,
                    room,
                });
            }
        }
        peaks.push(peak);
    }
    Ok(peaks)
}

/// Devices that wait for each other in a circle.
fn deadlock(
    chunks: &Chunks,
    order: &Order,
    done: &[Vec<(Operation, u64, u64)>],
    sequence: &Sequence,
) -> Vec<Wait> {
    let wait = |device: usize| {
        let next = *order.devices[device].get(done[device].len())?;
        let missing = waits_for(chunks, next).find(|&operation| !sequence.has(operation))?;
        let on = chunks.chunks[missing.chunk].device;
        // It may be a part of what stands there.
        let whole = Operation {
            phase: Phase::Backward,
            ..missing
        };
        let is_part = missing.phase == Phase::InputGradient && order.devices[on].contains(&whole);
        Some(Wait {
            device,
            next,
            waits_for: if is_part { whole } else { missing },
            on,
        })
    };
    let mut path: Vec<Wait> = Vec::new();
    let mut device = (0..order.devices.len()).find(|&device| wait(device).is_some());
    while let Some(found) = device.and_then(wait) {
        if let Some(from) = path.iter().position(|before| before.device == found.device) {
            path.drain(..from);
            break;
        }
        device = Some(found.on);
        path.push(found);
    }
    path
}
