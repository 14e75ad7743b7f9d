//! The shares of concurrent workers, which no bare plan says: those that the problem's policy gives its stages. One share for all
//! stages is searched for; with several types of resources it may not be the best.

use std::collections::HashMap;

use crate::heuristics::global_shares;
use crate::model::instance::Instance;
use crate::model::options::WorkerMode;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::PlanStage;
use crate::problem::workers::Workers;

/// Fills in the shares, as far as the stages are those of an assignment on workers that the problem has; where they are not,
/// the checker tells why.
pub(super) fn fill(problem: &Problem, stages: &mut [PlanStage], instance: &Instance) {
    let Some(workers) = problem.workers.as_ref() else {
        return;
    };
    // More stages than may be are no assignment.
    if problem.settings.worker != WorkerMode::Concurrent || stages.len() > problem.stages() {
        return;
    }
    let Some(allocation) = allocation(problem, workers, stages, instance) else {
        return;
    };
    let allocation = global_shares::fill(problem, workers, allocation, &|| false);
    let Some(loads) = workers.loads(problem, &allocation) else {
        return;
    };
    for ((stage, load), &choice) in stages.iter_mut().zip(loads).zip(&allocation.choices) {
        let keys = workers
            .resources(&workers.choices[choice])
            .map(|(class, resource)| workers.share_key(class, resource));
        stage.shares = keys.zip(load.levels.iter().map(|level| level.share)).collect();
    }
}

/// The stages as an allocation of items; `None` where an item is split, or some stage runs on what is no worker.
fn allocation(
    problem: &Problem,
    workers: &Workers,
    stages: &[PlanStage],
    instance: &Instance,
) -> Option<Allocation> {
    let layers = instance.network.layers.iter().enumerate();
    let position: HashMap<&str, usize> = layers.map(|(at, layer)| (layer.id.as_str(), at)).collect();
    let mut stage_of = vec![[None; 2]; instance.network.layers.len()];
    for (k, stage) in stages.iter().enumerate() {
        for (pass, names) in [&stage.forward, &stage.backward].into_iter().enumerate() {
            for name in names {
                stage_of[*position.get(name.as_str())?][pass] = Some(k);
            }
        }
    }
    let mut assignment = Vec::with_capacity(problem.items.len());
    for item in &problem.items {
        let forward = item.layers.iter().map(|&at| stage_of[at][0]);
        let backward = item.backward_layers.iter().map(|&at| stage_of[at][1]);
        let mut own = forward.chain(backward);
        let first = own.next()??;
        if !own.all(|stage| stage == Some(first)) {
            return None;
        }
        assignment.push(first);
    }
    let devices = |stage: &PlanStage| -> Option<Vec<usize>> {
        let mut devices = vec![0; workers.classes.len()];
        for device in &stage.devices {
            let (kind, _) = device.rsplit_once(':')?;
            let class = workers.classes.iter().position(|class| class.name == kind)?;
            devices[class] += 1;
        }
        Some(devices)
    };
    let choice = |stage: &PlanStage| -> Option<usize> {
        let devices = devices(stage)?;
        workers
            .choices
            .iter()
            .position(|choice| choice.devices == devices)
    };
    Some(Allocation {
        assignment,
        choices: stages.iter().map(choice).collect::<Option<_>>()?,
        global: Vec::new(),
        modes: None,
    })
}
