//! The one generator of random problems: whatever a scope leaves open is drawn, each feature by itself, so that any may meet any.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::options::{
    Communication, Cuts, Groups, MemoryLimit, Mode, Objective, Optimizer, PipelineOptions, Schedule, Shares,
    Synchronization, WorkerMode,
};
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, GroupSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, ResourceSpec,
    ShareLevelSpec, TensorSpec, TimesSpec,
};

use super::{BANDWIDTH_BYTES_PER_S, BYTES_PER_MS};

/// What a draw is confined to.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Fewest and most layers; large ones are rare.
    pub layers: [usize; 2],
    /// Whether a tensor goes from every layer to the next.
    pub chain: bool,
    /// Whether workers differ, or can: several kinds, resources, groups, both phases at once.
    pub mixed: bool,
    /// The cuts, where they are not to be drawn.
    pub cuts: Option<Cuts>,
}

/// A problem's name and everything in it, the same for the same seed.
pub fn draw(name: String, seed: u64, scope: Scope) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut may = |probability: f64| rng.random_bool(probability);
    let training = may(0.8) || scope.cuts == Some(Cuts::Separate);
    let mut draw = Draw {
        scope,
        training,
        explicit_backward: may(0.12),
        has_memory: may(0.5),
        measured_transfers: may(0.3),
        unlike_times: may(0.25),
        unrelated_kinds: may(0.3),
        only_on_first: seed.is_multiple_of(7),
        some_levels: may(0.5),
        concurrent: scope.mixed && may(0.6),
        separate: training && scope.cuts.map_or_else(|| may(0.3), |cuts| cuts == Cuts::Separate),
        rng,
    };
    let mut spec = draw.instance(name);
    if seed.is_multiple_of(2) {
        add_weights(&mut spec.network.layers);
    }
    if spec.pipeline.cuts != Some(Cuts::Separate) {
        freeze(&mut spec.network.layers, seed);
    }
    spec
}

/// Freezes some layers of every fifth problem: the first ones of the network, so that nothing is trained before them, and now and then one
/// more. They are not drawn, so that problems are the same without them.
pub fn freeze(layers: &mut [LayerSpec], seed: u64) {
    if seed % 5 != 3 {
        return;
    }
    let mut forward: Vec<&mut LayerSpec> = layers.iter_mut().filter(|layer| !layer.backward).collect();
    forward.sort_by(|one, other| one.id.cmp(&other.id));
    let first = (seed / 5) as usize % forward.len();
    let more = (seed / 35) as usize % (2 * forward.len());
    for (at, layer) in forward.into_iter().enumerate() {
        layer.frozen = at < first || at == more;
    }
}

/// Gradients of weights: none of a backward pass, a part, or all of it. They are not drawn, so that problems are the same without them.
pub fn add_weights(layers: &mut [LayerSpec]) {
    add_parts(layers, [0.5, 0.0, 1.0, 0.3].into_iter().cycle());
}

/// Gradients of weights: these parts of backward passes, layer by layer.
pub fn add_parts(layers: &mut [LayerSpec], parts: impl Iterator<Item = f64>) {
    for (layer, part) in layers.iter_mut().zip(parts) {
        let of = |backward_ms: Option<f64>| backward_ms.map(|ms| (ms * part * 1e6).floor() / 1e6);
        layer.weight_ms = of(layer.backward_ms);
        for times in layer.times.values_mut() {
            times.weight_ms = of(times.backward_ms);
        }
        for mode in &mut layer.modes {
            mode.weight_ms = of(mode.backward_ms);
        }
    }
}

struct Draw {
    scope: Scope,
    training: bool,
    explicit_backward: bool,
    has_memory: bool,
    /// Transfers take a time of their own instead of bytes over the link.
    measured_transfers: bool,
    /// Times are any number of ns, so that ties are rare and speeds no round numbers.
    unlike_times: bool,
    /// Layers are measured on each kind by itself.
    unrelated_kinds: bool,
    /// The first layer runs on the first kind alone.
    only_on_first: bool,
    /// Some resources have levels, be it beside others that have none.
    some_levels: bool,
    concurrent: bool,
    separate: bool,
    rng: ChaCha8Rng,
}

