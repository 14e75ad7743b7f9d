//! What items add to a stage at each tensor degree.

use crate::problem::modes::{Memory, ModalItem, Modes, OnceBytes, Table, Way};

/// What some items take at a tensor degree if each layer runs as fast as it can, and what they take at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Time that the fastest ways add to a stage at least, in ticks.
    pub time: u64,
    /// Bytes of the fastest ways: held once, for each micro-batch in flight, and the largest workspace.
    pub fastest: Bytes,
    /// No choice of ways takes less of any.
    pub least: Bytes,
    /// Bytes that move once an iteration.
    pub once_bytes: OnceBytes,
    /// Bytes that replicas share out.
    pub shared_bytes: u64,
    /// Bytes that layers count twice, for tables of which the stage holds one copy.
    pub twice_bytes: u64,
    /// Items that have no mode of the degree.
    pub missing: usize,
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    held: u64,
    stash: u64,
    host: u64,
    workspace: u64,
}

impl Bytes {
    fn of(way: &Way) -> Self {
        Self {
            held: way.held_bytes,
            stash: way.stash_bytes,
            host: way.host_bytes,
            workspace: way.workspace_bytes,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            stash: self.stash + other.stash,
            host: self.host + other.host,
            workspace: self.workspace.max(other.workspace),
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            held: self.held.min(other.held),
            stash: self.stash.min(other.stash),
            host: self.host.min(other.host),
            workspace: self.workspace.min(other.workspace),
        }
    }

    /// All of it, with so many micro-batches in flight.
    pub(super) fn with(self, in_flight: u64) -> u64 {
        self.held + in_flight * self.stash + self.workspace
    }

    /// Whether there is room for all of it.
    fn fits(self, in_flight: u64, limit: Memory) -> bool {
        self.with(in_flight) <= limit.bytes && in_flight * self.host <= limit.host_bytes
    }
}

/// Whether it must be chosen what layers compute again.
pub(super) enum Room {
    /// Yes, within so much.
    Choose(Memory),
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
            once_bytes: item.once_bytes,
            shared_bytes: item.shared_bytes,
            ..Self::default()
        };
        for layer in &item.layers {
            let fastest = &layer.ways[0];
            let ways = layer.ways.iter().map(Bytes::of);
            let adds = layer.ways.iter().map(|way| way.adds().iter().sum::<u64>());
            sum.time += adds.min().unwrap_or(0);
            sum.fastest = sum.fastest.plus(Bytes::of(fastest));
            sum.least = sum.least.plus(ways.reduce(Bytes::least).unwrap_or_default());
        }
        sum
    }

    /// What a device of so much memory has for its layers, with so many copies of weights, bytes of states at its host, and micro-batches in flight.
    pub(super) fn room(&self, memory: Memory, [copies, at_host]: [u64; 2], in_flight: u64) -> Room {
        let all = Memory {
            bytes: memory.bytes.saturating_add(self.twice_bytes),
            ..memory
        };
        match all.without(self.shared_bytes.div_ceil(copies), at_host) {
            Some(limit) if self.fastest.fits(in_flight, limit) => Room::Known(Some(self.time)),
            Some(limit) if self.least.fits(in_flight, limit) => Room::Choose(limit),
            _ => Room::Known(None),
        }
    }

    /// The same where both ends of a table are among the items.
    pub(super) fn with_one_copy(self, table: &Table) -> Self {
        // An item without a mode of the degree counts none.
        Self {
            once_bytes: [0, 1, 2].map(|of| self.once_bytes[of].saturating_sub(table.once_bytes[of])),
            shared_bytes: self.shared_bytes.saturating_sub(table.shared_bytes),
            twice_bytes: self.twice_bytes + table.held_bytes,
            ..self
        }
    }

    /// Both together.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            time: self.time + other.time,
            fastest: self.fastest.plus(other.fastest),
            least: self.least.plus(other.least),
            once_bytes: [0, 1, 2].map(|of| self.once_bytes[of] + other.once_bytes[of]),
            shared_bytes: self.shared_bytes + other.shared_bytes,
            twice_bytes: self.twice_bytes + other.twice_bytes,
            missing: self.missing + other.missing,
        }
    }
}

