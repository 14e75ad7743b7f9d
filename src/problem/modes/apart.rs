//! Layers whose passes are items of their own: what either pass is where they lie apart, and what moves between them.

use std::collections::BTreeMap;

use super::copies::ModalCopies;
use super::{ByLevel, Chosen, LEVELS, LayerWays, ModalStage, ModalTransfer, Modes, Part, Passes, Table, Way};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::recompute;
use crate::model::settings::Settings;
use crate::problem::tables::Copies;

/// What of a layer an item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All of it.
    Whole,
    /// Its forward pass.
    Forward,
    /// Its backward pass.
    Backward,
}

/// A layer whose passes are two items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApartLayer {
    /// Position of the layer in the network.
    pub layer: usize,
    /// The items of its forward and of its backward pass.
    pub items: [usize; 2],
    /// By degree, what it may be; `None` where it has no mode of it.
    pub degrees: Vec<Option<ApartWays>>,
}

/// What a layer may be at a degree, by where its passes lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApartWays {
    /// Both on one stage.
    pub together: LayerWays,
    /// Each by itself: in the one way that keeps everything; `None` where that is not asked for.
    pub alone: Option<[LayerWays; 2]>,
    /// What a micro-batch leaves for the backward pass where that is alone.
    pub stash_bytes: u64,
    /// Bytes of the weights that replicas of the forward pass alone share out.
    pub shared_bytes: u64,
    /// Bytes that a device sends to the backward pass of a micro-batch, or receives from the forward pass, where these lie apart.
    pub sent_bytes: u64,
    /// Bytes of weights that a device sends to the forward pass, or receives from the backward pass, after an update.
    pub weight_bytes: u64,
}

impl ApartLayer {
    /// What a micro-batch leaves for its backward pass on a stage of a degree that has that alone.
    fn stash_bytes(&self, degree: usize) -> u64 {
        self.degrees[degree].as_ref().map_or(0, |ways| ways.stash_bytes)
    }

    /// Whether that stage counts it for each micro-batch that it has in flight.
    fn counts_stash(&self, degree: usize) -> bool {
        let counted = self.degrees[degree].as_ref().and_then(ApartWays::counted_bytes);
        counted.is_some_and(|bytes| bytes > 0)
    }
}

impl ApartWays {
    /// Whatever it may be.
    pub(super) fn layers_mut(&mut self) -> impl Iterator<Item = &mut LayerWays> {
        [&mut self.together]
            .into_iter()
            .chain(self.alone.iter_mut().flatten())
    }

    /// What the backward pass counts for each micro-batch in flight where it is alone; `None` where it cannot be.
    fn counted_bytes(&self) -> Option<u64> {
        let [_, backward] = self.alone.as_ref()?;
        Some(backward.ways[0].stash_bytes)
    }

    /// At least what either pass adds to a stage, wherever the other one is: what searches add up.
    fn least(&self, pass: Pass) -> LayerWays {
        let together = &self.together;
        let ways = match pass {
            Pass::Whole => together.ways.clone(),
            Pass::Forward => vec![least_forward(&together.ways)],
            Pass::Backward => {
                let alone = self.counted_bytes().unwrap_or(u64::MAX);
                let of = |way: &Way| Way {
                    stash_bytes: way.stash_bytes.min(alone),
                    ..way.backward_alone()
                };
                let mut ways: Vec<Way> = together.ways.iter().map(of).collect();
                ways.sort_by_key(|way| (way.time(), way.mode));
                ways
            }
        };
        LayerWays {
            pass,
            ways,
            ..together.clone()
        }
    }
}

/// The forward pass of no way takes less.
fn least_forward(ways: &[Way]) -> Way {
    let least = |of: fn(&Way) -> u64| ways.iter().map(of).min().unwrap_or(0);
    Way {
        forward: least(|way| way.forward),
        collective: least(|way| way.collective - way.collective_back),
        workspace_bytes: least(|way| way.workspace_bytes),
        mode: ways[0].mode,
        recompute: recompute::NONE.into(),
        ..Way::default()
    }
}

