//! Operators of what mixes tokens: attention by heads, attention through a latent vector, a state space.

use super::Attention;
use super::model::{HeadNorms, Heads, Latent, Mamba, Mixer};
use super::operator::{Cache, Kind, Operator, Parameters};
use super::parts::Scope;

/// Products of matrices that attention takes backward for one forward: its five, with the scores computed again, for two (T. Dao,
/// *FlashAttention-2*, ICLR 2024, section 3.1.2).
pub(crate) const FLASH_BACKWARD: f64 = 2.5;

impl Mixer {
    /// Its operators, the last of which is what is added to the state; `from` is what they read.
    pub(super) fn operators(&self, scope: &Scope, from: &'static str) -> Vec<Operator> {
        match self {
            Self::Heads(heads) => heads.operators(scope, from),
            Self::Latent(latent) => latent.operators(scope, from),
            Self::Mamba(mamba) => mamba.operators(scope, from),
        }
    }

    /// Numbers that are kept of each token for those behind it. A state space keeps a state of one size however many tokens there were,
    /// and attention to a tower's output keeps what comes from there: neither grows with the tokens. A window does until it is full.
    pub(super) fn kept_numbers(&self) -> f64 {
        match self {
            Self::Heads(heads) if heads.crosses => 0.0,
            Self::Heads(heads) => 2.0 * heads.keys(),
            Self::Latent(latent) => latent.rank + latent.rotary_width,
            Self::Mamba(_) => 0.0,
        }
    }
}

/// Attention of all heads, whatever its queries, keys and values come from.
struct Core {
    /// What the scores read.
    keys: Vec<&'static str>,
    /// What they weigh.
    values: &'static str,
    heads: f64,
    /// Width of a head's query and key.
    key_width: f64,
    value_width: f64,
    /// Tokens that each attends to.
    attended: f64,
    cache: Cache,
}

impl Core {
    /// Scores of all pairs of tokens, their softmax, and the values weighed by it: one operator where the scores are never written.
    fn operators(self, scope: &Scope) -> Vec<Operator> {
        let numbers = self.heads * scope.tokens() * self.attended;
        let scores = scope.bytes(numbers);
        let flops = |width: f64| 2.0 * numbers * width;
        let [of_keys, of_values] = [self.key_width, self.value_width].map(flops);
        let output = scope.bytes(scope.tokens() * self.heads * self.value_width);
        let half = self.cache.half();
        let mut reads = self.keys.clone();
        if !reads.contains(&self.values) {
            reads.push(self.values);
        }
        let operators = match scope.attention {
            Attention::Flash => vec![Operator {
                model_flops: of_keys + of_values,
                backward: FLASH_BACKWARD,
                kind: Kind::OfInputsAndOutput,
                cache: self.cache,
                ..Operator::plain("context", reads, of_keys + of_values + 5.0 * numbers, output)
            }],
            Attention::Materialised => vec![
                Operator {
                    cache: half,
                    ..Operator::product("scores", self.keys, of_keys, scores).core()
                },
                Operator::plain("softmax", vec!["scores"], 5.0 * numbers, scores).core(),
                Operator {
                    cache: half,
                    ..Operator::product("context", vec!["softmax", self.values], of_values, output)
                },
            ],
        };
        // What keeps each token attends to all.
        let grows = self.cache.token_bytes > 0.0;
        let operators = operators.into_iter().map(Operator::split);
        operators.map(|operator| Operator { grows, ..operator }).collect()
    }
}

impl Heads {
    /// Whether what is kept grows with the tokens.
    fn grows(&self) -> bool {
        !self.crosses && self.window.is_none()
    }

    /// Width of the keys, and of the values, of a token.
    fn keys(&self) -> f64 {
        self.key_value_heads * self.width
    }

    fn operators(&self, scope: &Scope, from: &'static str) -> Vec<Operator> {
        let (queries, keys) = (self.heads * self.width, self.keys());
        let bias = self.biases.inputs;
        // Keys and values of another sequence are as many as that has vectors.
        let (source, key_scope) = match self.crosses {
            true => ("states", scope.of_states()),
            false => (from, *scope),
        };
        let mut operators = vec![
            scope.matrix("query", vec![from], [scope.width, queries], bias),
            key_scope.matrix("key", vec![source], [scope.width, keys], bias),
            key_scope.matrix("value", vec![source], [scope.width, keys], bias),
        ];
        let mut scored = vec!["query", "key"];
        if self.norms != HeadNorms::Absent {
            let vectors = |all: f64| match self.norms {
                HeadNorms::Whole => all,
                HeadNorms::Shared | HeadNorms::Absent => self.width,
            };
            let norm = |scope: &Scope, name, of, width: f64| Operator {
                parameters: Parameters::all(vectors(width)),
                ..scope.norm(name, vec![of], width).split()
            };
            operators.push(norm(scope, "query_norm", "query", queries));
            operators.push(norm(&key_scope, "key_norm", "key", keys));
            scored = vec!["query_norm", "key_norm"];
        }
        let everything = match self.crosses {
            true => key_scope.sequence,
            false => scope.context + scope.sequence,
        };
        let window = self.window.unwrap_or(f64::INFINITY);
        let kept = if self.crosses {
            0.0
        } else {
            scope.context.min(window) * scope.sequences
        };
        let of_a_token = scope.bytes(2.0 * keys);
        let core = Core {
            keys: scored,
            values: "value",
            heads: self.heads,
            key_width: self.width,
            value_width: self.width,
            attended: everything.min(window),
            cache: Cache {
                bytes: kept * of_a_token,
                token_bytes: if self.grows() { of_a_token } else { 0.0 },
                sequence_bytes: match (self.crosses, self.window) {
                    (true, _) => key_scope.sequence * of_a_token,
                    (false, Some(window)) => window * of_a_token,
                    (false, None) => 0.0,
                },
                is_whole: false,
            },
        };
        let mut attention = core.operators(scope);
        if let Some(last) = attention.last_mut().filter(|_| self.has_sinks) {
            last.parameters = Parameters::all(self.heads);
        }
        operators.extend(attention);
        operators.push(
            scope
                .matrix(
                    "project",
                    vec!["context"],
                    [queries, scope.width],
                    self.biases.output,
                )
                .reduced(),
        );
        operators
    }
}

