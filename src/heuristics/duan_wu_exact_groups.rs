//! Algorithm 1 of Duan and Wu, then the best workers for its stages: what their two steps lose by grouping greedily, and
//! what they lose by deciding the partition first.
//!
//! The partition is that of [`duan_wu`]. The grouping is ours: the period is one of the costs of a stage on a choice, and
//! the least limit is found among those by bisection. Whether a limit can be kept is decided stage by stage. A label is
//! what the stages so far take of the inventory; a choice that holds another fitting one is left out, and so is a label that
//! holds another: what completes the larger completes the smaller, with devices to spare. Where every choice takes one device, or one
//! given group, it is a bottleneck assignment: whether a limit can be kept is a bipartite matching, found by augmenting paths
//! (H. Kuhn, *The Hungarian method for the assignment problem*, Naval Research Logistics Quarterly 1955).

use std::mem;

use super::grouping::Grouping;
use super::{Effort, Heuristic, MustStop, Run, duan_wu, global_shares};
use crate::model::words::Words;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::Workers;

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "duan-wu-exact-groups",
    summary: "stages by binary search for equal workers, then the best devices for these stages",
    source: "Duan and Wu, ICPADS 2022, Algorithm 1 (reconstruction); the exact grouping is ours",
    exact_for: "what duan-wu is; the devices, for the stages it takes and shares chosen stage by stage",
    effort: Effort::Quick,
    run: Run::Heterogeneous(applies, run),
};

/// Stages times choices that are costed one by one at most.
const MOST_COSTS: usize = 50_000;
/// Ways to take some of the inventory at most: labels are compared two by two, and 17 unlike devices took minutes.
const MOST_LABELS: usize = 4_096;

fn applies(problem: &Problem, workers: &Workers) -> Result<(), Words> {
    let costs = duan_wu::most_stages(problem, workers).saturating_mul(workers.choices.len());
    let ways = workers.inventory.iter();
    let labels = ways.fold(1usize, |labels, count| labels.saturating_mul(count + 1));
    match (costs <= MOST_COSTS, labels <= MOST_LABELS || all_single(workers)) {
        (true, true) => Ok(()),
        (false, _) => Err("it has too many possible groups to cost each for every stage".into()),
        (true, false) => Err("there are too many ways to take some of its devices".into()),
    }
}

fn run(problem: &Problem, workers: &Workers, _seed: u64, must_stop: MustStop<'_>) -> Option<Allocation> {
    let plan = duan_wu::partition(problem, workers);
    let stages = plan.iter().max()? + 1;
    let grouping = Grouping::new(problem, workers, &plan, stages);
    let choices = best(workers, &grouping, stages, must_stop)?;
    let grouped = Allocation {
        choices,
        ..Allocation::from(plan)
    };
    Some(global_shares::fill(problem, workers, grouped, must_stop))
}

/// Choices for so many stages whose largest cost is least; `None` where no choices can run them all. When
/// it must stop, the choices of the least limit so far.
///
/// With one share for all stages each stage is weighed at its own best shares, as [`Grouping`] does; then the choices need
/// not be the best.
///
/// Time O(q C L + log(q C) q A²) for q stages, C choices, L to cost one, and A labels of which none holds another; O(q C L + log(q C) q² C)
/// where choices take one each.
pub fn best(
    workers: &Workers,
    grouping: &Grouping,
    stages: usize,
    must_stop: MustStop<'_>,
) -> Option<Vec<usize>> {
    let costs: Vec<Vec<u64>> = (0..stages)
        .map(|stage| {
            let choices = 0..workers.choices.len();
            choices.map(|choice| grouping.cost_ns(stage, choice)).collect()
        })
        .collect();
    let mut limits: Vec<u64> = costs.iter().flatten().copied().collect();
    limits.sort_unstable();
    limits.dedup();
    // A cost of `u64::MAX` says that the stage cannot run.
    limits.pop_if(|limit| *limit == u64::MAX);
    let (mut low, mut high) = (0, limits.len());
    let mut found = None;
    while low < high && !must_stop() {
        let middle = low + (high - low) / 2;
        let found_within = match all_single(workers) {
            true => matched(workers, &costs, limits[middle]),
            false => within(workers, &costs, limits[middle], must_stop),
        };
        match found_within {
            Some(choices) => (found, high) = (Some(choices), middle),
            None => low = middle + 1,
        }
    }
    found
}

