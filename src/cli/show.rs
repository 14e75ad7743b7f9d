//! `show`.

use crate::instance::Instance;
use crate::report;

use super::args::{Drawing, ShowArgs};
use super::check::read_plan;
use super::{CliError, Ending, output};

/// Draws a network.
pub fn show(args: &ShowArgs) -> Result<Ending, CliError> {
    let instance = Instance::read(&args.instance, args.cluster.as_deref())?;
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let by_extension =
        args.output
            .as_ref()
            .and_then(|path| path.extension())
            .map(|extension| match extension.to_str() {
                Some("dot" | "gv") => Drawing::Dot,
                _ => Drawing::Svg,
            });
    let text = match args.format.or(by_extension).unwrap_or(Drawing::Svg) {
        Drawing::Svg => report::svg(&instance, plan.as_ref()),
        Drawing::Dot => report::dot(&instance, plan.as_ref()),
    };
    output::write(&text, args.output.as_deref())?;
    Ok(Ending::Done)
}
