//! Models of ONNX as tests write them, field by field of its protobuf.

use std::path::PathBuf;

use prost::Message;
use stagecut::fault::InputError;
use stagecut::import::read_spec;
use stagecut::spec::{InstanceSpec, LayerSpec};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value::DimParam, dimension::Value::DimValue};
use tract_onnx::pb::type_proto::{self, Value::TensorType};
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto,
};

pub const FLOAT: i32 = 1;
pub const BYTE: i32 = 2;
pub const LONG: i32 = 7;
pub const BOOL: i32 = 9;

/// A graph's input or output; a length is a number, or a name for a symbolic one.
pub fn value(name: &str, elem_type: i32, lengths: &[&str]) -> ValueInfoProto {
    let dim = |length: &&str| Dimension {
        value: match length.parse() {
            Ok(length) => Some(DimValue(length)),
            Err(_) if length.is_empty() => None,
            Err(_) => Some(DimParam((*length).into())),
        },
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type,
        shape: Some(TensorShapeProto {
            dim: lengths.iter().map(dim).collect(),
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

/// A constant of zeros.
pub fn zeros(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
    let bytes = match data_type {
        FLOAT => 4,
        LONG => 8,
        _ => 1,
    };
    TensorProto {
        name: name.into(),
        data_type,
        dims: dims.to_vec(),
        raw_data: vec![0; bytes * dims.iter().product::<i64>() as usize],
        ..Default::default()
    }
}

/// A constant of one integer, or a list of them.
pub fn long(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: LONG,
        dims: dims.to_vec(),
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

pub fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        op_type: operator.into(),
        input: names(inputs),
        output: names(outputs),
        ..Default::default()
    }
}

/// Additions to a node.
pub trait With {
    fn named(self, name: &str) -> Self;
    fn of(self, domain: &str) -> Self;
    fn with(self, name: &str, value: i64) -> Self;
    fn body(self, name: &str, graph: GraphProto) -> Self;
    fn given(self, name: &str, parameter: &str) -> Self;
}

impl With for NodeProto {
    fn named(self, name: &str) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    fn of(self, domain: &str) -> Self {
        Self {
            domain: domain.into(),
            ..self
        }
    }

    fn with(mut self, name: &str, value: i64) -> Self {
        self.attribute.push(AttributeProto {
            name: name.into(),
            r#type: AttributeType::Int as i32,
            i: value,
            ..Default::default()
        });
        self
    }

    fn body(mut self, name: &str, graph: GraphProto) -> Self {
        self.attribute.push(AttributeProto {
            name: name.into(),
            r#type: AttributeType::Graph as i32,
            g: Some(graph),
            ..Default::default()
        });
        self
    }

    fn given(mut self, name: &str, parameter: &str) -> Self {
        self.attribute.push(AttributeProto {
            name: name.into(),
            ref_attr_name: parameter.into(),
            r#type: AttributeType::Int as i32,
            ..Default::default()
        });
        self
    }
}

pub fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    FunctionProto {
        name: Some(name.into()),
        domain: Some("own".into()),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        ..Default::default()
    }
}

/// A model, of version 23 of the operators.
#[derive(Default)]
pub struct Written {
    pub graph: GraphProto,
    pub functions: Vec<FunctionProto>,
}

pub fn graph(
    inputs: Vec<ValueInfoProto>,
    constants: Vec<TensorProto>,
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> GraphProto {
    let output = |name: &&str| ValueInfoProto {
        name: (*name).into(),
        ..Default::default()
    };
    GraphProto {
        input: inputs,
        initializer: constants,
        node: nodes,
        output: outputs.iter().map(output).collect(),
        ..Default::default()
    }
}

impl Written {
    pub fn new(inputs: Vec<ValueInfoProto>, constants: Vec<TensorProto>, nodes: Vec<NodeProto>) -> Self {
        Self {
            graph: graph(inputs, constants, nodes, &[]),
            functions: Vec::new(),
        }
    }

    /// The model in a file of a folder that lasts as long as it is held.
    pub fn file(&self) -> (tempfile::TempDir, PathBuf) {
        let model = ModelProto {
            ir_version: 10,
            graph: Some(self.graph.clone()),
            functions: self.functions.clone(),
            opset_import: vec![OperatorSetIdProto {
                version: 23,
                ..Default::default()
            }],
            ..Default::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, model.encode_to_vec()).unwrap();
        (folder, path)
    }

    pub fn try_read(&self) -> Result<InstanceSpec, InputError> {
        let (_folder, path) = self.file();
        Ok(read_spec(&path)?.0)
    }

    pub fn read(&self) -> InstanceSpec {
        self.try_read().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn fault(&self) -> String {
        let error = self.try_read().expect_err("a fault");
        let told: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:#?}");
        told.concat()
    }
}

pub fn layer<'a>(spec: &'a InstanceSpec, id: &str) -> &'a LayerSpec {
    let found = spec.network.layers.iter().find(|layer| layer.id == id);
    found.unwrap_or_else(|| panic!("no {id} among {:?}", ids(spec)))
}

pub fn ids(spec: &InstanceSpec) -> Vec<&str> {
    spec.network
        .layers
        .iter()
        .map(|layer| layer.id.as_str())
        .collect()
}

pub fn forward(layer: &LayerSpec) -> [f64; 2] {
    let work = layer.work.as_ref().unwrap();
    [work.forward_flops, work.forward_bytes]
}

pub fn backward(layer: &LayerSpec) -> [f64; 2] {
    let work = layer.work.as_ref().unwrap();
    [work.backward_flops, work.backward_bytes]
}
