//! The state of devices and links, slot by slot: Markov chains with a seed, and recorded factors.

use std::collections::HashMap;

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
    pub fn nominal(devices: usize) -> Self {
        Self {
            slowdown: vec![1.0; devices],
            bandwidth: vec![1.0; devices],
            price: vec![1.0; devices],
            available: vec![true; devices],
            backbone: 1.0,
        }
    }

    /// The same for states that differ by swaps of devices of one kind, or by factors of devices that are not there.
    pub fn key(&self, kinds: &[usize]) -> Vec<[u64; 4]> {
        let mut key: Vec<[u64; 4]> = (0..kinds.len()).map(|i| self.device_key(kinds, i)).collect();
        key.sort_unstable();
        key.push([self.backbone.to_bits(); 4]);
        key
    }

    /// Devices that are there, by position among them, in an order in which states of one key have like devices.
    pub fn order(&self, kinds: &[usize]) -> Vec<usize> {
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

    fn multiply(&mut self, quantity: Quantity, devices: &[usize], factor: f64) {
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
pub struct Process {
    /// What it drives.
    pub of: Quantity,
    /// Positions of its devices.
    pub devices: Vec<usize>,
    /// Factor of each state.
    pub factors: Vec<f64>,
    /// Row `i` has the chances to go from state `i` to each.
    pub transitions: Vec<Vec<f64>>,
    /// State of the first slot.
    pub start: usize,
}

/// A recorded factor, from a slot on until the next one of the same device and quantity.
#[derive(Clone, Debug)]
pub struct Recorded {
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
pub fn states(
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

/// Joint states of all chains that are looked at one by one.
const MOST_JOINT: usize = 100_000;

/// The states that chains can be in and the share of slots that each has in the long run; `None` for more than `most`.
///
/// Devices of one kind are alike but for the factors of a state. States that differ by swaps of such devices have the same
/// times and costs, so the first one stands for all; so do those that differ by factors of devices that are not there.
///
/// Chains are independent, so shares multiply. A chain's own shares are the limit of the lazy chain `(I + P) / 2` from its
/// first state, which exists for periodic and reducible chains as well and is the long-run mean of the chain itself.
pub fn stationary(kinds: &[usize], processes: &[Process], most: usize) -> Option<Vec<(State, f64)>> {
    let sizes = processes.iter().map(|process| process.factors.len());
    if sizes.fold(1, usize::saturating_mul) > MOST_JOINT {
        return None;
    }
    let mut joint = vec![(State::nominal(kinds.len()), 1.0)];
    for process in processes {
        let shares = long_run(process);
        let mut next = Vec::with_capacity(joint.len() * shares.len());
        for (state, share) in &joint {
            for (of_chain, factor) in shares.iter().zip(&process.factors) {
                let mut state = state.clone();
                state.multiply(process.of, &process.devices, *factor);
                next.push((state, share * of_chain));
            }
        }
        joint = next;
    }
    let mut positions = HashMap::new();
    let mut merged: Vec<(State, f64)> = Vec::new();
    for (state, share) in joint {
        let at = *positions.entry(state.key(kinds)).or_insert(merged.len());
        match merged.get_mut(at) {
            Some((_, total)) => *total += share,
            None => merged.push((state, share)),
        }
    }
    (merged.len() <= most).then_some(merged)
}

/// All factors at their long-run means. A device that is there for some of the slots is paid for so many.
pub fn mean(devices: usize, processes: &[Process]) -> State {
    let mut state = State::nominal(devices);
    for process in processes {
        let shares = long_run(process);
        let mean: f64 = shares
            .iter()
            .zip(&process.factors)
            .map(|(share, factor)| share * factor)
            .sum();
        let of = match process.of {
            Quantity::Availability if mean > 0.0 => Quantity::Price,
            of => of,
        };
        state.multiply(of, &process.devices, mean);
    }
    state
}

/// The share of slots that a chain spends in each of its states.
fn long_run(process: &Process) -> Vec<f64> {
    const SETTLED: f64 = 1e-15;
    const MOST_STEPS: usize = 1_000_000;
    let count = process.factors.len();
    let mut shares = vec![0.0; count];
    shares[process.start] = 1.0;
    for _ in 0..MOST_STEPS {
        let next: Vec<f64> = (0..count)
            .map(|to| {
                let arriving = (0..count).map(|from| shares[from] * process.transitions[from][to]);
                (shares[to] + arriving.sum::<f64>()) / 2.0
            })
            .collect();
        let change = next.iter().zip(&shares).map(|(a, b)| (a - b).abs());
        let is_settled = change.fold(0.0, f64::max) < SETTLED;
        shares = next;
        if is_settled {
            break;
        }
    }
    shares
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
mod tests {
    use super::*;

    fn process(transitions: Vec<Vec<f64>>) -> Process {
        Process {
            of: Quantity::Slowdown,
            devices: vec![0],
            factors: vec![1.0; transitions.len()],
            transitions,
            start: 0,
        }
    }

    #[test]
    fn shares_of_the_long_run_by_hand() {
        let shares = long_run(&process(vec![vec![0.9, 0.1], vec![0.3, 0.7]]));
        assert!((shares[0] - 0.75).abs() < 1e-9, "{shares:?}");
        // Periodic: half of the time in each state.
        let shares = long_run(&process(vec![vec![0.0, 1.0], vec![1.0, 0.0]]));
        assert!((shares[0] - 0.5).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn equal_devices_are_counted_together() {
        let mut slow = process(vec![vec![0.9, 0.1], vec![0.3, 0.7]]);
        slow.factors = vec![1.0, 2.0];
        let gone = |device: usize| Process {
            of: Quantity::Availability,
            devices: vec![device],
            factors: vec![1.0, 0.0],
            ..slow.clone()
        };
        let slow_one = Process {
            devices: vec![1],
            ..slow.clone()
        };
        let processes = [slow.clone(), slow_one, gone(0), gone(1)];
        let total = |states: &[(State, f64)]| states.iter().map(|(_, share)| share).sum::<f64>();
        // Each device is fast, slow or gone: 9 states of two that differ, 6 of two alike.
        let apart = stationary(&[0, 1], &processes, 100).expect("few states");
        let alike = stationary(&[0, 0], &processes, 100).expect("few states");
        assert_eq!((apart.len(), alike.len()), (9, 6));
        assert!((total(&apart) - 1.0).abs() < 1e-9 && (total(&alike) - 1.0).abs() < 1e-9);
        let fast = alike.iter().find(|(state, _)| *state == State::nominal(2));
        assert!((fast.expect("it is there").1 - 0.75_f64.powi(4)).abs() < 1e-9);
        assert_eq!(stationary(&[0, 0], &processes, 5), None);
    }

    #[test]
    fn means_by_hand() {
        let mut slow = process(vec![vec![0.9, 0.1], vec![0.3, 0.7]]);
        slow.factors = vec![1.0, 2.0];
        let there = Process {
            of: Quantity::Availability,
            factors: vec![1.0, 0.0],
            ..slow.clone()
        };
        let mean = mean(2, &[slow, there]);
        assert!((mean.slowdown[0] - 1.25).abs() < 1e-9 && mean.slowdown[1] == 1.0);
        assert!((mean.price[0] - 0.75).abs() < 1e-9 && mean.available[0]);
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
