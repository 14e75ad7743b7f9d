//! The lines of a run: JSON, one object a line, written as slots are decided.
//!
//! Every number is rounded to 15 significant digits, and the controller goes on with the rounded ones. A run that is taken
//! up again from its own lines is therefore the same as one that was never broken off.

use serde::{Deserialize, Serialize};

/// The value of `schema` in files of this version.
pub(crate) const SCHEMA: &str = "stagecut-online/1";

/// What a run was asked; the first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub schema: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Names of the budgets.
    pub budgets: Vec<String>,
    /// The most per slot on average.
    pub per_slot: Vec<f64>,
    /// Policies, in the order of running.
    pub policies: Vec<String>,
    /// Slots of each policy.
    pub slots: usize,
    /// Seed of the states.
    pub seed: u64,
    /// Weight `V`.
    pub time_weight: f64,
}

/// A stage as lines tell it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// First layer, from 0, and the one after the last.
    pub layers: [usize; 2],
    /// Names of the devices.
    pub devices: Vec<String>,
    /// Samples that each of them takes of a batch.
    pub samples: Vec<f64>,
}

/// One slot of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// The policy.
    pub policy: String,
    /// The slot, from 0.
    pub slot: usize,
    /// Devices that are there.
    pub devices: usize,
    /// Time of a batch, with moving layers; none where no plan exists.
    pub time_ms: Option<f64>,
    /// The part of it that moving layers adds.
    pub moving_ms: f64,
    /// Cost by budget.
    pub costs: Vec<f64>,
    /// Queues after the slot.
    pub queues: Vec<f64>,
    /// `V time + Σ Q cost` without moving, at the queues before the slot.
    pub value: f64,
    /// The least value of any plan there, proved.
    pub optimum: f64,
    /// Pipelines of stages.
    pub pipelines: Vec<Vec<StageRecord>>,
}

/// What came of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// Slots with a plan.
    pub served: usize,
    /// Mean time of a batch over them, in ms.
    pub average_time_ms: f64,
    /// Mean cost per slot, by budget.
    pub average_costs: Vec<f64>,
    /// Last queue over the number of slots: by how much a budget may have been exceeded per slot.
    pub queues_per_slot: Vec<f64>,
    /// Whether the mean costs are within the budgets.
    pub keeps_budgets: bool,
    /// Slots that moved layers.
    pub moves: usize,
    /// Mean of value over optimum, less 1.
    pub mean_gap: f64,
    /// Largest of value over optimum, less 1.
    pub largest_gap: f64,
}

/// What no policy can beat; the last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Yardsticks {
    /// Least mean time of any plans for these very slots within the budgets, moving free; none if it was not proved.
    pub clairvoyant_ms: Option<f64>,
    /// A bound on it: the Lagrangian dual. None if no plans keep the budgets.
    pub lagrangian_ms: Option<f64>,
    /// Least mean time in the long run of any policy that keeps the budgets and draws plans by state alone, moving free;
    /// none where there are many states, a trace, or no such policy.
    pub stationary_ms: Option<f64>,
    /// What each policy's mean time was held against, in the order of the policies: the clairvoyant optimum where it keeps
    /// the budgets, else the bound at the costs that it paid. None where it served no slot.
    pub held_ms: Vec<Option<f64>>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// What was asked.
    Run(Header),
    /// A slot.
    Slot(SlotRecord),
    /// What came of a policy.
    Summary(Summary),
    /// What no policy can beat.
    Yardsticks(Yardsticks),
}

impl Line {
    /// As JSON, with the end of the line.
    pub(crate) fn text(&self) -> String {
        let json = serde_json::to_string(self);
        // Maps with text keys and finite numbers always have a JSON form.
        format!("{}\n", json.unwrap_or_default())
    }
}

/// A number with 15 significant digits, which JSON gives back exactly.
pub(crate) fn rounded(number: f64) -> f64 {
    format!("{number:.14e}").parse().unwrap_or(number)
}

/// Numbers with 15 significant digits.
pub(crate) fn all_rounded(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().copied().map(rounded).collect()
}
