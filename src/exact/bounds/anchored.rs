//! The anchored stage bound: the cheapest stage that could hold an item, for the few items where that can matter.

use std::cmp::Reverse;

use fixedbitset::FixedBitSet;

use crate::exact::bounds;
use crate::exact::presolve::Reduced;
use crate::exact::tuning::TUNING;
use crate::exact::windows::min_cut::MinCostClosure;
use crate::formulations::anchored::Anchored;
use crate::formulations::solver::{self, SolverError, Stop};
use crate::model::options::Communication;
use crate::problem::control::Control;
use crate::problem::cost;
use crate::problem::{Assignment, Problem};

/// A bottleneck that some stage of every plan reaches: the most that the cheapest set with an item costs, over the items, where sets
/// need not be convex in the order. With blocking transfers that is a minimum cut an item; others tell no more than its work.
///
/// Items that would cost least alone come last, and end it where none of them can raise the bound; so does the effort.
///
/// Time O(n + c) a cut in practice, for n items and c ends of transfers.
pub(crate) fn by_cuts(problem: &Problem, control: &Control) -> u64 {
    if problem.settings.communication != Communication::Blocking {
        return 0;
    }
    let alone_ns: Vec<u64> = (0..problem.items.len())
        .map(|item| of_stage(problem, &[item]))
        .collect();
    let mut items: Vec<usize> = (0..problem.items.len()).collect();
    items.sort_by_key(|&item| Reverse(alone_ns[item]));
    let ends: usize = problem
        .transfers
        .iter()
        .map(|transfer| transfer.items().count())
        .sum();
    let most_cuts = TUNING.most_cut_steps / (problem.items.len() + ends);
    let choice = choice_of_items(problem);
    let enough = -2 * i128::from(bounds::all_in_one_ns(problem));
    let mut best_ns = 0;
    for item in items.into_iter().take(most_cuts) {
        if alone_ns[item] <= best_ns || control.must_stop().is_some() {
            break;
        }
        let mut with_item = choice.clone();
        // No set without the item is as cheap.
        with_item.charge(item, enough);
        let has = with_item.cheapest();
        let cheapest_set: Vec<usize> = (0..has.len()).filter(|&item| has[item]).collect();
        best_ns = best_ns.max(of_stage(problem, &cheapest_set));
    }
    best_ns
}

/// What sets of items cost: their work, and transfers that cross their limits.
fn choice_of_items(problem: &Problem) -> MinCostClosure {
    let mut choice = MinCostClosure::new(problem.items.len());
    for (item, own) in problem.items.iter().enumerate() {
        choice.charge(item, i128::from(own.work_ns()));
    }
    for transfer in &problem.transfers {
        let producer = [transfer.producer];
        let ns = u128::from(transfer.total_ns());
        choice.charge_split(Some(&producer), Some(&transfer.consumers), ns);
        choice.charge_split(Some(&transfer.consumers), Some(&producer), ns);
    }
    choice
}

/// The bottleneck of a stage of these items, in ns.
fn of_stage(problem: &Problem, stage: &[usize]) -> u64 {
    let mut inside = FixedBitSet::with_capacity(problem.items.len());
    inside.extend(stage.iter().copied());
    cost::stage_cost(problem, stage, |item| inside.contains(item)).bottleneck_ns()
}

