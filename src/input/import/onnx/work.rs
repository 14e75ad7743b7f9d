//! Work of a node, by the rules of [`operators`](super::operators).

use tract_onnx::pb::NodeProto;

use super::fused::{self, Call};
use super::operators::{ANY_OTHER, Flops, Keeps, Moves, find};
use super::size::TensorSize;
use crate::model::roofline::Traffic;
use crate::model::spec::WorkSpec;

/// What an operand is to training.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
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
pub(super) struct Operand<'a> {
    /// Its size.
    pub size: &'a TensorSize,
    /// What it is to training.
    pub role: Role,
    /// Its value, where it is one integer that does not depend on the graph's inputs.
    pub value: Option<i64>,
}

impl Operand<'_> {
    /// Whether the backward pass computes a gradient for it.
    pub(super) fn has_gradient(&self) -> bool {
        self.size.floating && matches!(self.role, Role::Parameter | Role::Activation { gradient: true })
    }

    fn is_activation(&self) -> bool {
        matches!(self.role, Role::Activation { .. })
    }
}

/// Work of a node.
pub(super) struct Cost {
    /// FLOPs and bytes of both passes.
    pub work: WorkSpec,
    /// Bytes that the backward pass keeps from the forward pass.
    pub stash_bytes: f64,
    /// False where the operator is counted as element-wise for want of a rule.
    pub has_rule: bool,
}

/// Work of a node with these inputs, absent ones included, and outputs.
pub(super) fn cost(node: &NodeProto, inputs: &[Option<Operand>], outputs: &[TensorSize]) -> Cost {
    let found = find(&node.op_type);
    let rule = found.unwrap_or(&ANY_OTHER);
    let given: Vec<Operand> = inputs.iter().flatten().copied().collect();
    let output_bytes: f64 = outputs.iter().map(TensorSize::bytes).sum();
    let call = call(node, inputs);
    let places =
        || (inputs.iter().enumerate()).filter_map(|(place, operand)| Some((place, operand.as_ref()?)));
    let bytes_read = |of_activations: bool| -> f64 {
        let those = places().filter(|(_, operand)| operand.is_activation() == of_activations);
        those
            .map(|(place, operand)| call.part_read(place) * operand.size.bytes())
            .sum()
    };
    // Of what is looked up its rows, whatever they are made of.
    let indices =
        places().filter(|(place, operand)| !operand.size.floating && (*place > 0 || operand.is_activation()));
    let part_read: f64 = indices.map(|(_, operand)| operand.size.bytes()).sum();
    let forward_flops = forward_flops(rule.forward, &call, inputs, outputs);
    let traffic = Traffic {
        inputs: bytes_read(true),
        parameters: bytes_read(false),
        outputs: output_bytes,
    };
    let forward_bytes = match rule.moves {
        Moves::All => traffic.forward(),
        Moves::Part => part_read + Traffic::look_up(output_bytes, output_bytes),
        Moves::View => 0.0,
    };
    let differentiable = given.iter().any(Operand::has_gradient) && outputs.iter().any(|size| size.floating);
    let mut work = WorkSpec {
        forward_flops,
        forward_bytes,
        ..Default::default()
    };
    if !differentiable {
        return Cost {
            work,
            stash_bytes: 0.0,
            has_rule: found.is_some(),
        };
    }
    let stash_bytes = stash_bytes(rule.keeps, &given, outputs);
    let gradients = given.iter().filter(|operand| operand.has_gradient());
    let gradient_bytes: f64 = gradients.clone().map(|operand| operand.size.bytes()).sum();
    let others = traffic.backward(stash_bytes, gradient_bytes);
    (work.backward_flops, work.backward_bytes) = match (rule.backward, rule.moves) {
        (Flops::Product, _) => {
            // Input and weights; biases and states go with the weights.
            let main = factors(node)
                .into_iter()
                .filter_map(|place| inputs.get(place)?.as_ref());
            let products = main.filter(|operand| operand.has_gradient()).count().max(1) as f64;
            (products * forward_flops, products * traffic.of_gradient())
        }
        (_, Moves::View) => (0.0, 0.0),
        // The gradient goes to the rows that were read.
        (_, Moves::Part) => (0.0, part_read + Traffic::look_up_backward(output_bytes)),
        (Flops::Terms, _) => (gradients.count() as f64 * elements(outputs), others),
        (flops, _) => (self::forward_flops(flops, &call, inputs, outputs), others),
    };
    let weights = part_of_weights(rule.backward, node, inputs);
    work.weight_flops = weights * work.backward_flops;
    work.weight_bytes = weights * work.backward_bytes;
    Cost {
        work,
        stash_bytes,
        has_rule: found.is_some(),
    }
}

