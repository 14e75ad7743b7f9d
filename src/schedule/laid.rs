//! The stages of a plan, laid on fewer devices: what is moved then is told by the network.

use std::collections::HashMap;

use super::Placement;
use crate::model::fault::InputError;
use crate::model::instance::Instance;
use crate::model::settings::Settings;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::{Outcome, Plan, Statistics, StoppedBy};

/// The same stages as chunks of so many devices, which share them evenly: what devices have made or received is moved to none of their chunks.
///
/// The plan is one of the instance, with tied cuts on devices that are alike.
///
/// # Errors
///
/// Options of the plan that are none of the instance.
pub fn laid_on(
    plan: &Plan,
    instance: &Instance,
    devices: usize,
    placement: Placement,
) -> Result<Plan, InputError> {
    let settings = Settings::resolve(instance, &plan.problem)?;
    let problem = Problem::new(
        instance,
        Settings {
            // What devices hold is a matter of the order that comes.
            memory_limit: None,
            micro_batches: settings.micro_batches.or(Some(1)),
            ..settings
        },
    )?;
    let mut stage_of: HashMap<&str, usize> = HashMap::new();
    for (stage, of) in plan.stages.iter().enumerate() {
        let layers = of.forward.iter().chain(&of.backward);
        stage_of.extend(layers.map(|layer| (layer.as_str(), stage)));
    }
    let stage = |item: &crate::problem::Item| {
        let layers = item.all_layers();
        let first = layers
            .first()
            .map(|&layer| instance.network.layers[layer].id.as_str());
        first.and_then(|id| stage_of.get(id).copied()).unwrap_or(0)
    };
    let cut: Vec<usize> = problem.items.iter().map(stage).collect();
    let outcome = Outcome {
        allocation: Some(cut.into()),
        bound_ns: 0,
        bound_source: BoundSource::None,
        stopped_by: StoppedBy::Completed,
        statistics: Statistics::default(),
    };
    let chunked = problem.chunked(devices, plan.stages.len() / devices.max(1), placement);
    let mut laid = Plan::new(instance, &chunked, &plan.method, outcome);
    laid.problem.memory_limit = plan.problem.memory_limit;
    Ok(laid)
}
