//! The architectures that are known: one row each. A row says what the configuration's own fields do not: which products have biases, where
//! norms stand, what is assumed where a field is absent. Source is the class of that name in Hugging Face's transformers, or the file beside
//! the model where it brings its own (DeepSeek, Kimi, Nemotron).

use super::fields::{Defaults, Names};
use crate::input::transformer::{HeadNorms, Norm, NormPlace};

/// What a language model is made of.
pub(super) struct Architecture {
    /// Its name in documents.
    pub name: &'static str,
    /// Values of `model_type`.
    pub types: &'static [&'static str],
    /// What values of `architectures` begin with, where a file has no `model_type`.
    pub class: &'static str,
    pub stack: Stack,
    /// Biases of queries, keys and values; of the output; of the MLP.
    pub biases: [Bias; 3],
    pub head_norms: NormOfHeads,
    pub has_sinks: bool,
    pub is_gated: bool,
    pub experts: Option<ExpertForm>,
    pub norm: Norm,
    pub place: NormPlace,
    /// The field of the rows of a learned table of positions.
    pub positions: Option<&'static str>,
    /// Whether the head is the table of words where nothing is said.
    pub is_tied: bool,
    pub windows: Windows,
    /// What its class assumes of sizes that are not there.
    pub defaults: Defaults,
    /// Fields that it has other names for.
    pub names: Names,
    /// Fields that would change the shape in a way that is not known here.
    pub not_understood: &'static [&'static str],
}

/// How the layers of a model follow each other.
pub(super) enum Stack {
    /// Each has attention by heads and an MLP or experts.
    Heads,
    /// Each has attention through latent vectors, and an MLP or experts.
    Latent,
    /// Each has one part, by a letter of `hybrid_override_pattern`.
    Pattern,
    /// Each has what its element of `block_configs` says.
    Configured,
    /// As `Heads`, with layers among them that attend to what a tower saw, by `cross_attention_layers`.
    Crossing,
}

