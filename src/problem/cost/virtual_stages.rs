//! What plans with virtual stages cost: chunk by chunk, and device by device.

use super::{PhaseCost, Side, StageCost, costs_of_places, keeps_order, objective_ns};
use crate::model::options::Communication;
use crate::model::schedule::Chunk;
use crate::problem::pipeline::{Channels, PhaseTimes, Pipeline, StageTimes, chunks_as_laid};
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem, Transfer};

/// Cost of every device: that of a stage with all that its chunks hold. Time as for [`super::stage_costs`].
pub fn device_costs(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> Vec<StageCost> {
    let devices: Vec<usize> = assignment.iter().map(|&chunk| of.device_of[chunk]).collect();
    costs_of_places(problem, &devices, of.devices, problem.settings.communication)
}

/// The part of every chunk in what its device costs, if transfers cost time as `mode` says: a device sends a tensor from the chunk of its
/// producer, and receives it for the first of its chunks that consumes it. With a chunk a device that is what stages cost.
///
/// * `device_of`: the device of every chunk.
pub fn chunk_costs(
    problem: &Problem,
    device_of: &[usize],
    assignment: &Assignment,
    mode: Communication,
) -> Vec<StageCost> {
    let mut costs = vec![StageCost::default(); device_of.len()];
    for (item, &chunk) in assignment.iter().enumerate() {
        costs[chunk].add_item(problem, item);
    }
    for transfer in &problem.transfers {
        let receivers = receivers(device_of, assignment, transfer);
        if !receivers.is_empty() {
            costs[assignment[transfer.producer]].add_transfer(mode, transfer, Side::Producer);
        }
        for chunk in receivers {
            costs[chunk].add_transfer(mode, transfer, Side::Consumer);
        }
    }
    costs
}

/// For every device other than the producer's that consumes a transfer, the first of its chunks that does.
fn receivers(device_of: &[usize], assignment: &Assignment, transfer: &Transfer) -> Vec<usize> {
    let home = device_of[assignment[transfer.producer]];
    let mut chunks: Vec<usize> = transfer.consumers.iter().map(|&to| assignment[to]).collect();
    chunks.sort_unstable_by_key(|&chunk| (device_of[chunk], chunk));
    chunks.dedup_by_key(|chunk| device_of[*chunk]);
    chunks.retain(|&chunk| device_of[chunk] != home);
    chunks
}

/// The chunks of an assignment as stages that can be run. What a device has made or received before is moved to none of its chunks.
///
/// * `device_of`: the device of every chunk.
pub(crate) fn pipeline(problem: &Problem, device_of: &[usize], assignment: &Assignment) -> Pipeline {
    let settings = &problem.settings;
    let costs = chunk_costs(problem, device_of, assignment, Communication::Overlapped);
    let takes_time = settings.communication.takes_time();
    let times = |cost: PhaseCost| PhaseTimes {
        in_ns: if takes_time { cost.link_in_ns } else { 0 },
        work_ns: cost.work_ns,
        out_ns: if takes_time { cost.link_out_ns } else { 0 },
    };
    let stage = |cost: &StageCost| StageTimes {
        forward: times(cost.forward),
        backward: times(cost.backward),
        weight_ns: 0,
        replicas: 1,
        once_ns: 0,
    };
    let mut stages: Vec<StageTimes> = costs.iter().map(stage).collect();
    for (item, &chunk) in problem.items.iter().zip(assignment) {
        stages[chunk].weight_ns += item.weight_ns;
    }
    let sums = problem.sums_ns(assignment, device_of.len(), |chunk| device_of[chunk]);
    for (stage, once_ns) in stages.iter_mut().zip(sums) {
        stage.once_ns = once_ns;
    }
    Pipeline {
        stages,
        trains: settings.mode.trains(),
        channels: Channels::Shared,
        has_links: settings.communication.has_links(),
    }
}

/// The chunks of an assignment as they run.
pub(crate) fn chunk_times(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> Vec<Chunk> {
    chunks_as_laid(
        &pipeline(problem, &of.device_of, assignment),
        of.devices,
        of.placement,
    )
}

/// The objective of an assignment in ns: the time of an iteration as its order runs, or the busiest device's.
pub(super) fn assignment_ns(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> u64 {
    match of.sequence.as_ref().filter(|_| problem.settings.is_simulated()) {
        Some(sequence) => sequence.makespan_ns(&chunk_times(problem, of, assignment)),
        None => objective_ns(problem, &device_costs(problem, of, assignment)),
    }
}

/// Bytes of every chunk when its device holds most, which add up to what the device needs: of several such times that at which the
/// chunks before hold most.
pub fn chunk_bytes(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> Vec<u64> {
    let [base, stash] = base_and_stash(problem, of, assignment);
    fullest(of, &base, &stash)
}

/// The same of chunks that hold so many bytes for good, and for each micro-batch in flight.
pub(super) fn fullest(of: &VirtualStages, base: &[u64], stash: &[u64]) -> Vec<u64> {
    let mut bytes = vec![0; of.chunks()];
    for (chunks, in_flight) in of.chunks_of.iter().zip(&of.in_flight) {
        let held = |counts: &Vec<u64>| -> Vec<u64> {
            let both = chunks.iter().zip(counts);
            both.map(|(&chunk, count)| base[chunk] + count * stash[chunk])
                .collect()
        };
        let fullest = in_flight.iter().map(held);
        let fullest = fullest.max_by_key(|held| (held.iter().sum::<u64>(), held.clone()));
        for (&chunk, held) in chunks.iter().zip(fullest.unwrap_or_default()) {
            bytes[chunk] = held;
        }
    }
    bytes
}

/// Bytes of every chunk that are held for good, and for each micro-batch in flight.
fn base_and_stash(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> [Vec<u64>; 2] {
    let [mut base, mut stash] = [(); 2].map(|()| vec![0; of.chunks()]);
    for (item, &chunk) in problem.items.iter().zip(assignment) {
        base[chunk] += item.base_bytes;
        stash[chunk] += item.stash_bytes;
    }
    [base, stash]
}

/// Whether an assignment is a plan: order kept, every device with room for all that it holds, no chunk empty where all are asked for.
pub(super) fn is_feasible(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> bool {
    let in_range = assignment.iter().all(|&chunk| chunk < of.chunks());
    let is_ordered = in_range && keeps_order(problem, assignment) && problem.admits(assignment);
    is_ordered && uses_enough(problem, of, assignment) && {
        let bytes = chunk_bytes(problem, of, assignment);
        let held = |chunks: &Vec<usize>| chunks.iter().map(|&chunk| bytes[chunk]).sum::<u64>();
        let limit = problem.settings.memory_limit.unwrap_or(u64::MAX);
        of.chunks_of.iter().all(|chunks| held(chunks) <= limit)
    }
}

fn uses_enough(problem: &Problem, of: &VirtualStages, assignment: &Assignment) -> bool {
    let mut used = vec![false; of.chunks()];
    assignment.iter().for_each(|&chunk| used[chunk] = true);
    !problem.settings.all_stages || used.iter().all(|&used| used)
}
