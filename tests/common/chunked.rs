//! Random problems with virtual stages.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::options::{Cuts, Objective, Placement, Schedule};
use stagecut::schedule::{Chunk, Chunks, Placement as ChunkPlacement};
use stagecut::spec::InstanceSpec;

use super::draw::{Scope, draw};

/// Chunks of one kind whose passes take so long, on so many devices with so many each.
pub fn even_chunks(devices: usize, each: usize, placement: ChunkPlacement, [f, b, w]: [u64; 3]) -> Chunks {
    let chunk = Chunk {
        forward_ns: f,
        input_ns: b,
        weight_ns: w,
        stash: 1,
        kept: 1,
        ..Chunk::default()
    };
    Chunks::even(devices, each, placement, chunk)
}

/// A problem with any options that go with virtual stages: transfers of either kind, memory, both placements, every schedule, skip tensors,
/// ties, explicit backward graphs, inference.
pub fn virtual_spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [[2, 4], [3, 6], [4, 7]][seed as usize % 3],
        chain: seed.is_multiple_of(4),
        mixed: false,
        cuts: Some(Cuts::Tied),
    };
    let mut spec = draw(format!("virtual-{seed}"), seed, scope);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let stages = rng.random_range(1..=3);
    let virtual_stages = rng.random_range(2..=if stages == 3 { 2 } else { 3 });
    let placement = [Placement::Loop, Placement::V][rng.random_range(0..2)];
    let schedules: &[Option<Schedule>] = match (placement, virtual_stages) {
        (Placement::V, 2) => &[
            None,
            Some(Schedule::ZbV),
            Some(Schedule::VHalf),
            Some(Schedule::VMin),
            Some(Schedule::Gpipe),
        ],
        (Placement::V, _) => &[Some(Schedule::Gpipe)],
        _ => &[None, Some(Schedule::Interleaved), Some(Schedule::Gpipe)],
    };
    let schedule = schedules[rng.random_range(0..schedules.len())];
    let pipeline = &mut spec.pipeline;
    pipeline.stages = Some(stages);
    pipeline.virtual_stages = Some(virtual_stages.into());
    pipeline.placement = Some(placement);
    pipeline.schedule = schedule;
    pipeline.objective = Some(Objective::Period);
    let needs_count = schedule == Some(Schedule::Gpipe);
    pipeline.micro_batches = match needs_count || rng.random_bool(0.5) {
        true => Some((stages * rng.random_range(1..=4)) as u64),
        false => None,
    };
    spec
}
