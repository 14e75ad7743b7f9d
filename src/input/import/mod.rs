//! Formats a network can come from. Each importer turns a file into the native [`InstanceSpec`], so that one validation
//! serves all.

mod aiconfigurator;
mod assembly_line;
mod caffe_csv;
mod clusters;
pub mod config;
mod cost_graph;
mod deepspeed_flops;
mod dnn_partitioning;
mod galvatron;
mod moirai;
mod name;
mod nsight;
#[cfg(feature = "onnx")]
pub mod onnx;
pub(crate) mod open;
mod pipedream;
mod piper;
mod protobuf_text;
mod ranges;
mod reach;
mod sailor;
mod torch_trace;
mod vidur;

pub(crate) use clusters::unlimited_cluster;
pub use clusters::{CLUSTER_PRESETS, DEFAULT_CLUSTER, given_cluster, read_cluster};
#[cfg(feature = "cli")]
pub(crate) use reach::refuse_outside;
pub use reach::{is_trusting, trusting};

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::input::intake;
use crate::input::source::shape::misshapen;
use crate::input::source::{Source, from_structured, has_extension, table, text};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::setting;
use crate::model::spec::{InstanceSpec, LayerSpec, PLAN_SCHEMA, json_schema};
use crate::model::words::{Words, words};

/// What an importer returns: the instance, and what it assumed, one sentence each.
pub(crate) type Imported = Result<(InstanceSpec, Vec<Words>), Vec<Fault>>;

/// A format.
pub struct Format {
    /// Short name.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// Whether a file looks like this format.
    pub(crate) detect: fn(&Source) -> bool,
    /// Reads it.
    pub(crate) read: fn(&Source) -> Imported,
}

/// Every format, in the order in which detection tries them.
pub const FORMATS: &[Format] = &[
    #[cfg(feature = "onnx")]
    Format {
        name: "onnx",
        summary: "ONNX model (.onnx); times by the roofline of the cluster's devices",
        detect: |source| has_extension(source.path, "onnx"),
        read: onnx::read,
    },
    Format {
        name: "native-toml",
        summary: "stagecut instance in TOML (.toml)",
        detect: |source| has_extension(source.path, "toml"),
        read: read_native,
    },
    Format {
        name: "piper",
        summary: "Piper JSON (msr-fiddle, NeurIPS 2021): nodes with TMPCs, edges, maxDevices",
        detect: piper::detect,
        read: piper::read,
    },
    Format {
        name: "dnn-partitioning",
        summary: "dnn-partitioning JSON (msr-fiddle, NeurIPS 2020): nodes, edges, maxFPGAs",
        detect: dnn_partitioning::detect,
        read: dnn_partitioning::read,
    },
    Format {
        name: "sailor",
        summary: "Sailor's layers in JSON (ETH Zurich, SOSP 2025): times_s by size and degree",
        detect: sailor::detect,
        read: sailor::read,
    },
    Format {
        name: "galvatron",
        summary: "Galvatron's times in JSON (PVLDB 2023): layertype_0_bsz8_seq4096; memory beside it",
        detect: galvatron::detect,
        read: galvatron::read,
    },
    Format {
        name: "torch-trace",
        summary: "Chrome trace of torch.profiler (JSON): ranges `LAYER/forward`, `LAYER/backward`",
        detect: torch_trace::detect,
        read: torch_trace::read,
    },
    Format {
        name: "hugging-face",
        summary: "configuration of a language model (config.json of Hugging Face), by its `model_type`",
        detect: config::detect,
        read: config::read,
    },
    Format {
        name: "native-json",
        summary: "stagecut instance in JSON (.json)",
        detect: |source| has_extension(source.path, "json") || starts_with(source, b'{'),
        read: read_native,
    },
    Format {
        name: "cost-graph",
        summary: "TensorFlow CostGraphDef as protobuf text (.pbtxt), such as REGAL's graphs (ICLR 2020)",
        detect: cost_graph::detect,
        read: cost_graph::read,
    },
    Format {
        name: "deepspeed-flops",
        summary: "what DeepSpeed's flops profiler prints in detail",
        detect: deepspeed_flops::detect,
        read: deepspeed_flops::read,
    },
    Format {
        name: "aiconfigurator",
        summary: "aiconfigurator's operators in CSV (NVIDIA): op_name, shape, latency",
        detect: aiconfigurator::detect,
        read: aiconfigurator::read,
    },
    Format {
        name: "pipedream",
        summary: "PipeDream profile (graph.txt): lines of `id -- description -- fields`",
        detect: pipedream::detect,
        read: pipedream::read,
    },
    Format {
        name: "nsight",
        summary: "Nsight Systems' CSV of NVTX ranges: nvtx_gpu_proj_trace, nvtx_pushpop_trace",
        detect: nsight::detect,
        read: nsight::read,
    },
    Format {
        name: "vidur",
        summary: "Vidur's operators in CSV (MLSys 2024): medians by tokens and tensor degree",
        detect: vidur::detect,
        read: vidur::read,
    },
    Format {
        name: "moirai",
        summary: "Moirai's device table (arXiv 2312.04025) saved as CSV: a row an operator",
        detect: moirai::detect,
        read: moirai::read,
    },
    Format {
        name: "csv",
        summary: "pair of CSV files, NAME.csv (layers) and NAME.edges.csv (edges)",
        detect: |source| has_extension(source.path, "csv"),
        read: caffe_csv::read,
    },
    Format {
        name: "assembly-line",
        summary: "assembly line (.IN2, SALBP): number of tasks, times, lines `i,j` to `-1,-1`",
        detect: assembly_line::detect,
        read: assembly_line::read,
    },
    Format {
        name: "assembly-line-workers",
        summary: "assembly line of unlike workers (ALWABP): times by worker, `Inf` for none",
        detect: assembly_line::detect_workers,
        read: assembly_line::read_workers,
    },
];