impl Way {
    /// Its backward pass, which holds all that it does.
    fn backward_alone(&self) -> Self {
        Self {
            forward: 0,
            collective: self.collective_back,
            ..self.clone()
        }
    }

    /// Its forward pass away from the other one, with weights of so many bytes.
    fn forward_alone(&self, held_bytes: u64) -> Self {
        Self {
            backward: 0,
            weight: 0,
            collective: self.collective - self.collective_back,
            collective_back: 0,
            held_bytes,
            stash_bytes: 0,
            host_bytes: 0,
            ..self.clone()
        }
    }
}

impl Modes {
    /// Layers of which two items hold a pass each.
    pub(super) fn all_apart(
        &self,
        instance: &Instance,
        settings: &Settings,
        (items, copies): (&[Vec<Part>], &[Copies]),
    ) -> Vec<ApartLayer> {
        let is_beside = |layer: usize| copies.iter().any(|copy| copy.beside.contains(&layer));
        let mut items_of: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
        for (item, parts) in items.iter().enumerate() {
            for part in parts.iter().filter(|part| part.pass != Pass::Whole) {
                let own = items_of.entry(part.layer).or_insert([usize::MAX; 2]);
                own[usize::from(part.pass == Pass::Backward)] = item;
            }
        }
        let of = |(layer, items): (usize, [usize; 2])| {
            let degrees = 0..self.degrees.len();
            ApartLayer {
                layer,
                items,
                degrees: degrees
                    .map(|degree| self.apart_ways((instance, settings), (layer, degree), is_beside(layer)))
                    .collect(),
            }
        };
        items_of.into_iter().map(of).collect()
    }

    /// * `is_beside`: the forward pass lies beside a copy of its table, if it is alone.
    fn apart_ways(
        &self,
        (instance, settings): (&Instance, &Settings),
        (at, degree): (usize, usize),
        is_beside: bool,
    ) -> Option<ApartWays> {
        let layer = &instance.network.layers[at];
        let together = self.ways_of_layer((layer, at), settings, degree)?;
        let keeps_all = together
            .ways
            .iter()
            .find(|way| way.recompute == recompute::NONE)
            .cloned();
        let modes = layer.modes();
        let mode = &modes[keeps_all.as_ref().unwrap_or(&together.ways[0]).mode];
        let table_bytes = if is_beside { mode.shared_bytes } else { 0 };
        let weight_bytes = mode.weights_of(self.degrees[degree].expert);
        let is_shared = settings.shares_out_weights() && !layer.frozen;
        let held_bytes = match (layer.frozen, is_shared) {
            (true, _) => self.frozen_bytes(mode, degree) - table_bytes,
            (false, true) => 0,
            (false, false) => weight_bytes - table_bytes,
        };
        // The version of the weights that a micro-batch in flight keeps stays where it is.
        let version_bytes = self.version_bytes(settings, mode, degree);
        let sent_bytes = keeps_all
            .as_ref()
            .map_or(0, |way| way.stash_bytes - version_bytes);
        let stash_bytes = keeps_all.as_ref().map_or(0, |way| way.stash_bytes);
        let alone = keeps_all.map(|way| {
            let of = |pass: Pass, way: Way| LayerWays {
                pass,
                ways: vec![way],
                ..together.clone()
            };
            [
                of(Pass::Forward, way.forward_alone(held_bytes)),
                of(Pass::Backward, self.backward_alone(&way)),
            ]
        });
        Some(ApartWays {
            stash_bytes,
            alone,
            together,
            sent_bytes,
            shared_bytes: if is_shared {
                mode.parameter_bytes - table_bytes
            } else {
                0
            },
            weight_bytes: if layer.frozen {
                0
            } else {
                weight_bytes - table_bytes
            },
        })
    }

    /// The backward pass of a way where it is alone. How many micro-batches are between passes of which devices run both kinds at once is known
    /// of whole plans alone: there is one for each stage that either way has.
    fn backward_alone(&self, way: &Way) -> Way {
        let alone = way.backward_alone();
        match self.shares {
            Some(_) => Way {
                stash_bytes: 0,
                ..alone
            },
            None => alone,
        }
    }

