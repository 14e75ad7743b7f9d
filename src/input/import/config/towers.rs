//! What sees images, by the `model_type` of the whole: a row each, and how its `vision_config` becomes a tower.

use serde_json::{Map, Value};

use super::fields::{Defaults, Fields, Names};
use crate::input::transformer::{
    Biases, Block, FeedForward, HeadNorms, Heads, MOST_PROJECTIONS, Mixer, Mlp, Norm, NormPlace, Projection,
    Tower,
};
use crate::model::fault::{Fault, FaultKind};

/// A form of models that see.
pub(super) struct Seeing {
    /// Value of `model_type` of the whole.
    pub name: &'static str,
    /// That of `text_config`, where it says none.
    pub text: &'static str,
    read: fn(&Fields, f64) -> Tower,
    defaults: Defaults,
    names: Names,
}

/// What Qwen's files call otherwise.
const QWEN_NAMES: Names = &[
    ("num_hidden_layers", "depth"),
    ("num_attention_heads", "num_heads"),
    ("num_channels", "in_channels"),
    ("num_channels", "in_chans"),
];

/// Every form that is known.
pub(super) const SEEING: &[Seeing] = &[
    Seeing {
        name: "qwen2_vl",
        text: "qwen2_vl_text",
        read: qwen2,
        defaults: &[
            ("depth", 32.0),
            ("num_hidden_layers", 32.0),
            ("embed_dim", 1280.0),
            ("num_attention_heads", 16.0),
            ("num_channels", 3.0),
            ("patch_size", 14.0),
            ("mlp_ratio", 4.0),
            ("spatial_merge_size", 2.0),
            ("temporal_patch_size", 2.0),
        ],
        names: QWEN_NAMES,
    },
    Seeing {
        name: "qwen2_5_vl",
        text: "qwen2_5_vl_text",
        read: qwen2_5,
        defaults: &[
            ("num_hidden_layers", 32.0),
            ("hidden_size", 1280.0),
            ("intermediate_size", 3420.0),
            ("num_attention_heads", 16.0),
            ("num_channels", 3.0),
            ("patch_size", 14.0),
            ("spatial_merge_size", 2.0),
            ("temporal_patch_size", 2.0),
            ("window_size", 112.0),
        ],
        names: QWEN_NAMES,
    },
    Seeing {
        name: "qwen3_vl",
        text: "qwen3_vl_text",
        read: qwen3,
        defaults: QWEN3_DEFAULTS,
        names: QWEN_NAMES,
    },
    Seeing {
        name: "qwen3_vl_moe",
        text: "qwen3_vl_moe_text",
        read: qwen3,
        defaults: QWEN3_DEFAULTS,
        names: QWEN_NAMES,
    },
    Seeing {
        name: "gemma3",
        text: "gemma3_text",
        read: gemma3,
        // Those of a SigLIP vision model.
        defaults: &[
            ("hidden_size", 768.0),
            ("intermediate_size", 3072.0),
            ("num_hidden_layers", 12.0),
            ("num_attention_heads", 12.0),
            ("num_channels", 3.0),
            ("image_size", 224.0),
            ("patch_size", 16.0),
        ],
        names: &[],
    },
    Seeing {
        name: "llava",
        text: "llama",
        read: llava,
        // Those of a CLIP vision model.
        defaults: &[
            ("hidden_size", 1024.0),
            ("intermediate_size", 4096.0),
            ("num_hidden_layers", 24.0),
            ("num_attention_heads", 16.0),
            ("num_channels", 3.0),
            ("image_size", 336.0),
            ("patch_size", 14.0),
        ],
        names: &[],
    },
    Seeing {
        name: "llama4",
        text: "llama4_text",
        read: llama4,
        defaults: &[
            ("hidden_size", 768.0),
            ("intermediate_size", 5632.0),
            ("num_hidden_layers", 34.0),
            ("num_attention_heads", 16.0),
            ("num_channels", 3.0),
            ("image_size", 448.0),
            ("patch_size", 14.0),
            ("projector_input_dim", 4096.0),
            ("projector_output_dim", 4096.0),
            ("vision_output_dim", 7680.0),
        ],
        names: &[],
    },
    Seeing {
        name: "mllama",
        text: "mllama_text_model",
        read: mllama,
        defaults: &[
            ("hidden_size", 1280.0),
            ("intermediate_size", 5120.0),
            ("num_hidden_layers", 32.0),
            ("num_global_layers", 8.0),
            ("num_attention_heads", 16.0),
            ("num_channels", 3.0),
            ("image_size", 448.0),
            ("patch_size", 14.0),
            ("max_num_tiles", 4.0),
            ("vision_output_dim", 7680.0),
        ],
        names: &[("num_attention_heads", "attention_heads")],
    },
];

