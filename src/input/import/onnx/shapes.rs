//! Shapes and types of all tensors, by tract's inference.

use std::collections::HashMap;

use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{ModelProto, NodeProto, type_proto};
use tract_onnx::tract_hir::internal::*;

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::check::{Checked, node_name};
use super::fused::SHAPED;
use super::isolated;
use super::quiet;
use super::ruled::{RULED, one_integer, ruled};
use super::size::{TensorSize, declared};
use crate::model::fault::{Fault, FaultKind};

/// What is known about the tensors that nodes produce.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Inferred {
    /// Sizes, by name; a tensor that is absent has no known shape.
    pub sizes: HashMap<String, TensorSize>,
    /// Tensors whose value does not depend on the graph's inputs, such as the shape of a tensor, with that of one integer.
    pub valued: HashMap<String, Option<i64>>,
    /// Why a node's outputs have no shape, by its position.
    pub reasons: HashMap<usize, String>,
}

/// How the reason begins where an operator is not known.
pub(super) const UNKNOWN: &str = "operator `";

/// The name that stands for an operator which tract knows but cannot build.
const OPAQUE: &str = "stagecut.opaque";

/// Infers all it can; what is missing shows in [`Inferred::reasons`]. An error is why tract cannot read the graph at all.
pub(super) fn infer(checked: &Checked) -> Result<Inferred, String> {
    let inferred = quiet::catch(|| run(checked))?;
    inferred.map_err(|error| format!("{error:#}"))
}

fn run(checked: &Checked) -> TractResult<Inferred> {
    let mut onnx = tract_onnx::onnx();
    // `ConstantLike`, which no standard has, allocates without bound.
    onnx.op_register.0.remove("ConstantLike");
    for operator in RULED.iter().chain(SHAPED) {
        onnx.op_register.insert(operator, ruled);
    }
    let mut inferred = Inferred::default();
    let mut model = checked.model.clone();
    let unbuilt = unbuilt(&onnx, &model);
    let nodes = model
        .graph
        .iter_mut()
        .flat_map(|graph| &mut graph.node)
        .enumerate();
    for (position, node) in nodes {
        if let Some(reason) = unbuilt.get(&position) {
            node.op_type = OPAQUE.into();
            node.attribute.clear();
            inferred.reasons.insert(position, reason.clone());
        }
    }
    let parsed = onnx.parse(&model, None)?;
    let outlets = parsed.outlets_by_name;
    let mut graph = parsed.model;
    for (position, node) in checked.nodes().iter().enumerate() {
        let outlet = node.output.iter().find_map(|name| outlets.get(name));
        if let Some(outlet) = outlet {
            let node_in_graph = graph.node_mut(outlet.node);
            node_in_graph.op = Box::new(Bounded {
                position,
                operator: node.op_type.clone(),
                inner: node_in_graph.op.clone(),
                visits: 0,
            });
        }
    }
    // Errors stay with their nodes: they are asked again below, where a shape is missing.
    let _ = graph.analyse(true);
    if believe(&mut graph, &outlets, &checked.claims)? {
        let _ = graph.analyse(true);
    }
    // Constants of the file, as far as they are kept.
    let constants = checked.model.graph.iter().flat_map(|graph| &graph.initializer);
    for tensor in constants {
        let Some(&outlet) = outlets.get(&tensor.name) else {
            continue;
        };
        let value = graph.outlet_fact(outlet)?.value.concretize();
        if let Some(value) = value.and_then(|value| one_integer(&value)) {
            inferred.valued.insert(tensor.name.clone(), Some(value));
        }
    }
    for (position, node) in checked.nodes().iter().enumerate() {
        let mut complete = true;
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            let fact = graph.outlet_fact(outlets[name])?;
            match size(fact).or_else(|| declared(checked.claims.get(name)?)) {
                Some(size) => drop(inferred.sizes.insert(name.clone(), size)),
                None => complete = false,
            }
            if let Some(value) = fact.value.concretize() {
                inferred.valued.insert(name.clone(), one_integer(&value));
            }
        }
        if complete {
            inferred.reasons.remove(&position);
        } else if let Some(outlet) = node.output.iter().find_map(|name| outlets.get(name)) {
            let reason = || ask(&mut graph, outlet.node);
            inferred.reasons.entry(position).or_insert_with(reason);
        }
    }
    Ok(inferred)
}

