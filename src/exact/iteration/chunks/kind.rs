//! Chunks whose stages are alike in a mode: a replica of all of them is a row of single devices of its own.

use std::collections::BTreeSet;

use super::super::kinds::{least_at, of_least, ring_levels, transfer_at};
use super::super::sums::{Again, KnownSums, kept_bytes, least};
use super::options::ChunkOptions;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modal_chunks::ModalChunks;
use crate::problem::modes::{Chosen, LayerWays, Memory, Modes, StageMode, fastest_within, smallest_way};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Plans with so many chunks for each device, all of one mode.
pub(in crate::exact) struct ChunkKind<'a> {
    modes: &'a Modes,
    mode: StageMode,
    of: &'a VirtualStages,
    row: Problem,
    /// What chunks compute again, where as many blocks of each do.
    again: Option<Again>,
    /// Whether every layer has one way to run.
    has_one_way: bool,
    /// What a chunk takes for each item once an iteration at least, in ns.
    once_ns: Vec<f64>,
}

/// The same before anything of it is laid out: there are many, and few are looked for.
pub(in crate::exact) struct ChunkFamily<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    chunks: &'a ModalChunks,
    again: Option<Again>,
    bound_ns: u64,
}

impl<'a> ChunkFamily<'a> {
    /// All of a way to compute again, but for those that some item has no mode of, or that have too few blocks.
    pub(in crate::exact) fn all(problem: &'a Problem, modes: &'a Modes) -> Vec<Self> {
        let mut known = KnownSums::new(modes);
        let family = |chunks: &'a ModalChunks| {
            let settings = &chunks.settings;
            if modes.most_stages().is_some_and(|most| most < settings.chunks()) {
                return None;
            }
            let sums = known.of(vec![chunks.mode.degree])?;
            Some(Self {
                problem,
                modes,
                chunks,
                again: sums.again,
                bound_ns: sums.of_chunks_ns(modes, &chunks.mode, settings),
            })
        };
        problem.modal_chunks.iter().filter_map(family).collect()
    }

    /// No plan takes less, in ns, as far as that is seen at once; `u64::MAX` where there is none.
    pub(in crate::exact) fn bound_ns(&self) -> u64 {
        self.bound_ns
    }

    /// What a plan may take in which all chunks are alike, in ns: work and the bubble between the first micro-batches.
    pub(in crate::exact) fn estimate_ns(&self) -> u64 {
        let settings = &self.chunks.settings;
        let passes = settings.micro_batches.unwrap_or(1) as f64 * settings.virtual_stages as f64;
        let bubble = (settings.stages - 1) as f64 / passes;
        (self.bound_ns as f64 * (1.0 + bubble)) as u64
    }

    /// Its plans; `None` where the schedule has no order for them.
    pub(in crate::exact) fn laid(&self) -> Option<ChunkKind<'a>> {
        let (modes, mode, of) = (self.modes, self.chunks.mode, self.chunks.laid()?);
        let degree = mode.degree;
        let row = self.problem.of_replica(mode.replicas, of.chunks());
        let mut row = of_least(row, modes, &[mode])?.in_chunks(&self.chunks.settings, of);
        for (item, of_degrees) in row.items.iter_mut().zip(modes.items.iter()) {
            let own = of_degrees[degree].as_ref()?;
            item.base_bytes =
                least(own, |way| way.held_bytes) + own.shared_bytes / modes.copies_of_weights(&mode) as u64;
            // The way without gradients of weights is the least of any, and so are both passes together.
            let way_ns = item.forward_ns + least(own, |way| way.passes()[1] - way.weight);
            item.weight_ns = item.work_ns() - way_ns;
            item.parameter_bytes = own.once_bytes[0];
            item.stash_bytes = match self.again {
                Some(_) => kept_bytes(own),
                None => least(own, |way| way.stash_bytes),
            };
        }
        let items = || modes.items.iter().filter_map(|degrees| degrees[degree].as_ref());
        let layers = items().flat_map(|item| &item.layers);
        let mut ways = layers.map(|layer| layer.ways.len());
        let levels = ring_levels(modes, &mode, true);
        let once_ns = items().map(|item| modes.least_once_ns(item.once_bytes, &mode, levels.clone()));
        let mut kind = ChunkKind {
            modes,
            mode,
            of,
            has_one_way: ways.all(|ways| ways == 1),
            once_ns: once_ns.collect(),
            again: self.again,
            row,
        };
        let spare_bytes = kind.spare_bytes_of_row();
        let limit = &mut kind.row.settings.memory_limit;
        *limit = limit.map(|limit| limit.saturating_add(spare_bytes));
        Some(kind)
    }
}