const QWEN3_DEFAULTS: Defaults = &[
    ("num_hidden_layers", 27.0),
    ("hidden_size", 1152.0),
    ("intermediate_size", 4304.0),
    ("num_attention_heads", 16.0),
    ("num_channels", 3.0),
    ("patch_size", 16.0),
    ("spatial_merge_size", 2.0),
    ("temporal_patch_size", 2.0),
    ("num_position_embeddings", 2304.0),
];

/// Patches of an image where a form takes images of any size: one of 1,008 by 1,008 in patches of 14.
const PATCHES: f64 = 5184.0;

impl Seeing {
    /// The tower of a `vision_config`, in front of a model of some width.
    pub(super) fn tower(&self, vision: &Map<String, Value>, width: f64) -> Result<Tower, Vec<Fault>> {
        let fields = Fields::new(vision, "vision_config.", self.defaults, self.names);
        let tower = (self.read)(&fields, width);
        let faults = fields.faults();
        match faults.is_empty() {
            true => Ok(tower),
            false => Err(faults),
        }
    }
}

/// Blocks of a vision transformer.
struct Blocks {
    width: f64,
    norm: Norm,
    heads: f64,
    mlp: Mlp,
    /// Of attention.
    has_biases: bool,
}

impl Blocks {
    /// Layer normalisation, biases everywhere and an MLP of two matrices.
    fn classic(fields: &Fields, width: f64, inner: f64) -> Self {
        Self {
            width,
            norm: Norm::Layer,
            heads: fields.size("num_attention_heads"),
            mlp: Mlp {
                inner,
                is_gated: false,
                has_biases: true,
            },
            has_biases: true,
        }
    }

    fn build(&self, layers: usize) -> Vec<Block> {
        let block = Block {
            kind: "vision",
            mixer: Some(Mixer::Heads(Heads {
                heads: self.heads,
                key_value_heads: self.heads,
                width: (self.width / self.heads).floor(),
                biases: Biases {
                    inputs: self.has_biases,
                    output: self.has_biases,
                },
                norms: HeadNorms::Absent,
                has_sinks: false,
                window: None,
                crosses: false,
            })),
            feed_forward: Some(FeedForward::Dense(self.mlp)),
            norm: self.norm,
            place: NormPlace::Before,
            has_gates: false,
        };
        vec![block; layers]
    }
}

/// Numbers of a patch of an image.
fn patch(fields: &Fields) -> f64 {
    fields.size("num_channels") * fields.size("patch_size").powi(2)
}

/// Patches of a square image.
fn patches(fields: &Fields) -> f64 {
    let side = (fields.size("image_size") / fields.size("patch_size")).floor();
    side * side
}

fn projection([inputs, outputs]: [f64; 2], has_bias: bool, tokens: f64) -> Projection {
    Projection {
        inputs,
        outputs,
        has_bias,
        tokens,
        norm: 0.0,
    }
}

/// What merges neighbouring patches: two products of as many vectors side by side.
fn merger(merged: f64, outputs: f64, tokens: f64) -> Vec<Projection> {
    vec![
        projection([merged, merged], true, tokens),
        projection([merged, outputs], true, tokens),
    ]
}

fn qwen2(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("embed_dim");
    let merge = fields.size("spatial_merge_size").powi(2);
    let inner = own * fields.size("mlp_ratio");
    Tower {
        width: own,
        patch: patch(fields) * fields.size("temporal_patch_size"),
        tokens: PATCHES,
        tables: 0.0,
        blocks: Blocks::classic(fields, own, inner).build(fields.layers("num_hidden_layers")),
        norms: 2.0 * own,
        projections: merger(merge * own, width, PATCHES / merge),
    }
}

/// Root-mean-square norms, gated MLPs, and windows of patches in all blocks but a few.
fn qwen2_5(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let merge = fields.size("spatial_merge_size").powi(2);
    let form = Blocks {
        width: own,
        norm: Norm::Rms,
        heads: fields.size("num_attention_heads"),
        mlp: Mlp {
            inner: fields.size("intermediate_size"),
            is_gated: true,
            has_biases: true,
        },
        has_biases: true,
    };
    let mut blocks = form.build(fields.layers("num_hidden_layers"));
    let full = fields.list("fullatt_block_indexes");
    let full: Vec<u64> = match full {
        Some(list) => list.iter().filter_map(Value::as_u64).collect(),
        None => vec![7, 15, 23, 31],
    };
    let side = fields.size("window_size") / fields.size("patch_size");
    for (number, block) in blocks.iter_mut().enumerate() {
        if let (false, Some(Mixer::Heads(heads))) = (full.contains(&(number as u64)), &mut block.mixer) {
            heads.window = Some(side.floor() * side.floor());
        }
    }
    Tower {
        width: own,
        patch: patch(fields) * fields.size("temporal_patch_size"),
        tokens: PATCHES,
        tables: 0.0,
        blocks,
        norms: own,
        projections: merger(merge * own, width, PATCHES / merge),
    }
}

