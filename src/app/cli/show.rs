//! `show`.

use crate::app::report;
use crate::model::instance::Instance;
use crate::problem::plan::{self, Plan};
use crate::schedule::simulate::{self, Request, Simulation};

use super::args::{Drawing, ShowArgs};
use super::plans::{accept, refuse_foreign};
use super::{CliError, Ending, output};

/// Draws a network.
pub(super) fn show(args: &ShowArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let known = [
        ("svg", Drawing::Svg),
        ("dot", Drawing::Dot),
        ("gv", Drawing::Dot),
        ("html", Drawing::Html),
    ];
    let format = output::format(path, args.format, Drawing::Svg, &known)?;
    let plan = args.plan.as_deref().map(plan::read).transpose()?;
    let cluster = args.cluster.as_deref();
    let instance = match &plan {
        Some(plan) => plan.read_instance(&args.instance, cluster)?,
        None => Instance::read(&args.instance, cluster)?,
    };
    if let (Some(plan), Some(path)) = (&plan, &args.plan) {
        match format {
            // A page repeats what the plan claims, and runs it.
            Drawing::Html => accept(&instance, &args.instance, plan, path)?,
            Drawing::Svg | Drawing::Dot => refuse_foreign(&instance, &args.instance, plan, path)?,
        }
    }
    let text = match format {
        Drawing::Svg => report::svg(&instance, plan.as_ref()),
        Drawing::Dot => report::dot(&instance, plan.as_ref()),
        Drawing::Html => {
            let simulation = plan.as_ref().and_then(simulated);
            report::page(&instance, plan.as_ref(), simulation.as_ref())
        }
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// The plan as it runs, with as many micro-batches as it asks for or as make a picture that a browser shows at once; nothing for a
/// plan without stages, and for one that cannot be simulated.
fn simulated(plan: &Plan) -> Option<Simulation> {
    /// Passes of a stage that a browser shows at once.
    const MOST_PASSES: u64 = 8_000;
    let stages = plan.stages.len() as u64;
    let asked = simulate::micro_batches(plan, None);
    // No fewer than fill the pipeline.
    let most = (MOST_PASSES / (2 * stages.max(1))).max(2 * plan.workers() as u64);
    let request = Request {
        micro_batches: Some(asked.min(most)),
        ..Request::default()
    };
    simulate::simulate(plan, &request).ok()
}
