//! Chunks whose stages are alike in a mode but for the kind of device: a replica of all of them is a row of single devices of its own.

use std::collections::BTreeSet;

use super::super::kinds::{least_at, least_works_in, of_least, ring_levels, transfer_at};
use super::super::sums::{self, Again, KnownSums, Saved, kept_bytes, least};
use super::options::{ChunkOptions, ItemWay};
use super::seats::Seats;
use super::ways::Held;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modal_chunks::ModalChunks;
use crate::problem::modes::{Chosen, LayerWays, Memory, ModalItem, Modes, StageMode};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// Plans with so many chunks for each device, whose modes are known.
pub(in crate::exact) struct ChunkKind<'a> {
    modes: &'a Modes,
    seats: Seats,
    /// Of these, those that differ.
    list: Vec<StageMode>,
    of: &'a VirtualStages,
    row: Problem,
    /// Where several modes are known, the row of each.
    rows: Vec<Problem>,
    /// The number of the first device of every place, where it is known.
    starts: Vec<usize>,
    /// What each chunk computes again, where as many blocks of each do.
    again: Option<ChunksAgain>,
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
    seats: Seats,
    again: Option<ChunksAgain>,
    bound_ns: u64,
}

/// What the first blocks of each chunk take and save that compute all again.
#[derive(Clone)]
struct ChunksAgain {
    /// How many these are.
    blocks: u64,
    of_chunks: Vec<Saved>,
}

impl<'a> ChunkFamily<'a> {
    /// All of a way to compute again, but for those that some item has no mode of, or that have too few blocks.
    pub(in crate::exact) fn all(problem: &'a Problem, modes: &'a Modes) -> Vec<Self> {
        let mut known = KnownSums::new(modes);
        let is_row = super::is_row(problem);
        let mut family = |chunks: &'a ModalChunks, seats: Seats| {
            let settings = &chunks.settings;
            if modes.most_stages().is_some_and(|most| most < settings.chunks()) {
                return None;
            }
            let list = seats.modes();
            let sums = known.of(list.iter().map(|mode| mode.degree).collect())?;
            let is_full = is_row && (settings.all_stages || sums.again.is_some());
            let each_ns = |mode: &StageMode| match is_full {
                true => least_chunk_ns(modes, mode.degree, sums.again.as_ref()),
                false => 0,
            };
            let again = sums.again.as_ref().map(|again| ChunksAgain {
                blocks: again.blocks,
                of_chunks: again.of_chunks(settings.chunks(), is_row),
            });
            let saved = again.as_ref().map_or(&[][..], |again| &again.of_chunks);
            let bounds_ns = list
                .iter()
                .map(|mode| sums.of_chunks_ns(modes, mode, (settings, each_ns(mode)), saved));
            let bound_ns = bounds_ns.min()?;
            Some(Self {
                problem,
                modes,
                chunks,
                seats,
                again,
                bound_ns,
            })
        };
        let of_seats = |chunks: &'a ModalChunks| {
            Seats::all(modes, chunks)
                .into_iter()
                .map(move |seats| (chunks, seats))
        };
        let all = problem.modal_chunks.iter().flat_map(of_seats);
        all.filter_map(|(chunks, seats)| family(chunks, seats)).collect()
    }

    /// No plan takes less, in ns, as far as that is seen at once; `u64::MAX` where there is none.
    pub(in crate::exact) fn bound_ns(&self) -> u64 {
        self.bound_ns
    }

    /// Its plans; `None` where the schedule has no order for them.
    pub(in crate::exact) fn laid(&self) -> Option<ChunkKind<'a>> {
        let (modes, of, list) = (self.modes, self.chunks.laid()?, self.seats.modes());
        let row = self.problem.of_replica(list[0].replicas, of.chunks());
        let row = of_least(row, modes, &list)?.in_chunks(&self.chunks.settings, of);
        let row = self.row_of((row, of), &list);
        let are_apart = list.len() > 1 && matches!(self.seats, Seats::Known(_));
        let alone = list.iter().filter(|_| are_apart);
        let rows = alone
            .map(|mode| self.row_of((row.clone(), of), &[*mode]))
            .collect();
        let items = || {
            list.iter().flat_map(|mode| {
                modes
                    .items
                    .iter()
                    .filter_map(|degrees| degrees[mode.degree].as_ref())
            })
        };
        let layers = items().flat_map(|item| &item.layers);
        let mut ways = layers.map(|layer| layer.ways.len());
        let starts = match &self.seats {
            Seats::Known(seats) => modes.starts_in_turn(seats),
            Seats::Any(_) => Vec::new(),
        };
        Some(ChunkKind {
            modes,
            of,
            has_one_way: ways.all(|ways| ways == 1),
            once_ns: (0..row.items.len())
                .map(|item| once_ns(modes, &list, item))
                .collect(),
            again: self.again.clone(),
            seats: self.seats.clone(),
            list,
            row,
            rows,
            starts,
        })
    }

    /// A row with what chunks of some modes take and hold at least; items that these cannot run lie in none, and stay what they are.
    fn row_of(&self, (mut row, of): (Problem, &VirtualStages), list: &[StageMode]) -> Problem {
        let modes = self.modes;
        for (item, of_degrees) in row.items.iter_mut().zip(modes.items.iter()) {
            let Some([forward_ns, backward_ns]) = least_works_in(of_degrees, list) else {
                continue;
            };
            (item.forward_ns, item.backward_ns) = (forward_ns, backward_ns);
            let least_of = |of: &dyn Fn(&StageMode, &ModalItem) -> u64| {
                let all = list.iter();
                let all = all.filter_map(|mode| Some(of(mode, of_degrees[mode.degree].as_ref()?)));
                all.min().unwrap_or(0)
            };
            item.base_bytes = least_of(&|mode, own| {
                let copies = modes.copies_of_weights(mode) as u64;
                least(own, |way| way.held_bytes) + own.shared_bytes / copies
            });
            // Each part is the least of any, and so are both together.
            let back_ns = least_of(&|_, own| least(own, |way| way.passes()[1] - way.weight));
            let weight_ns = least_of(&|_, own| least(own, |way| way.weight));
            item.weight_ns = weight_ns.min(item.backward_ns - back_ns);
            item.backward_ns = back_ns + item.weight_ns;
            item.parameter_bytes = least_of(&|_, own| own.once_bytes[0]);
            item.stash_bytes = least_of(&|_, own| match &self.again {
                Some(_) => kept_bytes(own),
                None => least(own, |way| way.stash_bytes),
            });
        }
        let most_bytes = list.iter().map(|mode| modes.memory_bytes(mode.degree)).max();
        let spare_bytes = spare_bytes_of_row(of, self.again.as_ref());
        row.settings.memory_limit = most_bytes
            .filter(|&bytes| bytes < u64::MAX)
            .map(|limit| limit.saturating_add(spare_bytes));
        row
    }
}