/// States from within the tower go through mergers of their own, each with a norm of what it merges.
fn qwen3(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let merge = fields.size("spatial_merge_size").powi(2);
    let inner = fields.size("intermediate_size");
    let within = fields.list("deepstack_visual_indexes").map_or(3, <[Value]>::len);
    if 2 * within + 2 > MOST_PROJECTIONS {
        let kind = FaultKind::Unsupported {
            found: format!("{within} states from within the tower").into(),
            expected: format!("at most {}", MOST_PROJECTIONS / 2 - 1).into(),
        };
        fields.fault("deepstack_visual_indexes", kind);
    }
    let tokens = PATCHES / merge;
    let mut projections = Vec::new();
    for _ in 0..within.min(MOST_PROJECTIONS / 2 - 1) {
        let mut own_merger = merger(merge * own, width, tokens);
        own_merger[0].norm = 2.0 * merge * own;
        projections.extend(own_merger);
    }
    projections.extend(merger(merge * own, width, tokens));
    Tower {
        width: own,
        patch: patch(fields) * fields.size("temporal_patch_size"),
        tokens: PATCHES,
        tables: own + fields.size("num_position_embeddings") * own,
        blocks: Blocks::classic(fields, own, inner).build(fields.layers("num_hidden_layers")),
        norms: 2.0 * own,
        projections,
    }
}

/// SigLIP, averaged to a number of vectors, a norm and a product.
fn gemma3(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let tokens = patches(fields);
    let inner = fields.size("intermediate_size");
    Tower {
        width: own,
        patch: patch(fields),
        tokens,
        tables: own + tokens * own,
        blocks: Blocks::classic(fields, own, inner).build(fields.layers("num_hidden_layers")),
        norms: 2.0 * own,
        projections: vec![Projection {
            norm: own,
            // Sixteen patches become one vector.
            ..projection([own, width], false, (tokens / 16.0).ceil())
        }],
    }
}

/// CLIP, with a vector for the whole image, and two products.
fn llava(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let tokens = patches(fields);
    let inner = fields.size("intermediate_size");
    Tower {
        width: own,
        patch: patch(fields),
        tokens: tokens + 1.0,
        // A class vector, positions, and the norm before the blocks.
        tables: own + (tokens + 1.0) * own + 2.0 * own,
        blocks: Blocks::classic(fields, own, inner).build(fields.layers("num_hidden_layers")),
        norms: 2.0 * own,
        projections: vec![
            projection([own, width], true, tokens),
            projection([width, width], true, tokens),
        ],
    }
}

/// Four patches side by side become one, two products, and one to the width of the model.
fn llama4(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let tokens = patches(fields);
    let inner = fields.size("intermediate_size");
    let [into, out] = ["projector_input_dim", "projector_output_dim"].map(|name| fields.size(name));
    Tower {
        width: own,
        patch: patch(fields),
        tokens: tokens + 1.0,
        tables: own + (tokens + 1.0) * own + 2.0 * own,
        blocks: Blocks::classic(fields, own, inner).build(fields.layers("num_hidden_layers")),
        norms: 2.0 * own,
        projections: vec![
            // Its first product is as wide as the blocks' MLP.
            projection([inner, into], false, tokens / 4.0),
            projection([out, out], false, tokens / 4.0),
            projection([fields.size("vision_output_dim"), width], false, tokens / 4.0),
        ],
    }
}

/// Tiles of an image, blocks, and as many of `num_global_layers` that are weighed by a learned number.
fn mllama(fields: &Fields, width: f64) -> Tower {
    let own = fields.size("hidden_size");
    let inner = fields.size("intermediate_size");
    let tiles = fields.size("max_num_tiles");
    // One more stands for padding.
    let ratios = 1.0
        + fields
            .list("supported_aspect_ratios")
            .map_or(8.0, |ratios| ratios.len() as f64);
    let vectors = patches(fields) + 1.0;
    let form = Blocks {
        has_biases: false,
        ..Blocks::classic(fields, own, inner)
    };
    let mut blocks = form.build(fields.layers("num_hidden_layers"));
    let mut global = form.build(fields.layers("num_global_layers"));
    global.iter_mut().for_each(|block| block.has_gates = true);
    blocks.extend(global);
    let positions = vectors * own + 1.0 + ratios * tiles * vectors * own;
    let tile_positions = 2.0 * (ratios * tiles * own + 1.0);
    Tower {
        width: own,
        patch: patch(fields),
        tokens: tiles * vectors,
        tables: own + positions + tile_positions + 2.0 * own,
        blocks,
        norms: 2.0 * own,
        projections: vec![projection(
            [fields.size("vision_output_dim"), width],
            true,
            tiles * vectors,
        )],
    }
}
