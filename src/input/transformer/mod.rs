//! Networks of transformers: what a model is made of ([`Model`]) and how it is run ([`Run`]) become layers and tensors, operator by
//! operator or a layer a block. Generated networks and configurations of published models are both built here, so that there is one
//! definition of what a block computes, moves and holds.
//!
//! A block is that of A. Vaswani et al., *Attention is all you need*, NeurIPS 2017, with normalisation first (R. Xiong et al.,
//! *On layer normalization in the transformer architecture*, ICML 2020), behind, or both; key and value heads may be fewer than query heads
//! (J. Ainslie et al., *GQA*, EMNLP 2023) or come from a latent vector (DeepSeek-AI, *DeepSeek-V2*, 2024), the MLP may be gated (N. Shazeer,
//! *GLU variants improve transformer*, 2020) or one of several experts that a router chooses (N. Shazeer et al., *Outrageously large neural
//! networks*, ICLR 2017), and a state space may take the place of attention (T. Dao, A. Gu, *Transformers are SSMs*, ICML 2024).
//!
//! Layers carry work, so that a cluster with rates times them. FLOPs are those of the operators, and bytes what these read and write:
//! inputs, outputs and parameters, once a pass, as `roofline` has it. Where asked, both are spread by a seeded factor, so that
//! no two operators are quite alike. An optimiser's step belongs to an iteration: operators have a layer for it, blocks take their part
//! of it where the micro-batches of an iteration are given. Behind a cache of keys and values there is a forward pass alone.
//!
//! Layers have [modes](crate::problem::modes) where there is more than one way to run them: the tensor degrees asked for, and what can be
//! computed again. Attention is that of T. Dao et al., *FlashAttention*, NeurIPS 2022, unless its matrices are asked for.

mod experts;
mod graph;
mod mixer;
mod model;
mod modes;
mod operator;
mod parts;
mod request;
mod summary;

pub(crate) use model::{
    Biases, Block, Embedding, Experts, FeedForward, HeadNorms, Heads, Latent, Mamba, Mixer, Mlp, Model, Norm,
    NormPlace, Predictor, Projection, Tower,
};
pub(crate) use parts::MOST_PROJECTIONS;
pub use summary::{LayerRun, Summary};
#[cfg(feature = "onnx")]
pub(crate) use {experts::touched, mixer::FLASH_BACKWARD};

use serde::Deserialize;

use crate::model::fault::{Fault, FaultKind};
use crate::model::options::PipelineOptions;
use crate::model::setting;
use crate::model::spec::{MicroBatchSpec, NetworkSpec};
use crate::model::words::words;

use graph::Builder;

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// In tiles: the matrix of all pairs of tokens is neither kept nor moved through memory.
    #[default]
    Flash,
    /// The matrix of all pairs of tokens is written, and kept for the backward pass.
    Materialised,
}

/// Numbers to compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Four bytes, without tensor cores.
    #[default]
    Fp32,
    /// Two bytes, on tensor cores.
    Bf16,
}

/// What a layer of the instance is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// An operator, forward or backward, or an update.
    #[default]
    Operator,
    /// A block, both ways.
    Block,
}

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It reads the prompt: all its tokens at once, and the logits of the last one alone.
    Prefill,
    /// It writes a token behind those in the cache.
    Decode,
}

impl Phase {
    /// Tokens of a sequence that a pass takes in, and those before them in the cache.
    ///
    /// `context` are the tokens of the prompt, or before the one that is decoded; where `sequence` is said, those before it.
    pub(crate) fn tokens(self, sequence: Option<u32>, context: Option<u32>, most: f64) -> [f64; 2] {
        let [sequence, context] = [sequence, context].map(|tokens| tokens.map(f64::from));
        match (self, sequence) {
            (Self::Prefill, None) => [context.unwrap_or(most), 0.0],
            (Self::Prefill, Some(sequence)) => [sequence, context.unwrap_or(0.0)],
            (Self::Decode, sequence) => [sequence.unwrap_or(1.0), context.unwrap_or(most)],
        }
    }
}

impl From<Precision> for crate::model::precision::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 => Self::Fp32,
            Precision::Bf16 => Self::Bf16,
        }
    }
}

impl Precision {
    /// Bytes of a number.
    pub(crate) fn bytes(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Bf16 => 2.0,
        }
    }

    /// The preset of the cluster that an instance is written with.
    pub(crate) fn cluster(self) -> &'static str {
        match self {
            Self::Fp32 => "a100",
            Self::Bf16 => "a100-bf16",
        }
    }
}

/// How a model is run, with nothing left open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// Tokens of a sequence.
    pub sequence: f64,
    /// Tokens before the sequence whose keys and values are cached; there is a forward pass alone then.
    pub context: Option<f64>,
    /// What a server does, where that is said.
    pub phase: Option<Phase>,
    /// Tokens that it writes behind the prompt which it reads, where a micro-batch is all of that.
    pub written: Option<u32>,
    /// Sequences of a micro-batch.
    pub micro_batch: f64,
    pub precision: Precision,
    pub attention: Attention,
    /// Tensor degrees to write modes for, ascending.
    pub degrees: Vec<u32>,
    /// Whether what is not split by width is split by sequence.
    pub sequence_parallel: bool,
    pub granularity: Granularity,
    /// Micro-batches of an iteration, each of which takes its part of the optimiser's step.
    pub micro_batches: Option<u32>,
    /// By up to which part operators differ from their work, either way.
    pub spread: f64,
    /// Seed of that.
    pub seed: u64,
}

