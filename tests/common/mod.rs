//! Small random problems, the same for the same seed.
//!
//! Times are whole milliseconds and sizes a few bytes, so that ties are many, sums are exact, and two methods that agree,
//! agree to the last digit.

// Every test file is a program of its own and uses only some of this.
#![allow(dead_code)]

pub mod mixed;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::instance::Instance;
use stagecut::instance::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};
use stagecut::options::{
    Communication, Cuts, MemoryLimit, Mode, Objective, Optimizer, PipelineOptions, Schedule,
};
use stagecut::problem::Problem;
use stagecut::settings::Settings;

/// Bandwidth at which a million bytes take a millisecond.
const BANDWIDTH_BYTES_PER_S: f64 = 1e9;
const BYTES_PER_MS: f64 = 1e6;

/// A small problem with anything in it, or `None` where the draw is an input fault, such as more non-empty stages than
/// items.
pub fn random_problem(seed: u64) -> Option<(Instance, Problem)> {
    let chain = seed.is_multiple_of(5);
    problem_of(&random_spec(seed, chain))
}

/// A link on which a million bytes take a millisecond.
pub fn link() -> LinkSpec {
    LinkSpec {
        bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
        latency_ms: 0.0,
    }
}

/// The problem that a specification asks, or `None` where it is faulty.
pub fn problem_of(spec: &InstanceSpec) -> Option<(Instance, Problem)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let problem = Problem::new(&instance, settings).ok()?;
    Some((instance, problem))
}

/// Whether the order leaves no choice. Items are numbered along it, so each must be tied to the next.
pub fn is_chain(problem: &Problem) -> bool {
    let pair = |item: usize| ((item as u32).into(), (item as u32 + 1).into());
    (0..problem.items.len() - 1).all(|item| {
        let (from, to) = pair(item);
        problem.order.contains_edge(from, to)
    })
}

/// A network of 4 to 10 layers with options of any kind; a chain has a tensor from every layer to the next.
pub fn random_spec(seed: u64, chain: bool) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Large ones are rare: brute force takes most of the time on them.
    let count = 4 + rng.random_range(0..=6).min(rng.random_range(0..=6));
    spec_of_size(seed, rng, count, chain)
}

/// A problem of at most 8 passes with anything in it, in training and with separate cuts; every fourth one is a chain.
pub fn separate_problem(seed: u64) -> Option<(Instance, Problem)> {
    let spec = separate_spec(seed, 3 + seed as usize % 2, seed.is_multiple_of(4));
    problem_of(&spec).filter(|(_, problem)| problem.items.len() <= 8)
}

/// A chain of so many layers with options of any kind, in training and with separate cuts.
pub fn separate_chain(seed: u64, layers: usize) -> InstanceSpec {
    separate_spec(seed, layers, true)
}

/// A network of so many layers with options of any kind, in training and with separate cuts.
pub fn separate_spec(seed: u64, layers: usize, chain: bool) -> InstanceSpec {
    let rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spec = spec_of_size(seed, rng, layers, chain);
    spec.pipeline.cuts = Some(Cuts::Separate);
    spec.pipeline.mode = Some(Mode::Training);
    spec
}

/// A problem of 12 to 18 layers that asks for a period, or `None` where the draw is faulty or asks for an iteration.
pub fn larger_problem(seed: u64) -> Option<(Instance, Problem)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = rng.random_range(12..=18);
    let spec = spec_of_size(seed, rng, count, false);
    problem_of(&spec).filter(|(_, problem)| problem.iteration_micro_batches().is_none())
}

/// A problem of 12 to 18 passes with separate cuts that asks for a period, or `None` where the draw is faulty.
pub fn larger_separate_problem(seed: u64) -> Option<(Instance, Problem)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = rng.random_range(6..=9);
    let mut spec = spec_of_size(seed, rng, count, false);
    spec.pipeline.cuts = Some(Cuts::Separate);
    spec.pipeline.mode = Some(Mode::Training);
    problem_of(&spec).filter(|(_, problem)| problem.iteration_micro_batches().is_none())
}

