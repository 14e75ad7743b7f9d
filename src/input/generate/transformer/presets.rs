//! Published configurations.

use serde::de::{Deserialize, Deserializer, Error};

use super::Mlp;
use crate::model::fault::closest;

/// A published model.
#[derive(Debug, PartialEq)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
    /// Blocks.
    pub layers: u32,
    /// Width.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Heads of keys and values.
    pub key_value_heads: u32,
    /// Width inside the MLP.
    pub feed_forward: u32,
    /// Kind of MLP.
    pub mlp: Mlp,
    /// Words.
    pub vocabulary: u32,
    /// Tokens of a sequence in training.
    pub sequence: u32,
}

const BERT: &str = "J. Devlin et al., BERT, NAACL 2019, section 3; vocabulary of the released uncased models";
const GPT2: &str = "A. Radford et al., Language models are unsupervised multitask learners, 2019, table 2; its smallest \
and largest model";
const GPT3: &str = "T. Brown et al., Language models are few-shot learners, NeurIPS 2020, table 2.1";

/// What the models of a generation of Llama share.
struct Generation {
    source: &'static str,
    vocabulary: u32,
    sequence: u32,
}

const LLAMA2: Generation = Generation {
    source: "H. Touvron et al., Llama 2, 2023, table 1 and section 2.2; widths of the MLP of the released models",
    vocabulary: 32_000,
    sequence: 4096,
};
const LLAMA3: Generation = Generation {
    source: "A. Grattafiori et al., The Llama 3 herd of models, 2024, table 3",
    vocabulary: 128_256,
    sequence: 8192,
};

/// A model whose blocks are those of GPT: as many heads of each kind, an MLP of four times the width.
const fn classic(
    name: &'static str,
    source: &'static str,
    (layers, hidden, heads): (u32, u32, u32),
    vocabulary: u32,
    sequence: u32,
) -> Preset {
    Preset {
        name,
        source,
        layers,
        hidden,
        heads,
        key_value_heads: heads,
        feed_forward: 4 * hidden,
        mlp: Mlp::Gelu,
        vocabulary,
        sequence,
    }
}

/// A model of the Llama family.
const fn llama(
    name: &'static str,
    generation: &Generation,
    (layers, hidden, heads): (u32, u32, u32),
    (key_value_heads, feed_forward): (u32, u32),
) -> Preset {
    Preset {
        name,
        source: generation.source,
        layers,
        hidden,
        heads,
        key_value_heads,
        feed_forward,
        mlp: Mlp::Swiglu,
        vocabulary: generation.vocabulary,
        sequence: generation.sequence,
    }
}

/// Every preset.
pub const PRESETS: &[Preset] = &[
    classic("bert-base", BERT, (12, 768, 12), 30_522, 512),
    classic("bert-large", BERT, (24, 1024, 16), 30_522, 512),
    classic("gpt2", GPT2, (12, 768, 12), 50_257, 1024),
    classic("gpt2-xl", GPT2, (48, 1600, 25), 50_257, 1024),
    classic("gpt3-175b", GPT3, (96, 12_288, 96), 50_257, 2048),
    llama("llama2-7b", &LLAMA2, (32, 4096, 32), (32, 11_008)),
    llama("llama2-70b", &LLAMA2, (80, 8192, 64), (8, 28_672)),
    llama("llama3-8b", &LLAMA3, (32, 4096, 32), (8, 14_336)),
    llama("llama3-70b", &LLAMA3, (80, 8192, 64), (8, 28_672)),
    llama("llama3-405b", &LLAMA3, (126, 16_384, 128), (8, 53_248)),
];

/// The preset that a file names.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(name: D) -> Result<Option<&'static Preset>, D::Error> {
    let name = String::deserialize(name)?;
    parse(&name).map(Some).map_err(D::Error::custom)
}

/// The preset of that name.
pub(super) fn parse(name: &str) -> Result<&'static Preset, String> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.ok_or_else(|| {
        let known: Vec<String> = PRESETS.iter().map(|preset| preset.name.to_owned()).collect();
        match closest(name, &known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected one of {}", known.join(", ")),
        }
    })
}

/// What the command line says about presets.
pub(super) fn help() -> String {
    let lines: Vec<String> = PRESETS
        .iter()
        .map(|preset| {
            format!(
                "- {}: {} blocks of width {}, {} ({})",
                preset.name,
                preset.layers,
                preset.hidden,
                match preset.key_value_heads == preset.heads {
                    true => format!("{} heads", preset.heads),
                    false => format!("{} heads on {}", preset.heads, preset.key_value_heads),
                },
                preset.source
            )
        })
        .collect();
    format!(
        "Start from a published model; other options change it\n\n{}",
        lines.join("\n")
    )
}
