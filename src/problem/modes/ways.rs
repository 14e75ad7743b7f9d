//! Items at each degree, and the ways to run their layers.

use super::{Modes, OnceBytes, Part, Pass, Row};
use crate::model::cluster::{Host, Link};
use crate::model::instance::Instance;
use crate::model::network::{Layer, LayerMode};
use crate::model::recompute;
use crate::model::settings::Settings;

/// An item at a tensor degree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModalItem {
    /// Bytes that move once an iteration.
    pub once_bytes: OnceBytes,
    /// Bytes that the replicas of a stage share out among them.
    pub shared_bytes: u64,
    /// Its layers, and the ways to run each: at least one.
    pub layers: Vec<LayerWays>,
}

/// A layer and the ways to run it at a tensor degree.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWays {
    /// Position of the layer in the network.
    pub layer: usize,
    /// What of it this is.
    pub pass: Pass,
    /// The rank of its block, where the network is a stack of blocks.
    pub block: Option<usize>,
    /// The ways, the fastest first.
    pub ways: Vec<Way>,
}

/// A way to run a layer: the mode that it is, and what it costs a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Position among the layer's modes.
    pub mode: usize,
    /// The name of what it computes again.
    pub recompute: String,
    /// Forward time of a micro-batch.
    pub forward: u64,
    /// Backward time of a micro-batch.
    pub backward: u64,
    /// The part of it that is gradients of weights, where the schedule runs these apart; else 0.
    pub weight: u64,
    /// Time of what the tensor group reduces for a micro-batch.
    pub collective: u64,
    /// The part of it that is so in backward propagation, where there is any: half of the least that a way reduces, and what is reduced again.
    pub collective_back: u64,
    /// Bytes held once, without those that replicas share out.
    pub held_bytes: u64,
    /// Bytes for each micro-batch in flight.
    pub stash_bytes: u64,
    /// Bytes at the host for each micro-batch in flight.
    pub host_bytes: u64,
    /// Bytes needed while it runs.
    pub workspace_bytes: u64,
    /// Where devices run both phases at once, what its passes add to a stage at least; the times above are then those of a device that does nothing else.
    pub least: Option<[u64; 2]>,
}

impl Way {
    /// All its time for a micro-batch.
    pub fn time(&self) -> u64 {
        self.forward + self.backward + self.collective
    }

    /// Forward and backward work, with what the tensor group reduces.
    pub fn passes(&self) -> [u64; 2] {
        let back = self.collective_back;
        [self.forward + self.collective - back, self.backward + back]
    }
}

impl Modes {
    /// An item at a tensor degree.
    pub(super) fn item(
        &self,
        instance: &Instance,
        settings: &Settings,
        parts: &[Part],
        degree: usize,
    ) -> Option<ModalItem> {
        let mut item = ModalItem::default();
        for &part in parts {
            let layer = &instance.network.layers[part.layer];
            let own = self.part_ways((layer, part), settings, degree)?;
            let mode = own.ways[0].mode;
            item.layers.push(own);
            if part.pass == Pass::Forward {
                continue;
            }
            // Modes of a degree have the same weights.
            let weights = &layer.modes()[mode];
            let [all, of_experts] = self.gradients_of(layer, weights, degree);
            let states = self.states_at_host(settings, layer, weights, degree);
            let once = [all, of_experts, states];
            item.once_bytes = [0, 1, 2].map(|of| item.once_bytes[of] + once[of]);
            item.shared_bytes += self.kept(settings, weights.parameter_bytes, degree).shared;
        }
        Some(item)
    }

    /// A layer and all ways to run it at a degree; `None` where it has none, or its experts cannot be shared out so.
    pub(super) fn ways_of_layer(
        &self,
        (layer, at): (&Layer, usize),
        settings: &Settings,
        degree: usize,
    ) -> Option<LayerWays> {
        let ways = self.ways(layer, settings, degree);
        let experts = layer.modes()[ways.first()?.mode].experts;
        let shares_out =
            experts.is_none_or(|experts| experts.count.is_multiple_of(self.degrees[degree].expert));
        shares_out.then(|| LayerWays {
            layer: at,
            pass: Pass::Whole,
            block: self.blocks.get(at).copied().flatten(),
            ways,
        })
    }

