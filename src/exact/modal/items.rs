//! What items add to a stage at each tensor degree.

use crate::problem::modes::{ModalItem, Modes, Way};

/// What some items take at a tensor degree if each layer runs as fast as it can, and what they take at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Time of the fastest ways, in ticks.
    pub time: u64,
    /// Bytes of the fastest ways: held once, for each micro-batch in flight, and the largest workspace.
    pub fastest: Bytes,
    /// No choice of ways takes less of any.
    pub least: Bytes,
    /// Bytes of gradients.
    pub gradient_bytes: u64,
    /// Bytes that replicas share out.
    pub shared_bytes: u64,
    /// Items that have no mode of the degree.
    pub missing: usize,
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    held: u64,
    stash: u64,
    workspace: u64,
}

impl Bytes {
    fn of(way: &Way) -> Self {
        Self {
            held: way.held_bytes,
            stash: way.stash_bytes,
            workspace: way.workspace_bytes,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            stash: self.stash + other.stash,
            workspace: self.workspace.max(other.workspace),
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            held: self.held.min(other.held),
            stash: self.stash.min(other.stash),
            workspace: self.workspace.min(other.workspace),
        }
    }

    /// All of it, with so many micro-batches in flight.
    pub(super) fn with(self, in_flight: u64) -> u64 {
        self.held + in_flight * self.stash + self.workspace
    }
}

/// Whether it must be chosen what layers compute again.
pub(super) enum Room {
    /// Yes, within so many bytes.
    Choose(u64),
    /// No: the fastest ways fit and take this time, or no ways fit.
    Known(Option<u64>),
}

impl Sum {
    fn of(item: Option<&ModalItem>) -> Self {
        let Some(item) = item else {
            return Self {
                missing: 1,
                ..Self::default()
            };
        };
        let mut sum = Self {
            gradient_bytes: item.gradient_bytes,
            shared_bytes: item.shared_bytes,
            ..Self::default()
        };
        for layer in &item.layers {
            let fastest = &layer.ways[0];
            let ways = layer.ways.iter().map(Bytes::of);
            sum.time += fastest.time();
            sum.fastest = sum.fastest.plus(Bytes::of(fastest));
            sum.least = sum.least.plus(ways.reduce(Bytes::least).unwrap_or_default());
        }
        sum
    }

    /// What a device of so many bytes has for its layers, with so many replicas and micro-batches in flight.
    pub(super) fn room(&self, memory_bytes: u64, replicas: usize, in_flight: u64) -> Room {
        let shared_bytes = self.shared_bytes.div_ceil(replicas as u64);
        match memory_bytes.checked_sub(shared_bytes) {
            Some(limit) if self.fastest.with(in_flight) <= limit => Room::Known(Some(self.time)),
            Some(limit) if self.least.with(in_flight) <= limit => Room::Choose(limit),
            _ => Room::Known(None),
        }
    }

    /// Both together.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            time: self.time + other.time,
            fastest: self.fastest.plus(other.fastest),
            least: self.least.plus(other.least),
            gradient_bytes: self.gradient_bytes + other.gradient_bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
            missing: self.missing + other.missing,
        }
    }
}

/// The sum of each item, by degree.
pub(super) fn sums(modes: &Modes) -> Vec<Vec<Sum>> {
    let of_item = |item: &Vec<Option<ModalItem>>| item.iter().map(|item| Sum::of(item.as_ref())).collect();
    modes.items.iter().map(of_item).collect()
}

/// The least time that each item takes of all devices together, in ticks: at any degree, on all devices of a tensor group; `u64::MAX`
/// where no degree runs it.
pub(super) fn device_times(modes: &Modes, sums: &[Vec<Sum>]) -> Vec<u64> {
    let of_item = |sums: &Vec<Sum>| {
        let able = sums
            .iter()
            .zip(&modes.degrees)
            .filter(|(sum, _)| sum.missing == 0);
        able.map(|(sum, &tensor)| sum.time * tensor as u64)
            .min()
            .unwrap_or(u64::MAX)
    };
    sums.iter().map(of_item).collect()
}
