//! The shares of concurrent workers, which no bare plan says: those that the problem's policy gives its stages. One share for all
//! stages is searched for; with several types of resources it may not be the best.

use std::collections::HashMap;

use crate::heuristics::global_shares;
use crate::model::instance::Instance;
use crate::model::network::LayerMode;
use crate::model::options::WorkerMode;
use crate::model::recompute;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, Degree, Modes, StageMode};
use crate::problem::plan::{PlanMode, PlanStage};
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// Fills in the shares, as far as the stages are those of an assignment on workers that the problem has; where they are not,
/// the checker tells why.
pub(super) fn fill(problem: &Problem, stages: &mut [PlanStage], instance: &Instance) {
    // More stages than may be are no assignment.
    if problem.settings.worker != WorkerMode::Concurrent || stages.len() > problem.stages() {
        return;
    }
    let filled = assignment(problem, stages, instance).and_then(|assignment| {
        match (&problem.workers, &problem.modes) {
            (Some(workers), _) => fill_workers(problem, workers, assignment, stages),
            (None, Some(modes)) => fill_modes(modes, (instance, &assignment), stages),
            (None, None) => None,
        }
    });
    // Without any the checker names those that are missing.
    filled.unwrap_or(())
}

/// The shares of stages of workers; `None` where some stage runs on none.
fn fill_workers(
    problem: &Problem,
    workers: &Workers,
    assignment: Assignment,
    stages: &mut [PlanStage],
) -> Option<()> {
    let choices = stages.iter().map(|stage| choice(workers, stage));
    let allocation = Allocation {
        choices: choices.collect::<Option<_>>()?,
        ..assignment.into()
    };
    let allocation = global_shares::fill(problem, workers, allocation, &|| false);
    let loads = workers.loads(problem, &allocation)?;
    for ((stage, load), &choice) in stages.iter_mut().zip(loads).zip(&allocation.choices) {
        let keys = workers
            .resources(&workers.choices[choice])
            .map(|(class, resource)| workers.share_key(class, resource));
        stage.shares = keys.zip(load.levels.iter().map(|level| level.share)).collect();
    }
    Some(())
}

/// The shares of stages in modes; `None` where some mode is none of the problem's.
fn fill_modes(
    modes: &Modes,
    (instance, assignment): (&Instance, &Assignment),
    stages: &mut [PlanStage],
) -> Option<()> {
    let chosen = Chosen {
        stages: stages
            .iter()
            .map(|stage| mode_of(modes, instance, stage))
            .collect::<Option<_>>()?,
        layers: modes_of_layers(instance, stages)?,
        virtual_stages: 1,
    };
    let costs = modes.stages(assignment, &chosen)?;
    for ((stage, cost), mode) in stages.iter_mut().zip(&costs.stages).zip(&chosen.stages) {
        let row = modes.degrees[mode.degree].row;
        stage.shares = modes.shares.as_ref()?.named(row, cost.whole?);
    }
    Some(())
}

/// The mode of a stage.
fn mode_of(modes: &Modes, instance: &Instance, stage: &PlanStage) -> Option<StageMode> {
    let (kind, _) = stage.devices.first()?.rsplit_once(':')?;
    let kind = instance.cluster.kind(kind)?;
    let own: &PlanMode = stage.mode.as_ref()?;
    let is_own = |degree: &Degree| {
        let of_plan = [own.tensor, own.expert, own.context, own.group];
        [degree.tensor, degree.expert, degree.context, degree.group] == of_plan
            && degree.at_host == own.optimizer_offload
            && degree.sharers.is_none_or(|sharers| sharers == own.replicas)
            && modes.rows[degree.row].kind == kind
    };
    let mode = StageMode {
        degree: modes.degrees.iter().position(is_own)?,
        replicas: own.replicas,
    };
    modes.replicas.contains(&mode.replicas).then_some(mode)
}

/// The mode of each layer, by its position among the layer's own, as the stage of its backward pass has it; 0 for layers that no stage holds.
fn modes_of_layers(instance: &Instance, stages: &[PlanStage]) -> Option<Vec<usize>> {
    let layers = instance.network.layers.iter().enumerate();
    let position: HashMap<&str, usize> = layers.map(|(at, layer)| (layer.id.as_str(), at)).collect();
    let mut chosen = vec![0; instance.network.layers.len()];
    let passes: [fn(&PlanStage) -> &Vec<String>; 2] = [|stage| &stage.forward, |stage| &stage.backward];
    for (stage, of) in passes
        .iter()
        .flat_map(|of| stages.iter().map(move |stage| (stage, of)))
    {
        let own = stage.mode.as_ref()?;
        for id in of(stage) {
            let mut named = own.recomputed.iter().filter(|(_, layers)| layers.contains(id));
            let name = named.next().map_or(recompute::NONE, |(name, _)| name.as_str());
            let at = *position.get(id.as_str())?;
            let modes = instance.network.layers[at].modes();
            let is_own = |mode: &LayerMode| mode.tensor == own.tensor && mode.recompute == name;
            chosen[at] = modes.iter().position(is_own)?;
        }
    }
    Some(chosen)
}

/// The position of what a stage runs on.
fn choice(workers: &Workers, stage: &PlanStage) -> Option<usize> {
    let mut devices = vec![0; workers.classes.len()];
    for device in &stage.devices {
        let (kind, _) = device.rsplit_once(':')?;
        let class = workers.classes.iter().position(|class| class.name == kind)?;
        devices[class] += 1;
    }
    workers
        .choices
        .iter()
        .position(|choice| choice.devices == devices)
}

/// The stage of every item; `None` where an item is split.
fn assignment(problem: &Problem, stages: &[PlanStage], instance: &Instance) -> Option<Assignment> {
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
    Some(assignment)
}
