//! From a file to a validated instance.

use std::path::Path;

use crate::fault::{Fault, InputError};
use crate::import::{default_cluster, given_cluster, read_parts};
use crate::instance::Instance;
use crate::spec::GivenCluster;

impl Instance {
    /// Reads an instance from a native file or any importable one; the format is detected.
    ///
    /// `cluster` replaces the file's: a preset's name or a file, see [`read_cluster`](crate::import::read_cluster).
    ///
    /// # Errors
    ///
    /// Every fault of the file, each with its place.
    pub fn read(path: &Path, cluster: Option<&str>) -> Result<Self, InputError> {
        Self::read_on(path, cluster.map(given_cluster).transpose()?)
    }

    /// Reads an instance like [`read`](Self::read), on a cluster that is there already, such as the one that a plan carries.
    ///
    /// # Errors
    ///
    /// Every fault of the file and the cluster, each with its place.
    pub fn read_on(path: &Path, cluster: Option<GivenCluster>) -> Result<Self, InputError> {
        let (mut spec, mut notes, network_path) = read_parts(path)?;
        if let Some(cluster) = &cluster {
            spec.cluster = Some(cluster.content.clone());
        }
        default_cluster(&mut spec, &mut notes)?;
        let network_file = network_path.map(|path| path.display().to_string());
        let origin = |fault: Fault| match (fault.at.split(['.', '[']).next(), &cluster, &network_file) {
            (Some("cluster"), Some(cluster), _) => fault.in_other(&cluster.name),
            (Some("network"), _, Some(file)) => fault.in_other(file),
            _ => fault,
        };
        let read = Self::validated(&spec, &stem(path), notes).map_err(|faults| {
            InputError::in_file(path, faults.into_iter().map(origin).collect::<Vec<_>>())
        })?;
        Ok(Self {
            given_cluster: cluster,
            ..read
        })
    }
}

/// The file's name without folders and extension.
fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "instance".into(), |stem| stem.to_string_lossy().into_owned())
}
