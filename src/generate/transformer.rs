//! Training graphs of transformers at the level of operators: attention, MLP, residuals, their backward operators, and the
//! optimiser's updates, tied to the operators whose parameters they change.
//!
//! A block is that of A. Vaswani et al., *Attention is all you need*, NeurIPS 2017, with normalisation first (R. Xiong et al.,
//! *On layer normalization in the transformer architecture*, ICML 2020). Times are rooflines of one device, spread by
//! a seeded factor, so that no two operators are quite alike; they are made up, and only their proportions mean anything.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::instance::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, SCHEMA, TensorSpec,
};
use crate::options::PipelineOptions;

/// What to generate.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Transformer {
    /// Operators to aim at, backward ones and optimiser updates among them; whole blocks are made
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub operators: u32,

    /// Width of the model
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hidden: u32,

    /// Tokens of a sequence
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sequence: u32,

    /// Sequences of a micro-batch
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub micro_batch: u32,

    /// Stages of the pipeline
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub stages: u32,

    /// Seed of the spread of times
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Rates of the device that the rooflines assume: single precision and memory of an NVIDIA A100 40 GB SXM (NVIDIA A100
/// data sheet, 2020), and NVLink 3.0 to the neighbours.
const FLOPS_PER_S: f64 = 19.5e12;
const MEMORY_BYTES_PER_S: f64 = 1555e9;
const LINK_BYTES_PER_S: f64 = 300e9;

/// Bytes of a number.
const PRECISION_BYTES: f64 = 4.0;

/// Times of equal operators differ by up to this factor, either way.
const SPREAD: f64 = 0.1;

/// An operator of a block: its name, what it reads, FLOPs, bytes of its output, bytes of its parameters.
struct Operator {
    name: &'static str,
    reads: &'static [&'static str],
    flops: f64,
    output_bytes: f64,
    parameter_bytes: f64,
}

/// Builds the instance.
pub fn transformer(asked: &Transformer) -> InstanceSpec {
    let block = block(asked);
    let with_parameters = block.iter().filter(|op| op.parameter_bytes > 0.0).count();
    let per_block = 2 * block.len() + with_parameters;
    let blocks = (asked.operators as usize).div_ceil(per_block);
    let mut builder = Builder {
        rng: ChaCha8Rng::seed_from_u64(asked.seed),
        layers: Vec::with_capacity(blocks * per_block),
        tensors: Vec::new(),
        tensor_of: HashMap::new(),
    };
    for number in 0..blocks {
        builder.forward(number, &block);
    }
    for number in (0..blocks).rev() {
        builder.backward(number, &block, number + 1 == blocks);
    }
    InstanceSpec {
        schema: Some(SCHEMA.into()),
        name: Some(format!("transformer-{}", builder.layers.len())),
        provenance: Some(format!("generated: {asked:?}")),
        network: NetworkSpec {
            file: None,
            layers: builder.layers,
            tensors: builder.tensors,
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "a100".into(),
                ..Default::default()
            }],
            groups: Vec::new(),
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: LINK_BYTES_PER_S,
                latency_ms: 0.0,
            }),
        }),
        pipeline: PipelineOptions {
            stages: Some(asked.stages as usize),
            ..Default::default()
        },
    }
}

/// The operators of one block, `input` standing for the output of the one before.
fn block(asked: &Transformer) -> Vec<Operator> {
    let (hidden, sequence, batch) = (
        asked.hidden as f64,
        asked.sequence as f64,
        asked.micro_batch as f64,
    );
    let tokens = sequence * batch;
    let state = tokens * hidden * PRECISION_BYTES;
    let scores = batch * sequence * sequence * PRECISION_BYTES * (hidden / 64.0).max(1.0);
    let matrix = |name, reads, inputs: f64, outputs: f64| Operator {
        name,
        reads,
        flops: 2.0 * tokens * inputs * outputs,
        output_bytes: tokens * outputs * PRECISION_BYTES,
        parameter_bytes: inputs * outputs * PRECISION_BYTES,
    };
    let plain = |name, reads, flops, output_bytes| Operator {
        name,
        reads,
        flops,
        output_bytes,
        parameter_bytes: 0.0,
    };
    let norm = |name, reads| Operator {
        parameter_bytes: 2.0 * hidden * PRECISION_BYTES,
        ..plain(name, reads, 8.0 * tokens * hidden, state)
    };
    let attention = 2.0 * tokens * sequence * hidden;
    vec![
        norm("norm1", &["input"]),
        matrix("query", &["norm1"], hidden, hidden),
        matrix("key", &["norm1"], hidden, hidden),
        matrix("value", &["norm1"], hidden, hidden),
        plain("scores", &["query", "key"], attention, scores),
        plain("softmax", &["scores"], 5.0 * scores / PRECISION_BYTES, scores),
        plain("context", &["softmax", "value"], attention, state),
        matrix("project", &["context"], hidden, hidden),
        plain("residual1", &["project", "input"], tokens * hidden, state),
        norm("norm2", &["residual1"]),
        matrix("expand", &["norm2"], hidden, 4.0 * hidden),
        plain("gelu", &["expand"], 32.0 * tokens * hidden, 4.0 * state),
        matrix("contract", &["gelu"], 4.0 * hidden, hidden),
        plain("output", &["contract", "residual1"], tokens * hidden, state),
    ]
}