impl Draw {
    fn may(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.rng.random_range(0..values.len())]
    }

    /// A small whole number, to count bytes.
    fn few(&mut self, most: u32) -> f64 {
        f64::from(self.rng.random_range(0..=most))
    }

    /// A time in ms: whole, so that ties are many and sums exact, or any number of ns, and now and then none.
    fn ms(&mut self, most: u32) -> f64 {
        match self.unlike_times && self.may(0.8) {
            true => f64::from(self.rng.random_range(1..=most * 1_000_000)) / 1e6,
            false => self.few(most),
        }
    }

    fn instance(&mut self, name: String) -> InstanceSpec {
        let [fewest, most] = self.scope.layers;
        let more = most - fewest;
        // Large ones are rare: brute force takes most of the time on them.
        let count = fewest
            + self
                .rng
                .random_range(0..=more)
                .min(self.rng.random_range(0..=more));
        let kinds = match self.scope.mixed {
            true => self.kinds(),
            false => vec![self.one_kind()],
        };
        let mut layers: Vec<LayerSpec> = (0..count).map(|i| self.layer(i, &kinds)).collect();
        let mut tensors = self.tensors(count);
        if !self.scope.chain && self.may(0.15) {
            // Two layers that must share a stage, and with them whatever lies between.
            let (a, b) = (self.rng.random_range(0..count), self.rng.random_range(0..count));
            layers[a].tie = Some("pair".into());
            layers[b].tie = Some("pair".into());
        }
        if self.explicit_backward {
            self.add_backward_graph(&mut layers, &mut tensors);
        }
        // The order of the file must not matter.
        layers.shuffle(&mut self.rng);
        tensors.shuffle(&mut self.rng);
        let groups = match self.scope.mixed && self.may(0.25) {
            true => self.groups(&kinds),
            false => Vec::new(),
        };
        let mut pipeline = self.options(!groups.is_empty());
        // More stages than devices are refused, and nothing is learned from that.
        let devices: usize = kinds.iter().filter_map(|kind| kind.count).sum();
        let given = pipeline.groups == Some(Groups::Given) && !groups.is_empty();
        let most = match (given, kinds[0].count) {
            (true, _) => groups.iter().map(|group| group.count.unwrap_or(1)).sum(),
            (false, Some(_)) => devices,
            (false, None) => usize::MAX,
        };
        pipeline.stages = pipeline.stages.map(|stages| stages.min(most));
        if kinds.len() > 1 && self.may(0.1) {
            pipeline.device_kinds = Some(kinds[1..].iter().map(|kind| kind.name.clone()).collect());
        }
        InstanceSpec {
            name: Some(name),
            network: NetworkSpec {
                layers,
                tensors,
                ..NetworkSpec::default()
            },
            cluster: Some(ClusterSpec {
                device_kinds: kinds,
                link: Some(LinkSpec {
                    bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
                    latency_ms: self.one_of(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.037]),
                    nodes: None,
                }),
                groups,
                ..ClusterSpec::default()
            }),
            pipeline,
            ..InstanceSpec::default()
        }
    }

    fn one_kind(&mut self) -> DeviceKindSpec {
        DeviceKindSpec {
            pays_communication: self.may(0.95),
            ..DeviceKindSpec::default()
        }
    }

    fn kinds(&mut self) -> Vec<DeviceKindSpec> {
        let most_resources = self.rng.random_range(0..=2);
        let same_rates = self.may(0.4);
        (0..self.rng.random_range(1..=3))
            .map(|kind| {
                // Some kinds have resources and others are of one piece.
                let resources = if self.may(0.8) { most_resources } else { 0 };
                DeviceKindSpec {
                    name: ["fast", "medium", "slow"][kind].into(),
                    resources: (0..resources).map(|at| self.resource(at, same_rates)).collect(),
                    count: Some(self.rng.random_range(1..=3)),
                    // From hopeless to ample for networks of this size.
                    memory_bytes: (self.has_memory && self.may(0.8))
                        .then(|| f64::from(self.rng.random_range(10..=80)) * BYTES_PER_MS),
                    pays_communication: self.may(0.8),
                    ..DeviceKindSpec::default()
                }
            })
            .collect()
    }

    fn resource(&mut self, at: usize, same_rates: bool) -> ResourceSpec {
        const RATES: [f64; 7] = [1.0, 1.0, 1.5, 2.0, 3.0, 0.1, 0.3];
        const LEVELS: [&[f64]; 4] = [&[0.5], &[0.25, 0.75], &[0.25, 0.5, 0.75], &[0.1, 0.4, 0.6, 0.9]];
        let shares = match self.some_levels && self.may(0.5) {
            true => self.one_of(&LEVELS),
            false => &[],
        };
        let mut levels = Vec::new();
        for &share in shares {
            levels.push(ShareLevelSpec {
                share,
                // Near the share, more as often as less, and now and then faster than the whole.
                speed: (share + self.one_of(&[-0.09, 0.0, 0.125])).min(1.0)
                    + self.one_of(&[0.0, 0.0, 0.0, 0.2]),
                backward_speed: self.may(0.5).then_some(share),
            });
        }
        ResourceSpec {
            name: ["gpu", "cpu"][at].into(),
            forward_rate: self.one_of(&RATES),
            backward_rate: (!same_rates).then(|| self.one_of(&RATES)),
            levels,
        }
    }

    /// Groups that share out some of the devices: one or two sorts of them, one of which there may be several.
    fn groups(&mut self, kinds: &[DeviceKindSpec]) -> Vec<GroupSpec> {
        let mut groups = vec![GroupSpec::default(), GroupSpec::default()];
        for kind in kinds {
            let count = kind.count.unwrap_or(0);
            let first = self.rng.random_range(0..=count);
            groups[0].devices.insert(kind.name.clone(), first);
            groups[1].devices.insert(kind.name.clone(), count - first);
        }
        if self.may(0.3) {
            let devices = &mut groups[0].devices;
            devices.values_mut().for_each(|devices| *devices /= 2);
            groups.truncate(1);
            groups[0].count = Some(2);
        }
        groups.retain(|group| group.devices.values().sum::<usize>() > 0);
        groups
    }

    fn layer(&mut self, i: usize, kinds: &[DeviceKindSpec]) -> LayerSpec {
        let trains = self.training && !self.explicit_backward;
        let mut layer = LayerSpec {
            id: format!("f{i}"),
            forward_ms: Some(self.ms(6)),
            backward_ms: trains.then(|| self.ms(9)),
            ..LayerSpec::default()
        };
        if self.scope.mixed && self.unrelated_kinds {
            // Now and then a kind cannot run a layer.
            let only_some = self.may(0.1);
            for kind in kinds {
                let times = TimesSpec {
                    forward_ms: Some(self.ms(6)),
                    backward_ms: trains.then(|| self.ms(9)),
                    ..TimesSpec::default()
                };
                if self.may(if only_some { 0.7 } else { 0.9 }) {
                    layer.times.insert(kind.name.clone(), times);
                }
            }
            if only_some && !layer.times.is_empty() {
                (layer.forward_ms, layer.backward_ms) = (None, None);
            }
        } else if self.scope.mixed && self.only_on_first && i == 0 {
            // Kinds that take the same time, where they can run the layer at all.
            let times = TimesSpec {
                forward_ms: layer.forward_ms.take(),
                backward_ms: layer.backward_ms.take(),
                ..TimesSpec::default()
            };
            layer.times.insert(kinds[0].name.clone(), times);
        }
        // Small bytes where the limit is one of the problem, as many as take a transfer's time where devices have their own.
        let unit = if self.scope.mixed { BYTES_PER_MS } else { 1.0 };
        if self.has_memory || self.scope.mixed {
            layer.parameter_bytes = self.few(3) * unit;
            layer.stash_bytes = self.few(3) * unit;
            layer.resident_bytes = self.few(2) * unit;
        }
        layer
    }

    fn tensor(&mut self, producer: String, consumers: Vec<String>) -> TensorSpec {
        // Half of all transfers are free.
        let ms = (self.ms(8) - 4.0).max(0.0);
        TensorSpec {
            producer,
            consumers,
            bytes: (!self.measured_transfers).then_some((ms * BYTES_PER_MS).round()),
            transfer_ms: self.measured_transfers.then_some((ms * 1e6).round() / 1e6),
        }
    }

    /// Tensors from layers to later ones, up to three consumers each.
    fn tensors(&mut self, count: usize) -> Vec<TensorSpec> {
        let name = |i: usize| format!("f{i}");
        let chain = self.scope.chain;
        let mut tensors = Vec::new();
        for producer in 0..count - 1 {
            if chain {
                tensors.push(self.tensor(name(producer), vec![name(producer + 1)]));
            }
            for _ in 0..self.rng.random_range(usize::from(!chain)..=2) {
                let consumers = (0..self.rng.random_range(1..=3))
                    .map(|_| name(self.rng.random_range(producer + 1..count)))
                    .collect();
                tensors.push(self.tensor(name(producer), consumers));
            }
        }
        tensors
    }

    /// Backward operators, each tied to its forward layer, with the tensors turned around and stashes across.
    fn add_backward_graph(&mut self, layers: &mut Vec<LayerSpec>, tensors: &mut Vec<TensorSpec>) {
        for layer in layers.clone() {
            let tie = layer.tie.unwrap_or_else(|| layer.id.clone());
            let id = layer.id.replace('f', "b");
            if let Some(forward) = layers.iter_mut().find(|l| l.id == layer.id) {
                forward.tie = Some(tie.clone());
            }
            layers.push(LayerSpec {
                id,
                backward_ms: Some(self.ms(6)),
                tie: Some(tie),
                backward: true,
                ..LayerSpec::default()
            });
        }
        for tensor in tensors.clone() {
            let back = |id: &String| id.replace('f', "b");
            for consumer in &tensor.consumers {
                let gradient = self.tensor(back(consumer), vec![back(&tensor.producer)]);
                tensors.push(gradient);
            }
            if self.may(0.4) {
                let readers = tensor
                    .consumers
                    .iter()
                    .chain([&tensor.producer])
                    .map(back)
                    .collect();
                let stash = self.tensor(tensor.producer, readers);
                tensors.push(stash);
            }
        }
    }

    fn options(&mut self, has_groups: bool) -> PipelineOptions {
        let (mixed, concurrent) = (self.scope.mixed, self.concurrent);
        let stages = self.rng.random_range(1..=if has_groups { 2 } else { 4 });
        // Workers that differ are asked for periods; it is one of them here and there that lets this be asked.
        let iteration = self.may(if mixed { 0.1 } else { 0.33 });
        let schedule = match (concurrent, self.rng.random_range(0..4)) {
            (true, _) => Schedule::Concurrent,
            (false, 0) => Schedule::Gpipe,
            (false, 1) if !iteration => Schedule::Pipedream,
            (false, _) => Schedule::OneFOneB,
        };
        let needs_count = iteration || schedule == Schedule::Gpipe;
        let communication = match (concurrent, self.rng.random_range(0..5)) {
            (_, 0) => Communication::Ignored,
            (true, _) | (_, 1 | 2) => Communication::Overlapped,
            (false, _) => Communication::Blocking,
        };
        // From hopeless to ample for networks of this size.
        let limit = self.rng.random_range(10..=120 / stages as u64 + 60);
        let memory_limit = match (mixed, self.has_memory) {
            (false, true) => Some(MemoryLimit::Bytes(limit)),
            (true, _) if self.may(0.1) => Some(MemoryLimit::Bytes(limit * BYTES_PER_MS as u64)),
            (true, _) if self.may(0.05) => Some(MemoryLimit::from(None)),
            _ => None,
        };
        let micro_batches = self.rng.random_range(1..=6);
        let shares = [
            Shares::Even,
            Shares::Theorem,
            Shares::Global,
            Shares::Best,
            Shares::Best,
        ];
        let shares = self.one_of(&shares);
        let mixed_only = mixed.then_some(());
        PipelineOptions {
            mode: Some(match self.training {
                true => Mode::Training,
                false => Mode::Inference,
            }),
            stages: Some(stages),
            all_stages: Some(self.may(0.25)),
            objective: Some(match iteration {
                true => Objective::Formula,
                false => Objective::Period,
            }),
            micro_batches: (needs_count || self.may(0.2)).then_some(micro_batches),
            schedule: Some(schedule),
            communication: Some(communication),
            memory_limit,
            cuts: self.separate.then_some(Cuts::Separate),
            worker: mixed_only.map(|()| match concurrent {
                true => WorkerMode::Concurrent,
                false => WorkerMode::Sequential,
            }),
            shares: concurrent.then_some(shares),
            share_parts: (concurrent && self.may(0.25)).then(|| self.rng.random_range(2..=5)),
            groups: mixed_only.map(|()| match self.may(0.4) {
                true => Groups::Assign,
                false => Groups::Given,
            }),
            synchronization: (mixed && self.may(0.3)).then_some(Synchronization::Ring),
            optimizer: Some(self.one_of(&[Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam])),
            ..PipelineOptions::default()
        }
    }
}
