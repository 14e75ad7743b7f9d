//! The chunks of a plan: its stages, placed on devices.

use super::{Chunk, Chunks, Placement};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::{Mode, WorkerMode};
use crate::model::setting;
use crate::model::words::{Setting, words};
use crate::problem::plan::{Plan, PlanStage};
use crate::schedule::simulate::{Pipeline, StageTimes};

/// How the stages of a plan become chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moves {
    /// Devices; as many as stages where nothing is said.
    pub devices: Option<usize>,
    /// How stages lie on them where there are fewer.
    pub placement: Placement,
    /// The gradients of weights, as a part of every backward pass; what the plan says of them where nothing is said, and whole backward
    /// passes where it says nothing either.
    pub weight_share: Option<f64>,
}

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

/// The chunks of a pipeline whose stages the devices share evenly: what [`chunks_of_plan`] says of a plan. `pays_within` says whether the
/// times of stages have transfers between stages that the moves lay on one device.
pub(crate) fn chunks_of_pipeline(pipeline: &Pipeline, moves: &Moves, pays_within: bool) -> Chunks {
    let stages = pipeline.stages.len();
    let devices = moves.devices.unwrap_or(stages);
    let device = |k: usize| moves.placement.device(k, devices);
    let chunk = |k: usize| {
        let times = &pipeline.stages[k];
        let next = pipeline.stages.get(k + 1);
        let [enters, leaves] = [k.checked_sub(1), (k + 1 < stages).then_some(k + 1)]
            .map(|other| other.is_some_and(|other| device(other) == device(k)));
        let before = k.checked_sub(1).map(|before| &pipeline.stages[before]);
        let within = [
            before
                .filter(|_| enters && pays_within)
                .map_or([0; 2], |before| link_ns(before, times)),
            next.filter(|_| leaves && pays_within)
                .map_or([0; 2], |next| link_ns(times, next)),
        ];
        let backward_ns = times.backward.work_ns;
        let weight_ns = moves.weight_share.map_or(times.weight_ns, |share| {
            (share * backward_ns as f64).round() as u64
        });
        let blocks = |in_ns: u64, out_ns: u64, saved_ns: u64| match pipeline.has_links {
            true => 0,
            false => in_ns + out_ns - saved_ns,
        };
        let [forward, backward] = [&times.forward, &times.backward];
        let saved = |phase: usize| within[0][phase] + within[1][phase];
        let sent = next.map_or(0, |next| forward.out_ns.max(next.forward.in_ns));
        let returned = before.map_or(0, |before| backward.out_ns.max(before.backward.in_ns));
        Chunk {
            device: device(k),
            forward_ns: forward.work_ns + blocks(forward.in_ns, forward.out_ns, saved(0)),
            input_ns: backward_ns - weight_ns + blocks(backward.in_ns, backward.out_ns, saved(1)),
            weight_ns,
            forward_transfer_ns: if pipeline.has_links && !leaves { sent } else { 0 },
            backward_transfer_ns: if pipeline.has_links && !enters {
                returned
            } else {
                0
            },
            stash: 1,
            kept: 1,
        }
    };
    Chunks {
        placement: moves.placement,
        chunks: (0..stages).map(chunk).collect(),
        room: vec![None; devices],
        may_split: moves.weight_share.is_some(),
    }
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

/// What each of two neighbours pays for what goes from one to the other, forwards and backwards.
fn link_ns(before: &StageTimes, after: &StageTimes) -> [u64; 2] {
    [
        before.forward.out_ns.min(after.forward.in_ns),
        after.backward.out_ns.min(before.backward.in_ns),
    ]
}

fn refuse(plan: &Plan) -> Result<(), InputError> {
    let is_replicated = |stage: &PlanStage| stage.replicas() > 1;
    let found = if !plan.problem.mode.is_none_or(Mode::trains) {
        "a plan for inference, where every order is the same"
    } else if plan.problem.worker == Some(WorkerMode::Concurrent) {
        "workers that run both phases at once"
    } else if plan.stages.iter().any(is_replicated) {
        "stages of several replicas, which take turns"
    } else {
        return Ok(());
    };
    let kind = FaultKind::Unsupported {
        found: found.into(),
        expected: "a plan for training whose stages do one thing at a time".into(),
    };
    Err(InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    })
}
