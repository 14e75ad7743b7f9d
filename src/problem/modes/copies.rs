//! Tables that layers share, at every tensor degree: what copies cost, and what one stage of both ends saves.

use super::{ByLevel, Memory, Modes, OnceBytes, StageMode};
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::problem::tables::Copies;

/// A table that layers of two items share.
#[derive(Clone, Debug, PartialEq)]
pub struct ModalCopies {
    /// The items; the same one twice, where that holds a layer more that reads it.
    pub items: [usize; 2],
    /// What it takes at each degree.
    pub tables: Vec<Table>,
}

/// A copy of a table on a device of a tensor group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Bytes held once.
    pub held_bytes: u64,
    /// Bytes that replicas share out.
    pub shared_bytes: u64,
    /// Bytes of it that move once an iteration.
    pub once_bytes: OnceBytes,
    /// What summing the gradients of both copies takes as far as a micro-batch bears it, in ticks, by level of the link.
    pub sum_ticks: ByLevel,
    /// The same once an iteration, in whole ns.
    pub sum_ns: ByLevel,
}

impl Modes {
    /// What a layer counts at a degree for a table that it shares, of so many bytes.
    fn table(&self, settings: &Settings, (is_frozen, bytes): (bool, u64), degree: usize) -> Table {
        if is_frozen {
            return Table {
                held_bytes: bytes,
                ..Table::default()
            };
        }
        let kept = self.kept(settings, bytes, degree);
        Table {
            held_bytes: kept.own,
            shared_bytes: kept.shared,
            once_bytes: [bytes, 0, kept.at_host],
            ..Table::default()
        }
    }

    /// Tables whose layers lie in two items.
    pub(super) fn add_copies(&mut self, instance: &Instance, settings: &Settings, copies: &[Copies]) {
        for copy in copies {
            let layer = |degree: usize| {
                let items = copy
                    .items
                    .iter()
                    .filter_map(|&item| self.items[item][degree].as_ref());
                let layers = items.flat_map(|item| &item.layers);
                let mut layers = layers.map(|ways| &instance.network.layers[ways.layer]);
                layers.find(|layer| layer.shared.as_deref() == Some(copy.table.as_str()))
            };
            let table = |degree: usize| {
                let Some(layer) = layer(degree) else {
                    return Table::default();
                };
                let modes = layer.modes();
                let bytes = modes
                    .iter()
                    .find(|mode| mode.tensor == self.degrees[degree].tensor);
                let bytes = bytes.map_or(0, |mode| mode.shared_bytes);
                let held = self.table(settings, (layer.frozen, bytes), degree);
                if !settings.sums_copies() || held.once_bytes[0] == 0 {
                    return held;
                }
                let every = self.micro_batches();
                let sum_ns = std::array::from_fn(|level| {
                    self.once_ns(self.ring_of((2, every), level, 2), bytes as f64)
                });
                Table {
                    // Each micro-batch bears its part of whole ns.
                    sum_ticks: sum_ns.map(|ns: u64| (ns * self.ticks_per_ns).div_ceil(every)),
                    sum_ns,
                    ..held
                }
            };
            let tables = (0..self.degrees.len()).map(table).collect();
            self.copies.push(ModalCopies {
                items: copy.items,
                tables,
            });
        }
    }

    /// The tables of which a stage of these items needs one copy, for both ends.
    fn joined<'a>(&'a self, items: &'a [usize], degree: usize) -> impl Iterator<Item = &'a Table> {
        let both = move |copy: &&ModalCopies| copy.items.iter().all(|item| items.contains(item));
        self.copies
            .iter()
            .filter(both)
            .map(move |copy| &copy.tables[degree])
    }

    /// What a device of a stage of these items has for its layers, each of which counts its table: what replicas share out is held as well.
    /// `None` where some item has no mode of the degree, or that alone is too much.
    pub fn room(&self, items: &[usize], mode: &StageMode) -> Option<Memory> {
        let twice = self.surplus(items, mode.degree);
        let shared_bytes = self.to_share_bytes(items, mode.degree)? - twice.shared_bytes;
        let once = self.once_bytes(items, mode.degree)?;
        let all = Memory {
            bytes: self.memory_bytes(mode.degree).saturating_add(twice.held_bytes),
            host_bytes: self.host_memory_bytes(mode.degree),
        };
        all.without(
            shared_bytes.div_ceil(self.copies_of_weights(mode) as u64),
            self.at_host_of_device(once, mode),
        )
    }

    /// What a stage of these items counts twice of what tables hold.
    pub(crate) fn surplus(&self, items: &[usize], degree: usize) -> Table {
        let plus = |sum: Table, own: &Table| Table {
            held_bytes: sum.held_bytes + own.held_bytes,
            shared_bytes: sum.shared_bytes + own.shared_bytes,
            once_bytes: [0, 1, 2].map(|of| sum.once_bytes[of] + own.once_bytes[of]),
            ..sum
        };
        self.joined(items, degree).fold(Table::default(), plus)
    }

    /// Tables of an item, each with the item at its other end.
    pub(crate) fn copies_of(&self, item: usize) -> impl Iterator<Item = (&ModalCopies, usize)> {
        self.copies.iter().filter_map(move |copy| match copy.items {
            [one, other] if one == item => Some((copy, other)),
            [one, other] if other == item => Some((copy, one)),
            _ => None,
        })
    }

    /// What the sums of gradients take at least of a stage of these items, in ns, once an iteration.
    pub(crate) fn least_sums_ns(&self, items: &[usize], degree: usize) -> u64 {
        let apart = |copy: &&ModalCopies| items.contains(&copy.items[0]) != items.contains(&copy.items[1]);
        let least = |copy: &ModalCopies| copy.tables[degree].sum_ns.into_iter().min().unwrap_or(0);
        self.copies.iter().filter(apart).map(least).sum()
    }
}
