//! The objective of a plan whose stages have modes.

use super::allocation::Allocation;
use super::keeps_order;
use crate::model::options::Region;
use crate::problem::Problem;
use crate::problem::modes::{ModalStage, ModalStages, Modes, Moves};
use crate::problem::pipeline::schedule::InFlight;
use crate::problem::pipeline::{self, Channels, PhaseTimes, Pipeline, StageTimes};

/// The objective in ticks: the longest period of a stage, not rounded, since replicas and micro-batches share out what it is made of; or the
/// time of an iteration as it is simulated. `None` if it is no plan: order kept, no stage empty, as many as asked for, enough devices, memory held, tensor groups inside
/// nodes.
pub fn modal_ns(problem: &Problem, modes: &Modes, plan: &Allocation) -> Option<u64> {
    let stages = modal_stages(modes, plan)?;
    let used = stages.stages.len();
    let mut held = vec![false; used];
    for &stage in &plan.assignment {
        *held.get_mut(stage)? = true;
    }
    let fits = stages
        .stages
        .iter()
        .all(|stage| stage.memory_bytes <= modes.memory_bytes);
    let replicas = stages.stages.iter().map(|stage| stage.replicas);
    let chosen = plan.modes.as_ref()?;
    let is_alike = chosen.stages.iter().all(|mode| *mode == chosen.stages[0]);
    let settings = &problem.settings;
    let is_told = |region: Region| modes.can_be_told(region.limits().recomputation, &plan.assignment, chosen);
    let is_plan = (is_alike || !settings.uniform)
        && settings.target.is_none_or(is_told)
        && !held.contains(&false)
        && used <= problem.stages()
        && (!problem.settings.all_stages || used == problem.stages())
        && keeps_order(problem, &plan.assignment)
        && stages.devices <= modes.devices
        && stages.groups_fit
        && fits
        && replicas
            .into_iter()
            .all(|replicas| modes.replicas.contains(&replicas));
    is_plan.then(|| match problem.settings.is_simulated() {
        true => iteration_ns(problem, &stages),
        false => stages.period(),
    })
}

/// The time of an iteration of stages whose ticks are ns, with the schedule's own number of micro-batches in flight.
fn iteration_ns(problem: &Problem, stages: &ModalStages) -> u64 {
    let settings = &problem.settings;
    let trains = settings.mode.trains();
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
    let pipeline = Pipeline {
        stages: stages.stages.iter().map(stage).collect(),
        trains,
        channels: Channels::Shared,
        has_links: false,
    };
    let micro_batches = settings.run_micro_batches();
    pipeline::iteration_ns(&pipeline, settings.schedule, InFlight::Standard, micro_batches)
}

/// What the stages of a plan cost; `None` where it says nothing of modes, or of modes that are not there.
pub fn modal_stages(modes: &Modes, plan: &Allocation) -> Option<ModalStages> {
    let chosen = plan.modes.as_ref()?;
    let is_known = |&stage: &usize| stage < chosen.stages.len();
    if !plan.assignment.iter().all(is_known) {
        return None;
    }
    modes.stages(&plan.assignment, chosen)
}
