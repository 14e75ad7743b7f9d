//! The shape of a transformer and the operators of its parts.

use super::{Attention, Granularity, Mlp, Precision, Transformer};

/// An operator: its name, what it reads, FLOPs, bytes of its output, bytes of its parameters.
pub(super) struct Operator {
    pub name: &'static str,
    pub reads: &'static [&'static str],
    pub flops: f64,
    pub output_bytes: f64,
    pub parameter_bytes: f64,
    /// How many times the FLOPs and bytes of the forward pass the backward one takes.
    pub backward: f64,
    /// How many of these are gradients of parameters, for which no operator waits.
    pub weight: f64,
    pub group: Group,
    /// Whether selective recomputation computes it again.
    pub is_core: bool,
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
    micro_batch: f64,
    pub precision: Precision,
    pub precision_bytes: f64,
    attention: Attention,
    /// Tensor degrees to write modes for, ascending.
    pub degrees: Vec<u32>,
    /// Whether what is not split by width is split by sequence.
    pub sequence_parallel: bool,
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
    pub(super) fn of(asked: &Transformer) -> Self {
        let preset = asked.preset;
        let hidden = asked.hidden.or(preset.map(|p| p.hidden)).unwrap_or(1024) as f64;
        let default_heads = (hidden / HEAD_WIDTH).max(1.0);
        let heads = asked
            .heads
            .or(preset.map(|p| p.heads))
            .map_or(default_heads, f64::from);
        // A preset's heads of keys and values and MLP go with its width and heads.
        let fitting = preset.filter(|_| asked.hidden.is_none() && asked.heads.is_none());
        let precision = asked.precision.unwrap_or(match preset {
            Some(_) => Precision::Bf16,
            None => Precision::Fp32,
        });
        let mut shape = Self {
            blocks: 0,
            hidden,
            heads,
            key_value_heads: asked
                .key_value_heads
                .or(fitting.map(|p| p.key_value_heads))
                .map_or(heads, f64::from),
            feed_forward: asked
                .feed_forward
                .or(fitting.map(|p| p.feed_forward))
                .map_or(4.0 * hidden, f64::from),
            mlp: asked.mlp.or(preset.map(|p| p.mlp)).unwrap_or_default(),
            vocabulary: asked.vocabulary.or(preset.map(|p| p.vocabulary)),
            sequence: asked.sequence.or(preset.map(|p| p.sequence)).unwrap_or(512) as f64,
            micro_batch: asked.micro_batch.unwrap_or(if preset.is_some() { 1 } else { 4 }) as f64,
            precision,
            precision_bytes: precision.bytes(),
            attention: asked.attention,
            degrees: Vec::new(),
            sequence_parallel: asked.sequence_parallel,
        };
        shape.degrees = shape.fitting_degrees(asked);
        shape.blocks = match asked.layers.or(preset.map(|p| p.layers)) {
            Some(layers) => layers,
            None => asked
                .operators
                .unwrap_or(10_000)
                .div_ceil(shape.operators_of_a_block()),
        };
        shape
    }

    /// Of the degrees that are asked for, those that split the heads of keys and values evenly.
    fn fitting_degrees(&self, asked: &Transformer) -> Vec<u32> {
        let mut degrees = match (&asked.tensor, asked.granularity) {
            (Some(degrees), _) => degrees.clone(),
            (None, Granularity::Block) => DEGREES.to_vec(),
            (None, Granularity::Operator) => vec![1],
        };
        degrees.retain(|&degree| self.key_value_heads % f64::from(degree) == 0.0);
        degrees.sort_unstable();
        degrees.dedup();
        degrees
    }

    /// Forward and backward operators, and the updates of parameters.
    fn operators_of_a_block(&self) -> u32 {
        let block = self.block();
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
        format!(
            "{source}{} blocks, hidden {}, heads {} on {}, feed-forward {} ({:?}){vocabulary}, sequence {}, micro-batch {}, \
{:?}, {:?} attention, {spread}seed {}",
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

    fn tokens(&self) -> f64 {
        self.sequence * self.micro_batch
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
        Operator {
            name,
            reads,
            flops: 2.0 * self.tokens() * inputs * outputs,
            output_bytes: self.tokens() * outputs * self.precision_bytes,
            parameter_bytes: inputs * outputs * self.precision_bytes,
            // One product for the input and one for the parameters.
            backward: 2.0,
            weight: 1.0,
            group: Group::Split,
            is_core: false,
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
        let (hidden, tokens) = (self.hidden, self.tokens());
        let keys = hidden * self.key_value_heads / self.heads;
        let mut block = vec![
            self.norm("norm1", &["input"]),
            self.matrix("query", &["norm1"], hidden, hidden),
            self.matrix("key", &["norm1"], hidden, keys),
            self.matrix("value", &["norm1"], hidden, keys),
        ];
        block.extend(self.attention());
        block.extend([
            reduced(self.matrix("project", &["context"], hidden, hidden)),
            plain("residual1", &["project", "input"], tokens * hidden, self.state()),
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
        block.push(plain(
            "output",
            &["contract", "residual1"],
            tokens * hidden,
            self.state(),
        ));
        block
    }

    /// Scores of all pairs of tokens, their softmax, and the values weighed by it: one operator where the scores are never written.
    fn attention(&self) -> Vec<Operator> {
        let numbers = self.heads * self.tokens() * self.sequence;
        let scores = numbers * self.precision_bytes;
        let product = 2.0 * self.tokens() * self.sequence * self.hidden;
        let operators = match self.attention {
            Attention::Flash => vec![Operator {
                backward: FLASH_BACKWARD,
                ..plain(
                    "context",
                    &["query", "key", "value"],
                    2.0 * product + 5.0 * numbers,
                    self.state(),
                )
            }],
            Attention::Materialised => vec![
                core(plain("scores", &["query", "key"], product, scores)),
                core(plain("softmax", &["scores"], 5.0 * numbers, scores)),
                plain("context", &["softmax", "value"], product, self.state()),
            ],
        };
        operators.into_iter().map(split).collect()
    }

    /// The embedding of words, and of positions where they are learned: a look-up.
    pub(super) fn embedding(&self, vocabulary: u32) -> Vec<Operator> {
        let positions = match self.mlp {
            Mlp::Gelu => self.sequence,
            Mlp::Swiglu => 0.0,
        };
        vec![Operator {
            parameter_bytes: (f64::from(vocabulary) + positions) * self.hidden * self.precision_bytes,
            // Words have no gradient.
            backward: 2.0,
            weight: 2.0,
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
        output_bytes,
        parameter_bytes: 0.0,
        backward: 1.0,
        weight: 0.0,
        group: Group::Whole,
        is_core: false,
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
