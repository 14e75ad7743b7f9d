//! What Markov chains do in the long run: the share of slots that each state has, and means.

use std::collections::HashMap;

use super::spec::Quantity;
use super::states::{Process, State};

/// Joint states of all chains that are looked at one by one.
const MOST_JOINT: usize = 100_000;

/// The states that chains can be in and the share of slots that each has in the long run; `None` for more than `most`.
///
/// Devices of one kind are alike but for the factors of a state. States that differ by swaps of such devices have the same
/// times and costs, so the first one stands for all; so do those that differ by factors of devices that are not there.
///
/// Chains are independent, so shares multiply. A chain's own shares are the limit of the lazy chain `(I + P) / 2` from its
/// first state, which exists for periodic and reducible chains as well and is the long-run mean of the chain itself.
pub(crate) fn stationary(kinds: &[usize], processes: &[Process], most: usize) -> Option<Vec<(State, f64)>> {
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
pub(crate) fn mean(devices: usize, processes: &[Process]) -> State {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::online::states::tests::process;

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
}
