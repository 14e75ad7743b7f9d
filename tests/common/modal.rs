//! Small random problems whose layers and stages have modes, the same for the same seed.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::Precision;
use stagecut::options::{
    Degrees, MemoryLimit, Mode, Objective, Optimizer, OptimizerOffload, OptimizerSharding, PipelineOptions,
    Schedule, StatePrecision,
};
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, ExpertsSpec, InstanceSpec, LayerSpec, LinkSpec, MicroBatchSpec, ModeSpec,
    NetworkSpec, NodesSpec, PairLinkSpec, ResourceSpec, TensorSpec, TimesSpec,
};

/// A small problem with anything in it that modes know.
pub fn random_modal(seed: u64) -> InstanceSpec {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
    let layers = 1 + draw.up_to(3) as usize;
    finished(draw.spec(layers), seed)
}

/// The same of so many layers.
pub fn random_modal_of(layers: usize, seed: u64) -> InstanceSpec {
    finished(Draw(ChaCha8Rng::seed_from_u64(seed)).spec(layers), seed)
}

fn finished(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    if seed.is_multiple_of(2) {
        super::draw::add_weights(&mut spec.network.layers);
    }
    super::draw::freeze(&mut spec.network.layers, seed);
    spec
}

/// The same, but of every seven that have nodes, one has slower links inside of nodes than between them.
pub fn random_modal_links(seed: u64) -> InstanceSpec {
    let mut spec = random_modal(seed);
    let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
    if let Some(link) = link.filter(|_| seed.is_multiple_of(7))
        && let Some(nodes) = link.nodes.as_mut()
    {
        std::mem::swap(
            &mut nodes.link.bandwidth_bytes_per_s,
            &mut link.bandwidth_bytes_per_s,
        );
        std::mem::swap(&mut nodes.link.latency_ms, &mut link.latency_ms);
    }
    spec
}

/// The same with slower links inside of nodes than between them: slower for all, of longer latency, or of less bandwidth.
pub fn random_modal_slow_inside(seed: u64) -> InstanceSpec {
    let mut spec = random_modal(seed);
    slow_inside(&mut spec, seed);
    spec
}

/// Makes links inside of nodes slower than those between them, where there are nodes.
pub fn slow_inside(spec: &mut InstanceSpec, seed: u64) {
    let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
    if let Some(link) = link
        && let Some(nodes) = link.nodes.as_mut()
    {
        if seed % 3 != 1 {
            std::mem::swap(
                &mut nodes.link.bandwidth_bytes_per_s,
                &mut link.bandwidth_bytes_per_s,
            );
        }
        if seed % 3 != 2 {
            std::mem::swap(&mut nodes.link.latency_ms, &mut link.latency_ms);
            nodes.link.latency_ms += [0.0, 0.5, 3.0][seed as usize % 3];
        }
    }
}

/// The same with a table that two layers share, of another size at each degree.
pub fn share_table(spec: &mut InstanceSpec, seed: u64) {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x7ab1e));
    let layers = &mut spec.network.layers;
    let forward: Vec<usize> = (0..layers.len()).filter(|&at| !layers[at].backward).collect();
    if forward.len() < 2 {
        return;
    }
    let first = draw.up_to(forward.len() as u64 - 2) as usize;
    let last = first + 1 + draw.up_to((forward.len() - first - 2) as u64) as usize;
    let sizes = [1, 2, 3].map(|_| draw.bytes());
    let frozen = layers[forward[first]].frozen;
    for at in [forward[first], forward[last]] {
        let layer = &mut layers[at];
        layer.shared = Some("table".into());
        layer.frozen = frozen;
        for mode in &mut layer.modes {
            let bytes = sizes[mode.tensor.unwrap_or(1) - 1];
            mode.parameter_bytes += bytes;
            mode.gradient_bytes = mode.gradient_bytes.map(|own| own + bytes);
            mode.shared_bytes = Some(bytes);
        }
    }
}

/// The same with replicas that share out gradients, or weights too.
pub fn shard(spec: &mut InstanceSpec, seed: u64) {
    let of = [OptimizerSharding::Zero2, OptimizerSharding::Zero3];
    spec.pipeline.optimizer_sharding = Some(of[(seed / 2 % 2) as usize]);
    spec.pipeline.replicas = Some(Degrees::Choose);
    spec.pipeline.mode = spec.pipeline.mode.filter(|mode| *mode == Mode::Training);
}

