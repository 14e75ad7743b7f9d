//! The two halves of the engine at the same time: dynamic programs over ideals and the mixed-integer program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::exact::portfolio::STEPS_OF_PAIRS_BESIDE;
use crate::exact::portfolio::passes;
use crate::exact::portfolio::program::{self, Extent};
use crate::exact::search::Search;
use crate::plan::StoppedBy;
use crate::solver::SolverError;

/// How long the ideals are alone: a program that is begun cannot be stopped at once, and most ideals need less.
const HEAD_START: Duration = Duration::from_millis(50);

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
    search: &mut Search,
    most_steps: u64,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let is_over = AtomicBool::new(false);
    let control = Control {
        cancelled: Some(&is_over),
        ..search.control.clone()
    };
    let mut program = search.under(&control);
    let by_ideals = || {
        let has_pairs = control.switches.ideal_pairs;
        let over_pairs = has_pairs.then(|| passes::over_ideal_pairs(search, STEPS_OF_PAIRS_BESIDE));
        let stopped_by = match over_pairs.flatten() {
            Some(stopped_by) if search.is_over() => stopped_by,
            _ => passes::over_ideals(search, most_steps),
        };
        is_over.store(search.is_over(), Ordering::Relaxed);
        stopped_by
    };
    let started = Instant::now();
    let by_program = || {
        while started.elapsed() < HEAD_START && control.must_stop().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        program::search(&mut program, Extent::Presolved, labels)
    };
    let (by_ideals, by_program) = rayon::join(by_ideals, by_program);
    if search.is_over() {
        return Ok(by_ideals);
    }
    let stopped_by = by_program?;
    search.continue_from(program);
    Ok(stopped_by)
}