impl Latent {
    /// Products down to latent vectors are done by every device of a tensor group, products up from them by heads, as Megatron has it.
    ///
    /// Behind a cache the product up is absorbed: queries are brought to the latent vectors and attention's output from them, so that what
    /// is cached is read as it is, by every head (DeepSeek-AI, *DeepSeek-V2*, 2024, section 2.1.3). That takes as many operations for
    /// these products, and more for each pair of tokens.
    fn operators(&self, scope: &Scope, from: &'static str) -> Vec<Operator> {
        let query_width = self.plain_width + self.rotary_width;
        let queries = self.heads * query_width;
        let values = self.heads * self.value_width;
        let norm = |name, of, width: f64| Operator {
            parameters: Parameters::all(width),
            ..scope.norm(name, vec![of], width)
        };
        let mut operators = Vec::new();
        match self.query_rank {
            Some(rank) => operators.extend([
                scope
                    .matrix("query_down", vec![from], [scope.width, rank], self.has_biases)
                    .whole(),
                norm("query_norm", "query_down", rank),
                scope.matrix("query", vec!["query_norm"], [rank, queries], false),
            ]),
            None => operators.push(scope.matrix("query", vec![from], [scope.width, queries], false)),
        }
        let latent = self.rank + self.rotary_width;
        operators.extend([
            scope
                .matrix("latent", vec![from], [scope.width, latent], self.has_biases)
                .whole(),
            norm("latent_norm", "latent", self.rank),
            scope.matrix(
                "key_value",
                vec!["latent_norm"],
                [self.rank, self.heads * (self.plain_width + self.value_width)],
                false,
            ),
        ]);
        let is_absorbed = scope.context > 0.0;
        let core = Core {
            keys: vec!["query", "latent", "key_value"],
            values: "key_value",
            heads: self.heads,
            key_width: if is_absorbed { latent } else { query_width },
            value_width: if is_absorbed { self.rank } else { self.value_width },
            attended: scope.context + scope.sequence,
            cache: Cache {
                bytes: scope.bytes(scope.context * scope.sequences * latent),
                token_bytes: scope.bytes(latent),
                sequence_bytes: 0.0,
                is_whole: true,
            },
        };
        operators.extend(core.operators(scope));
        operators.push(
            scope
                .matrix("project", vec!["context"], [values, scope.width], self.has_biases)
                .reduced(),
        );
        operators
    }
}

impl Mamba {
    /// The scan in chunks: inside a chunk every token attends to those before it, and the state goes on from chunk to chunk (Dao and Gu,
    /// section 6). A device of a tensor group has whole groups of heads.
    fn operators(&self, scope: &Scope, from: &'static str) -> Vec<Operator> {
        let inner = self.heads * self.head_width;
        let states = self.groups * self.state;
        let mixed = inner + 2.0 * states;
        let tokens = scope.tokens();
        let chunk = self.chunk.min(scope.sequence);
        let kernel = Operator {
            parameters: Parameters::all(mixed * (self.kernel + if self.has_kernel_bias { 1.0 } else { 0.0 })),
            ..Operator::plain(
                "convolution",
                vec!["enter"],
                2.0 * tokens * mixed * self.kernel,
                scope.bytes(tokens * mixed),
            )
            .split()
        };
        let scan_flops = tokens * (2.0 * chunk * (states + inner) + 4.0 * self.state * inner);
        let state = scope.bytes(self.state * inner);
        let cache = Cache {
            bytes: if scope.trains {
                0.0
            } else {
                scope.sequences * state
            },
            // Beside the state, what the kernel still needs of the tokens before.
            sequence_bytes: state + scope.bytes((self.kernel - 1.0) * mixed),
            ..Cache::default()
        };
        let scan = Operator {
            model_flops: scan_flops,
            backward: 2.0,
            // A rate, a skip and a bias of the step for each head.
            parameters: Parameters::all(3.0 * self.heads),
            cache,
            ..Operator::plain(
                "scan",
                vec!["convolution"],
                scan_flops,
                scope.bytes(tokens * inner),
            )
            .split()
        };
        vec![
            scope.matrix(
                "enter",
                vec![from],
                [scope.width, inner + mixed + self.heads],
                self.has_biases,
            ),
            kernel,
            scan,
            Operator {
                parameters: Parameters::all(inner),
                // It is weighed by the gate that comes with what is expanded.
                ..scope.norm("gated_norm", vec!["scan", "enter"], inner).split()
            },
            scope
                .matrix(
                    "project",
                    vec!["gated_norm"],
                    [inner, scope.width],
                    self.has_biases,
                )
                .reduced(),
        ]
    }
}
