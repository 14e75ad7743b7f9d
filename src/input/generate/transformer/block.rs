//! The shape of a transformer and the operators of its parts.

use super::{Attention, Granularity, Mlp, Precision, Transformer};
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::words::{Setting, Words, words};

/// An operator: its name, what it reads, FLOPs, bytes of its output, bytes of its parameters.
pub(super) struct Operator {
    pub name: &'static str,
    pub reads: &'static [&'static str],
    pub flops: f64,
    /// Of these, the FLOPs that the model asks for however it is computed: those of matrix products.
    pub model_flops: f64,
    pub output_bytes: f64,
    pub parameter_bytes: f64,
    /// Bytes of the keys and values of earlier tokens, which it reads.
    pub cache_bytes: f64,
    /// How many times the FLOPs of the forward pass the backward one takes.
    pub backward: f64,
    /// How many of these are gradients of parameters, for which no operator waits.
    pub weight: f64,
    pub kind: Kind,
    pub group: Group,
    /// Whether selective recomputation computes it again.
    pub is_core: bool,
}

/// What moves through memory in the passes of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A product: backward, one product more for each operand.
    Product,
    /// Rows of a table.
    LookUp,
    /// A sum, whose terms all have the gradient of its output.
    Sum,
    /// Backward, it reads its inputs again.
    OfInputs,
    /// Backward, it reads inputs and output again.
    OfInputsAndOutput,
}

/// What a tensor group does with an operator (M. Shoeybi et al., *Megatron-LM*, 2019, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Each device does all of it, or a part of the sequence.
    Whole,
    /// Each device does a part of it, and has that part of its output.
    Split,
    /// Each device does a part of it, and the outputs are summed up.
    Reduced,
}

/// All that decides the graph, with nothing left open.
pub(super) struct Shape {
    pub blocks: u32,
    hidden: f64,
    heads: f64,
    key_value_heads: f64,
    feed_forward: f64,
    mlp: Mlp,
    pub vocabulary: Option<u32>,
    sequence: f64,
    /// Tokens before the sequence whose keys and values are cached.
    context: f64,
    micro_batch: f64,
    pub precision: Precision,
    pub precision_bytes: f64,
    attention: Attention,
    /// Tensor degrees to write modes for, ascending.
    pub degrees: Vec<u32>,
    /// Whether what is not split by width is split by sequence.
    pub sequence_parallel: bool,
    /// Whether there is a backward pass: not behind a cache.
    pub trains: bool,
}

/// Products of matrices that attention takes backward for one forward: its five, with the scores computed again, for two (T. Dao,
/// *FlashAttention-2*, ICLR 2024, section 3.1.2).
const FLASH_BACKWARD: f64 = 2.5;

/// Degrees that are written for blocks where none are asked for: up to a node of eight devices.
const DEGREES: [u32; 4] = [1, 2, 4, 8];

/// Width of a head where heads are not given.
const HEAD_WIDTH: f64 = 64.0;

impl Shape {
    /// What was asked, then the preset, then the defaults.
    ///
    /// # Errors
    ///
    /// Heads that do not divide the width, or that tensor groups or heads of keys and values do not divide.
    pub(super) fn new(asked: &Transformer) -> Result<Self, Vec<Fault>> {
        let preset = asked.preset;
        let hidden = asked.hidden.or(preset.map(|p| p.hidden)).unwrap_or(1024);
        let heads = asked.heads.or(preset.map(|p| p.heads));
        let heads = heads.unwrap_or_else(|| nearest_divisor(hidden, f64::from(hidden) / HEAD_WIDTH));
        // A preset's heads of keys and values and MLP go with its width and heads.
        let fitting = preset.filter(|_| asked.hidden.is_none() && asked.heads.is_none());
        let key_value_heads = asked.key_value_heads.or(fitting.map(|p| p.key_value_heads));
        let key_value_heads = key_value_heads.unwrap_or(heads);
        let faults = uneven(asked, hidden, heads, key_value_heads);
        if !faults.is_empty() {
            return Err(faults);
        }
        let precision = asked.precision.unwrap_or(match preset {
            Some(_) => Precision::Bf16,
            None => Precision::Fp32,
        });
        let mut shape = Self {
            blocks: 0,
            hidden: f64::from(hidden),
            heads: f64::from(heads),
            key_value_heads: f64::from(key_value_heads),
            feed_forward: asked
                .feed_forward
                .or(fitting.map(|p| p.feed_forward))
                .map_or(4.0 * f64::from(hidden), f64::from),
            mlp: asked.mlp.or(preset.map(|p| p.mlp)).unwrap_or_default(),
            vocabulary: asked.vocabulary.or(preset.map(|p| p.vocabulary)),
            sequence: asked.sequence.or(preset.map(|p| p.sequence)).unwrap_or(512) as f64,
            context: f64::from(asked.context.unwrap_or(0)),
            micro_batch: asked.micro_batch.unwrap_or(if preset.is_some() { 1 } else { 4 }) as f64,
            precision,
            precision_bytes: precision.bytes(),
            attention: asked.attention,
            degrees: degrees(asked, key_value_heads),
            sequence_parallel: asked.sequence_parallel,
            trains: asked.context.is_none(),
        };
        shape.blocks = match asked.layers.or(preset.map(|p| p.layers)) {
            Some(layers) => layers,
            None => asked
                .operators
                .unwrap_or(10_000)
                .div_ceil(shape.operators_of_a_block()),
        };
        Ok(shape)
    }