    /// The ways to run a layer at a tensor degree, the fastest first: those of the names that are asked for, else those that keep
    /// everything.
    fn ways(&self, layer: &Layer, settings: &Settings, degree: usize) -> Vec<Way> {
        let modes = layer.modes();
        let tensor = self.degrees[degree].tensor;
        let of_degree = |mode: &&LayerMode| mode.tensor == tensor;
        let least = modes
            .iter()
            .filter(of_degree)
            .map(|mode| self.reduced(settings, mode, degree))
            .min();
        let is_asked = modes.iter().filter(of_degree).any(|mode| settings.may_run(mode));
        let is_allowed = |mode: &LayerMode| match is_asked {
            true => settings.may_run(mode),
            false => mode.recompute == recompute::NONE,
        };
        let of_degree = modes.iter().enumerate().filter(|(_, mode)| of_degree(mode));
        let allowed = of_degree.filter(|(_, mode)| is_allowed(mode));
        let mut ways: Vec<Way> = allowed
            .filter_map(|(at, mode)| self.way((settings, layer), (at, mode), (degree, least.unwrap_or(0))))
            .collect();
        ways.sort_by_key(|way| (way.time(), way.mode));
        ways
    }

    pub(super) fn way(
        &self,
        (settings, layer): (&Settings, &Layer),
        (at, mode): (usize, &LayerMode),
        (degree, least): (usize, u64),
    ) -> Option<Way> {
        let row = self.row(degree);
        let times = mode.times[row.kind]?;
        let [forward, backward] = [times.forward_ns, times.backward_ns].map(|ns| ns * self.ticks_per_ns);
        let trains = settings.mode.trains() && layer.returns;
        let reduced = self.reduced(settings, mode, degree);
        let [gathered, exchanged] = self.exchanged_a_pass((settings, layer), mode, degree);
        let [handed, handed_back] = self.handed_round(mode, (degree, trains));
        let longer = |ticks: u64| self.with_load(settings, mode, degree, ticks);
        let part = |bytes: u64| bytes.div_ceil(self.degrees[degree].context as u64);
        let copied = self.copied(row, part(mode.host_bytes));
        // What is held once holds the version of a micro-batch in flight too: of every one, there is always one.
        let version = self.version_bytes(settings, mode, degree);
        Some(Way {
            mode: at,
            recompute: mode.recompute.clone(),
            forward: longer(at_rate(
                forward,
                row.rates[0] * self.degrees[degree].parts() as f64,
            )) + copied,
            backward: if trains {
                longer(self.backward(degree, backward)) + copied
            } else {
                0
            },
            weight: if trains && settings.splits_backward() {
                longer(self.backward(degree, times.weight_ns * self.ticks_per_ns))
            } else {
                0
            },
            collective: reduced + gathered + exchanged + handed + handed_back,
            // What is computed again is reduced again in the backward pass.
            collective_back: if trains {
                reduced - (least - least / 2) + exchanged + handed_back
            } else {
                0
            },
            held_bytes: self.held_bytes(settings, layer, mode, degree) - version,
            stash_bytes: part(mode.stash_bytes) + version,
            host_bytes: part(mode.host_bytes),
            workspace_bytes: part(mode.workspace_bytes) + self.whole_bytes((settings, layer), mode, degree),
            least: None,
        })
    }

    /// Time to copy bytes to the host of a device of a row, or back: the device does nothing else meanwhile.
    pub(super) fn copied(&self, row: &Row, bytes: u64) -> u64 {
        let link = |host: Host| Link {
            bandwidth_bytes_per_s: host.bytes_per_s,
            latency_ns: 0,
        };
        row.host.map_or(0, |host| self.moving(bytes as f64, link(host)))
    }
}

/// What takes so many ticks at rate 1.
pub(super) fn at_rate(ticks: u64, rate: f64) -> u64 {
    match rate == 1.0 {
        true => ticks,
        false => (ticks as f64 / rate).round() as u64,
    }
}
