//! The shape of a generated transformer: what was asked, then the preset, then the defaults.

use super::{Granularity, Mlp, Precision, Transformer};
use crate::input::transformer::{
    Biases, Block, Embedding, FeedForward, HeadNorms, Heads, Mixer, Mlp as Matrices, Model, Norm, NormPlace,
    Phase, Run, degrees, nearest_divisor, operators_of_a_block, request_in_pieces, uneven_degrees,
};
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::words::{Setting, Words, words};

/// All that decides the graph, with nothing left open.
pub(super) struct Shape {
    pub model: Model,
    pub run: Run,
    hidden: u32,
    heads: u32,
    key_value_heads: u32,
    feed_forward: f64,
    mlp: Mlp,
    vocabulary: Option<u32>,
}

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
        let feed_forward = asked.feed_forward.or(fitting.map(|p| p.feed_forward));
        let feed_forward = feed_forward.map_or(4.0 * f64::from(hidden), f64::from);
        let mlp = asked.mlp.or(preset.map(|p| p.mlp)).unwrap_or_default();
        let run = run(asked, key_value_heads);
        let block = block([hidden, heads, key_value_heads], feed_forward, mlp);
        let blocks = match asked.layers.or(preset.map(|p| p.layers)) {
            Some(layers) => layers,
            None => asked.operators.unwrap_or(10_000).div_ceil(operators_of_a_block(
                &block,
                f64::from(hidden),
                &run,
            )),
        };
        let vocabulary = asked.vocabulary.or(preset.map(|p| p.vocabulary));
        let embedding = vocabulary.map(|words| Embedding {
            vocabulary: f64::from(words),
            rows: f64::from(words),
            positions: match mlp {
                Mlp::Gelu => run.context.unwrap_or(0.0) + run.sequence,
                Mlp::Swiglu => 0.0,
            },
            is_tied: false,
        });
        Ok(Self {
            model: Model {
                width: f64::from(hidden),
                tower: None,
                embedding,
                norm: block.norm,
                blocks: vec![block; blocks as usize],
                predictors: Vec::new(),
            },
            run,
            hidden,
            heads,
            key_value_heads,
            feed_forward,
            mlp,
            vocabulary,
        })
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
        let context = match self.run.context {
            None | Some(0.0) => String::new(),
            Some(context) => format!(" after {context} in the cache"),
        };
        let written =
            (asked.decode_tokens).map_or_else(String::new, |tokens| format!(" and {tokens} written"));
        let step = match (asked.micro_batches, asked.granularity) {
            (_, _) if !self.run.trains() => "forward alone".to_owned(),
            (Some(micro_batches), _) => {
                format!("the optimiser's step shared out over {micro_batches} micro-batches")
            }
            (None, Granularity::Operator) => "an optimiser's step for every micro-batch".into(),
            (None, Granularity::Block) => "without the optimiser's step".into(),
        };
        format!(
            "{source}{} blocks, hidden {}, heads {} on {}, feed-forward {} ({:?}){vocabulary}, sequence {}{context}{written}, \
micro-batch {}, {:?}, {:?} attention, {step}, {spread}seed {}",
            self.model.blocks.len(),
            self.hidden,
            self.heads,
            self.key_value_heads,
            self.feed_forward,
            self.mlp,
            self.run.sequence,
            self.run.micro_batch,
            self.run.precision,
            self.run.attention,
            asked.seed
        )
    }
}

/// Layer normalisation has a scale and a shift, the root-mean-square one of gated models a scale.
fn block([hidden, heads, key_value_heads]: [u32; 3], feed_forward: f64, mlp: Mlp) -> Block {
    Block {
        kind: "attention",
        mixer: Some(Mixer::Heads(Heads {
            heads: f64::from(heads),
            key_value_heads: f64::from(key_value_heads),
            width: f64::from(hidden / heads),
            biases: Biases::default(),
            norms: HeadNorms::Absent,
            has_sinks: false,
            window: None,
            crosses: false,
        })),
        feed_forward: Some(FeedForward::Dense(Matrices {
            inner: feed_forward,
            is_gated: mlp == Mlp::Swiglu,
            has_biases: false,
        })),
        norm: match mlp {
            Mlp::Gelu => Norm::Layer,
            Mlp::Swiglu => Norm::Rms,
        },
        place: NormPlace::Before,
        has_gates: false,
    }
}

fn run(asked: &Transformer, key_value_heads: u32) -> Run {
    let preset = asked.preset;
    let most = f64::from(preset.map_or(512, |p| p.sequence));
    let phase = asked.prefill_tokens.map(|_| Phase::Prefill).or(asked.phase);
    let behind = asked.prefill_tokens.or(asked.context);
    let [sequence, context] = match phase {
        Some(phase) => phase.tokens(asked.sequence, behind, most).map(Some),
        None => [asked.sequence.map(f64::from), asked.context.map(f64::from)],
    };
    Run {
        sequence: sequence.unwrap_or(most),
        context,
        phase,
        written: asked.decode_tokens,
        micro_batch: asked.micro_batch.unwrap_or(if preset.is_some() { 1 } else { 4 }) as f64,
        precision: asked.precision.unwrap_or(match preset {
            Some(_) => Precision::Bf16,
            None => Precision::Fp32,
        }),
        attention: asked.attention,
        degrees: degrees(asked.tensor.as_deref(), asked.granularity, &[key_value_heads]),
        sequence_parallel: asked.sequence_parallel,
        granularity: asked.granularity,
        micro_batches: asked.micro_batches,
        spread: asked.spread,
        seed: asked.seed,
    }
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
    let mut faults = uneven_degrees(asked.tensor.as_deref(), key_value_heads);
    faults.extend(request_in_pieces(asked.decode_tokens, asked.granularity));
    faults
}
