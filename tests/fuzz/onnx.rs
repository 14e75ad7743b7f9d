//! Models by hand and changes of them: operators, attributes, shapes, constants and wires.

use prost::Message;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value::DimValue};
use tract_onnx::pb::type_proto::{self, Value::TensorType};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};

use super::mutate::below;

/// Operators, those that tract knows and some that it does not.
const OPERATORS: &str = "Abs Add And ArgMax ArgMin Attention AveragePool BatchNormalization Cast CastLike Ceil Clip Compress Concat \
    Constant ConstantLike ConstantOfShape Conv ConvInteger ConvTranspose Cos CumSum DFT DepthToSpace DequantizeLinear Div \
    Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND \
    Gelu Gemm GlobalAveragePool Greater GroupNormalization HardSigmoid Identity If InstanceNormalization IsNaN LRN LSTM \
    LayerNormalization LeakyRelu Less Log LogSoftmax Loop LpNormalization MatMul MatMulInteger Max MaxPool Mean MelWeightMatrix \
    Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear \
    RNN RandomNormal RandomUniformLike Range Reciprocal ReduceL2 ReduceMax ReduceMean ReduceProd ReduceSum Relu Reshape Resize \
    ReverseSequence Round STFT Scan ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Size Slice Softmax Softplus \
    SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor \
    GroupQueryAttention MatMulNBits MoE MultiHeadAttention QMoE RotaryEmbedding SkipLayerNormalization \
    SkipSimplifiedLayerNormalization";

/// Names of attributes, and whether they hold a list.
const ATTRIBUTES: &str = "axis axes perm group kernel_shape strides pads dilations epsilon alpha beta transA transB to dtype k \
    keepdims batch_dims blocksize num_outputs split starts ends mode equation value shape size ceil_mode count_include_pad \
    hidden_size direction largest sorted upper onesided inverse output_shape output_padding scales stash_type exclusive \
    num_heads kv_num_heads q_num_heads K N bits block_size expert_weight_bits local_window_size do_rotary num_scan_inputs \
    scan_input_axes scan_output_axes";

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    -2,
    3,
    4,
    7,
    -7,
    64,
    1023,
    1025,
    -1024,
    65536,
    1 << 31,
    (1 << 31) - 1,
    1 << 33,
    1 << 40,
    i64::MAX,
    i64::MIN,
];

fn word<'a>(rng: &mut ChaCha8Rng, words: &'a str) -> &'a str {
    let words: Vec<&str> = words.split_whitespace().collect();
    words[below(rng, words.len())]
}

fn number(rng: &mut ChaCha8Rng) -> i64 {
    NUMBERS[below(rng, NUMBERS.len())]
}