/// The part of a backward pass that is gradients of weights: of a product, one for each operand that is weights; all of it where
/// nothing else has a gradient; and none where the few numbers that an operator learns are of no account beside its activations, such
/// as a scale.
fn part_of_weights(backward: Flops, node: &NodeProto, inputs: &[Option<Operand>]) -> f64 {
    let is_activation = |operand: &&Operand| operand.has_gradient() && operand.is_activation();
    if !inputs.iter().flatten().any(|operand| is_activation(&operand)) {
        return 1.0;
    }
    if !matches!(backward, Flops::Product) {
        return 0.0;
    }
    let products = factors(node)
        .into_iter()
        .filter_map(|place| inputs.get(place)?.as_ref());
    let products = products.filter(|operand| operand.has_gradient());
    let of_activations = products.clone().filter(is_activation).count();
    let all = products.count().max(1);
    1.0 - of_activations as f64 / all as f64
}

/// Where the two factors of a product stand; experts are as one.
fn factors(node: &NodeProto) -> [usize; 2] {
    match node.op_type.as_str() {
        "MoE" | "QMoE" => [0, 2],
        "QLinearConv" | "QLinearMatMul" => [0, 3],
        _ => [0, 1],
    }
}

/// Whether a constant input is measured or made, and not learned: statistics, scales, tables of angles.
pub(super) fn is_given(node: &NodeProto, place: usize) -> bool {
    node.op_type == "BatchNormalization" && place >= 3 || fused::is_given(node, place)
}

fn call<'a>(node: &'a NodeProto, inputs: &[Option<Operand<'a>>]) -> Call<'a> {
    Call {
        node,
        inputs: (inputs.iter())
            .map(|operand| Some(operand.as_ref()?.size.dims.as_slice()))
            .collect(),
        values: inputs.iter().map(|operand| operand.as_ref()?.value).collect(),
    }
}

fn elements(sizes: &[TensorSize]) -> f64 {
    sizes.iter().map(TensorSize::elements).sum()
}

fn stash_bytes(keeps: Keeps, given: &[Operand], outputs: &[TensorSize]) -> f64 {
    let activations = |keep: fn(&TensorSize) -> bool| {
        let kept = given
            .iter()
            .filter(|operand| operand.is_activation() && keep(operand.size));
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

fn forward_flops(flops: Flops, call: &Call, inputs: &[Option<Operand>], outputs: &[TensorSize]) -> f64 {
    let node = call.node;
    let first = inputs
        .iter()
        .flatten()
        .next()
        .map_or(0.0, |operand| operand.size.elements());
    let output = outputs.first().map_or(0.0, TensorSize::elements);
    match flops {
        Flops::None => 0.0,
        Flops::Input(each) => each * first,
        Flops::Output(each) => each * output,
        // A sum has one operation less than terms; an operator of one input, one.
        Flops::Terms => output * inputs.iter().flatten().count().saturating_sub(1).max(1) as f64,
        Flops::Window => output * integers(node, "kernel_shape").product::<f64>(),
        Flops::Neighbours(more) => (integers(node, "size").sum::<f64>() + more) * first,
        Flops::Product => call
            .product_flops()
            .unwrap_or_else(|| product_flops(node, inputs, output)),
        // Backward, the product before attention has one for its input and one for its weights.
        Flops::Attention(times) => match call.attention_flops() {
            Some(attention) => times * attention + if times > 1.0 { 2.0 } else { 1.0 } * call.packed_flops(),
            None => output,
        },
    }
}

/// Two operations a multiply-add.
fn product_flops(node: &NodeProto, inputs: &[Option<Operand>], output: f64) -> f64 {
    let size = |position: usize| Some(inputs.get(position)?.as_ref()?.size);
    let [left, right] = factors(node).map(size);
    let (Some(left), Some(right)) = (left, right) else {
        return output;
    };
    match node.op_type.as_str() {
        // Weights are [outputs, inputs / groups, window].
        "Conv" | "ConvInteger" | "QLinearConv" => {
            let bias = match node.op_type.as_str() {
                "Conv" => size(2),
                "QLinearConv" => size(8),
                _ => None,
            };
            let bias = bias.map_or(0.0, |_| output);
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
        "MatMul" | "MatMulInteger" | "QLinearMatMul" => {
            2.0 * output * left.dim(left.dims.len().saturating_sub(1))
        }
        "FusedMatMul" => {
            let transposed = integers(node, "transA").any(|flag| flag != 0.0);
            2.0 * output * left.dim(left.dims.len().saturating_sub(1 + usize::from(transposed)))
        }
        // [steps, batch, inputs], weights [directions, gates * hidden, inputs], and hidden instead of inputs.
        _ => {
            let weights = right.elements() + size(2).map_or(0.0, TensorSize::elements);
            2.0 * left.dim(0) * left.dim(1) * weights
        }
    }
}

/// The numbers of an attribute, one or many.
fn integers<'a>(node: &'a NodeProto, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    let named = node
        .attribute
        .iter()
        .filter(move |attribute| attribute.name == name);
    named.flat_map(|attribute| {
        let many = attribute.ints.iter().copied();
        many.chain(attribute.ints.is_empty().then_some(attribute.i))
            .map(|number| number as f64)
    })
}