    /// Bytes of the weights of a mode of a frozen layer on a device, of experts its part.
    fn frozen_bytes(&self, mode: &LayerMode, degree: usize) -> u64 {
        let of_experts = mode.experts.map_or(0, |experts| experts.parameter_bytes);
        mode.resident_bytes - of_experts + of_experts.div_ceil(self.degrees[degree].expert as u64)
    }

    /// What a part of a layer adds to a stage of a degree at least; `None` where the layer has no mode of it.
    pub(super) fn part_ways(
        &self,
        (layer, part): (&Layer, Part),
        settings: &Settings,
        degree: usize,
    ) -> Option<LayerWays> {
        match part.pass {
            Pass::Whole => self.ways_of_layer((layer, part.layer), settings, degree),
            pass => {
                let apart = self.apart_of(part.layer)?;
                Some(apart.degrees[degree].as_ref()?.least(pass))
            }
        }
    }

    /// Adds what moves between the passes of layers: what a micro-batch leaves for the backward pass, and weights after an update.
    pub(super) fn add_between_passes(&mut self) {
        let mut copies: BTreeMap<[usize; 2], Vec<Table>> = BTreeMap::new();
        let mut stashes = Vec::new();
        for apart in self.apart.iter() {
            let at_degrees = |of: &dyn Fn(usize) -> ByLevel| -> Vec<Vec<ByLevel>> {
                (0..self.degrees.len()).map(|degree| vec![of(degree)]).collect()
            };
            let stash = |degree: usize| {
                let bytes = apart.degrees[degree].as_ref().map_or(0, |ways| ways.sent_bytes);
                self.links.by_level(|link| self.moving(bytes as f64, link))
            };
            let [producer, consumer] = apart.items;
            stashes.push(ModalTransfer {
                producer,
                consumers: vec![consumer],
                ticks: [0; LEVELS],
                passes: Passes::Forward,
                leaving: at_degrees(&stash),
                entering: at_degrees(&stash),
            });
            let tables = copies
                .entry(apart.items)
                .or_insert_with(|| vec![Table::default(); self.degrees.len()]);
            for (table, ways) in tables.iter_mut().zip(&apart.degrees) {
                let bytes = ways.as_ref().map_or(0, |ways| ways.weight_bytes);
                let own = self.moved_weights(bytes);
                for level in 0..LEVELS {
                    table.sum_ticks[level] += own.sum_ticks[level];
                    table.sum_ns[level] += own.sum_ns[level];
                }
            }
        }
        stashes.into_iter().for_each(|stash| self.add_transfer(stash));
        let moves = |tables: &[Table]| tables.iter().any(|table| table.sum_ns != [0; LEVELS]);
        let copies = copies.into_iter().filter(|(_, tables)| moves(tables));
        self.copies
            .extend(copies.map(|(items, tables)| ModalCopies { items, tables }));
    }

    /// What it takes to move weights of so many bytes once an iteration, or for every micro-batch where nothing flushes.
    fn moved_weights(&self, bytes: u64) -> Table {
        let each = |level: usize| {
            let link = self.links.link(level);
            match bytes {
                0 => 0.0,
                bytes => bytes as f64 / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64,
            }
        };
        let shared = self.ticks_per_ns as f64 / self.micro_batches() as f64;
        Table {
            sum_ticks: std::array::from_fn(|level| (each(level).ceil() * shared).ceil() as u64),
            sum_ns: std::array::from_fn(|level| each(level).ceil() as u64),
            ..Table::default()
        }
    }

    /// The layer of an item's part that is a pass alone.
    fn apart_of(&self, layer: usize) -> Option<&ApartLayer> {
        let at = self.apart.binary_search_by_key(&layer, |apart| apart.layer);
        at.ok().map(|at| &self.apart[at])
    }

