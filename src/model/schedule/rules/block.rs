//! Schedules of a *building block*: when the passes of one micro-batch take place, repeated for every micro-batch.
//!
//! The idea is of Qi et al. (Pipeline Parallelism with Controllable Memory, NeurIPS 2024): all passes take one slot, a block gives
//! the slots of one micro-batch, the next one follows six slots later, since a device has two chunks of three passes. How
//! long a block holds its activations decides the peak. Gradients of weights take the slots that are left; then passes of warm-up
//! and tail move to earlier free slots, as long as no device holds more than before. The moves follow the authors'
//! published program (`zbv_greedy.py`), written anew.

use super::{Operation, Order, Phase, Shape};

/// Slots from one micro-batch to the next.
const INTERVAL: usize = 6;

/// The four passes of a device in the order of a micro-batch: forward of the first chunk and of the second, gradient of the input of the
/// second chunk and of the first.
const PASSES: usize = 4;

/// When the passes of the first micro-batch take place on a device.
pub(super) type Block = [usize; PASSES];

/// The order that a block gives.
pub(super) fn write(shape: &Shape, block: impl Fn(usize) -> Block) -> Order {
    let repeat = |first: usize| (0..shape.micro_batches).map(|m| first + INTERVAL * m).collect();
    let device = |device: usize| Device {
        passes: block(device).map(repeat),
        weights: Vec::new(),
    };
    let mut devices: Vec<Device> = (0..shape.devices).map(device).collect();
    for device in &mut devices {
        device.weights = device.filled().into_iter().map(|(slot, _)| slot).collect();
    }
    move_earlier(&mut devices, Rounds::WarmUpAndTail);
    devices.iter_mut().for_each(|device| device.weights.clear());
    move_earlier(&mut devices, Rounds::Tail);
    let order = |(at, device): (usize, &Device)| device.order(shape.chunks_of_v(at));
    Order {
        devices: devices.iter().enumerate().map(order).collect(),
    }
}

/// Which passes may move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounds {
    WarmUpAndTail,
    Tail,
}

/// The slots of a device.
#[derive(Clone)]
struct Device {
    /// By pass and micro-batch.
    passes: [Vec<usize>; PASSES],
    /// Of gradients of weights, whichever of the two chunks'; empty where they take what is left.
    weights: Vec<usize>,
}

impl Device {
    /// Slots that gradients of weights take where they take what is left, with the chunk: 0 for the second, 1 for the first.
    fn filled(&self) -> Vec<(usize, usize)> {
        let bound = self
            .passes
            .iter()
            .filter_map(|slots| slots.last())
            .max()
            .copied()
            .unwrap_or(0);
        let mut used = vec![None; bound + 1];
        for (pass, slots) in self.passes.iter().enumerate() {
            slots.iter().for_each(|&slot| used[slot] = Some(pass));
        }
        let mut owed = [0; 2];
        let mut filled = Vec::new();
        for (slot, pass) in used.into_iter().enumerate() {
            match pass {
                Some(pass) if pass >= 2 => owed[pass - 2] += 1,
                Some(_) => {}
                None => {
                    if let Some(chunk) = (0..2).find(|&chunk| owed[chunk] > 0) {
                        owed[chunk] -= 1;
                        filled.push((slot, chunk));
                    }
                }
            }
        }
        let rest = (0..2).flat_map(|chunk| std::iter::repeat_n(chunk, owed[chunk]));
        filled.extend(rest.enumerate().map(|(at, chunk)| (bound + 1 + at, chunk)));
        filled
    }

    /// The most activations that it holds.
    fn peak(&self) -> i64 {
        let weights = match self.weights.is_empty() {
            true => self.filled().into_iter().map(|(slot, _)| slot).collect(),
            false => self.weights.clone(),
        };
        let taken = self.passes[..2].iter().flatten().map(|&slot| (slot, 1));
        let freed = weights.into_iter().map(|slot| (slot, -1));
        let mut events: Vec<(usize, i64)> = taken.chain(freed).collect();
        events.sort_unstable();
        let mut held = 0;
        events
            .into_iter()
            .map(|(_, change)| {
                held += change;
                held
            })
            .max()
            .unwrap_or(0)
    }

