//! `show`.

use crate::instance::Instance;
use crate::report;

use super::args::{Drawing, ShowArgs};
use super::plans::refuse_foreign;
use super::{CliError, Ending, output};
use crate::plan;

/// Draws a network.
pub(super) fn show(args: &ShowArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let known = [("svg", Drawing::Svg), ("dot", Drawing::Dot), ("gv", Drawing::Dot)];
    let format = output::format(path, args.format, Drawing::Svg, &known)?;
    let instance = Instance::read(&args.instance, args.cluster.as_deref())?;
    let plan = match &args.plan {
        Some(path) => {
            let plan = plan::read(path)?;
            refuse_foreign(&instance, &args.instance, &plan, path)?;
            Some(plan)
        }
        None => None,
    };
    let text = match format {
        Drawing::Svg => report::svg(&instance, plan.as_ref()),
        Drawing::Dot => report::dot(&instance, plan.as_ref()),
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}
