//! Chunks of devices that have several, as stages of a plan.

use std::collections::BTreeMap;

use super::stage::{communication_ns, transfers};
use super::{PlanStage, weights};
use crate::model::instance::Instance;
use crate::model::options::Communication;
use crate::model::units::ns_to_ms;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::virtual_stages::{chunk_bytes, chunk_costs};
use crate::problem::virtual_stages::VirtualStages;

/// Every chunk as a stage, empty ones too.
pub(super) fn stages(
    instance: &Instance,
    problem: &Problem,
    of: &VirtualStages,
    allocation: &Allocation,
) -> Vec<PlanStage> {
    let assignment = &allocation.assignment;
    let settings = &problem.settings;
    let trains = settings.mode.trains();
    let kind = &instance.cluster.kinds[settings.kind].name;
    let costs = chunk_costs(problem, &of.device_of, assignment, settings.communication);
    let moved = chunk_costs(problem, &of.device_of, assignment, Communication::Overlapped);
    let bytes = chunk_bytes(problem, of, assignment);
    let mut layers = vec![[Vec::new(), Vec::new()]; of.chunks()];
    for (item, &chunk) in problem.items.iter().zip(assignment) {
        layers[chunk][0].extend(&item.layers);
        layers[chunk][1].extend(&item.backward_layers);
    }
    let names = |mut layers: Vec<usize>| -> Vec<String> {
        layers.sort_unstable();
        let names = layers.iter().map(|&layer| &instance.network.layers[layer].id);
        names.cloned().collect()
    };
    let splits = weights::are_told(instance, settings);
    let sums = problem.sums_ns(assignment, of.chunks(), |chunk| of.device_of[chunk]);
    let weight_ticks = |layers: &[usize]| {
        let times = layers
            .iter()
            .map(|&layer| instance.network.layers[layer].times[settings.kind]);
        settings.ticks_per_ns * times.flatten().map(|times| times.weight_ns).sum::<u64>()
    };
    let stage = |(chunk, [forward, backward]): (usize, [Vec<usize>; 2])| PlanStage {
        index: chunk + 1,
        weight_ms: splits.then(|| settings.ms(weight_ticks(&backward))),
        forward: names(forward),
        backward: names(backward),
        devices: vec![format!("{kind}:{}", of.device_of[chunk] + 1)],
        shares: BTreeMap::new(),
        load_ms: settings.ms(costs[chunk].load_ns()),
        forward_ms: settings.ms(costs[chunk].forward.work_ns),
        backward_ms: settings.ms(costs[chunk].backward.work_ns),
        communication_ms: settings.ms(communication_ns(&costs[chunk])),
        synchronization_ms: (sums[chunk] > 0).then(|| ns_to_ms(sums[chunk])),
        transfers: transfers(settings, &moved[chunk]),
        memory_bytes: bytes[chunk],
        in_flight: trains.then(|| of.most_of_chunk(chunk)),
        weight_versions: trains.then_some(1),
        mode: None,
        chunks_ms: Vec::new(),
        chunk_transfers: Vec::new(),
    };
    layers.into_iter().enumerate().map(stage).collect()
}
