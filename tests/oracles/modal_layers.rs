//! What a layer takes and holds in a mode, on a device of a stage, for brute force over [modes](super::modes).

use stagecut::network::LayerMode;
use stagecut::options::{Mode, Optimizer, OptimizerSharding, Schedule, StatePrecision};

use super::modes::{Run, Search};

impl Search<'_> {
    /// The modes of a layer at the degree of a stage, on its devices, that the options allow.
    pub(super) fn modes(&self, layer: usize, run: Run) -> Vec<LayerMode> {
        let mut modes = self.instance.network.layers[layer].modes().into_owned();
        let tensor = run.tensor;
        modes.retain(|mode| mode.host_bytes == 0);
        modes.extend(self.offloaded(layer, &modes));
        modes.retain(|mode| {
            mode.experts
                .is_none_or(|experts| experts.count.is_multiple_of(run.expert))
        });
        let of_degree: Vec<LayerMode> = modes.into_iter().filter(|mode| mode.tensor == tensor).collect();
        let asked = |mode: &&LayerMode| self.settings.recompute.names(&mode.recompute);
        let mut allowed: Vec<LayerMode> = match of_degree.iter().any(|mode| asked(&mode)) {
            true => of_degree.iter().filter(asked).cloned().collect(),
            false => of_degree
                .into_iter()
                .filter(|mode| mode.recompute == "none")
                .collect(),
        };
        let may_lie =
            |mode: &LayerMode| mode.host_bytes == 0 || self.instance.cluster.kinds[run.kind].host.is_some();
        allowed.retain(|mode| mode.times[run.kind].is_some() && may_lie(mode));
        allowed
    }

    /// Forward and backward time of a layer in a mode, with what its group reduces, in ns: whole ones where iterations are run.
    pub(super) fn passes_of_mode(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let trains = self.settings.mode == Mode::Training;
        let counted = |ns: f64| if self.of_iterations { ns.round() } else { ns };
        let times = mode.times[run.kind].unwrap();
        let rates = self.rates(run.kind);
        let own = [times.forward_ns, if trains { times.backward_ns } else { 0 }];
        let longer = self.load(mode, run);
        let part = |pass: usize| own[pass] as f64 / (rates[pass] * run.parts() as f64);
        let copied = self.copied_ns(mode, run);
        let own = [0, 1].map(|pass| counted(counted(part(pass)) * longer) + copied[pass]);
        let [gathered, exchanged] = self.exchanged_ns(at, mode, run);
        let handed = self.handed_ns(at, mode, run);
        let (gathered, exchanged) = (gathered + handed[0], exchanged + handed[1]);
        let collective = self.reduced_ns(mode, run);
        // Half of the least that is reduced at the degree is so in forward propagation.
        let layer = &self.instance.network.layers[at];
        let of_degree = layer.modes().into_owned().into_iter();
        let of_degree = of_degree.filter(|other| other.tensor == mode.tensor);
        let least = of_degree
            .map(|mode| self.reduced_ns(&mode, run))
            .fold(f64::INFINITY, f64::min);
        let there = match self.of_iterations {
            true => least - (least / 2.0).floor(),
            false => least / 2.0,
        };
        // Where backward operators are layers of their own, a frozen layer is as any other.
        let is_explicit = self.instance.network.layers.iter().any(|layer| layer.backward);
        let returns = is_explicit || super::is_behind_trained(&self.instance.network, at);
        let back = if trains && returns {
            collective - there
        } else {
            0.0
        };
        [own[0] + collective - back + gathered, own[1] + back + exchanged]
    }

    /// What of the backward time of a layer in a mode is gradients of weights, in whole ns.
    pub(super) fn weight_of_mode(&self, mode: &LayerMode, run: Run) -> f64 {
        let ns = mode.times[run.kind].unwrap().weight_ns as f64;
        let part = (ns / (self.rates(run.kind)[1] * run.parts() as f64)).round();
        (part * self.load(mode, run)).round()
    }

    /// Time in ns, bytes kept, bytes of gradients and bytes that replicas share out of a layer in a mode.
    pub(super) fn of_mode(&self, (at, mode): (usize, &LayerMode), run: Run, in_flight: u64) -> [f64; 4] {
        let times = mode.times[run.kind].unwrap();
        let rates = self.rates(run.kind);
        let longer = self.load(mode, run);
        let parts = run.parts() as f64;
        let at_rate = |ns: u64, rate: f64| match self.of_iterations {
            true => ((ns as f64 / (rate * parts)).round() * longer).round(),
            false => ns as f64 / (rate * parts) * longer,
        };
        let trains = self.settings.mode == Mode::Training;
        let collective_ns = self.reduced_ns(mode, run);
        let backward_ns = if trains { times.backward_ns } else { 0 };
        let [own, shared] = self
            .held_per_byte(run)
            .map(|per| mode.parameter_bytes as f64 * per);
        let exchanged_ns = self.exchanged_ns(at, mode, run).iter().sum::<f64>()
            + self.handed_ns(at, mode, run).iter().sum::<f64>();
        let stash_bytes = mode.stash_bytes.div_ceil(run.context as u64);
        let room = self.settings.room;
        let cached = room.tokens * mode.cache.token_bytes + room.sequences * mode.cache.sequence_bytes;
        let once = mode.resident_bytes + cached;
        let kept = (once + in_flight * stash_bytes) as f64 + self.versions_bytes(mode, run, in_flight)
            - self.elsewhere(mode, run);
        [
            at_rate(times.forward_ns, rates[0])
                + at_rate(backward_ns, rates[1])
                + collective_ns
                + exchanged_ns
                + self.copied_ns(mode, run).iter().sum::<f64>(),
            kept + own,
            mode.gradient_bytes as f64,
            shared,
        ]
    }

    /// How much longer work takes where one device has more tokens for its experts than others.
    pub(super) fn load(&self, mode: &LayerMode, run: Run) -> f64 {
        let share = mode
            .experts
            .filter(|_| run.expert > 1)
            .map_or(0.0, |experts| experts.share);
        1.0 + (self.settings.expert_load - 1.0) * share
    }

    /// How fast a device of a kind runs forward and backward passes.
    pub(super) fn rates(&self, kind: usize) -> [f64; 2] {
        let resources = &self.instance.cluster.kinds[kind].resources;
        match resources.as_slice() {
            [] => [1.0; 2],
            all => [
                all.iter().map(|resource| resource.forward_rate).sum(),
                all.iter().map(|resource| resource.backward_rate).sum(),
            ],
        }
    }

    /// Bytes of a layer that are whole while it runs, beside its workspace.
    pub(super) fn workspace(&self, at: usize, mode: &LayerMode, run: Run) -> f64 {
        let own = (mode.workspace_bytes as f64 / run.context as f64).ceil();
        if run.copies() == 1 || self.instance.network.layers[at].frozen {
            return own;
        }
        let [weight, gradient, _] = self.per_byte();
        let per = match self.settings.optimizer_sharding {
            OptimizerSharding::Zero2 => gradient,
            OptimizerSharding::Zero3 => weight + gradient,
            _ => 0.0,
        };
        let of_experts = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64 * per;
        let elsewhere = of_experts - (of_experts / run.expert as f64).ceil();
        own + mode.parameter_bytes as f64 * per - elsewhere
    }

    /// Bytes that a parameter takes, of weight, of gradient and of the optimiser's state: per byte in the file.
    pub(super) fn per_byte(&self) -> [f64; 3] {
        let states = match self.settings.optimizer {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
            other => unreachable!("{other:?}"),
        };
        let stated = self.instance.network.precision;
        let size = |weight: f64| stated.map_or(weight, |precision| precision.bytes() as f64);
        match self.settings.precision {
            _ if self.settings.mode == Mode::Inference => [1.0, 0.0, 0.0],
            StatePrecision::Uniform => [1.0, 1.0, states],
            StatePrecision::Fp32 => [4.0, 4.0, 4.0 * states].map(|bytes| bytes / size(4.0)),
            StatePrecision::Bf16Mixed => [2.0, 4.0, 4.0 + 4.0 * states].map(|bytes| bytes / size(2.0)),
            StatePrecision::Fp16Mixed => [2.0, 2.0, 4.0 + 4.0 * states].map(|bytes| bytes / size(2.0)),
            other => unreachable!("{other:?}"),
        }
    }

    /// What a byte of parameters takes that each replica has, and that they share out.
    pub(super) fn held_per_byte(&self, run: Run) -> [f64; 2] {
        let [weight, gradient, state] = self.per_byte();
        let state = if run.at_host { 0.0 } else { state };
        match self.settings.optimizer_sharding {
            OptimizerSharding::None => [weight + gradient + state, 0.0],
            OptimizerSharding::Zero1 => [weight + gradient, state],
            OptimizerSharding::Zero2 => [weight, gradient + state],
            OptimizerSharding::Zero3 => [0.0, weight + gradient + state],
            other => unreachable!("{other:?}"),
        }
    }

    /// Bytes of experts that are on other devices of their group: of a frozen layer, whose weights are not among its parameters, and of others with what
    /// is kept beside them.
    fn elsewhere(&self, mode: &LayerMode, run: Run) -> f64 {
        let bytes = mode.experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        let per = match mode.parameter_bytes {
            0 => 1.0,
            _ => self.held_per_byte(run)[0],
        };
        let all = bytes * per;
        all - (all / run.expert as f64).ceil()
    }

    /// Weights of a layer that a device has of micro-batches in flight beside the oldest, where nothing is flushed.
    fn versions_bytes(&self, mode: &LayerMode, run: Run, in_flight: u64) -> f64 {
        if self.settings.schedule != Schedule::Pipedream || self.settings.mode == Mode::Inference {
            return 0.0;
        }
        let bytes = mode.parameter_bytes as f64;
        let of_experts = mode.experts.filter(|_| bytes > 0.0);
        let of_experts = of_experts.map_or(0, |experts| experts.parameter_bytes) as f64;
        in_flight.saturating_sub(1) as f64 * (bytes - of_experts + (of_experts / run.expert as f64).ceil())
    }

    /// Whether so many bytes fit a device of a kind.
    pub(super) fn fits(&self, kind: usize, bytes: f64) -> bool {
        let own = self.instance.cluster.kinds[kind].memory_bytes;
        let own = own.filter(|_| self.settings.kinds.len() > 1 || self.settings.heterogeneous);
        let limit = self.settings.memory_limit.or(own);
        limit.is_none_or(|limit| bytes <= limit as f64)
    }
}