/// Reads a file in any format, following a native file's reference to its network.
///
/// # Errors
///
/// Every fault of the file, or that its format is not known.
pub fn read_spec(path: &Path) -> Result<(InstanceSpec, Vec<Words>), InputError> {
    let (mut spec, mut notes, _) = read_parts(path)?;
    default_cluster(&mut spec, &mut notes)?;
    Ok((spec, notes))
}

/// Devices for a network that comes with work and without them, such as an ONNX model.
pub(crate) fn default_cluster(spec: &mut InstanceSpec, notes: &mut Vec<Words>) -> Result<(), InputError> {
    let needs_rates =
        |layer: &LayerSpec| layer.work.is_some() && layer.times.is_empty() && layer.forward_ms.is_none();
    if spec.cluster.is_none() && spec.network.layers.iter().any(needs_rates) {
        spec.cluster = Some(read_cluster(DEFAULT_CLUSTER)?);
        notes.push(words!(
            "the model names no devices; the preset `{}` unless the instance or {} says otherwise",
            DEFAULT_CLUSTER,
            setting::CLUSTER
        ));
    }
    Ok(())
}

/// What a file says and what its importer assumed, and the other file that its network comes from, if there is one.
pub(crate) type Parts = (InstanceSpec, Vec<Words>, Option<PathBuf>);

