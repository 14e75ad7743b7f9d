//! The time of an iteration where no formula tells it: that of a simulated run.

use super::allocation::{Allocation, StageLoad};
use super::{PhaseCost, StageCost, stage_costs, stage_memory_bytes, without_empty_stages};
use crate::model::options::{Communication, WorkerMode};
use crate::problem::pipeline::schedule::InFlight;
use crate::problem::pipeline::{self, Channels, PhaseTimes, Pipeline, StageTimes};
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// The time that an iteration of so many micro-batches of an assignment takes, in ns, on single devices.
///
/// As many micro-batches are in flight as hide overlapped transfers if all stages have memory for them, and the schedule's own number if
/// not: what [`mod@crate::schedule::simulate`] does with the plan.
pub fn iteration_ns(problem: &Problem, assignment: &Assignment, micro_batches: u64) -> u64 {
    let (assignment, used) = without_empty_stages(assignment);
    let mut costs = stage_costs(problem, &assignment);
    costs.truncate(used);
    let limits = vec![problem.settings.memory_limit.unwrap_or(u64::MAX); used];
    run_ns(problem, (&assignment, &[]), &costs, &limits, micro_batches)
}

/// The same on workers that differ, whose stages are known to cost so much.
pub(super) fn of_workers_ns(
    problem: &Problem,
    workers: &Workers,
    allocation: &Allocation,
    loads: &[StageLoad],
) -> u64 {
    let settings = &problem.settings;
    let costs: Vec<StageCost> = loads.iter().map(|load| load.cost).collect();
    let choices = allocation.choices.iter();
    let limits = choices.map(|&choice| workers.memory_bytes(settings, &workers.choices[choice]));
    let limits: Vec<u64> = limits.collect();
    let micro_batches = settings.run_micro_batches();
    let plan = (&allocation.assignment, &allocation.choices[..]);
    run_ns(problem, plan, &costs, &limits, micro_batches)
}

/// What sums over copies of tables take in every stage at the end of an iteration, in ns: nothing on devices that do not pay for transfers.
///
/// * `choices`: what each stage runs on, where workers differ.
pub(crate) fn sums_ns(
    problem: &Problem,
    (assignment, choices): (&Assignment, &[usize]),
    stages: usize,
) -> Vec<u64> {
    let mut sums = problem.sums_ns(assignment, stages, |stage| stage);
    if let Some(workers) = &problem.workers {
        let free = choices
            .iter()
            .map(|&choice| !workers.pays(&workers.choices[choice]));
        let free = sums.iter_mut().zip(free).filter(|(_, is_free)| *is_free);
        free.for_each(|(sum, _)| *sum = 0);
    }
    sums
}

/// The time of a run of stages that cost so much, on devices of so much memory, none of them empty.
fn run_ns(
    problem: &Problem,
    (assignment, choices): (&Assignment, &[usize]),
    costs: &[StageCost],
    limits: &[u64],
    micro_batches: u64,
) -> u64 {
    if let Some(reads) = problem.reads() {
        return reads.run_ns(problem, assignment, choices);
    }
    let settings = &problem.settings;
    let sums = sums_ns(problem, (assignment, choices), costs.len());
    let stages = costs.iter().zip(sums).map(|(cost, once_ns)| StageTimes {
        once_ns,
        ..stage_times(cost)
    });
    let pipeline = Pipeline {
        stages: stages.collect(),
        trains: settings.mode.trains(),
        channels: match settings.worker {
            WorkerMode::Sequential => Channels::Shared,
            WorkerMode::Concurrent => Channels::Split,
        },
        has_links: settings.communication.has_links(),
    };
    let in_flight = match settings.communication {
        // Nobody else is in flight with one that is alone.
        Communication::Overlapped if micro_batches > 1 => {
            in_flight(problem, assignment, &pipeline, limits, micro_batches)
        }
        Communication::Overlapped | Communication::Blocking | Communication::Ignored => InFlight::Hiding,
    };
    pipeline::iteration_ns(&pipeline, settings.schedule, in_flight, micro_batches)
}

/// What a stage does for a micro-batch as a simulation has it: transfers that a worker waits for are parts of its tasks, in whatever order.
pub(crate) fn stage_times(cost: &StageCost) -> StageTimes {
    let times = |cost: PhaseCost| PhaseTimes {
        in_ns: cost.link_in_ns,
        work_ns: cost.work_ns + cost.communication_ns,
        out_ns: cost.link_out_ns,
    };
    StageTimes {
        forward: times(cost.forward),
        backward: times(cost.backward),
        weight_ns: 0,
        replicas: 1,
        once_ns: 0,
    }
}

/// Whether all stages have memory for as many micro-batches as hide their transfers.
fn in_flight(
    problem: &Problem,
    assignment: &Assignment,
    pipeline: &Pipeline,
    limits: &[u64],
    micro_batches: u64,
) -> InFlight {
    let settings = &problem.settings;
    if !settings.mode.trains() || limits.iter().all(|&limit| limit == u64::MAX) {
        return InFlight::Hiding;
    }
    let used = pipeline.stages.len();
    let hiding = pipeline::hiding_in_flight(pipeline, settings.schedule, micro_batches);
    let mut held = stage_memory_bytes(problem, assignment, used);
    let more_between = |forward: usize, backward: usize| {
        let first = forward.min(backward);
        match hiding[first] > settings.in_flight(used - first) {
            true => hiding[first] - settings.in_flight_between(used - forward, used - backward),
            false => 0,
        }
    };
    for (item, &stage) in problem.items.iter().zip(assignment) {
        let more = more_between(stage, stage);
        held[stage] = held[stage].saturating_add(more.saturating_mul(item.stash_bytes));
    }
    // A layer's forward pass may lie on a stage that has more in flight.
    for pair in &problem.pairs {
        let (forward, backward) = (assignment[pair.forward], assignment[pair.backward]);
        let more = more_between(forward, backward) as i64 - more_between(backward, backward) as i64;
        held[backward] = held[backward].saturating_add_signed(more.saturating_mul(pair.stash_bytes as i64));
    }
    let fits = held.iter().zip(limits).all(|(bytes, limit)| bytes <= limit);
    match fits {
        true => InFlight::Hiding,
        false => InFlight::Standard,
    }
}