struct Builder {
    rng: ChaCha8Rng,
    layers: Vec<LayerSpec>,
    tensors: Vec<TensorSpec>,
    /// Position of the tensor that a layer produces.
    tensor_of: HashMap<String, usize>,
}

impl Builder {
    fn forward(&mut self, number: usize, block: &[Operator]) {
        for op in block {
            let id = format!("b{number}.{}", op.name);
            let forward_ms = self.time_ms(op, 1.0);
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(op.name.into()),
                forward_ms: Some(forward_ms),
                parameter_bytes: op.parameter_bytes,
                tie: Some(id.clone()),
                ..Default::default()
            });
            for read in op.reads {
                if let Some(from) = source(number, read) {
                    self.flow(from, id.clone());
                }
            }
            self.produce(id, op.output_bytes);
        }
    }

    /// Backward operators read the gradients of what consumed their output, and what they kept; the updates follow.
    fn backward(&mut self, number: usize, block: &[Operator], is_last: bool) {
        for op in block.iter().rev() {
            let tie = format!("b{number}.{}", op.name);
            let id = format!("{tie}.grad");
            // Two products, for the input and for the parameters; one where there are none.
            let weight = if op.parameter_bytes > 0.0 { 2.0 } else { 1.0 };
            let backward_ms = self.time_ms(op, weight);
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(format!("{}.grad", op.name)),
                backward_ms: Some(backward_ms),
                tie: Some(tie.clone()),
                backward: true,
                ..Default::default()
            });
            self.flow(tie.clone(), id.clone());
            let readers = block.iter().filter(|reader| reader.reads.contains(&op.name));
            for reader in readers {
                self.flow(format!("b{number}.{}.grad", reader.name), id.clone());
            }
            if op.name == "output" && !is_last {
                for reader in block.iter().filter(|reader| reader.reads.contains(&"input")) {
                    self.flow(format!("b{}.{}.grad", number + 1, reader.name), id.clone());
                }
            }
            self.produce(id.clone(), op.output_bytes);
            if op.parameter_bytes > 0.0 {
                let update = format!("{tie}.update");
                self.layers.push(LayerSpec {
                    id: update.clone(),
                    operator: Some("update".into()),
                    backward_ms: Some(1e3 * 4.0 * op.parameter_bytes / MEMORY_BYTES_PER_S),
                    tie: Some(tie),
                    backward: true,
                    ..Default::default()
                });
                self.flow(id, update);
            }
        }
    }

    /// Roofline of an operator, spread at random.
    fn time_ms(&mut self, op: &Operator, weight: f64) -> f64 {
        let seconds = (op.flops / FLOPS_PER_S).max(2.0 * op.output_bytes / MEMORY_BYTES_PER_S);
        1e3 * weight * seconds * self.rng.random_range(1.0 - SPREAD..1.0 + SPREAD)
    }

    /// The output of a layer; it becomes a tensor with its first reader.
    fn produce(&mut self, producer: String, bytes: f64) {
        self.tensor_of.insert(producer.clone(), self.tensors.len());
        self.tensors.push(TensorSpec {
            producer,
            bytes: Some(bytes),
            ..Default::default()
        });
    }

    fn flow(&mut self, from: String, to: String) {
        if let Some(&tensor) = self.tensor_of.get(&from) {
            self.tensors[tensor].consumers.push(to);
        }
    }
}

/// The layer that a block's operator reads; the first block reads the network's input, which is none.
fn source(number: usize, read: &str) -> Option<String> {
    match (read, number) {
        ("input", 0) => None,
        ("input", _) => Some(format!("b{}.output", number - 1)),
        _ => Some(format!("b{number}.{read}")),
    }
}
