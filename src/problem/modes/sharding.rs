//! Gradients and weights that the replicas of a stage share out: what is whole on a device while a layer runs, and what moves in every pass.

use std::collections::BTreeSet;

use super::Modes;
use crate::model::cluster::Link;
use crate::model::network::{Layer, LayerMode};
use crate::model::settings::Settings;

/// Expert degrees, each with the replicas that go with it where these exchange something in every micro-batch.
pub(super) fn groups(
    experts: &BTreeSet<usize>,
    replicas: &[usize],
    settings: &Settings,
) -> Vec<(usize, Option<usize>)> {
    let of_expert = |&expert: &usize| -> Vec<(usize, Option<usize>)> {
        if !settings.optimizer_sharding.exchanges_each_time() {
            return vec![(expert, None)];
        }
        let able = replicas.iter().filter(|replicas| replicas.is_multiple_of(expert));
        able.map(|&replicas| (expert, Some(replicas))).collect()
    };
    experts.iter().flat_map(of_expert).collect()
}

impl Modes {
    /// Bytes of gradients of a layer in a mode: those of all replicas, and those of all experts that they share out.
    pub(super) fn gradients_of(&self, layer: &Layer, mode: &LayerMode, degree: usize) -> [u64; 2] {
        let of_experts = match (self.degrees[degree].expert, layer.frozen) {
            (1, _) | (_, true) => 0,
            _ => mode.experts.map_or(0, |experts| experts.parameter_bytes),
        };
        [mode.gradient_bytes - of_experts, of_experts]
    }

    /// What replicas exchange of a layer in a mode in a forward and in a backward pass, in ticks: they gather its weights in each, and scatter its gradients
    /// behind the latter, as far as they share these out.
    pub(super) fn exchanged_a_pass(
        &self,
        (settings, layer): (&Settings, &Layer),
        mode: &LayerMode,
        degree: usize,
    ) -> [u64; 2] {
        let Some(replicas) = self.degrees[degree].sharers.filter(|_| self.synchronizes) else {
            return [0; 2];
        };
        let experts = self.degrees[degree].expert;
        let [all, of_experts] = self.gradients_of(layer, mode, degree);
        let around = |bytes: f64, members: usize| bytes * (members - 1) as f64 / members as f64;
        let bytes =
            around(all as f64, replicas) + around(of_experts as f64 / experts as f64, replicas / experts);
        let link = Link {
            latency_ns: 0,
            ..self.links.link(
                self.links
                    .level_of_group(self.degrees[degree].row, mode.tensor * replicas),
            )
        };
        let once = self.moving(bytes, link);
        settings
            .optimizer_sharding
            .rounds_a_pass()
            .map(|rounds| rounds * once)
    }

    /// Bytes that a device has room for while a layer runs in a mode, as its replica has all of what it shares out with others.
    pub(super) fn whole_bytes(
        &self,
        (settings, layer): (&Settings, &Layer),
        mode: &LayerMode,
        degree: usize,
    ) -> u64 {
        if self.degrees[degree].sharers.is_none_or(|replicas| replicas == 1) || layer.frozen {
            return 0;
        }
        let whole = settings.gathered_bytes(mode.parameter_bytes);
        let of_experts = mode
            .experts
            .map_or(0, |experts| settings.gathered_bytes(experts.parameter_bytes));
        whole - of_experts + of_experts.div_ceil(self.degrees[degree].expert as u64)
    }
}