/// Whether every choice takes one of the inventory, and no two the same.
fn all_single(workers: &Workers) -> bool {
    let mut seen = vec![false; workers.inventory.len()];
    workers.choices.iter().all(|choice| {
        let at = choice.takes.iter().position(|&takes| takes > 0);
        choice.takes.iter().sum::<usize>() == 1 && at.is_some_and(|at| !mem::replace(&mut seen[at], true))
    })
}

/// Choices that take one each, whose costs are all within a limit, if the inventory has them.
fn matched(workers: &Workers, costs: &[Vec<u64>], limit_ns: u64) -> Option<Vec<usize>> {
    let room = |choice: usize| -> usize {
        let taken = workers.choices[choice].takes.iter().zip(&workers.inventory);
        taken.map(|(takes, inventory)| takes * inventory).sum()
    };
    let mut stages_on: Vec<Vec<usize>> = vec![Vec::new(); workers.choices.len()];
    for stage in 0..costs.len() {
        // Breadth first: the choice that a stage would leave for another, and the stage that would come instead.
        let mut comes_by: Vec<Option<usize>> = vec![None; stages_on.len()];
        let mut open = vec![stage];
        let mut next = 0;
        let end = 'search: loop {
            let &from = open.get(next)?;
            next += 1;
            for choice in 0..stages_on.len() {
                if comes_by[choice].is_some() || costs[from][choice] > limit_ns {
                    continue;
                }
                comes_by[choice] = Some(from);
                if stages_on[choice].len() < room(choice) {
                    break 'search choice;
                }
                open.extend(&stages_on[choice]);
            }
        };
        let mut choice = end;
        while let Some(comes) = comes_by[choice] {
            let left = (0..stages_on.len()).find(|&other| stages_on[other].contains(&comes));
            stages_on[choice].push(comes);
            let Some(left) = left else { break };
            stages_on[left].retain(|&other| other != comes);
            choice = left;
        }
    }
    let on = |stage| (0..stages_on.len()).find(|&choice| stages_on[choice].contains(&stage));
    (0..costs.len()).map(on).collect()
}

/// What some first stages take of the inventory, the choice of the last of them, and the label before it.
struct Label {
    taken: Vec<usize>,
    choice: usize,
    parent: usize,
}

/// Choices whose costs are all within a limit, if the inventory has them; none when it must stop.
fn within(
    workers: &Workers,
    costs: &[Vec<u64>],
    limit_ns: u64,
    must_stop: MustStop<'_>,
) -> Option<Vec<usize>> {
    let start = Label {
        taken: vec![0; workers.inventory.len()],
        choice: 0,
        parent: 0,
    };
    let mut stages = vec![vec![start]];
    for costs in costs {
        let before = &stages[stages.len() - 1];
        // A smaller choice comes before any that holds it: see `Workers::choice_of`.
        let mut fitting: Vec<usize> = Vec::new();
        for choice in (0..costs.len()).filter(|&choice| costs[choice] <= limit_ns) {
            let takes = &workers.choices[choice].takes;
            if !fitting
                .iter()
                .any(|&other| is_within(&workers.choices[other].takes, takes))
            {
                fitting.push(choice);
            }
        }
        let mut next = Vec::new();
        for (parent, label) in before.iter().enumerate() {
            if must_stop() {
                return None;
            }
            for &choice in &fitting {
                let sum = label.taken.iter().zip(&workers.choices[choice].takes);
                let taken: Vec<usize> = sum.map(|(taken, takes)| taken + takes).collect();
                if is_within(&taken, &workers.inventory) {
                    next.push(Label {
                        taken,
                        choice,
                        parent,
                    });
                }
            }
        }
        next.sort_by(|a, b| a.taken.cmp(&b.taken));
        let mut kept: Vec<Label> = Vec::new();
        for label in next {
            if must_stop() {
                return None;
            }
            if !kept.iter().any(|other| is_within(&other.taken, &label.taken)) {
                kept.push(label);
            }
        }
        stages.push(kept);
    }
    stages[stages.len() - 1].first()?;
    let mut choices = Vec::new();
    let mut at = 0;
    for labels in stages[1..].iter().rev() {
        choices.push(labels[at].choice);
        at = labels[at].parent;
    }
    choices.reverse();
    Some(choices)
}

/// Whether no entry is larger than the other's.
fn is_within(taken: &[usize], of: &[usize]) -> bool {
    taken.iter().zip(of).all(|(taken, of)| taken <= of)
}
