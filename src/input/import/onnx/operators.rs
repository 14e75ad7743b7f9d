//! Work of an operator: FLOPs and bytes of both passes, and what the backward pass keeps.
//!
//! With `x` and `y` the elements of the first input and of the outputs, `k` the length of a sum or window:
//!
//! | operators | forward FLOPs | backward FLOPs | kept for the backward pass |
//! |---|---|---|---|
//! | convolutions, products, recurrent cells | `2 y k`, bias `y` | as forward, for each operand with a gradient | activations read |
//! | products with packed weights, experts | `2 y k`, of experts `k` times those chosen | as forward, for each operand with a gradient | activations read |
//! | attention of all heads | `2 k` and softmax's 5 a pair of tokens | 2.5 times as many | inputs and output |
//! | rotations | `3 y` | `3 y` | nothing |
//! | normalisations | `8 y` | `9 y` | input |
//! | sums and their norm | `9 y` | `10 y` | inputs |
//! | LRN over `n` channels | `(n + 5) x` | `(n + 7) x` | input and output |
//! | Softmax | `5 y` | `4 y` | output |
//! | MaxPool | `k y` | `y` | indices, 8 bytes an output |
//! | AveragePool | `k y` | `k y` | nothing |
//! | Relu, Clip, LeakyRelu | `y` | `y` | mask, 1 byte an output |
//! | Dropout | `2 y` | `y` | mask, 1 byte an output |
//! | Add, Sub, Sum | `y` a term | `y` an operand | nothing |
//! | Mul, Div, Max, Min | `y` a term | `y` an operand | activations read |
//! | Sigmoid, Tanh, Exp, Sqrt | `4 y` | `2 y` | output |
//! | Gelu, Erf, Pow and the like | `4 y` | `4 y` | input |
//! | switches | `x` | `x` | nothing, or the input |
//! | Concat, Slice, Transpose, Gather and the like | 0 | 0 | integer inputs |
//! | Reshape, Flatten, Identity and the like | 0 | 0 | nothing: views move nothing |
//! | any other | `y` | `y` | activations read |
//!
//! The reasons. A product has one backward product for each operand: the gradient of the weights, and of the input if
//! something before it learns. The first layer reads the data, which nobody differentiates: its backward pass is one
//! product, not two. Of the backward products of a layer that learns weights one is the gradient of the weights, for which no layer
//! waits; what the first layer does backward is nothing else; products of two activations have none, nor have other operators, whose
//! scales and shifts go with the gradients of their inputs (P. Qi et al., *Zero Bubble Pipeline Parallelism*, ICLR 2024, Figure 1).
//! An element-wise operator does about the same again, and its time is that of its bytes: the forward
//! pass reads its inputs and writes its outputs; the backward pass reads the gradient and what was kept, and writes a
//! gradient for each operand that has one. A product moves the operands of the forward product once for each backward
//! one. Normalisations count statistics (4), normalising (2), scale and shift (2); backward two sums (5) and the
//! gradient (4). A function such as `exp` counts as one operation, an activation built on one as four. Masks and indices
//! are as PyTorch keeps them. Kept bytes are those of each layer alone: where several layers keep one tensor their sum is
//! an upper bound.

use super::fused::ROTATION;
use crate::input::transformer::FLASH_BACKWARD;

/// How FLOPs are counted.
#[derive(Clone, Copy)]
pub(super) enum Flops {
    /// None at all.
    None,
    /// So many an element of the first input.
    Input(f64),
    /// So many an element of the first output.
    Output(f64),
    /// One an output element and term of a sum: inputs but one forward, operands with a gradient backward.
    Terms,
    /// One an output element and element of the window.
    Window,
    /// Neighbouring channels and a constant, an input element.
    Neighbours(f64),
    /// Two a multiply-add.
    Product,
    /// So many times those of attention.
    Attention(f64),
}

/// What the backward pass keeps.
#[derive(Clone, Copy)]
pub(super) enum Keeps {
    /// Nothing.
    Nothing,
    /// The activations it reads.
    Activations,
    /// Those that are indices or conditions.
    IntegerActivations,
    /// Its output.
    Output,
    /// The activations it reads, and its output.
    InputAndOutput,
    /// Bytes for each output element.
    Each(f64),
}

/// What is moved.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Moves {
    /// Inputs and outputs.
    All,
    /// As many bytes as the outputs have, there and back.
    Part,
    /// Nothing.
    View,
}

/// How an operator is counted.
pub(super) struct Rule {
    /// Names, with a space between them.
    operators: &'static str,
    /// FLOPs of the forward pass.
    pub forward: Flops,
    /// FLOPs of the backward pass.
    pub backward: Flops,
    /// What the backward pass keeps.
    pub keeps: Keeps,
    /// What both passes move.
    pub moves: Moves,
}

