//! From measured layers, transfers and iterations to a cluster that explains them: see [`crate::formulations::calibration`].
//!
//! Figures are fitted in the order of what tells most of them: efficiencies and launches by layers, links by transfers; what these leave open, by
//! iterations of plans, as few figures as half of the runs. Every measurement is also predicted from figures fitted without it.

mod fit;
mod layers;
mod links;
mod measured;
mod runs;

use crate::model::cluster::DEFAULT_BANDWIDTH_BYTES_PER_S;
use crate::model::fault::{FaultKind, InputError};
use crate::model::options::PipelineOptions;
use crate::model::spec::{ClusterSpec, InstanceSpec, LinkSpec};
use crate::solve::error::Error;

pub use measured::{FORMS, Measured};

/// What measurements say of a cluster.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The cluster with the figures.
    pub cluster: ClusterSpec,
    /// The figures, in the order in which they were fitted.
    pub figures: Vec<Figure>,
    /// Every measurement.
    pub residuals: Vec<Residual>,
    /// Figures that nothing measured tells, a sentence each.
    pub left: Vec<String>,
}

/// A figure of a cluster.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: String,
    /// What the cluster said before.
    pub before: f64,
    /// What fits.
    pub fitted: f64,
}

/// A measurement, and what is said of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Residual {
    /// What was measured.
    pub kind: Kind,
    /// Which of them.
    pub name: String,
    /// The measured time.
    pub measured_ms: f64,
    /// What the cluster said before.
    pub given_ms: f64,
    /// What the fitted figures say.
    pub fitted_ms: f64,
    /// What figures say that were fitted without it and what is equal to it; absent where nothing else is left.
    pub unseen_ms: Option<f64>,
}

/// Kinds of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A pass of a layer.
    Pass,
    /// A transfer between two devices.
    Transfer,
    /// An iteration of a plan.
    Iteration,
}

impl Kind {
    /// All of them, in the order in which they are fitted.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Transfer, Self::Iteration];

    /// What several of them are called.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pass => "passes of layers",
            Self::Transfer => "transfers",
            Self::Iteration => "iterations",
        }
    }
}

/// Mean and largest of absolute relative errors; `None` of nothing.
pub fn errors(pairs: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let of: Vec<f64> = pairs
        .map(|(said, measured)| (said / measured - 1.0).abs())
        .collect();
    let largest = of.iter().copied().fold(0.0, f64::max);
    (!of.is_empty()).then(|| (of.iter().sum::<f64>() / of.len() as f64, largest))
}

impl Calibration {
    /// The error of what is said of all measurements of a kind: as given, fitted, or unseen.
    pub fn errors(&self, kind: Kind, said: fn(&Residual) -> Option<f64>) -> Option<(f64, f64)> {
        let own = self.residuals.iter().filter(|residual| residual.kind == kind);
        errors(own.filter_map(|residual| Some((said(residual)?, residual.measured_ms))))
    }

    /// What a cluster's file says of where its figures come from.
    fn provenance(&self) -> String {
        let said = Kind::ALL.into_iter().filter_map(|kind| {
            let count = self
                .residuals
                .iter()
                .filter(|residual| residual.kind == kind)
                .count();
            let (mean, _) = self.errors(kind, |residual| Some(residual.fitted_ms))?;
            let unseen = self.errors(kind, |residual| residual.unseen_ms);
            let unseen =
                unseen.map_or_else(String::new, |(mean, _)| format!(", {:.1} % unseen", 100.0 * mean));
            let plural = kind.plural();
            Some(format!(
                "{count} {plural} within {:.1} % in the mean{unseen}",
                100.0 * mean
            ))
        });
        said.collect::<Vec<_>>().join("; ")
    }
}

/// Fits the cluster of an instance to what was measured.
///
/// # Errors
///
/// Measurements that tell no figure, plans that cannot be costed, and a solver that breaks down.
pub fn calibrate(
    spec: &InstanceSpec,
    options: &PipelineOptions,
    measured: &Measured,
) -> Result<Calibration, Error> {
    let mut cluster = spec.cluster.clone().unwrap_or_else(|| ClusterSpec {
        device_kinds: vec![Default::default()],
        ..ClusterSpec::default()
    });
    cluster.link.get_or_insert(LinkSpec {
        bandwidth_bytes_per_s: DEFAULT_BANDWIDTH_BYTES_PER_S,
        latency_ms: 0.0,
        nodes: None,
    });
    let mut found = Calibration {
        cluster,
        figures: Vec::new(),
        residuals: Vec::new(),
        left: Vec::new(),
    };
    layers::fit(spec, measured, &mut found)?;
    links::fit(measured, &mut found)?;
    runs::fit(spec, options, measured, &mut found)?;
    if found.figures.is_empty() {
        return Err(nothing(&found.left).into());
    }
    found.cluster.calibrated = Some(found.provenance());
    Ok(found)
}

/// Measurements that tell no figure.
fn nothing(left: &[String]) -> InputError {
    let kind = FaultKind::Conflict {
        found: match left.is_empty() {
            true => "measurements of nothing that the instance has".into(),
            false => left.join("; ").into(),
        },
        expected: "measurements that tell a figure of the cluster".into(),
        remedy:
            "measure layers that say work, on device kinds that say rates; transfers; or iterations of plans"
                .into(),
    };
    InputError::option("measured", kind)
}
