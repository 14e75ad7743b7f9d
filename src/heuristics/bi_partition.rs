//! Bi-Partition: forward and backward cuts that balance the stages together.
//!
//! Source: L. Cui, Z. Qu, G. Zhang, B. Tang, B. Ye, *A bidirectional DNN partition mechanism for efficient pipeline parallel
//! training in cloud*, Journal of Cloud Computing 12:22, 2023, who cut forward and backward propagation at different
//! positions so that workers get nearly equal loads. This is our stand-in, a reconstruction; the paper's listing was not
//! available, and no figure of theirs should be read into its results. How it goes:
//!
//! 1. Forward passes along one topological order, backward passes along another, by item number.
//! 2. For a target, stages are filled in turn with a forward and a backward prefix: the next pass comes from the side that
//!    has got less far, or from the other where that one no longer fits; where neither does, the next stage opens. Bisection
//!    on the target, from the larger of the largest pass and an equal share of all work; of the plans on the way the one
//!    that costs least by our cost model.
//! 3. Single cuts, of one side between two stages, move by one pass while that lowers the objective or, at the same
//!    objective, the sum of the squares of the stages' bottlenecks. Transfers and memory count here.

use super::{Effort, Heuristic, MustStop, Run, along, if_feasible, orders};
use crate::model::options::Cuts;
use crate::model::setting;
use crate::model::words::{Words, words};
use crate::problem::cost;
use crate::problem::{Assignment, Item, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "bi-partition",
    summary: "forward and backward prefixes filled to a target, then single cuts moved",
    source: "Bi-Partition, L. Cui et al., Journal of Cloud Computing 12:22, 2023 \
             (our stand-in, a reconstruction; the paper's listing was not available)",
    exact_for: "nothing but a single stage",
    effort: Effort::Baseline,
    run: Run::Homogeneous(applies, run),
};

fn applies(problem: &Problem) -> Result<(), Words> {
    match problem.settings.cuts {
        Cuts::Separate => Ok(()),
        Cuts::Tied => Err(words!(
            "its cuts are tied; {} parts them",
            setting::CUTS.given("separate")
        )),
    }
}

fn run(problem: &Problem, _seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let sides = Sides::new(problem);
    let filled = fill_best(problem, &sides)?;
    Some(move_cuts(problem, &sides, filled, must_stop))
}

/// Items of either side, each in a topological order.
struct Sides {
    forward: Vec<usize>,
    backward: Vec<usize>,
}

impl Sides {
    fn new(problem: &Problem) -> Self {
        let is_forward = |&item: &usize| problem.items[item].backward_layers.is_empty();
        let (forward, backward) = orders::by_number(problem).into_iter().partition(is_forward);
        Self { forward, backward }
    }

    /// Fills stages to a limit no smaller than the largest item; returns the order in which items were taken, their stages
    /// and the most work of one.
    fn fill(&self, problem: &Problem, limit_ns: u64) -> (Vec<usize>, Vec<usize>, u64) {
        let (forward, backward) = (&self.forward, &self.backward);
        let (mut i, mut j) = (0, 0);
        let (mut order, mut stages) = (Vec::new(), Vec::new());
        let (mut stage, mut filled_ns, mut most_ns) = (0, 0, 0);
        while i < forward.len() || j < backward.len() {
            let next = [forward.get(i), backward.get(j)];
            let is_ahead = i * backward.len() > j * forward.len();
            let preferred = if is_ahead { [1, 0] } else { [0, 1] };
            let fits = |item: &usize| filled_ns + problem.items[*item].work_ns() <= limit_ns;
            let Some(side) = preferred.into_iter().find(|&side| next[side].is_some_and(fits)) else {
                stage += 1;
                filled_ns = 0;
                continue;
            };
            let item = [forward, backward][side][[i, j][side]];
            if side == 0 {
                i += 1
            } else {
                j += 1
            }
            filled_ns += problem.items[item].work_ns();
            most_ns = most_ns.max(filled_ns);
            order.push(item);
            stages.push(stage);
        }
        (order, stages, most_ns)
    }
}

/// The cheapest plan that bisection on the target meets. Time O(log W (n + transfers)) for W ns of work.
fn fill_best(problem: &Problem, sides: &Sides) -> Option<Assignment> {
    let all_ns = problem.work_ns();
    let largest_ns = problem.items.iter().map(Item::work_ns).max().unwrap_or(0);
    let mut low = largest_ns.max(all_ns.div_ceil(problem.stages() as u64));
    let mut high = all_ns;
    let mut plans = Vec::new();
    while low <= high {
        let limit_ns = low + (high - low) / 2;
        let (order, stages, most_ns) = sides.fill(problem, limit_ns);
        if stages.last().is_none_or(|&last| last < problem.stages()) {
            plans.extend(if_feasible(problem, along(problem, &order, &stages)));
            if most_ns <= low {
                break;
            }
            high = most_ns - 1;
        } else {
            low = limit_ns + 1;
        }
    }
    plans
        .into_iter()
        .min_by_key(|plan| cost::assignment_ns(problem, plan))
}

/// Moves single cuts, each time the one that helps most, until none does or it must stop: the value falls with every move. Time O(n + transfers) for each of the 4 (q - 1) neighbours.
fn move_cuts(problem: &Problem, sides: &Sides, mut plan: Assignment, must_stop: MustStop<'_>) -> Assignment {
    let mut least = value(problem, &plan);
    loop {
        let mut best = None;
        for (item, stage) in neighbours(problem, sides, &plan) {
            if must_stop() {
                return plan;
            }
            let before = std::mem::replace(&mut plan[item], stage);
            let moved = value(problem, &plan);
            if moved < least && cost::is_feasible(problem, &plan) {
                (least, best) = (moved, Some((item, stage)));
            }
            plan[item] = before;
        }
        match best {
            Some((item, stage)) => plan[item] = stage,
            None => return plan,
        }
    }
}

/// What changes when a cut moves by one pass: the pass and its new stage.
fn neighbours(problem: &Problem, sides: &Sides, plan: &Assignment) -> Vec<(usize, usize)> {
    let mut moves = Vec::new();
    for side in [&sides.forward, &sides.backward] {
        for cut in 1..problem.stages() {
            let at = side.partition_point(|&item| plan[item] < cut);
            // Beyond a stage that holds none of this side, another cut is in the way.
            let before = side[..at].last().filter(|&&item| plan[item] == cut - 1);
            let behind = side[at..].first().filter(|&&item| plan[item] == cut);
            moves.extend(before.map(|&item| (item, cut)));
            moves.extend(behind.map(|&item| (item, cut - 1)));
        }
    }
    moves
}

/// What moving cuts lowers: the objective in ns, then the sum of squares.
fn value(problem: &Problem, plan: &Assignment) -> (u64, u128) {
    let costs = cost::stage_costs(problem, plan);
    let squares = costs.iter().map(|cost| u128::from(cost.bottleneck_ns()).pow(2));
    (cost::objective_ns(problem, &costs), squares.sum())
}
