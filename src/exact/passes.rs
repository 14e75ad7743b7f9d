//! Searches over ideals, by the dynamic program for periods and by the oracle for iterations.

use super::bounds::Bound;
use super::ideal_pairs::PairSearch;
use super::ideals::{IdealSearch, Pass};
use super::search::Search;
use crate::heuristics::local_moves;
use crate::options::Communication;
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
/// more than the optimum, where pairs are few. A pass that takes much longer than those before is given up: its limit was too
/// loose, and lower ones tell more.
pub(super) fn over_ideal_pairs(search: &mut Search, most_steps: u64) -> StoppedBy {
    /// Of what is open, the step above the bound from which it only doubles. It starts from nothing: where work alone counts,
    /// optima lie some ns above the bound, and hardly any pair keeps a limit there.
    const DOUBLES_FROM: u64 = 1024;
    /// Of the incumbent, what is open before the next pass asks for anything better.
    const SMALL: u64 = 1 << 20;
    /// Halvings of what is open without a plan, after which it does so too.
    const PATIENCE: usize = 8;
    /// Steps of a pass at first, and how many times as many it may take where no lower limit tells more.
    const STEPS_OF_A_PASS: u64 = 10_000_000;
    const MORE: u64 = 8;
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let reduced = search.reduced.clone();
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.exhausted("work per stage");
        return StoppedBy::Completed;
    };
    let Some(mut pairs) = PairSearch::new(&reduced.problem, search.control, most_ns) else {
        return StoppedBy::SizeLimit;
    };
    let doubles_from_ns = (most_ns.saturating_sub(search.lower_bottleneck_ns)) / DOUBLES_FROM;
    let mut step_ns = 0;
    let mut halvings = 0;
    let mut steps_of_a_pass = match search.problem.settings.communication {
        // Pairs grow steadily with the limit, and a lower one tells little.
        Communication::Blocking => most_steps,
        Communication::Ignored | Communication::Overlapped => STEPS_OF_A_PASS,
    };
    let mut too_loose_ns = u64::MAX;
    while !search.is_over() {
        let Some(target_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        let open_ns = too_loose_ns
            .min(target_ns)
            .saturating_sub(search.lower_bottleneck_ns);
        halvings += usize::from(step_ns > open_ns / 2);
        let is_last = open_ns < target_ns / SMALL || halvings > PATIENCE;
        if is_last && too_loose_ns < target_ns {
            steps_of_a_pass = steps_of_a_pass.saturating_mul(MORE);
            too_loose_ns = u64::MAX;
            halvings = 0;
            continue;
        }
        let left = most_steps.saturating_sub(pairs.steps);
        let (limit_ns, steps) = match is_last {
            true => (target_ns, left),
            false => {
                let limit_ns = search.lower_bottleneck_ns + step_ns.min(open_ns / 2);
                (limit_ns, steps_of_a_pass.min(left))
            }
        };
        let until = pairs.steps.saturating_add(steps);
        let pass = pairs.pass(limit_ns, steps);
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
                step_ns = match step_ns < doubles_from_ns / MORE {
                    true => step_ns.max(1) * MORE,
                    false => step_ns.saturating_mul(2).max(doubles_from_ns).max(1),
                };
            }
            Pass::Stopped(StoppedBy::SizeLimit) if pairs.steps > until && pairs.steps < most_steps => {
                too_loose_ns = limit_ns;
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
