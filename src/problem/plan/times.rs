//! Of which of three kinds the times of a plan are: a proof is worth no more than they.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::cluster::{Cluster, DeviceKind};
use crate::model::instance::Instance;
use crate::model::settings::Settings;

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimesBasis {
    /// Rooflines at the rates of data sheets, or at a part of these that nobody measured.
    Peak,
    /// Rooflines at rates or parts of rates that were fitted to measurements.
    Calibrated,
    /// The file gives them: measured, or whatever its maker took.
    Measured,
}

/// What the times of layers are on a kind of device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanTimes {
    /// Name of the kind.
    pub device_kind: String,
    /// Where they come from.
    pub basis: TimesBasis,
    /// The part of its rates at which work was taken, where it is one for all layers; absent of times that are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// What was measured, where the cluster says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl fmt::Display for PlanTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let basis = match self.basis {
            TimesBasis::Peak => "peak",
            TimesBasis::Calibrated => "calibrated",
            TimesBasis::Measured => "measured",
        };
        write!(f, "{basis} on `{}`", self.device_kind)?;
        let efficiency = self.efficiency.map(|part| write!(f, " at {part}"));
        efficiency.unwrap_or(Ok(()))
    }
}

impl PlanTimes {
    /// Of the kinds of device that a problem has, in its order.
    pub(crate) fn of(instance: &Instance, settings: &Settings) -> Vec<Self> {
        let cluster = &instance.cluster;
        settings
            .kinds
            .iter()
            .map(|&kind| Self::of_kind(cluster, &cluster.kinds[kind]))
            .collect()
    }

    fn of_kind(cluster: &Cluster, kind: &DeviceKind) -> Self {
        let is_peak = kind.efficiencies.is_empty() && cluster.calibrated.is_none();
        Self {
            device_kind: kind.name.clone(),
            basis: match kind.is_roofline {
                true if is_peak => TimesBasis::Peak,
                true => TimesBasis::Calibrated,
                false => TimesBasis::Measured,
            },
            efficiency: Some(kind.efficiency).filter(|_| kind.is_roofline && kind.efficiencies.is_empty()),
            source: cluster.calibrated.clone(),
        }
    }
}
