//! Python programs with a plan in them.

use serde::Serialize;

use super::Ordered;
use super::devices::RankDevices;
use crate::model::fault::Fault;
use crate::problem::plan::Plan;

/// The line of a template that the plan takes the place of.
const PLACE: &str = "\nPLAN = {}\n";

/// What a program needs of a plan.
#[derive(Serialize)]
pub(super) struct Planned<'a> {
    pub instance: &'a str,
    pub mode: String,
    /// Those of the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<usize>,
    /// A line a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<String>>,
    /// The GPU of every rank, by its number in its node, where devices differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<usize>>,
    /// `cpu` where the stages are planned for CPUs, whatever else there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<&'static str>,
    pub stages: Vec<PlannedStage<'a>>,
}

/// A stage: its layers by name.
#[derive(Serialize)]
pub(super) struct PlannedStage<'a> {
    pub index: usize,
    /// The line of the order that runs it, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    pub devices: &'a [String],
    pub layers: &'a [String],
}

impl<'a> Planned<'a> {
    /// Of a plan whose passes are not apart.
    pub(super) fn new(plan: &'a Plan) -> Self {
        let stages = plan.stages.iter().map(|stage| PlannedStage {
            index: stage.index,
            rank: None,
            devices: &stage.devices,
            layers: &stage.forward,
        });
        Self {
            instance: &plan.instance,
            mode: plan
                .problem
                .mode
                .map_or_else(|| "training".into(), |mode| mode.to_string()),
            micro_batches: None,
            order: None,
            gpus: None,
            device: None,
            stages: stages.collect(),
        }
    }

    /// The same with an order.
    pub(super) fn in_order(plan: &'a Plan, ordered: &Ordered) -> Self {
        let mut planned = Self::new(plan);
        for (stage, &rank) in planned.stages.iter_mut().zip(&ordered.ranks) {
            stage.rank = Some(rank);
        }
        let csv = ordered.order.to_torch_csv();
        planned.micro_batches = Some(ordered.micro_batches);
        planned.order = Some(csv.lines().map(str::to_owned).collect());
        planned
    }
}

impl Planned<'_> {
    /// The same with the devices of its ranks.
    pub(super) fn with_ranks(mut self, ranks: RankDevices) -> Result<Self, Fault> {
        self.device = ranks.are_cpus().then_some("cpu");
        let ranks = match self.device {
            Some(_) => ranks,
            None => ranks.no_cpu("torch.distributed.pipelining")?,
        };
        let environment = ranks.environment()?.filter(|_| self.device.is_none());
        self.gpus = environment.map(|environment| environment.gpus());
        Ok(self)
    }
}

/// Puts a value into a template. Text, numbers, lists and tables are written alike in JSON and Python; truth values are not.
pub(super) fn fill(template: &str, value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value).expect("names and numbers are JSON");
    // Not a pattern of `replace`: layer names may hold anything.
    let (before, after) = template
        .split_once(PLACE)
        .expect("every template has a place for the plan");
    format!("{before}\nPLAN = {json}\n{after}")
}
