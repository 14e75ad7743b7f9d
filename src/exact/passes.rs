//! Searches over ideals, by the dynamic program for periods and by the oracle for iterations.

use super::ideals::{IdealSearch, Pass};
use super::search::Search;
use crate::oracles;
use crate::plan::StoppedBy;

/// Passes over the ideals, each for a better plan than the last, until there is none.
pub(super) fn over_ideals(search: &mut Search, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    let mut ideals = IdealSearch::new(&reduced.problem, search.control, most_steps);
    loop {
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        search.control.report(
            (search.upper_ns < u64::MAX).then_some(search.upper_ns),
            search.lower_ns,
        );
        let pass = ideals.pass(limit_ns);
        search.statistics.ideals = Some(ideals.ideals);
        match pass {
            Pass::Found(assignment) => search.offer_reduced(&assignment),
            Pass::Exhausted => {
                search.exhausted("ideals");
                return StoppedBy::Completed;
            }
            Pass::Stopped(stopped_by) => return stopped_by,
        }
        if search.is_done() {
            return StoppedBy::Completed;
        }
    }
}

/// The oracle over ideals, which weighs sums and maxima together: iterations need that, and pay for it.
pub(super) fn over_labelled_ideals(search: &mut Search) -> StoppedBy {
    let control = search.control;
    let solved = oracles::ideals::solve(search.problem, oracles::ideals::DEFAULT_CAP, &|| {
        control.must_stop().is_some()
    });
    match solved {
        Ok(solution) => {
            search.statistics.ideals = Some(solution.ideals);
            if let Some((assignment, _)) = solution.best {
                search.offer(assignment);
            }
            search.exhausted("ideals");
            StoppedBy::Completed
        }
        Err(_) => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}
