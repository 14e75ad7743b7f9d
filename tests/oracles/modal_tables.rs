//! Tables that layers of stages in modes share, for brute force over [modes](super::modes).

use stagecut::options::Mode;

use super::modes::{Run, Search};

impl Search<'_> {
    /// Pairs of layers that share a table.
    fn sharing(&self) -> Vec<[usize; 2]> {
        let layers = &self.instance.network.layers;
        let all = (0..layers.len()).flat_map(|one| (one + 1..layers.len()).map(move |other| [one, other]));
        all.filter(|[one, other]| {
            layers[*one].shared.is_some() && layers[*one].shared == layers[*other].shared
        })
        .collect()
    }

    /// Layers of which some other in a stage has the same table.
    pub(super) fn tables_twice(&self, layers: &[usize]) -> Vec<usize> {
        let both = self.sharing().into_iter();
        let both = both.filter(|pair| pair.iter().all(|layer| layers.contains(layer)));
        let trained = both.filter(|[one, _]| !self.instance.network.layers[*one].frozen);
        trained.map(|[one, _]| one).collect()
    }

    /// What layers of a stage that share tables count twice: bytes kept, bytes of gradients, and bytes that replicas share out.
    pub(super) fn counted_twice(&self, layers: &[usize], run: Run) -> [f64; 3] {
        let mut twice = [0.0; 3];
        for [one, other] in self.sharing() {
            if !layers.contains(&one) || !layers.contains(&other) {
                continue;
            }
            let bytes = self.modes(one, run)[0].shared_bytes as f64;
            if self.instance.network.layers[one].frozen {
                twice[0] += bytes;
                continue;
            }
            let [own, shared] = self.held_per_byte(run).map(|per| bytes * per);
            twice[0] += own;
            twice[1] += bytes;
            twice[2] += shared;
        }
        twice
    }

    /// What the gradients of copies take to be summed with those of other stages, once an iteration, in ns.
    pub(super) fn sums_ns(&self, stage: usize, runs: &[Run]) -> f64 {
        let mut sum = 0.0;
        for layers in self.sharing() {
            let [one, other] = layers.map(|layer| self.back_of[layer]);
            let Some(own) = layers.into_iter().find(|&layer| self.back_of[layer] == stage) else {
                continue;
            };
            let bytes = self.modes(own, runs[stage])[0].shared_bytes as f64;
            let is_free = one == other
                || bytes == 0.0
                || self.instance.network.layers[own].frozen
                || self.settings.mode == Mode::Inference
                || !self.settings.communication.takes_time();
            if !is_free {
                let link = self.link(runs[one.min(other)].last(), runs[one.max(other)].start);
                sum += bytes / link.bandwidth_bytes_per_s * 1e9 + 2.0 * link.latency_ns as f64;
            }
        }
        sum
    }
}