    /// Forward and backward operators, and the updates of parameters.
    fn operators_of_a_block(&self) -> u32 {
        let block = self.block();
        if !self.trains {
            return block.len() as u32;
        }
        let with_parameters = block.iter().filter(|op| op.parameter_bytes > 0.0).count();
        (2 * block.len() + with_parameters) as u32
    }

    /// For the provenance.
    pub(super) fn in_words(&self, asked: &Transformer) -> String {
        let source = asked.preset.map_or_else(String::new, |preset| {
            format!("{}, after {}; ", preset.name, preset.source)
        });
        let vocabulary = self
            .vocabulary
            .map_or_else(String::new, |words| format!(", vocabulary {words}"));
        let spread = match asked.spread == 0.0 {
            true => String::new(),
            false => format!("times spread by {}, ", asked.spread),
        };
        let context = match self.context == 0.0 {
            true => String::new(),
            false => format!(" after {} in the cache", self.context),
        };
        let step = match (asked.micro_batches, asked.granularity) {
            (_, _) if !self.trains => "forward alone".to_owned(),
            (Some(micro_batches), _) => {
                format!("the optimiser's step shared out over {micro_batches} micro-batches")
            }
            (None, Granularity::Operator) => "an optimiser's step for every micro-batch".into(),
            (None, Granularity::Block) => "without the optimiser's step".into(),
        };
        format!(
            "{source}{} blocks, hidden {}, heads {} on {}, feed-forward {} ({:?}){vocabulary}, sequence {}{context}, \
micro-batch {}, {:?}, {:?} attention, {step}, {spread}seed {}",
            self.blocks,
            self.hidden,
            self.heads,
            self.key_value_heads,
            self.feed_forward,
            self.mlp,
            self.sequence,
            self.micro_batch,
            self.precision,
            self.attention,
            asked.seed
        )
    }

    /// Tokens of a micro-batch.
    pub(super) fn tokens(&self) -> f64 {
        self.sequence * self.micro_batch
    }

    /// Bytes of keys and values of all heads for so many tokens.
    fn cache(&self, tokens: f64) -> f64 {
        2.0 * tokens * self.keys() * self.precision_bytes
    }

    /// Width of the keys, and of the values, of a token.
    fn keys(&self) -> f64 {
        self.hidden * self.key_value_heads / self.heads
    }

    /// Bytes of one vector of the model's width a token: what flows between blocks.
    pub(super) fn state(&self) -> f64 {
        self.tokens() * self.hidden * self.precision_bytes
    }

