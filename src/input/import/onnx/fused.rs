//! Operators that do what several others do, as the runtimes of language models have them: attention of all heads, products with
//! packed weights, experts, rotations, sums with their norm. Here: the lengths of what they make, the length of their sums, and which
//! part of their constants they read. Those of `com.microsoft` are as its page of contributed operators describes them, the others as
//! ONNX does.

use tract_onnx::pb::NodeProto;

use crate::input::transformer::touched;

/// What operators of contributed kinds are told apart by.
const CONTRIBUTED: &str = "com.microsoft";

/// Names of operators whose outputs' lengths are known here.
pub(super) const SHAPED: &[&str] = &[
    "Attention",
    "GroupQueryAttention",
    "MatMulNBits",
    "MoE",
    "MultiHeadAttention",
    "QMoE",
    "RotaryEmbedding",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// A node, the lengths of its inputs, and their value where it is one known integer; absent inputs are none.
pub(super) struct Call<'a> {
    pub node: &'a NodeProto,
    pub inputs: Vec<Option<&'a [usize]>>,
    pub values: Vec<Option<i64>>,
}

/// Attention of all heads.
struct Core {
    batch: usize,
    heads: usize,
    /// Heads of keys and values.
    shared: usize,
    queries: usize,
    /// Tokens that stand before.
    past: usize,
    /// All tokens with keys.
    keys: usize,
    key_width: usize,
    value_width: usize,
}

impl Core {
    /// Pairs of a query and a key, of all heads.
    fn scores(&self) -> f64 {
        product(&[self.batch, self.heads, self.queries, self.keys])
    }
}

/// Experts of a layer.
struct Experts {
    count: f64,
    chosen: f64,
    tokens: f64,
    /// Weights of one.
    weights: f64,
    /// Numbers between the matrices of one, for a token.
    wide: f64,
    is_gated: bool,
}

