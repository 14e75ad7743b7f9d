//! The objective of a plan whose stages have modes.

use super::allocation::Allocation;
use super::keeps_order;
use crate::problem::Problem;
use crate::problem::modes::{ModalStages, Modes};

/// The longest period of a stage in ticks, which is the objective, not rounded: replicas and micro-batches share out what it is made
/// of. `None` if it is no plan: order kept, no stage empty, as many as asked for, enough devices, memory held, tensor groups inside
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
    let is_plan = !held.contains(&false)
        && used <= problem.stages()
        && (!problem.settings.all_stages || used == problem.stages())
        && keeps_order(problem, &plan.assignment)
        && stages.devices <= modes.devices
        && stages.groups_fit
        && fits
        && replicas
            .into_iter()
            .all(|replicas| modes.replicas.contains(&replicas));
    is_plan.then(|| stages.period())
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
