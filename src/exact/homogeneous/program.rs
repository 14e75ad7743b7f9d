//! The mixed-integer program of a search, solved until nothing better is left.

use crate::exact::bounds;
use crate::exact::closure::Closure;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::stage_bounds;
use crate::exact::tuning::TUNING;
use crate::exact::windows;
use crate::exact::windows::boundaries::{self, Limits, ProbeBudget};
use crate::formulations;
use crate::formulations::partition::{Interest, Partition};
use crate::formulations::solver::Report;
use crate::formulations::solver::{self, SolverError, Stop};
use crate::formulations::staging::Windows;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// How much of the program is built, and how long it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it, and there is no limit but those of the search. Its first run has no cut-off.
    Textbook,
    /// What the incumbent leaves: the problem is reduced, items keep to their windows, and runs end after so many nodes each, if any.
    Presolved(Option<u64>),
}

/// Solves the mixed-integer program again and again, each time for a plan better than the last, until there is none.
///
/// Only a run that ends without any solution proves the incumbent. HiGHS 1.11 to 1.15.1 sometimes call a solution optimal
/// that is not, when their own heuristics found it during the run (6 of 20,000 small random programs, such as seed 1199
/// of `tests/exact/exact.rs`); asked for anything better than that solution, they find it.
///
/// The solver's tolerance proves nothing: a solution that costs no less than the incumbent, counted again in whole ns, is
/// excluded by a row of its own and the program solved again; after a few of them the search ends without a proof.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn search(
    search: &mut HomogeneousSearch,
    extent: Extent,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let presolve = extent != Extent::Textbook;
    let mut excluded: Vec<Assignment> = Vec::new();
    // Every turn finds a better plan, excludes one of few solutions, or is the last.
    loop {
        if let Some(stopped_by) = search.control().must_stop() {
            return Ok(stopped_by);
        }
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.incumbent.exhausted(BoundSource::WorkPerStage);
            return Ok(StoppedBy::Completed);
        };
        if presolve {
            search.presolve(limit_ns);
        }
        let problem = &search.reduced.problem;
        if formulations::bytes_of_program(problem) > search.control().room_bytes() {
            return Ok(StoppedBy::MemoryLimit);
        }
        let windows = match presolve && search.control().switches.windows {
            true => windows_within(search, limit_ns),
            false => Some(Windows::all(problem)),
        };
        let Some(windows) = windows else {
            search.incumbent.exhausted(BoundSource::Windows);
            return Ok(StoppedBy::Completed);
        };
        let most_nodes = match extent {
            Extent::Textbook => None,
            Extent::Presolved(most_nodes) => most_nodes,
        };
        let before_ns = search.incumbent.upper_ns;
        let asked = Asked {
            windows: &windows,
            limit_ns,
            excluded: &excluded,
            most_nodes,
        };
        let (stop, found) = run(search, asked, labels)?;
        match stop {
            Stop::Limit(stopped_by) => return Ok(stopped_by),
            Stop::Infeasible => return Ok(StoppedBy::Completed),
            Stop::Optimal if search.incumbent.is_done() => return Ok(StoppedBy::Completed),
            Stop::Optimal if search.incumbent.upper_ns == before_ns => match found {
                Some(assignment) if excluded.len() < TUNING.solutions_excluded => excluded.push(assignment),
                _ => return Ok(StoppedBy::Completed),
            },
            Stop::Optimal if presolve => {
                // Reduced for the better plan, the problem has other items.
                excluded.clear();
                // The better plan may be one that the anchored bound proves, which is cheaper than another run.
                stage_bounds::raise_by_anchors(search, labels)?;
                if search.incumbent.is_done() {
                    return Ok(StoppedBy::Completed);
                }
            }
            Stop::Optimal => excluded.clear(),
        }
    }
}

/// The windows of the reduced problem's items; `None` if no plan of interest is left.
fn windows_within(search: &HomogeneousSearch, limit_ns: u64) -> Option<Windows> {
    let problem = &search.reduced.problem;
    if !Closure::has_room(problem, search.control()) {
        return Some(Windows::all(problem));
    }
    let closure = Closure::new(problem);
    let mut windows = windows::within(problem, &closure, limit_ns);
    if windows.some_is_empty() || !search.control().switches.boundaries {
        return (!windows.some_is_empty()).then_some(windows);
    }
    let limits = Limits {
        bottleneck_ns: limit_ns,
        least_bottleneck_ns: search.lower_bottleneck_ns,
        objective_ns: search.incumbent.target_ns(),
    };
    let must_stop = || search.control().must_stop().is_some();
    boundaries::narrow(
        problem,
        &closure,
        limits,
        &mut windows,
        ProbeBudget::usual(&must_stop),
    )
    .then_some(windows)
}

/// What is asked of one run: plans of at most the search's target, but for some.
struct Asked<'a> {
    windows: &'a Windows,
    /// The largest bottleneck of interest.
    limit_ns: u64,
    /// Solutions that are left out.
    excluded: &'a [Assignment],
    /// Branch-and-bound nodes after which it stops.
    most_nodes: Option<u64>,
}

/// One run of the program; why it stopped, and the solution.
fn run(
    search: &mut HomogeneousSearch,
    asked: Asked,
    labels: &[String],
) -> Result<(Stop, Option<Assignment>), SolverError> {
    let problem = &search.reduced.problem;
    let (incumbent_ns, lower_ns, target_ns) = (
        search.incumbent.upper_ns,
        search.incumbent.lower_ns,
        search.incumbent.target_ns(),
    );
    let labels = search.reduced.labels(labels);
    let interest = Interest {
        bottleneck_from_ns: search.lower_bottleneck_ns,
        bottleneck_to_ns: asked.limit_ns,
        objective_to_ns: Some(target_ns),
        quantum_ns: bounds::time_quantum_ns(problem),
    };
    let Partition { mut program, columns } = Partition::build(problem, asked.windows, interest, &labels);
    for (at, assignment) in asked.excluded.iter().enumerate() {
        columns.exclude(&mut program, at, assignment);
    }
    search.incumbent.statistics.binaries = program.binaries();
    let scale_ns = program.scale_ns;
    let control: &Control = search.control();
    let watch = |report: Report| {
        let found = report
            .primal_bound
            .is_finite()
            .then_some(report.primal_bound * scale_ns);
        let best = found.map_or(incumbent_ns, |ns| incumbent_ns.min(ns as u64));
        let bound_ns = (report.dual_bound * scale_ns).max(0.0) as u64;
        control.report(
            (best < u64::MAX).then_some(best),
            bound_ns.max(lower_ns).min(best),
        );
    };
    let solved = solver::solve(program, None, asked.most_nodes, control, &watch)?;
    search.incumbent.statistics.nodes += solved.nodes;
    let found = solved
        .values
        .as_deref()
        .and_then(|values| columns.assignment(values));
    if let Some(assignment) = &found {
        search.offer_reduced(assignment);
    }
    match solved.stop {
        Stop::Infeasible => search.incumbent.exhausted(BoundSource::Program),
        // What HiGHS proves around solutions of its own is not trusted, see `search`.
        _ if found.is_some() => {}
        _ => {
            let unproved_ns = search.incumbent.unproved_ns();
            let bound_ns = bounds::integral_bound(solved.bound, scale_ns).min(target_ns);
            search
                .incumbent
                .raise(BoundSource::Program, bound_ns.min(unproved_ns));
        }
    }
    Ok((solved.stop, found))
}
