//! Plans that commands are given: whether they are plans of the instance at all.

use std::collections::HashSet;
use std::path::Path;

use super::CliError;
use crate::app::flags::as_flags;
use crate::check::{Posed, Verdict, Violation, examine, pose};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::problem::plan::Plan;
use crate::solve::methods;

/// Everything that is wrong with a plan, its method among it, which the checker does not know: it never sees a solver.
pub(crate) fn verdict(instance: &Instance, posed: &Posed, plan: &Plan) -> Verdict {
    let mut verdict = examine(instance, &posed.settings, plan);
    let confirmed_by = plan.statistics.confirmed_by.as_deref();
    let method = ("method", plan.method.as_str());
    let confirmed = confirmed_by.map(|name| ("statistics.confirmed_by", name));
    for (field, name) in [method].into_iter().chain(confirmed) {
        if !methods::may_be_named(name) {
            verdict.violations.push(Violation::Field {
                field: field.into(),
                found: format!("`{name}`"),
                expected: format!(
                    "a method that `stagecut solve --help` lists, or `{}`",
                    methods::OTHER
                )
                .into(),
            });
        }
    }
    verdict
}

/// Refuses what is no plan of the instance under the problem that the plan itself states: what it asked for is not in
/// question here, whether it is an answer is.
pub(super) fn accept(
    instance: &Instance,
    instance_path: &Path,
    plan: &Plan,
    plan_path: &Path,
) -> Result<(), CliError> {
    refuse_foreign(instance, instance_path, plan, plan_path)?;
    let posed = pose(instance, &plan.problem, plan)?;
    let Some(violation) = verdict(instance, &posed, plan).violations.into_iter().next() else {
        return Ok(());
    };
    let kind = FaultKind::Conflict {
        found: violation.written(as_flags).into(),
        expected: format!(
            "a plan of `{}` that passes `stagecut check`",
            instance_path.display()
        )
        .into(),
        remedy: "`stagecut check` lists all that is wrong; solve again, or correct the plan".into(),
    };
    Err(InputError::in_file(plan_path, [Fault::new("the plan", kind)]).into())
}

/// Refuses a plan of another instance, before anything is made of it.
pub(crate) fn refuse_foreign(
    instance: &Instance,
    instance_path: &Path,
    plan: &Plan,
    plan_path: &Path,
) -> Result<(), CliError> {
    let own: HashSet<&str> = instance
        .network
        .layers
        .iter()
        .map(|layer| layer.id.as_str())
        .collect();
    let names = |k: usize| plan.stages[k].forward.iter().chain(&plan.stages[k].backward);
    let stranger = (0..plan.stages.len()).find_map(|k| {
        let name = names(k).find(|name| !own.contains(name.as_str()))?;
        Some((format!("stages[{k}]"), format!("the layer `{name}`")))
    });
    let placed: HashSet<&str> = (0..plan.stages.len())
        .flat_map(names)
        .map(String::as_str)
        .collect();
    let left_out = (instance.network.layers.iter())
        .find(|layer| !layer.backward && !plan.stages.is_empty() && !placed.contains(layer.id.as_str()))
        .map(|layer| {
            (
                "stages".to_owned(),
                format!("no stage for the layer `{}`", layer.id),
            )
        });
    let other_name = (plan.instance != instance.name)
        .then(|| ("instance".to_owned(), format!("a plan of `{}`", plan.instance)));
    let Some((at, found)) = other_name.or(stranger).or(left_out) else {
        return Ok(());
    };
    let kind = FaultKind::Conflict {
        found: found.into(),
        expected: format!(
            "a plan of `{}`, read from `{}`",
            instance.name,
            instance_path.display()
        )
        .into(),
        remedy: "give the instance that the plan was made for, or solve this one".into(),
    };
    Err(InputError::in_file(plan_path, [Fault::new(at, kind)]).into())
}