/// Whether products have a bias.
pub(super) enum Bias {
    Absent,
    Present,
    /// A field says it, or else this is so.
    Field(&'static str, bool),
}

/// Norms of queries and keys.
pub(super) enum NormOfHeads {
    Always(HeadNorms),
    /// One scale for all heads, where a field says so.
    Field(&'static str),
}

/// Which layers attend to a window of tokens, where `layer_types` does not say it.
pub(super) enum Windows {
    Absent,
    /// All of them, where `sliding_window` is said.
    All,
    /// Those from `max_window_layers` on, where `use_sliding_window` is true.
    Behind,
    /// All but every so many, of a `sliding_window`; the field of that number, where there is one.
    AllBut(Option<&'static str>, u64),
    /// All but every fourth, or those of `no_rope_layers`: chunks of `attention_chunk_size`.
    Chunks,
}

/// Experts of a layer.
pub(super) struct ExpertForm {
    /// The field of their number.
    pub count: &'static str,
    /// The field of their width inside.
    pub inner: &'static str,
    /// The field of the width inside an MLP of a layer without experts.
    pub dense_inner: &'static str,
    pub shared: Shared,
    pub has_shared_gate: bool,
    pub has_biases: bool,
    pub router: Router,
    pub layers: ExpertLayers,
}

/// What all tokens go through beside.
pub(super) enum Shared {
    Absent,
    /// So many times the width of an expert, by a field.
    Times(&'static str),
    /// A width of its own, by a field.
    Inner(&'static str),
}

/// What a router adds to its product.
pub(super) enum Router {
    Plain,
    Biased,
    /// A correction that balances experts: unless `topk_method` says that there is none.
    Corrected,
    /// A correction where `topk_method` is `noaux_tc`.
    CorrectedIfSaid,
}

/// Which layers have experts.
pub(super) enum ExpertLayers {
    All,
    /// Those from `first_k_dense_replace` on, of these every `moe_layer_freq`.
    FromFirst,
    /// Every `decoder_sparse_step`, but for `mlp_only_layers`.
    Step,
    /// `moe_layers`, or every `interleave_moe_layer_step`.
    Interleaved,
}

const NO_BIAS: [Bias; 3] = [Bias::Absent, Bias::Absent, Bias::Absent];
/// One field for all products of attention.
const ATTENTION_BIAS: Bias = Bias::Field("attention_bias", false);

/// Llama, which most others differ from in little.
const LLAMA: Architecture = Architecture {
    name: "Llama",
    types: &["llama"],
    class: "LlamaForCausalLM",
    stack: Stack::Heads,
    biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Field("mlp_bias", false)],
    head_norms: NormOfHeads::Always(HeadNorms::Absent),
    has_sinks: false,
    is_gated: true,
    experts: None,
    norm: Norm::Rms,
    place: NormPlace::Before,
    positions: None,
    is_tied: false,
    windows: Windows::Absent,
    defaults: &[],
    names: &[],
    not_understood: &[],
};

/// Experts as DeepSeek has them.
const DEEPSEEK_EXPERTS: ExpertForm = ExpertForm {
    count: "n_routed_experts",
    inner: "moe_intermediate_size",
    dense_inner: "intermediate_size",
    shared: Shared::Times("n_shared_experts"),
    has_shared_gate: false,
    has_biases: false,
    router: Router::Corrected,
    layers: ExpertLayers::FromFirst,
};

/// Experts as Mixtral has them.
const MIXTRAL_EXPERTS: ExpertForm = ExpertForm {
    count: "num_local_experts",
    inner: "intermediate_size",
    dense_inner: "intermediate_size",
    shared: Shared::Absent,
    has_shared_gate: false,
    has_biases: false,
    router: Router::Plain,
    layers: ExpertLayers::All,
};

/// Experts as Qwen has them.
const QWEN_EXPERTS: ExpertForm = ExpertForm {
    count: "num_experts",
    inner: "moe_intermediate_size",
    dense_inner: "intermediate_size",
    shared: Shared::Absent,
    has_shared_gate: false,
    has_biases: false,
    router: Router::Plain,
    layers: ExpertLayers::Step,
};

const SHARED_NORMS: NormOfHeads = NormOfHeads::Always(HeadNorms::Shared);

/// Every architecture of language models.
pub(super) const ARCHITECTURES: &[Architecture] = &[
    LLAMA,
    Architecture {
        name: "Mistral",
        types: &["mistral"],
        class: "MistralForCausalLM",
        biases: NO_BIAS,
        windows: Windows::All,
        defaults: &[("sliding_window", 4096.0), ("num_key_value_heads", 8.0)],
        ..LLAMA
    },
    Architecture {
        name: "Phi-3",
        types: &["phi3"],
        class: "Phi3ForCausalLM",
        biases: NO_BIAS,
        windows: Windows::All,
        ..LLAMA
    },
    Architecture {
        name: "Qwen2",
        types: &[
            "qwen2",
            "qwen2_vl",
            "qwen2_vl_text",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
        ],
        class: "Qwen2ForCausalLM",
        biases: [Bias::Present, Bias::Absent, Bias::Absent],
        windows: Windows::Behind,
        ..LLAMA
    },
    Architecture {
        name: "Qwen3",
        types: &["qwen3", "qwen3_vl_text"],
        class: "Qwen3ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: SHARED_NORMS,
        windows: Windows::Behind,
        defaults: &[("head_dim", 128.0)],
        ..LLAMA
    },
    Architecture {
        name: "Qwen2-MoE",
        types: &["qwen2_moe"],
        class: "Qwen2MoeForCausalLM",
        biases: [Bias::Field("qkv_bias", true), Bias::Absent, Bias::Absent],
        experts: Some(ExpertForm {
            shared: Shared::Inner("shared_expert_intermediate_size"),
            has_shared_gate: true,
            ..QWEN_EXPERTS
        }),
        windows: Windows::Behind,
        ..LLAMA
    },
    Architecture {
        name: "Qwen3-MoE",
        types: &["qwen3_moe", "qwen3_vl_moe_text"],
        class: "Qwen3MoeForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: SHARED_NORMS,
        experts: Some(QWEN_EXPERTS),
        windows: Windows::Behind,
        ..LLAMA
    },
    Architecture {
        name: "Gemma",
        types: &["gemma"],
        class: "GemmaForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        is_tied: true,
        defaults: &[("head_dim", 256.0)],
        ..LLAMA
    },
    Architecture {
        name: "Gemma 2",
        types: &["gemma2"],
        class: "Gemma2ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        place: NormPlace::Both,
        is_tied: true,
        windows: Windows::AllBut(None, 2),
        defaults: &[("head_dim", 256.0), ("sliding_window", 4096.0)],
        ..LLAMA
    },
    Architecture {
        name: "Gemma 3",
        types: &["gemma3", "gemma3_text"],
        class: "Gemma3ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: SHARED_NORMS,
        place: NormPlace::Both,
        is_tied: true,
        windows: Windows::AllBut(Some("sliding_window_pattern"), 6),
        // Its files leave out what is as here.
        defaults: &[
            ("vocab_size", 262_208.0),
            ("hidden_size", 2304.0),
            ("intermediate_size", 9216.0),
            ("num_hidden_layers", 26.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("sliding_window", 4096.0),
        ],
        ..LLAMA
    },
    Architecture {
        name: "GPT-2",
        types: &["gpt2"],
        class: "GPT2LMHeadModel",
        biases: [Bias::Present, Bias::Present, Bias::Present],
        is_gated: false,
        norm: Norm::Layer,
        positions: Some("max_position_embeddings"),
        is_tied: true,
        names: &[
            ("hidden_size", "n_embd"),
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
            ("intermediate_size", "n_inner"),
            ("max_position_embeddings", "n_positions"),
        ],
        not_understood: &["add_cross_attention"],
        ..LLAMA
    },
    Architecture {
        name: "Mixtral",
        types: &["mixtral"],
        class: "MixtralForCausalLM",
        biases: NO_BIAS,
        experts: Some(MIXTRAL_EXPERTS),
        windows: Windows::All,
        defaults: &[("num_key_value_heads", 8.0)],
        ..LLAMA
    },
    Architecture {
        name: "DeepSeek-V2",
        types: &["deepseek_v2"],
        class: "DeepseekV2ForCausalLM",
        stack: Stack::Latent,
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        experts: Some(ExpertForm {
            router: Router::CorrectedIfSaid,
            ..DEEPSEEK_EXPERTS
        }),
        ..LLAMA
    },
    Architecture {
        name: "DeepSeek-V3, Kimi-K2",
        types: &["deepseek_v3", "kimi_k2"],
        class: "DeepseekV3ForCausalLM",
        stack: Stack::Latent,
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        experts: Some(DEEPSEEK_EXPERTS),
        ..LLAMA
    },
    Architecture {
        name: "GLM-4",
        types: &["glm4"],
        class: "Glm4ForCausalLM",
        biases: [ATTENTION_BIAS, Bias::Absent, Bias::Absent],
        place: NormPlace::Both,
        defaults: &[("head_dim", 128.0)],
        ..LLAMA
    },
    Architecture {
        name: "GLM-4, first form",
        types: &["glm"],
        class: "GlmForCausalLM",
        biases: [ATTENTION_BIAS, Bias::Absent, Bias::Absent],
        defaults: &[("head_dim", 128.0)],
        ..LLAMA
    },
    Architecture {
        name: "GLM-4.5",
        types: &["glm4_moe"],
        class: "Glm4MoeForCausalLM",
        biases: [ATTENTION_BIAS, Bias::Absent, Bias::Absent],
        head_norms: NormOfHeads::Field("use_qk_norm"),
        experts: Some(DEEPSEEK_EXPERTS),
        ..LLAMA
    },
    Architecture {
        name: "gpt-oss",
        types: &["gpt_oss"],
        class: "GptOssForCausalLM",
        biases: [
            Bias::Field("attention_bias", true),
            Bias::Field("attention_bias", true),
            Bias::Absent,
        ],
        has_sinks: true,
        experts: Some(ExpertForm {
            has_biases: true,
            router: Router::Biased,
            ..MIXTRAL_EXPERTS
        }),
        windows: Windows::AllBut(None, 2),
        defaults: &[("head_dim", 64.0), ("sliding_window", 128.0)],
        names: &[("num_experts_per_tok", "experts_per_token")],
        ..LLAMA
    },
    Architecture {
        name: "Llama 4",
        types: &["llama4_text"],
        class: "Llama4ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        experts: Some(ExpertForm {
            dense_inner: "intermediate_size_mlp",
            shared: Shared::Inner("intermediate_size"),
            layers: ExpertLayers::Interleaved,
            ..MIXTRAL_EXPERTS
        }),
        windows: Windows::Chunks,
        defaults: &[("head_dim", 128.0), ("attention_chunk_size", 8192.0)],
        ..LLAMA
    },
    Architecture {
        name: "Llama 3.2 Vision",
        types: &["mllama_text_model"],
        class: "MllamaForCausalLM",
        stack: Stack::Crossing,
        biases: NO_BIAS,
        ..LLAMA
    },
    Architecture {
        name: "Nemotron",
        types: &["nemotron"],
        class: "NemotronForCausalLM",
        is_gated: false,
        norm: Norm::Layer,
        ..LLAMA
    },
    Architecture {
        name: "Nemotron-H",
        types: &["nemotron_h"],
        class: "NemotronHForCausalLM",
        stack: Stack::Pattern,
        is_gated: false,
        experts: Some(ExpertForm {
            shared: Shared::Inner("moe_shared_expert_intermediate_size"),
            layers: ExpertLayers::All,
            ..DEEPSEEK_EXPERTS
        }),
        defaults: &[("chunk_size", 128.0)],
        names: &[("head_dim", "attention_head_dim")],
        not_understood: &["moe_latent_size", "num_nextn_predict_layers"],
        ..LLAMA
    },
    Architecture {
        name: "Nemotron-NAS",
        types: &["nemotron-nas", "deci"],
        class: "DeciLMForCausalLM",
        stack: Stack::Configured,
        biases: NO_BIAS,
        ..LLAMA
    },
    Architecture {
        name: "OLMo 2",
        types: &["olmo2"],
        class: "Olmo2ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: NormOfHeads::Always(HeadNorms::Whole),
        place: NormPlace::Behind,
        ..LLAMA
    },
    Architecture {
        name: "OLMo 3",
        types: &["olmo3"],
        class: "Olmo3ForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: NormOfHeads::Always(HeadNorms::Whole),
        place: NormPlace::Behind,
        windows: Windows::AllBut(None, 4),
        defaults: &[("sliding_window", 4096.0)],
        ..LLAMA
    },
    Architecture {
        name: "OLMoE",
        types: &["olmoe"],
        class: "OlmoeForCausalLM",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Bias::Absent],
        head_norms: NormOfHeads::Always(HeadNorms::Whole),
        experts: Some(ExpertForm {
            count: "num_experts",
            ..MIXTRAL_EXPERTS
        }),
        ..LLAMA
    },
];

/// A row in words, for documents.
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// Values of `model_type`.
    pub types: &'static [&'static str],
    /// What mixes tokens, with its biases, norms of queries and keys, and windows.
    pub attention: String,
    /// What works on each token: an MLP, experts.
    pub feed_forward: String,
    /// Norms of a block.
    pub norms: &'static str,
    /// Whether the head is the table of words where nothing is said.
    pub is_tied: bool,
}

