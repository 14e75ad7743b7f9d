//! `export`.

use std::path::Path;

use crate::export::Target;
use crate::fault::{Fault, FaultKind, InputError};
use crate::instance::Instance;
use crate::plan::{self, Plan};

use super::args::ExportArgs;
use super::plans::accept;
use super::{CliError, Ending, output};

/// Writes a plan for a framework, once it is known to be a plan of the instance.
pub(super) fn export(args: &ExportArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let known: Vec<(&str, ())> = args.target.extensions.iter().map(|name| (*name, ())).collect();
    output::format(path, None, (), &known)?;
    let instance = Instance::read(&args.instance, args.cluster.as_deref())?;
    if !args.quiet {
        instance.notes.iter().for_each(|note| output::note(note));
    }
    let plan = plan::read(&args.plan)?;
    let text = exported(args.target, &instance, &plan, (&args.instance, &args.plan))?;
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// What a framework reads, of a plan that is known to be one of the instance.
pub(crate) fn exported(
    target: &Target,
    instance: &Instance,
    plan: &Plan,
    (instance_path, plan_path): (&Path, &Path),
) -> Result<String, CliError> {
    let in_plan = |fault: Fault| CliError::from(InputError::in_file(plan_path, [fault]));
    if plan.stages.is_empty() {
        let kind = FaultKind::Missing {
            what: "stages".into(),
            expected: "a plan".into(),
            remedy: "`stagecut solve` found none; relax the problem or give it more time".into(),
        };
        return Err(in_plan(Fault::new("stages", kind)));
    }
    accept(instance, instance_path, plan, plan_path)?;
    (target.write)(instance, plan).map_err(in_plan)
}
