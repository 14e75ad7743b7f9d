//! Sizes and element types of tensors.

use serde::{Deserialize, Serialize};
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::type_proto::Tensor;

/// Shape and element type of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorSize {
    /// Length along each axis.
    pub dims: Vec<usize>,
    /// Bytes of an element.
    pub element_bytes: f64,
    /// Whether gradients can flow through it.
    pub floating: bool,
}

impl TensorSize {
    /// Number of elements; a float, since what a damaged file claims need not fit an integer.
    pub(crate) fn elements(&self) -> f64 {
        self.dims.iter().map(|&dim| dim as f64).product()
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> f64 {
        self.elements() * self.element_bytes
    }

    /// Length along an axis; 1 beyond the last.
    pub(crate) fn dim(&self, axis: usize) -> f64 {
        self.dims.get(axis).map_or(1.0, |&dim| dim as f64)
    }
}

/// Bytes of an element, and whether it is a floating-point number; `None` for types that tract cannot infer shapes with.
pub(super) fn element(data_type: i32) -> Option<(f64, bool)> {
    Some(match DataType::try_from(data_type).ok()? {
        DataType::Float => (4.0, true),
        DataType::Double => (8.0, true),
        DataType::Float16 | DataType::Bfloat16 => (2.0, true),
        DataType::Bool | DataType::Uint8 | DataType::Int8 => (1.0, false),
        DataType::Uint16 | DataType::Int16 => (2.0, false),
        DataType::Uint32 | DataType::Int32 => (4.0, false),
        DataType::Uint64 | DataType::Int64 => (8.0, false),
        // Strings have no fixed size; a pointer stands for one.
        DataType::String => (8.0, false),
        _ => return None,
    })
}

/// The type that tract is told: it has no bfloat16, and float16 is as large.
pub(super) fn for_tract(data_type: i32) -> i32 {
    match DataType::try_from(data_type) {
        Ok(DataType::Bfloat16) => DataType::Float16 as i32,
        _ => data_type,
    }
}

/// The size that a type declares, if every axis has a number.
pub(super) fn declared(tensor: &Tensor) -> Option<TensorSize> {
    use tract_onnx::pb::tensor_shape_proto::dimension::Value::DimValue;
    let (element_bytes, floating) = element(tensor.elem_type)?;
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| match dim.value {
        Some(DimValue(length)) => usize::try_from(length).ok(),
        _ => None,
    });
    Some(TensorSize {
        dims: dims.collect::<Option<_>>()?,
        element_bytes,
        floating,
    })
}