/// What a chunk that holds no end of a row takes of a micro-batch at least, as far as nobody waits for gradients of weights, in ns.
fn least_chunk_ns(modes: &Modes, degree: usize, again: Option<&Again>) -> u64 {
    let inner = modes.items.len().saturating_sub(1);
    let items = modes.items.iter().take(inner).skip(1);
    let passes_ns = |item: &ModalItem| {
        let has_weights = item
            .layers
            .iter()
            .flat_map(|layer| &layer.ways)
            .any(|way| way.weight > 0);
        match has_weights {
            // Its last operation may be one of these.
            true => least(item, |way| way.passes()[0]),
            false => least(item, |way| way.passes().iter().sum()),
        }
    };
    let known = items.filter_map(|degrees| degrees[degree].as_ref());
    let least_ns = match again {
        None => known.map(passes_ns).min(),
        Some(again) => {
            let each = known.filter_map(|item| passes_ns(item).checked_div(blocks_of(item)));
            each.min().map(|ns| ns.saturating_mul(again.blocks))
        }
    };
    least_ns.unwrap_or(0)
}

/// Blocks that an item holds a layer of.
fn blocks_of(item: &ModalItem) -> u64 {
    let blocks: BTreeSet<usize> = item.layers.iter().filter_map(|layer| layer.block).collect();
    blocks.len() as u64
}

/// What a chunk of some modes takes for an item once an iteration at least, in ns.
fn once_ns(modes: &Modes, list: &[StageMode], item: usize) -> f64 {
    let of_mode = |mode: &StageMode| {
        let levels = ring_levels(modes, mode, list.len() == 1);
        let own = modes.items[item][mode.degree].as_ref();
        own.map_or(0.0, |own| modes.least_once_ns(own.once_bytes, mode, levels))
    };
    list.iter().map(of_mode).fold(f64::INFINITY, f64::min)
}