impl ChunkKind<'_> {
    /// Ways of the layers of all chunks; `None` where they do not fit memory, as far as that is asked here.
    fn choose(&self, members: &[Vec<usize>], chosen: &mut Chosen) -> Option<()> {
        let mut note = |layers: &[&LayerWays], ways: &[usize]| {
            for (layer, &way) in layers.iter().zip(ways) {
                chosen.layers[layer.layer] = layer.ways[way].mode;
            }
        };
        if self.has_one_way || self.again.is_some() {
            for items in members {
                let layers = self.modes.layers_of(items, self.mode.degree)?;
                note(&layers, &self.modes.knapsack.within(&layers, 0, ENDLESS)?.ways);
            }
            return Some(());
        }
        for chunks in &self.of.chunks_of {
            // A stash for each micro-batch of its chunk in flight.
            let (mut layers, mut held) = (Vec::new(), Vec::new());
            let mut room = Memory {
                bytes: self.modes.memory_bytes(self.mode.degree),
                host_bytes: self.modes.host_memory_bytes(self.mode.degree),
            };
            for &chunk in chunks {
                let own = self.modes.layers_of(&members[chunk], self.mode.degree)?;
                let shared_bytes = self.modes.shared_bytes(&members[chunk], &self.mode)?;
                let once = self
                    .modes
                    .once_bytes_of_chunk(&members[chunk], self.mode.degree)?;
                room = room.without(shared_bytes, self.modes.at_host_of_device(once, &self.mode))?;
                let in_flight = self.of.most_of_chunk(chunk);
                held.extend(own.iter().map(|layer| with_stashes(layer, in_flight)));
                layers.extend(own);
            }
            let held: Vec<&LayerWays> = held.iter().collect();
            let ways = match fastest_within(&held, 1, room) {
                Some(ways) => ways.ways,
                // All counts are not reached at once, perhaps.
                None => held.iter().map(|layer| smallest_way(layer, 1)).collect(),
            };
            note(&layers, &ways);
        }
        Some(())
    }
}

impl ChunkOptions for ChunkKind<'_> {
    fn row(&self) -> &Problem {
        &self.row
    }

    fn laid(&self) -> &VirtualStages {
        self.of
    }

    fn beside_ns(&self) -> Option<u64> {
        self.again.map(|again| again.backward_ns)
    }

    fn blocks(&self, item: usize) -> u64 {
        let layers = self.modes.items[item][self.mode.degree].iter();
        let blocks: BTreeSet<usize> = layers
            .flat_map(|item| &item.layers)
            .filter_map(|layer| layer.block)
            .collect();
        blocks.len() as u64
    }

    fn least_blocks(&self) -> u64 {
        self.again.map_or(0, |again| again.blocks)
    }

    fn passing_ns(&self, item: usize, places: [usize; 2]) -> [u64; 2] {
        let level = self.modes.level_between(&self.mode, places);
        let own = self.modes.transfers_of[item].iter();
        let own = own.map(|&t| &self.modes.transfers[t]);
        let passing = own.filter(|t| t.producer == item && t.consumers.contains(&(item + 1)));
        passing.fold([0; 2], |[forward, back], t| {
            let t = transfer_at(t, least_at(t, &self.mode, level));
            [forward + t.forward_ns, back + t.backward_ns + t.gradient_ns]
        })
    }

    fn once_ns(&self, item: usize) -> f64 {
        self.once_ns[item]
    }

    fn spare_bytes(&self) -> u64 {
        self.again.map_or(0, |again| again.saved_bytes)
    }

    fn spare_bytes_of_row(&self) -> u64 {
        let in_flight = self.of.in_flight.iter().flatten();
        let most = in_flight.map(|counts| counts.iter().sum::<u64>()).max();
        most.unwrap_or(0).saturating_mul(self.spare_bytes())
    }

    fn is_complete(&self) -> bool {
        (self.has_one_way || self.again.is_some()) && !self.modes.may_fill_host(self.mode.degree)
    }

    fn plan(&self, assignment: Assignment) -> Option<Allocation> {
        let mut members = vec![Vec::new(); self.of.chunks()];
        for (item, &chunk) in assignment.iter().enumerate() {
            members[chunk].push(item);
        }
        let layers = self
            .modes
            .items
            .iter()
            .flatten()
            .flatten()
            .flat_map(|item| &item.layers);
        let last = layers.map(|layer| layer.layer + 1).max().unwrap_or(0);
        let mut chosen = Chosen {
            stages: vec![self.mode; self.of.chunks()],
            layers: vec![0; last],
            virtual_stages: self.of.chunks() / self.of.devices,
        };
        self.choose(&members, &mut chosen)?;
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(assignment)
        })
    }
}

/// Where nothing is asked of memory.
const ENDLESS: Memory = Memory {
    bytes: u64::MAX,
    host_bytes: u64::MAX,
};

/// A layer whose every way holds the stashes of so many micro-batches as one.
fn with_stashes(layer: &LayerWays, in_flight: u64) -> LayerWays {
    let mut layer = layer.clone();
    for way in &mut layer.ways {
        way.stash_bytes *= in_flight;
        way.host_bytes *= in_flight;
    }
    layer
}