    /// The slot of a pass, or of a gradient of weights.
    fn slot(&mut self, pass: usize, micro_batch: usize) -> &mut usize {
        match pass {
            PASSES => &mut self.weights[micro_batch],
            _ => &mut self.passes[pass][micro_batch],
        }
    }

    fn order(&self, [down, up]: [usize; 2]) -> Vec<Operation> {
        let of_pass = [
            (down, Phase::Forward),
            (up, Phase::Forward),
            (up, Phase::InputGradient),
            (down, Phase::InputGradient),
        ];
        let mut all = Vec::new();
        for ((chunk, phase), slots) in of_pass.into_iter().zip(&self.passes) {
            let of = |(m, &slot): (usize, &usize)| (slot, Operation::new(chunk, phase, m));
            all.extend(slots.iter().enumerate().map(of));
        }
        let mut written = [0; 2];
        for (slot, chunk) in self.filled() {
            let weight = Operation::new([up, down][chunk], Phase::WeightGradient, written[chunk]);
            written[chunk] += 1;
            all.push((slot, weight));
        }
        all.sort_by_key(|&(slot, _)| slot);
        all.into_iter().map(|(_, operation)| operation).collect()
    }
}

/// Moves passes, in the order of their slots, to the earliest free slots that what they wait for and the peak allow.
///
/// Passes that come later are still where they were, so that what was possible stays so.
fn move_earlier(devices: &mut [Device], rounds: Rounds) {
    let peak = devices.iter().map(Device::peak).max().unwrap_or(0);
    let last = devices.first().map_or(0, |device| device.passes[0].len()) - 1;
    let mut elements: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        for (pass, slots) in device.passes.iter().chain([&device.weights]).enumerate() {
            elements.extend(slots.iter().enumerate().map(|(m, &slot)| (slot, at, pass, m)));
        }
    }
    elements.sort_unstable();
    let mut occupied: Vec<Vec<bool>> = vec![Vec::new(); devices.len()];
    let mut is_steady = None;
    for (slot, at, pass, m) in elements {
        match is_steady {
            // The first micro-batch comes back to the first device, and steady state begins; it ends with the last forward pass.
            None if at == 0 && pass == 3 => is_steady = Some(true),
            Some(true) if pass == 0 && m == last => is_steady = Some(false),
            _ => {}
        }
        let ends_here = pass == 0 && m == last && at == 0;
        let may_move = match is_steady {
            None => rounds == Rounds::WarmUpAndTail,
            Some(true) => false,
            Some(false) => !ends_here,
        };
        let mut to = slot;
        if may_move {
            let ready = ready(devices, at, pass, m);
            for earlier in ready..slot {
                if occupied[at].get(earlier).copied().unwrap_or(false) {
                    continue;
                }
                *devices[at].slot(pass, m) = earlier;
                if devices[at].peak() <= peak {
                    to = earlier;
                    break;
                }
            }
            *devices[at].slot(pass, m) = to;
        }
        if occupied[at].len() <= to {
            occupied[at].resize(to + 1, false);
        }
        occupied[at][to] = true;
    }
}

/// The slot after everything that a pass waits for.
fn ready(devices: &[Device], at: usize, pass: usize, m: usize) -> usize {
    let mut after: Vec<usize> = Vec::new();
    match pass {
        0 | 2 if at > 0 => after.push(devices[at - 1].passes[pass][m]),
        1 | 3 if at + 1 < devices.len() => after.push(devices[at + 1].passes[pass][m]),
        _ => {}
    }
    if pass == PASSES {
        // Of so many gradients of inputs, whichever of the two chunks'.
        let mut inputs: Vec<usize> = devices[at].passes[2..].concat();
        inputs.sort_unstable();
        after.push(inputs[m]);
        after.extend(m.checked_sub(1).map(|before| devices[at].weights[before]));
    } else {
        after.extend(pass.checked_sub(1).map(|before| devices[at].passes[before][m]));
        after.extend(m.checked_sub(1).map(|before| devices[at].passes[pass][before]));
    }
    after.into_iter().max().map_or(0, |slot| slot + 1)
}
