//! The time of an iteration where no formula tells it: that of a simulated run.

use super::allocation::{Allocation, StageLoad};
use super::{PhaseCost, StageCost, stage_costs, without_empty_stages};
use crate::problem::pipeline::schedule::InFlight;
use crate::problem::pipeline::{self, PhaseTimes, Pipeline, StageTimes};
use crate::problem::{Assignment, Problem};

/// The time that an iteration of so many micro-batches of an assignment takes, in ns, on single devices.
///
/// The schedule's own number of micro-batches is in flight, as [`mod@crate::schedule::simulate`] runs the plan.
pub fn iteration_ns(problem: &Problem, assignment: &Assignment, micro_batches: u64) -> u64 {
    let (assignment, used) = without_empty_stages(assignment);
    let mut costs = stage_costs(problem, &assignment);
    costs.truncate(used);
    run_ns(problem, (&assignment, &[]), &costs, micro_batches)
}

/// The same on workers that differ, whose stages are known to cost so much.
pub(super) fn of_workers_ns(problem: &Problem, allocation: &Allocation, loads: &[StageLoad]) -> u64 {
    let costs: Vec<StageCost> = loads.iter().map(|load| load.cost).collect();
    let plan = (&allocation.assignment, &allocation.choices[..]);
    run_ns(problem, plan, &costs, problem.settings.run_micro_batches())
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

/// The time of a run of stages that cost so much, none of them empty.
fn run_ns(
    problem: &Problem,
    (assignment, choices): (&Assignment, &[usize]),
    costs: &[StageCost],
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
    let pipeline = Pipeline::new(settings, stages.collect());
    pipeline::iteration_ns(&pipeline, settings.schedule, InFlight::Standard, micro_batches)
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
