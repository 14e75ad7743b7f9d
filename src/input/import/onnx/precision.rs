//! The precision that a model computes in: that of most of its floating-point parameters, or of its inputs.

use std::collections::HashMap;

use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::type_proto::Value;
use tract_onnx::pb::{GraphProto, ValueInfoProto};

use crate::model::precision::Precision;

/// The precision of a graph; `None` where nothing in it is floating-point, or of a type that has no name here.
pub(super) fn of_graph(graph: &GraphProto) -> Option<Precision> {
    let mut elements: HashMap<i32, f64> = HashMap::new();
    for tensor in &graph.initializer {
        let count: f64 = tensor.dims.iter().map(|&dim| dim as f64).product();
        *elements.entry(tensor.data_type).or_default() += count;
    }
    let parameters = elements
        .into_iter()
        .filter_map(|(kind, count)| Some((named(kind)?, count)));
    // Equal counts go to the wider type, so that the order of a map decides nothing.
    let most = parameters.max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.bytes().cmp(&b.0.bytes())));
    most.map(|(precision, _)| precision)
        .or_else(|| graph.input.iter().find_map(of_input))
}

fn of_input(input: &ValueInfoProto) -> Option<Precision> {
    let Value::TensorType(tensor) = input.r#type.as_ref()?.value.as_ref()?;
    named(tensor.elem_type)
}

fn named(data_type: i32) -> Option<Precision> {
    match DataType::try_from(data_type).ok()? {
        DataType::Double => Some(Precision::Fp64),
        DataType::Float => Some(Precision::Fp32),
        DataType::Float16 => Some(Precision::Fp16),
        DataType::Bfloat16 => Some(Precision::Bf16),
        _ => None,
    }
}
