//! Experts that the devices of a stage share out: what each holds, what tokens take to go there, and who has the same ones.

use std::collections::BTreeSet;

use super::{Modes, OnceBytes, StageMode, at_rate};
use crate::model::cluster::Link;
use crate::model::network::{Layer, LayerMode, Network};
use crate::model::settings::Settings;

/// Degrees of expert parallelism that are asked for and share out the experts of some layer evenly, ascending.
pub(super) fn degrees_of(network: &Network, settings: &Settings) -> BTreeSet<usize> {
    let modes = network.layers.iter().flat_map(|layer| layer.modes().into_owned());
    let counts: BTreeSet<usize> = modes
        .filter_map(|mode| mode.experts)
        .map(|experts| experts.count)
        .collect();
    let most = counts.last().copied().unwrap_or(1);
    let shares_out = |degree: &usize| counts.iter().any(|count| count.is_multiple_of(*degree));
    (1..=most)
        .filter(|&degree| settings.expert.allows(degree))
        .filter(|degree| *degree == 1 || shares_out(degree))
        .collect()
}

impl Modes {
    /// Whether the devices of so many replicas can share out experts at a degree, as many of which have each, and are those that go with it.
    pub(crate) fn shares_out(&self, degree: usize, replicas: usize) -> bool {
        let copies = replicas * self.degrees[degree].parts();
        copies.is_multiple_of(self.degrees[degree].expert)
            && self.degrees[degree]
                .sharers
                .is_none_or(|sharers| sharers == replicas)
    }

    /// Whether no tensor group of a stage that begins at a device spans nodes, nor a group that exchanges something in every pass and that a node has
    /// the devices for: of experts, of devices that share out more than states, or a sequence.
    pub(crate) fn groups_fit(&self, start: usize, mode: &StageMode) -> bool {
        let (tensor, experts) = (self.degrees[mode.degree].tensor, self.degrees[mode.degree].expert);
        let fits = |size: usize| {
            let groups = self.devices_of(mode) / size;
            self.links.groups_fit(start, size, groups)
        };
        let fits_if_inside = |size: usize| self.links.node.is_some_and(|node| size > node) || fits(size);
        let sharers = self.sharers(mode.degree).unwrap_or(1);
        fits(tensor)
            && fits_if_inside(tensor * experts)
            && fits_if_inside(tensor * sharers)
            && fits_if_inside(tensor * self.degrees[mode.degree].context)
    }

    /// What a device holds of a layer in a mode once, without what replicas share out of the state of the optimiser.
    pub(super) fn held_bytes(
        &self,
        settings: &Settings,
        layer: &Layer,
        mode: &LayerMode,
        degree: usize,
    ) -> u64 {
        let own = |bytes: u64| self.kept(settings, bytes, degree).own;
        let all = mode.resident_bytes + settings.room.bytes(mode.cache) + own(mode.parameter_bytes);
        match (mode.experts, self.degrees[degree].expert) {
            (None, _) | (_, 1) => all,
            (Some(experts), degree) => {
                let bytes = match layer.frozen {
                    true => experts.parameter_bytes,
                    false => own(experts.parameter_bytes),
                };
                all - bytes + bytes.div_ceil(degree as u64)
            }
        }
    }

    /// What a device moves for a layer in a mode and a micro-batch, in ticks: what its tensor group reduces, and tokens that go to experts and back.
    pub(super) fn reduced(&self, settings: &Settings, mode: &LayerMode, degree: usize) -> u64 {
        // A ring all-reduce sends each byte around twice, but for the device's own part.
        let around = 2.0 * (mode.tensor - 1) as f64 / mode.tensor as f64;
        let experts = self.degrees[degree].expert;
        let link = |level: usize| Link {
            latency_ns: 0,
            ..self.links.link(level)
        };
        let parts = self.degrees[degree].parts() as f64;
        let around = around / parts;
        let row = self.degrees[degree].row;
        let level = self.links.level_of_group(row, mode.tensor);
        let group = self.moving(around * mode.collective_bytes as f64, link(level));
        let routed_bytes = mode.experts.map_or(0, |experts| experts.routed_bytes) as f64;
        let elsewhere = (experts - 1) as f64 / experts as f64 * settings.expert_load;
        let level = self.links.level_of_group(row, mode.tensor * experts);
        group + self.moving(elsewhere * routed_bytes / parts, link(level))
    }

    /// What work of a layer takes where one device has more tokens for its experts than others.
    pub(crate) fn with_load(&self, settings: &Settings, mode: &LayerMode, degree: usize, ticks: u64) -> u64 {
        match mode
            .experts
            .filter(|_| self.degrees[degree].expert > 1 && settings.expert_load > 1.0)
        {
            None => ticks,
            Some(experts) => at_rate(ticks, 1.0 / (1.0 + (settings.expert_load - 1.0) * experts.share)),
        }
    }

    /// The rings on which a stage exchanges gradients: the bytes of each on a device, and its members.
    pub(super) fn rings(&self, once: OnceBytes, mode: &StageMode) -> impl Iterator<Item = (f64, usize)> {
        let (experts, copies) = (self.degrees[mode.degree].expert, self.copies_of_weights(mode));
        let [all, of_experts, _] = once.map(|bytes| bytes as f64);
        [(all, copies), (of_experts / experts as f64, copies / experts)]
            .into_iter()
            .filter(|_| self.synchronizes)
    }
}