/// How much of what devices may hold beside their items a row's limit of memory has already.
fn spare_bytes_of_row(of: &VirtualStages, again: Option<&ChunksAgain>) -> u64 {
    let Some(again) = again else { return 0 };
    let of_device = |(chunks, moments): (&Vec<usize>, &Vec<Vec<u64>>)| {
        let saved_bytes = |counts: &Vec<u64>| -> u64 {
            let both = chunks.iter().zip(counts);
            both.map(|(&chunk, &count)| count.saturating_mul(again.of_chunks[chunk].bytes))
                .fold(0, u64::saturating_add)
        };
        moments.iter().map(saved_bytes).max().unwrap_or(0)
    };
    let devices = of.chunks_of.iter().zip(&of.in_flight);
    devices.map(of_device).max().unwrap_or(0)
}

impl ChunkKind<'_> {
    /// The mode of a device of the row; of some, where it is not known.
    fn mode_on(&self, device: usize) -> &StageMode {
        match &self.seats {
            Seats::Known(seats) => &seats[device],
            Seats::Any(_) => &self.list[0],
        }
    }

    fn mode_of(&self, chunk: usize) -> &StageMode {
        self.mode_on(self.of.device_of[chunk])
    }

    /// The items of every chunk.
    fn members(&self, assignment: &Assignment) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.of.chunks()];
        for (item, &chunk) in assignment.iter().enumerate() {
            members[chunk].push(item);
        }
        members
    }

    /// What chunks are, before it is said how their layers run; `None` where nobody knows which device is which.
    fn in_no_ways(&self) -> Option<Chosen> {
        let Seats::Known(seats) = &self.seats else {
            return None;
        };
        let items = self.modes.items.iter().flatten().flatten();
        let layers = items.flat_map(|item| &item.layers);
        let last = layers.map(|layer| layer.layer + 1).max().unwrap_or(0);
        Some(Chosen {
            stages: self.of.device_of.iter().map(|&device| seats[device]).collect(),
            layers: vec![0; last],
            virtual_stages: self.of.chunks() / self.of.devices,
        })
    }

    /// Ways of the layers of all chunks; `None` where they do not fit memory, as far as that is asked here.
    fn choose(&self, members: &[Vec<usize>], chosen: &mut Chosen) -> Option<()> {
        if self.has_one_way || self.again.is_some() {
            for (chunk, items) in members.iter().enumerate() {
                let layers = self.modes.layers_of(items, self.mode_of(chunk).degree)?;
                let ways = self.modes.knapsack.within(&layers, 0, ENDLESS)?.ways;
                Modes::note_ways(&layers, &ways, &mut chosen.layers);
            }
            return Some(());
        }
        for device in 0..self.of.devices {
            let held = Held::of(self.modes, (self.of, device), (self.mode_on(device), members))?;
            Modes::note_ways(&held.layers, &held.ways(), &mut chosen.layers);
        }
        Some(())
    }
}

