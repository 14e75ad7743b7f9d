//! The anchored stage bound: the cheapest stage that could hold an item, for the few items where that can matter.

use crate::control::Control;
use crate::cost;
use crate::exact::presolve::Reduced;
use crate::exact::tuning::TUNING;
use crate::formulations::anchored::Anchored;
use crate::problem::{Assignment, Problem};
use crate::solver::{self, SolverError, Stop};

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
        let mut inside = fixedbitset::FixedBitSet::with_capacity(problem.items.len());
        inside.extend(stage.iter().copied());
        let bottleneck_ns = cost::stage_cost(problem, stage, |item| inside.contains(item)).bottleneck_ns();
        for &item in stage {
            self.least_ns[item] = self.least_ns[item].min(bottleneck_ns);
        }
    }

    /// The item whose least known bottleneck is the largest, if that is above the target.
    fn busiest(&self, target_ns: u64) -> Option<usize> {
        let above = (0..self.least_ns.len()).filter(|&item| self.least_ns[item] > target_ns);
        above.max_by_key(|&item| (self.least_ns[item], std::cmp::Reverse(item)))
    }
}
