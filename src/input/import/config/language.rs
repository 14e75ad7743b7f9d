//! From a row of the table and the fields of a configuration to a language model.

use serde_json::Value;

use super::architectures::{
    Architecture, Bias, ExpertForm, ExpertLayers, NormOfHeads, Router, Shared, Stack, Windows,
};
use super::fields::Fields;
use crate::input::transformer::{
    Biases, Block, Embedding, Experts, FeedForward, HeadNorms, Heads, Latent, Mamba, Mixer, Mlp, Model,
    Predictor,
};
use crate::model::fault::FaultKind;

/// A configuration that is read.
pub(super) struct Language<'a> {
    pub architecture: &'static Architecture,
    pub fields: &'a Fields<'a>,
}

impl Language<'_> {
    /// The model, without what sees images. What is wrong with the fields, they know.
    pub(super) fn model(&self, is_tied: Option<bool>) -> Model {
        let (row, fields) = (self.architecture, self.fields);
        for name in row.not_understood {
            if fields.is_set(name) {
                let kind = FaultKind::Unsupported {
                    found: format!("`{name}`").into(),
                    expected: format!("{} without it: what it changes is not known here", row.name).into(),
                };
                fields.fault(name, kind);
            }
        }
        let vocabulary = fields.size("vocab_size");
        let width = fields.size("hidden_size");
        let (blocks, next) = match row.stack {
            Stack::Heads | Stack::Latent | Stack::Crossing => self.equal_parts(),
            Stack::Pattern => (self.pattern(), None),
            Stack::Configured => (self.configured(), None),
        };
        let predictors = fields.maybe("num_nextn_predict_layers").unwrap_or(0.0);
        let predictors = next
            .map(|block| vec![Predictor { block }; predictors.min(64.0) as usize])
            .unwrap_or_default();
        let extra_rows = match row.stack {
            // Rows for images.
            Stack::Crossing => 8.0,
            _ => 0.0,
        };
        Model {
            width,
            tower: None,
            embedding: Some(Embedding {
                vocabulary,
                rows: vocabulary + extra_rows,
                positions: row.positions.map_or(0.0, |name| fields.size(name)),
                is_tied: is_tied.unwrap_or(row.is_tied),
            }),
            blocks,
            norm: row.norm,
            predictors,
        }
    }

    /// Layers of attention and an MLP or experts, and the one that would come next, which further predictions are made with.
    fn equal_parts(&self) -> (Vec<Block>, Option<Block>) {
        let layers = self.fields.layers("num_hidden_layers");
        let windows = self.windows(layers);
        let experts = self.expert_layers(layers);
        let crossing = self.crossing(layers);
        let mixer = match self.architecture.stack {
            Stack::Latent => Mixer::Latent(self.latent()),
            _ => Mixer::Heads(self.heads()),
        };
        let dense = || FeedForward::Dense(self.mlp("intermediate_size"));
        let form = self.architecture.experts.as_ref();
        let own_dense = form
            .filter(|_| experts.iter().any(|has| !has))
            .map(|form| self.mlp(form.dense_inner));
        let routed = form
            .filter(|_| experts.contains(&true))
            .and_then(|form| self.experts(form));
        let feed_forward = |has_experts: bool| match (has_experts, &routed, own_dense) {
            (true, Some(routed), _) => FeedForward::Experts(routed.clone()),
            (_, _, Some(mlp)) => FeedForward::Dense(mlp),
            _ => dense(),
        };
        let says_windows = self.fields.has("layer_types");
        let kind = |layer: usize| -> &'static str {
            let differ = |list: &[bool]| list.iter().any(|has| *has != list[0]);
            let windowed: Vec<bool> = windows.iter().map(Option::is_some).collect();
            match (
                crossing.contains(&layer),
                differ(&experts),
                says_windows && differ(&windowed),
            ) {
                (true, ..) => "cross-attention",
                (_, true, _) if experts[layer] => "moe",
                (_, true, _) => "dense",
                (_, _, true) if windowed[layer] => "sliding",
                (_, _, true) => "full",
                _ if experts[layer] => "moe",
                _ => "attention",
            }
        };
        let block = |layer: usize| {
            self.block(
                kind(layer),
                Some(mixer.clone()),
                Some(feed_forward(experts[layer])),
            )
        };
        let mut blocks: Vec<Block> = (0..layers).map(block).collect();
        for (layer, block) in blocks.iter_mut().enumerate() {
            if let Some(Mixer::Heads(heads)) = &mut block.mixer {
                heads.window = windows[layer];
                if crossing.contains(&layer) {
                    heads.crosses = true;
                    heads.norms = HeadNorms::Shared;
                    block.has_gates = true;
                }
            }
        }
        let next = blocks.last().cloned();
        (blocks, next)
    }

    fn block(&self, kind: &'static str, mixer: Option<Mixer>, feed_forward: Option<FeedForward>) -> Block {
        Block {
            kind,
            mixer,
            feed_forward,
            norm: self.architecture.norm,
            place: self.architecture.place,
            has_gates: false,
        }
    }

    fn has(&self, bias: &Bias) -> bool {
        match bias {
            Bias::Absent => false,
            Bias::Present => true,
            Bias::Field(name, default) => self.fields.flag(name).unwrap_or(*default),
        }
    }

    fn heads(&self) -> Heads {
        let (row, fields) = (self.architecture, self.fields);
        let heads = fields.size("num_attention_heads");
        let [inputs, output, _] = &row.biases;
        let norms = match row.head_norms {
            NormOfHeads::Always(norms) => norms,
            NormOfHeads::Field(name) if fields.flag(name) == Some(true) => HeadNorms::Shared,
            NormOfHeads::Field(_) => HeadNorms::Absent,
        };
        let width = fields.maybe("head_dim");
        Heads {
            heads,
            key_value_heads: self.key_value_heads(heads),
            width: width.unwrap_or_else(|| fields.divided("hidden_size", "num_attention_heads")),
            biases: Biases {
                inputs: self.has(inputs),
                output: self.has(output),
            },
            norms,
            has_sinks: row.has_sinks,
            window: None,
            crosses: false,
        }
    }

    fn key_value_heads(&self, heads: f64) -> f64 {
        let fewer = self.fields.maybe("num_key_value_heads").unwrap_or(heads);
        if fewer == 0.0 || heads % fewer != 0.0 {
            let kind = FaultKind::Contradiction {
                found: format!("{fewer} heads of keys and values for {heads} heads").into(),
                expected: "heads of keys and values that divide the heads".into(),
            };
            self.fields.fault("num_key_value_heads", kind);
            return heads;
        }
        fewer
    }

    fn latent(&self) -> Latent {
        let fields = self.fields;
        Latent {
            heads: fields.size("num_attention_heads"),
            // Files of small models leave it out where there is none.
            query_rank: fields.maybe("q_lora_rank"),
            rank: fields.size("kv_lora_rank"),
            plain_width: fields.size("qk_nope_head_dim"),
            rotary_width: fields.size("qk_rope_head_dim"),
            value_width: fields.size("v_head_dim"),
            has_biases: self.has(&self.architecture.biases[0]),
        }
    }

    fn mlp(&self, inner: &'static str) -> Mlp {
        let four_times = self
            .architecture
            .names
            .iter()
            .any(|(_, theirs)| *theirs == "n_inner");
        Mlp {
            inner: match self.fields.maybe(inner) {
                None if four_times => 4.0 * self.fields.size("hidden_size"),
                _ => self.fields.size(inner),
            },
            is_gated: self.architecture.is_gated,
            has_biases: self.has(&self.architecture.biases[2]),
        }
    }

    fn experts(&self, form: &ExpertForm) -> Option<Experts> {
        let fields = self.fields;
        let each = Mlp {
            inner: fields.size(form.inner),
            is_gated: self.architecture.is_gated,
            has_biases: form.has_biases,
        };
        let shared = match form.shared {
            Shared::Absent => 0.0,
            Shared::Times(name) => fields.maybe(name).unwrap_or(0.0) * each.inner,
            Shared::Inner(name) => fields.size(name),
        };
        let (count, chosen) = (fields.size(form.count), fields.size("num_experts_per_tok"));
        if chosen > count {
            let kind = FaultKind::Contradiction {
                found: format!("{chosen} of {count} experts for each token").into(),
                expected: "no more than there are".into(),
            };
            fields.fault("num_experts_per_tok", kind);
            return None;
        }
        let said = fields.text("topk_method");
        let router_vectors = match (&form.router, said) {
            (Router::Plain, _) | (Router::CorrectedIfSaid, None) => 0.0,
            (Router::Biased, _) | (Router::Corrected, None) => 1.0,
            (Router::Corrected | Router::CorrectedIfSaid, Some(method)) => {
                f64::from(u8::from(method == "noaux_tc"))
            }
        };
        Some(Experts {
            count,
            chosen,
            each,
            shared: (shared > 0.0).then_some(Mlp {
                inner: shared,
                has_biases: false,
                ..each
            }),
            has_shared_gate: form.has_shared_gate,
            router_vectors,
        })
    }

    /// Which layers have experts.
    fn expert_layers(&self, layers: usize) -> Vec<bool> {
        let fields = self.fields;
        let none = vec![false; layers];
        let Some(form) = &self.architecture.experts else {
            return none;
        };
        // Models of the same code without experts say `null`, or none.
        if fields.has(form.count) && fields.maybe(form.count).unwrap_or(0.0) == 0.0 {
            return none;
        }
        let every = |name: &str| fields.maybe(name).filter(|every| *every > 0.0).unwrap_or(1.0) as usize;
        match form.layers {
            ExpertLayers::All => vec![true; layers],
            ExpertLayers::FromFirst => {
                let first = fields.maybe("first_k_dense_replace").unwrap_or(0.0) as usize;
                let every = every("moe_layer_freq");
                (0..layers)
                    .map(|layer| layer >= first && layer % every == 0)
                    .collect()
            }
            ExpertLayers::Step => {
                let (step, dense) = (every("decoder_sparse_step"), self.numbers("mlp_only_layers"));
                let has = |layer: usize| !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
                (0..layers).map(has).collect()
            }
            ExpertLayers::Interleaved => match fields.has("moe_layers") {
                true => {
                    let listed = self.numbers("moe_layers");
                    (0..layers).map(|layer| listed.contains(&layer)).collect()
                }
                false => {
                    let step = every("interleave_moe_layer_step");
                    (0..layers).map(|layer| (layer + 1) % step == 0).collect()
                }
            },
        }
    }

    /// Numbers of layers.
    fn numbers(&self, name: &str) -> Vec<usize> {
        let list = self.fields.list(name).unwrap_or_default();
        let numbers = list
            .iter()
            .filter_map(Value::as_u64)
            .map(|number| number as usize);
        numbers.collect()
    }

    /// Layers that attend to what a tower saw.
    fn crossing(&self, layers: usize) -> Vec<usize> {
        match self.architecture.stack {
            Stack::Crossing if !self.fields.has("cross_attention_layers") => (3..layers).step_by(5).collect(),
            Stack::Crossing => self.numbers("cross_attention_layers"),
            _ => Vec::new(),
        }
    }

    /// The tokens that each layer attends to, where those are not all.
    fn windows(&self, layers: usize) -> Vec<Option<f64>> {
        let fields = self.fields;
        let form = &self.architecture.windows;
        let size = match form {
            Windows::Absent => None,
            Windows::Behind => fields
                .maybe("sliding_window")
                .filter(|_| fields.flag("use_sliding_window") == Some(true)),
            Windows::All | Windows::AllBut(..) => fields.maybe("sliding_window"),
            Windows::Chunks => fields.maybe("attention_chunk_size"),
        };
        let size = size.filter(|size| *size > 0.0);
        let full = |layer: usize, every: u64| every > 0 && (layer as u64 + 1).is_multiple_of(every);
        let is_windowed: Vec<bool> = match (self.types(layers), form) {
            (Some(types), _) => types,
            (None, Windows::Absent) => vec![false; layers],
            (None, Windows::All) => vec![true; layers],
            (None, Windows::Behind) => {
                let first = fields.maybe("max_window_layers").unwrap_or(f64::INFINITY);
                (0..layers).map(|layer| layer as f64 >= first).collect()
            }
            (None, Windows::AllBut(name, every)) => {
                let said = name.and_then(|name| fields.maybe(name)).map(|every| every as u64);
                (0..layers)
                    .map(|layer| !full(layer, said.unwrap_or(*every)))
                    .collect()
            }
            (None, Windows::Chunks) => match fields.list("no_rope_layers").filter(|list| !list.is_empty()) {
                Some(_) => {
                    let chunked = fields.by_layer("no_rope_layers", layers).unwrap_or_default();
                    let is_one = |layer: usize| chunked.get(layer).and_then(Value::as_u64) == Some(1);
                    (0..layers).map(is_one).collect()
                }
                None => {
                    let every = fields.maybe("no_rope_layer_interval").unwrap_or(4.0) as u64;
                    (0..layers).map(|layer| !full(layer, every)).collect()
                }
            },
        };
        is_windowed.into_iter().map(|is| size.filter(|_| is)).collect()
    }

    /// What `layer_types` says of windows.
    fn types(&self, layers: usize) -> Option<Vec<bool>> {
        let types = self.fields.by_layer("layer_types", layers)?;
        let is_windowed = types.iter().map(|kind| match kind.as_str() {
            Some("full_attention") => Some(false),
            Some("sliding_attention" | "chunked_attention") => Some(true),
            _ => None,
        });
        let read: Option<Vec<bool>> = is_windowed.collect();
        if read.is_none() {
            let kind = FaultKind::Unsupported {
                found: "layers of another type".into(),
                expected: "`full_attention`, `sliding_attention` or `chunked_attention`".into(),
            };
            self.fields.fault("layer_types", kind);
        }
        read
    }
}

