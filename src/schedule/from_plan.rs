//! The chunks of a plan: its stages, placed on devices.

use super::{Chunks, Moves};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::{Mode, WorkerMode};
use crate::model::setting;
use crate::model::words::{Setting, words};
use crate::problem::pipeline::chunks_of_pipeline;
use crate::problem::plan::{Plan, PlanStage};
use crate::schedule::simulate::{Pipeline, StageTimes};

/// The chunks of a plan: stage by stage a chunk, each with a stash of 1 a micro-batch.
///
/// Where transfers block, a stage is busy with them, as in [`crate::schedule::simulate`]; where they overlap, they are delays between stages,
/// and links are never what everything waits for. Between stages of one device nothing is moved, and the transfers of neighbours drop out. A plan
/// with virtual stages says itself how they lie, and has paid for none of these transfers.
///
/// # Errors
///
/// A plan without stages or for inference; workers that run both phases at once; replicas, which take turns; devices that do not
/// share its stages evenly; other devices or another placement than those of its virtual stages; and fewer devices than stages where tensors skip
/// a stage, since the plan does not say where they go ([`laid_on`](super::laid_on) does).
pub fn chunks_of_plan(plan: &Plan, moves: &Moves) -> Result<Chunks, InputError> {
    if !plan.problem.mode.is_none_or(Mode::trains) {
        return Err(unsupported("a plan for inference, where every order is the same"));
    }
    if plan.replicas_of_rows() > 1 {
        return Err(unsupported("stages of several replicas, which take turns"));
    }
    chunks_that_run(plan, moves)
}

/// The same of plans for inference too, whose chunks have no backward passes: orders of forward passes alone are for them; and of plans with
/// virtual stages of several replicas, whose chunks are those of one replica and run its part of the micro-batches.
///
/// # Errors
///
/// Those of [`chunks_of_plan`], but for inference.
pub fn chunks_that_run(plan: &Plan, moves: &Moves) -> Result<Chunks, InputError> {
    let pipeline = Pipeline::from_plan(plan)?;
    refuse(plan)?;
    let stages = pipeline.stages.len();
    let chunked = plan.virtual_stages().and(plan.problem.stages);
    refuse_other_devices(plan, moves, chunked)?;
    let devices = moves.devices.or(chunked).unwrap_or(stages);
    if devices == 0 || !stages.is_multiple_of(devices) {
        return Err(InputError::option(
            setting::DEVICES,
            FaultKind::Contradiction {
                found: format!("{devices} devices for a plan of {stages} stages").into(),
                expected: "as many stages on every device".into(),
            },
        ));
    }
    if chunked.is_none() && devices < stages && skips(&pipeline) {
        return Err(InputError::option(
            setting::DEVICES,
            FaultKind::Conflict {
                found: format!("{devices} for {stages} stages with tensors that skip some").into(),
                expected: "where these go, which a plan does not say".into(),
                remedy: words!("give {} of the plan", setting::INSTANCE),
            },
        ));
    }
    let moves = Moves {
        devices: Some(devices),
        ..*moves
    };
    let chunks = chunks_of_pipeline(&pipeline, &moves, chunked.is_none());
    Ok(Chunks {
        may_split: chunks.may_split || plan.says_weights(),
        ..chunks
    })
}

/// Whether some stage sends what the next one does not receive, or receives what the one before does not send.
fn skips(pipeline: &Pipeline) -> bool {
    let differs = |pair: &[StageTimes]| {
        let [before, after] = [&pair[0], &pair[1]];
        before.forward.out_ns != after.forward.in_ns || after.backward.out_ns != before.backward.in_ns
    };
    pipeline.stages.windows(2).any(differs)
}

/// Refuses to lay the virtual stages of a plan elsewhere than it says.
fn refuse_other_devices(plan: &Plan, moves: &Moves, chunked: Option<usize>) -> Result<(), InputError> {
    let (Some(own), Some(placement)) = (chunked, plan.problem.placement) else {
        return Ok(());
    };
    let contradiction = |at: Setting, found: String, expected: String| {
        Err(InputError::option(
            at,
            FaultKind::Contradiction {
                found: found.into(),
                expected: expected.into(),
            },
        ))
    };
    match moves.devices {
        Some(devices) if devices != own => contradiction(
            setting::DEVICES,
            format!("{devices} for a plan with virtual stages"),
            format!("{own}, as in the plan"),
        ),
        _ if moves.placement != placement => contradiction(
            setting::PLACEMENT,
            format!("`{}` for a plan with virtual stages", moves.placement),
            format!("`{placement}`, as in the plan"),
        ),
        _ => Ok(()),
    }
}

/// The first stage, from 1, with a link that is busier than any device is for a micro-batch: schedules take transfers for delays, and
/// where links are what everything waits for they promise too much.
///
/// # Errors
///
/// Those of [`Pipeline::from_plan`].
pub fn busy_link(plan: &Plan, chunks: &Chunks) -> Result<Option<usize>, InputError> {
    let pipeline = Pipeline::from_plan(plan)?;
    let busiest_ns = chunks.least_period_ns();
    let is_busy = |times: &StageTimes| {
        let [forward, backward] = [&times.forward, &times.backward];
        let links = [forward.in_ns + backward.in_ns, forward.out_ns + backward.out_ns];
        pipeline.has_links && links.into_iter().any(|link_ns| link_ns > busiest_ns)
    };
    Ok(pipeline.stages.iter().position(is_busy).map(|stage| stage + 1))
}

fn refuse(plan: &Plan) -> Result<(), InputError> {
    // Where all have virtual stages, the replicas run side by side.
    let is_replicated = |stage: &PlanStage| stage.replicas() != plan.replicas_of_rows();
    let found = if plan.problem.worker == Some(WorkerMode::Concurrent) {
        "workers that run both phases at once"
    } else if plan.stages.iter().any(is_replicated) {
        "stages of several replicas, which take turns"
    } else {
        return Ok(());
    };
    Err(unsupported(found))
}

fn unsupported(found: &str) -> InputError {
    let kind = FaultKind::Unsupported {
        found: found.into(),
        expected: "a plan for training whose stages do one thing at a time".into(),
    };
    InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    }
}