impl ChunkOptions for ChunkKind<'_> {
    fn row(&self) -> &Problem {
        &self.row
    }

    fn row_on(&self, device: usize) -> &Problem {
        let at = self.list.iter().position(|mode| mode == self.mode_on(device));
        at.and_then(|at| self.rows.get(at)).unwrap_or(&self.row)
    }

    fn ways(&self, item: usize) -> Vec<ItemWay> {
        let [mode] = self.list[..] else {
            return Vec::new();
        };
        let own = self.modes.items[item][mode.degree].as_ref();
        let copies = self.modes.copies_of_weights(&mode) as u64;
        let of = |own: &ModalItem| {
            let shared_bytes = own.shared_bytes / copies;
            let way = |([forward, input, weight, held, stash], _): sums::ItemWay| ItemWay {
                passes_ns: [forward, input, weight],
                bytes: [held + shared_bytes, stash],
            };
            sums::ways(own).into_iter().map(way).collect()
        };
        let tells = !self.has_one_way && self.again.is_none();
        own.filter(|_| tells).map_or_else(Vec::new, of)
    }

    fn laid(&self) -> &VirtualStages {
        self.of
    }

    fn again_ns(&self, chunk: usize) -> Option<u64> {
        let again = self.again.as_ref()?;
        Some(again.of_chunks[chunk].backward_ns)
    }

    fn blocks(&self, item: usize) -> u64 {
        let own = self.modes.items[item][self.list[0].degree].as_ref();
        own.map_or(0, blocks_of)
    }

    fn least_blocks(&self) -> u64 {
        self.again.as_ref().map_or(0, |again| again.blocks)
    }

    fn passing_ns(&self, item: usize, places: [usize; 2]) -> [u64; 2] {
        let [first, last] = [places[0].min(places[1]), places[0].max(places[1])];
        let (Some(start), Some(&next)) = (self.starts.get(first), self.starts.get(last)) else {
            return [0; 2];
        };
        let end = start + self.modes.devices_of(self.mode_on(first)) - 1;
        let level = self.modes.links.level(end, next);
        let own = self.modes.transfers_of[item].iter();
        let own = own.map(|&t| &self.modes.transfers[t]);
        let passing = own.filter(|t| t.producer == item && t.consumers.contains(&(item + 1)));
        passing.fold([0; 2], |[forward, back], t| {
            let ns = self.list.iter().map(|mode| least_at(t, mode, level)).min();
            let t = transfer_at(t, ns.unwrap_or(0));
            [forward + t.forward_ns, back + t.backward_ns + t.gradient_ns]
        })
    }

    fn workspace_bytes(&self, item: usize) -> u64 {
        let of_layer = |layer: &LayerWays| layer.ways.iter().map(|way| way.workspace_bytes).min();
        let of_item = |own: &ModalItem| own.layers.iter().filter_map(of_layer).max();
        let modes = self.list.iter();
        let known = modes.filter_map(|mode| of_item(self.modes.items[item][mode.degree].as_ref()?));
        known.min().unwrap_or(0)
    }

    fn once_ns(&self, item: usize) -> f64 {
        self.once_ns[item]
    }

    fn most_ns(&self) -> u64 {
        // Of what is done once a micro-batch bears its part, and there are as many times more of them.
        self.modes.longest().saturating_mul(self.list[0].replicas as u64)
    }

    fn spare_bytes(&self, chunk: usize) -> u64 {
        self.again
            .as_ref()
            .map_or(0, |again| again.of_chunks[chunk].bytes)
    }

    fn spare_bytes_of_row(&self) -> u64 {
        spare_bytes_of_row(self.of, self.again.as_ref())
    }

    fn is_complete(&self) -> bool {
        (self.has_one_way || self.again.is_some())
            && !self.list.iter().any(|mode| self.modes.may_fill_host(mode.degree))
            && matches!(self.seats, Seats::Known(_))
    }

    fn may_fit_otherwise(&self) -> bool {
        let of_modes = |item: &Vec<Option<ModalItem>>| {
            let modes = self.list.iter();
            let mut known = modes.filter_map(|mode| item[mode.degree].as_ref());
            known.any(sums::leaves_out_smaller)
        };
        !self.has_one_way && self.again.is_none() && self.modes.items.iter().any(of_modes)
    }

    fn plan(&self, assignment: Assignment) -> Option<Allocation> {
        let mut chosen = self.in_no_ways()?;
        self.choose(&self.members(&assignment), &mut chosen)?;
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(assignment)
        })
    }

    fn plan_in(&self, assignment: &Assignment, ways: &[usize], is_near: bool) -> Option<Allocation> {
        if self.has_one_way || self.again.is_some() {
            return self.plan(assignment.clone());
        }
        let ([mode], mut chosen) = (&self.list[..], self.in_no_ways()?) else {
            return None;
        };
        let mut way_of = vec![0; chosen.layers.len()];
        for (item, &way) in ways.iter().enumerate() {
            let own = self.modes.items[item][mode.degree].as_ref()?;
            let (_, ways) = sums::ways(own).into_iter().nth(way)?;
            if ways.len() < own.layers.len() {
                return None;
            }
            let each = own.layers.iter().zip(ways);
            each.for_each(|(layer, way)| way_of[layer.layer] = way);
        }
        let members = self.members(assignment);
        for device in 0..self.of.devices {
            let held = Held::of(self.modes, (self.of, device), (mode, &members))?;
            let mut ways: Vec<usize> = held.layers.iter().map(|layer| way_of[layer.layer]).collect();
            if is_near {
                ways = held.faster(ways);
            }
            Modes::note_ways(&held.layers, &ways, &mut chosen.layers);
        }
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(assignment.clone())
        })
    }
}

/// Where nothing is asked of memory.
const ENDLESS: Memory = Memory {
    bytes: u64::MAX,
    host_bytes: u64::MAX,
};
