//! What devices and stages move, over which links, for brute force over [modes](super::modes).

use stagecut::cluster::Link;
use stagecut::network::{LayerMode, Size, Tensor};
use stagecut::options::{Mode, OptimizerSharding, Schedule};

use super::modes::{Run, Search};
use super::separate_modes::Held;

impl Search<'_> {
    pub(super) fn share_node(&self, one: usize, other: usize) -> bool {
        self.instance
            .cluster
            .nodes
            .is_none_or(|nodes| one / nodes.devices == other / nodes.devices)
    }

    /// The link of two devices' node, else of their kinds, else that of all.
    pub(super) fn link(&self, one: usize, other: usize) -> Link {
        let nodes = self.instance.cluster.nodes;
        let own = nodes
            .filter(|_| self.share_node(one, other))
            .map(|nodes| nodes.link);
        let kind = |device: usize| {
            let holds = |row: &&[usize; 3]| (row[1]..row[1] + row[2]).contains(&device);
            self.rows.iter().find(holds).unwrap()[0]
        };
        own.unwrap_or_else(|| self.link_of_kinds([kind(one), kind(other)]))
    }

    fn link_of_kinds(&self, mut kinds: [usize; 2]) -> Link {
        kinds.sort_unstable();
        let mut pairs = self.instance.cluster.links.iter();
        pairs
            .find(|pair| pair.kinds == kinds)
            .map_or(self.settings.link, |pair| pair.link)
    }

    /// The link on which so many devices of a stage exchange something in every pass.
    fn group_link(&self, run: Run, size: usize) -> Link {
        match self.instance.cluster.nodes {
            Some(nodes) if size <= nodes.devices => nodes.link,
            _ => self.link_of_kinds([run.kind; 2]),
        }
    }

    /// How far it is from one device to another, to compare: out of a node, and else over less bandwidth, and more latency where that is equal.
    pub(super) fn distance(&self, one: usize, other: usize) -> (bool, u64, u64) {
        let link = self.link(one, other);
        // Larger numbers of one sign have larger bits.
        let slowness = (1.0 / link.bandwidth_bytes_per_s).to_bits();
        (!self.share_node(one, other), slowness, link.latency_ns)
    }

    /// What links of all stages receive and send in either pass: nothing where a worker waits for that.
    pub(super) fn links_of_stages(&self, runs: &[Run]) -> Vec<[[f64; 2]; 2]> {
        let of = |k: usize| match self.settings.communication.has_links() {
            true => self.links(k, &self.held(k, runs).unwrap(), runs),
            false => [[0.0; 2]; 2],
        };
        (0..runs.len()).map(of).collect()
    }

    /// What a stage's links receive and send in forward and in backward propagation.
    pub(super) fn links(&self, stage: usize, held: &Held, runs: &[Run]) -> [[f64; 2]; 2] {
        let mut moved = [held.stash_ns, [0.0; 2]];
        for tensor in &self.instance.network.tensors {
            let own = self.on_links(tensor, stage, runs);
            (0..4).for_each(|at| moved[at / 2][at % 2] += own[at / 2][at % 2]);
        }
        moved
    }

    /// What a stage's links receive and send of a tensor in forward and in backward propagation.
    fn on_links(&self, tensor: &Tensor, stage: usize, runs: &[Run]) -> [[f64; 2]; 2] {
        let layers = &self.instance.network.layers;
        let trains = self.settings.mode == Mode::Training;
        let is_explicit = layers.iter().any(|layer| layer.backward);
        let mut moved = [[0.0; 2]; 2];
        let pass = usize::from(trains && layers[tensor.producer].backward);
        let leaves = stage == self.stage_of[tensor.producer];
        moved[pass][usize::from(leaves)] = self.moved_ns(tensor, &self.stage_of, stage, runs);
        // A gradient goes the other way, between backward passes; a tensor of backward operators goes the way it says.
        if trains && !is_explicit && self.returns(tensor) {
            let enters = stage == self.back_of[tensor.producer];
            moved[1][usize::from(!enters)] = self.moved_ns(tensor, &self.back_of, stage, runs);
        }
        moved
    }

    /// Whether the gradient of a tensor moves back.
    fn returns(&self, tensor: &Tensor) -> bool {
        super::is_behind_trained(&self.instance.network, tensor.producer)
    }

    /// What a stage pays for a tensor one way between layers on these stages: to send it as far as the last stage that reads it, or to receive it.
    pub(super) fn moved_ns(&self, tensor: &Tensor, stage_of: &[usize], stage: usize, runs: &[Run]) -> f64 {
        let home = stage_of[tensor.producer];
        let away: Vec<usize> = tensor
            .consumers
            .iter()
            .copied()
            .filter(|&to| stage_of[to] != home)
            .collect();
        if !self.settings.communication.takes_time() || away.is_empty() {
            return 0.0;
        }
        let named = |bytes: &[(usize, u64)], other: usize| {
            bytes
                .iter()
                .find(|(layer, _)| *layer == other)
                .map_or(0, |(_, bytes)| *bytes)
        };
        let mode = |layer: usize, stage: usize| self.modes(layer, runs[stage])[0].clone();
        // Between the last device of the stage that comes first and the first of the other, whichever way the tensor goes.
        let ends = |other: usize| {
            let (one, other) = (home.min(other), home.max(other));
            [runs[one].last(), runs[other].start]
        };
        let distance = |other: usize| {
            let [one, other] = ends(other);
            self.distance(one, other)
        };
        let (end, beside) = if stage == home {
            let own = mode(tensor.producer, home);
            let beside = away.iter().map(|&to| named(&own.output_bytes, to)).max();
            let stages = away.iter().map(|&to| stage_of[to]);
            (
                stages.max_by_key(|&stage| distance(stage)).unwrap(),
                beside.unwrap(),
            )
        } else {
            let here = away.iter().filter(|&&to| stage_of[to] == stage);
            let Some(beside) = here
                .map(|&to| named(&mode(to, stage).input_bytes, tensor.producer))
                .max()
            else {
                return 0.0;
            };
            (stage, beside)
        };
        let [one, other] = ends(end);
        let link = self.link(one, other);
        let ns = |bytes: u64| bytes as f64 / link.bandwidth_bytes_per_s * 1e9;
        match tensor.size {
            Size::Bytes(bytes) if bytes + beside == 0 => 0.0,
            Size::Bytes(bytes) if self.of_iterations => {
                (ns(bytes) + link.latency_ns as f64).round() + ns(beside).round()
            }
            Size::Bytes(bytes) => ns(bytes + beside) + link.latency_ns as f64,
            Size::TransferNs(given_ns) => given_ns as f64 + ns(beside),
            other => unreachable!("{other:?}"),
        }
    }

    /// What the tensor group reduces and what goes to experts elsewhere and back, in ns.
    pub(super) fn reduced_ns(&self, mode: &LayerMode, run: Run) -> f64 {
        let counted = |ns: f64| if self.of_iterations { ns.round() } else { ns };
        let group = mode.tensor as f64;
        let around = 2.0 * (group - 1.0) / group * mode.collective_bytes as f64 / run.parts() as f64;
        let group_ns = counted(around / self.group_link(run, run.tensor).bandwidth_bytes_per_s * 1e9);
        let link = self.group_link(run, run.tensor * run.expert);
        let expert = run.expert as f64;
        let routed = mode.experts.map_or(0, |experts| experts.routed_bytes) as f64;
        let away = routed / run.parts() as f64 * self.settings.expert_load * (expert - 1.0) / expert;
        group_ns + counted(away / link.bandwidth_bytes_per_s * 1e9)
    }

    /// Whether replicas share out gradients.
    pub(super) fn exchanges_each_time(&self) -> bool {
        let sharding = self.settings.optimizer_sharding;
        [OptimizerSharding::Zero2, OptimizerSharding::Zero3].contains(&sharding)
    }

    /// What replicas exchange of a layer in a forward and in a backward pass, in ns: all but a device's own part, weights before each and gradients
    /// behind the latter.
    pub(super) fn exchanged_ns(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let settings = self.settings;
        if !self.exchanges_each_time()
            || settings.mode == Mode::Inference
            || !settings.communication.takes_time()
        {
            return [0.0; 2];
        }
        let own = mode
            .experts
            .filter(|_| run.expert > 1 && !self.instance.network.layers[at].frozen);
        let of_experts = own.map_or(0.0, |experts| experts.parameter_bytes as f64);
        let [d, e] = [run.copies() as f64, run.expert as f64];
        let of_all = (mode.gradient_bytes as f64 - of_experts) * (d - 1.0) / d;
        let bytes = of_all + of_experts / e * (d / e - 1.0) / (d / e);
        let link = self.group_link(run, run.tensor * run.copies());
        let once = bytes / link.bandwidth_bytes_per_s * 1e9;
        let once = if self.of_iterations { once.round() } else { once };
        match settings.optimizer_sharding {
            OptimizerSharding::Zero2 => [0.0, once],
            _ => [once, 2.0 * once],
        }
    }

    /// What a device hands round of keys and values of a layer in a forward and in a backward pass, in ns.
    pub(super) fn handed_ns(&self, at: usize, mode: &LayerMode, run: Run) -> [f64; 2] {
        let Some(of) = self.instance.network.micro_batch else {
            return [0.0; 2];
        };
        let c = run.context as f64;
        let link = self.group_link(run, run.tensor * run.context);
        let tokens = of.tokens / run.group as f64;
        let once = (c - 1.0) / c * tokens * mode.cache.token_bytes as f64;
        let once = once / link.bandwidth_bytes_per_s * 1e9;
        let once = if self.of_iterations { once.round() } else { once };
        let returns = super::is_behind_trained(&self.instance.network, at);
        let computes_again = !["none", "offload"].contains(&mode.recompute.as_str());
        let times = if computes_again { 3.0 } else { 2.0 };
        let trains = self.settings.mode == Mode::Training;
        [once, if trains && returns { times * once } else { 0.0 }]
    }

    /// Bytes of gradients of experts that a stage's layers share out.
    pub(super) fn expert_gradients(&self, layers: &[usize], run: Run) -> f64 {
        let own = |&layer: &usize| {
            let mode = &self.modes(layer, run)[0];
            let trained = run.expert > 1 && !self.instance.network.layers[layer].frozen;
            mode.experts
                .filter(|_| trained)
                .map_or(0, |experts| experts.parameter_bytes)
        };
        layers.iter().map(own).sum::<u64>() as f64
    }

    /// The exchange of a stage's gradients, as far as a micro-batch bears it, in ns: of what all replicas have, and of experts by those that have the same.
    pub(super) fn rings_ns(&self, run: Run, gradients: f64, of_experts: f64) -> [f64; 2] {
        let members = run.copies();
        let among = |replicas: usize| Run { replicas, ..run };
        let (copies, same) = (among(members), among(members / run.expert));
        let of_experts = of_experts / run.expert as f64;
        [
            self.ring_ns((run, copies), gradients),
            self.ring_ns((run, same), of_experts),
        ]
    }

    fn ring_ns(&self, (run, members): (Run, Run), gradient_bytes: f64) -> f64 {
        let is_free = members.replicas == 1
            || self.settings.mode == Mode::Inference
            || !self.settings.communication.takes_time()
            || gradient_bytes == 0.0;
        if is_free {
            return 0.0;
        }
        let link = self.link(run.start, run.last());
        let replicas = members.replicas as f64;
        let message_ns =
            gradient_bytes / replicas / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        let rounds = match self.settings.optimizer_sharding {
            OptimizerSharding::Zero2 => 1.0,
            OptimizerSharding::Zero3 => 0.0,
            _ => 2.0,
        };
        rounds * (replicas - 1.0) * message_ns / self.updates_every(run)
    }

    /// Micro-batches between two updates of a stage's weights: where nothing is flushed, one of each replica.
    pub(super) fn updates_every(&self, run: Run) -> f64 {
        match self.settings.schedule {
            Schedule::Pipedream => run.replicas as f64,
            _ => self.settings.micro_batches.unwrap_or(1) as f64,
        }
    }
}
