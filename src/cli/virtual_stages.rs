//! `simulate` of plans with virtual stages: the order of their schedule, run, under a trace and jitter if these are asked for.

use crate::best_schedule::answer::Answer;
use crate::fault::{Fault, FaultKind, InputError};
use crate::plan::Plan;
use crate::report;
use crate::schedules::rules::Shape;
use crate::schedules::{Moves, Placement, chunks_of_plan};
use crate::simulate::{ChunkTimes, Request, default_micro_batches};

use super::args::{AskedOrder, SimulateArgs, SimulationFormat};
use super::{CliError, output};

/// What becomes of the plan's chunks in the order of its schedule, in a format.
pub(super) fn simulated(
    args: &SimulateArgs,
    plan: &Plan,
    request: &Request,
    format: SimulationFormat,
) -> Result<String, CliError> {
    refuse(args)?;
    let moves = Moves {
        devices: None,
        placement: plan.problem.placement.unwrap_or(Placement::Loop),
        weight_share: None,
    };
    let mut chunks = chunks_of_plan(plan, &moves)?;
    let micro_batches = args.micro_batches.or(plan.problem.micro_batches);
    let micro_batches = micro_batches.unwrap_or(default_micro_batches(chunks.devices()));
    let rule = match asked(args, plan) {
        Some(AskedOrder::Schedule(schedule)) => schedule.rule(),
        Some(AskedOrder::Rule(rule)) => Some(rule),
        None => None,
    };
    let shape = Shape::of(&chunks, micro_batches as usize);
    let order = rule.and_then(|rule| Some((rule, rule.order(&shape?)?)));
    let Some((rule, order)) = order else {
        return Err(no_rule(args, plan, micro_batches).into());
    };
    if order.splits() && !plan.says_weights() {
        chunks.may_split = true;
        output::note("no layer says what gradients of weights take: they count as part of those of inputs");
    }
    let named = (rule.name, &order);
    let (of, count) = (&plan.instance, micro_batches as usize);
    let answer = match request.trace.is_empty() && request.jitter.is_none() {
        true => Answer::of_order(of, &chunks, named, count),
        false => {
            let times = ChunkTimes::new(plan, request, micro_batches)?;
            Answer::of_disturbed_order(of, &chunks, named, count, &times)
        }
    };
    let answer = answer.map_err(|fault| CliError::BadPlan(fault.to_string()))?;
    Ok(match format {
        SimulationFormat::Text => report::schedule(&answer, &output::style(args.output.as_deref())),
        SimulationFormat::Json => report::schedule_json(&answer),
        SimulationFormat::Svg => report::schedule_timeline(&answer),
        SimulationFormat::Csv => {
            report::schedule_csv(&answer).map_err(|error| CliError::Usage(error.to_string()))?
        }
    })
}

/// The order that is asked for, or else that of the plan's schedule.
fn asked(args: &SimulateArgs, plan: &Plan) -> Option<AskedOrder> {
    let of_plan = || plan.problem.schedule.map(AskedOrder::Schedule);
    args.schedule.or_else(of_plan)
}

/// Refuses what the order of chunks decides.
fn refuse(args: &SimulateArgs) -> Result<(), CliError> {
    if args.in_flight.is_none() {
        return Ok(());
    }
    let kind = FaultKind::Contradiction {
        found: "`--in-flight` with a plan with virtual stages".into(),
        expected: "none: the order of its schedule itself says how many micro-batches are in flight".into(),
    };
    Err(InputError::option("--in-flight", kind).into())
}

/// The fault of a schedule that is not for such chunks.
fn no_rule(args: &SimulateArgs, plan: &Plan, micro_batches: u64) -> InputError {
    let schedule = match asked(args, plan) {
        Some(AskedOrder::Schedule(schedule)) => schedule.to_string(),
        Some(AskedOrder::Rule(rule)) => rule.name.into(),
        None => "none".into(),
    };
    let kind = FaultKind::Contradiction {
        found: format!("`{schedule}` for its virtual stages and {micro_batches} micro-batches"),
        expected: "a schedule of such chunks; of `interleaved`, a multiple of the devices in micro-batches"
            .into(),
    };
    InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    }
}
