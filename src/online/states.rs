//! The state of devices and links, slot by slot: Markov chains with a seed, and recorded factors.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::spec::Quantity;

/// Factors of a slot, by device where they belong to one.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Multiply times.
    pub slowdown: Vec<f64>,
    /// Multiply link bandwidths.
    pub bandwidth: Vec<f64>,
    /// Multiply prices.
    pub price: Vec<f64>,
    /// Which devices are there.
    pub available: Vec<bool>,
    /// Multiplies the bandwidth between groups.
    pub backbone: f64,
}

impl State {
    /// All factors 1 and all devices there.
    pub(crate) fn nominal(devices: usize) -> Self {
        Self {
            slowdown: vec![1.0; devices],
            bandwidth: vec![1.0; devices],
            price: vec![1.0; devices],
            available: vec![true; devices],
            backbone: 1.0,
        }
    }

    /// The same for states that differ by swaps of devices of one kind, or by factors of devices that are not there.
    pub(crate) fn key(&self, kinds: &[usize]) -> Vec<[u64; 4]> {
        let mut key: Vec<[u64; 4]> = (0..kinds.len()).map(|i| self.device_key(kinds, i)).collect();
        key.sort_unstable();
        key.push([self.backbone.to_bits(); 4]);
        key
    }

    /// Devices that are there, by position among them, in an order in which states of one key have like devices.
    pub(crate) fn order(&self, kinds: &[usize]) -> Vec<usize> {
        let present: Vec<usize> = (0..kinds.len()).filter(|&i| self.available[i]).collect();
        let mut order: Vec<usize> = (0..present.len()).collect();
        order.sort_by_key(|&position| self.device_key(kinds, present[position]));
        order
    }

    /// What makes a device differ from others. No slowdown is 0, so none that is there looks like one that has gone.
    fn device_key(&self, kinds: &[usize], i: usize) -> [u64; 4] {
        let factors = match self.available[i] {
            true => [self.slowdown[i], self.bandwidth[i], self.price[i]],
            false => [0.0; 3],
        };
        let [slowdown, bandwidth, price] = factors.map(f64::to_bits);
        [kinds[i] as u64, slowdown, bandwidth, price]
    }

    /// Multiplies a factor of some devices, or of the backbone.
    pub(super) fn multiply(&mut self, quantity: Quantity, devices: &[usize], factor: f64) {
        let of_devices = match quantity {
            Quantity::Backbone => return self.backbone *= factor,
            Quantity::Availability => {
                devices
                    .iter()
                    .for_each(|&device| self.available[device] &= factor != 0.0);
                return;
            }
            Quantity::Slowdown => &mut self.slowdown,
            Quantity::Bandwidth => &mut self.bandwidth,
            Quantity::Price => &mut self.price,
        };
        devices.iter().for_each(|&device| of_devices[device] *= factor);
    }
}

/// A validated Markov chain and the devices it drives.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// What it drives.
    pub of: Quantity,
    /// Positions of its devices.
    pub devices: Vec<usize>,
    /// Factor of each state.
    pub factors: Vec<f64>,
    /// Row `i` has the chances to go from state `i` to each.
    pub transitions: Arc<[Vec<f64>]>,
    /// State of the first slot.
    pub start: usize,
}

/// A recorded factor, from a slot on until the next one of the same device and quantity.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// First slot.
    pub slot: usize,
    /// What it drives.
    pub of: Quantity,
    /// Positions of its devices; none for the backbone.
    pub devices: Vec<usize>,
    /// The factor.
    pub factor: f64,
}

/// The states of all slots. Each chain draws from a random stream of its own, so that adding one changes no other.
pub(crate) fn states(
    devices: usize,
    slots: usize,
    seed: u64,
    processes: &[Process],
    recorded: &[Recorded],
) -> Vec<State> {
    let mut states = vec![State::nominal(devices); slots];
    for (stream, process) in processes.iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream as u64 + 1);
        let mut at = process.start;
        for state in &mut states {
            state.multiply(process.of, &process.devices, process.factors[at]);
            at = step(&process.transitions[at], rng.random());
        }
    }
    for (i, row) in recorded.iter().enumerate() {
        let same = |other: &&Recorded| other.of == row.of && other.devices == row.devices;
        let next = recorded[i + 1..].iter().find(same);
        let end = next.map_or(slots, |next| next.slot).min(slots);
        for state in &mut states[row.slot.min(end)..end] {
            state.multiply(row.of, &row.devices, row.factor);
        }
    }
    states
}

/// The next state of a chain for a draw from 0 to 1.
fn step(chances: &[f64], draw: f64) -> usize {
    let mut left = draw;
    for (state, chance) in chances.iter().enumerate() {
        left -= chance;
        if left < 0.0 {
            return state;
        }
    }
    // Chances may sum to a little less than 1: the last state that has any.
    chances.iter().rposition(|chance| *chance > 0.0).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A chain of slowdowns by nothing, of one device.
    pub(in crate::online) fn process(transitions: Vec<Vec<f64>>) -> Process {
        Process {
            of: Quantity::Slowdown,
            devices: vec![0],
            factors: vec![1.0; transitions.len()],
            transitions: transitions.into(),
            start: 0,
        }
    }

    #[test]
    fn chains_of_a_seed_are_those_shares_on_average() {
        let mut process = process(vec![vec![0.9, 0.1], vec![0.3, 0.7]]);
        process.factors = vec![1.0, 2.0];
        let states = states(1, 20_000, 5, &[process], &[]);
        let slow = states.iter().filter(|state| state.slowdown[0] == 2.0).count();
        assert!((4_500..5_500).contains(&slow), "{slow}");
    }
}
