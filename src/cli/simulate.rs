//! `simulate`.

use crate::report;
use crate::simulate::{Jitter, Request, Trace};

use super::args::{SimulateArgs, SimulationFormat};
use super::check::read_plan;
use super::{CliError, Ending, output};

/// Runs a plan and reports what came of it.
pub fn simulate(args: &SimulateArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let plan = read_plan(&args.plan)?;
    let trace = match &args.trace {
        Some(trace) => Trace::read(trace, &plan)?,
        None => Trace::default(),
    };
    let request = Request {
        micro_batches: args.micro_batches,
        order: args.schedule,
        in_flight: Some(args.in_flight),
        trace,
        jitter: args.jitter.map(|fraction| Jitter {
            fraction,
            seed: args.seed,
        }),
    };
    let simulation = crate::simulate::simulate(&plan, &request)?;
    let by_extension = path
        .and_then(|path| path.extension())
        .and_then(|extension| extension.to_str())
        .and_then(|extension| match extension {
            "svg" => Some(SimulationFormat::Svg),
            "csv" => Some(SimulationFormat::Csv),
            "json" => Some(SimulationFormat::Json),
            _ => None,
        });
    let text = match args.format.or(by_extension).unwrap_or(SimulationFormat::Text) {
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
