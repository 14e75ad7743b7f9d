//! An instance: a network, a cluster and what is asked of them.

mod build;
mod builder;
mod rates;
mod read;
mod resources;
pub mod spec;

pub use builder::InstanceBuilder;
pub(crate) use read::read_native;
pub use read::{CLUSTER_PRESETS, DEFAULT_CLUSTER, read_cluster};

use std::path::Path;

use crate::cluster::Cluster;
use crate::fault::{Fault, InputError};
use crate::network::Network;
use crate::options::PipelineOptions;

use spec::{InstanceSpec, LayerSpec};

/// A validated planning problem. Made by [`Instance::builder`], [`Instance::read`] or [`Instance::from_spec`] alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Instance {
    /// Name for reports.
    pub name: String,
    /// The network.
    pub network: Network,
    /// The devices and links.
    pub cluster: Cluster,
    /// Options of the file; the command line overrides them.
    pub pipeline: PipelineOptions,
    /// What an importer assumed or left out, one sentence each.
    pub notes: Vec<String>,
    /// What must not be missed, one sentence each: rates that hold for other numbers than the network's.
    pub warnings: Vec<String>,
}

impl Instance {
    /// Starts an instance that is built in code.
    ///
    /// ```
    /// use stagecut::Instance;
    ///
    /// let instance = Instance::builder("three layers")
    ///     .layer("conv1", 3.0, 6.0)
    ///     .layer("conv2", 1.0, 2.0)
    ///     .layer("dense", 2.0, 4.0)
    ///     .tensor("conv1", ["conv2"], 8e6)
    ///     .tensor("conv2", ["dense"], 2e6)
    ///     .devices("gpu", 2, 16e9)
    ///     .link(12e9, 0.01)
    ///     .build()?;
    /// assert_eq!(instance.network.layers[0].times[0].map(|times| times.forward_ns), Some(3_000_000));
    ///
    /// let error = Instance::builder("two faults")
    ///     .layer("conv1", -3.0, 6.0)
    ///     .tensor("conv1", ["conv2"], 8e6)
    ///     .build()
    ///     .expect_err("a negative time, and a layer that is not there");
    /// assert_eq!(error.faults.len(), 2);
    /// # Ok::<(), stagecut::Error>(())
    /// ```
    pub fn builder(name: impl Into<String>) -> InstanceBuilder {
        InstanceBuilder::new(name.into())
    }

    /// Reads an instance from a native file or any importable one; the format is detected.
    ///
    /// `cluster` replaces the file's: a preset's name or a file, see [`read_cluster`].
    ///
    /// # Errors
    ///
    /// Every fault of the file, each with its place.
    pub fn read(path: &Path, cluster: Option<&str>) -> Result<Self, InputError> {
        let (mut spec, mut notes, network_path) = crate::import::read_parts(path)?;
        if let Some(cluster) = cluster {
            spec.cluster = Some(read_cluster(cluster)?);
        }
        default_cluster(&mut spec, &mut notes)?;
        let name = spec.name.clone().unwrap_or_else(|| stem(path));
        let network_file = network_path.map(|path| path.display().to_string());
        let origin = |fault: Fault| match (fault.at.split(['.', '[']).next(), cluster, &network_file) {
            (Some("cluster"), Some(cluster), _) => fault.in_other(cluster),
            (Some("network"), _, Some(file)) => fault.in_other(file),
            _ => fault,
        };
        let (network, cluster) = build::build(&spec, &mut notes).map_err(|faults| {
            InputError::in_file(path, faults.into_iter().map(origin).collect::<Vec<_>>())
        })?;
        let mut warnings = Vec::new();
        rates::remarks(&spec, &mut notes, &mut warnings);
        Ok(Self {
            name,
            network,
            cluster,
            pipeline: spec.pipeline,
            notes,
            warnings,
        })
    }

    /// Builds an instance that is not in a file.
    ///
    /// # Errors
    ///
    /// Every fault of the specification.
    pub fn from_spec(spec: &spec::InstanceSpec) -> Result<Self, InputError> {
        let mut notes = Vec::new();
        let (network, cluster) =
            build::build(spec, &mut notes).map_err(|faults| InputError { path: None, faults })?;
        let mut warnings = Vec::new();
        rates::remarks(spec, &mut notes, &mut warnings);
        Ok(Self {
            name: spec.name.clone().unwrap_or_else(|| "instance".into()),
            network,
            cluster,
            pipeline: spec.pipeline.clone(),
            notes,
            warnings,
        })
    }
}

/// Devices for a network that comes with work and without them, such as an ONNX model.
pub(crate) fn default_cluster(spec: &mut InstanceSpec, notes: &mut Vec<String>) -> Result<(), InputError> {
    let needs_rates =
        |layer: &LayerSpec| layer.work.is_some() && layer.times.is_empty() && layer.forward_ms.is_none();
    if spec.cluster.is_none() && spec.network.layers.iter().any(needs_rates) {
        spec.cluster = Some(read_cluster(DEFAULT_CLUSTER)?);
        notes.push(format!(
            "the model names no devices; the preset `{DEFAULT_CLUSTER}` unless the instance or `--cluster` says otherwise"
        ));
    }
    Ok(())
}

/// The file's name without folders and extension.
fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "instance".into(), |stem| stem.to_string_lossy().into_owned())
}