const fn rule(operators: &'static str, forward: Flops, backward: Flops, keeps: Keeps) -> Rule {
    let moves = Moves::All;
    Rule {
        operators,
        forward,
        backward,
        keeps,
        moves,
    }
}

const fn moving(operators: &'static str, keeps: Keeps, moves: Moves) -> Rule {
    let (forward, backward) = (Flops::None, Flops::None);
    Rule {
        operators,
        forward,
        backward,
        keeps,
        moves,
    }
}

/// For operators without a rule.
pub(super) const ANY_OTHER: Rule = rule("", Flops::Output(1.0), Flops::Output(1.0), Keeps::Activations);

/// One byte: a mask as PyTorch keeps it.
const MASK: Keeps = Keeps::Each(1.0);
/// 64-bit indices, as the operator's second output has them.
const INDICES: Keeps = Keeps::Each(8.0);

const RULES: &[Rule] = &[
    rule(
        "Conv ConvInteger ConvTranspose FusedMatMul Gemm GRU LSTM MatMul MatMulInteger MatMulNBits MoE QLinearConv QLinearMatMul \
         QMoE RNN",
        Flops::Product,
        Flops::Product,
        Keeps::Activations,
    ),
    rule(
        "Attention GroupQueryAttention MultiHeadAttention",
        Flops::Attention(1.0),
        Flops::Attention(FLASH_BACKWARD),
        Keeps::InputAndOutput,
    ),
    rule(
        "RotaryEmbedding",
        Flops::Output(ROTATION),
        Flops::Output(ROTATION),
        Keeps::IntegerActivations,
    ),
    rule(
        "SkipLayerNormalization SkipSimplifiedLayerNormalization",
        Flops::Output(9.0),
        Flops::Output(10.0),
        Keeps::Activations,
    ),
    rule(
        "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization \
         LpNormalization MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization",
        Flops::Output(8.0),
        Flops::Output(9.0),
        Keeps::Activations,
    ),
    rule(
        "LRN",
        Flops::Neighbours(5.0),
        Flops::Neighbours(7.0),
        Keeps::InputAndOutput,
    ),
    rule(
        "LogSoftmax Softmax",
        Flops::Output(5.0),
        Flops::Output(4.0),
        Keeps::Output,
    ),
    rule("MaxPool", Flops::Window, Flops::Output(1.0), INDICES),
    rule("GlobalMaxPool", Flops::Input(1.0), Flops::Output(1.0), INDICES),
    rule("AveragePool", Flops::Window, Flops::Window, Keeps::Nothing),
    rule("LpPool", Flops::Window, Flops::Window, Keeps::InputAndOutput),
    rule(
        "GlobalAveragePool ReduceMean ReduceSum",
        Flops::Input(1.0),
        Flops::Input(1.0),
        Keeps::Nothing,
    ),
    rule(
        "CumSum GlobalLpPool ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin \
         ReduceProd ReduceSumSquare",
        Flops::Input(1.0),
        Flops::Input(1.0),
        Keeps::Activations,
    ),
    rule(
        "Clip HardSigmoid LeakyRelu Relu ThresholdedRelu",
        Flops::Output(1.0),
        Flops::Output(1.0),
        MASK,
    ),
    rule("Dropout", Flops::Output(2.0), Flops::Output(1.0), MASK),
    rule("Add Mean Neg Sub Sum", Flops::Terms, Flops::Terms, Keeps::Nothing),
    rule("Div Max Min Mul", Flops::Terms, Flops::Terms, Keeps::Activations),
    rule(
        "Exp Reciprocal Rsqrt Sigmoid Sqrt Tanh",
        Flops::Output(4.0),
        Flops::Output(2.0),
        Keeps::Output,
    ),
    rule(
        "Abs BiasGelu Celu Cos Elu Erf FastGelu Gelu HardSwish Log Mish PRelu Pow QuickGelu Selu Sin Softplus \
         Softsign Swish",
        Flops::Output(4.0),
        Flops::Output(4.0),
        Keeps::Activations,
    ),
    rule(
        "And ArgMax ArgMin Ceil Equal Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not \
         Or Round Sign Where Xor",
        Flops::Output(1.0),
        Flops::Output(1.0),
        Keeps::IntegerActivations,
    ),
    moving(
        "Cast Concat DepthToSpace Expand Pad SpaceToDepth Split Tile Transpose",
        Keeps::Nothing,
        Moves::All,
    ),
    moving(
        "Gather GatherBlockQuantized GatherElements GatherND Slice",
        Keeps::IntegerActivations,
        Moves::Part,
    ),
    moving(
        "Flatten Identity Reshape Shape Size Squeeze Unsqueeze stagecut.carry stagecut.slice",
        Keeps::Nothing,
        Moves::View,
    ),
];

/// The rule for an operator, if there is one.
pub(super) fn find(operator: &str) -> Option<&'static Rule> {
    RULES
        .iter()
        .find(|rule| rule.operators.split(' ').any(|name| name == operator))
}
