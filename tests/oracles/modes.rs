//! Stages with modes by brute force: every ordered partition, every degree and number of replicas of each stage, every choice of what
//! its layers compute again. Times are doubles, on layers and tensors, as `formulations/modes.md` has them.

use stagecut::cluster::Link;
use stagecut::instance::Instance;
use stagecut::network::{LayerMode, Size, Tensor};
use stagecut::options::{Mode, Optimizer, OptimizerSharding, Schedule, StatePrecision};
use stagecut::settings::Settings;

/// The least period in ms, and of all plans that reach it the least time that is computed again; `None` where no plan fits.
pub fn best_ms(instance: &Instance, settings: &Settings) -> Option<f64> {
    let mut search = Search {
        instance,
        settings,
        devices: settings
            .count(&instance.cluster, settings.kind)
            .unwrap_or(settings.stages),
        stage_of: Vec::new(),
        best_ns: f64::INFINITY,
    };
    search.place();
    search.best_ns.is_finite().then_some(search.best_ns / 1e6)
}

struct Search<'a> {
    instance: &'a Instance,
    settings: &'a Settings,
    devices: usize,
    stage_of: Vec<usize>,
    best_ns: f64,
}

/// Degree and replicas of a stage, and its first device.
#[derive(Clone, Copy)]
struct Run {
    tensor: usize,
    replicas: usize,
    start: usize,
}

impl Run {
    fn last(self) -> usize {
        self.start + self.tensor * self.replicas - 1
    }
}

