//! What all items come to at least in some modes: what is said of plans before anything of them is laid out.

use std::collections::BTreeMap;

use crate::model::recompute::{FULL, NONE};
use crate::model::settings::Settings;
use crate::problem::modes::{Knapsack, LayerWays, ModalItem, Modes, Way};

/// Times and bytes of all items, in the ways that take least.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    work_ns: u64,
    largest_ns: u64,
    held_bytes: u64,
    stash_bytes: u64,
    /// What stages compute again, where as many blocks of each do.
    pub again: Option<Again>,
}

/// What so many blocks of each stage save and take at least that compute all again.
#[derive(Clone, Copy)]
pub(super) struct Again {
    pub blocks: u64,
    pub backward_ns: u64,
    pub saved_bytes: u64,
}

/// Sums of every list of degrees that was asked for.
pub(super) struct KnownSums<'a> {
    modes: &'a Modes,
    known: BTreeMap<Vec<usize>, Option<Sums>>,
}

impl<'a> KnownSums<'a> {
    pub(super) fn new(modes: &'a Modes) -> Self {
        Self {
            modes,
            known: BTreeMap::new(),
        }
    }

    /// Those of stages of any of these degrees; `None` where some item has no mode of them, or no block can compute again what it must.
    pub(super) fn of(&mut self, degrees: Vec<usize>) -> Option<Sums> {
        let modes = self.modes;
        let of = |degrees: &Vec<usize>| Sums::of(modes, degrees);
        *self.known.entry(degrees).or_insert_with_key(of)
    }
}

impl Sums {
    fn of(modes: &Modes, degrees: &[usize]) -> Option<Self> {
        let mut sums = Self::default();
        for of_degrees in modes.items.iter() {
            let items = || degrees.iter().filter_map(|&degree| of_degrees[degree].as_ref());
            let least = |of: fn(&Way) -> u64| items().map(|item| least(item, of)).min();
            let work_ns = least(|way| way.passes().iter().sum())?;
            sums.work_ns += work_ns;
            sums.largest_ns = sums.largest_ns.max(work_ns);
            sums.held_bytes += least(|way| way.held_bytes)?;
            sums.stash_bytes += least(|way| way.stash_bytes)?;
        }
        sums.again = match modes.knapsack {
            Knapsack::FirstBlocks(count) => Some(Again::of(modes, degrees, count)?),
            Knapsack::Exact | Knapsack::Greedy => None,
        };
        Some(sums)
    }

    /// No plan in chunks of a row of devices takes less, where every device has all its chunks: some device has as much work as they have on
    /// average, and one has the largest item. `u64::MAX` where they have no memory.
    ///
    /// * `settings`: what is asked of a replica.
    pub(super) fn of_chunks_ns(&self, settings: &Settings) -> u64 {
        let beside_ns = self.again.map_or(0, |again| again.backward_ns);
        let rounds = settings.virtual_stages as u64;
        self.least_ns(settings, rounds * beside_ns)
    }

    /// The same of at most so many stages of a replica.
    pub(super) fn of_stages_ns(&self, settings: &Settings) -> u64 {
        self.least_ns(settings, 0)
    }

    /// What one micro-batch takes to pass, at least.
    pub(super) fn way_ns(&self) -> u64 {
        self.work_ns
    }

    /// * `beside_ns`: what every device computes beside its items for a micro-batch.
    fn least_ns(&self, settings: &Settings, beside_ns: u64) -> u64 {
        // Every item holds something for a micro-batch in flight at some time.
        let stash_bytes = match settings.mode.trains() {
            true => self.stash_bytes,
            false => 0,
        };
        let devices = settings.stages as u64;
        let most_bytes = settings.memory_limit.unwrap_or(u64::MAX);
        if (self.held_bytes + stash_bytes) as f64 > most_bytes as f64 * devices as f64 {
            return u64::MAX;
        }
        let busy_ns = self.work_ns.div_ceil(devices).max(self.largest_ns) + beside_ns;
        self.work_ns.max(settings.run_micro_batches() * busy_ns)
    }
}

impl Again {
    /// Of so many blocks at degrees; `None` where no layer of a block can.
    fn of(modes: &Modes, degrees: &[usize], count: usize) -> Option<Self> {
        let mut of_block: BTreeMap<(usize, usize), [u64; 2]> = BTreeMap::new();
        for &degree in degrees {
            let items = modes.items.iter().filter_map(|degrees| degrees[degree].as_ref());
            for layer in items.flat_map(|item| &item.layers) {
                let Some(block) = layer.block else { continue };
                let way = |name: &str| layer.ways.iter().find(|way| way.recompute == name);
                let [none, full] = [way(NONE), way(FULL)];
                let sum = of_block.entry((degree, block)).or_default();
                if let (Some(none), Some(full)) = (none, full) {
                    // Only what is computed again in the backward pass is more.
                    sum[0] += full.passes()[1].saturating_sub(none.passes()[1]);
                    sum[1] += none.stash_bytes.saturating_sub(full.stash_bytes);
                }
            }
        }
        let least_ns = of_block.values().map(|sum| sum[0]).min()?;
        let most_bytes = of_block.values().map(|sum| sum[1]).max()?;
        Some(Self {
            blocks: count as u64,
            backward_ns: count as u64 * least_ns,
            saved_bytes: count as u64 * most_bytes,
        })
    }
}

/// The least of all ways of each layer.
pub(super) fn least(item: &ModalItem, of: impl Fn(&Way) -> u64) -> u64 {
    let of_layer = |layer: &LayerWays| layer.ways.iter().map(&of).min().unwrap_or(0);
    item.layers.iter().map(of_layer).sum()
}
