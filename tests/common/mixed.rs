//! Small random problems of workers that differ, the same for the same seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::instance::spec::{
    ClusterSpec, DeviceKindSpec, GroupSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, ResourceSpec,
    ShareLevelSpec, TensorSpec, TimesSpec,
};
use stagecut::options::{
    Communication, Groups, Mode, PipelineOptions, Schedule, Shares, Synchronization, WorkerMode,
};
use stagecut::problem::Problem;

use super::{BANDWIDTH_BYTES_PER_S, BYTES_PER_MS, problem_of};

/// A small mixed problem with anything in it, or `None` where the draw is an input fault or workers are alike after all.
pub fn random_mixed(seed: u64) -> Option<(Instance, Problem)> {
    problem_of(&mixed_spec(seed)).filter(|(_, problem)| problem.workers.is_some())
}

/// A network of 3 to 6 layers on 1 to 3 kinds of device, with options of any kind. Every third one is a chain.
pub fn mixed_spec(seed: u64) -> InstanceSpec {
    let rng = ChaCha8Rng::seed_from_u64(seed);
    let chain = seed.is_multiple_of(3);
    let mut draw = Draw {
        training: true,
        unrelated: false,
        has_memory: false,
        concurrent: false,
        rng,
    };
    draw.training = draw.rng.random_bool(0.85);
    draw.unrelated = draw.rng.random_bool(0.3);
    draw.has_memory = draw.rng.random_bool(0.4);
    draw.concurrent = draw.rng.random_bool(0.5);
    let count = draw.rng.random_range(3..=6);
    let kinds = draw.kinds();
    let mut layers: Vec<LayerSpec> = (0..count).map(|i| draw.layer(i, &kinds)).collect();
    if seed.is_multiple_of(7) && !draw.unrelated {
        only_on_first(&mut layers[0], &kinds);
    }
    let tensors = draw.tensors(count, chain);
    let groups = draw.groups(&kinds);
    let mut pipeline = draw.options(!groups.is_empty());
    // More stages than devices are refused, and nothing is learned from that.
    let devices: usize = kinds.iter().filter_map(|kind| kind.count).sum();
    let given = pipeline.groups == Some(Groups::Given) && !groups.is_empty();
    let most = if given { groups.len() } else { devices };
    pipeline.stages = pipeline.stages.map(|stages| stages.min(most));
    InstanceSpec {
        name: Some(format!("mixed-{seed}")),
        network: NetworkSpec {
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        pipeline,
        cluster: Some(ClusterSpec {
            device_kinds: kinds,
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
                latency_ms: f64::from(u8::from(draw.rng.random_bool(0.15))),
            }),
            groups,
        }),
        ..InstanceSpec::default()
    }
}

/// Leaves a layer its times on the first kind alone.
fn only_on_first(layer: &mut LayerSpec, kinds: &[DeviceKindSpec]) {
    let times = TimesSpec {
        forward_ms: layer.forward_ms.take(),
        backward_ms: layer.backward_ms.take(),
    };
    layer.times.insert(kinds[0].name.clone(), times);
}

struct Draw {
    training: bool,
    /// Layers are measured on each kind by itself.
    unrelated: bool,
    has_memory: bool,
    concurrent: bool,
    rng: ChaCha8Rng,
}