/// Nodes that tract cannot build, and why. One of them would make it give up the whole model.
fn unbuilt(onnx: &Onnx, model: &ModelProto) -> HashMap<usize, String> {
    let Some(graph) = &model.graph else {
        return HashMap::new();
    };
    let version = model
        .opset_import
        .iter()
        .find(|set| ["", "ai.onnx"].contains(&set.domain.as_str()));
    let context = ParsingContext {
        onnx_operator_set_version: version.map_or(0, |set| set.version),
        framework: onnx,
        model,
        parent_graphs: vec![graph],
        model_dir: None,
        template: InferenceModel::default(),
    };
    let build = |node: &NodeProto| match onnx.op_register.0.get(&node.op_type) {
        None => Err(format!("{UNKNOWN}{}` is not known to tract", node.op_type)),
        Some(builder) => quiet::catch(|| builder(&context, node).map(|_| ()))
            .and_then(|built| built.map_err(|error| format!("{error:#}"))),
    };
    let failed = |(position, node)| {
        isolated::tell(position);
        Some((position, build(node).err()?))
    };
    graph.node.iter().enumerate().filter_map(failed).collect()
}

/// Takes what the file claims about tensors that inference left open; true if that is news.
fn believe(
    graph: &mut InferenceModel,
    outlets: &HashMap<String, OutletId>,
    claims: &HashMap<String, type_proto::Tensor>,
) -> TractResult<bool> {
    let mut news = false;
    for (name, claim) in claims {
        let (Some(&outlet), Some(size)) = (outlets.get(name), declared(claim)) else {
            continue;
        };
        if self::size(graph.outlet_fact(outlet)?).is_some() {
            continue;
        }
        let datum_type = DatumType::try_from(DataType::try_from(claim.elem_type)?)?;
        graph.set_outlet_fact(outlet, InferenceFact::dt_shape(datum_type, size.dims))?;
        news = true;
    }
    Ok(news)
}

/// The size that a fact tells, if it is complete.
fn size(fact: &InferenceFact) -> Option<TensorSize> {
    let datum_type = fact.datum_type.concretize()?;
    Some(TensorSize {
        dims: fact.shape.as_concrete_finite().ok()??.to_vec(),
        // Inside tract dimensions are symbolic expressions; in the file they are 64-bit integers.
        element_bytes: if datum_type.is_tdim() {
            8.0
        } else {
            datum_type.size_of() as f64
        },
        floating: datum_type.is_float(),
    })
}

/// Infers one node once more, for the reason why it fails.
fn ask(graph: &mut InferenceModel, id: usize) -> String {
    let mut op = graph.node(id).op.clone();
    let outcome = graph
        .node_facts(id)
        .and_then(|(inputs, outputs)| op.infer(inputs, outputs, tvec!()));
    match outcome {
        Err(error) => format!("{error:#}"),
        Ok(_) => "it does not follow from the inputs' shapes".into(),
    }
}

/// A fault for a tensor without a shape.
pub(super) fn unknown_shape(
    node: &NodeProto,
    position: usize,
    tensor: &str,
    reason: Option<&String>,
) -> Fault {
    // tract's messages can hold whole graphs.
    let reason: String = reason.map_or("", String::as_str).chars().take(200).collect();
    let at = format!("node `{}` ({})", node_name(node, position), node.op_type);
    if quiet::is_panic(&reason) {
        return Fault::new(at, broken(node, &reason));
    }
    let kind = FaultKind::Unsupported {
        found: format!("output `{tensor}`, whose shape cannot be inferred ({reason})").into(),
        expected: "a static shape; `onnx.shape_inference` can add it to the model as `value_info`".into(),
    };
    Fault::new(at, kind)
}

/// What is wrong with a node that tract panics over: it takes for granted what ONNX asks of the operator, the number of inputs first.
fn broken(node: &NodeProto, reason: &str) -> FaultKind {
    let inputs = node.input.iter().filter(|name| !name.is_empty()).count();
    let found = match (inputs, node.input.len()) {
        (0, _) => "no input".into(),
        (given, all) if given < all => format!("{given} inputs, and {} that are left out", all - given),
        (given, _) => format!("{given} inputs"),
    };
    let attributes = match node.attribute.len() {
        0 => "no attributes".into(),
        _ => {
            let names = node
                .attribute
                .iter()
                .map(|attribute| format!("`{}`", attribute.name));
            format!("the attributes {}", names.collect::<Vec<_>>().join(", "))
        }
    };
    FaultKind::Conflict {
        found: format!("{found} and {attributes}, which nothing can be inferred from ({reason})").into(),
        expected: format!(
            "the inputs and attributes that ONNX asks for with `{}`",
            node.op_type
        )
        .into(),
        remedy: "correct the node; `onnx.checker.check_model` says what is wrong with it".into(),
    }
}
