//! Work of an operator: FLOPs and bytes of both passes, and what the backward pass keeps.
//!
//! With `x` and `y` the elements of the first input and of the outputs, `k` the length of a sum or window:
//!
//! | operators | forward FLOPs | backward FLOPs | kept for the backward pass |
//! |---|---|---|---|
//! | convolutions, products, recurrent cells | `2 y k`, bias `y` | as forward, for each operand with a gradient | activations read |
//! | normalisations | `8 y` | `9 y` | input |
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
//! | reductions | `x` | `x` | nothing, or the input |
//! | Concat, Slice, Transpose, Gather and the like | 0 | 0 | integer inputs |
//! | Reshape, Flatten, Identity and the like | 0 | 0 | nothing: views move nothing |
//! | any other | `y` | `y` | activations read |
//!
//! The reasons. A product has one backward product for each operand: the gradient of the weights, and of the input if
//! something before it learns. The first layer reads the data, which nobody differentiates: its backward pass is one
//! product, not two. An element-wise operator does about the same again, and its time is that of its bytes: the forward
//! pass reads its inputs and writes its outputs; the backward pass reads the gradient and what was kept, and writes a
//! gradient for each operand that has one. A product moves the operands of the forward product once for each backward
//! one. Normalisations count statistics (4), normalising (2), scale and shift (2); backward two sums (5) and the
//! gradient (4). A function such as `exp` counts as one operation, an activation built on one as four. Masks and indices
//! are as PyTorch keeps them. Kept bytes are those of each layer alone: where several layers keep one tensor their sum is
//! an upper bound.

use tract_onnx::pb::NodeProto;

use super::size::TensorSize;
use crate::instance::spec::WorkSpec;

/// What an operand is to training.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    /// A constant that training changes.
    Parameter,
    /// A constant that it does not.
    Fixed,
    /// An activation, and whether something before it learns.
    Activation {
        /// Whether its gradient is computed.
        gradient: bool,
    },
}

/// An input of a node.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// Its size.
    pub size: &'a TensorSize,
    /// What it is to training.
    pub role: Role,
}

impl Operand<'_> {
    /// Whether the backward pass computes a gradient for it.
    pub fn has_gradient(&self) -> bool {
        self.size.floating && matches!(self.role, Role::Parameter | Role::Activation { gradient: true })
    }

    fn is_activation(&self) -> bool {
        matches!(self.role, Role::Activation { .. })
    }
}

/// Work of a node.
pub struct Cost {
    /// FLOPs and bytes of both passes.
    pub work: WorkSpec,
    /// Bytes that the backward pass keeps from the forward pass.
    pub stash_bytes: f64,
    /// False where the operator is counted as element-wise for want of a rule.
    pub has_rule: bool,
}

/// How FLOPs are counted.
#[derive(Clone, Copy)]
enum Flops {
    None,
    Input(f64),
    Output(f64),
    /// One an output element and term of a sum: inputs but one forward, operands with a gradient backward.
    Terms,
    /// One an output element and element of the window.
    Window,
    /// Neighbouring channels and a constant, an input element.
    Neighbours(f64),
    Product,
}

/// What the backward pass keeps.
#[derive(Clone, Copy)]
enum Keeps {
    Nothing,
    Activations,
    IntegerActivations,
    Output,
    InputAndOutput,
    /// Bytes for each output element.
    Each(f64),
}

/// What is moved.
#[derive(Clone, Copy, PartialEq)]
enum Moves {
    /// Inputs and outputs.
    All,
    /// As many bytes as the outputs have, there and back.
    Part,
    /// Nothing.
    View,
}

struct Rule {
    operators: &'static [&'static str],
    forward: Flops,
    backward: Flops,
    keeps: Keeps,
    moves: Moves,
}

const fn rule(operators: &'static [&'static str], forward: Flops, backward: Flops, keeps: Keeps) -> Rule {
    let moves = Moves::All;
    Rule { operators, forward, backward, keeps, moves }
}

const fn moving(operators: &'static [&'static str], keeps: Keeps, moves: Moves) -> Rule {
    let (forward, backward) = (Flops::None, Flops::None);
    Rule { operators, forward, backward, keeps, moves }
}

const ANY_OTHER: Rule = rule(&[], Flops::Output(1.0), Flops::Output(1.0), Keeps::Activations);

/// One byte: a mask as PyTorch keeps it.
const MASK: Keeps = Keeps::Each(1.0);
/// 64-bit indices, as the operator's second output has them.
const INDICES: Keeps = Keeps::Each(8.0);

