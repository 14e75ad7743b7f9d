//! What chunks hold, and what devices have room for, in bytes: from a plan and its instance.

use std::collections::{HashMap, HashSet};

use super::Chunks;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::options::Cuts;
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::{Words, words};
use crate::problem::plan::{Plan, PlanStage};

/// Gives the chunks of a plan their stashes in bytes, and devices the room that weights and their like leave.
///
/// What a stage holds for good is its memory less its stashes in flight, and less the weights of versions beyond the first: the
/// schedules here keep one version. A stash is held until the end of the backward pass, whether it is split or not.
///
/// # Errors
///
/// Plans whose stages hold something else: modes, separate cuts, workers that differ; memory that is less than what is in flight; and
/// devices whose stages together hold more for good than they have, as where two stages of a plan share one.
pub fn take_memory(chunks: &mut Chunks, plan: &Plan, instance: &Instance) -> Result<(), InputError> {
    let settings = Settings::resolve(instance, &plan.problem)?;
    if !is_plain(plan, &settings) {
        return Err(fault(
            "a plan with modes, separate cuts or workers that differ",
            words!(
                "tied cuts on equal workers; {} counts activations instead",
                setting::ROOM
            ),
        ));
    }
    let layers = instance.network.layers.iter();
    let bytes: HashMap<&str, [u64; 2]> = layers
        .map(|layer| (layer.id.as_str(), [layer.stash_bytes, layer.parameter_bytes]))
        .collect();
    let mut resident = vec![0u64; chunks.devices()];
    for (chunk, stage) in chunks.chunks.iter_mut().zip(&plan.stages) {
        // Operators of an explicit backward graph have bytes of their own.
        let mut own: Vec<&str> = stage
            .forward
            .iter()
            .chain(&stage.backward)
            .map(String::as_str)
            .collect();
        own.sort_unstable();
        own.dedup();
        let sum = |which: usize| -> u64 {
            let own = own.iter().filter_map(|id| bytes.get(id));
            own.map(|bytes| bytes[which]).sum()
        };
        let (stash, parameters) = (sum(0), sum(1));
        let for_good = match plan.virtual_stages() {
            Some(_) => Some(base_bytes(&settings, instance, stage)),
            None => for_good(stage, stash, parameters),
        };
        let Some(for_good) = for_good else {
            return Err(fault(
                "a stage whose memory is less than its stashes in flight",
                "a plan of this instance",
            ));
        };
        (chunk.stash, chunk.kept) = (stash, stash);
        resident[chunk.device] += for_good;
    }
    for (device, room) in chunks.room.iter_mut().enumerate() {
        *room = settings
            .memory_limit
            .map(|limit| room_beside(device, resident[device], limit))
            .transpose()?;
    }
    Ok(())
}

/// Whether [`take_memory`] knows what the stages of a plan hold.
///
/// # Errors
///
/// A problem of the plan that is none of the instance.
pub fn knows_memory(plan: &Plan, instance: &Instance) -> Result<bool, InputError> {
    Ok(is_plain(plan, &Settings::resolve(instance, &plan.problem)?))
}

fn is_plain(plan: &Plan, settings: &Settings) -> bool {
    let has_modes = plan.stages.iter().any(|stage| stage.mode.is_some());
    settings.cuts == Cuts::Tied && !settings.heterogeneous && !has_modes
}

/// What weights and their like leave of a device's memory.
fn room_beside(device: usize, resident: u64, limit: u64) -> Result<u64, InputError> {
    let kind = || FaultKind::Conflict {
        found: format!("{resident} bytes that the stages of device {device} hold for good").into(),
        expected: format!("at most the {limit} bytes of its memory").into(),
        remedy: "take more devices, or a plan for fewer stages or more memory".into(),
    };
    limit.checked_sub(resident).ok_or_else(|| InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind())],
    })
}

/// What the layers of a chunk hold for good: its memory is that of a moment.
fn base_bytes(settings: &Settings, instance: &Instance, stage: &PlanStage) -> u64 {
    let names: HashSet<&String> = stage.forward.iter().chain(&stage.backward).collect();
    let layers = instance.network.layers.iter();
    let own = layers.filter(|layer| names.contains(&layer.id));
    own.map(|layer| settings.base_bytes(layer)).sum()
}

fn for_good(stage: &PlanStage, stash: u64, parameters: u64) -> Option<u64> {
    let in_flight = stage.in_flight.unwrap_or(0).checked_mul(stash)?;
    let versions = stage.weight_versions.unwrap_or(1).saturating_sub(1);
    stage
        .memory_bytes
        .checked_sub(in_flight)?
        .checked_sub(versions.checked_mul(parameters)?)
}

fn fault(found: &str, expected: impl Into<Words>) -> InputError {
    let kind = FaultKind::Unsupported {
        found: found.into(),
        expected: expected.into(),
    };
    InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    }
}
