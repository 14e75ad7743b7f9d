//! The objective of a plan whose stages have modes.

use super::allocation::Allocation;
use super::keeps_order;
use super::virtual_stages::fullest;
use crate::model::options::{Objective, Region};
use crate::problem::Problem;
use crate::problem::modes::{Chosen, ModalStage, ModalStages, Modes, Moves};
use crate::problem::pipeline::schedule::InFlight;
use crate::problem::pipeline::{self, PhaseTimes, Pipeline, StageTimes};
use crate::problem::virtual_stages::VirtualStages;

/// The objective in ticks: the longest period of a stage, not rounded, since replicas and micro-batches share out what it is made of; an iteration by its
/// formula; or the time of one as it is simulated. `None` if it is no plan: order kept, no stage empty but chunks, as many as asked for, enough devices,
/// memory held, tensor groups inside nodes.
pub fn modal_ns(problem: &Problem, modes: &Modes, plan: &Allocation) -> Option<u64> {
    let chosen = plan.modes.as_ref()?;
    let stages = modal_stages(problem, modes, plan)?;
    let chunks = of_chunks(problem, chosen)?;
    let used = stages.stages.len();
    let mut held = vec![false; used];
    for &stage in &plan.assignment {
        *held.get_mut(stage)? = true;
    }
    let settings = &problem.settings;
    // Chunks may be empty, and keep their places.
    let (may_be_empty, is_enough) = match chunks {
        Some(_) => (!settings.fills_chunks(), true),
        None => (false, !settings.all_stages || used == problem.stages()),
    };
    let have_room = |own: &[usize]| {
        let degree = chosen.stages[own[0]].degree;
        let sum = |of: fn(&ModalStage) -> u64| own.iter().map(|&k| of(&stages.stages[k])).sum::<u64>();
        sum(|stage| stage.memory_bytes) <= modes.memory_bytes(degree)
            && sum(|stage| stage.at_host) <= modes.host_memory_bytes(degree)
    };
    let fits = match chunks {
        Some(of) => of.chunks_of.iter().all(|own| have_room(own)),
        None => (0..used).all(|k| have_room(&[k])),
    };
    let mut replicas = stages.stages.iter().map(|stage| stage.replicas);
    let is_alike = chosen
        .stages
        .iter()
        .all(|mode| modes.are_alike(mode, &chosen.stages[0]));
    let is_told = |region: Region| modes.can_be_told(region.limits().recomputation, &plan.assignment, chosen);
    let is_plan = (is_alike || !(settings.uniform || chunks.is_some()))
        && settings.target.is_none_or(is_told)
        && (may_be_empty || !held.contains(&false))
        && (chunks.is_some() || used <= problem.stages())
        && is_enough
        && keeps_order(problem, &plan.assignment)
        && problem.admits(&plan.assignment)
        && modes
            .rows
            .iter()
            .zip(&stages.devices)
            .all(|(row, &used)| used <= row.devices)
        && stages.groups_fit
        && rows_in_turn(modes, chosen, chunks)
            .is_sorted_by(|&ahead, &behind| modes.may_follow(ahead, behind))
        && fits
        && replicas.all(|replicas| modes.replicas.contains(&replicas))
        && chosen
            .stages
            .iter()
            .all(|mode| modes.shares_out(mode.degree, mode.replicas));
    is_plan.then(|| match (chunks, settings.is_simulated()) {
        (Some(of), _) => chunks_ns(problem, of, &stages),
        (None, true) if settings.reads_prompt() => {
            (problem.reads()).map_or(u64::MAX, |reads| reads.modal_run_ns(&plan.assignment, chosen))
        }
        (None, true) => iteration_ns(problem, &stages),
        (None, false) if settings.objective == Objective::Formula => stages.by_formula(modes.micro_batches()),
        (None, false) => stages.period(),
    })
}

/// The chunks of a plan, `Some(None)` where each device has one; `None` where devices may not have these.
fn of_chunks<'a>(problem: &'a Problem, chosen: &Chosen) -> Option<Option<&'a VirtualStages>> {
    match chosen.virtual_stages {
        1 => problem.settings.allows_virtual_stages(1).then_some(None),
        _ => problem.chunks_in(chosen).map(Some),
    }
}

