//! Quick heuristics, and the thorough one: plans before anything is proved.

use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::stage_bounds;
use crate::exact::presolve::Reduced;
use crate::formulations::solver::SolverError;
use crate::heuristics::{self, Effort, rebalance};
use crate::problem::{Assignment, Problem};

/// Runs every quick heuristic; with separate cuts also on the problem with tied ones, whose plans are plans for both.
pub(crate) fn find_incumbents(search: &mut HomogeneousSearch) {
    let problem = search.problem();
    offer_quick_plans(search, problem, |plan| plan);
    if !problem.ties.is_empty() {
        let tied = Reduced::tied(problem);
        offer_quick_plans(search, &tied.problem, |plan| tied.lift(&plan));
    }
}

fn offer_quick_plans(
    search: &mut HomogeneousSearch,
    problem: &Problem,
    lift: impl Fn(Assignment) -> Assignment,
) {
    let quick = |heuristic: &&heuristics::Heuristic| heuristic.effort == Effort::Quick;
    for heuristic in heuristics::METHODS.iter().filter(quick) {
        let control = search.control();
        if let Some(plan) = heuristic.plan(problem, control.seed, &|| control.must_stop().is_some()) {
            search.offer(lift(plan.assignment));
        }
        if control.must_stop().is_some() {
            return;
        }
    }
}

/// Runs the thorough heuristic from all plans so far, and the anchored stage bound again if it finds a better one.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn evolve(search: &mut HomogeneousSearch, labels: &[String]) -> Result<(), SolverError> {
    let control = search.control();
    let must_stop = || control.must_stop().is_some();
    let better = heuristics::brkga::evolve(search.problem(), control.seed, &search.plans, &must_stop);
    match better.is_some_and(|plan| search.offer(plan)) && control.switches.anchored {
        true => stage_bounds::raise_by_anchors(search, labels),
        false => Ok(()),
    }
}

/// Rebalances the best plan of a period, where a bound leaves something open.
pub(crate) fn rebalance(search: &mut HomogeneousSearch) {
    let control = search.control();
    let must_stop = || control.must_stop().is_some();
    if let Some(best) = search.best() {
        // Another seed for every plan.
        let seed = control.seed + search.plans.len() as u64;
        let goal_ns = search.lower_bottleneck_ns;
        let plan = rebalance::rebalance(search.problem(), best, goal_ns, seed, &must_stop);
        search.offer(plan);
    }
}
