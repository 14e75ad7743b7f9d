//! The two halves of the engine at the same time: dynamic programs over ideals and the mixed-integer program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::exact::homogeneous::program::{self, Extent};
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::{destructive, ideals};
use crate::exact::tuning::{Round, TUNING};
use crate::plan::StoppedBy;
use crate::solver::SolverError;

/// Searches both ways from the same state, on two threads where there are two, until one of them is over or both have done what the
/// round allows: then what both have found counts.
///
/// Steps and nodes are counted, not timed. So objective, bound and status of a finished round are the same whatever the number of threads;
/// of several best plans, the one of whoever is over first is reported.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn search(
    search: &mut HomogeneousSearch,
    round: Round,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let switches = search.control().switches;
    if !(switches.parallel && switches.ideals && switches.program) {
        return one_after_the_other(search, round, labels);
    }
    let is_over = AtomicBool::new(false);
    let control = Control {
        cancelled: Some(&is_over),
        ..search.control().clone()
    };
    let known = search.plans.len();
    let [mut by_ideals, mut by_program] = [search.under(&control), search.under(&control)];
    let ends = |half: &HomogeneousSearch| is_over.fetch_or(half.incumbent.is_over(), Ordering::Relaxed);
    let ideals = || {
        over_ideals(&mut by_ideals, round);
        ends(&by_ideals);
    };
    let started = Instant::now();
    let program = || {
        while started.elapsed() < TUNING.head_start_of_ideals && control.must_stop().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stopped_by = program::search(&mut by_program, Extent::Presolved(round.nodes), labels);
        ends(&by_program);
        stopped_by
    };
    let ((), program) = rayon::join(ideals, program);
    search.join(by_ideals, known);
    search.join(by_program, known);
    match search.incumbent.is_over() {
        true => Ok(StoppedBy::Completed),
        false => program,
    }
}

/// Both halves without the other beside them, those that are switched on.
fn one_after_the_other(
    search: &mut HomogeneousSearch,
    round: Round,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let switches = search.control().switches;
    let mut stopped_by = StoppedBy::SizeLimit;
    if switches.ideals {
        stopped_by = over_ideals(search, round);
    }
    let must_stop = search.control().must_stop().is_some();
    if switches.program && !search.incumbent.is_over() && !must_stop {
        stopped_by = program::search(search, Extent::Presolved(round.nodes), labels)?;
    }
    Ok(stopped_by)
}

/// Pairs of ideals where there are any, else ideals.
fn over_ideals(search: &mut HomogeneousSearch, round: Round) -> StoppedBy {
    let has_pairs = search.control().switches.ideal_pairs;
    let over_pairs = has_pairs.then(|| destructive::over_ideal_pairs(search, round.pairs));
    match over_pairs.flatten() {
        Some(stopped_by) if search.incumbent.is_over() => stopped_by,
        _ => ideals::over_ideals(search, round.ideals),
    }
}
