//! Classes of equal devices, and vectors that count how many of each are used.

use super::Slot;

/// Devices that are alike in a slot, so that only their number matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Positions of the devices in the slot.
    pub devices: Vec<usize>,
}

/// More pairs of count vectors than this are refused: the tables of the dynamic programs grow with them.
const MOST_PAIRS: usize = 300_000;

/// A slot has too many classes of devices for the exact method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the devices of a slot can be used in too many ways to solve it exactly")]
pub struct TooMany;

/// All vectors `0 <= n <= count` over the classes, numbered in mixed radix, so that `number(n - m) = number(n) - number(m)`.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The classes.
    pub classes: Vec<Class>,
    /// Vectors by number; the first is 0.
    pub vectors: Vec<Vec<usize>>,
    /// Devices of each vector.
    pub sizes: Vec<usize>,
    /// Numbers of the vectors `0 < m <= n`, for each `n`.
    pub below: Vec<Vec<usize>>,
}

impl Counts {
    /// Classes and vectors of a slot.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where the tables would be too large.
    pub fn new(slot: &Slot) -> Result<Self, TooMany> {
        let classes = classes(slot);
        let pairs = classes.iter().map(|class| {
            let count = class.devices.len();
            (count + 1) * (count + 2) / 2
        });
        let total = pairs.fold(1_usize, usize::saturating_mul);
        if total > MOST_PAIRS {
            return Err(TooMany);
        }
        let mut vectors = vec![vec![0; classes.len()]];
        for (c, class) in classes.iter().enumerate() {
            let mut longer = Vec::with_capacity(vectors.len() * (class.devices.len() + 1));
            for count in 0..=class.devices.len() {
                longer.extend(vectors.iter().cloned().map(|mut vector| {
                    vector[c] = count;
                    vector
                }));
            }
            vectors = longer;
        }
        let is_below = |m: &[usize], n: &[usize]| m.iter().zip(n).all(|(m, n)| m <= n);
        let below = (0..vectors.len()).map(|n| {
            let smaller = (1..=n).filter(|&m| is_below(&vectors[m], &vectors[n]));
            smaller.collect()
        });
        Ok(Self {
            below: below.collect(),
            sizes: vectors.iter().map(|vector| vector.iter().sum()).collect(),
            vectors,
            classes,
        })
    }

    /// Number of the vector that counts one device of a class.
    pub(crate) fn one(&self, class: usize) -> usize {
        let before = self.classes[..class].iter();
        before.map(|class| class.devices.len() + 1).product()
    }

    /// What the devices of a vector add to the objective.
    pub(crate) fn weight(&self, slot: &Slot, n: usize) -> f64 {
        let counts = self.vectors[n].iter().zip(&self.classes);
        counts
            .map(|(&count, class)| count as f64 * slot.weight(class.devices[0]))
            .sum()
    }

    /// What the devices of a vector cost, by budget.
    pub fn costs(&self, slot: &Slot, n: usize) -> Vec<f64> {
        let mut costs = vec![0.0; slot.queues.len()];
        for (&count, class) in self.vectors[n].iter().zip(&self.classes) {
            let prices = &slot.devices[class.devices[0]].prices;
            for (cost, price) in costs.iter_mut().zip(prices) {
                *cost += count as f64 * price;
            }
        }
        costs
    }
}

/// Devices of equal kind, speed, link, memory and prices are alike.
fn classes(slot: &Slot) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (position, device) in slot.devices.iter().enumerate() {
        let alike = classes.iter_mut().find(|class| {
            let other = &slot.devices[class.devices[0]];
            (other.kind, other.slowdown, other.bandwidth_bytes_per_ms)
                == (device.kind, device.slowdown, device.bandwidth_bytes_per_ms)
                && (other.memory_bytes, &other.prices) == (device.memory_bytes, &device.prices)
        });
        match alike {
            Some(class) => class.devices.push(position),
            None => classes.push(Class {
                devices: vec![position],
            }),
        }
    }
    classes
}