/// The row of every stage, or of every device where these have several chunks, in the order of the pipeline.
fn rows_in_turn(
    modes: &Modes,
    chosen: &Chosen,
    chunks: Option<&VirtualStages>,
) -> impl Iterator<Item = usize> {
    let first = |of: &VirtualStages| of.chunks_of.iter().map(|chunks| chunks[0]).collect();
    let stages: Vec<usize> = chunks.map_or_else(|| (0..chosen.stages.len()).collect(), first);
    let row = |stage: usize| modes.degrees[chosen.stages[stage].degree].row;
    stages.into_iter().map(row)
}

/// Stages as they are run.
fn pipeline(problem: &Problem, stages: &ModalStages) -> Pipeline {
    let phase = |moves: Moves, work_ns: u64| PhaseTimes {
        in_ns: moves.received,
        work_ns,
        out_ns: moves.sent,
    };
    let stage = |stage: &ModalStage| {
        let [forward_ns, backward_ns] = stage.passes();
        StageTimes {
            forward: phase(stage.moved[0], forward_ns),
            backward: phase(stage.moved[1], backward_ns),
            weight_ns: 0,
            replicas: stage.replicas as u64,
            once_ns: stage.exchange_ns,
        }
    };
    Pipeline::new(&problem.settings, stages.stages.iter().map(stage).collect())
}

/// The time of an iteration of stages whose ticks are ns.
fn iteration_ns(problem: &Problem, stages: &ModalStages) -> u64 {
    let settings = &problem.settings;
    let pipeline = pipeline(problem, stages);
    let schedule = settings.with_chunks(stages.stages.len(), 1).schedule;
    let micro_batches = settings.run_micro_batches();
    pipeline::iteration_ns(&pipeline, schedule, InFlight::Standard, micro_batches)
}

/// The time of an iteration of chunks whose ticks are ns: a replica of all of them runs its micro-batches in the order of the schedule, the others
/// beside it theirs, and what a device has done they exchange behind its last operation, chunk by chunk.
fn chunks_ns(problem: &Problem, of: &VirtualStages, stages: &ModalStages) -> u64 {
    let mut pipeline = pipeline(problem, stages);
    let apart = pipeline.stages.iter_mut().zip(&stages.stages);
    apart.for_each(|(chunk, stage)| chunk.weight_ns = stage.weight);
    let chunks = pipeline::chunks_as_laid(&pipeline, of.devices, of.placement);
    of.sequence
        .as_ref()
        .map_or(0, |sequence| sequence.makespan_ns(&chunks))
}

/// What the stages of a plan cost; `None` where it says nothing of modes, or of modes or chunks that are not there.
pub fn modal_stages(problem: &Problem, modes: &Modes, plan: &Allocation) -> Option<ModalStages> {
    let chosen = plan.modes.as_ref()?;
    let is_known = |&stage: &usize| stage < chosen.stages.len();
    if !plan.assignment.iter().all(is_known) {
        return None;
    }
    let Some(of) = of_chunks(problem, chosen)? else {
        return modes.stages(&plan.assignment, chosen);
    };
    let none = vec![0; of.chunks()];
    let mut stages = modes.stages_on(&plan.assignment, chosen, (&of.device_of, &none))?;
    take_memory(of, &mut stages.stages);
    Some(stages)
}

/// Adds what chunks hold of micro-batches in flight when their device, or its host, holds most. What is needed while a layer runs is needed for one of the chunks
/// at a time: the one that needs most.
fn take_memory(of: &VirtualStages, chunks: &mut [ModalStage]) {
    for own in &of.chunks_of {
        let most = own
            .iter()
            .copied()
            .max_by_key(|&k| (chunks[k].workspace_bytes, std::cmp::Reverse(k)));
        for &k in own.iter().filter(|&&k| Some(k) != most) {
            chunks[k].memory_bytes -= chunks[k].workspace_bytes;
        }
    }
    let base: Vec<u64> = chunks.iter().map(|chunk| chunk.memory_bytes).collect();
    let stash: Vec<u64> = chunks.iter().map(|chunk| chunk.stash_bytes).collect();
    let bytes = fullest(of, &base, &stash);
    let states: Vec<u64> = chunks.iter().map(|chunk| chunk.states_at_host).collect();
    let copied: Vec<u64> = chunks.iter().map(|chunk| chunk.host_bytes).collect();
    let at_host = fullest(of, &states, &copied);
    for (k, chunk) in chunks.iter_mut().enumerate() {
        (chunk.memory_bytes, chunk.at_host) = (bytes[k], at_host[k]);
        chunk.in_flight = of.most_of_chunk(k);
    }
}
