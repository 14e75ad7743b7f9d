//! Searches over ideals, by the dynamic program for periods and by the oracle for iterations.

use super::bounds::Bound;
use super::ideal_pairs::PairSearch;
use super::ideals::{IdealSearch, Pass};
use super::search::Search;
use crate::heuristics::local_moves;
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

/// Passes over pairs of ideals with limits from below: each tells the bound or the incumbent, so that no pass asks for much
/// more than the optimum, where pairs are few.
pub(super) fn over_ideal_pairs(search: &mut Search, most_steps: u64) -> StoppedBy {
    /// The first step above the bound, as a part of what is open.
    const FIRST_STEP: u64 = 1024;
    /// Of the incumbent, what is open before the next pass asks for anything better.
    const SMALL: u64 = 1 << 20;
    /// Halvings of what is open without a plan, after which it does so too.
    const PATIENCE: usize = 8;
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let reduced = search.reduced.clone();
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.exhausted("work per stage");
        return StoppedBy::Completed;
    };
    let Some(mut pairs) = PairSearch::new(&reduced.problem, search.control, most_ns, most_steps) else {
        return StoppedBy::SizeLimit;
    };
    let mut step_ns = (most_ns.saturating_sub(search.lower_bottleneck_ns)) / FIRST_STEP;
    let mut halvings = 0;
    while !search.is_over() {
        let Some(target_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        let open_ns = target_ns.saturating_sub(search.lower_bottleneck_ns);
        halvings += usize::from(step_ns > open_ns / 2);
        let limit_ns = match open_ns < target_ns / SMALL || halvings > PATIENCE {
            true => target_ns,
            false => search.lower_bottleneck_ns + step_ns.min(open_ns / 2),
        };
        let pass = pairs.pass(limit_ns);
        search.statistics.ideals = Some(pairs.ideals);
        match pass {
            Pass::Found(assignment) => {
                halvings = 0;
                let before_ns = search.upper_ns;
                let plan = search.reduced.lift(&assignment);
                search.offer(local_moves::improve(search.problem, plan));
                if search.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
            }
            Pass::Exhausted if limit_ns == target_ns => {
                search.exhausted("pairs of ideals");
                return StoppedBy::Completed;
            }
            Pass::Exhausted => {
                search.raise_bottleneck(Bound {
                    source: "pairs of ideals",
                    bottleneck_ns: limit_ns + 1,
                });
                step_ns = step_ns.saturating_mul(2).max(1);
            }
            Pass::Stopped(stopped_by) => return stopped_by,
        }
    }
    StoppedBy::Completed
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
