//! Brute force for a slot of hybrid parallelism: every place of every device, every cut, and shares by bisection or, where
//! samples are whole, by trying every division. For a few devices, layers and samples.

use std::ops::Range;

use stagecut::hybrid::{LEAST_SAMPLE_MS, Reading, Slot};

/// The least `V time + Σ Q_i cost_i` of any plan, infinite if there is none.
pub fn least_value(slot: &Slot) -> f64 {
    let mut least = f64::INFINITY;
    let mut visit = |used: &[usize], time_ms: f64| {
        let costs = used.iter().map(|&device| {
            let prices = slot.devices[device].prices.iter();
            prices.zip(&slot.queues).map(|(p, q)| p * q).sum::<f64>()
        });
        least = least.min(slot.time_weight * time_ms + costs.sum::<f64>());
    };
    match slot.reading {
        Reading::PipelineOfGroups => groups(slot, 0, &mut Vec::new(), &mut visit),
        Reading::ParallelPipelines => orders(slot, 0, &mut Vec::new(), &mut visit),
    }
    least
}

type Visit<'a> = &'a mut dyn FnMut(&[usize], f64);

/// Adds stages one by one: all ends, and all sets of devices that are left.
fn groups(slot: &Slot, first: usize, stages: &mut Vec<(Range<usize>, Vec<usize>)>, visit: Visit) {
    let layers = slot.chain.layers();
    let used: Vec<usize> = stages.iter().flat_map(|(_, devices)| devices.clone()).collect();
    if first == layers {
        let count = stages.len();
        let times = stages.iter().enumerate().map(|(k, (layers, devices))| {
            let takers = devices.iter().map(|&d| taker(slot, d, layers, count - k));
            let takers: Option<Vec<_>> = takers.collect();
            let links = devices.iter().map(|&d| slot.devices[d].bandwidth_bytes_per_ms);
            let bytes: f64 = slot.chain.parameter_bytes[layers.clone()].iter().sum();
            let members = devices.len() as f64;
            let slowest = links.fold(f64::INFINITY, f64::min);
            let ring_ms = 2.0 * (members - 1.0) / members * bytes / slowest;
            let messages = slot.chain.cut_messages[layers.start] + slot.chain.cut_messages[layers.end];
            let of_batch = messages * f64::from(slot.samples) / slot.micro_batch;
            let fixed_ms = latency_ms(slot, slot.backbone_bytes_per_ms, of_batch)
                + latency_ms(slot, slowest, ring_messages(slot, members));
            takers.map_or(f64::INFINITY, |takers| {
                least_time(&takers, slot) + ring_ms + fixed_ms
            })
        });
        let time_ms = times.fold(0.0, f64::max);
        return visit(&used, time_ms);
    }
    let free: Vec<usize> = (0..slot.devices.len()).filter(|d| !used.contains(d)).collect();
    for end in first + 1..=layers {
        for set in 1..1_usize << free.len() {
            let members = (0..free.len()).filter(|i| set >> i & 1 == 1).map(|i| free[i]);
            stages.push((first..end, members.collect()));
            groups(slot, end, stages, visit);
            stages.pop();
        }
    }
}

/// Puts devices one by one nowhere, at any place of a pipeline, or at the head of a new one.
fn orders(slot: &Slot, device: usize, pipelines: &mut Vec<Vec<usize>>, visit: Visit) {
    if device == slot.devices.len() {
        if pipelines.is_empty() {
            return;
        }
        let used: Vec<usize> = pipelines.iter().flatten().copied().collect();
        let takers: Vec<(f64, f64)> = pipelines
            .iter()
            .map(|devices| (pipeline_ms(slot, devices, 0), f64::from(slot.samples)))
            .collect();
        let bytes: f64 = slot.chain.parameter_bytes.iter().sum();
        let members = pipelines.len() as f64;
        let ring_ms = 2.0 * (members - 1.0) / members * bytes / slot.backbone_bytes_per_ms
            + latency_ms(slot, slot.backbone_bytes_per_ms, ring_messages(slot, members));
        if takers.iter().all(|(sample_ms, _)| sample_ms.is_finite()) {
            visit(&used, least_time(&takers, slot) + ring_ms);
        }
        return;
    }
    orders(slot, device + 1, pipelines, visit);
    for p in 0..pipelines.len() {
        for place in 0..=pipelines[p].len() {
            pipelines[p].insert(place, device);
            orders(slot, device + 1, pipelines, visit);
            pipelines[p].remove(place);
        }
    }
    pipelines.push(vec![device]);
    orders(slot, device + 1, pipelines, visit);
    pipelines.pop();
}