fn spec_of_size(seed: u64, mut rng: ChaCha8Rng, count: usize, chain: bool) -> InstanceSpec {
    let mut draw = Draw {
        explicit_backward: rng.random_bool(0.15),
        training: rng.random_bool(0.7),
        has_memory: rng.random_bool(0.5),
        measured_transfers: rng.random_bool(0.5),
        rng,
    };
    let mut layers: Vec<LayerSpec> = (0..count).map(|i| draw.layer(i)).collect();
    let mut tensors = draw.tensors(count, chain);
    if !chain && draw.rng.random_bool(0.2) {
        // Two layers that must share a stage, and with them whatever lies between.
        let (a, b) = (draw.rng.random_range(0..count), draw.rng.random_range(0..count));
        layers[a].tie = Some("pair".into());
        layers[b].tie = Some("pair".into());
    }
    if draw.explicit_backward {
        draw.add_backward_graph(&mut layers, &mut tensors);
    }
    // The order of the file must not matter.
    layers.shuffle(&mut draw.rng);
    tensors.shuffle(&mut draw.rng);
    InstanceSpec {
        name: Some(format!("random-{seed}")),
        network: NetworkSpec {
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                pays_communication: draw.rng.random_bool(0.95),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
                latency_ms: f64::from(u8::from(draw.rng.random_bool(0.1))),
            }),
            ..ClusterSpec::default()
        }),
        pipeline: draw.options(),
        ..InstanceSpec::default()
    }
}

struct Draw {
    explicit_backward: bool,
    training: bool,
    has_memory: bool,
    measured_transfers: bool,
    rng: ChaCha8Rng,
}

impl Draw {
    fn ms(&mut self, most: u32) -> f64 {
        f64::from(self.rng.random_range(0..=most))
    }

    fn layer(&mut self, i: usize) -> LayerSpec {
        let backward_ms = (self.training && !self.explicit_backward).then(|| self.ms(9));
        let mut layer = LayerSpec {
            id: format!("f{i}"),
            forward_ms: Some(self.ms(6)),
            backward_ms,
            ..LayerSpec::default()
        };
        if self.has_memory {
            layer.parameter_bytes = self.ms(3);
            layer.stash_bytes = self.ms(3);
            layer.resident_bytes = self.ms(2);
        }
        layer
    }

    fn tensor(&mut self, producer: String, consumers: Vec<String>) -> TensorSpec {
        // Half of all transfers are free.
        let ms = self.ms(8) - 4.0;
        let ms = ms.max(0.0);
        TensorSpec {
            producer,
            consumers,
            bytes: (!self.measured_transfers).then_some(ms * BYTES_PER_MS),
            transfer_ms: self.measured_transfers.then_some(ms),
        }
    }

    /// Tensors from layers to later ones, up to three consumers each.
    fn tensors(&mut self, count: usize, chain: bool) -> Vec<TensorSpec> {
        let name = |i: usize| format!("f{i}");
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
            if self.rng.random_bool(0.4) {
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

    fn options(&mut self) -> PipelineOptions {
        let rng = &mut self.rng;
        let stages = rng.random_range(1..=4);
        let objective = [Objective::Period, Objective::Period, Objective::Iteration][rng.random_range(0..3)];
        let schedule = match rng.random_range(0..4) {
            0 | 1 => Schedule::OneFOneB,
            2 => Schedule::Gpipe,
            _ if objective == Objective::Iteration => Schedule::Gpipe,
            _ => Schedule::Pipedream,
        };
        let needs_count = objective == Objective::Iteration || schedule == Schedule::Gpipe;
        let micro_batches = rng.random_range(1..=6);
        // From hopeless to ample for networks of this size.
        let memory_limit = rng.random_range(10..=120 / stages as u64 + 60);
        PipelineOptions {
            mode: Some(if self.training {
                Mode::Training
            } else {
                Mode::Inference
            }),
            stages: Some(stages),
            all_stages: Some(rng.random_bool(0.25)),
            objective: Some(objective),
            micro_batches: (needs_count || rng.random_bool(0.2)).then_some(micro_batches),
            schedule: Some(schedule),
            communication: Some(match rng.random_range(0..5) {
                0 => Communication::Ignored,
                1 | 2 => Communication::Overlapped,
                _ => Communication::Blocking,
            }),
            memory_limit: self.has_memory.then_some(MemoryLimit::Bytes(memory_limit)),
            optimizer: Some([Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam][rng.random_range(0..3)]),
            ..PipelineOptions::default()
        }
    }
}
