//! Training graphs of transformers: operator by operator, with backward operators and the optimiser's updates, or a layer a block. Sizes are
//! those of a published model or one's own; `input::transformer` builds the network.

mod presets;
mod shape;

pub use presets::{PRESETS, Preset};

pub use crate::input::transformer::{Attention, Granularity, Phase, Precision};

use clap::ValueEnum;
use serde::Deserialize;

use crate::input::import::unlimited_cluster;
use crate::input::transformer::network;
use crate::model::fault::InputError;
use crate::model::options::PipelineOptions;
use crate::model::spec::{InstanceSpec, SCHEMA};

use shape::Shape;

/// What counts.
pub(crate) const AT_LEAST_ONE: std::ops::RangeInclusive<i64> = 1..=1_000_000;

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

    /// Tokens before these whose keys and values are in a cache: inference, forward alone; `--sequence 1 --context 4096` is a token that is
    /// decoded after 4,096 others
    #[arg(long, value_name = "N", conflicts_with = "micro_batches", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub context: Option<u32>,

    /// What a server does: read a prompt of `--context` tokens, or decode a token behind them; forward alone
    #[arg(long, conflicts_with = "micro_batches")]
    pub phase: Option<Phase>,

    /// Tokens of a prompt that a server reads, where a micro-batch is a whole request, or so many as it has sequences: layers as blocks
    #[arg(long, value_name = "N", requires = "decode_tokens", conflicts_with_all = ["phase", "context", "sequence", "micro_batches"],
        value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub prefill_tokens: Option<u32>,

    /// Tokens that it writes behind the prompt, one pass for each but the first
    #[arg(long, value_name = "N", requires = "prefill_tokens", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub decode_tokens: Option<u32>,

    /// Sequences of a micro-batch [default: 4, of a preset 1]
    #[arg(long, visible_alias = "batch", value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub micro_batch: Option<u32>,

    /// Numbers to compute with, which decides the rates of the device [default: fp32, of a preset bf16]
    #[arg(long)]
    pub precision: Option<Precision>,

    /// How attention is computed
    #[arg(long, default_value = "flash")]
    pub attention: Attention,

    /// Degrees of tensor parallelism to write modes for, which divide the heads of keys and values [default: those of 1,2,4,8 for blocks,
    /// 1 for operators]
    #[arg(long, value_name = "DEGREES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub tensor: Option<Vec<u32>>,

    /// Let tensor groups split by sequence what they do not split by width
    #[arg(long)]
    pub sequence_parallel: bool,

    /// What a layer of the instance is
    #[arg(long, default_value = "operator")]
    pub granularity: Granularity,

    /// Stages of the pipeline, as an option of the file [default: left to `solve --stages`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub stages: Option<u32>,

    /// Micro-batches of an iteration, as an option of the file: each takes its part of the optimiser's step [default: operators have a step
    /// for every micro-batch, blocks none]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(AT_LEAST_ONE))]
    pub micro_batches: Option<u32>,

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
            context: None,
            phase: None,
            prefill_tokens: None,
            decode_tokens: None,
            micro_batch: None,
            precision: None,
            attention: Attention::Flash,
            tensor: None,
            sequence_parallel: false,
            granularity: Granularity::Operator,
            stages: None,
            micro_batches: None,
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

/// Whether it can be built, without doing so.
pub(super) fn check(asked: &Transformer) -> Result<(), InputError> {
    let shape = Shape::new(asked);
    shape
        .map(|_| ())
        .map_err(|faults| InputError { path: None, faults })
}

/// Builds the instance.
///
/// # Errors
///
/// Heads or degrees that do not come out even.
pub fn transformer(asked: &Transformer) -> Result<InstanceSpec, InputError> {
    let shape = Shape::new(asked).map_err(|faults| InputError { path: None, faults })?;
    Ok(InstanceSpec {
        schema: Some(SCHEMA.into()),
        name: Some(match asked.preset {
            Some(preset) => preset.name.into(),
            None => format!("transformer-{}", shape.model.blocks.len()),
        }),
        provenance: Some(format!("generated: {}", shape.in_words(asked))),
        network: network(&shape.model, &shape.run),
        cluster: Some(unlimited_cluster(shape.run.precision.cluster())?),
        pipeline: PipelineOptions {
            stages: asked.stages.map(|stages| stages as usize),
            ..shape.run.pipeline()
        },
    })
}
