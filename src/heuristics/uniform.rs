//! What frameworks ask a user for where stages have modes: an equal cut, and one tensor degree and number of replicas for all stages. All
//! of these are tried, each with a rule for what is computed again.

use super::{MustStop, equal_layers};
use crate::model::units::bisect;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{self, Chosen, LayerWays, Memory, Modes, StageMode};
use crate::problem::{Assignment, Problem};

/// The layers of a stage, and what they have room for.
pub(super) struct StageLayers<'a> {
    /// Its layers, in the order of its items.
    pub layers: Vec<&'a LayerWays>,
    /// Micro-batches in flight.
    pub in_flight: u64,
    /// Room for all that its layers take.
    pub limit: Memory,
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
        self.limit.holds(&self.layers, ways, self.in_flight)
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
        let fastest = modes::fastest_within(&stage.layers, stage.in_flight, stage.limit)?;
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

/// The best plan of stages of one mode that are [filled] along an order, over all modes: for each, under no limit on the time of a stage, and
/// then under limits that are halved towards what the devices take that share all work evenly.
pub(super) fn best_filled(
    problem: &Problem,
    modes: &Modes,
    order: &[usize],
    must_stop: MustStop<'_>,
) -> Option<Allocation> {
    let mut best: Option<(u64, Allocation)> = None;
    for mode in stage_modes(modes, 1) {
        let Some(layers) = modes.layers_of(order, mode.degree) else {
            continue;
        };
        let work: u64 = layers.iter().map(|layer| layer.ways[0].time()).sum();
        let stages = problem.stages().min(modes.most_of(&mode));
        let (mut least, mut limit) = (work / (stages * mode.replicas) as u64, modes.longest());
        for _ in 0..=FILLINGS {
            if best.is_some() && must_stop() {
                return best.map(|(_, plan)| plan);
            }
            let cut = filled(problem, modes, (order, mode), limit);
            let plan = cut.and_then(|cut| plan(modes, cut, mode, fastest));
            let found = plan.and_then(|plan| Some((cost::modal_ns(problem, modes, &plan)?, plan)));
            let most = match &found {
                Some((ns, _)) => limit.min(*ns),
                None => limit,
            };
            match found {
                None if limit == modes.longest() => break,
                None => least = limit,
                Some(found) if best.as_ref().is_none_or(|(ns, _)| found.0 < *ns) => best = Some(found),
                Some(_) => {}
            }
            limit = least + most.saturating_sub(least) / 2;
        }
    }
    best.map(|(_, plan)| plan)
}

/// Limits that are tried for a mode beyond the first.
const FILLINGS: usize = 8;

/// Stages of one mode, filled from the end of an order: each takes all items that fit its memory and keep a limit on the time of its layers,
/// transfers left aside, where [`greedy_within`](modes::greedy_within) says what is computed again. `None` where that leaves some item without a stage.
///
/// Time O(s² log s) a stage of s layers.
fn filled(
    problem: &Problem,
    modes: &Modes,
    (order, mode): (&[usize], StageMode),
    limit: u64,
) -> Option<Assignment> {
    let stages = problem.stages().min(modes.most_of(&mode));
    let mut from_end = vec![0; order.len()];
    let mut end = order.len();
    for behind in 0..stages {
        let in_flight = modes.flight.of(mode.replicas, mode.replicas * behind);
        let keeps = |start: usize| {
            let items = &order[start..end];
            let room = modes.room(items, &mode)?;
            let layers = modes.layers_of(items, mode.degree)?;
            let ways = modes::greedy_within(&layers, in_flight, room)?;
            (ways.time.div_ceil(mode.replicas as u64) <= limit).then_some(())
        };
        // Where each stage must hold something, some items are left for those before.
        let first = if problem.settings.all_stages {
            stages - 1 - behind
        } else {
            0
        };
        let start = earliest(first, end, &|start| keeps(start).is_some())?;
        from_end[start..end].fill(behind);
        end = start;
        if end == 0 {
            let stage_of: Vec<usize> = from_end.iter().map(|&stage| behind - stage).collect();
            return Some(super::along(problem, order, &stage_of));
        }
    }
    None
}

/// The first start before an end that keeps a limit, where those behind it do; from the end in steps that double, then halved.
fn earliest(first: usize, end: usize, keeps: &dyn Fn(usize) -> bool) -> Option<usize> {
    let mut kept = end
        .checked_sub(1)
        .filter(|&start| start >= first && keeps(start))?;
    let mut step = 1;
    while kept > first {
        let next = kept.saturating_sub(step).max(first);
        if !keeps(next) {
            break;
        }
        (kept, step) = (next, 2 * step);
    }
    let broken = kept.saturating_sub(step).max(first);
    let kept = bisect([broken as u64, kept as u64], |start| keeps(start as usize));
    Some(kept as usize)
}

/// Modes that so many stages have the devices for.
pub(super) fn stage_modes(modes: &Modes, stages: usize) -> impl Iterator<Item = StageMode> {
    let degrees = 0..modes.degrees.len();
    let all = degrees.flat_map(|degree| {
        let replicas = modes.replicas.iter();
        replicas.map(move |&replicas| StageMode { degree, replicas })
    });
    let all = all.filter(|mode| modes.shares_out(mode.degree, mode.replicas));
    all.filter(move |mode| stages <= modes.most_of(mode))
}

/// The plan of a cut whose stages all have one mode; `None` where some layer lacks the degree, or the rule finds nothing that fits.
pub(super) fn plan(modes: &Modes, assignment: Assignment, mode: StageMode, rule: Rule) -> Option<Allocation> {
    let used = assignment.iter().max()? + 1;
    let of_stage = |stage: usize| {
        let items = (0..assignment.len()).filter(|&item| assignment[item] == stage);
        let items: Vec<usize> = items.collect();
        Some(StageLayers {
            layers: modes.layers_of(&items, mode.degree)?,
            in_flight: modes.flight.of(mode.replicas, mode.replicas * (used - 1 - stage)),
            limit: modes.room(&items, &mode)?,
        })
    };
    let stages: Vec<StageLayers> = (0..used).map(of_stage).collect::<Option<_>>()?;
    let ways = rule(&stages)?;
    let layers: Vec<&LayerWays> = stages.iter().flat_map(|stage| &stage.layers).copied().collect();
    let ways: Vec<usize> = ways.into_iter().flatten().collect();
    let last = layers.iter().map(|layer| layer.layer).max()?;
    let mut modes_of_layers = vec![0; last + 1];
    Modes::note_ways(&layers, &ways, &mut modes_of_layers);
    Some(Allocation {
        modes: Some(Chosen {
            virtual_stages: 1,
            stages: vec![mode; used],
            layers: modes_of_layers,
        }),
        ..Allocation::from(assignment)
    })
}
