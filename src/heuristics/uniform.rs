//! What frameworks ask a user for where stages have modes: an equal cut, and one tensor degree and number of replicas for all stages. All
//! of these are tried, each with a rule for what is computed again.

use super::{MustStop, equal_layers};
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{self, Chosen, LayerWays, Modes, StageMode};
use crate::problem::{Assignment, Problem};

/// The layers of a stage, and what they have room for.
pub(super) struct StageLayers<'a> {
    /// Its layers, in the order of its items.
    pub layers: Vec<&'a LayerWays>,
    /// Micro-batches in flight.
    pub in_flight: u64,
    /// Bytes for all that its layers take.
    pub limit_bytes: u64,
}

impl StageLayers<'_> {
    /// The fastest way of each layer.
    pub(super) fn fastest(&self) -> Vec<usize> {
        vec![0; self.layers.len()]
    }

    /// The way of each layer that keeps least.
    pub(super) fn smallest(&self) -> Vec<usize> {
        let smallest = |layer: &&LayerWays| modes::smallest_way(layer, self.in_flight);
        self.layers.iter().map(smallest).collect()
    }

    /// Whether these ways of its layers fit.
    pub(super) fn fits(&self, ways: &[usize]) -> bool {
        modes::bytes_of(&self.layers, ways, self.in_flight) <= self.limit_bytes
    }
}

/// The ways of the layers of every stage; `None` where the rule has none that fit.
pub(super) type Rule = fn(&[StageLayers<'_>]) -> Option<Vec<Vec<usize>>>;

/// These ways of the layers of every stage, where all of them fit.
pub(super) fn where_they_fit(
    stages: &[StageLayers<'_>],
    ways: impl Fn(&StageLayers<'_>) -> Vec<usize>,
) -> Option<Vec<Vec<usize>>> {
    let of_stage = |stage: &StageLayers<'_>| Some(ways(stage)).filter(|ways| stage.fits(ways));
    stages.iter().map(of_stage).collect()
}

/// The rule of the least time within memory, stage by stage.
pub(super) fn fastest(stages: &[StageLayers<'_>]) -> Option<Vec<Vec<usize>>> {
    let of_stage = |stage: &StageLayers<'_>| {
        let fastest = modes::fastest_within(&stage.layers, stage.in_flight, stage.limit_bytes)?;
        Some(fastest.ways)
    };
    stages.iter().map(of_stage).collect()
}

/// The best plan of stages of equally many layers that all have one mode, over all numbers of stages and all modes.
pub(super) fn best(
    problem: &Problem,
    modes: &Modes,
    rule: Rule,
    must_stop: MustStop<'_>,
) -> Option<Allocation> {
    let least = if problem.settings.all_stages {
        problem.stages()
    } else {
        1
    };
    let mut best: Option<(u64, Allocation)> = None;
    for stages in least..=problem.stages() {
        let cut = equal_layers::cut(problem, stages);
        for mode in stage_modes(modes, stages) {
            if must_stop() {
                return best.map(|(_, plan)| plan);
            }
            let Some(plan) = plan(modes, cut.clone(), mode, rule) else {
                continue;
            };
            let Some(ns) = cost::modal_ns(problem, modes, &plan) else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, _)| ns < *least) {
                best = Some((ns, plan));
            }
        }
    }
    best.map(|(_, plan)| plan)
}

/// Modes that so many stages have the devices for.
pub(super) fn stage_modes(modes: &Modes, stages: usize) -> impl Iterator<Item = StageMode> {
    let degrees = 0..modes.degrees.len();
    let all = degrees.flat_map(|degree| {
        let replicas = modes.replicas.iter();
        replicas.map(move |&replicas| StageMode { degree, replicas })
    });
    all.filter(move |mode| stages * modes.devices_of(mode) <= modes.devices)
}

/// The plan of a cut whose stages all have one mode; `None` where some layer lacks the degree, or the rule finds nothing that fits.
pub(super) fn plan(modes: &Modes, assignment: Assignment, mode: StageMode, rule: Rule) -> Option<Allocation> {
    let used = assignment.iter().max()? + 1;
    let of_stage = |stage: usize| {
        let items = (0..assignment.len()).filter(|&item| assignment[item] == stage);
        let items: Vec<usize> = items.collect();
        let shared_bytes = modes.shared_bytes(&items, &mode)?;
        Some(StageLayers {
            layers: modes.layers_of(&items, mode.degree)?,
            in_flight: modes.flight.of(mode.replicas, mode.replicas * (used - 1 - stage)),
            limit_bytes: modes.memory_bytes.checked_sub(shared_bytes)?,
        })
    };
    let stages: Vec<StageLayers> = (0..used).map(of_stage).collect::<Option<_>>()?;
    let ways = rule(&stages)?;
    let layers = stages.iter().flat_map(|stage| &stage.layers).copied();
    let chosen: Vec<(&LayerWays, usize)> = layers.zip(ways.into_iter().flatten()).collect();
    let last = chosen.iter().map(|(layer, _)| layer.layer).max()?;
    let mut modes_of_layers = vec![0; last + 1];
    for (layer, way) in chosen {
        modes_of_layers[layer.layer] = layer.ways[way].mode;
    }
    Some(Allocation {
        modes: Some(Chosen {
            stages: vec![mode; used],
            layers: modes_of_layers,
        }),
        ..Allocation::from(assignment)
    })
}