/// The least time of a sample at the slowest of these devices, one a stage, in this order.
fn pipeline_ms(slot: &Slot, devices: &[usize], first: usize) -> f64 {
    let layers = slot.chain.layers();
    let Some((&device, rest)) = devices.split_first() else {
        return if first == layers { 0.0 } else { f64::INFINITY };
    };
    let ends = first + 1..=layers;
    let times = ends.map(|end| match taker(slot, device, &(first..end), devices.len()) {
        None => f64::INFINITY,
        Some((sample_ms, _)) => sample_ms.max(pipeline_ms(slot, rest, end)),
    });
    times.fold(f64::INFINITY, f64::min)
}

/// What so many messages wait on a link.
fn latency_ms(slot: &Slot, bandwidth: f64, messages: f64) -> f64 {
    if bandwidth.is_infinite() {
        0.0
    } else {
        messages * slot.latency_ms
    }
}

/// Messages of a ring, one after the other.
fn ring_messages(slot: &Slot, members: f64) -> f64 {
    let has_ring = slot.chain.parameter_bytes.iter().sum::<f64>() > 0.0;
    if has_ring { 2.0 * (members - 1.0) } else { 0.0 }
}

/// Time of a sample, and the samples there is room for.
fn taker(slot: &Slot, device: usize, layers: &Range<usize>, depth: usize) -> Option<(f64, f64)> {
    let (chain, device) = (slot.chain, &slot.devices[device]);
    let is_parallel = slot.reading == Reading::ParallelPipelines;
    let work: f64 = layers.clone().map(|l| chain.work_ms[device.kind][l]).sum();
    let link = match is_parallel {
        true => device.bandwidth_bytes_per_ms,
        false => device.bandwidth_bytes_per_ms.min(slot.backbone_bytes_per_ms),
    };
    let moving = (chain.cut_bytes[layers.start] + chain.cut_bytes[layers.end]) / link;
    let messages = match is_parallel {
        true => (chain.cut_messages[layers.start] + chain.cut_messages[layers.end]) / slot.micro_batch,
        false => 0.0,
    };
    let sample_ms = work * device.slowdown + moving + latency_ms(slot, link, messages);
    let sample_ms = sample_ms.max(LEAST_SAMPLE_MS);
    let held: f64 = layers.clone().map(|l| chain.state_bytes[l]).sum();
    let stash: f64 = layers.clone().map(|l| chain.stash_bytes[l]).sum();
    let left = device.memory_bytes - held;
    let samples = f64::from(slot.samples);
    let of_batch = stash * slot.micro_batch * depth as f64;
    let room = match is_parallel {
        true if of_batch > left => return None,
        true => samples,
        false if of_batch == 0.0 => samples,
        false => (left / of_batch * samples).min(samples),
    };
    (left >= 0.0 && sample_ms.is_finite()).then_some((sample_ms, room))
}

/// The least time in which the takers do all samples.
fn least_time(takers: &[(f64, f64)], slot: &Slot) -> f64 {
    if slot.whole {
        return least_whole(takers, slot.samples);
    }
    let samples = f64::from(slot.samples);
    if takers.iter().map(|(_, room)| room).sum::<f64>() < samples {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, takers.iter().map(|(ms, _)| ms * samples).fold(0.0, f64::max));
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let done: f64 = takers.iter().map(|(ms, room)| (middle / ms).min(*room)).sum();
        if done >= samples {
            high = middle
        } else {
            low = middle
        }
    }
    high
}

/// Tries every number of samples for the first taker.
fn least_whole(takers: &[(f64, f64)], samples: u32) -> f64 {
    let Some((&(sample_ms, room), rest)) = takers.split_first() else {
        return if samples == 0 { 0.0 } else { f64::INFINITY };
    };
    let counts = (0..=samples).take_while(|count| f64::from(*count) <= room);
    let times = counts.map(|count| (f64::from(count) * sample_ms).max(least_whole(rest, samples - count)));
    times.fold(f64::INFINITY, f64::min)
}
