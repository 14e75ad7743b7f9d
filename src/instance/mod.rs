//! An instance: a network, a cluster and what is asked of them.

mod build;
mod rates;
mod resources;

use crate::cluster::Cluster;
use crate::fault::{Fault, InputError};
use crate::network::Network;
use crate::options::PipelineOptions;
use crate::spec::InstanceSpec;

/// A validated planning problem.
#[derive(Clone, Debug)]
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
        mut notes: Vec<String>,
    ) -> Result<Self, Vec<Fault>> {
        let (network, cluster) = build::build(spec, &mut notes)?;
        let mut warnings = Vec::new();
        rates::remarks(spec, &mut notes, &mut warnings);
        Ok(Self {
            name: spec.name.clone().unwrap_or_else(|| name.to_owned()),
            network,
            cluster,
            pipeline: spec.pipeline.clone(),
            notes,
            warnings,
        })
    }
}
