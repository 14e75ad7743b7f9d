//! Quick heuristics: plans before anything is proved.

use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::presolve::Reduced;
use crate::heuristics::{self, Effort};
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