/// Degrees that are written for blocks where none are asked for: up to a node of eight devices.
const DEGREES: [u32; 4] = [1, 2, 4, 8];

impl Run {
    /// Whether there is a backward pass: not behind a cache.
    pub fn trains(&self) -> bool {
        self.context.is_none()
    }

    /// Tokens of a micro-batch.
    pub fn tokens(&self) -> f64 {
        self.sequence * self.micro_batch
    }

    /// Whether it is a prompt from its first token on, of which chunks can be a part.
    fn reads_prompts(&self) -> bool {
        self.phase == Some(Phase::Prefill) && self.context == Some(0.0)
    }

    /// Tokens of each sequence that the head is asked about: of a prompt, the last.
    fn told(&self) -> f64 {
        match self.phase {
            Some(Phase::Prefill) => 1.0,
            Some(Phase::Decode) | None => self.sequence,
        }
    }

    /// What a file asks of the caches: room for what is in them behind the pass.
    pub fn pipeline(&self) -> PipelineOptions {
        let written = self.written.map_or(0, u64::from);
        let tokens = self
            .context
            .map(|context| (context + self.sequence) as u64 + written);
        PipelineOptions {
            sequences: tokens.map(|_| self.micro_batch as u64),
            context: tokens,
            micro_batches: self.micro_batches.map(u64::from),
            ..PipelineOptions::default()
        }
    }
}

/// Of the degrees of a node, or of those asked for, the ones to write modes for, ascending: a device has whole heads of keys and values.
pub(crate) fn degrees(asked: Option<&[u32]>, granularity: Granularity, heads: &[u32]) -> Vec<u32> {
    let mut degrees = match (asked, granularity) {
        (Some(degrees), _) => degrees.to_vec(),
        (None, Granularity::Block) => {
            let fits = |degree: &u32| heads.iter().all(|heads| heads.is_multiple_of(*degree));
            DEGREES.into_iter().filter(fits).collect()
        }
        (None, Granularity::Operator) => vec![1],
    };
    degrees.sort_unstable();
    degrees.dedup();
    degrees
}

/// Whole requests whose operators are layers: those that read a prompt are others than those that write behind a cache.
pub(crate) fn request_in_pieces(written: Option<u32>, granularity: Granularity) -> Option<Fault> {
    let kind = FaultKind::Contradiction {
        found: "layers as operators".into(),
        expected: words!("{}", setting::GRANULARITY.given("block")),
    };
    let is_wrong = written.is_some() && granularity == Granularity::Operator;
    is_wrong.then(|| Fault::new(setting::DECODE_TOKENS, kind))
}

/// Degrees asked for that do not divide heads of keys and values.
pub(crate) fn uneven_degrees(asked: Option<&[u32]>, heads: u32) -> Vec<Fault> {
    let uneven = asked.into_iter().flatten();
    let uneven = uneven.filter(|degree| !heads.is_multiple_of(**degree));
    let fault = |degree: &u32| {
        let kind = FaultKind::Conflict {
            found: format!("a tensor degree of {degree} for {heads} heads of keys and values").into(),
            expected: "degrees that divide these heads: a device of a tensor group has whole ones".into(),
            remedy: words!(
                "try {}",
                setting::TENSOR.given(nearest_divisor(heads, f64::from(*degree)))
            ),
        };
        Fault::new(setting::TENSOR, kind)
    };
    uneven.map(fault).collect()
}

/// The divisor of a width that comes nearest to a number of heads.
pub(crate) fn nearest_divisor(width: u32, heads: f64) -> u32 {
    let divisors = (1..=width).filter(|&divisor| width.is_multiple_of(divisor));
    let distance = |divisor: &u32| (f64::from(*divisor) - heads).abs();
    divisors
        .min_by(|one, other| distance(one).total_cmp(&distance(other)))
        .unwrap_or(1)
}

/// Forward and backward operators of a block, and the updates of its parameters.
#[cfg(feature = "cli")]
pub(crate) fn operators_of_a_block(block: &Block, width: f64, run: &Run) -> u32 {
    let operators = block.operators(&parts::Scope::of_run(run, width));
    if !run.trains() {
        return operators.len() as u32;
    }
    let with_parameters = operators.iter().filter(|op| op.parameters.held > 0.0).count();
    (2 * operators.len() + with_parameters) as u32
}

/// The layers and tensors of a model, and what its micro-batch is.
pub(crate) fn network(model: &Model, run: &Run) -> NetworkSpec {
    if let Some(written) = run.written {
        return request::network_of(model, run, written);
    }
    let parts = parts::parts(model, run);
    let mut builder = Builder::new(run);
    match run.granularity {
        Granularity::Operator => builder.operators(run, &parts),
        Granularity::Block => builder.blocks(run, &parts),
    }
    let operators = parts.iter().flat_map(|part| &part.operators);
    let model_flops: f64 = operators.map(|op| op.model_flops).sum();
    NetworkSpec {
        precision: Some(run.precision.into()),
        micro_batch: Some(MicroBatchSpec {
            tokens: run.tokens(),
            sequences: Some(run.micro_batch as u64),
            forward_flops: Some(model_flops),
            // A product for each of the two operands of every product.
            backward_flops: run.trains().then_some(2.0 * model_flops),
            passes: None,
        }),
        layers: builder.layers,
        tensors: builder.tensors,
        ..NetworkSpec::default()
    }
}