/// The same with tokens, of which each layer keeps keys and values, and degrees that share out sequences.
pub fn add_context(spec: &mut InstanceSpec, seed: u64) {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0xc04e));
    spec.network.micro_batch = Some(MicroBatchSpec {
        tokens: draw.one_of(&[4.0, 6.0, 12.0]),
        ..MicroBatchSpec::default()
    });
    let degrees = ["choose", "choose", "1,2", "2", "1,3"];
    spec.pipeline.context_parallel = Some(draw.one_of(&degrees).parse().unwrap());
    spec.pipeline.mode = spec.pipeline.mode.filter(|mode| *mode == Mode::Training);
    for layer in &mut spec.network.layers {
        let sizes = [1, 2, 3].map(|_| 1e5 * draw.up_to(4) as f64);
        for mode in &mut layer.modes {
            mode.kv_bytes_per_token = sizes[mode.tensor.unwrap_or(1) - 1];
        }
    }
}

/// The same with devices that may lay what layers keep at hosts, some of limited memory.
pub fn add_hosts(spec: &mut InstanceSpec, seed: u64) {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x4057));
    let names = [
        "choose",
        "choose",
        "none,offload",
        "offload",
        "full,full+offload",
        "none,full+offload",
    ];
    spec.pipeline.recompute = Some(draw.one_of(&names).parse().unwrap());
    spec.pipeline.mode = spec.pipeline.mode.filter(|mode| *mode == Mode::Training);
    for kind in &mut spec.cluster.as_mut().expect("a cluster").device_kinds {
        if draw.may(0.9) {
            kind.host_bytes_per_s = Some(draw.one_of(&[1e9, 4e9, 3e10]));
            kind.host_memory_bytes = draw.may(0.6).then(|| 1e6 * draw.up_to(12) as f64);
        }
    }
}

/// The same with states of optimisers at hosts, where there are some of both.
pub fn offload_states(spec: &mut InstanceSpec, seed: u64) {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x57a7));
    spec.pipeline.mode = spec.pipeline.mode.filter(|mode| *mode == Mode::Training);
    spec.pipeline.optimizer = spec.pipeline.optimizer.filter(|own| *own != Optimizer::Sgd);
    let of = [
        OptimizerOffload::Choose,
        OptimizerOffload::Choose,
        OptimizerOffload::All,
    ];
    spec.pipeline.optimizer_offload = Some(draw.one_of(&of));
}

/// The same with experts in one layer or two, and degrees that share them out.
pub fn add_experts(spec: &mut InstanceSpec, seed: u64) {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0xe8be));
    let count = draw.one_of(&[2, 4, 6]);
    let degrees = ["choose", "choose", "1,2", "2", "1,3"];
    spec.pipeline.expert = Some(draw.one_of(&degrees).parse().unwrap());
    spec.pipeline.expert_load = draw.may(0.4).then_some(1.5);
    spec.pipeline.replicas = Some(Degrees::Choose);
    let every = draw.up_to(1) == 0;
    let last = spec.network.layers.iter().filter(|layer| !layer.backward).count() - 1;
    for (at, layer) in spec
        .network
        .layers
        .iter_mut()
        .filter(|layer| !layer.backward)
        .enumerate()
    {
        if !every && at < last {
            continue;
        }
        let sizes = [1, 2, 3].map(|_| draw.bytes());
        for mode in &mut layer.modes {
            let bytes = sizes[mode.tensor.unwrap_or(1) - 1];
            mode.parameter_bytes += bytes;
            mode.gradient_bytes = mode.gradient_bytes.map(|own| own + bytes);
            mode.experts = Some(ExpertsSpec {
                count,
                parameter_bytes: bytes,
                routed_bytes: draw.bytes(),
                share: 0.25 * draw.up_to(4) as f64,
            });
        }
    }
}

/// Links of pairs of kinds, for two of five seeds: slower and faster ones than others, some of latency.
pub fn links_of_kinds(names: &[String], seed: u64) -> Vec<PairLinkSpec> {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x11a5));
    if !draw.may(0.4) {
        return Vec::new();
    }
    let pairs = names.iter().enumerate();
    let pairs = pairs.flat_map(|(at, one)| names[at..].iter().map(move |other| [one.clone(), other.clone()]));
    let mut links: Vec<PairLinkSpec> = Vec::new();
    for between in pairs {
        if draw.may(0.6) {
            links.push(PairLinkSpec {
                between,
                bandwidth_bytes_per_s: draw.one_of(&[2e8, 5e8, 2e9, 8e9]),
                latency_ms: draw.one_of(&[0.0, 0.0, 0.25, 1.0]),
            });
        }
    }
    links
}

