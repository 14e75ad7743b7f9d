//! Clusters: known by name, or read from a file.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::input::intake;
use crate::input::source::shape::misshapen;
use crate::input::source::{Source, from_structured};
use crate::model::fault::{Fault, FaultKind, InputError, closest};
use crate::model::setting;
use crate::model::spec::{ClusterSpec, GivenCluster};

/// Clusters that are known by name: the files of `instances/clusters`.
pub const CLUSTER_PRESETS: &[(&str, &str)] = &[
    ("v100", include_str!("../../../instances/clusters/v100.toml")),
    ("a100", include_str!("../../../instances/clusters/a100.toml")),
    ("h100", include_str!("../../../instances/clusters/h100.toml")),
    (
        "a100-bf16",
        include_str!("../../../instances/clusters/a100-bf16.toml"),
    ),
    (
        "h100-bf16",
        include_str!("../../../instances/clusters/h100-bf16.toml"),
    ),
    (
        "rtx-4090",
        include_str!("../../../instances/clusters/rtx-4090.toml"),
    ),
    ("t4", include_str!("../../../instances/clusters/t4.toml")),
    (
        "titan-x",
        include_str!("../../../instances/clusters/titan-x.toml"),
    ),
    (
        "dgx-a100",
        include_str!("../../../instances/clusters/dgx-a100.toml"),
    ),
    (
        "dgx-h100",
        include_str!("../../../instances/clusters/dgx-h100.toml"),
    ),
    (
        "a100-nodes",
        include_str!("../../../instances/clusters/a100-nodes.toml"),
    ),
    (
        "h100-nodes",
        include_str!("../../../instances/clusters/h100-nodes.toml"),
    ),
    (
        "mixed-gpus",
        include_str!("../../../instances/clusters/mixed-gpus.toml"),
    ),
    ("phones", include_str!("../../../instances/clusters/phones.toml")),
    (
        "edge-boards",
        include_str!("../../../instances/clusters/edge-boards.toml"),
    ),
];

/// The preset for networks that come with work but without devices, such as ONNX models.
pub const DEFAULT_CLUSTER: &str = "v100";

/// Reads a cluster: the name of a preset, or a file with what an instance says under `cluster`.
///
/// # Errors
///
/// An unknown name, or every fault of the file.
pub fn read_cluster(name_or_path: &str) -> Result<ClusterSpec, InputError> {
    let preset = CLUSTER_PRESETS.iter().find(|(name, _)| *name == name_or_path);
    let path = Path::new(name_or_path);
    let bytes = match preset {
        Some((_, text)) => text.as_bytes().to_vec(),
        None => intake::read(path).map_err(|error| no_cluster(name_or_path, &error))?,
    };
    let path = if preset.is_some() {
        Path::new("preset.toml")
    } else {
        path
    };
    static FORM: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(ClusterSpec).to_value());
    let source = Source { path, bytes: &bytes };
    let in_shape = |faults| misshapen(&source, &FORM).map_or(faults, |fault| vec![fault]);
    from_structured(&source).map_err(|faults| InputError::in_file(path, in_shape(faults)))
}

/// Reads a cluster like [`read_cluster`], to take the place of an instance's own.
///
/// # Errors
///
/// Those of [`read_cluster`].
pub fn given_cluster(name_or_path: &str) -> Result<GivenCluster, InputError> {
    Ok(GivenCluster {
        name: name_or_path.to_owned(),
        content: read_cluster(name_or_path)?,
    })
}

/// A preset without limits of memory: what a network needs is seen first, and a limit comes with the cluster that is asked for.
///
/// # Errors
///
/// An unknown name.
pub(crate) fn unlimited_cluster(preset: &str) -> Result<ClusterSpec, InputError> {
    let mut cluster = read_cluster(preset)?;
    cluster
        .device_kinds
        .iter_mut()
        .for_each(|kind| kind.memory_bytes = None);
    Ok(cluster)
}

/// Neither a preset nor a file: what looks like a path was meant as one.
fn no_cluster(name: &str, error: &std::io::Error) -> InputError {
    let path = Path::new(name);
    if path.exists() || path.extension().is_some() || path.components().count() > 1 {
        return InputError::in_file(path, [Fault::unreadable(path, error)]);
    }
    let known: Vec<String> = CLUSTER_PRESETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let similar = closest(name, &known).map(str::to_owned);
    let kind = match similar {
        Some(similar) => FaultKind::UnknownName {
            what: "cluster preset or file",
            name: name.to_owned(),
            similar: Some(similar),
        },
        None => FaultKind::UnknownValue {
            found: name.to_owned(),
            known,
        },
    };
    InputError {
        path: None,
        faults: vec![Fault::new(setting::CLUSTER, kind)],
    }
}
