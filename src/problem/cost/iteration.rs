//! The time of an iteration where no formula tells it: that of a simulated run.

use super::{PhaseCost, stage_costs, stage_memory_bytes, without_empty_stages};
use crate::model::options::Communication;
use crate::problem::pipeline::schedule::InFlight;
use crate::problem::pipeline::{self, Channels, PhaseTimes, Pipeline, StageTimes};
use crate::problem::{Assignment, Problem};

/// The time that an iteration of so many micro-batches of an assignment takes, in ns, on single devices.
///
/// As many micro-batches are in flight as hide overlapped transfers if all stages have memory for them, and the schedule's own number if
/// not: what [`mod@crate::schedule::simulate`] does with the plan.
pub fn iteration_ns(problem: &Problem, assignment: &Assignment, micro_batches: u64) -> u64 {
    let (assignment, used) = without_empty_stages(assignment);
    let settings = &problem.settings;
    let mut costs = stage_costs(problem, &assignment);
    costs.truncate(used);
    // Transfers that a worker waits for are parts of its tasks: it does not matter in which order.
    let times = |cost: PhaseCost| PhaseTimes {
        in_ns: cost.link_in_ns,
        work_ns: cost.work_ns + cost.communication_ns,
        out_ns: cost.link_out_ns,
    };
    let stage = |cost: &super::StageCost| StageTimes {
        forward: times(cost.forward),
        backward: times(cost.backward),
        weight_ns: 0,
        replicas: 1,
    };
    let pipeline = Pipeline {
        stages: costs.iter().map(stage).collect(),
        trains: settings.mode.trains(),
        channels: Channels::Shared,
        has_links: settings.communication.has_links(),
    };
    let in_flight = match settings.communication {
        Communication::Overlapped => in_flight(problem, &assignment, &pipeline, micro_batches),
        Communication::Blocking | Communication::Ignored => InFlight::Hiding,
    };
    pipeline::iteration_ns(&pipeline, settings.schedule, in_flight, micro_batches)
}

/// Whether all stages have memory for as many micro-batches as hide their transfers.
fn in_flight(
    problem: &Problem,
    assignment: &Assignment,
    pipeline: &Pipeline,
    micro_batches: u64,
) -> InFlight {
    let settings = &problem.settings;
    let Some(limit) = settings.memory_limit.filter(|_| settings.mode.trains()) else {
        return InFlight::Hiding;
    };
    let used = pipeline.stages.len();
    let mut stash = vec![0; used];
    for (item, &stage) in assignment.iter().enumerate() {
        stash[stage] += problem.items[item].stash_bytes;
    }
    let hiding = pipeline::hiding_in_flight(pipeline, settings.schedule, micro_batches);
    let held = stage_memory_bytes(problem, assignment, used);
    let fits = (0..used).all(|k| {
        let more = hiding[k].saturating_sub(settings.in_flight(used - k));
        held[k].saturating_add(more.saturating_mul(stash[k])) <= limit
    });
    match fits {
        true => InFlight::Hiding,
        false => InFlight::Standard,
    }
}
