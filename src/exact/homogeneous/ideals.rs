//! Searches over ideals, by the dynamic program for periods and by the one with labels for iterations.

use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::ideals::IdealSearch;
use crate::exact::labelled_ideals;
use crate::exact::presolve::Reduced;
use crate::exact::unordered_items::UnorderedSearch;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::{self, Answer, Asked};

/// Passes over the ideals, each for a better plan than the last, until there is none.
pub(crate) fn over_ideals(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    let reduced = reduced(search);
    let mut ideals = IdealSearch::new(&reduced.problem, search.control(), most_steps);
    ask_for_better(search, |limit_ns| (ideals.pass(limit_ns), ideals.ideals))
}

/// The same over ideals of the ordered items, and sets of the unordered ones.
pub(crate) fn over_unordered_items(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    let reduced = reduced(search);
    let Some(mut states) = UnorderedSearch::new(&reduced.problem, search.control(), most_steps) else {
        return StoppedBy::SizeLimit;
    };
    ask_for_better(search, |limit_ns| {
        let answer = states.pass(limit_ns);
        (answer.map(|plan| plan.assignment), states.reached)
    })
}

/// The problem for this incumbent; it stays right for better ones.
fn reduced(search: &mut HomogeneousSearch) -> Reduced {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    search.reduced.clone()
}

/// Passes over the reduced problem; each also says how many states have been met.
fn ask_for_better(search: &mut HomogeneousSearch, mut pass: impl FnMut(u64) -> (Answer, usize)) -> StoppedBy {
    let mut passes = Asked {
        source: Some(BoundSource::Ideals),
        halving: None,
        decide: |search: &mut HomogeneousSearch, limit_ns| {
            let (answer, met) = pass(limit_ns);
            search.incumbent.statistics.ideals = Some(met);
            answer.map(|plan| search.reduced.lift(&plan))
        },
    };
    limits::search(search, &mut passes)
}

/// The dynamic program over ideals with labels, which weighs sums and maxima together: iterations need that, and pay for it.
pub(crate) fn over_labelled_ideals(search: &mut HomogeneousSearch) -> StoppedBy {
    let control = search.control();
    let solved = labelled_ideals::solve(search.problem(), labelled_ideals::DEFAULT_CAP, &|| {
        control.must_stop().is_some()
    });
    match solved {
        Ok(solution) => {
            search.incumbent.statistics.ideals = Some(solution.ideals);
            if let Some((assignment, _)) = solution.best {
                search.offer(assignment);
            }
            search.incumbent.exhausted(BoundSource::Ideals);
            StoppedBy::Completed
        }
        Err(_) => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}
