//! `simulate` of plans with virtual stages or an order of their own: that order, or the one of their schedule, run, under a trace and jitter if
//! these are asked for.

use crate::app::report;
use crate::exact::best_schedule::answer::Answer;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::problem::plan::Plan;
use crate::schedule::rules::Shape;
use crate::schedule::simulate::{ChunkTimes, Request, default_micro_batches};
use crate::schedule::{Chunks, Moves, Order, Placement, chunks_that_run};

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
    refuse_disturbed_replicas(plan, request)?;
    let moves = Moves {
        devices: None,
        placement: plan.problem.placement.unwrap_or(Placement::Loop),
        weight_share: None,
    };
    let mut chunks = chunks_that_run(plan, &moves)?;
    let micro_batches = args.micro_batches.or(plan.problem.micro_batches);
    let micro_batches = micro_batches.unwrap_or(default_micro_batches(chunks.devices()));
    // Replicas of all stages run side by side.
    let micro_batches = micro_batches.div_ceil(plan.replicas_of_rows() as u64);
    check_count(&chunks, micro_batches)?;
    let (name, order) = match own_order(args, plan, micro_batches)? {
        Some(order) => (OWN, order),
        None => of_rule(args, plan, &chunks, micro_batches)?,
    };
    if order.splits() && !plan.says_weights() {
        chunks.may_split = true;
        output::note("no layer says what gradients of weights take: they count as part of those of inputs");
    }
    let named = (name, &order);
    let (of, count) = (&plan.instance, micro_batches as usize);
    let answer = match request.trace.is_empty() && request.jitter.is_none() {
        true => Answer::of_order(of, &chunks, named, count),
        false => {
            let times = ChunkTimes::new(plan, request, micro_batches)?;
            Answer::of_disturbed_order(of, &chunks, named, count, &times)
        }
    };
    let answer = answer.map_err(|fault| match name == OWN {
        true => InputError::in_file(&args.plan, [Fault::new("order", fault.kind())]).into(),
        false => CliError::bad_plan(fault),
    })?;
    Ok(match format {
        SimulationFormat::Text => {
            let style = output::style(args.output.as_deref());
            report::schedule(&answer, &plan.times, &style)
        }
        SimulationFormat::Json => report::schedule_json(&answer),
        SimulationFormat::Svg => report::schedule_timeline(&answer),
        SimulationFormat::Csv => {
            report::schedule_csv(&answer).map_err(|error| CliError::Usage(error.to_string().into()))?
        }
    })
}

/// Refuses orders of too many operations before they are listed.
fn check_count(chunks: &Chunks, micro_batches: u64) -> Result<(), InputError> {
    /// As many as a simulation of stages has tasks.
    const MOST_OPERATIONS: u64 = 500_000;
    let kinds = 3 * chunks.len() as u64;
    match kinds.saturating_mul(micro_batches) > MOST_OPERATIONS {
        false => Ok(()),
        true => Err(InputError::option(
            "--micro-batches",
            FaultKind::BadNumber {
                found: micro_batches as f64,
                expected: "no more than 500000 operations in all, three for each chunk and micro-batch",
            },
        )),
    }
}

/// Whether a plan is run operation by operation: in the order of its chunks, or in its own where no other is asked for.
pub(super) fn runs_operations(args: &SimulateArgs, plan: &Plan) -> bool {
    plan.virtual_stages().is_some() || (plan.order.is_some() && args.schedule.is_none())
}

/// What the plan's own order is called.
const OWN: &str = "the plan's order";

/// The order that the plan says, if it says one and no other is asked for.
fn own_order(args: &SimulateArgs, plan: &Plan, micro_batches: u64) -> Result<Option<Order>, CliError> {
    let Some(own) = plan.order.as_ref().filter(|_| args.schedule.is_none()) else {
        return Ok(None);
    };
    let order = own
        .read()
        .map_err(|faults| InputError::in_file(&args.plan, in_order(faults)))?;
    if order.micro_batches() as u64 == micro_batches {
        return Ok(Some(order));
    }
    let kind = FaultKind::Contradiction {
        found: format!(
            "{micro_batches} for a plan with an order of {}",
            order.micro_batches()
        )
        .into(),
        expected: "as many, or the order of a schedule (`--schedule`)".into(),
    };
    Err(InputError::option("--micro-batches", kind).into())
}

/// Faults of the order's text, as those of the plan.
fn in_order(faults: Vec<Fault>) -> Vec<Fault> {
    let fault = |fault: Fault| Fault {
        at: format!("order, {}", fault.at).into(),
        ..fault
    };
    faults.into_iter().map(fault).collect()
}

/// The order of the rule that is asked for, or else of the plan's schedule, and its name.
fn of_rule(
    args: &SimulateArgs,
    plan: &Plan,
    chunks: &Chunks,
    micro_batches: u64,
) -> Result<(&'static str, Order), CliError> {
    let of_plan = || plan.problem.schedule.map(AskedOrder::Schedule);
    let asked = args.schedule.or_else(of_plan);
    let rule = match asked {
        Some(AskedOrder::Schedule(schedule)) => schedule.rule(),
        Some(AskedOrder::Rule(rule)) => Some(rule),
        None => None,
    };
    let shape = Shape::from_chunks(chunks, micro_batches as usize);
    let order = rule.and_then(|rule| Some((rule.name, rule.order(&shape?)?)));
    let order = order.map(|(name, order)| match chunks.trains {
        true => (name, order),
        false => (name, order.ahead()),
    });
    order.ok_or_else(|| no_rule(asked, micro_batches).into())
}

/// Refuses what the order of chunks decides.
fn refuse(args: &SimulateArgs) -> Result<(), CliError> {
    if args.in_flight.is_none() {
        return Ok(());
    }
    let kind = FaultKind::Contradiction {
        found: "`--in-flight` with a plan with virtual stages or an order of its own".into(),
        expected: "none: the order itself says how many micro-batches are in flight".into(),
    };
    Err(InputError::option("--in-flight", kind).into())
}

/// Refuses to disturb replicas that run side by side, of which one is run.
fn refuse_disturbed_replicas(plan: &Plan, request: &Request) -> Result<(), InputError> {
    let is_disturbed = !request.trace.is_empty() || request.jitter.is_some();
    if plan.replicas_of_rows() == 1 || !is_disturbed {
        return Ok(());
    }
    let kind = FaultKind::Unsupported {
        found: "a trace or jitter for virtual stages of several replicas".into(),
        expected: "none, or a plan of one replica: each would take another time".into(),
    };
    Err(InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    })
}

/// The fault of a schedule that is not for such chunks.
fn no_rule(asked: Option<AskedOrder>, micro_batches: u64) -> InputError {
    let schedule = match asked {
        Some(AskedOrder::Schedule(schedule)) => schedule.to_string(),
        Some(AskedOrder::Rule(rule)) => rule.name.into(),
        None => "none".into(),
    };
    let kind = FaultKind::Contradiction {
        found: format!("`{schedule}` for its virtual stages and {micro_batches} micro-batches").into(),
        expected: "a schedule of such chunks; of `interleaved`, a multiple of the devices in micro-batches"
            .into(),
    };
    InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    }
}