/// Reads like [`read_spec`], and says where the network comes from.
pub(crate) fn read_parts(path: &Path) -> Result<Parts, InputError> {
    let (mut spec, mut notes) = read_one(path)?;
    let mut referred_path = None;
    if let Some(file) = spec.network.file.take() {
        if !spec.network.layers.is_empty() || !spec.network.tensors.is_empty() {
            let fault = Fault::new(
                "network",
                FaultKind::Contradiction {
                    found: "both `file` and `layers` or `tensors`".into(),
                    expected: "one of them".into(),
                },
            );
            return Err(InputError::in_file(path, [fault]));
        }
        let beside = path.parent().unwrap_or(Path::new("")).join(&file);
        reach::refuse_outside(path, &file, &beside)
            .map_err(|kind| InputError::in_file(path, [Fault::new("network.file", kind)]))?;
        let (referred, more) = read_one(&beside).map_err(unquoted)?;
        if let Some(next) = &referred.network.file {
            let fault = Fault::new(
                "network.file",
                FaultKind::Contradiction {
                    found: format!("a reference to `{next}` in a file that is itself referred to").into(),
                    expected: "the network in the first file referred to".into(),
                },
            );
            return Err(InputError::in_file(&beside, [fault]));
        }
        spec.network = referred.network;
        spec.cluster = spec.cluster.or(referred.cluster);
        notes.extend(more);
        referred_path = Some(beside);
    }
    if let Some(fault) = open::unheard() {
        return Err(InputError::in_file(path, [fault]));
    }
    Ok((spec, notes, referred_path))
}

/// Faults of a file that another one names: who reads them may not have meant to show it.
fn unquoted(error: InputError) -> InputError {
    let faults = error.faults.into_iter().map(Fault::unquoted).collect();
    InputError { faults, ..error }
}

fn read_one(path: &Path) -> Result<(InstanceSpec, Vec<Words>), InputError> {
    // Models hold their weights.
    let read = match has_extension(path, "onnx") {
        true => intake::read_large(path),
        false => intake::read(path),
    };
    let bytes = read.map_err(|error| InputError::in_file(path, [Fault::unreadable(path, &error)]))?;
    let source = Source { path, bytes: &bytes };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(InputError::in_file(path, [empty_file()]));
    }
    if let Some(fault) = other_document(&source) {
        return Err(InputError::in_file(path, [fault]));
    }
    let format = FORMATS
        .iter()
        .find(|format| (format.detect)(&source))
        .ok_or_else(|| InputError::in_file(path, [unknown_format()]))?;
    (format.read)(&source).map_err(|faults| InputError::in_file(path, faults))
}

/// Reads a native instance, JSON or TOML.
fn read_native(source: &Source) -> Imported {
    static FORM: LazyLock<Value> = LazyLock::new(json_schema);
    let in_shape = |faults| misshapen(source, &FORM).map_or(faults, |fault| vec![fault]);
    Ok((from_structured(source).map_err(in_shape)?, Vec::new()))
}

/// A file of ours that is no instance: a plan, most of all.
fn other_document(source: &Source) -> Option<Fault> {
    #[derive(serde::Deserialize)]
    struct Kind {
        schema: String,
    }
    let kind: Kind = match starts_with(source, b'{') {
        true => serde_json::from_slice(source.bytes).ok()?,
        false => return None,
    };
    (kind.schema == PLAN_SCHEMA).then(|| {
        let kind = FaultKind::Conflict {
            found: "a plan".into(),
            expected: "an instance".into(),
            remedy: "give the instance that it is a plan of; `stagecut check INSTANCE PLAN` checks a plan, `stagecut \
                     simulate PLAN` runs it"
                .into(),
        };
        Fault::new("schema", kind)
    })
}

fn empty_file() -> Fault {
    Fault::new(
        "the file",
        FaultKind::Syntax {
            found: "nothing in it".into(),
            expected: "an instance or a model".into(),
        },
    )
}

fn unknown_format() -> Fault {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    Fault::new(
        "the file",
        FaultKind::Syntax {
            found: "no format that is known by its extension or first lines".into(),
            expected: format!("one of {}", names.join(", ")),
        },
    )
}

/// Whether a file is a JSON object with any of these fields at its top.
fn has_json_field(source: &Source, fields: &[&str]) -> bool {
    let top: Option<HashMap<String, IgnoredAny>> = serde_json::from_slice(source.bytes).ok();
    top.is_some_and(|top| fields.iter().any(|field| top.contains_key(*field)))
}

/// Whether a file may be a JSON object.
fn is_object(source: &Source) -> bool {
    starts_with(source, b'{')
}

fn starts_with(source: &Source, first: u8) -> bool {
    let mut visible = source.bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    visible.next() == Some(&first)
}