/// Whether some item has no stage that keeps the target: then no plan does.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn refutes(
    problem: &Problem,
    labels: &[String],
    mut known: KnownStages,
    target_ns: u64,
    control: &Control,
) -> Result<bool, SolverError> {
    let three = problem.before_in_after();
    let control = control.elsewhere();
    for _ in 0..TUNING.programs_of_anchors {
        let Some(anchor) = known.busiest(target_ns) else {
            return Ok(false);
        };
        let Anchored { program, staging } = Anchored::build(&three, anchor, target_ns, labels);
        let solved = solver::solve(program, None, None, &control, &|_| ())?;
        match solved.stop {
            Stop::Infeasible => return Ok(true),
            Stop::Limit(_) => return Ok(false),
            Stop::Optimal => {}
        }
        let stage = solved
            .values
            .as_deref()
            .and_then(|values| Anchored::stage(&staging, values));
        match stage {
            Some(stage) => known.learn(problem, &stage),
            None => return Ok(false),
        }
        // A solution that rounding alone made cheaper than the target would come back for ever.
        if known.busiest(target_ns) == Some(anchor) {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The stages of a plan of the original problem in terms of reduced items, without those that hold part of one.
pub(crate) fn whole_stages(reduced: &Reduced, plan: &Assignment) -> Vec<Vec<usize>> {
    let mut stage_of: Vec<Option<usize>> = vec![None; reduced.problem.items.len()];
    let mut is_split = vec![false; plan.len()];
    for (&item, &stage) in reduced.item_of.iter().zip(plan) {
        if let Some(other) = stage_of[item].replace(stage).filter(|&other| other != stage) {
            is_split[other] = true;
            is_split[stage] = true;
        }
    }
    let mut stages = vec![Vec::new(); plan.len()];
    for (item, stage) in stage_of.into_iter().enumerate() {
        stages[stage.unwrap_or(0)].push(item);
    }
    let whole = stages
        .into_iter()
        .zip(is_split)
        .filter(|(stage, split)| !split && !stage.is_empty());
    whole.map(|(stage, _)| stage).collect()
}

/// For every item, the least bottleneck of a stage known to be able to hold it.
pub(crate) struct KnownStages {
    least_ns: Vec<u64>,
}

impl KnownStages {
    fn new(problem: &Problem) -> Self {
        Self {
            least_ns: vec![u64::MAX; problem.items.len()],
        }
    }

    /// What each item knows that counts as an anchor: its stage alone. Other items are out of the question.
    pub(crate) fn of_anchors(problem: &Problem, is_anchor: impl Fn(usize) -> bool) -> Self {
        let mut known = Self::new(problem);
        for item in 0..problem.items.len() {
            match is_anchor(item) {
                true => known.learn(problem, &[item]),
                false => known.least_ns[item] = 0,
            }
        }
        known
    }

    /// Learns of a stage that some assignment can have.
    pub(crate) fn learn(&mut self, problem: &Problem, stage: &[usize]) {
        let bottleneck_ns = of_stage(problem, stage);
        for &item in stage {
            self.least_ns[item] = self.least_ns[item].min(bottleneck_ns);
        }
    }

    /// The item whose least known bottleneck is the largest, if that is above the target.
    fn busiest(&self, target_ns: u64) -> Option<usize> {
        let above = (0..self.least_ns.len()).filter(|&item| self.least_ns[item] > target_ns);
        above.max_by_key(|&item| (self.least_ns[item], Reverse(item)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::instance::Instance;
    use crate::model::options::PipelineOptions;
    use crate::model::settings::Settings;
    use crate::problem::Problem;

    /// The chain of the page: three layers of 2 ms whose tensors take 5 ms each to move.
    fn chain() -> Problem {
        let mut built = Instance::builder("chain");
        for layer in ["a", "b", "c"] {
            built = built.layer(layer, 2.0, 0.0);
        }
        // 5 ms at 1 GB a second.
        let built = built.tensor("a", ["b"], 5e6).tensor("b", ["c"], 5e6);
        let instance = built.devices("device", 3, 1e9).link(1e9, 0.0).build().unwrap();
        let asked = PipelineOptions {
            communication: Some(Communication::Blocking),
            mode: Some(crate::model::options::Mode::Inference),
            ..Default::default()
        };
        Problem::new(&instance, Settings::resolve(&instance, &asked).unwrap()).unwrap()
    }

    #[test]
    fn all_items_together_are_cheapest_in_the_chain_of_the_page() {
        let problem = chain();
        let control = Control::default();
        assert_eq!(
            [of_stage(&problem, &[1]), of_stage(&problem, &[0, 1])],
            [12_000_000, 9_000_000]
        );
        assert_eq!(by_cuts(&problem, &control), 6_000_000);
    }
}