impl Draw {
    fn ms(&mut self, most: u32) -> f64 {
        f64::from(self.rng.random_range(0..=most))
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.rng.random_range(0..values.len())]
    }

    fn kinds(&mut self) -> Vec<DeviceKindSpec> {
        let most_resources = self.rng.random_range(0..=2);
        let same_rates = self.rng.random_bool(0.4);
        // The same shares everywhere, so that one share of a type means one level.
        let shares: &[f64] = match self.rng.random_range(0..5) {
            0 => &[0.5],
            1 => &[0.25, 0.75],
            _ => &[],
        };
        (0..self.rng.random_range(1..=3))
            .map(|kind| {
                let resources = (0..most_resources).map(|r| self.resource(r, same_rates, shares));
                DeviceKindSpec {
                    name: ["fast", "medium", "slow"][kind].into(),
                    resources: resources.collect(),
                    count: Some(self.rng.random_range(1..=3)),
                    // From hopeless to ample for networks of this size.
                    memory_bytes: self
                        .has_memory
                        .then(|| f64::from(self.rng.random_range(10..=80)) * BYTES_PER_MS),
                    pays_communication: self.rng.random_bool(0.8),
                    ..DeviceKindSpec::default()
                }
            })
            .collect()
    }

    fn resource(&mut self, at: usize, same_rates: bool, shares: &[f64]) -> ResourceSpec {
        const RATES: [f64; 4] = [1.0, 1.5, 2.0, 3.0];
        let forward_rate = self.one_of(&RATES);
        let level = |&share: &f64| ShareLevelSpec {
            share,
            // Near the share, and more as often as less.
            speed: (share + self.one_of(&[-0.125, 0.0, 0.125])).min(1.0),
            backward_speed: self.rng.random_bool(0.5).then_some(share),
        };
        let levels = shares.iter().map(level).collect();
        ResourceSpec {
            name: ["gpu", "cpu"][at].into(),
            forward_rate,
            backward_rate: (!same_rates).then(|| self.one_of(&RATES)),
            levels,
        }
    }

    fn layer(&mut self, i: usize, kinds: &[DeviceKindSpec]) -> LayerSpec {
        let mut layer = LayerSpec {
            id: format!("f{i}"),
            forward_ms: Some(self.ms(6)),
            backward_ms: self.training.then(|| self.ms(9)),
            ..LayerSpec::default()
        };
        if self.unrelated {
            // Now and then a kind cannot run a layer.
            let only_some = self.rng.random_bool(0.1);
            for kind in kinds {
                let times = TimesSpec {
                    forward_ms: Some(self.ms(6)),
                    backward_ms: self.training.then(|| self.ms(9)),
                };
                if !only_some || self.rng.random_bool(0.7) {
                    layer.times.insert(kind.name.clone(), times);
                }
            }
            if only_some && !layer.times.is_empty() {
                (layer.forward_ms, layer.backward_ms) = (None, None);
            }
        }
        layer.parameter_bytes = self.ms(3) * BYTES_PER_MS;
        layer.stash_bytes = self.ms(3) * BYTES_PER_MS;
        layer
    }

    fn tensors(&mut self, count: usize, chain: bool) -> Vec<TensorSpec> {
        let name = |i: usize| format!("f{i}");
        let mut tensors = Vec::new();
        for producer in 0..count - 1 {
            let mut consumers: Vec<String> = (0..self.rng.random_range(1..=2))
                .map(|_| name(self.rng.random_range(producer + 1..count)))
                .collect();
            if chain {
                consumers = vec![name(producer + 1)];
            }
            tensors.push(TensorSpec {
                producer: name(producer),
                consumers,
                // Half of all transfers are free.
                bytes: Some((self.ms(6) - 3.0).max(0.0) * BYTES_PER_MS),
                transfer_ms: None,
            });
        }
        tensors
    }

    /// Now and then groups that share out the devices: some of each kind, and what is left of it.
    fn groups(&mut self, kinds: &[DeviceKindSpec]) -> Vec<GroupSpec> {
        if self.rng.random_bool(0.75) {
            return Vec::new();
        }
        let mut groups = vec![GroupSpec::default(), GroupSpec::default()];
        for kind in kinds {
            let count = kind.count.unwrap_or(0);
            let first = self.rng.random_range(0..=count);
            groups[0].devices.insert(kind.name.clone(), first);
            groups[1].devices.insert(kind.name.clone(), count - first);
        }
        groups.retain(|group| group.devices.values().sum::<usize>() > 0);
        groups
    }

    fn options(&mut self, has_groups: bool) -> PipelineOptions {
        let concurrent = self.concurrent;
        let assign = self.rng.random_bool(0.4);
        let schedule = match (concurrent, self.rng.random_range(0..4)) {
            (true, _) => Schedule::Concurrent,
            (false, 0) => Schedule::Gpipe,
            (false, 1) => Schedule::Pipedream,
            (false, _) => Schedule::OneFOneB,
        };
        let communication = match (concurrent, self.rng.random_range(0..4)) {
            (_, 0) => Communication::Ignored,
            (true, _) | (_, 1) => Communication::Overlapped,
            (false, _) => Communication::Blocking,
        };
        let micro_batches = self.rng.random_range(1..=6);
        let needs_count = schedule == Schedule::Gpipe || self.rng.random_bool(0.2);
        let shares = self.one_of(&[
            Shares::Even,
            Shares::Theorem,
            Shares::Global,
            Shares::Best,
            Shares::Best,
        ]);
        PipelineOptions {
            mode: Some(if self.training {
                Mode::Training
            } else {
                Mode::Inference
            }),
            stages: Some(self.rng.random_range(1..=if has_groups { 2 } else { 4 })),
            all_stages: Some(self.rng.random_bool(0.25)),
            micro_batches: needs_count.then_some(micro_batches),
            schedule: Some(schedule),
            worker: Some(if concurrent {
                WorkerMode::Concurrent
            } else {
                WorkerMode::Sequential
            }),
            communication: Some(communication),
            shares: concurrent.then_some(shares),
            share_parts: (concurrent && self.rng.random_bool(0.25)).then(|| self.rng.random_range(2..=5)),
            groups: Some(if assign { Groups::Assign } else { Groups::Given }),
            synchronization: self.rng.random_bool(0.25).then_some(Synchronization::Ring),
            ..PipelineOptions::default()
        }
    }
}