    /// Whether passes of some layer are items of their own.
    pub(crate) fn has_passes_apart(&self) -> bool {
        !self.apart.is_empty()
    }

    /// Whether what an item is depends on where another one lies that holds the other pass of a layer.
    pub(crate) fn has_other_pass(&self, item: usize) -> bool {
        self.apart.iter().any(|apart| apart.items.contains(&item))
    }

    /// Whether what a stage holds depends on where others lie: where memory is limited, and something is kept for a pass elsewhere.
    pub(crate) fn memory_is_joint(&self) -> bool {
        let keeps = |apart: &ApartLayer| (0..self.degrees.len()).any(|degree| apart.stash_bytes(degree) > 0);
        self.limits_memory() && self.apart.iter().any(keeps)
    }

    /// Every way in which some layer may run with both its passes on one stage.
    pub(crate) fn together(&self) -> impl Iterator<Item = &LayerWays> {
        let ways = self.apart.iter().flat_map(|apart| apart.degrees.iter().flatten());
        ways.map(|ways| &ways.together)
    }

    /// A part of a layer as it runs in a stage of these items: nothing where that is told by the other pass, which is there too. `None` where it
    /// cannot run so.
    pub(super) fn in_stage<'a>(
        &'a self,
        part: &'a LayerWays,
        items: &[usize],
        degree: usize,
    ) -> Option<Option<&'a LayerWays>> {
        if part.pass == Pass::Whole {
            return Some(Some(part));
        }
        let apart = self.apart_of(part.layer)?;
        let ways = apart.degrees[degree].as_ref()?;
        let is_here = |pass: usize| items.contains(&apart.items[pass]);
        match (part.pass, is_here(0) && is_here(1)) {
            (Pass::Forward, true) => Some(None),
            (_, true) => Some(Some(&ways.together)),
            (Pass::Forward, false) => Some(Some(&ways.alone.as_ref()?[0])),
            (_, false) => Some(Some(&ways.alone.as_ref()?[1])),
        }
    }

    /// Weights that the replicas of a stage of these items share out, of layers whose forward pass is there alone.
    pub(super) fn shared_alone(&self, items: &[usize], degree: usize) -> u64 {
        let is_alone = |apart: &&ApartLayer| {
            let [forward, backward] = apart.items.map(|item| items.contains(&item));
            forward && !backward
        };
        let shared = |apart: &ApartLayer| apart.degrees[degree].as_ref().map_or(0, |ways| ways.shared_bytes);
        self.apart.iter().filter(is_alone).map(shared).sum()
    }

    /// Adds what is kept for the micro-batches that are between passes that lie apart, beyond those that the stage of the backward pass has in flight.
    pub(super) fn add_away(&self, assignment: &[usize], chosen: &Chosen, costs: &mut [ModalStage]) {
        let replicas = chosen.stages.iter().map(|mode| mode.replicas);
        let mut behind: Vec<usize> = replicas
            .rev()
            .scan(0, |sum, replicas| {
                *sum += replicas;
                Some(*sum)
            })
            .collect();
        behind.reverse();
        for apart in self.apart.iter() {
            let [forward, backward] = apart.items.map(|item| assignment[item]);
            if forward == backward {
                continue;
            }
            let mode = chosen.stages[backward];
            let ways = [forward, backward].map(|stage| behind[stage]);
            let away = self.flight.between(mode.replicas, ways);
            let cost = &mut costs[backward];
            let counted = match apart.counts_stash(mode.degree) {
                true => cost.in_flight,
                false => 0,
            };
            cost.memory_bytes += (away - counted) * apart.stash_bytes(mode.degree);
        }
    }

    /// Notes how layers of a stage run. What its forward pass alone does is told by the stage of its backward pass.
    pub(crate) fn note_ways(layers: &[&LayerWays], ways: &[usize], chosen: &mut [usize]) {
        let both = layers.iter().zip(ways);
        for (layer, &way) in both.filter(|(layer, _)| layer.pass != Pass::Forward) {
            chosen[layer.layer] = layer.ways[way].mode;
        }
    }
}
