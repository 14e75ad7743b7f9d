//! Scenarios: what their TOML (or JSON) files may say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::problem::hybrid::Reading;

/// The value of `schema` in files of this version.
pub(crate) const SCHEMA: &str = "stagecut-scenario/1";

/// A network, devices, and how the devices change from slot to slot.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpec {
    /// The format's version, `stagecut-scenario/1`.
    pub schema: Option<String>,
    /// A name for reports; by default the file's.
    pub name: Option<String>,
    /// Where the data come from, and what is assumed.
    pub provenance: Option<String>,
    /// The instance that holds the network, relative to this file; any importable format.
    pub instance: String,
    /// A cluster preset or a file, which replaces the instance's cluster; a file is relative to this one.
    pub cluster: Option<String>,
    /// How data and model parallelism are nested.
    pub reading: Reading,
    /// Slots to run.
    pub slots: usize,
    /// Seed of the processes.
    #[serde(default)]
    pub seed: u64,
    /// Samples of a batch.
    pub samples: u32,
    /// Samples of a micro-batch; by default one.
    #[serde(default = "one")]
    pub micro_batch: u32,
    /// Whether devices take whole samples only.
    #[serde(default = "yes")]
    pub whole_samples: bool,
    /// Batches of a slot, over which the time to move layers is spread.
    pub batches_per_slot: f64,
    /// Weight `V` of a ms of batch time against the queues.
    pub time_weight: f64,
    /// Bandwidth between groups; by default that of the cluster's link.
    pub backbone_bytes_per_s: Option<f64>,
    /// Costs that have a budget.
    #[serde(default)]
    pub budgets: Vec<BudgetSpec>,
    /// What using a device for a slot takes from each budget, by device kind; 0 where nothing is said.
    #[serde(default)]
    pub prices: BTreeMap<String, BTreeMap<String, f64>>,
    /// Markov chains that drive the state.
    #[serde(default)]
    pub processes: Vec<ProcessSpec>,
    /// A CSV file of recorded states, relative to this one; its factors multiply those of the processes.
    pub trace: Option<String>,
}

/// A cost that may be so much on average.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSpec {
    /// Unique name.
    pub name: String,
    /// The most per slot, on average over time.
    pub per_slot: f64,
    /// The virtual queue of the first slot: one near to where it stays saves the slots in which it grows there.
    #[serde(default)]
    pub start_queue: f64,
}

/// What a process or a trace drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Multiplies the times of a device.
    Slowdown,
    /// Multiplies the bandwidth of a device's link.
    Bandwidth,
    /// Multiplies all prices of a device.
    Price,
    /// The device is there unless the factor is 0.
    Availability,
    /// Multiplies the bandwidth between groups.
    Backbone,
}

/// Names of quantities, for traces.
pub(crate) const QUANTITIES: &[(&str, Quantity)] = &[
    ("slowdown", Quantity::Slowdown),
    ("bandwidth", Quantity::Bandwidth),
    ("price", Quantity::Price),
    ("availability", Quantity::Availability),
    ("backbone", Quantity::Backbone),
];

/// A Markov chain, one for each device or one for all.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// What it drives.
    pub of: Quantity,
    /// Device kinds or devices (`kind:number`, the first is `kind:0`); by default all.
    pub devices: Option<Vec<String>>,
    /// Whether all these devices share one chain, as a market price or a Wi-Fi cell does.
    #[serde(default)]
    pub shared: bool,
    /// The factor in each state of the chain.
    pub factors: Vec<f64>,
    /// Chances to go from each state to each, per slot.
    pub transitions: Vec<Vec<f64>>,
    /// State of the first slot, from 0.
    #[serde(default)]
    pub start: usize,
}

/// The JSON Schema of the format, generated from the types above.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(ScenarioSpec).to_value()
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
