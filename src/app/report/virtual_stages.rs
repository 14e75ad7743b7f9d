//! What a report says of devices that hold several chunks.

use std::collections::HashMap;

use super::format::{Digits, bytes, count, percent};
use crate::model::options::{Communication, Objective};
use crate::model::units::{ms_to_ns, ns_to_ms};
use crate::problem::plan::{Moved, Plan, PlanStage};

/// What a device comes to with all its chunks.
pub(super) struct Device<'a> {
    /// Its name, or those of its group.
    pub name: &'a [String],
    /// The busiest of the device and its links, in ms.
    pub busy_ms: f64,
    /// What it holds at most.
    pub memory_bytes: u64,
    /// Its chunks, from 1.
    chunks: Vec<usize>,
}

/// Whether devices hold several chunks.
pub(super) fn is_asked(plan: &Plan) -> bool {
    plan.virtual_stages().is_some()
}

/// How to fill chunks, where some are empty.
pub(super) fn empty(plan: &Plan) -> Option<String> {
    let empty = plan
        .stages
        .iter()
        .filter(|stage| stage.load_ms == 0.0 && stage.forward.is_empty());
    let empty = Some(empty.count()).filter(|empty| *empty > 0 && is_asked(plan))?;
    let chunks = count(plan.stages.len(), "chunk");
    Some(format!(
        "{empty} of {chunks} are empty; `--all-stages` fills each"
    ))
}

/// Every device that has chunks, in the order of their first ones.
pub(super) fn by_device(plan: &Plan) -> Vec<Device<'_>> {
    let has_links = plan.problem.communication.is_some_and(Communication::has_links);
    let mut places: HashMap<&[String], usize> = HashMap::new();
    let mut chunks_of: Vec<Vec<&PlanStage>> = Vec::new();
    for stage in &plan.stages {
        let at = *places.entry(&stage.devices).or_insert(chunks_of.len());
        if at == chunks_of.len() {
            chunks_of.push(Vec::new());
        }
        chunks_of[at].push(stage);
    }
    chunks_of
        .into_iter()
        .map(|chunks| Device::new(chunks, has_links))
        .collect()
}

impl<'a> Device<'a> {
    fn new(stages: Vec<&'a PlanStage>, has_links: bool) -> Self {
        let ns = |ms: f64| ms_to_ns(ms).unwrap_or(0);
        let (mut load, mut received, mut sent) = (0, 0, 0);
        for stage in &stages {
            load += ns(stage.load_ms);
            let transfers = stage.transfers.unwrap_or_default();
            for Moved { in_ms, out_ms } in [transfers.forward, transfers.backward] {
                received += ns(in_ms);
                sent += ns(out_ms);
            }
        }
        let held = stages.iter().map(|stage| stage.memory_bytes);
        Self {
            name: &stages[0].devices,
            busy_ms: ns_to_ms(match has_links {
                true => load.max(received).max(sent),
                false => load,
            }),
            memory_bytes: held.fold(0, u64::saturating_add),
            chunks: stages.iter().map(|stage| stage.index).collect(),
        }
    }
}

/// Where an iteration is the objective, what bounds the time between its micro-batches; nothing where each device has one chunk.
pub(super) fn period(plan: &Plan, digits: Digits) -> Option<String> {
    let is_iteration = plan.problem.objective == Some(Objective::Iteration);
    let busiest = by_device(plan)
        .into_iter()
        .filter(|_| is_asked(plan) && is_iteration);
    let busiest_ms = busiest.map(|device| device.busy_ms).max_by(f64::total_cmp)?;
    let micro_batches = plan.problem.micro_batches? as f64;
    let idle = 1.0 - busiest_ms * micro_batches / plan.objective_ms?;
    Some(format!(
        "{} ms of work of the busiest device, which no time between micro-batches is below; it is idle for {} of the iteration",
        digits.ms(busiest_ms),
        percent(idle.max(0.0))
    ))
}

/// Every device with its chunks, how busy it is and what it holds; nothing where each has one chunk.
pub(super) fn devices(plan: &Plan, digits: Digits) -> Option<String> {
    if !is_asked(plan) {
        return None;
    }
    let words = |device: &Device| {
        let chunks: Vec<String> = device.chunks.iter().map(ToString::to_string).collect();
        format!(
            "{} has stages {}: {} ms, {}",
            device.name.join(", "),
            chunks.join(", "),
            digits.ms(device.busy_ms),
            bytes(device.memory_bytes)
        )
    };
    let devices = by_device(plan);
    Some(devices.iter().map(words).collect::<Vec<_>>().join("; "))
}

/// How many chunks lie how: `4 virtual stages each in a loop`; nothing where each device has one.
pub(super) fn shape(plan: &Plan) -> Option<String> {
    let chunks = plan.virtual_stages()?;
    let placement = plan.problem.placement?;
    Some(format!("{chunks} virtual stages each in a {placement}"))
}

/// Of how many stages plans were compared.
pub(super) fn limit(plan: &Plan) -> Option<String> {
    let devices = plan.problem.stages?;
    let all = match plan.problem.all_stages {
        Some(true) => ", none empty",
        _ => "",
    };
    Some(format!(
        "on {} with {}{all}",
        count(devices, "device"),
        shape(plan)?
    ))
}