/// The same on devices of two or three kinds, some slower, some with less memory, some that not all layers run on, some with links of their own.
pub fn on_unlike_devices(mut spec: InstanceSpec, seed: u64) -> InstanceSpec {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed ^ 0x5eed));
    let kinds = if draw.may(0.2) { 3 } else { 2 };
    let cluster = spec.cluster.as_mut().expect("drawn problems have a cluster");
    let first = cluster.device_kinds[0].clone();
    cluster.device_kinds = (0..kinds)
        .map(|at| DeviceKindSpec {
            name: format!("kind{at}"),
            count: Some(1 + draw.up_to(2) as usize),
            memory_bytes: draw.may(0.6).then(|| 5e6 + 1e6 * draw.up_to(40) as f64),
            resources: match draw.up_to(3) {
                0 => vec![rate(draw.one_of(&[0.5, 0.4]), 0.5)],
                1 => vec![rate(1.0, 0.5), rate(1.0, 1.5)],
                _ => Vec::new(),
            },
            ..first.clone()
        })
        .collect();
    if draw.may(0.6) {
        spec.pipeline.memory_limit = None;
    }
    let names: Vec<String> = cluster
        .device_kinds
        .iter()
        .map(|kind| kind.name.clone())
        .collect();
    cluster.links = links_of_kinds(&names, seed);
    for layer in &mut spec.network.layers {
        // Modes of a degree are on the same kinds.
        let longer: Vec<Vec<Option<f64>>> = (0..=3)
            .map(|_| {
                let is_told = draw.may(0.4);
                let runs = names.iter().map(|_| draw.may(0.9).then(|| draw.up_to(3) as f64));
                if is_told { runs.collect() } else { Vec::new() }
            })
            .collect();
        for mode in &mut layer.modes {
            let longer = &longer[mode.tensor.unwrap_or(1)];
            if longer.is_empty() {
                continue;
            }
            let own = [
                mode.forward_ms.take(),
                mode.backward_ms.take(),
                mode.weight_ms.take(),
            ];
            let times = |(name, longer): (&String, &Option<f64>)| {
                let more = (*longer)?;
                let own = TimesSpec {
                    forward_ms: own[0].map(|ms| ms + more),
                    backward_ms: own[1].map(|ms| ms + more),
                    weight_ms: own[2],
                    ..TimesSpec::default()
                };
                Some((name.clone(), own))
            };
            mode.times = names.iter().zip(longer).filter_map(times).collect();
        }
    }
    spec
}

fn rate(forward_rate: f64, backward_rate: f64) -> ResourceSpec {
    ResourceSpec {
        name: format!("r{forward_rate}-{backward_rate}"),
        forward_rate,
        backward_rate: Some(backward_rate),
        ..ResourceSpec::default()
    }
}

/// A draw of whole numbers.
struct Draw(ChaCha8Rng);

