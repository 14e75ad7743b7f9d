//! What lies at the hosts of devices, for the brute force over modes: what layers keep for the backward pass, and states of the optimiser.

use stagecut::network::LayerMode;
use stagecut::options::{Mode, OptimizerOffload, OptimizerSharding};

use super::modes::{Run, Search};

impl Search<'_> {
    /// The same modes with what they keep at hosts, where some kind has one: it is copied there and back while nothing else runs, and on the device meanwhile.
    pub(super) fn offloaded(&self, layer: usize, modes: &[LayerMode]) -> Vec<LayerMode> {
        let network = &self.instance.network;
        let is_explicit = network.layers.iter().any(|layer| layer.backward);
        let mut kinds = self.instance.cluster.kinds.iter();
        let has_host = kinds.any(|kind| kind.host.is_some()) && self.settings.target.is_none();
        if !has_host || is_explicit || !super::is_behind_trained(network, layer) {
            return Vec::new();
        }
        let hosts = self.instance.cluster.kinds.iter().map(|kind| kind.host.is_some());
        let hosts: Vec<bool> = hosts.collect();
        let may = |mode: &&LayerMode| {
            let mut on = mode.times.iter().zip(&hosts);
            mode.stash_bytes > 0 && on.any(|(times, has_host)| times.is_some() && *has_host)
        };
        let keeping = modes.iter().filter(may);
        let handed = keeping.map(|mode| {
            let mut handed = mode.clone();
            handed.recompute = match mode.recompute.as_str() {
                "none" => "offload".into(),
                name => format!("{name}+offload"),
            };
            handed.host_bytes = std::mem::take(&mut handed.stash_bytes);
            handed.workspace_bytes += handed.host_bytes;
            handed
        });
        handed.collect()
    }

    /// What a device lays at its host of a layer for a micro-batch.
    pub(super) fn host_bytes(&self, mode: &LayerMode, run: Run) -> u64 {
        mode.host_bytes.div_ceil(run.context as u64)
    }

    /// What copying that takes in a forward and in a backward pass, in ns.
    pub(super) fn copied_ns(&self, mode: &LayerMode, run: Run) -> [f64; 2] {
        let Some(host) = self.instance.cluster.kinds[run.kind].host else {
            return [0.0; 2];
        };
        let once = self.host_bytes(mode, run) as f64 / host.bytes_per_s * 1e9;
        let once = if self.of_iterations { once.round() } else { once };
        [
            once,
            if self.settings.mode == Mode::Training {
                once
            } else {
                0.0
            },
        ]
    }

    /// Where the states of a stage may lie on a kind: whether at hosts.
    pub(super) fn places_of_states(&self, kind: usize) -> Vec<bool> {
        let has_host = self.instance.cluster.kinds[kind].host.is_some();
        let allowed = |at_host: &bool| match self.settings.optimizer_offload {
            OptimizerOffload::None => !at_host,
            OptimizerOffload::All => *at_host && has_host,
            OptimizerOffload::Choose => has_host || !at_host,
            other => unreachable!("{other:?}"),
        };
        [false, true].into_iter().filter(allowed).collect()
    }

    /// States of layers that lie at the host of each device of a stage, in bytes: not rounded where replicas share them out. Layers that share a table have
    /// one of it, in a stage that is not one of several chunks.
    pub(super) fn states_at_host(&self, layers: &[usize], run: Run, has_chunks: bool) -> f64 {
        if !run.at_host {
            return 0.0;
        }
        let [.., per] = self.per_byte();
        let is_shared = self.settings.optimizer_sharding != OptimizerSharding::None;
        let mut sum = 0.0;
        for &layer in layers {
            let mode = &self.modes(layer, run)[0];
            sum += mode.parameter_bytes as f64 * per;
            let trained = mode.experts.filter(|_| !is_shared && mode.parameter_bytes > 0);
            let of_experts = trained.map_or(0, |experts| experts.parameter_bytes) as f64 * per;
            sum -= of_experts - (of_experts / run.expert as f64).ceil();
        }
        if !has_chunks {
            let twice = self.tables_twice(layers).into_iter();
            sum -= twice
                .map(|layer| self.modes(layer, run)[0].shared_bytes as f64 * per)
                .sum::<f64>();
        }
        if is_shared { sum / run.copies() as f64 } else { sum }
    }

    /// What copying so many bytes of states there and back takes, once an iteration, in ns; whole ones each way where iterations are run.
    pub(super) fn copies_of_states_ns(&self, bytes: f64, run: Run) -> f64 {
        let host = self.instance.cluster.kinds[run.kind].host;
        let one_way = host.map_or(0.0, |host| bytes / host.bytes_per_s * 1e9);
        2.0 * if self.of_iterations {
            one_way.ceil()
        } else {
            one_way
        }
    }

    /// Whether so many bytes fit the host of a device of a stage, beside its states.
    pub(super) fn fits_host(&self, run: Run, bytes: u64, states: f64) -> bool {
        let host = self.instance.cluster.kinds[run.kind].host;
        let limit = host.and_then(|host| host.memory_bytes);
        limit.is_none_or(|limit| bytes as f64 + states.ceil() <= limit as f64)
    }
}
