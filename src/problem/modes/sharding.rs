//! Gradients and weights that devices with the same weights share out: what is whole on a device while a layer runs, and what moves in every pass.

use std::collections::BTreeSet;

use super::Modes;
use crate::model::cluster::Link;
use crate::model::network::{Layer, LayerMode};
use crate::model::settings::Settings;

/// Expert degrees where so many devices of a replica have the same weights, each with the replicas that go with it where these exchange something in every micro-batch.
pub(super) fn groups(
    (experts, own): (&BTreeSet<usize>, usize),
    replicas: &[usize],
    settings: &Settings,
) -> impl Iterator<Item = (usize, Option<usize>)> {
    let each_time = settings.optimizer_sharding.exchanges_each_time();
    experts.iter().flat_map(move |&expert| {
        let able = replicas
            .iter()
            .filter(move |&&replicas| each_time && (replicas * own).is_multiple_of(expert));
        let alone = (!each_time).then_some((expert, None));
        alone
            .into_iter()
            .chain(able.map(move |&replicas| (expert, Some(replicas))))
    })
}

impl Modes {
    /// Bytes of gradients of a layer in a mode: those of all devices of a rank, and those of all experts that they share out.
    pub(super) fn gradients_of(&self, layer: &Layer, mode: &LayerMode, degree: usize) -> [u64; 2] {
        let of_experts = match (self.degrees[degree].expert, layer.frozen) {
            (1, _) | (_, true) => 0,
            _ => mode.experts.map_or(0, |experts| experts.parameter_bytes),
        };
        [mode.gradient_bytes - of_experts, of_experts]
    }

    /// What devices with the same weights exchange of a layer in a mode in a forward and in a backward pass, in ticks: they gather its weights in each, and
    /// scatter its gradients behind the latter, as far as they share these out.
    pub(super) fn exchanged_a_pass(
        &self,
        (settings, layer): (&Settings, &Layer),
        mode: &LayerMode,
        degree: usize,
    ) -> [u64; 2] {
        let Some(members) = self.sharers(degree).filter(|_| self.synchronizes) else {
            return [0; 2];
        };
        let experts = self.degrees[degree].expert;
        let [all, of_experts] = self.gradients_of(layer, mode, degree);
        let around = |bytes: f64, members: usize| bytes * (members - 1) as f64 / members as f64;
        let bytes =
            around(all as f64, members) + around(of_experts as f64 / experts as f64, members / experts);
        let link = Link {
            latency_ns: 0,
            ..self.links.link(
                self.links
                    .level_of_group(self.degrees[degree].row, mode.tensor * members),
            )
        };
        let once = self.moving(bytes, link);
        settings
            .optimizer_sharding
            .rounds_a_pass()
            .map(|rounds| rounds * once)
    }

    /// The devices that share out weights or gradients of a layer and exchange them in every micro-batch; `None` where nothing is.
    pub(super) fn sharers(&self, degree: usize) -> Option<usize> {
        let of = &self.degrees[degree];
        of.sharers.map(|replicas| replicas * of.parts())
    }

    /// Bytes that a device has room for while a layer runs in a mode, as it has all of what it shares out with others.
    pub(super) fn whole_bytes(
        &self,
        (settings, layer): (&Settings, &Layer),
        mode: &LayerMode,
        degree: usize,
    ) -> u64 {
        if self.sharers(degree).is_none_or(|members| members == 1) || layer.frozen {
            return 0;
        }
        let whole = settings.gathered_bytes(mode.parameter_bytes);
        let of_experts = mode
            .experts
            .map_or(0, |experts| settings.gathered_bytes(experts.parameter_bytes));
        whole - of_experts + of_experts.div_ceil(self.degrees[degree].expert as u64)
    }
}