impl Draw {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0.random_range(0..=most)
    }

    fn may(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())].clone()
    }

    fn bytes(&mut self) -> f64 {
        1e6 * self.up_to(4) as f64
    }

    fn some_bytes(&mut self) -> f64 {
        if self.may(0.3) { self.bytes() } else { 0.0 }
    }

    /// A small problem of so many layers with anything in it that modes know.
    fn spec(&mut self, layers: usize) -> InstanceSpec {
        let ids: Vec<String> = (0..layers).map(|at| format!("l{at}")).collect();
        let mut tensors = Vec::new();
        // Chains have a search of their own.
        let is_chain = self.may(0.4);
        for from in 0..layers {
            let after = (from + 1..layers).filter(|&to| match is_chain {
                true => to == from + 1,
                false => self.may(0.5),
            });
            let after = after.collect::<Vec<_>>();
            if !after.is_empty() {
                tensors.push(TensorSpec {
                    producer: ids[from].clone(),
                    consumers: after.iter().map(|&to| ids[to].clone()).collect(),
                    bytes: Some(self.bytes()),
                    ..TensorSpec::default()
                });
            }
        }
        let mut spec = InstanceSpec {
            network: NetworkSpec {
                layers: (0..layers).map(|at| self.layer(&ids, at)).collect(),
                tensors,
                precision: self
                    .may(0.5)
                    .then(|| self.one_of(&[Precision::Fp32, Precision::Bf16])),
                ..NetworkSpec::default()
            },
            cluster: Some(self.cluster()),
            pipeline: self.options(layers),
            ..InstanceSpec::default()
        };
        if self.may(0.3) {
            self.add_backward_graph(&mut spec);
        }
        spec
    }

    /// An operator for the backward pass of each layer, and tensors between them: most often against the order of layers, and some from
    /// forward layers, which may lie on either side.
    fn add_backward_graph(&mut self, spec: &mut InstanceSpec) {
        spec.pipeline.mode = None;
        let network = &mut spec.network;
        let layers = network.layers.len();
        let operator = |at: usize| format!("b{at}");
        for at in 0..layers {
            let layer = &mut network.layers[at];
            layer.tie = Some(layer.id.clone());
            let mut modes = layer.modes.clone();
            layer.modes.iter_mut().for_each(|mode| mode.backward_ms = None);
            modes.iter_mut().for_each(|mode| mode.forward_ms = None);
            let backward = LayerSpec {
                id: operator(at),
                backward: true,
                modes,
                ..layer.clone()
            };
            network.layers.push(backward);
        }
        for tensor in &mut network.tensors {
            let read = (0..layers).filter(|_| self.may(0.2)).map(operator);
            tensor.consumers.extend(read);
        }
        let is_reverse = self.may(0.7);
        for from in 0..layers {
            let read = (0..layers).filter(|&to| to != from && (to < from) == is_reverse && self.may(0.6));
            let consumers: Vec<String> = read.map(operator).collect();
            if !consumers.is_empty() {
                network.tensors.push(TensorSpec {
                    producer: operator(from),
                    consumers,
                    bytes: Some(self.bytes()),
                    ..TensorSpec::default()
                });
            }
        }
    }

    fn layer(&mut self, ids: &[String], at: usize) -> LayerSpec {
        let mut modes = Vec::new();
        for tensor in [1, 2, 3] {
            if tensor > 1 && !self.may(0.6) {
                continue;
            }
            let beside = |draw: &mut Self| -> BTreeMap<String, f64> {
                let others = ids.iter().filter(|id| **id != ids[at]);
                others
                    .filter(|_| draw.may(0.2))
                    .map(|id| (id.clone(), 1e6))
                    .collect()
            };
            let weights = ModeSpec {
                tensor: Some(tensor),
                parameter_bytes: self.bytes(),
                gradient_bytes: self.may(0.5).then(|| self.bytes()),
                input_bytes: beside(self),
                output_bytes: beside(self),
                ..ModeSpec::default()
            };
            for recompute in ["none", "selective", "full"] {
                if recompute == "none" || self.may(0.4) {
                    modes.push(ModeSpec {
                        recompute: Some(recompute.into()),
                        forward_ms: Some(self.up_to(6) as f64),
                        backward_ms: Some(1.0 + self.up_to(8) as f64),
                        stash_bytes: self.bytes(),
                        resident_bytes: self.some_bytes(),
                        workspace_bytes: self.some_bytes(),
                        collective_bytes: self.bytes(),
                        ..weights.clone()
                    });
                }
            }
        }
        LayerSpec {
            id: ids[at].clone(),
            modes,
            ..LayerSpec::default()
        }
    }

    fn cluster(&mut self) -> ClusterSpec {
        let link = |bandwidth_bytes_per_s: f64, latency_ms: f64| LinkSpec {
            bandwidth_bytes_per_s,
            latency_ms,
            nodes: None,
        };
        let nodes = self.may(0.5).then(|| {
            Box::new(NodesSpec {
                devices: 1 + self.up_to(2) as usize,
                link: link(4e9, 0.0),
            })
        });
        ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                count: Some(1 + self.up_to(4) as usize),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                nodes,
                ..link(1e9, self.one_of(&[0.0, 0.0, 0.5]))
            }),
            ..ClusterSpec::default()
        }
    }

    fn options(&mut self, layers: usize) -> PipelineOptions {
        let degrees = ["1", "choose", "choose", "1,2", "2"].map(|text| text.parse::<Degrees>().unwrap());
        let names = ["none", "full", "choose", "choose", "none,selective"];
        let options = PipelineOptions {
            tensor: Some(self.one_of(&degrees)),
            replicas: Some(self.one_of(&degrees)),
            recompute: Some(self.one_of(&names).parse().unwrap()),
            mode: self.may(0.1).then_some(Mode::Inference),
            schedule: self.may(0.2).then_some(Schedule::Gpipe),
            objective: Some(Objective::Period),
            micro_batches: Some(self.one_of(&[1, 2, 4, 6])),
            memory_limit: self
                .may(0.7)
                .then(|| MemoryLimit::Bytes(5_000_000 + 1_000_000 * self.up_to(40))),
            stages: self.may(0.3).then(|| 1 + self.up_to(layers as u64) as usize),
            all_stages: self.may(0.1).then_some(true),
            optimizer: self
                .may(0.5)
                .then(|| self.one_of(&[Optimizer::Sgd, Optimizer::Momentum])),
            precision: self.may(0.7).then(|| {
                self.one_of(&[
                    StatePrecision::Uniform,
                    StatePrecision::Fp32,
                    StatePrecision::Bf16Mixed,
                    StatePrecision::Fp16Mixed,
                ])
            }),
            optimizer_sharding: self.may(0.4).then_some(OptimizerSharding::Zero1),
            ..PipelineOptions::default()
        };
        // Without a backward pass nothing can be computed again in it.
        PipelineOptions {
            recompute: options
                .recompute
                .filter(|_| options.mode != Some(Mode::Inference)),
            ..options
        }
    }
}
