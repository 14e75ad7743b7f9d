//! Chunks: the stages of a pipeline, placed on devices.

use super::{Pipeline, StageTimes};
use crate::model::schedule::{Chunk, Chunks, Placement};

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

/// The chunks of a pipeline whose stages the devices share evenly: what `schedule::chunks_of_plan` says of a plan. `pays_within` says whether the
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
            once_ns: times.once_ns,
            stash: 1,
            kept: 1,
        }
    };
    Chunks {
        placement: moves.placement,
        chunks: (0..stages).map(chunk).collect(),
        room: vec![None; devices],
        may_split: moves.weight_share.is_some(),
        trains: pipeline.trains,
    }
}

/// The chunks of stages that have paid for nothing that is not moved between so many devices.
pub(crate) fn chunks_as_laid(pipeline: &Pipeline, devices: usize, placement: Placement) -> Vec<Chunk> {
    let moves = Moves {
        devices: Some(devices),
        placement,
        weight_share: None,
    };
    chunks_of_pipeline(pipeline, &moves, false).chunks
}

/// What each of two neighbours pays for what goes from one to the other, forwards and backwards.
fn link_ns(before: &StageTimes, after: &StageTimes) -> [u64; 2] {
    [
        before.forward.out_ns.min(after.forward.in_ns),
        after.backward.out_ns.min(before.backward.in_ns),
    ]
}