fn info(name: &str, elem_type: i32, dims: &[i64]) -> ValueInfoProto {
    let dim = |&length: &i64| Dimension {
        value: Some(DimValue(length)),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type,
        shape: Some(TensorShapeProto {
            dim: dims.iter().map(dim).collect(),
        }),
    };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(TypeProto {
            value: Some(TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn constant(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: 7,
        dims: vec![values.len() as i64],
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

fn attribute(rng: &mut ChaCha8Rng) -> AttributeProto {
    let name = word(rng, ATTRIBUTES).to_owned();
    let mut attribute = AttributeProto {
        name,
        ..Default::default()
    };
    match below(rng, 5) {
        0 | 1 => {
            attribute.r#type = AttributeType::Int as i32;
            attribute.i = number(rng);
        }
        2 => {
            attribute.r#type = AttributeType::Ints as i32;
            attribute.ints = (0..below(rng, 5)).map(|_| number(rng)).collect();
        }
        3 => {
            attribute.r#type = AttributeType::Float as i32;
            attribute.f = [0.0, 1.0, -1.0, f32::NAN, f32::MAX][below(rng, 5)];
        }
        _ => {
            attribute.r#type = AttributeType::Tensor as i32;
            attribute.t = Some(constant("", &[number(rng)]));
        }
    }
    attribute
}

/// A body of a few nodes on what it is given and what stands outside; one in three lacks something.
fn body(rng: &mut ChaCha8Rng, known: &[String]) -> GraphProto {
    let mut graph = GraphProto::default();
    let mut seen = known.to_vec();
    for at in 0..below(rng, 5) {
        let name = format!("b{at}");
        graph
            .input
            .push(info(&name, [7, 9, 1][below(rng, 3)], &dims(rng)));
        seen.push(name);
    }
    if rng.random() {
        graph.initializer.push(constant("bc", &[number(rng)]));
        seen.push("bc".into());
    }
    for at in 0..below(rng, 4) {
        let name = format!("n{at}");
        graph.node.push(node(rng, &seen, &name));
        seen.push(name);
    }
    for _ in 0..below(rng, 4) {
        let name = seen[below(rng, seen.len())].clone();
        graph.output.push(info(&name, 1, &[1]));
    }
    graph
}

/// A node that reads what comes before it.
fn node(rng: &mut ChaCha8Rng, known: &[String], output: &str) -> NodeProto {
    let inputs = (0..below(rng, 5)).map(|_| match below(rng, 12) {
        0 => String::new(),
        _ => known[below(rng, known.len())].clone(),
    });
    let input = inputs.collect();
    let op_type = word(rng, OPERATORS);
    let mut attributes: Vec<AttributeProto> = (0..below(rng, 3)).map(|_| attribute(rng)).collect();
    let bodies: &[&str] = match op_type {
        "If" => &["then_branch", "else_branch"],
        "Loop" | "Scan" => &["body"],
        _ => &[],
    };
    for name in bodies {
        attributes.push(AttributeProto {
            name: (*name).into(),
            r#type: AttributeType::Graph as i32,
            g: Some(body(rng, known)),
            ..Default::default()
        });
    }
    NodeProto {
        input,
        output: vec![output.into()],
        op_type: op_type.into(),
        attribute: attributes,
        domain: if below(rng, 4) == 0 {
            "com.microsoft".into()
        } else {
            String::new()
        },
        ..Default::default()
    }
}

fn dims(rng: &mut ChaCha8Rng) -> Vec<i64> {
    (0..below(rng, 5))
        .map(|_| match below(rng, 8) {
            0 => number(rng),
            _ => rng.random_range(1..9),
        })
        .collect()
}

/// A model made at random: most operators alone or in a short row, on inputs and constants of any shape.
pub fn model(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let types = [1, 1, 1, 7, 6, 9, 10, 2];
    let mut graph = GraphProto {
        name: "g".into(),
        ..Default::default()
    };
    let mut known = Vec::new();
    for at in 0..rng.random_range(1..4) {
        let (name, dims) = (format!("x{at}"), dims(rng));
        graph
            .input
            .push(info(&name, types[below(rng, types.len())], &dims));
        known.push(name);
    }
    for at in 0..below(rng, 3) {
        let name = format!("c{at}");
        let values: Vec<i64> = (0..below(rng, 5)).map(|_| number(rng)).collect();
        let mut tensor = constant(&name, &values);
        if values.len() == 1 && rng.random() {
            tensor.dims.clear();
        }
        graph.initializer.push(tensor);
        known.push(name);
    }
    for at in 0..rng.random_range(1..5) {
        let name = format!("y{at}");
        graph.node.push(node(rng, &known, &name));
        known.push(name);
    }
    let last = known.pop().unwrap_or_default();
    graph.output.push(info(&last, 1, &dims(rng)));
    let version = [6, 9, 11, 13, 17, 21][below(rng, 6)];
    let model = ModelProto {
        ir_version: 7,
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version,
        }],
        graph: Some(graph),
        ..Default::default()
    };
    let mut bytes = model.encode_to_vec();
    if below(rng, 20) == 0 && !bytes.is_empty() {
        let at = below(rng, bytes.len());
        bytes[at] = rng.random();
    }
    bytes
}

/// A known model with a few changes; the model itself where it cannot be read.
pub fn changed(rng: &mut ChaCha8Rng, seed: &[u8]) -> Vec<u8> {
    let Ok(mut model) = ModelProto::decode(seed) else {
        return seed.to_vec();
    };
    let Some(graph) = &mut model.graph else {
        return seed.to_vec();
    };
    let known: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    for _ in 0..rng.random_range(1..5) {
        let count = graph.node.len();
        let Some(node) = graph.node.get_mut(below(rng, count.max(1))) else {
            break;
        };
        let attributes = node.attribute.len().max(1);
        match (below(rng, 8), node.attribute.get_mut(below(rng, attributes))) {
            (0, _) => node.op_type = word(rng, OPERATORS).into(),
            (1, Some(attribute)) => attribute.i = number(rng),
            (2, Some(attribute)) => {
                let at = below(rng, attribute.ints.len().max(1));
                if let Some(value) = attribute.ints.get_mut(at) {
                    *value = number(rng);
                }
            }
            (3, Some(_)) => drop(node.attribute.remove(0)),
            (4, _) if !node.input.is_empty() && !known.is_empty() => {
                let at = below(rng, node.input.len());
                node.input[at] = known[below(rng, known.len())].clone();
            }
            (5, _) => {
                let at = below(rng, graph.input.len().max(1));
                let changed = dims(rng);
                if let Some(input) = graph.input.get_mut(at) {
                    *input = info(&input.name, 1, &changed);
                }
            }
            (6, _) => {
                let at = below(rng, graph.initializer.len().max(1));
                if let Some(tensor) = graph.initializer.get_mut(at) {
                    tensor.dims = dims(rng);
                }
            }
            _ => node.attribute.push(attribute(rng)),
        }
    }
    model.encode_to_vec()
}