/// Every row, in words.
pub fn described() -> Vec<Described> {
    let row = |row: &Architecture| Described {
        name: row.name,
        types: row.types,
        attention: row.attention_in_words(),
        feed_forward: row.feed_forward_in_words(),
        norms: match (row.norm, row.place) {
            (Norm::Layer, NormPlace::Before) => "before, with a shift",
            (_, NormPlace::Before) => "before",
            (_, NormPlace::Behind) => "behind",
            (_, NormPlace::Both) => "before and behind",
        },
        is_tied: row.is_tied,
    };
    ARCHITECTURES.iter().map(row).collect()
}

impl Architecture {
    fn attention_in_words(&self) -> String {
        let stack = match self.stack {
            Stack::Heads => "heads",
            Stack::Latent => "latent",
            Stack::Pattern => "heads in some layers, a Mamba-2 state space in others",
            Stack::Configured => "heads in some layers, as many as each says",
            Stack::Crossing => "heads, in some layers over what a tower saw",
        };
        let [inputs, output, _] = &self.biases;
        let biases = match (inputs, output) {
            (Bias::Absent, _) => String::new(),
            (Bias::Present, Bias::Present) => ", biases".into(),
            (Bias::Present, _) => ", biases of queries, keys and values".into(),
            (Bias::Field(name, _), Bias::Absent) => {
                format!(", biases of queries, keys and values by `{name}`")
            }
            (Bias::Field(name, _), _) => format!(", biases by `{name}`"),
        };
        let norms = match self.head_norms {
            NormOfHeads::Always(HeadNorms::Absent) => String::new(),
            NormOfHeads::Always(HeadNorms::Shared) => ", queries and keys normed by head".into(),
            NormOfHeads::Always(HeadNorms::Whole) => ", queries and keys normed whole".into(),
            NormOfHeads::Field(name) => format!(", queries and keys normed by `{name}`"),
        };
        let sinks = if self.has_sinks { ", sinks" } else { "" };
        let windows = match self.windows {
            Windows::Absent => String::new(),
            Windows::All => ", `sliding_window`".into(),
            Windows::Behind => ", `sliding_window` from a layer on".into(),
            Windows::AllBut(_, every) => format!(", `sliding_window` in all but one of {every} layers"),
            Windows::Chunks => ", chunks in all but one of 4 layers".into(),
        };
        format!("{stack}{biases}{norms}{sinks}{windows}")
    }

