//! What a report says of devices that hold several chunks.

use std::collections::BTreeSet;

use super::format::{Digits, bytes, count};
use crate::model::options::Communication;
use crate::model::units::{ms_to_ns, ns_to_ms};
use crate::problem::plan::{Moved, Plan};

/// What a device comes to with all its chunks.
pub(super) struct Device {
    /// The busiest of the device and its links, in ms.
    pub busy_ms: f64,
    /// What it holds at most.
    pub memory_bytes: u64,
    /// Its chunks, from 1.
    chunks: Vec<usize>,
}

/// Whether devices hold several chunks.
pub(super) fn is_asked(plan: &Plan) -> bool {
    plan.problem.virtual_stages.is_some_and(|chunks| chunks > 1)
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

/// The device of that name.
pub(super) fn device(plan: &Plan, name: &[String]) -> Device {
    let ns = |ms: f64| ms_to_ns(ms).unwrap_or(0);
    let mut all = Device {
        busy_ms: 0.0,
        memory_bytes: 0,
        chunks: Vec::new(),
    };
    let (mut load, mut received, mut sent) = (0, 0, 0);
    for stage in plan.stages.iter().filter(|stage| stage.devices == name) {
        all.chunks.push(stage.index);
        all.memory_bytes = all.memory_bytes.saturating_add(stage.memory_bytes);
        load += ns(stage.load_ms);
        let transfers = stage.transfers.unwrap_or_default();
        for Moved { in_ms, out_ms } in [transfers.forward, transfers.backward] {
            received += ns(in_ms);
            sent += ns(out_ms);
        }
    }
    let busy = match plan.problem.communication.is_some_and(Communication::has_links) {
        true => load.max(received).max(sent),
        false => load,
    };
    all.busy_ms = ns_to_ms(busy);
    all
}

/// Every device with its chunks, how busy it is and what it holds; nothing where each has one chunk.
pub(super) fn devices(plan: &Plan, digits: Digits) -> Option<String> {
    if !is_asked(plan) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let names = plan.stages.iter().map(|stage| &stage.devices);
    let names = names.filter(|&name| seen.insert(name));
    let words = names.map(|name| {
        let of = device(plan, name);
        let chunks: Vec<String> = of.chunks.iter().map(ToString::to_string).collect();
        format!(
            "{} has stages {}: {} ms, {}",
            name.join(", "),
            chunks.join(", "),
            digits.ms(of.busy_ms),
            bytes(of.memory_bytes)
        )
    });
    Some(words.collect::<Vec<_>>().join("; "))
}

/// How many chunks lie how: `4 virtual stages each in a loop`; nothing where each device has one.
pub(super) fn shape(plan: &Plan) -> Option<String> {
    let chunks = plan.problem.virtual_stages.filter(|&chunks| chunks > 1)?;
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
