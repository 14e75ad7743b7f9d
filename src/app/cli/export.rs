//! `export`.

use std::path::Path;

use crate::app::flags::as_flags;
use crate::export::{Ordered, TARGETS, Target};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::{self, Plan};
use crate::schedule::read_order;

use super::args::ExportArgs;
use super::plans::accept;
use super::{CliError, Ending, output};

/// Writes a plan for a framework, once it is known to be a plan of the instance.
pub(super) fn export(args: &ExportArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    output::check_path(path)?;
    let known: Vec<(&str, ())> = args.target.extensions.iter().map(|name| (*name, ())).collect();
    output::format(path, None, (), &known)?;
    let plan = plan::read(&args.plan)?;
    let instance = plan.read_instance(&args.instance, args.cluster.as_deref())?;
    if !args.quiet {
        instance
            .notes
            .iter()
            .for_each(|note| output::note(&note.written(as_flags)));
    }
    let paths = (args.instance.as_path(), args.plan.as_path());
    let text = exported(args.target, &instance, &plan, paths, args.order.as_deref())?;
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// What a framework reads, of a plan that is known to be one of the instance.
pub(crate) fn exported(
    target: &Target,
    instance: &Instance,
    plan: &Plan,
    (instance_path, plan_path): (&Path, &Path),
    order: Option<&Path>,
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
    let Some(path) = order else {
        return (target.write)(instance, plan).map_err(in_plan);
    };
    let Some(write) = target.write_ordered else {
        return Err(no_order(target));
    };
    let order = read_order(path)?;
    let ordered = Ordered::new(instance, plan, path.display().to_string(), order)
        .map_err(|fault| InputError::in_file(path, [fault]))?;
    write(instance, plan, &ordered).map_err(in_plan)
}

/// The refusal of an order by a framework that has one of its own.
fn no_order(target: &Target) -> CliError {
    let takers = TARGETS.iter().filter(|other| other.write_ordered.is_some());
    let known: Vec<String> = takers.map(|other| format!("`{}`", other.name)).collect();
    CliError::Usage(words!(
        "found {} with {}, which takes no order, expected one of {}",
        setting::ORDER,
        setting::TO.given(target.name),
        known.join(", ")
    ))
}
