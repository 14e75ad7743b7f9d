//! ONNX models, through [tract-onnx](https://docs.rs/tract-onnx).
//!
//! The protobuf graph gives names, operators and attributes; tract infers the shape and type of every tensor. Constants
//! (initializers, and nodes that read nothing else) are folded into the layers that read them. A layer carries work
//! instead of times, so the devices come from a cluster: see `operators` for the counts and what they assume.
//!
//! A file is checked before tract sees it, tract computes no values but small ones, its panics become faults, and what
//! cannot be caught ends a child process alone ([`isolated`]): a damaged model is refused, with the place, whatever its bytes
//! say.

mod bounded;
mod check;
pub mod isolated;
mod layers;
mod nodes;
mod operators;
mod precision;
mod quiet;
mod shapes;
mod size;
mod weights;
mod work;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::Framework;

use super::{Imported, Source};
use crate::model::fault::{Fault, FaultKind};
use crate::model::spec::{InstanceSpec, NetworkSpec};

/// Reads a model.
pub(crate) fn read(source: &Source) -> Imported {
    let model = decode(source.bytes)?;
    let precision = model.graph.as_ref().and_then(precision::of_graph);
    let mut notes = Vec::new();
    let checked = check::check(model, source.path, &mut notes)?;
    let inferred = isolated::infer(&checked)?;
    let network = layers::network(&checked, &inferred, &mut notes)?;
    let network = NetworkSpec { precision, ..network };
    let spec = InstanceSpec {
        network,
        ..Default::default()
    };
    Ok((spec, notes))
}

/// Decodes protobuf, which bounds the depth of nesting itself.
fn decode(bytes: &[u8]) -> Result<ModelProto, Vec<Fault>> {
    let syntax = |found: String| {
        vec![Fault::new(
            "the file",
            FaultKind::Syntax {
                found,
                expected: "an ONNX model (protobuf `ModelProto` with a graph)".into(),
            },
        )]
    };
    let model = quiet::catch(|| tract_onnx::onnx().proto_model_for_read(&mut &*bytes))
        .and_then(|decoded| decoded.map_err(|error| error.to_string()))
        .map_err(|reason| syntax(format!("bytes that do not decode ({reason})")))?;
    match model.graph {
        Some(_) => Ok(model),
        None => Err(syntax("no graph".into())),
    }
}