impl Search<'_> {
    /// Gives each layer a stage, in every way; layers are listed in topological order.
    fn place(&mut self) {
        let layers = self.instance.network.layers.len();
        let at = self.stage_of.len();
        if at == layers {
            let used = self.stage_of.iter().max().map_or(0, |last| last + 1);
            let is_full = (0..used).all(|stage| self.stage_of.contains(&stage));
            if is_full && (!self.settings.all_stages || used == self.settings.stages) {
                self.run(used, &mut Vec::new());
            }
            return;
        }
        let network = &self.instance.network;
        let own = &network.layers[at];
        let before = network
            .tensors
            .iter()
            .filter(|tensor| !own.backward && tensor.consumers.contains(&at));
        let first = before
            .map(|tensor| self.stage_of[tensor.producer])
            .max()
            .unwrap_or(0);
        // An operator of an explicit backward graph lies with the layer of its tie, which comes before it in the list.
        let tied = (0..at).find(|&other| own.backward && network.layers[other].tie == own.tie);
        let stages = match tied {
            Some(other) => self.stage_of[other]..self.stage_of[other] + 1,
            None => first..self.settings.stages.min(layers),
        };
        for stage in stages {
            self.stage_of.push(stage);
            self.place();
            self.stage_of.pop();
        }
    }

    /// Gives each stage devices, in every way.
    fn run(&mut self, stages: usize, runs: &mut Vec<Run>) {
        if runs.len() == stages {
            let period_ns = self.period_ns(runs);
            self.best_ns = self.best_ns.min(period_ns);
            return;
        }
        let start = runs.last().map_or(0, |run| run.last() + 1);
        for tensor in 1..=self.devices - start.min(self.devices) {
            for replicas in 1..=(self.devices - start) / tensor {
                let run = Run {
                    tensor,
                    replicas,
                    start,
                };
                if self.may_run(run) {
                    runs.push(run);
                    self.run(stages, runs);
                    runs.pop();
                }
            }
        }
    }

    fn may_run(&self, run: Run) -> bool {
        let Run {
            tensor,
            replicas,
            start,
        } = run;
        let divides = match (self.settings.mode, self.settings.micro_batches) {
            (Mode::Training, Some(all)) => all % replicas as u64 == 0,
            _ => true,
        };
        let inside = |group: usize| self.share_node(start + group * tensor, start + (group + 1) * tensor - 1);
        let allowed = self.settings.tensor.allows(tensor) && self.settings.replicas.allows(replicas);
        allowed && divides && (0..replicas).all(inside)
    }

    fn share_node(&self, one: usize, other: usize) -> bool {
        self.instance
            .cluster
            .nodes
            .is_none_or(|nodes| one / nodes.devices == other / nodes.devices)
    }

    fn link(&self, one: usize, other: usize) -> Link {
        match self.instance.cluster.nodes {
            Some(nodes) if self.share_node(one, other) => nodes.link,
            _ => self.settings.link,
        }
    }

    /// The longest period of the stages, each with the best choice of what it computes again; infinite where one does not fit.
    fn period_ns(&self, runs: &[Run]) -> f64 {
        let mut longest = 0.0f64;
        let mut behind = 0;
        for (k, &run) in runs.iter().enumerate().rev() {
            let replicas = run.replicas as u64;
            let all = self.settings.micro_batches.unwrap_or(u64::MAX).div_ceil(replicas);
            let in_flight = match (self.settings.mode, self.settings.schedule) {
                (Mode::Inference, _) => 0,
                (_, Schedule::Gpipe) => all,
                _ => (replicas + behind).div_ceil(replicas).min(all),
            };
            behind += replicas;
            let layers: Vec<usize> = (0..self.stage_of.len())
                .filter(|&layer| self.stage_of[layer] == k)
                .collect();
            let Some((work_ns, gradients)) = self.work_ns(&layers, run, in_flight) else {
                return f64::INFINITY;
            };
            let moved_ns: f64 = self
                .instance
                .network
                .tensors
                .iter()
                .map(|tensor| self.moved_ns(tensor, k, runs))
                .sum();
            let ring_ns = self.ring_ns(run, gradients);
            longest = longest.max((work_ns + moved_ns) / run.replicas as f64 + ring_ns);
        }
        longest
    }

    /// The modes of a layer at a degree that the options allow.
    fn modes(&self, layer: usize, tensor: usize) -> Vec<LayerMode> {
        let modes = self.instance.network.layers[layer].modes().into_owned();
        let of_degree: Vec<LayerMode> = modes.into_iter().filter(|mode| mode.tensor == tensor).collect();
        let asked = |mode: &&LayerMode| self.settings.recompute.names(&mode.recompute);
        match of_degree.iter().any(|mode| asked(&mode)) {
            true => of_degree.iter().filter(asked).cloned().collect(),
            false => of_degree
                .into_iter()
                .filter(|mode| mode.recompute == "none")
                .collect(),
        }
    }

    /// The least work of a stage that fits, and the bytes of its gradients.
    fn work_ns(&self, layers: &[usize], run: Run, in_flight: u64) -> Option<(f64, f64)> {
        let choices: Vec<Vec<LayerMode>> = layers
            .iter()
            .map(|&layer| self.modes(layer, run.tensor))
            .collect();
        let count = choices.iter().map(Vec::len).product::<usize>();
        let mut best: Option<(f64, f64)> = None;
        for mut code in 0..count {
            let mut sums = [0.0; 3];
            let mut shared_bytes = 0.0;
            let mut workspace = 0;
            for choices in &choices {
                let mode = &choices[code % choices.len()];
                code /= choices.len();
                let add = self.of_mode(mode, in_flight);
                shared_bytes += add[3];
                (0..3).for_each(|at| sums[at] += add[at]);
                workspace = workspace.max(mode.workspace_bytes);
            }
            let part_bytes = (shared_bytes / run.replicas as f64).ceil();
            let bytes = sums[1] + part_bytes + workspace as f64;
            let fits = self
                .settings
                .memory_limit
                .is_none_or(|limit| bytes <= limit as f64);
            if fits && best.is_none_or(|(least, _)| sums[0] < least) {
                best = Some((sums[0], sums[2]));
            }
        }
        best
    }

    /// Bytes that a parameter takes beside those in the file, of weight and gradient and of the optimiser's state: per byte in the file.
    fn per_byte(&self) -> [f64; 2] {
        let states = match self.settings.optimizer {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
            other => unreachable!("{other:?}"),
        };
        let stated = self.instance.network.precision;
        let size = |weight: f64| stated.map_or(weight, |precision| precision.bytes() as f64);
        match self.settings.precision {
            _ if self.settings.mode == Mode::Inference => [1.0, 0.0],
            StatePrecision::Uniform => [2.0, states],
            StatePrecision::Fp32 => [8.0 / size(4.0), 4.0 * states / size(4.0)],
            StatePrecision::Bf16Mixed => [6.0 / size(2.0), (4.0 + 4.0 * states) / size(2.0)],
            StatePrecision::Fp16Mixed => [4.0 / size(2.0), (4.0 + 4.0 * states) / size(2.0)],
            other => unreachable!("{other:?}"),
        }
    }

    /// Time in ns, bytes kept, bytes of gradients and bytes that replicas share out of a layer in a mode.
    fn of_mode(&self, mode: &LayerMode, in_flight: u64) -> [f64; 4] {
        let times = mode.times[self.settings.kind].unwrap();
        let trains = self.settings.mode == Mode::Training;
        let group = mode.tensor as f64;
        let around = 2.0 * (group - 1.0) / group * mode.collective_bytes as f64;
        let collective_ns = around / self.link(0, 0).bandwidth_bytes_per_s * 1e9;
        let backward_ns = if trains { times.backward_ns } else { 0 };
        let [own, state] = self.per_byte().map(|per| mode.parameter_bytes as f64 * per);
        let (own, shared) = match self.settings.optimizer_sharding {
            OptimizerSharding::None => (own + state, 0.0),
            OptimizerSharding::Zero1 => (own, state),
            other => unreachable!("{other:?}"),
        };
        let kept = (mode.resident_bytes + in_flight * mode.stash_bytes) as f64;
        [
            times.forward_ns as f64 + backward_ns as f64 + collective_ns,
            kept + own,
            mode.gradient_bytes as f64,
            shared,
        ]
    }

    /// What a stage pays for a tensor: to send it as far as the last stage that reads it, or to receive it.
    fn moved_ns(&self, tensor: &Tensor, stage: usize, runs: &[Run]) -> f64 {
        let home = self.stage_of[tensor.producer];
        let away: Vec<usize> = tensor
            .consumers
            .iter()
            .copied()
            .filter(|&to| self.stage_of[to] != home)
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
        let mode = |layer: usize, stage: usize| self.modes(layer, runs[stage].tensor)[0].clone();
        // Between the last device of the stage that comes first and the first of the other, whichever way the tensor goes.
        let ends = |other: usize| {
            let (one, other) = (home.min(other), home.max(other));
            [runs[one].last(), runs[other].start]
        };
        let is_far = |other: usize| {
            let [one, other] = ends(other);
            !self.share_node(one, other)
        };
        let (end, beside) = if stage == home {
            let own = mode(tensor.producer, home);
            let beside = away.iter().map(|&to| named(&own.output_bytes, to)).max();
            let stages = away.iter().map(|&to| self.stage_of[to]);
            (
                stages.max_by_key(|&stage| is_far(stage)).unwrap(),
                beside.unwrap(),
            )
        } else {
            let here = away.iter().filter(|&&to| self.stage_of[to] == stage);
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
        let is_explicit = self.instance.network.layers.iter().any(|layer| layer.backward);
        let ways = if self.settings.mode == Mode::Training && !is_explicit {
            2.0
        } else {
            1.0
        };
        let ns = |bytes: u64| bytes as f64 / link.bandwidth_bytes_per_s * 1e9;
        let once = match tensor.size {
            Size::Bytes(bytes) if bytes + beside == 0 => 0.0,
            Size::Bytes(bytes) => ns(bytes + beside) + link.latency_ns as f64,
            Size::TransferNs(given_ns) => given_ns as f64 + ns(beside),
            other => unreachable!("{other:?}"),
        };
        ways * once
    }

    fn ring_ns(&self, run: Run, gradient_bytes: f64) -> f64 {
        let is_free = run.replicas == 1
            || self.settings.mode == Mode::Inference
            || !self.settings.communication.takes_time()
            || gradient_bytes == 0.0;
        if is_free {
            return 0.0;
        }
        let link = self.link(run.start, run.last());
        let replicas = run.replicas as f64;
        let message_ns =
            gradient_bytes / replicas / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
        2.0 * (replicas - 1.0) * message_ns / self.settings.micro_batches.unwrap_or(1) as f64
    }
}
