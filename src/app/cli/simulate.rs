//! `simulate`.

use crate::app::report;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::problem::plan::{self, Plan};
use crate::schedule::rules::{Rule, Shape};
use crate::schedule::simulate::{self, Jitter, Listed, Request, Trace};
use crate::schedule::{Moves, OrderFault, Placement, chunks_of_plan, run, take_memory};

use super::args::{AskedOrder, SimulateArgs, SimulationFormat};
use super::plans::accept;
use super::{CliError, Ending, output, virtual_stages};

/// Runs a plan and reports what came of it.
pub(super) fn simulate(args: &SimulateArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let format = output::format_of(path, args.format, SimulationFormat::Text)?;
    let plan = plan::read(&args.plan)?;
    let (order, rule) = match args.schedule {
        Some(AskedOrder::Schedule(schedule)) => (Some(schedule), None),
        Some(AskedOrder::Rule(rule)) => (None, Some(rule)),
        None => (None, None),
    };
    let listed = rule
        .map(|rule| listed(rule, &plan, args.micro_batches))
        .transpose()?;
    let mut instance = None;
    if let Some(path) = &args.instance {
        let read = plan.read_instance(path, args.cluster.as_deref())?;
        accept(&read, path, &plan, &args.plan)?;
        instance = Some(read);
    }
    let trace = match &args.trace {
        Some(trace) => Trace::read(trace, &plan)?,
        None => Trace::default(),
    };
    let request = Request {
        micro_batches: args.micro_batches,
        order,
        listed,
        in_flight: args.in_flight,
        trace,
        jitter: args.jitter.map(|fraction| Jitter {
            fraction,
            seed: args.seed,
        }),
    };
    if virtual_stages::runs_operations(args, &plan) {
        let text = virtual_stages::simulated(args, &plan, &request, format)?;
        output::write(&text, path)?;
        return Ok(Ending::Done);
    }
    let simulation = simulate::simulate(&plan, &request)?;
    if let (Some(listed), Some(instance)) = (&request.listed, &instance) {
        has_memory(&plan, instance, listed, simulation.micro_batches)?;
    }
    let text = match format {
        SimulationFormat::Text => report::simulation(&simulation, &output::style(path)),
        SimulationFormat::Json => report::simulation_json(&simulation),
        SimulationFormat::Csv => {
            report::simulation_csv(&simulation).map_err(|error| CliError::Usage(error.to_string().into()))?
        }
        SimulationFormat::Svg => report::timeline(&simulation),
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// The order of a rule for the stages of a plan.
fn listed(rule: &'static Rule, plan: &Plan, asked: Option<u64>) -> Result<Listed, CliError> {
    /// Operations of an order that are listed: as many as the simulation runs at most.
    const MOST_OPERATIONS: u64 = 500_000;
    let micro_batches = simulate::micro_batches(plan, asked);
    let stages = plan.stages.len();
    // Beyond, the simulation refuses, and needs no list for it.
    let is_small = micro_batches.saturating_mul(3 * stages as u64) <= MOST_OPERATIONS;
    let shape = Shape {
        devices: stages,
        virtual_stages: 1,
        placement: Placement::Loop,
        micro_batches: if is_small { micro_batches as usize } else { 1 },
    };
    let order = rule.order(&shape).filter(|_| stages > 0);
    Ok(Listed {
        name: rule.name,
        order: order.unwrap_or_default(),
    })
}

/// Refuses an order for which some stage has no memory.
fn has_memory(plan: &Plan, instance: &Instance, listed: &Listed, micro_batches: u64) -> Result<(), CliError> {
    let moves = Moves {
        devices: None,
        placement: Placement::Loop,
        weight_share: None,
    };
    let mut chunks = chunks_of_plan(plan, &moves)?;
    take_memory(&mut chunks, plan, instance)?;
    let Err(fault) = run(&chunks, &listed.order, micro_batches as usize) else {
        return Ok(());
    };
    let (found, expected) = match fault {
        OrderFault::Memory {
            device, held, room, ..
        } => (
            format!(
                "stage {} with {held} bytes in flight under `{}`",
                device + 1,
                listed.name
            ),
            format!("at most {room}, which its memory leaves for them"),
        ),
        fault => (fault.to_string(), "an order of the plan's stages".into()),
    };
    let kind = FaultKind::Conflict {
        found: found.into(),
        expected: expected.into(),
        remedy: "take an order that holds less, such as `1f1b`, or solve for more stages or memory".into(),
    };
    Err(InputError::option("--schedule", kind).into())
}
