//! What a model is made of. Sizes are whole numbers in `f64`, since products of them are FLOPs and bytes; they stay exact below 2⁵³.

/// A model, in the order in which data flow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    /// Width of the vectors that flow between blocks.
    pub width: f64,
    /// Between what a vision tower sees and the blocks.
    pub tower: Option<Tower>,
    /// The tables of words before and behind the blocks; a stack of bare blocks has none.
    pub embedding: Option<Embedding>,
    pub blocks: Vec<Block>,
    /// The norm before the head.
    pub norm: Norm,
    /// What predicts tokens beyond the next one, in training or as a draft.
    pub predictors: Vec<Predictor>,
}

/// Tables of words and positions, and the head.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Embedding {
    /// Words that the head tells apart.
    pub vocabulary: f64,
    /// Rows of the table of words: the vocabulary, in some models with a few for images.
    pub rows: f64,
    /// Rows of the table of positions, where they are learned.
    pub positions: f64,
    /// Whether the head is the table of words.
    pub is_tied: bool,
}

/// A block: one part that mixes tokens, and one that works on each alone; either may be missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// What tells it from other blocks of the model, for reports.
    pub kind: &'static str,
    pub mixer: Option<Mixer>,
    pub feed_forward: Option<FeedForward>,
    pub norm: Norm,
    pub place: NormPlace,
    /// Whether each part is weighed by a learned number before it is added.
    pub has_gates: bool,
}

/// A normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    /// A scale and a shift.
    Layer,
    /// The root mean square with a scale.
    Rms,
}

impl Norm {
    /// Numbers for each of the width.
    pub fn vectors(self) -> f64 {
        match self {
            Self::Layer => 2.0,
            Self::Rms => 1.0,
        }
    }
}

/// Where a block's norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormPlace {
    Before,
    /// On the output of each part.
    Behind,
    Both,
}

/// What mixes tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mixer {
    Heads(Heads),
    Latent(Latent),
    Mamba(Mamba),
}

/// Which products of attention add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Biases {
    /// Queries, keys and values.
    pub inputs: bool,
    pub output: bool,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeadNorms {
    #[default]
    Absent,
    /// One scale for all heads, as wide as a head.
    Shared,
    /// A scale as wide as all heads together.
    Whole,
}

/// Attention by heads, of which several may share keys and values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heads {
    pub heads: f64,
    pub key_value_heads: f64,
    /// Width of a head.
    pub width: f64,
    pub biases: Biases,
    pub norms: HeadNorms,
    /// Whether each head has a learned score for attending to nothing.
    pub has_sinks: bool,
    /// Tokens that are attended to, where those are not all.
    pub window: Option<f64>,
    /// Whether keys and values are those of the tower's output.
    pub crosses: bool,
}

/// Attention whose keys and values come from a latent vector (DeepSeek-AI, *DeepSeek-V2*, 2024, section 2.1).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Latent {
    pub heads: f64,
    /// Width of the latent vector of queries, where they have one.
    pub query_rank: Option<f64>,
    /// Width of that of keys and values.
    pub rank: f64,
    /// Width of a head's query and key without position.
    pub plain_width: f64,
    /// Width of its part with position, whose key all heads share.
    pub rotary_width: f64,
    /// Width of a head's value.
    pub value_width: f64,
    /// Of the products of the input and the output.
    pub has_biases: bool,
}

/// A state space (T. Dao, A. Gu, *Transformers are SSMs*, ICML 2024), as Mamba-2 has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mamba {
    pub heads: f64,
    pub head_width: f64,
    /// Groups of heads with one input and output matrix of the state.
    pub groups: f64,
    /// Numbers of a state for each of a head's width.
    pub state: f64,
    /// Tokens of the convolution.
    pub kernel: f64,
    pub has_kernel_bias: bool,
    /// Tokens that are computed as attention is, before the state goes on.
    pub chunk: f64,
    pub has_biases: bool,
}

/// What works on each token alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FeedForward {
    Dense(Mlp),
    Experts(Experts),
}

/// Two matrices, or three where one is a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mlp {
    /// Width inside.
    pub inner: f64,
    pub is_gated: bool,
    pub has_biases: bool,
}

/// MLPs of which a router chooses some for each token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Experts {
    pub count: f64,
    /// How many a token goes to.
    pub chosen: f64,
    pub each: Mlp,
    /// What all tokens go through beside.
    pub shared: Option<Mlp>,
    /// Whether a learned product weighs that.
    pub has_shared_gate: bool,
    /// Numbers for each expert beside the router's matrix: a bias, a correction that balances them.
    pub router_vectors: f64,
}

/// A vision tower: patches, blocks, and what brings them to the width of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tower {
    /// Width of the vectors in the tower.
    pub width: f64,
    /// Numbers of a patch.
    pub patch: f64,
    /// Patches of an image, and the token that stands for it whole where there is one.
    pub tokens: f64,
    /// Parameters before the blocks beside the matrix of patches: its bias, positions, norms.
    pub tables: f64,
    pub blocks: Vec<Block>,
    /// Numbers of the norms behind the blocks.
    pub norms: f64,
    /// What follows, in order.
    pub projections: Vec<Projection>,
}

/// A product between the tower and the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projection {
    pub inputs: f64,
    pub outputs: f64,
    pub has_bias: bool,
    /// Vectors of an image that go through it.
    pub tokens: f64,
    /// Numbers of the norm before it.
    pub norm: f64,
}

/// A layer that predicts a token further ahead: norms of the state and the embedding, a product of both, a block and the norm of the head
/// (DeepSeek-AI, *DeepSeek-V3*, 2024, section 2.2). It shares the tables of words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Predictor {
    pub block: Block,
}

impl Model {
    /// For each kind of attention or state space, the heads that a tensor group shares out.
    pub fn shared_heads(&self) -> Vec<u32> {
        let tower = self.tower.iter().flat_map(|tower| &tower.blocks);
        let mixers = self
            .blocks
            .iter()
            .chain(tower)
            .filter_map(|block| block.mixer.as_ref());
        let mut heads: Vec<u32> = mixers.map(|mixer| mixer.shared_heads() as u32).collect();
        heads.sort_unstable();
        heads.dedup();
        heads
    }
}

impl Block {
    /// Whether tokens choose among experts.
    pub fn has_experts(&self) -> bool {
        matches!(self.feed_forward, Some(FeedForward::Experts(_)))
    }

    /// Whether it attends to what a tower saw.
    pub fn crosses(&self) -> bool {
        matches!(&self.mixer, Some(Mixer::Heads(heads)) if heads.crosses)
    }
}

impl Mixer {
    fn shared_heads(&self) -> f64 {
        match self {
            Self::Heads(heads) => heads.key_value_heads,
            Self::Latent(latent) => latent.heads,
            Self::Mamba(mamba) => mamba.groups,
        }
    }
}