    fn matrix(
        &self,
        name: &'static str,
        reads: &'static [&'static str],
        inputs: f64,
        outputs: f64,
    ) -> Operator {
        let flops = 2.0 * self.tokens() * inputs * outputs;
        let output_bytes = self.tokens() * outputs * self.precision_bytes;
        Operator {
            parameter_bytes: inputs * outputs * self.precision_bytes,
            // Of its two products backward, the one for the parameters.
            weight: 1.0,
            ..split(product(name, reads, flops, output_bytes))
        }
    }

    /// Layer normalisation has a scale and a shift, the root-mean-square one of gated models a scale.
    fn norm(&self, name: &'static str, reads: &'static [&'static str]) -> Operator {
        let vectors = match self.mlp {
            Mlp::Gelu => 2.0,
            Mlp::Swiglu => 1.0,
        };
        Operator {
            parameter_bytes: vectors * self.hidden * self.precision_bytes,
            backward: 2.0,
            ..plain(name, reads, 8.0 * self.tokens() * self.hidden, self.state())
        }
    }

    /// The operators of one block, `input` standing for the output of the one before and `output` for its own.
    pub(super) fn block(&self) -> Vec<Operator> {
        let (hidden, tokens, keys) = (self.hidden, self.tokens(), self.keys());
        let mut block = vec![
            self.norm("norm1", &["input"]),
            self.matrix("query", &["norm1"], hidden, hidden),
            self.matrix("key", &["norm1"], hidden, keys),
            self.matrix("value", &["norm1"], hidden, keys),
        ];
        block.extend(self.attention());
        block.extend([
            reduced(self.matrix("project", &["context"], hidden, hidden)),
            sum("residual1", &["project", "input"], tokens * hidden, self.state()),
            self.norm("norm2", &["residual1"]),
        ]);
        let wide = tokens * self.feed_forward;
        let wide_bytes = wide * self.precision_bytes;
        match self.mlp {
            Mlp::Gelu => block.extend([
                self.matrix("expand", &["norm2"], hidden, self.feed_forward),
                split(plain("gelu", &["expand"], 8.0 * wide, wide_bytes)),
                reduced(self.matrix("contract", &["gelu"], self.feed_forward, hidden)),
            ]),
            Mlp::Swiglu => block.extend([
                self.matrix("gate", &["norm2"], hidden, self.feed_forward),
                self.matrix("expand", &["norm2"], hidden, self.feed_forward),
                split(plain("swiglu", &["gate", "expand"], 6.0 * wide, wide_bytes)),
                reduced(self.matrix("contract", &["swiglu"], self.feed_forward, hidden)),
            ]),
        }
        let output = sum(
            "output",
            &["contract", "residual1"],
            tokens * hidden,
            self.state(),
        );
        block.push(output);
        block
    }

    /// Scores of all pairs of tokens, their softmax, and the values weighed by it: one operator where the scores are never written.
    fn attention(&self) -> Vec<Operator> {
        let attended = self.context + self.sequence;
        let numbers = self.heads * self.tokens() * attended;
        let scores = numbers * self.precision_bytes;
        let flops = 2.0 * self.tokens() * attended * self.hidden;
        let cache_bytes = self.cache(self.context * self.micro_batch);
        let operators = match self.attention {
            Attention::Flash => vec![Operator {
                model_flops: 2.0 * flops,
                backward: FLASH_BACKWARD,
                kind: Kind::OfInputsAndOutput,
                cache_bytes,
                ..plain(
                    "context",
                    &["query", "key", "value"],
                    2.0 * flops + 5.0 * numbers,
                    self.state(),
                )
            }],
            Attention::Materialised => vec![
                core(Operator {
                    cache_bytes: cache_bytes / 2.0,
                    ..product("scores", &["query", "key"], flops, scores)
                }),
                core(plain("softmax", &["scores"], 5.0 * numbers, scores)),
                Operator {
                    cache_bytes: cache_bytes / 2.0,
                    ..product("context", &["softmax", "value"], flops, self.state())
                },
            ],
        };
        operators.into_iter().map(split).collect()
    }

    /// The embedding of words, and of positions where they are learned: a look-up.
    pub(super) fn embedding(&self, vocabulary: u32) -> Vec<Operator> {
        let positions = match self.mlp {
            Mlp::Gelu => self.context + self.sequence,
            Mlp::Swiglu => 0.0,
        };
        vec![Operator {
            parameter_bytes: (f64::from(vocabulary) + positions) * self.hidden * self.precision_bytes,
            // Words have no gradient.
            backward: 2.0,
            weight: 2.0,
            kind: Kind::LookUp,
            group: Group::Reduced,
            ..plain("output", &[], self.tokens() * self.hidden, self.state())
        }]
    }

    /// The last normalisation, the product with all words, and the loss. A head that shares the embedding's parameters has a
    /// copy of its own here, as pipelines keep it.
    pub(super) fn head(&self, vocabulary: u32) -> Vec<Operator> {
        let logits = self.tokens() * f64::from(vocabulary);
        vec![
            self.norm("norm", &["input"]),
            self.matrix("logits", &["norm"], self.hidden, f64::from(vocabulary)),
            split(plain("loss", &["logits"], 5.0 * logits, self.precision_bytes)),
        ]
    }
}