    fn feed_forward_in_words(&self) -> String {
        let mlp = match (self.is_gated, &self.biases[2]) {
            (true, Bias::Field(..)) => "gated, biases by `mlp_bias`",
            (true, _) => "gated",
            (false, Bias::Present) => "two matrices, biases",
            (false, _) => "two matrices",
        };
        let Some(form) = &self.experts else {
            return mlp.into();
        };
        let layers = match form.layers {
            ExpertLayers::All => "",
            ExpertLayers::FromFirst => " behind `first_k_dense_replace` layers",
            ExpertLayers::Step => " in every `decoder_sparse_step` layers",
            ExpertLayers::Interleaved => " in every `interleave_moe_layer_step` layers",
        };
        let shared = match (&form.shared, form.has_shared_gate) {
            (Shared::Absent, _) => "",
            (_, false) => ", shared ones",
            (_, true) => ", a shared one with a gate",
        };
        let router = match form.router {
            Router::Plain => "",
            Router::Biased => ", biases in experts and router",
            Router::Corrected => ", a correction for each",
            Router::CorrectedIfSaid => ", a correction for each by `topk_method`",
        };
        format!("{mlp}; experts{layers}{shared}{router}")
    }
}

/// The architecture of a `model_type`.
pub(super) fn of_type(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|known| known.types.contains(&name))
}