/// Layers that differ one by one.
impl Language<'_> {
    /// Layers by the letters of a pattern: a state space, attention, an MLP, experts.
    fn pattern(&self) -> Vec<Block> {
        let fields = self.fields;
        let layers = fields.layers("num_hidden_layers");
        let pattern = fields.text("hybrid_override_pattern");
        let letters: Vec<char> = pattern.unwrap_or_default().chars().collect();
        if letters.len() != layers {
            let kind = FaultKind::Contradiction {
                found: format!("{} letters for {layers} layers", letters.len()).into(),
                expected: "a letter for each: `M`, `*`, `-` or `E`".into(),
            };
            fields.fault("hybrid_override_pattern", kind);
            return Vec::new();
        }
        let has = |letter| letters.contains(&letter);
        let mamba = has('M').then(|| self.mamba());
        let heads = has('*').then(|| self.heads());
        let mlp = has('-').then(|| self.mlp("intermediate_size"));
        let form = self.architecture.experts.as_ref().filter(|_| has('E'));
        let experts = form.and_then(|form| self.experts(form));
        let block = |letter: &char| match letter {
            'M' => self.block("mamba", mamba.clone().map(Mixer::Mamba), None),
            '*' => self.block("attention", heads.clone().map(Mixer::Heads), None),
            '-' => self.block("mlp", None, mlp.map(FeedForward::Dense)),
            'E' => self.block("moe", None, experts.clone().map(FeedForward::Experts)),
            _ => {
                let kind = FaultKind::Unsupported {
                    found: format!("the letter `{letter}`").into(),
                    expected: "`M`, `*`, `-` or `E`".into(),
                };
                fields.fault("hybrid_override_pattern", kind);
                self.block("unknown", None, None)
            }
        };
        letters.iter().map(block).collect()
    }

    fn mamba(&self) -> Mamba {
        let fields = self.fields;
        let is = |name: &str| fields.flag(name).unwrap_or(false);
        Mamba {
            heads: fields.size("mamba_num_heads"),
            head_width: fields.size("mamba_head_dim"),
            groups: fields.size("n_groups"),
            state: fields.size("ssm_state_size"),
            kernel: fields.size("conv_kernel"),
            has_kernel_bias: fields.flag("use_conv_bias").unwrap_or(true),
            chunk: fields.size("chunk_size"),
            has_biases: is("use_bias") || is("mamba_proj_bias"),
        }
    }

    /// Layers that a search for fewer parameters chose one by one.
    fn configured(&self) -> Vec<Block> {
        let fields = self.fields;
        let layers = fields.layers("num_hidden_layers");
        if !fields.has("block_configs") {
            fields.size("block_configs");
        }
        let blocks = fields.by_layer("block_configs", layers).unwrap_or_default();
        let heads = fields.size("num_attention_heads");
        let head_width = fields.divided("hidden_size", "num_attention_heads");
        blocks
            .iter()
            .map(|block| self.configured_block(block, [heads, head_width]))
            .collect()
    }

    fn configured_block(&self, block: &Value, [heads, head_width]: [f64; 2]) -> Block {
        let not_understood = |what: &str| {
            let kind = FaultKind::Unsupported {
                found: format!("a block with {what}").into(),
                expected:
                    "`n_heads_in_group` or `no_op` under `attention`, `ffn_mult` or `no_op` under `ffn`"
                        .into(),
            };
            self.fields.fault("block_configs", kind);
        };
        let is = |part: &str, name: &str| block[part][name].as_bool().unwrap_or(false);
        if is("attention", "replace_with_linear") || is("ffn", "replace_with_linear") {
            not_understood("`replace_with_linear`");
        }
        let mixer = match (
            is("attention", "no_op"),
            block["attention"]["n_heads_in_group"].as_f64(),
        ) {
            (true, _) => None,
            (false, Some(group)) if group > 0.0 && heads % group == 0.0 => Some(Mixer::Heads(Heads {
                heads,
                key_value_heads: heads / group,
                width: head_width,
                biases: Biases::default(),
                norms: HeadNorms::Absent,
                has_sinks: false,
                window: None,
                crosses: false,
            })),
            _ => {
                not_understood("attention of no known heads");
                None
            }
        };
        let feed_forward = match (is("ffn", "no_op"), block["ffn"]["ffn_mult"].as_f64()) {
            (true, _) => None,
            (false, Some(times)) if times > 0.0 && times < 1e3 => Some(FeedForward::Dense(Mlp {
                // Two thirds, since there are three matrices, rounded up to a multiple of 256.
                inner: ((2.0 * times * self.fields.size("hidden_size") / 3.0).floor() / 256.0).ceil() * 256.0,
                is_gated: true,
                has_biases: false,
            })),
            _ => {
                not_understood("an MLP of no known width");
                None
            }
        };
        let kind = match (&mixer, &feed_forward) {
            (Some(_), Some(_)) => "attention",
            (Some(_), None) => "attention-only",
            (None, Some(_)) => "mlp",
            (None, None) => "empty",
        };
        self.block(kind, mixer, feed_forward)
    }
}
