//! Measured layers in Sailor's form: F. Strati et al., *Sailor: Automating distributed training over dynamic, heterogeneous, and
//! geo-distributed clusters*, SOSP 2025; eth-easl/sailor, whose `profiles_tmp.json` and `llm_info.json` say this of all its models at once.
//!
//! A file is a model on one kind of GPU: seconds of each layer by micro-batch size and tensor degree, and what it holds and hands on at each
//! degree. Layers are a chain, and degrees become their modes. A network has one micro-batch: that of `micro_batch_size`, or the least.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text::from_json;
use super::{Imported, Source, has_json_field};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Optimizer, PipelineOptions, StatePrecision};
use crate::model::precision::Precision;
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, ModeSpec, NetworkSpec, TensorSpec,
};
use crate::model::words::words;

/// By layer, for each tensor degree.
type ByDegree<T> = BTreeMap<usize, Vec<T>>;

#[derive(Deserialize)]
struct File {
    model: String,
    gpu: String,
    layer_kinds: Vec<String>,
    /// By micro-batch size: forward, backward, and the optimiser's step.
    times_s: BTreeMap<usize, ByDegree<[f64; 3]>>,
    /// Of one GPU of a tensor group, four for a number.
    parameter_bytes_by_tp: ByDegree<f64>,
    /// What a layer hands on of one sequence.
    output_bytes_per_sample_by_tp: ByDegree<f64>,
    /// What a layer keeps of one sequence.
    activation_memory_bytes_per_sample_by_tp: ByDegree<f64>,
    /// Which of the measured sizes is meant.
    micro_batch_size: Option<usize>,
}

/// Whether the top level has some of the format's own fields; a file that lacks one is told which.
pub(super) fn detect(source: &Source) -> bool {
    has_json_field(
        source,
        &[
            "times_s",
            "parameter_bytes_by_tp",
            "output_bytes_per_sample_by_tp",
        ],
    )
}

/// Reads a file.
pub(super) fn read(source: &Source) -> Imported {
    let file: File = from_json(source.text()?)?;
    let size = file.micro_batch_size.or(file.times_s.keys().next().copied());
    let size = size.ok_or_else(|| missing("times_s".into(), "times of a micro-batch size"))?;
    let times = file.times_s.get(&size);
    let times =
        times.ok_or_else(|| missing("times_s".into(), format!("times of micro-batch size {size}")))?;
    if !times.contains_key(&1) {
        return Err(missing(format!("times_s.{size}"), "times of tensor degree 1"));
    }
    uneven(&file, size, times)?;
    let sizes: Vec<String> = file.times_s.keys().map(ToString::to_string).collect();
    let notes = vec![words!(
        "micro-batches of {} of the sizes {}, which `micro_batch_size` in the file chooses from; the optimiser's step is left out",
        size.to_string(),
        sizes.join(", ")
    )];
    let network = NetworkSpec {
        precision: Some(Precision::Fp32),
        layers: layers(&file, size, times),
        tensors: tensors(&file, size),
        ..Default::default()
    };
    let spec = InstanceSpec {
        name: Some(file.model),
        network,
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: file.gpu,
                ..Default::default()
            }],
            ..Default::default()
        }),
        pipeline: PipelineOptions {
            optimizer: Some(Optimizer::Adam),
            precision: Some(StatePrecision::Fp32),
            ..Default::default()
        },
        ..Default::default()
    };
    Ok((spec, notes))
}

fn missing(at: String, what: impl Into<String>) -> Vec<Fault> {
    let kind = FaultKind::Missing {
        what: what.into(),
        expected: "what a layer takes on one device, for the micro-batches that are meant".into(),
        remedy: "measure it, or name another size in `micro_batch_size`".into(),
    };
    vec![Fault::new(at, kind)]
}

/// Lists that do not have an entry for each layer, at the degrees that were measured.
fn uneven(file: &File, size: usize, times: &ByDegree<[f64; 3]>) -> Result<(), Vec<Fault>> {
    let layers = file.layer_kinds.len();
    let mut faults = Vec::new();
    for (degree, measured) in times {
        let bytes = |field: &ByDegree<f64>| field.get(degree).map_or(0, Vec::len);
        let lists = [
            (format!("times_s.{size}.{degree}"), measured.len()),
            (
                format!("parameter_bytes_by_tp.{degree}"),
                bytes(&file.parameter_bytes_by_tp),
            ),
            (
                format!("output_bytes_per_sample_by_tp.{degree}"),
                bytes(&file.output_bytes_per_sample_by_tp),
            ),
            (
                format!("activation_memory_bytes_per_sample_by_tp.{degree}"),
                bytes(&file.activation_memory_bytes_per_sample_by_tp),
            ),
        ];
        for (at, found) in lists.into_iter().filter(|(_, found)| *found != layers) {
            let kind = FaultKind::Contradiction {
                found: format!("{found} layers").into(),
                expected: format!("{layers}, as many as `layer_kinds` names").into(),
            };
            faults.push(Fault::new(at, kind));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// A layer is what its mode of degree 1 says, unless others are asked for.
fn layers(file: &File, size: usize, times: &ByDegree<[f64; 3]>) -> Vec<LayerSpec> {
    let layer = |(at, kind): (usize, &String)| LayerSpec {
        id: id(at),
        operator: Some(kind.clone()),
        modes: times.keys().map(|&degree| mode(file, size, degree, at)).collect(),
        ..Default::default()
    };
    file.layer_kinds.iter().enumerate().map(layer).collect()
}

fn id(layer: usize) -> String {
    format!("layer{layer}")
}

fn mode(file: &File, size: usize, degree: usize, layer: usize) -> ModeSpec {
    let [forward, backward, _] = file.times_s[&size][&degree][layer];
    ModeSpec {
        tensor: Some(degree),
        forward_ms: Some(1e3 * forward),
        backward_ms: Some(1e3 * backward),
        parameter_bytes: file.parameter_bytes_by_tp[&degree][layer],
        stash_bytes: size as f64 * file.activation_memory_bytes_per_sample_by_tp[&degree][layer],
        ..Default::default()
    }
}

/// What lies between two layers is whole on every GPU of a tensor group.
fn tensors(file: &File, size: usize) -> Vec<TensorSpec> {
    let bytes = &file.output_bytes_per_sample_by_tp[&1];
    let tensor = |layer: usize| TensorSpec {
        producer: id(layer - 1),
        consumers: vec![id(layer)],
        bytes: Some(size as f64 * bytes[layer - 1]),
        ..Default::default()
    };
    (1..bytes.len()).map(tensor).collect()
}
