//! What all items come to at least in some modes: what is said of plans before anything of them is laid out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::row::{self, Cost, Place, Room, Set};
use crate::model::recompute::{FULL, NONE};
use crate::model::settings::Settings;
use crate::problem::modes::{Knapsack, LayerWays, ModalItem, Modes, StageMode, Way};

/// Times and bytes of all items, in the ways that take least.
#[derive(Clone, Default)]
pub(super) struct Sums {
    /// What one micro-batch takes on its way: nobody waits for gradients of weights that are run apart.
    way_ns: u64,
    /// What all hold once, for each micro-batch in flight, and to share out among replicas.
    bytes: [u64; 3],
    /// What a stage of all counts twice, of the first and the last of these.
    surplus_bytes: [u64; 2],
    sets: Vec<Set>,
    /// What stages compute again, where as many blocks of each do.
    pub again: Option<Again>,
}

/// What so many blocks of each stage save and take at least that compute all again.
#[derive(Clone)]
pub(super) struct Again {
    pub blocks: u64,
    most: Saved,
    /// The same of as many blocks that follow each other, by the first of them; empty where blocks are parts of items, or lie in another order.
    runs: Arc<[Saved]>,
}

/// What computing again takes in the backward pass at least, in ns, and saves of a micro-batch in flight at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saved {
    pub backward_ns: u64,
    pub bytes: u64,
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
    pub(super) fn of(&mut self, degrees: Vec<usize>) -> Option<&Sums> {
        let modes = self.modes;
        let of = |degrees: &Vec<usize>| Sums::of(modes, degrees);
        self.known.entry(degrees).or_insert_with_key(of).as_ref()
    }
}

impl Sums {
    fn of(modes: &Modes, degrees: &[usize]) -> Option<Self> {
        let again = match modes.knapsack {
            Knapsack::FirstBlocks(count) => Some(Again::of(modes, degrees, count)?),
            Knapsack::Exact | Knapsack::Greedy => None,
        };
        let of_item = |of_degrees: &Vec<Option<ModalItem>>| {
            let items = || degrees.iter().filter_map(|&degree| of_degrees[degree].as_ref());
            let way_ns = |item| least(item, |way| way.adds().iter().sum::<u64>() - way.weight);
            let costs = |item: &ModalItem| match again {
                Some(_) => vec![(
                    least(item, |way| way.adds().iter().sum()),
                    [
                        least(item, |way| way.held_bytes),
                        kept_bytes(item),
                        item.shared_bytes,
                    ],
                )],
                None => {
                    let cost = |([forward, input, weight, held, stash], _): ItemWay| {
                        (forward + input + weight, [held, stash, item.shared_bytes])
                    };
                    ways(item).into_iter().map(cost).collect()
                }
            };
            let all = row::not_dominated(items().flat_map(costs).collect());
            Some((items().map(way_ns).min()?, all))
        };
        let items: Vec<(u64, Vec<Cost>)> = modes.items.iter().map(of_item).collect::<Option<_>>()?;
        let (ways_ns, items): (Vec<u64>, Vec<Vec<Cost>>) = items.into_iter().unzip();
        let all: Vec<usize> = (0..items.len()).collect();
        let surplus = degrees.iter().map(|&degree| modes.surplus(&all, degree));
        let surplus = surplus.map(|twice| [twice.held_bytes, twice.shared_bytes]);
        Some(Self {
            way_ns: ways_ns.into_iter().sum(),
            bytes: items
                .iter()
                .map(|ways| row::least(ways).1)
                .fold([0; 3], |sum, own| [0, 1, 2].map(|at| sum[at] + own[at])),
            surplus_bytes: surplus.fold([0; 2], |most, own| [0, 1].map(|at| most[at].max(own[at]))),
            sets: row::sets(items.into_iter()),
            again,
        })
    }

