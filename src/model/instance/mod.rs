//! An instance: a network, a cluster and what is asked of them.

mod analytic;
mod build;
mod builder;
mod chunk;
mod experts;
mod frozen;
mod layers;
mod links;
mod modes;
mod offload;
mod rates;
mod resources;
mod shared;
mod written;

pub use builder::InstanceBuilder;
pub(crate) use rates::is_roofline;
#[cfg(feature = "cli")]
pub(crate) use rates::{measured_times, peak_times};

use crate::model::cluster::Cluster;
use crate::model::fault::{Fault, InputError};
use crate::model::network::Network;
use crate::model::options::PipelineOptions;
use crate::model::spec::{GivenCluster, InstanceSpec};
use crate::model::words::Words;

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
    /// The cluster that took the place of the file's own, if one did: plans carry it.
    pub given_cluster: Option<GivenCluster>,
    /// Options of the file; the command line overrides them.
    pub pipeline: PipelineOptions,
    /// What an importer assumed or left out, one sentence each.
    pub notes: Vec<Words>,
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

    /// Builds an instance that is not in a file.
    ///
    /// # Errors
    ///
    /// Every fault of the specification.
    pub fn from_spec(spec: &InstanceSpec) -> Result<Self, InputError> {
        Self::validated(spec, "instance", Vec::new()).map_err(|faults| InputError { path: None, faults })
    }

    /// The instance of a specification, or every fault of it.
    ///
    /// * `name`: its name if it does not say;
    /// * `notes`: what an importer assumed.
    pub(crate) fn validated(
        spec: &InstanceSpec,
        name: &str,
        mut notes: Vec<Words>,
    ) -> Result<Self, Vec<Fault>> {
        let (network, cluster) = build::build(spec, &mut notes)?;
        let mut warnings = Vec::new();
        rates::remarks(spec, &mut notes, &mut warnings);
        Ok(Self {
            name: spec.name.clone().unwrap_or_else(|| name.to_owned()),
            network,
            cluster,
            given_cluster: None,
            pipeline: spec.pipeline.clone(),
            notes,
            warnings,
        })
    }
}