const RULES: &[Rule] = &[
    rule(
        &["Conv", "ConvInteger", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul", "MatMulInteger", "RNN"],
        Flops::Product,
        Flops::Product,
        Keeps::Activations,
    ),
    rule(
        &[
            "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
            "LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
            "SkipLayerNormalization",
        ],
        Flops::Output(8.0),
        Flops::Output(9.0),
        Keeps::Activations,
    ),
    rule(&["LRN"], Flops::Neighbours(5.0), Flops::Neighbours(7.0), Keeps::InputAndOutput),
    rule(&["LogSoftmax", "Softmax"], Flops::Output(5.0), Flops::Output(4.0), Keeps::Output),
    rule(&["MaxPool"], Flops::Window, Flops::Output(1.0), INDICES),
    rule(&["GlobalMaxPool"], Flops::Input(1.0), Flops::Output(1.0), INDICES),
    rule(&["AveragePool"], Flops::Window, Flops::Window, Keeps::Nothing),
    rule(&["LpPool"], Flops::Window, Flops::Window, Keeps::InputAndOutput),
    rule(
        &["GlobalAveragePool", "ReduceMean", "ReduceSum"],
        Flops::Input(1.0),
        Flops::Input(1.0),
        Keeps::Nothing,
    ),
    rule(
        &[
            "CumSum", "GlobalLpPool", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
            "ReduceMin", "ReduceProd", "ReduceSumSquare",
        ],
        Flops::Input(1.0),
        Flops::Input(1.0),
        Keeps::Activations,
    ),
    rule(
        &["Clip", "HardSigmoid", "LeakyRelu", "Relu", "ThresholdedRelu"],
        Flops::Output(1.0),
        Flops::Output(1.0),
        MASK,
    ),
    rule(&["Dropout"], Flops::Output(2.0), Flops::Output(1.0), MASK),
    rule(&["Add", "Mean", "Neg", "Sub", "Sum"], Flops::Terms, Flops::Terms, Keeps::Nothing),
    rule(&["Div", "Max", "Min", "Mul"], Flops::Terms, Flops::Terms, Keeps::Activations),
    rule(
        &["Exp", "Reciprocal", "Rsqrt", "Sigmoid", "Sqrt", "Tanh"],
        Flops::Output(4.0),
        Flops::Output(2.0),
        Keeps::Output,
    ),
    rule(
        &[
            "Abs", "Celu", "Cos", "Elu", "Erf", "FastGelu", "Gelu", "HardSwish", "Log", "Mish", "PRelu", "Pow",
            "QuickGelu", "Selu", "Sin", "Softplus", "Softsign", "Swish",
        ],
        Flops::Output(4.0),
        Flops::Output(4.0),
        Keeps::Activations,
    ),
    rule(
        &[
            "And", "ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "IsInf", "IsNaN",
            "Less", "LessOrEqual", "Not", "Or", "Round", "Sign", "Where", "Xor",
        ],
        Flops::Output(1.0),
        Flops::Output(1.0),
        Keeps::IntegerActivations,
    ),
    moving(
        &["Cast", "Concat", "DepthToSpace", "Expand", "Pad", "SpaceToDepth", "Split", "Tile", "Transpose"],
        Keeps::Nothing,
        Moves::All,
    ),
    moving(
        &["Gather", "GatherElements", "GatherND", "Slice"],
        Keeps::IntegerActivations,
        Moves::Part,
    ),
    moving(
        &["Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"],
        Keeps::Nothing,
        Moves::View,
    ),
];

/// Work of a node with these inputs, absent ones included, and outputs.
pub fn cost(node: &NodeProto, inputs: &[Option<Operand>], outputs: &[TensorSize]) -> Cost {
    let found = RULES.iter().find(|rule| rule.operators.contains(&node.op_type.as_str()));
    let rule = found.unwrap_or(&ANY_OTHER);
    let given: Vec<Operand> = inputs.iter().flatten().copied().collect();
    let output_bytes: f64 = outputs.iter().map(TensorSize::bytes).sum();
    let read: f64 = given.iter().map(|operand| operand.size.bytes()).sum();
    let part_read: f64 = given.iter().filter(|o| !o.size.floating).map(|o| o.size.bytes()).sum();
    let forward_flops = forward_flops(rule.forward, node, inputs, outputs);
    let forward_bytes = match rule.moves {
        Moves::All => read + output_bytes,
        Moves::Part => part_read + 2.0 * output_bytes,
        Moves::View => 0.0,
    };
    let differentiable = given.iter().any(Operand::has_gradient) && outputs.iter().any(|size| size.floating);
    let mut work = WorkSpec {
        forward_flops,
        forward_bytes,
        ..Default::default()
    };
    if !differentiable {
        return Cost { work, stash_bytes: 0.0, has_rule: found.is_some() };
    }
    let stash_bytes = stash_bytes(rule.keeps, &given, outputs);
    let gradients = given.iter().filter(|operand| operand.has_gradient());
    let gradient_bytes: f64 = gradients.clone().map(|operand| operand.size.bytes()).sum();
    let parameters = given.iter().filter(|operand| !operand.is_activation());
    let parameter_bytes: f64 = parameters.map(|operand| operand.size.bytes()).sum();
    (work.backward_flops, work.backward_bytes) = match (rule.backward, rule.moves) {
        (Flops::Product, _) => {
            // Input and weights; biases and states go with the weights.
            let main = inputs.iter().take(2).flatten();
            let products = main.filter(|operand| operand.has_gradient()).count().max(1) as f64;
            (products * forward_flops, products * forward_bytes)
        }
        (_, Moves::View) => (0.0, 0.0),
        // The gradient goes to the rows that were read, which are read, added to and written.
        (_, Moves::Part) => (0.0, part_read + 3.0 * output_bytes),
        (Flops::Terms, _) => (
            gradients.count() as f64 * elements(outputs),
            output_bytes + stash_bytes + parameter_bytes + gradient_bytes,
        ),
        (flops, _) => (
            self::forward_flops(flops, node, inputs, outputs),
            output_bytes + stash_bytes + parameter_bytes + gradient_bytes,
        ),
    };
    Cost { work, stash_bytes, has_rule: found.is_some() }
}

/// Whether a constant input holds statistics, which are measured and not learned.
pub fn is_statistic(node: &NodeProto, position: usize) -> bool {
    node.op_type == "BatchNormalization" && position >= 3
}

fn elements(sizes: &[TensorSize]) -> f64 {
    sizes.iter().map(TensorSize::elements).sum()
}

fn stash_bytes(keeps: Keeps, given: &[Operand], outputs: &[TensorSize]) -> f64 {
    let activations = |keep: fn(&TensorSize) -> bool| {
        let kept = given.iter().filter(|operand| operand.is_activation() && keep(operand.size));
        kept.map(|operand| operand.size.bytes()).sum::<f64>()
    };
    let first = outputs.first().cloned().unwrap_or_default();
    match keeps {
        Keeps::Nothing => 0.0,
        Keeps::Activations => activations(|_| true),
        Keeps::IntegerActivations => activations(|size| !size.floating),
        Keeps::Output => first.bytes(),
        Keeps::InputAndOutput => activations(|_| true) + first.bytes(),
        Keeps::Each(bytes) => bytes * first.elements(),
    }
}

fn forward_flops(flops: Flops, node: &NodeProto, inputs: &[Option<Operand>], outputs: &[TensorSize]) -> f64 {
    let first = inputs.iter().flatten().next().map_or(0.0, |operand| operand.size.elements());
    let output = outputs.first().map_or(0.0, TensorSize::elements);
    match flops {
        Flops::None => 0.0,
        Flops::Input(each) => each * first,
        Flops::Output(each) => each * output,
        // A sum has one operation less than terms; an operator of one input, one.
        Flops::Terms => output * inputs.iter().flatten().count().saturating_sub(1).max(1) as f64,
        Flops::Window => output * integers(node, "kernel_shape").product::<f64>(),
        Flops::Neighbours(more) => (integers(node, "size").sum::<f64>() + more) * first,
        Flops::Product => product_flops(node, inputs, output),
    }
}

/// Two operations a multiply-add.
fn product_flops(node: &NodeProto, inputs: &[Option<Operand>], output: f64) -> f64 {
    let size = |position: usize| Some(inputs.get(position)?.as_ref()?.size);
    let (Some(left), Some(right)) = (size(0), size(1)) else {
        return output;
    };
    match node.op_type.as_str() {
        // Weights are [outputs, inputs / groups, window].
        "Conv" | "ConvInteger" => {
            let bias = size(2).filter(|_| node.op_type == "Conv").map_or(0.0, |_| output);
            2.0 * output * right.elements() / right.dim(0).max(1.0) + bias
        }
        // Weights are [inputs, outputs / groups, window], and every input element meets all of its row.
        "ConvTranspose" => {
            let bias = size(2).map_or(0.0, |_| output);
            2.0 * left.elements() * right.elements() / right.dim(0).max(1.0) + bias
        }
        "Gemm" => {
            let transposed = integers(node, "transA").any(|flag| flag != 0.0);
            let bias = size(2).map_or(0.0, |_| output);
            2.0 * output * left.dim(usize::from(!transposed)) + bias
        }
        // [.., rows, k] times [.., k, columns].
        "MatMul" | "MatMulInteger" => 2.0 * output * left.dim(left.dims.len().saturating_sub(1)),
        // [steps, batch, inputs], weights [directions, gates * hidden, inputs], and hidden instead of inputs.
        _ => {
            let weights = right.elements() + size(2).map_or(0.0, TensorSize::elements);
            2.0 * left.dim(0) * left.dim(1) * weights
        }
    }
}

/// The numbers of an attribute, one or many.
fn integers<'a>(node: &'a NodeProto, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    let named = node.attribute.iter().filter(move |attribute| attribute.name == name);
    named.flat_map(|attribute| {
        let many = attribute.ints.iter().copied();
        many.chain(attribute.ints.is_empty().then_some(attribute.i)).map(|number| number as f64)
    })
}