    /// No plan in chunks of a row of devices takes less, where every device has all its chunks: see [`row`]. `u64::MAX` where they have no memory.
    ///
    /// * `settings`: what is asked of a replica;
    /// * `each_ns`: what every chunk takes at least of a micro-batch before a device behind it begins and when that has ended, but the first;
    /// * `again`: what each chunk computes again.
    pub(super) fn of_chunks_ns(
        &self,
        modes: &Modes,
        mode: &StageMode,
        (settings, each_ns): (&Settings, u64),
        again: &[Saved],
    ) -> u64 {
        // When the first micro-batch turns back, each of a device's chunks holds something of it.
        let in_flight = u64::from(settings.mode.trains());
        let mut of_devices = vec![Saved::default(); settings.stages];
        for (chunk, own) in again.iter().enumerate() {
            let device = settings.placement.device(chunk, settings.stages);
            of_devices[device].backward_ns += own.backward_ns;
            of_devices[device].bytes += in_flight * own.bytes;
        }
        let saved: Vec<(u64, u64)> = of_devices.iter().map(|own| (in_flight, own.bytes)).collect();
        let place = |(device, own): (usize, &Saved)| Place {
            lead_ns: each_ns.saturating_mul((device as u64).saturating_sub(1)),
            beside_ns: own.backward_ns,
            slower: 1.0,
        };
        let places: Vec<Place> = of_devices.iter().enumerate().map(place).collect();
        self.least_ns(settings, &self.rooms(modes, mode, &saved), (&places, false))
    }

    /// The same of at most so many stages of a replica.
    pub(super) fn of_stages_ns(&self, modes: &Modes, mode: &StageMode, settings: &Settings) -> u64 {
        let again = self.again.as_ref().map(|again| again.most).unwrap_or_default();
        let behind = (0..settings.stages).rev().map(|stages| stages * mode.replicas);
        let saved = |behind: usize| {
            let in_flight = modes.flight.of(mode.replicas, behind);
            (in_flight, in_flight.saturating_mul(again.bytes))
        };
        let saved: Vec<(u64, u64)> = behind.map(saved).collect();
        let place = Place {
            lead_ns: 0,
            beside_ns: again.backward_ns,
            slower: 1.0,
        };
        let places = vec![place; settings.stages];
        self.least_ns(settings, &self.rooms(modes, mode, &saved), (&places, true))
    }

    /// What one micro-batch takes to pass, at least.
    pub(super) fn way_ns(&self) -> u64 {
        self.way_ns
    }

    /// What devices have memory for with so many micro-batches in flight in each of their chunks, of which so many bytes are saved.
    fn rooms(&self, modes: &Modes, mode: &StageMode, saved: &[(u64, u64)]) -> Rooms {
        let copies = modes.copies_of_weights(mode) as u64;
        let [held, shared] = self.surplus_bytes;
        let all_bytes = modes
            .memory_bytes(mode.degree)
            .saturating_add(held + shared.div_ceil(copies));
        let room = |&(in_flight, saved): &(u64, u64)| (in_flight, all_bytes.saturating_add(saved));
        Rooms {
            copies,
            of_devices: saved.iter().map(room).collect(),
        }
    }

    /// * `is_single`: a device has one chunk.
    fn least_ns(&self, settings: &Settings, rooms: &Rooms, (places, is_single): (&[Place], bool)) -> u64 {
        if rooms.are_exceeded_by(self.bytes) {
            return u64::MAX;
        }
        let micro_batches = settings.run_micro_batches();
        let of_set = |set: &Set| row::least_ns(set, micro_batches, (places, &rooms.of(set)), is_single);
        self.sets.iter().map(of_set).max().unwrap_or(0).max(self.way_ns)
    }
}

/// Memory of devices in a row.
struct Rooms {
    /// Replicas that share out what is shared out.
    copies: u64,
    /// Micro-batches in flight, and bytes.
    of_devices: Vec<(u64, u64)>,
}

impl Rooms {
    /// What items hold beside what is in flight.
    fn held(&self, [held, _, shared]: [u64; 3]) -> u64 {
        held + shared / self.copies
    }

    /// Whether items of so many bytes fit nowhere, however they are divided.
    fn are_exceeded_by(&self, bytes: [u64; 3]) -> bool {
        let least = self
            .of_devices
            .iter()
            .map(|&(in_flight, _)| in_flight)
            .min()
            .unwrap_or(0);
        let all = self
            .of_devices
            .iter()
            .fold(0u64, |all, &(_, room)| all.saturating_add(room));
        self.held(bytes).saturating_add(least.saturating_mul(bytes[1])) > all
    }

    /// What each device has memory for of a set.
    fn of(&self, set: &Set) -> Vec<Room> {
        let room = |&(in_flight, room): &(u64, u64)| {
            let held =
                |bytes: [u64; 3]| (self.held(bytes)).saturating_add(in_flight.saturating_mul(bytes[1]));
            Room::new(&set.ways, room, held)
        };
        self.of_devices.iter().map(room).collect()
    }
}

