//! Python programs with a plan in them.

use serde::Serialize;

use crate::plan::Plan;

/// The line of a template that the plan takes the place of.
const PLACE: &str = "\nPLAN = {}\n";

/// What a program needs of a plan.
#[derive(Serialize)]
pub(super) struct Planned<'a> {
    pub instance: &'a str,
    pub mode: String,
    pub stages: Vec<PlannedStage<'a>>,
}

/// A stage: its layers by name.
#[derive(Serialize)]
pub(super) struct PlannedStage<'a> {
    pub index: usize,
    pub devices: &'a [String],
    pub layers: &'a [String],
}

impl<'a> Planned<'a> {
    /// Of a plan whose passes are not apart.
    pub(super) fn of(plan: &'a Plan) -> Self {
        let stages = plan.stages.iter().map(|stage| PlannedStage {
            index: stage.index,
            devices: &stage.devices,
            layers: &stage.forward,
        });
        Self {
            instance: &plan.instance,
            mode: plan
                .problem
                .mode
                .map_or_else(|| "training".into(), |mode| mode.to_string()),
            stages: stages.collect(),
        }
    }
}

/// Puts a value into a template. Text, numbers, lists and tables are written alike in JSON and Python.
pub(super) fn fill(template: &str, value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value).expect("names and numbers are JSON");
    // Not a pattern of `replace`: layer names may hold anything.
    let (before, after) = template
        .split_once(PLACE)
        .expect("every template has a place for the plan");
    format!("{before}\nPLAN = {json}\n{after}")
}
