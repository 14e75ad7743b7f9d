//! The mixed-integer program of a search, solved until nothing better is left.

use std::ops::ControlFlow;

use crate::exact::bounds;
use crate::exact::closure::Closure;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::homogeneous::stage_bounds;
use crate::exact::incumbent::Incumbent;
use crate::exact::program_runs::{Excluded, ProgramRuns, solve_once, take_bound};
use crate::exact::windows;
use crate::formulations;
use crate::formulations::partition::{Interest, Partition};
use crate::formulations::solver::{self, SolverError, Stop};
use crate::formulations::staging::Windows;
use crate::problem::bound_source::BoundSource;
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
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn search(
    search: &mut HomogeneousSearch,
    extent: Extent,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    let excluded = Excluded::default();
    let mut runs = PartitionRuns {
        search,
        extent,
        labels,
        excluded,
    };
    runs.run_all()
}

struct PartitionRuns<'s, 'a> {
    search: &'s mut HomogeneousSearch<'a>,
    extent: Extent,
    labels: &'s [String],
    excluded: Excluded,
}

impl<'a> ProgramRuns<'a> for PartitionRuns<'_, 'a> {
    fn incumbent(&mut self) -> &mut Incumbent<'a> {
        &mut self.search.incumbent
    }

    fn run(&mut self) -> Result<ControlFlow<StoppedBy>, SolverError> {
        let completed = Ok(ControlFlow::Break(StoppedBy::Completed));
        let search = &mut *self.search;
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.incumbent.exhausted(BoundSource::WorkPerStage);
            return completed;
        };
        let (is_reduced, most_nodes) = match self.extent {
            Extent::Textbook => (false, None),
            Extent::Presolved(most_nodes) => (true, most_nodes),
        };
        if is_reduced {
            search.presolve(limit_ns);
        }
        let problem = &search.reduced.problem;
        if formulations::bytes_of_program(problem) > search.control().room_bytes() {
            return Ok(ControlFlow::Break(StoppedBy::MemoryLimit));
        }
        let windows = match is_reduced && search.control().switches.windows {
            true => windows_within(search, limit_ns),
            false => Some(Windows::all(problem)),
        };
        let Some(windows) = windows else {
            search.incumbent.exhausted(BoundSource::Windows);
            return completed;
        };
        let Partition { program, columns } = self.built(&windows, limit_ns);
        let scale_ns = program.scale_ns;
        let search = &mut *self.search;
        let solved = solve_once(
            &mut search.incumbent,
            program,
            |bound| bound * scale_ns,
            |program, control, watch| solver::solve(program, None, most_nodes, control, watch),
        )?;
        let values = solved.values.as_deref();
        let found = values.and_then(|values| columns.assignment(values));
        let is_better = found.as_ref().is_some_and(|plan| search.offer_reduced(plan));
        take_bound(&mut search.incumbent, &solved, found.is_some(), scale_ns);
        if is_better && is_reduced && solved.stop == Stop::Optimal && !search.incumbent.is_done() {
            // The better plan may be one that the anchored bound proves, which is cheaper than another run.
            stage_bounds::raise_by_anchors(search, self.labels)?;
        }
        // Reduced for a better plan, the problem has other items: solutions are excluded until then.
        Ok(self.excluded.note(solved.stop, found, is_better))
    }
}

impl PartitionRuns<'_, '_> {
    /// The program of plans of at most the search's target, without those that are excluded.
    fn built(&self, windows: &Windows, limit_ns: u64) -> Partition {
        let search = &self.search;
        let problem = &search.reduced.problem;
        let interest = Interest {
            bottleneck_from_ns: search.lower_bottleneck_ns,
            bottleneck_to_ns: limit_ns,
            objective_to_ns: Some(search.incumbent.target_ns()),
            quantum_ns: bounds::time_quantum_ns(problem),
        };
        let labels = search.reduced.labels(self.labels);
        let mut built = Partition::build(problem, windows, interest, &labels);
        for (at, assignment) in self.excluded.0.iter().enumerate() {
            built.columns.exclude(&mut built.program, at, assignment);
        }
        built
    }
}

/// The windows of the reduced problem's items; `None` if no plan of interest is left.
fn windows_within(search: &HomogeneousSearch, limit_ns: u64) -> Option<Windows> {
    let problem = &search.reduced.problem;
    if !Closure::has_room(problem, search.control()) {
        return Some(Windows::all(problem));
    }
    let closure = Closure::new(problem);
    let windows = windows::within(problem, &closure, limit_ns);
    (!windows.some_is_empty()).then_some(windows)
}
