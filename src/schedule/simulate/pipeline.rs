//! The times of a plan in whole nanoseconds, as the simulator runs them.

use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::{Communication, Mode, Schedule, WorkerMode};
use crate::model::units::ms_to_ns;
use crate::problem::pipeline::{Channels, PhaseTimes, Pipeline, StageTimes};
use crate::problem::plan::{Moved, Plan, PlanStage, Transfers};

impl Pipeline {
    /// Reads the times of a plan: those of one replica, where a plan says what is left of them for each of several.
    ///
    /// # Errors
    ///
    /// A plan without stages, and every time that is none or is missing.
    pub fn from_plan(plan: &Plan) -> Result<Self, InputError> {
        let mut faults = Vec::new();
        if plan.stages.is_empty() {
            let kind = FaultKind::Missing {
                what: "stages".into(),
                expected: format!("a plan to simulate, but its status is `{}`", plan.status).into(),
                remedy: "solve again with more time, stages or memory".into(),
            };
            faults.push(Fault::new("stages", kind));
        }
        let stages = plan.stages.iter().enumerate();
        let mut stages: Vec<StageTimes> = stages
            .map(|(k, stage)| stage_times(k, stage, &mut faults))
            .collect();
        if let Some(share) = plan.weight_share() {
            if !(0.0..=1.0).contains(&share) {
                let kind = FaultKind::BadNumber {
                    found: share,
                    expected: "a part from 0 to 1",
                };
                faults.push(Fault::new("order.weight_share", kind));
            }
            for times in &mut stages {
                times.weight_ns = (share * times.backward.work_ns as f64).round() as u64;
            }
        }
        if !faults.is_empty() {
            return Err(InputError { path: None, faults });
        }
        // Where nothing is flushed, replicas exchange gradients behind every backward pass.
        let flushes = plan.problem.schedule.is_none_or(Schedule::flushes);
        for times in stages.iter_mut().filter(|_| !flushes) {
            times.backward.work_ns += std::mem::take(&mut times.once_ns);
        }
        let is_split = plan.problem.worker == Some(WorkerMode::Concurrent);
        Ok(Self {
            stages,
            trains: plan.problem.mode.is_none_or(Mode::trains),
            channels: if is_split {
                Channels::Split
            } else {
                Channels::Shared
            },
            has_links: plan.problem.communication.is_some_and(Communication::has_links),
        })
    }
}

fn stage_times(k: usize, stage: &PlanStage, faults: &mut Vec<Fault>) -> StageTimes {
    let is_told = stage.transfers.is_some() || stage.synchronization_ms.is_some();
    if stage.communication_ms > 0.0 && !is_told {
        let kind = FaultKind::Missing {
            what: "field `transfers`".into(),
            expected: "one, since `communication_ms` is above 0".into(),
            remedy: "solve again: plans of earlier versions do not say when transfers take place".into(),
        };
        faults.push(Fault::new(format!("stages[{k}]"), kind));
    }
    let replicas = stage.replicas();
    if replicas > 1 && (stage.devices.len() < replicas || !stage.devices.len().is_multiple_of(replicas)) {
        let kind = FaultKind::Contradiction {
            found: format!("{replicas} replicas on {} devices", stage.devices.len()).into(),
            expected: "as many devices for each".into(),
        };
        faults.push(Fault::new(format!("stages[{k}].mode"), kind));
    }
    let mut whole = |field: &str, ms: f64| {
        ms_to_ns(ms).unwrap_or_else(|| {
            let kind = FaultKind::BadNumber {
                found: ms,
                expected: "a time in ms from 0",
            };
            faults.push(Fault::new(format!("stages[{k}].{field}"), kind));
            0
        })
    };
    for &ms in &stage.chunks_ms {
        whole("chunks_ms", ms);
    }
    // A link is there if any chunk moves, whatever the micro-batch does.
    let mut longest = Moved::default();
    for moved in &stage.chunk_transfers {
        whole("chunk_transfers", moved.in_ms);
        whole("chunk_transfers", moved.out_ms);
        longest.in_ms = longest.in_ms.max(moved.in_ms);
        longest.out_ms = longest.out_ms.max(moved.out_ms);
    }
    let once_ns = whole("synchronization_ms", stage.synchronization_ms.unwrap_or(0.0));
    let mut ns = |field: &str, ms: f64| whole(field, ms * replicas as f64);
    let Transfers {
        mut forward,
        backward,
    } = stage.transfers.unwrap_or_default();
    if !stage.chunk_transfers.is_empty() {
        forward = longest;
    }
    let mut phase = |name: &str, work_ms: f64, moved: Moved| PhaseTimes {
        in_ns: ns(&format!("transfers.{name}.in_ms"), moved.in_ms),
        work_ns: ns(&format!("{name}_ms"), work_ms),
        out_ns: ns(&format!("transfers.{name}.out_ms"), moved.out_ms),
    };
    let times = StageTimes {
        forward: phase("forward", stage.forward_ms, forward),
        backward: phase("backward", stage.backward_ms, backward),
        weight_ns: ns("weight_ms", stage.weight_ms.unwrap_or(0.0)),
        replicas: replicas as u64,
        once_ns,
    };
    if times.weight_ns > times.backward.work_ns {
        let kind = FaultKind::Contradiction {
            found: "more than `backward_ms`".into(),
            expected: "a part of it: `backward_ms` includes the gradients of weights".into(),
        };
        faults.push(Fault::new(format!("stages[{k}].weight_ms"), kind));
    }
    times
}