/// What an item leaves of a micro-batch in flight that computes nothing again.
pub(super) fn kept_bytes(item: &ModalItem) -> u64 {
    let kept = |layer: &LayerWays| {
        let way = layer.ways.iter().find(|way| way.recompute == NONE);
        way.map_or(0, |way| way.stash_bytes)
    };
    item.layers.iter().map(kept).sum()
}

impl Again {
    /// Of so many blocks at degrees; `None` where no layer of a block can.
    fn of(modes: &Modes, degrees: &[usize], count: usize) -> Option<Self> {
        let mut of_block: BTreeMap<(usize, usize), Saved> = BTreeMap::new();
        for &degree in degrees {
            let items = modes.items.iter().filter_map(|degrees| degrees[degree].as_ref());
            for layer in items.flat_map(|item| &item.layers) {
                let Some(block) = layer.block else { continue };
                let way = |name: &str| layer.ways.iter().find(|way| way.recompute == name);
                let [none, full] = [way(NONE), way(FULL)];
                let sum = of_block.entry((degree, block)).or_default();
                if let (Some(none), Some(full)) = (none, full) {
                    // Only what is computed again in the backward pass is more.
                    sum.backward_ns += full.adds()[1].saturating_sub(none.adds()[1]);
                    sum.bytes += none.stash_bytes.saturating_sub(full.stash_bytes);
                }
            }
        }
        let any = of_block.values().map(|own| own.times(count));
        let most = any.reduce(Saved::or)?;
        let runs = |&degree: &usize| {
            let ranks = ranks_in_order(modes, degree)?;
            let blocks: Option<Vec<Saved>> = ranks
                .iter()
                .map(|&rank| of_block.get(&(degree, rank)).copied())
                .collect();
            Some(blocks?.windows(count).map(Saved::of_all).collect())
        };
        let runs: Option<Vec<Vec<Saved>>> = degrees.iter().map(runs).collect();
        let both = |one: Vec<Saved>, other: Vec<Saved>| -> Vec<Saved> {
            one.into_iter()
                .zip(other)
                .map(|(one, other)| one.or(other))
                .collect()
        };
        let runs = runs.and_then(|runs| runs.into_iter().reduce(both));
        Some(Self {
            blocks: count as u64,
            most,
            runs: runs.unwrap_or_default().into(),
        })
    }

    /// What each chunk of a row of items computes again, of so many, none of which is empty.
    ///
    /// Chunk `c` of `C`, from 0 on, has `c` before it and `C - c - 1` behind it with `k` blocks at least each, so that its first block is one of those from `c k` on to
    /// `B - (C - c) k` of `B`, and the first of all is that of the first chunk. Where blocks differ, few of them can be the first ones of most chunks: the dense
    /// blocks that a network of experts begins with are in the first chunks alone.
    pub(super) fn of_chunks(&self, chunks: usize, is_row: bool) -> Vec<Saved> {
        let count = self.blocks as usize;
        let of_chunk = |chunk: usize| {
            let behind = (chunks - chunk - 1) * count;
            let firsts = match chunk {
                0 => 0..1,
                _ => chunk * count..self.runs.len().saturating_sub(behind),
            };
            let own = self.runs.get(firsts).filter(|_| is_row);
            let any = own.and_then(|own| own.iter().copied().reduce(Saved::or));
            any.unwrap_or(self.most)
        };
        (0..chunks).map(of_chunk).collect()
    }
}

impl Saved {
    /// The same of so many alike.
    fn times(self, count: usize) -> Self {
        Self {
            backward_ns: count as u64 * self.backward_ns,
            bytes: count as u64 * self.bytes,
        }
    }

    /// The same of both.
    fn and(self, other: Self) -> Self {
        Self {
            backward_ns: self.backward_ns + other.backward_ns,
            bytes: self.bytes + other.bytes,
        }
    }

    /// The same of either.
    fn or(self, other: Self) -> Self {
        Self {
            backward_ns: self.backward_ns.min(other.backward_ns),
            bytes: self.bytes.max(other.bytes),
        }
    }

    fn of_all(all: &[Self]) -> Self {
        all.iter().copied().fold(Self::default(), Self::and)
    }
}

