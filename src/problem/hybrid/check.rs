//! Checks a plan of a slot on a path of its own: sums over layers and devices, nothing shared with what found the plan.

use super::plan::{HybridPlan, Stage};
use super::{Device, LEAST_SAMPLE_MS, Reading, Slot};

/// Relative difference between two times that counts as none: sums of a few hundred doubles in another order.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// What is wrong with a plan, one sentence each; nothing if it holds.
pub fn violations(slot: &Slot, plan: &HybridPlan) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = vec![0_usize; slot.devices.len()];
    for &device in plan.layout.iter().flatten().flat_map(|stage| &stage.devices) {
        used[device] += 1;
    }
    for (device, _) in used.iter().enumerate().filter(|(_, times)| **times > 1) {
        found.push(format!("device `{}` has two places", slot.devices[device].name));
    }
    for pipeline in &plan.layout {
        let layers: Vec<usize> = pipeline.iter().flat_map(|stage| stage.layers.clone()).collect();
        if layers != (0..slot.chain.layers()).collect::<Vec<_>>() {
            found.push("a pipeline does not hold every layer once, in order".into());
        }
        if pipeline
            .iter()
            .any(|stage| stage.layers.is_empty() || stage.devices.is_empty())
        {
            found.push("a stage has no layers or no devices".into());
        }
    }
    let shape = match slot.reading {
        Reading::PipelineOfGroups => plan.layout.len() == 1,
        Reading::ParallelPipelines => plan.layout.iter().flatten().all(|stage| stage.devices.len() == 1),
    };
    if !shape || plan.layout.is_empty() {
        found.push("the layout is not of the reading that is asked".into());
    }
    if !found.is_empty() {
        return found;
    }
    for shares in &plan.samples {
        let total: f64 = shares.iter().sum();
        if (total - f64::from(slot.samples)).abs() > TOLERANCE * f64::from(slot.samples) {
            found.push(format!("{total} samples are taken of {}", slot.samples));
        }
        if shares
            .iter()
            .any(|share| *share < 0.0 || slot.whole && share.fract() != 0.0)
        {
            found.push("a device takes a negative or broken number of samples".into());
        }
    }
    let time_ms = recomputed_ms(slot, plan, &mut found);
    if (time_ms - plan.time_ms).abs() > TOLERANCE * time_ms.max(LEAST_SAMPLE_MS) {
        found.push(format!("a batch takes {time_ms} ms, not {} ms", plan.time_ms));
    }
    for (i, cost) in plan.costs.iter().enumerate() {
        let devices = used.iter().zip(&slot.devices).filter(|(times, _)| **times > 0);
        let paid: f64 = devices.map(|(_, device)| device.prices[i]).sum();
        if (paid - cost).abs() > TOLERANCE * paid.max(1.0) {
            found.push(format!("budget {i} pays {paid}, not {cost}"));
        }
    }
    found
}

/// The time of a batch, and what memory lacks.
fn recomputed_ms(slot: &Slot, plan: &HybridPlan, found: &mut Vec<String>) -> f64 {
    let mut time_ms = 0.0_f64;
    for (p, pipeline) in plan.layout.iter().enumerate() {
        for k in 0..pipeline.len() {
            time_ms = time_ms.max(stage_ms(slot, plan, [p, k], found));
        }
    }
    let parameters: f64 = slot.chain.parameter_bytes.iter().sum();
    let members = plan.layout.len() as f64;
    let ring_ms = (2.0 - 2.0 / members) * parameters / slot.backbone_bytes_per_ms;
    if trains(slot) && slot.backbone_bytes_per_ms.is_finite() {
        time_ms += (members - 1.0) * 2.0 * slot.latency_ms;
    }
    time_ms + ring_ms
}

fn trains(slot: &Slot) -> bool {
    slot.chain.parameter_bytes.iter().sum::<f64>() > 0.0
}

/// The time of stage `k` of pipeline `p` for a batch: its slowest device, and what its devices do together.
fn stage_ms(slot: &Slot, plan: &HybridPlan, [p, k]: [usize; 2], found: &mut Vec<String>) -> f64 {
    let is_parallel = slot.reading == Reading::ParallelPipelines;
    let stage = &plan.layout[p][k];
    let mut stage_ms = 0.0_f64;
    for (i, &position) in stage.devices.iter().enumerate() {
        let device = &slot.devices[position];
        let share = if is_parallel {
            plan.samples[0][p]
        } else {
            plan.samples[k][i]
        };
        let sample_ms = sample_ms(slot, device, stage);
        stage_ms = stage_ms.max(sample_ms.max(LEAST_SAMPLE_MS) * share);
        let fraction = if is_parallel {
            1.0
        } else {
            share / f64::from(slot.samples)
        };
        let in_flight = (plan.layout[p].len() - k) as f64;
        let needed = needed_bytes(slot, stage, fraction, in_flight);
        if needed > device.memory_bytes * (1.0 + TOLERANCE) {
            found.push(format!("`{}` needs {needed} bytes", device.name));
        }
    }
    let members = stage.devices.len() as f64;
    let links = stage
        .devices
        .iter()
        .map(|&d| slot.devices[d].bandwidth_bytes_per_ms);
    let parameters: f64 = stage.layers.clone().map(|l| slot.chain.parameter_bytes[l]).sum();
    let slowest = links.fold(f64::INFINITY, f64::min);
    if !is_parallel && slot.backbone_bytes_per_ms.is_finite() {
        // A message of every tensor, for every micro-batch, at both ends.
        let ends = slot.chain.cut_messages[stage.layers.start] + slot.chain.cut_messages[stage.layers.end];
        stage_ms += f64::from(slot.samples) / slot.micro_batch * ends * slot.latency_ms;
    }
    if trains(slot) && slowest.is_finite() {
        stage_ms += (members - 1.0) * 2.0 * slot.latency_ms;
    }
    stage_ms + (2.0 - 2.0 / members) * parameters / slowest
}

/// The time of a sample on one device of a stage: its layers, and what crosses both ends.
fn sample_ms(slot: &Slot, device: &Device, stage: &Stage) -> f64 {
    let is_parallel = slot.reading == Reading::ParallelPipelines;
    let mut sample_ms = 0.0;
    for layer in stage.layers.clone() {
        sample_ms += slot.chain.work_ms[device.kind][layer] * device.slowdown;
    }
    let mut link = device.bandwidth_bytes_per_ms;
    if !is_parallel && slot.backbone_bytes_per_ms < link {
        link = slot.backbone_bytes_per_ms;
    }
    for end in [stage.layers.start, stage.layers.end] {
        sample_ms += slot.chain.cut_bytes[end] / link;
        if is_parallel && link.is_finite() {
            sample_ms += slot.latency_ms * slot.chain.cut_messages[end] / slot.micro_batch;
        }
    }
    sample_ms
}

/// Bytes that a device of a stage holds, with a fraction of the samples of so many micro-batches in flight.
fn needed_bytes(slot: &Slot, stage: &Stage, fraction: f64, in_flight: f64) -> f64 {
    let (mut held, mut stashed) = (0.0, 0.0);
    for layer in stage.layers.clone() {
        held += slot.chain.state_bytes[layer];
        stashed += slot.chain.stash_bytes[layer];
    }
    held + stashed * slot.micro_batch * fraction * in_flight
}
