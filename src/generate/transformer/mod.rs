//! Training graphs of transformers: operator by operator, with backward operators and the optimiser's updates, or a layer a
//! block.
//!
//! A block is that of A. Vaswani et al., *Attention is all you need*, NeurIPS 2017, with normalisation first (R. Xiong et al.,
//! *On layer normalization in the transformer architecture*, ICML 2020); key and value heads may be fewer than query heads
//! (J. Ainslie et al., *GQA*, EMNLP 2023), and the MLP may be gated (N. Shazeer, *GLU variants improve transformer*, 2020).
//!
//! Layers carry work, so that a cluster with rates times them. FLOPs are those of the operators, and bytes those of their
//! outputs, twice, for writing and reading. Where asked, both are spread by a seeded factor, so that no two operators are quite alike.
//!
//! Layers have [modes](crate::modes) where there is more than one way to run them: the tensor degrees asked for, and what can be
//! computed again. Attention is that of T. Dao et al., *FlashAttention*, NeurIPS 2022, unless its matrices are asked for.

mod block;
mod graph;
mod modes;
mod presets;

pub use presets::{PRESETS, Preset};

use clap::ValueEnum;
use serde::Deserialize;

use crate::options::PipelineOptions;
use crate::spec::{ClusterSpec, DeviceKindSpec, InstanceSpec, LinkSpec, NetworkSpec, SCHEMA};

use block::Shape;
use graph::Builder;

const AT_LEAST_ONE: std::ops::RangeInclusive<i64> = 1..=1_000_000;

/// What to generate. What is not given is the preset's, or else the default.
#[derive(Clone, Debug, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct Transformer {
    /// Start from a published model; `--help` lists them
    #[serde(deserialize_with = "presets::deserialize")]
    #[arg(long, value_name = "NAME", value_parser = presets::parse, long_help = presets::help())]
    pub preset: Option<&'static Preset>,

    /// Blocks of attention and MLP
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub layers: Option<u32>,

    /// Instead of `--layers`: operators to aim at, backward ones and updates among them [default: 10000]
    #[arg(long, value_name = "N", conflicts_with_all = ["layers", "preset", "granularity"],
        value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub operators: Option<u32>,

    /// Width of the model [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub hidden: Option<u32>,

    /// Heads of attention [default: one for 64 of the width]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub heads: Option<u32>,

    /// Heads of keys and values, where several query heads share one [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub key_value_heads: Option<u32>,

    /// Width inside the MLP [default: four times the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub feed_forward: Option<u32>,

    /// Kind of MLP [default: gelu]
    #[arg(long)]
    pub mlp: Option<Mlp>,

    /// Words known; adds an embedding before the blocks and a head with the loss behind them [default: neither]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub vocabulary: Option<u32>,

    /// Tokens of a sequence [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub sequence: Option<u32>,

    /// Sequences of a micro-batch [default: 4, of a preset 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub micro_batch: Option<u32>,

    /// Numbers to compute with, which decides the rates of the device [default: fp32, of a preset bf16]
    #[arg(long)]
    pub precision: Option<Precision>,

    /// How attention is computed
    #[arg(long, default_value = "flash")]
    pub attention: Attention,

    /// Degrees of tensor parallelism to write modes for; those that do not divide the heads of keys and values are left out
    /// [default: 1,2,4,8 of blocks, 1 of operators]
    #[arg(long, value_name = "DEGREES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub tensor: Option<Vec<u32>>,

    /// Let tensor groups split by sequence what they do not split by width
    #[arg(long)]
    pub sequence_parallel: bool,

    /// What a layer of the instance is
    #[arg(long, default_value = "operator")]
    pub granularity: Granularity,

    /// Stages of the pipeline
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub stages: u32,

    /// By up to which part operators take longer or shorter than their work says, at random, such as 0.1
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = spread)]
    #[serde(deserialize_with = "read_spread")]
    pub spread: f64,

    /// Seed of the spread of times
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

fn spread(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..1.0).contains(part));
    part.ok_or_else(|| "expected a part from 0 to less than 1, such as 0.1".into())
}

fn read_spread<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    spread(&f64::deserialize(from)?.to_string()).map_err(serde::de::Error::custom)
}

impl Default for Transformer {
    fn default() -> Self {
        Self {
            preset: None,
            layers: None,
            operators: None,
            hidden: None,
            heads: None,
            key_value_heads: None,
            feed_forward: None,
            mlp: None,
            vocabulary: None,
            sequence: None,
            micro_batch: None,
            precision: None,
            attention: Attention::Flash,
            tensor: None,
            sequence_parallel: false,
            granularity: Granularity::Operator,
            stages: 32,
            spread: 0.0,
            seed: 0,
        }
    }
}

/// Kinds of MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mlp {
    /// Two matrices with GELU between them.
    #[default]
    Gelu,
    /// Three matrices, one of them a gate.
    Swiglu,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// In tiles: the matrix of all pairs of tokens is neither kept nor moved through memory.
    #[default]
    Flash,
    /// The matrix of all pairs of tokens is written, and kept for the backward pass.
    Materialised,
}

/// Numbers to compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Four bytes, without tensor cores.
    #[default]
    Fp32,
    /// Two bytes, on tensor cores.
    Bf16,
}

/// What a layer of the instance is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// An operator, forward or backward, or an update.
    #[default]
    Operator,
    /// A block, both ways.
    Block,
}

impl From<Precision> for crate::precision::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 => Self::Fp32,
            Precision::Bf16 => Self::Bf16,
        }
    }
}

impl Precision {
    /// Bytes of a number.
    fn bytes(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Bf16 => 2.0,
        }
    }

    /// Arithmetic and memory rate of the device that the instance is written with.
    ///
    /// NVIDIA A100 data sheet: 19.5 TFLOP/s in FP32, 312 TFLOP/s in BF16 on tensor cores (without sparsity); 1,555 GB/s of
    /// the 40 GB SXM version.
    fn rates(self) -> (f64, f64) {
        match self {
            Self::Fp32 => (19.5e12, 1555e9),
            Self::Bf16 => (312e12, 1555e9),
        }
    }
}

/// The link that the instance is written with: third-generation NVLink of an A100, 300 GB/s in each direction.
const LINK_BYTES_PER_S: f64 = 300e9;

/// Builds the instance.
pub fn transformer(asked: &Transformer) -> InstanceSpec {
    let shape = Shape::of(asked);
    let mut builder = Builder::new(asked.spread, asked.seed);
    match asked.granularity {
        Granularity::Operator => builder.operators(&shape),
        Granularity::Block => builder.blocks(&shape),
    }
    let (layers, tensors) = (builder.layers, builder.tensors);
    let (flops_per_s, memory_bytes_per_s) = shape.precision.rates();
    InstanceSpec {
        schema: Some(SCHEMA.into()),
        name: Some(match asked.preset {
            Some(preset) => preset.name.into(),
            None => format!("transformer-{}", layers.len()),
        }),
        provenance: Some(format!("generated: {}", shape.in_words(asked))),
        network: NetworkSpec {
            precision: Some(shape.precision.into()),
            layers,
            tensors,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "a100".into(),
                flops_per_s: Some(flops_per_s),
                precision: Some(shape.precision.into()),
                memory_bytes_per_s: Some(memory_bytes_per_s),
                ..Default::default()
            }],
            groups: Vec::new(),
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: LINK_BYTES_PER_S,
                latency_ms: 0.0,
                nodes: None,
            }),
        }),
        pipeline: PipelineOptions {
            stages: Some(asked.stages as usize),
            ..Default::default()
        },
    }
}
