//! From a file to a validated instance.

use std::path::Path;

#[cfg(feature = "cli")]
use crate::input::import::config;
use crate::input::import::{
    CLUSTER_PRESETS, Parts, default_cluster, given_cluster, read_cluster, read_parts,
};
use crate::model::efficiency::Efficiency;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::{Instance, is_roofline};
use crate::model::precision::Precision;
use crate::model::setting;
use crate::model::spec::{ClusterSpec, DeviceKindSpec, GivenCluster, InstanceSpec, MeasuredSpec};
use crate::model::words::words;

/// What plans call the cluster of their instance where an option changes it.
pub(crate) const OWN_CLUSTER: &str = "the instance's own";

impl Instance {
    /// Reads an instance from a native file or any importable one; the format is detected.
    ///
    /// `cluster` replaces the file's: a preset's name or a file, see [`crate::input::import::read_cluster`].
    ///
    /// # Errors
    ///
    /// Every fault of the file, each with its place.
    pub fn read(path: &Path, cluster: Option<&str>) -> Result<Self, InputError> {
        Self::read_at(path, cluster, None)
    }

    /// Reads an instance like [`read`](Self::read), and takes times that follow from work at a part of the devices' peak rates: one that is said, or the one
    /// that was measured of each kind.
    ///
    /// # Errors
    ///
    /// Every fault of the file, each with its place; a part that is none, or where no time follows from rates.
    pub fn read_at(
        path: &Path,
        cluster: Option<&str>,
        efficiency: Option<Efficiency>,
    ) -> Result<Self, InputError> {
        Self::read_given(path, cluster.map(given_cluster).transpose()?, efficiency)
    }

    /// Reads an instance like [`read`](Self::read), on a cluster that is there already, such as the one that a plan carries.
    ///
    /// # Errors
    ///
    /// Every fault of the file and the cluster, each with its place.
    pub fn read_on(path: &Path, cluster: Option<GivenCluster>) -> Result<Self, InputError> {
        Self::read_given(path, cluster, None)
    }

    /// Reads the configuration of a model that is run so, on a cluster and at a part of its devices' peak rates where these are given: what a file
    /// would say, its cluster included, and the same validated.
    ///
    /// # Errors
    ///
    /// Every fault of the file and the cluster, each with its place; those of [`read_at`](Self::read_at).
    #[cfg(feature = "cli")]
    pub(crate) fn read_model(
        path: &Path,
        asked: &config::Asked,
        cluster: Option<GivenCluster>,
        efficiency: Option<Efficiency>,
    ) -> Result<(InstanceSpec, Self), InputError> {
        let (spec, notes) = config::read_model(path, asked)?;
        Self::of_parts(path, (spec, notes, None), cluster, efficiency)
    }

    fn read_given(
        path: &Path,
        cluster: Option<GivenCluster>,
        efficiency: Option<Efficiency>,
    ) -> Result<Self, InputError> {
        let (_, read) = Self::of_parts(path, read_parts(path)?, cluster, efficiency)?;
        Ok(read)
    }

    fn of_parts(
        path: &Path,
        (mut spec, mut notes, network_path): Parts,
        mut cluster: Option<GivenCluster>,
        efficiency: Option<Efficiency>,
    ) -> Result<(InstanceSpec, Self), InputError> {
        if let Some(cluster) = &cluster {
            fits(&spec, cluster)?;
            spec.cluster = Some(cluster.content.clone());
        }
        default_cluster(&mut spec, &mut notes)?;
        if let Some(efficiency) = efficiency {
            let own = spec.cluster.take().unwrap_or_default();
            let content = at_efficiency(&spec, own, efficiency)?;
            spec.cluster = Some(content.clone());
            let name = cluster.map_or_else(|| OWN_CLUSTER.into(), |given| given.name);
            cluster = Some(GivenCluster { name, content });
        }
        let network_file = network_path.map(|path| path.display().to_string());
        let origin = |fault: Fault| match (
            fault.at.to_string().split(['.', '[']).next(),
            &cluster,
            &network_file,
        ) {
            (Some("cluster"), Some(cluster), _) => fault.in_other(&cluster.name),
            (Some("network"), _, Some(file)) => fault.in_other(file),
            _ => fault,
        };
        let read = Self::validated(&spec, &stem(path), notes).map_err(|faults| {
            InputError::in_file(path, faults.into_iter().map(origin).collect::<Vec<_>>())
        })?;
        let given_cluster = cluster;
        Ok((
            spec,
            Self {
                given_cluster,
                ..read
            },
        ))
    }
}

/// The file's name without folders and extension.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "instance".into(), |stem| stem.to_string_lossy().into_owned())
}