/// The sum of each item, by degree.
pub(super) fn sums(modes: &Modes) -> Vec<Vec<Sum>> {
    let of_item = |item: &Vec<Option<ModalItem>>| item.iter().map(|item| Sum::of(item.as_ref())).collect();
    modes.items.iter().map(of_item).collect()
}

/// What work takes at least of devices that differ.
pub(super) struct Work {
    /// By item or ideal, the least time of all devices together on those that are fastest for each item, in ticks.
    least: Vec<u64>,
    /// By row, the largest part of that which one of its devices does in a tick.
    speeds: Vec<f64>,
}

/// Parts of sums of floats that are not trusted.
const ROUNDING: f64 = 1e-9;

impl Work {
    /// The work of each item, of which each takes so much at [least](device_times); `None` where no degree runs one of them.
    pub(super) fn of_items(modes: &Modes, sums: &[Vec<Sum>], least: &[u64]) -> Option<Self> {
        let on_row = |row: usize, item: usize| {
            let own = (0..modes.degrees.len()).filter(|&degree| modes.degrees[degree].row == row);
            let able = own.filter(|&degree| sums[item][degree].missing == 0);
            able.map(|degree| sums[item][degree].time * modes.width(degree) as u64)
                .min()
        };
        let speed = |row: usize| {
            let able = (0..least.len()).filter_map(|item| Some((least[item], on_row(row, item)?)));
            let parts = able.filter(|&(least, _)| least > 0);
            parts
                .map(|(least, own)| least as f64 / own as f64)
                .fold(0.0, f64::max)
        };
        let speeds = (0..modes.rows.len()).map(speed).collect();
        let runs = least.iter().all(|&least| least < u64::MAX);
        runs.then(|| Self {
            least: least.to_vec(),
            speeds,
        })
    }

    /// The same of sets of items, of which each takes so much.
    pub(super) fn of_ideals(&self, least: Vec<u64>) -> Self {
        Self {
            least,
            speeds: self.speeds.clone(),
        }
    }

    /// Of each item.
    pub(super) fn least(&self) -> &[u64] {
        &self.least
    }

    /// No plan on so many devices of each row has a shorter period: what they do in a tick is no more than their speeds say.
    pub(super) fn least_period(&self, devices: impl Iterator<Item = usize>) -> u64 {
        let all: u64 = self.least.iter().sum();
        let speed = self.speed(devices);
        match speed > 0.0 {
            true => (all as f64 * (1.0 - ROUNDING) / speed).floor() as u64,
            false => 0,
        }
    }

    /// No limit below this lets so many free devices of each row run an ideal.
    pub(super) fn least_within(&self, ideal: usize, free: &[usize]) -> u64 {
        let speed = self.speed(free.iter().copied());
        match (self.least[ideal], speed > 0.0) {
            (0, _) => 0,
            (least, true) => (least as f64 * (1.0 - ROUNDING) / speed).floor() as u64,
            (_, false) => u64::MAX,
        }
    }

    fn speed(&self, devices: impl Iterator<Item = usize>) -> f64 {
        let speeds = devices.zip(&self.speeds);
        speeds.map(|(devices, speed)| devices as f64 * speed).sum()
    }
}

/// The least time that each item takes for a micro-batch, in ticks: at any degree; `None` where none runs it.
pub(super) fn least_times(sums: &[Vec<Sum>]) -> Vec<Option<u64>> {
    let of_item = |sums: &Vec<Sum>| {
        let able = sums.iter().filter(|sum| sum.missing == 0);
        able.map(|sum| sum.time).min()
    };
    sums.iter().map(of_item).collect()
}

/// The least time that each item takes of all devices together, in ticks: at any degree, on all devices of a tensor group; `u64::MAX`
/// where no degree runs it.
pub(super) fn device_times(modes: &Modes, sums: &[Vec<Sum>]) -> Vec<u64> {
    let of_item = |sums: &Vec<Sum>| {
        let able = sums.iter().enumerate().filter(|(_, sum)| sum.missing == 0);
        able.map(|(degree, sum)| sum.time * modes.width(degree) as u64)
            .min()
            .unwrap_or(u64::MAX)
    };
    sums.iter().map(of_item).collect()
}
