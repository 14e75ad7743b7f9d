//! The two halves of the engine at the same time: dynamic programs over ideals and the mixed-integer program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::exact::homogeneous::program::{self, Extent};
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::{destructive, ideals};
use crate::exact::tuning::TUNING;
use crate::plan::StoppedBy;
use crate::solver::SolverError;

/// Searches both ways from the same state, on two threads where there are two.
///
/// The ideals' answer counts if they finish within their steps, whoever is first, and the program is told to stop; else
/// the program's answer counts, which started without knowing of the ideals. Steps are counted, not timed, so that the
/// answer is the same whatever the number of threads; the head start only decides how soon it comes.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down and the ideals do not finish.
pub(crate) fn search(
    search: &mut HomogeneousSearch,
    most_steps: u64,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let switches = search.control().switches;
    if !(switches.parallel && switches.ideals && switches.program) {
        return one_after_the_other(search, most_steps, labels);
    }
    let is_over = AtomicBool::new(false);
    let control = Control {
        cancelled: Some(&is_over),
        ..search.control().clone()
    };
    let mut by_program = search.under(&control);
    let ideals = || {
        let stopped_by = over_ideals(search, most_steps);
        is_over.store(search.incumbent.is_over(), Ordering::Relaxed);
        stopped_by
    };
    let started = Instant::now();
    let program = || {
        while started.elapsed() < TUNING.head_start_of_ideals && control.must_stop().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        program::search(&mut by_program, Extent::Presolved, labels)
    };
    let (ideals, program) = rayon::join(ideals, program);
    if search.incumbent.is_over() {
        return Ok(ideals);
    }
    let stopped_by = program?;
    search.continue_from(by_program);
    Ok(stopped_by)
}

/// Both halves without the other beside them, those that are switched on.
fn one_after_the_other(
    search: &mut HomogeneousSearch,
    most_steps: u64,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let switches = search.control().switches;
    let mut stopped_by = StoppedBy::SizeLimit;
    if switches.ideals {
        stopped_by = over_ideals(search, most_steps);
    }
    let must_stop = search.control().must_stop().is_some();
    if switches.program && !search.incumbent.is_over() && !must_stop {
        stopped_by = program::search(search, Extent::Presolved, labels)?;
    }
    Ok(stopped_by)
}

/// Pairs of ideals where there are any, else ideals.
fn over_ideals(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    let has_pairs = search.control().switches.ideal_pairs;
    let over_pairs = has_pairs.then(|| destructive::over_ideal_pairs(search, TUNING.steps_of_pairs_beside));
    match over_pairs.flatten() {
        Some(stopped_by) if search.incumbent.is_over() => stopped_by,
        _ => ideals::over_ideals(search, most_steps),
    }
}