/// Refuses a preset whose rates give times of other numbers than those that the network computes with, and names the presets that fit.
///
/// # Errors
///
/// That one fault, at `--cluster`.
pub(crate) fn fits(spec: &InstanceSpec, given: &GivenCluster) -> Result<(), InputError> {
    let (name, cluster) = (given.name.as_str(), &given.content);
    let is_preset = |name: &str| CLUSTER_PRESETS.iter().any(|(preset, _)| *preset == name);
    let Some(numbers) = spec.network.precision.filter(|_| is_preset(name)) else {
        return Ok(());
    };
    let layers = &spec.network.layers;
    let rates = cluster.device_kinds.iter().filter_map(|kind| {
        let rates = kind.precision.filter(|rates| !rates.has_rates_of(numbers))?;
        layers
            .iter()
            .any(|layer| is_roofline(layer, kind))
            .then_some(rates)
    });
    let Some(rates) = rates.into_iter().next() else {
        return Ok(());
    };
    let fitting = fitting(numbers, &cluster.device_kinds[0].name);
    let remedy = match fitting.split_first() {
        None => words!(
            "give the rates of your devices in a file: {}",
            setting::CLUSTER.given("FILE")
        ),
        Some((best, [])) => words!("use {}", setting::CLUSTER.given(best)),
        Some((best, others)) => words!("use {}, or {}", setting::CLUSTER.given(best), others.join(", ")),
    };
    let kind = FaultKind::Conflict {
        found: format!("`{name}`, whose rates hold for {rates}, for a network in {numbers}").into(),
        expected: format!("a cluster whose rates hold for {numbers}").into(),
        remedy,
    };
    Err(InputError::option(setting::CLUSTER, kind))
}

/// Presets whose rates hold for these numbers: those of the same kind of device first.
fn fitting(numbers: Precision, kind: &str) -> Vec<&'static str> {
    let mut fitting: Vec<(bool, &str)> = Vec::new();
    for (name, _) in CLUSTER_PRESETS {
        let Ok(cluster) = read_cluster(name) else { continue };
        let mut rates = cluster.device_kinds.iter().map(|kind| kind.precision);
        if rates.all(|rates| rates.is_some_and(|rates| rates.has_rates_of(numbers))) {
            let is_other = cluster.device_kinds.iter().all(|other| other.name != kind);
            fitting.push((is_other, *name));
        }
    }
    fitting.sort_by_key(|(is_other, _)| *is_other);
    fitting.into_iter().map(|(_, name)| name).collect()
}

/// A cluster whose devices reach that part of their peak rates, for a network some of whose times follow from these.
///
/// # Errors
///
/// A part that is none, a kind of which nothing was measured, and a network whose times are all given, at `--efficiency`.
pub(crate) fn at_efficiency(
    spec: &InstanceSpec,
    cluster: ClusterSpec,
    efficiency: Efficiency,
) -> Result<ClusterSpec, InputError> {
    let fault = |kind| Err(InputError::option(setting::EFFICIENCY, kind));
    if let Efficiency::Part(part) = efficiency
        && !(part > 0.0 && part <= 1.0)
    {
        let expected = "a number above 0 and at most 1: a part of peak rates";
        return fault(FaultKind::BadNumber {
            found: part,
            expected,
        });
    }
    let layers = &spec.network.layers;
    let gives_times = |kind: &DeviceKindSpec| layers.iter().any(|layer| is_roofline(layer, kind));
    if !cluster.device_kinds.iter().any(gives_times) {
        return fault(FaultKind::Conflict {
            found: "a part of peak rates, where no time follows from rates".into(),
            expected: "layers that say work and no time, and device kinds that say rates".into(),
            remedy: words!(
                "leave out {}, or give such a cluster with {}",
                setting::EFFICIENCY,
                setting::CLUSTER
            ),
        });
    }
    let mut cluster = cluster;
    let mut sources = Vec::new();
    for kind in &mut cluster.device_kinds {
        let part = match (efficiency, &kind.measured) {
            (Efficiency::Part(part), _) => part,
            (Efficiency::Measured, Some(measured)) => {
                let MeasuredSpec { efficiency, source } = measured;
                sources.push(format!("`{}` at {efficiency} of its rates: {source}", kind.name));
                *efficiency
            }
            (Efficiency::Measured, None) if gives_times(kind) => return fault(unmeasured(&kind.name)),
            (Efficiency::Measured, None) => continue,
        };
        kind.efficiency = Some(part);
        kind.efficiencies.clear();
    }
    if !sources.is_empty() {
        cluster.calibrated = Some(sources.join("; "));
    }
    Ok(cluster)
}

/// A kind of which nothing was measured, with the presets of which something was.
fn unmeasured(name: &str) -> FaultKind {
    let says = |preset: &&str| {
        let cluster = read_cluster(preset).ok();
        cluster.is_some_and(|cluster| cluster.device_kinds.iter().any(|kind| kind.measured.is_some()))
    };
    let known: Vec<&str> = CLUSTER_PRESETS
        .iter()
        .map(|(name, _)| *name)
        .filter(says)
        .collect();
    FaultKind::Conflict {
        found: format!("nothing that was measured of `{name}`").into(),
        expected: format!(
            "`measured` in the cluster's file; the presets {} say it",
            known.join(", ")
        )
        .into(),
        remedy: words!(
            "assume a part with {}, or measure layers and fit one: `stagecut calibrate`",
            setting::EFFICIENCY.given(0.5)
        ),
    }
}