/// The ranks of all blocks as items hold them; `None` where these aren't in order, or a block lies in several items.
fn ranks_in_order(modes: &Modes, degree: usize) -> Option<Vec<usize>> {
    let ranks = |item: &Vec<Option<ModalItem>>| -> Option<BTreeSet<usize>> {
        let layers = item[degree].as_ref()?.layers.iter();
        Some(layers.filter_map(|layer| layer.block).collect())
    };
    let ranks: Option<Vec<BTreeSet<usize>>> = modes.items.iter().map(ranks).collect();
    let ranks: Vec<usize> = ranks?.into_iter().flatten().collect();
    ranks.is_sorted_by(|one, other| one < other).then_some(ranks)
}

/// What an item takes and holds in some way: its forward pass, gradients of inputs and of weights, bytes for good and for each micro-batch in flight.
pub(super) type WayCost = [u64; 5];

/// A way to run an item: what it costs, and the way of each of its layers; none of these where it is the least of several.
pub(super) type ItemWay = (WayCost, Vec<usize>);

/// Ways that are told apart.
const MOST_WAYS: usize = 6;

/// What a way to run a layer costs.
fn of_way(way: &Way) -> WayCost {
    let [forward, backward] = way.adds();
    let input = backward - way.weight;
    [forward, input, way.weight, way.held_bytes, way.stash_bytes]
}

/// Whether some way that is left out needs less beside that, workspace or room at the host, than those that beat it; where an item has several layers, nobody
/// knows.
pub(super) fn leaves_out_smaller(item: &ModalItem) -> bool {
    let ([layer], kept) = (&item.layers[..], ways(item)) else {
        return true;
    };
    let beside = |way: &Way| [way.workspace_bytes, way.host_bytes];
    let is_no_more = |kept: &Way, way: &Way| {
        let costs = of_way(kept).into_iter().zip(of_way(way));
        let beside = beside(kept).into_iter().zip(beside(way));
        costs.chain(beside).all(|(kept, own)| kept <= own)
    };
    let kept = kept.iter().filter_map(|(_, ways)| ways.first());
    let kept: Vec<&Way> = kept.map(|&way| &layer.ways[way]).collect();
    let is_smaller = |way: &Way| !kept.iter().any(|kept| is_no_more(kept, way));
    layer.ways.iter().any(is_smaller)
}

/// Ways to run all layers of an item, the fastest first; the least of each part as one where there are too many.
pub(super) fn ways(item: &ModalItem) -> Vec<ItemWay> {
    let mut all = vec![([0; 5], Vec::new())];
    for layer in &item.layers {
        let own: Vec<WayCost> = layer.ways.iter().map(of_way).collect();
        let both = |(sums, ways): &ItemWay| -> Vec<ItemWay> {
            let with = |(way, own): (usize, &WayCost)| {
                let sums = std::array::from_fn(|at| sums[at] + own[at]);
                (sums, [&ways[..], &[way]].concat())
            };
            own.iter().enumerate().map(with).collect()
        };
        all = not_dominated(all.iter().flat_map(both).collect());
        if all.len() > MOST_WAYS {
            let each = std::array::from_fn(|at| least(item, |way| of_way(way)[at]));
            return vec![(each, Vec::new())];
        }
    }
    all
}

/// Those of which no other is as little in every part, the fastest first.
fn not_dominated(mut all: Vec<ItemWay>) -> Vec<ItemWay> {
    all.sort_unstable_by_key(|(cost, _)| (cost[..3].iter().sum::<u64>(), *cost));
    let mut kept: Vec<ItemWay> = Vec::new();
    for (cost, ways) in all {
        let is_beaten = |(other, _): &ItemWay| other.iter().zip(&cost).all(|(other, own)| other <= own);
        if !kept.iter().any(is_beaten) {
            kept.push((cost, ways));
        }
    }
    kept
}

/// The least of all ways of each layer.
pub(super) fn least(item: &ModalItem, of: impl Fn(&Way) -> u64) -> u64 {
    let of_layer = |layer: &LayerWays| layer.ways.iter().map(&of).min().unwrap_or(0);
    item.layers.iter().map(of_layer).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_another_beats_in_every_part_is_left_out() {
        let all = [[1, 3, 0, 1, 1], [1, 2, 0, 1, 5], [1, 3, 0, 1, 2], [1, 2, 0, 1, 5]];
        let all = all.into_iter().map(|cost| (cost, Vec::new())).collect();
        let kept: Vec<WayCost> = not_dominated(all).into_iter().map(|(cost, _)| cost).collect();
        assert_eq!(kept, [[1, 2, 0, 1, 5], [1, 3, 0, 1, 1]]);
    }
}
