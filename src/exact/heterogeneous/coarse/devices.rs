//! Sets of device states: how many of each kind stages have taken.

use crate::exact::bits;
use crate::problem::workers::Workers;

/// All device states, numbered by mixed radix, and what choices make of them.
pub(super) struct DeviceStates {
    /// Words that a set takes.
    pub words: usize,
    count: usize,
    /// For each choice, the states with enough devices free.
    can_take: Vec<Box<[u64]>>,
    /// For each choice, how far it moves a state.
    moves: Vec<usize>,
    /// For each kind, how many there are, how far one moves a state, and the states with one free.
    kinds: Vec<(usize, usize, Box<[u64]>)>,
}

impl DeviceStates {
    /// `None` where there are more than `most`.
    pub(super) fn new(workers: &Workers, most: usize) -> Option<Self> {
        let mut strides = Vec::with_capacity(workers.inventory.len());
        let mut count = 1_usize;
        for &stock in &workers.inventory {
            strides.push(count);
            count = count
                .checked_mul(stock.checked_add(1)?)
                .filter(|&count| count <= most)?;
        }
        let words = count.div_ceil(64);
        let can_take = |takes: &[usize]| {
            let is_free = |&state: &usize| {
                let mut kinds = takes.iter().zip(&workers.inventory).zip(&strides);
                kinds.all(|((&n, &stock), &stride)| state / stride % (stock + 1) + n <= stock)
            };
            bits::from_members(words, (0..count).filter(is_free))
        };
        let moves = |takes: &[usize]| takes.iter().zip(&strides).map(|(n, stride)| n * stride).sum();
        let one = |kind: usize| {
            let mut takes = vec![0; strides.len()];
            takes[kind] = 1;
            (workers.inventory[kind], strides[kind], can_take(&takes))
        };
        Some(Self {
            words,
            count,
            can_take: workers
                .choices
                .iter()
                .map(|choice| can_take(&choice.takes))
                .collect(),
            moves: workers
                .choices
                .iter()
                .map(|choice| moves(&choice.takes))
                .collect(),
            kinds: (0..strides.len()).map(one).collect(),
        })
    }

    /// Adds all states with more taken to a set.
    pub(super) fn waste(&self, set: &mut [u64]) {
        for (stock, stride, can_take) in &self.kinds {
            for _ in 0..*stock {
                let from = set.to_vec();
                shift(&from, can_take, *stride, set);
            }
        }
    }

    /// Adds the states with one more taken to a set.
    pub(super) fn take_one(&self, from: &[u64], to: &mut [u64]) {
        for (_, stride, can_take) in &self.kinds {
            shift(from, can_take, *stride, to);
        }
    }

    /// Adds the states behind a choice to a set.
    pub(super) fn take(&self, from: &[u64], choice: usize, to: &mut [u64]) {
        shift(from, &self.can_take[choice], self.moves[choice], to);
    }

    /// The set of all states.
    pub(super) fn all(&self) -> Vec<u64> {
        bits::full(self.count).into()
    }

    /// Whether a choice leads from some state of a set to one of another.
    pub(super) fn leads(&self, from: &[u64], choice: usize, to: &[u64]) -> bool {
        let mut states = from.iter().zip(&self.can_take[choice]).enumerate();
        states.any(|(at, (&from, &can))| from & can & self.before(to, choice, at) != 0)
    }

    /// One word of the states that a choice would lead into a set.
    fn before(&self, to: &[u64], choice: usize, at: usize) -> u64 {
        let (words, bits) = (self.moves[choice] / 64, self.moves[choice] % 64);
        let low = to.get(at + words).map_or(0, |word| word >> bits);
        let high = match bits {
            0 => 0,
            bits => to.get(at + words + 1).map_or(0, |word| word << (64 - bits)),
        };
        low | high
    }

    /// Adds the states from which a choice leads into a set.
    pub(super) fn give_back(&self, to: &[u64], choice: usize, from: &mut [u64]) {
        for (at, (from, &can)) in from.iter_mut().zip(&self.can_take[choice]).enumerate() {
            *from |= self.before(to, choice, at) & can;
        }
    }
}

/// Adds those of some states to a set that may move, so far on.
fn shift(from: &[u64], may_move: &[u64], by: usize, to: &mut [u64]) {
    let (words, bits) = (by / 64, by % 64);
    for (at, (&from, &may)) in from.iter().zip(may_move).enumerate() {
        let moved = from & may;
        if moved == 0 {
            continue;
        }
        // No state moves beyond the last.
        to[at + words] |= moved << bits;
        if bits > 0 && moved >> (64 - bits) != 0 {
            to[at + words + 1] |= moved >> (64 - bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::workers::Choice;

    /// Three kinds of devices, more states than a word has bits, all groups.
    fn workers() -> Workers {
        let inventory = vec![4, 3, 5];
        let mut choices = Vec::new();
        for a in 0..=4 {
            for b in 0..=3 {
                choices.extend((0..=5).map(|c| vec![a, b, c]).map(|takes| Choice {
                    devices: takes.clone(),
                    takes,
                }));
            }
        }
        Workers {
            classes: Vec::new(),
            choices,
            inventory,
            resource_names: Vec::new(),
        }
    }

    #[test]
    fn choices_move_states() {
        let workers = workers();
        let states = DeviceStates::new(&workers, 120).expect("as many as there are");
        assert!(DeviceStates::new(&workers, 119).is_none());
        let number = |taken: &[usize]| taken[0] + 5 * (taken[1] + 4 * taken[2]);
        let single = |number: usize| {
            let mut set = vec![0; states.words];
            set[number / 64] |= 1 << (number % 64);
            set
        };
        let nothing = vec![0; states.words];
        for from in &workers.choices {
            for (at, choice) in workers.choices.iter().enumerate() {
                let taken: Vec<usize> = from.takes.iter().zip(&choice.takes).map(|(a, b)| a + b).collect();
                let is_free = taken.iter().zip(&workers.inventory).all(|(n, most)| n <= most);
                let (mut to, mut back) = (nothing.clone(), nothing.clone());
                states.take(&single(number(&from.takes)), at, &mut to);
                assert_eq!(
                    to,
                    if is_free {
                        single(number(&taken))
                    } else {
                        nothing.clone()
                    }
                );
                let mut more = single(number(&from.takes));
                states.waste(&mut more);
                let is_more = choice
                    .takes
                    .iter()
                    .zip(&from.takes)
                    .all(|(more, least)| more >= least);
                assert_eq!(bits::contains(&more, number(&choice.takes)), is_more);
                if is_free {
                    states.give_back(&to, at, &mut back);
                    assert_eq!(back, single(number(&from.takes)));
                }
            }
        }
    }
}
