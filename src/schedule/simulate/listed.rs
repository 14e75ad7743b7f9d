//! Orders of operations that are listed, such as published rules write them, in place of a schedule's own.

use super::outcome::OrderName;
use super::{Request, Simulated, Simulation, check_size, disturbed};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::schedule::{Operation, Order};
use crate::model::setting;
use crate::model::words::words;
use crate::problem::pipeline::{Channels, Phase, Pipeline, Streams, Turns};
use crate::problem::plan::{Plan, PlanStage};

/// An order of operations and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What reports call it.
    pub name: &'static str,
    /// For every stage, which is a chunk and a device, its forward passes and the two gradients of its backward passes, one after
    /// the other.
    pub order: Order,
}

/// Simulates a plan whose stages work in an order that is listed.
pub(super) fn simulate(
    plan: &Plan,
    pipeline: &Pipeline,
    listed: &Listed,
    request: &Request,
) -> Result<Simulation, InputError> {
    let Listed { name, order } = listed;
    refuse(plan, pipeline, name, request)?;
    let micro_batches = super::micro_batches(plan, request.micro_batches);
    let streams = Streams::split(pipeline);
    check_size(&streams, micro_batches, request)?;
    let lists = streams.listed(order);
    let turns = Turns::Listed(&lists);
    let run = disturbed(plan, &streams, &turns, micro_batches, request);
    let Some(run) = run.filter(|_| is_each_once(order, plan.stages.len(), micro_batches as usize)) else {
        let kind = FaultKind::Contradiction {
            found: format!("`{name}`, whose operations are missing, repeated, or wait for each other").into(),
            expected: format!(
                "for each of {micro_batches} micro-batches one forward pass and two gradients on every stage"
            )
            .into(),
        };
        return Err(InputError::option(setting::SCHEDULE, kind));
    };
    Ok(Simulation::new(&Simulated {
        plan,
        pipeline,
        order: OrderName::Rule(name),
        micro_batches,
        streams: &streams,
        leads: None,
        request,
        run: &run,
    }))
}

/// Whether every operation of the stages is listed once, on its own stage.
fn is_each_once(order: &Order, stages: usize, micro_batches: usize) -> bool {
    let is_whole = |(k, list): (usize, &Vec<Operation>)| {
        let mut own = list.clone();
        own.sort_unstable();
        own.dedup();
        let belongs = |operation: &Operation| {
            operation.chunk == k
                && operation.phase != Phase::Backward
                && operation.micro_batch < micro_batches
        };
        own.len() == list.len() && own.len() == 3 * micro_batches && own.iter().all(belongs)
    };
    order.devices.len() == stages && order.devices.iter().enumerate().all(is_whole)
}

/// Refuses what has no such order.
fn refuse(plan: &Plan, pipeline: &Pipeline, name: &str, request: &Request) -> Result<(), InputError> {
    let is_replicated = |stage: &PlanStage| stage.replicas() > 1;
    let found = if !pipeline.trains {
        "a plan for inference, where every order is the same"
    } else if pipeline.channels == Channels::Split {
        "workers that run both phases at once"
    } else if plan.stages.iter().any(is_replicated) {
        "stages of several replicas, which take turns"
    } else if request.in_flight.is_some() {
        let kind = FaultKind::Contradiction {
            found: words!("{} with {}", setting::IN_FLIGHT, setting::SCHEDULE.given(name)),
            expected: "one of the two: the order itself says how many micro-batches are in flight".into(),
        };
        return Err(InputError::option(setting::IN_FLIGHT, kind));
    } else if !plan.says_weights() {
        let kind = FaultKind::Missing {
            what: "field `weight_ms` of any stage".into(),
            expected: format!("the times of gradients of weights, which `{name}` runs apart from the rest")
                .into(),
            remedy: words!(
                "say `weight_ms` of layers, as `tools/profile_torch.py` measures it, and solve again; or ask `stagecut schedule` with {}",
                setting::WEIGHT_SHARE
            ),
        };
        return Err(fault(kind));
    } else {
        return Ok(());
    };
    Err(fault(FaultKind::Unsupported {
        found: found.into(),
        expected: format!("a plan for training whose stages do one thing at a time, as `{name}` has them")
            .into(),
    }))
}

fn fault(kind: FaultKind) -> InputError {
    InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    }
}