/// An operator without parameters.
fn plain(name: &'static str, reads: &'static [&'static str], flops: f64, output_bytes: f64) -> Operator {
    Operator {
        name,
        reads,
        flops,
        model_flops: 0.0,
        output_bytes,
        parameter_bytes: 0.0,
        cache_bytes: 0.0,
        backward: 1.0,
        weight: 0.0,
        kind: Kind::OfInputs,
        group: Group::Whole,
        is_core: false,
    }
}

/// A product of what it reads.
fn product(name: &'static str, reads: &'static [&'static str], flops: f64, output_bytes: f64) -> Operator {
    Operator {
        model_flops: flops,
        backward: 2.0,
        kind: Kind::Product,
        ..plain(name, reads, flops, output_bytes)
    }
}

/// A sum of what it reads.
fn sum(name: &'static str, reads: &'static [&'static str], flops: f64, output_bytes: f64) -> Operator {
    Operator {
        kind: Kind::Sum,
        ..plain(name, reads, flops, output_bytes)
    }
}

/// The same, a part on each device of a group.
fn split(op: Operator) -> Operator {
    Operator {
        group: Group::Split,
        ..op
    }
}

/// The same, a part on each device of a group, with outputs to sum up.
fn reduced(op: Operator) -> Operator {
    Operator {
        group: Group::Reduced,
        ..op
    }
}

/// The same, computed again where recomputation is selective.
fn core(op: Operator) -> Operator {
    Operator { is_core: true, ..op }
}

/// The divisor of the width that comes nearest to a number of heads.
fn nearest_divisor(width: u32, heads: f64) -> u32 {
    let divisors = (1..=width).filter(|&divisor| width.is_multiple_of(divisor));
    let distance = |divisor: &u32| (f64::from(*divisor) - heads).abs();
    divisors
        .min_by(|one, other| distance(one).total_cmp(&distance(other)))
        .unwrap_or(1)
}

/// Of the degrees of a node, or of those asked for, the ones to write modes for, ascending.
fn degrees(asked: &Transformer, key_value_heads: u32) -> Vec<u32> {
    let mut degrees = match (&asked.tensor, asked.granularity) {
        (Some(degrees), _) => degrees.clone(),
        (None, Granularity::Block) => {
            let fits = |degree: &u32| key_value_heads.is_multiple_of(*degree);
            DEGREES.into_iter().filter(fits).collect()
        }
        (None, Granularity::Operator) => vec![1],
    };
    degrees.sort_unstable();
    degrees.dedup();
    degrees
}

/// Heads and degrees that do not come out even.
fn uneven(asked: &Transformer, hidden: u32, heads: u32, key_value_heads: u32) -> Vec<Fault> {
    let conflict = |at: Setting, found: String, expected: Words, remedy: Words| {
        let found = found.into();
        let kind = FaultKind::Conflict {
            found,
            expected,
            remedy,
        };
        Fault::new(at, kind)
    };
    if !hidden.is_multiple_of(heads) {
        return vec![conflict(
            setting::HEADS,
            format!("{heads} heads in a width of {hidden}"),
            words!("heads that divide the width, {}", setting::HIDDEN),
            words!(
                "try {}",
                setting::HEADS.given(nearest_divisor(hidden, f64::from(heads)))
            ),
        )];
    }
    if !heads.is_multiple_of(key_value_heads) {
        return vec![conflict(
            setting::KEY_VALUE_HEADS,
            format!("{key_value_heads} heads of keys and values for {heads} heads"),
            "heads of keys and values that divide the heads: as many heads share each".into(),
            words!(
                "try {}",
                setting::KEY_VALUE_HEADS.given(nearest_divisor(heads, f64::from(key_value_heads)))
            ),
        )];
    }
    let degrees = asked.tensor.iter().flatten();
    let uneven = degrees.filter(|degree| !key_value_heads.is_multiple_of(**degree));
    let fault = |degree: &u32| {
        conflict(
            setting::TENSOR,
            format!("a tensor degree of {degree} for {key_value_heads} heads of keys and values"),
            "degrees that divide these heads: a device of a tensor group has whole ones".into(),
            words!(
                "try {}",
                setting::TENSOR.given(nearest_divisor(key_value_heads, f64::from(*degree)))
            ),
        )
    };
    uneven.map(fault).collect()
}
