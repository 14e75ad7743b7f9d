//! Searches over ideals, by the dynamic program for periods and by the one with labels for iterations.

use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::ideals::IdealSearch;
use crate::exact::labelled_ideals;
use crate::exact::unordered_items::UnorderedSearch;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::Answer;

/// Passes over the ideals, each for a better plan than the last, until there is none.
pub(crate) fn over_ideals(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    let mut ideals = IdealSearch::new(&reduced.problem, search.control(), most_steps);
    ask_for_better(search, |limit_ns| (ideals.pass(limit_ns), ideals.ideals))
}

/// The same over ideals of the ordered items, and sets of the unordered ones.
pub(crate) fn over_unordered_items(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let reduced = search.reduced.clone();
    let Some(mut states) = UnorderedSearch::new(&reduced.problem, search.control(), most_steps) else {
        return StoppedBy::SizeLimit;
    };
    ask_for_better(search, |limit_ns| (states.pass(limit_ns), states.reached))
}

/// Passes, each for a better plan of the reduced problem than the last, until there is none; a pass also says how many states have been met.
fn ask_for_better(search: &mut HomogeneousSearch, mut pass: impl FnMut(u64) -> (Answer, usize)) -> StoppedBy {
    // Every turn but the last finds a better plan.
    loop {
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.incumbent.exhausted(BoundSource::WorkPerStage);
            return StoppedBy::Completed;
        };
        search.control().report(
            (search.incumbent.upper_ns < u64::MAX).then_some(search.incumbent.upper_ns),
            search.incumbent.lower_ns,
        );
        let (pass, ideals) = pass(limit_ns);
        search.incumbent.statistics.ideals = Some(ideals);
        match pass {
            Answer::Plan(assignment) => {
                let before_ns = search.incumbent.upper_ns;
                search.offer_reduced(&assignment);
                if search.incumbent.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
            }
            Answer::NoPlan { .. } => {
                search.incumbent.exhausted(BoundSource::Ideals);
                return StoppedBy::Completed;
            }
            Answer::Undecided => return StoppedBy::SizeLimit,
            Answer::Stopped(stopped_by) => return stopped_by,
        }
        if search.incumbent.is_done() {
            return StoppedBy::Completed;
        }
    }
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
