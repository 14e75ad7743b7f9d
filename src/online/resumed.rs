//! Slots that a run takes from its own lines: held against the scenario before anything builds on them.

use super::controller::TOLERANCE;
use super::decisions::{Situation, queues_after};
use super::record::{SlotRecord, StageRecord};
use super::scenario::Scenario;
use crate::problem::hybrid::check::violations;
use crate::problem::hybrid::plan::{HybridPlan, Layout, Stage};
use crate::problem::hybrid::{Reading, Slot};

/// Why a line cannot be what a policy did in this slot, if so: its plan is checked and costed again.
pub(super) fn contradiction(
    scenario: &Scenario,
    situation: &Situation,
    record: &SlotRecord,
) -> Option<String> {
    let &Situation {
        slot, frontier, last, ..
    } = situation;
    let differs = |what: &str, found: f64, expected: f64| {
        let is_close = (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
        (!is_close).then(|| format!("{what} of {found}, expected {expected}"))
    };
    let budgets = scenario.budgets.len();
    if record.costs.len() != budgets || record.queues.len() != budgets {
        return Some(format!(
            "{} costs and {} queues for {budgets} budgets",
            record.costs.len(),
            record.queues.len()
        ));
    }
    if record.devices != slot.devices.len() {
        return Some(format!(
            "{} devices where {} are there",
            record.devices,
            slot.devices.len()
        ));
    }
    let wrong = match record.time_ms {
        None => {
            let sum: f64 = record.costs.iter().sum();
            let is_empty = record.pipelines.is_empty() && sum == 0.0;
            (!is_empty).then(|| "a plan that takes no time".to_owned())
        }
        Some(time_ms) => {
            let Some(plan) = plan(slot, record, time_ms - record.moving_ms) else {
                return Some("a plan of unknown devices or layers".into());
            };
            let optimum = frontier.best(slot).map_or(f64::NAN, |best| best.value(slot));
            let moving_ms = last.moving_ms(scenario, slot, &plan.layout);
            let broken = violations(slot, &plan);
            (!broken.is_empty())
                .then(|| broken.join("; "))
                .or_else(|| differs("moving time", record.moving_ms, moving_ms))
                .or_else(|| differs("value", record.value, plan.value(slot)))
                .or_else(|| differs("optimum", record.optimum, optimum))
        }
    };
    let queues = queues_after(scenario, last, &record.costs);
    wrong.or_else(|| {
        let mut pairs = record.queues.iter().zip(&queues);
        pairs.find_map(|(&found, &expected)| differs("queue", found, expected))
    })
}

/// The plan that a line tells, in the positions of the slot; `None` where it names devices or layers that are not there, or
/// shares of other devices.
fn plan(slot: &Slot, record: &SlotRecord, time_ms: f64) -> Option<HybridPlan> {
    let position = |name: &String| slot.devices.iter().position(|device| device.name == *name);
    let stage = |stage: &StageRecord| {
        let [from, to] = stage.layers;
        let devices: Vec<usize> = stage.devices.iter().map(position).collect::<Option<_>>()?;
        (from <= to && to <= slot.chain.layers()).then_some(Stage {
            layers: from..to,
            devices,
        })
    };
    let pipelines = record.pipelines.iter();
    let layout: Layout = pipelines
        .map(|stages| stages.iter().map(stage).collect())
        .collect::<Option<_>>()?;
    let told = || record.pipelines.iter();
    let samples: Vec<Vec<f64>> = match slot.reading {
        Reading::ParallelPipelines => {
            let first = |stages: &Vec<StageRecord>| stages.first()?.samples.first().copied();
            vec![told().map(first).collect::<Option<_>>()?]
        }
        Reading::PipelineOfGroups => told().flatten().map(|stage| stage.samples.clone()).collect(),
    };
    let is_whole = |stage: &StageRecord| match slot.reading {
        Reading::ParallelPipelines => stage.samples.len() == 1,
        Reading::PipelineOfGroups => stage.samples.len() == stage.devices.len(),
    };
    told().flatten().all(is_whole).then_some(HybridPlan {
        layout,
        samples,
        time_ms,
        costs: record.costs.clone(),
    })
}
