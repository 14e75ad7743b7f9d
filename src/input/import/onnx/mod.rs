//! ONNX models, through [tract-onnx](https://docs.rs/tract-onnx).
//!
//! The protobuf graph gives names, operators and attributes, with functions and bodies in one list (`flat`); tract infers the shape and
//! type of every tensor, and `ruled` those of what tract does not know. Constants
//! (initializers, and nodes that read nothing else) are folded into the layers that read them. A layer carries work
//! instead of times, so the devices come from a cluster: see `operators` for the counts and what they assume.
//!
//! A file is checked before tract sees it, tract computes no values but small ones, its panics become faults, and what
//! cannot be caught ends a child process alone ([`isolated`]): a damaged model is refused, with the place, whatever its bytes
//! say.

mod bounded;
mod check;
mod control;
mod flat;
mod fused;
pub mod isolated;
mod layers;
mod nodes;
mod operators;
mod precision;
mod quiet;
mod ruled;
mod running;
mod shapes;
mod size;
mod weights;
mod work;

use tract_onnx::pb::{ModelProto, OperatorSetIdProto};
use tract_onnx::prelude::Framework;

use super::{Imported, Source};
use crate::model::fault::{Fault, FaultKind};
use crate::model::spec::{InstanceSpec, NetworkSpec};

/// Reads a model.
pub(crate) fn read(source: &Source) -> Imported {
    let mut model = decode(source.bytes)?;
    let precision = model.graph.as_ref().and_then(precision::of_graph);
    let is_standard = |set: &OperatorSetIdProto| ["", "ai.onnx"].contains(&set.domain.as_str());
    if !model.opset_import.iter().any(is_standard) {
        // A model all of whose nodes are calls may leave the version to its functions.
        let sets = model.functions.iter().flat_map(|function| &function.opset_import);
        let sets: Vec<OperatorSetIdProto> = sets.cloned().collect();
        model.opset_import.extend(sets);
    }
    let functions = flat::functions(std::mem::take(&mut model.functions), source.bytes);
    let mut notes = Vec::new();
    let said = super::open::said();
    let checked = check::check((model, functions), source.path, &said, &mut notes)?;
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