impl Call<'_> {
    fn dims(&self, place: usize) -> Option<&[usize]> {
        *self.inputs.get(place)?
    }

    fn length(&self, place: usize, axis: usize) -> Option<usize> {
        self.dims(place)?.get(axis).copied()
    }

    fn number(&self, name: &str) -> Option<usize> {
        let attribute = self
            .node
            .attribute
            .iter()
            .find(|attribute| attribute.name == name)?;
        usize::try_from(attribute.i)
            .ok()
            .filter(|&number| (1..1 << 24).contains(&number))
    }

    fn is_contributed(&self) -> bool {
        self.node.domain == CONTRIBUTED
    }

    /// Lengths of the outputs, by place; none where they are not known.
    pub(super) fn outputs(&self) -> Vec<Option<Vec<usize>>> {
        let same = || self.dims(0).map(<[usize]>::to_vec);
        match self.node.op_type.as_str() {
            "MatMulNBits" => {
                let outputs = || {
                    let (_, rows) = self.dims(0)?.split_last()?;
                    Some([rows, &[self.number("N")?]].concat())
                };
                vec![outputs()]
            }
            "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
                let statistics = || {
                    let (_, rows) = self.dims(0)?.split_last()?;
                    Some([rows, &[1]].concat())
                };
                vec![same(), statistics(), statistics(), same()]
            }
            "MoE" | "QMoE" | "RotaryEmbedding" => vec![same()],
            _ => self.core().map_or_else(Vec::new, |core| self.of_attention(&core)),
        }
    }

    /// Outputs of attention: what it weighs, keys and values with those before, and in one piece where one input has both.
    fn of_attention(&self, core: &Core) -> Vec<Option<Vec<usize>>> {
        let all = |width: usize| vec![core.batch, core.shared, core.keys.max(core.past), width];
        let joined = vec![core.batch, core.queries, core.heads * core.value_width];
        let is_apart = !self.is_contributed() && self.dims(0).is_some_and(|dims| dims.len() == 4);
        let output = match is_apart {
            true => vec![core.batch, core.heads, core.queries, core.value_width],
            false => joined,
        };
        let [keys, values] = [core.key_width, core.value_width].map(all);
        match (self.is_contributed(), self.node.op_type.as_str()) {
            (true, "Attention") => vec![Some(output), Some([&[2], &keys[..]].concat())],
            _ => {
                let scores = vec![core.batch, core.heads, core.queries, core.keys];
                vec![Some(output), Some(keys), Some(values), Some(scores)]
            }
        }
    }

    fn core(&self) -> Option<Core> {
        match (self.node.op_type.as_str(), self.is_contributed()) {
            ("Attention", false) => self.attention(),
            ("Attention", true) => self.packed_attention(),
            ("GroupQueryAttention", _) => self.grouped_attention(),
            ("MultiHeadAttention", _) => self.headed_attention(),
            _ => None,
        }
    }

    /// Attention of ONNX, from version 23: heads apart, or in one row.
    fn attention(&self) -> Option<Core> {
        let (query, key, value) = (self.dims(0)?, self.dims(1)?, self.dims(2)?);
        let past = self.length(4, 2).unwrap_or(0);
        let core = |heads, shared, queries, keys: usize, key_width, value_width| Core {
            batch: query[0],
            heads,
            shared,
            queries,
            past,
            keys: keys + past,
            key_width,
            value_width,
        };
        match (query, key, value) {
            (&[_, heads, queries, width], &[_, shared, keys, _], &[_, _, _, value_width]) => {
                Some(core(heads, shared, queries, keys, width, value_width))
            }
            (&[_, queries, width], &[_, keys, _], &[_, _, values]) => {
                let heads = self.number("q_num_heads")?;
                let shared = self.number("kv_num_heads").unwrap_or(heads);
                Some(core(heads, shared, queries, keys, width / heads, values / shared))
            }
            _ => None,
        }
    }

    /// Attention with the product before it, weights `[width, queries + keys + values]`.
    fn packed_attention(&self) -> Option<Core> {
        let &[batch, queries, _] = self.dims(0)? else {
            return None;
        };
        let heads = self.number("num_heads")?;
        let all = self.length(1, 1)?;
        let parts = self.node.attribute.iter().find(|a| a.name == "qkv_hidden_sizes");
        let part = |place: usize| {
            let given = parts.and_then(|parts| usize::try_from(*parts.ints.get(place)?).ok());
            given.unwrap_or(all / 3) / heads
        };
        let past = self.length(4, 3).unwrap_or(0);
        Some(Core {
            batch,
            heads,
            shared: heads,
            queries,
            past,
            keys: queries + past,
            key_width: part(0),
            value_width: part(2),
        })
    }

    /// Attention whose heads share keys and values, which may lie in one tensor with the queries; the cache may have room for more than
    /// there is, of which `total_sequence_length` says how much.
    fn grouped_attention(&self) -> Option<Core> {
        let &[batch, queries, width] = self.dims(0)? else {
            return None;
        };
        let (heads, shared) = (self.number("num_heads")?, self.number("kv_num_heads")?);
        let width = match self.dims(1) {
            Some(_) => width / heads,
            None => width / (heads + 2 * shared),
        };
        let past = self.length(3, 2).unwrap_or(0);
        let total = self.values.get(6).copied().flatten();
        let total = total.and_then(|total| usize::try_from(total).ok().filter(|&total| total < 1 << 31));
        Some(Core {
            batch,
            heads,
            shared,
            queries,
            past,
            keys: total.unwrap_or(past + queries),
            key_width: width,
            value_width: width,
        })
    }

    /// Attention of ONNX's first runtime with queries, keys and values by themselves, or packed head by head.
    fn headed_attention(&self) -> Option<Core> {
        let heads = self.number("num_heads")?;
        let query = self.dims(0)?;
        let (queries, width) = match *query {
            [_, queries, width] => (queries, width / heads),
            [_, queries, _, _, width] => (queries, width),
            _ => return None,
        };
        let (keys, value_width) = match (self.dims(1), self.dims(2)) {
            (None, _) => (queries, width),
            (Some(&[_, keys, _, _, width]), None) => (keys, width),
            (Some(&[_, _, keys, _]), Some(&[_, _, _, value_width])) => (keys, value_width),
            (Some(&[_, keys, _]), Some(&[_, _, values])) => (keys, values / heads),
            _ => return None,
        };
        let past = self.length(6, 2).unwrap_or(0);
        Some(Core {
            batch: query[0],
            heads,
            shared: heads,
            queries,
            past,
            keys: keys + past,
            key_width: width,
            value_width,
        })
    }

    /// FLOPs of attention: scores, their softmax, and the values weighed by it, for all pairs of tokens or those of a window, as in
    /// generated networks; a rotation of queries and keys where it has one.
    pub(super) fn attention_flops(&self) -> Option<f64> {
        let core = self.core()?;
        let window = self.number("local_window_size").unwrap_or(usize::MAX);
        let pairs = core.scores() * core.keys.min(window) as f64 / core.keys.max(1) as f64;
        let widths = (core.key_width + core.value_width) as f64;
        let rotated = match self.number("do_rotary") {
            Some(_) => product(&[core.batch, core.queries, core.heads + core.shared, core.key_width]),
            None => 0.0,
        };
        Some(pairs * (2.0 * widths + 5.0) + ROTATION * rotated)
    }

    /// FLOPs of the product before attention, where it has one.
    pub(super) fn packed_flops(&self) -> f64 {
        let has_product = self.node.op_type == "Attention" && self.is_contributed();
        let (Some(input), Some(columns), true) = (self.dims(0), self.length(1, 1), has_product) else {
            return 0.0;
        };
        2.0 * product(input) * columns as f64
    }

    /// FLOPs of products with weights that only some tokens, or only these operators, know the size of.
    pub(super) fn product_flops(&self) -> Option<f64> {
        if self.node.op_type == "MatMulNBits" {
            let outputs = self.number("N")? as f64;
            let input = self.dims(0)?;
            let rows = product(input) / (*input.last()? as f64).max(1.0);
            let bias = self.dims(5).map_or(0.0, |_| rows * outputs);
            return Some(2.0 * product(input) * outputs + bias);
        }
        let experts = self.experts()?;
        let between = if experts.is_gated { 6.0 } else { 8.0 };
        Some(experts.tokens * experts.chosen * (2.0 * experts.weights + between * experts.wide))
    }

    fn experts(&self) -> Option<Experts> {
        // Where the three matrices lie, and how many numbers a byte holds.
        let (places, packed) = match self.node.op_type.as_str() {
            "MoE" => ([2, 4, 6], 1.0),
            "QMoE" => (
                [2, 5, 8],
                8.0 / self.number("expert_weight_bits").unwrap_or(4) as f64,
            ),
            _ => return None,
        };
        let input = self.dims(0)?;
        let count = self.length(2, 0)? as f64;
        let hidden = *input.last()? as f64;
        let weights = places.map(|place| self.dims(place).map_or(0.0, product) * packed / count.max(1.0));
        let wide = weights[1] / hidden.max(1.0);
        let is_wider = weights[0] > 1.5 * weights[1];
        Some(Experts {
            count,
            chosen: (self.number("k").unwrap_or(1) as f64).min(count),
            tokens: product(input) / hidden.max(1.0),
            weights: weights.iter().sum(),
            wide,
            is_gated: is_wider || weights[2] > 0.0,
        })
    }

    /// The part of an input that is read: of experts those that tokens go to, of tables of angles the rows of the positions.
    pub(super) fn part_read(&self, place: usize) -> f64 {
        let table = match (self.node.op_type.as_str(), self.is_contributed()) {
            ("MoE" | "QMoE", _) => return self.part_of_experts(place),
            ("RotaryEmbedding", true) => [2, 3],
            ("RotaryEmbedding", false) if self.dims(3).is_some() => [1, 2],
            ("GroupQueryAttention", _) => [7, 8],
            _ => return 1.0,
        };
        let Some(rows) = self.length(place, 0).filter(|_| table.contains(&place)) else {
            return 1.0;
        };
        let tokens = match self.dims(0) {
            Some(&[_, _, tokens, _] | &[_, tokens, _]) => tokens,
            _ => rows,
        };
        (tokens as f64 / rows.max(1) as f64).min(1.0)
    }

    fn part_of_experts(&self, place: usize) -> f64 {
        match (place, self.experts(), self.length(place, 0)) {
            (2.., Some(experts), Some(count)) if count as f64 == experts.count && count > 0 => {
                touched(experts.count, experts.chosen, experts.tokens.max(1.0)) / experts.count
            }
            _ => 1.0,
        }
    }
}

/// Operations of a rotated number: two products and a sum.
pub(super) const ROTATION: f64 = 3.0;

/// Whether a constant input is not learned: scales and zero points of packed weights, tables of angles.
pub(super) fn is_given(node: &NodeProto, place: usize) -> bool {
    match node.op_type.as_str() {
        "MatMulNBits" => (2..=4).contains(&place),
        "RotaryEmbedding" => place > 0,
        "GroupQueryAttention" => place == 7 || place == 8,
        "QMoE" => [3, 6, 9, 11, 12, 13].contains(&place),
        "GatherBlockQuantized" => place > 1,
        _ => false,
    }
}

fn product(lengths: &[usize]) -> f64 {
    lengths.iter().map(|&length| length as f64).product()
}
