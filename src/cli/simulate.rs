//! `simulate`.

use crate::instance::Instance;
use crate::plan;
use crate::report;
use crate::simulate::{Jitter, Request, Trace};

use super::args::{SimulateArgs, SimulationFormat};
use super::plans::accept;
use super::{CliError, Ending, output};

/// Runs a plan and reports what came of it.
pub(super) fn simulate(args: &SimulateArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let known = [
        ("svg", SimulationFormat::Svg),
        ("csv", SimulationFormat::Csv),
        ("json", SimulationFormat::Json),
        ("txt", SimulationFormat::Text),
    ];
    let format = output::format(path, args.format, SimulationFormat::Text, &known)?;
    let plan = plan::read(&args.plan)?;
    if let Some(path) = &args.instance {
        let instance = Instance::read(path, args.cluster.as_deref())?;
        accept(&instance, path, &plan, &args.plan)?;
    }
    let trace = match &args.trace {
        Some(trace) => Trace::read(trace, &plan)?,
        None => Trace::default(),
    };
    let request = Request {
        micro_batches: args.micro_batches,
        order: args.schedule,
        in_flight: args.in_flight,
        trace,
        jitter: args.jitter.map(|fraction| Jitter {
            fraction,
            seed: args.seed,
        }),
    };
    let simulation = crate::simulate::simulate(&plan, &request)?;
    let text = match format {
        SimulationFormat::Text => report::simulation(&simulation, &output::style(path)),
        SimulationFormat::Json => report::simulation_json(&simulation),
        SimulationFormat::Csv => {
            report::simulation_csv(&simulation).map_err(|error| CliError::Usage(error.to_string()))?
        }
        SimulationFormat::Svg => report::timeline(&simulation),
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}
