//! The mixed-integer program, solved until nothing better is left.

use std::ops::ControlFlow;

use crate::exact::bounds;
use crate::exact::incumbent::Incumbent;
use crate::exact::program_runs::{Excluded, ProgramRuns, solve_once, take_bound};
use crate::formulations;
use crate::formulations::solver::{self, SolverError};
use crate::formulations::virtual_stages::ChunkProgram;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;

/// Solves the program again and again, each time for a plan better than the last, until there is none.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn search(
    incumbent: &mut Incumbent,
    of: &VirtualStages,
    labels: &[String],
) -> Result<StoppedBy, SolverError> {
    if formulations::bytes_of_program(incumbent.problem) > incumbent.control.room_bytes() {
        return Ok(StoppedBy::MemoryLimit);
    }
    let excluded = Excluded::default();
    let mut runs = ChunkRuns {
        incumbent,
        of,
        labels,
        excluded,
    };
    runs.run_all()
}

struct ChunkRuns<'s, 'a> {
    incumbent: &'s mut Incumbent<'a>,
    of: &'s VirtualStages,
    labels: &'s [String],
    excluded: Excluded,
}

impl<'a> ProgramRuns<'a> for ChunkRuns<'_, 'a> {
    fn incumbent(&mut self) -> &mut Incumbent<'a> {
        self.incumbent
    }

    fn run(&mut self) -> Result<ControlFlow<StoppedBy>, SolverError> {
        let incumbent = &mut *self.incumbent;
        let problem = incumbent.problem;
        // Midway to what the next plan may cost.
        let at_most_ns = match incumbent.has_plan() {
            true => incumbent.target_ns() as f64 + incumbent.quantum_ns as f64 / 2.0,
            false => bounds::all_in_one_ns(problem) as f64,
        };
        let mut built = ChunkProgram::build(problem, self.of, at_most_ns, self.labels);
        for (at, assignment) in self.excluded.0.iter().enumerate() {
            built.exclude(at, assignment);
        }
        let scale_ns = built.program.scale_ns;
        let solved = solve_once(
            incumbent,
            built.program.clone(),
            |bound| bound * scale_ns,
            |program, control, watch| solver::solve(program, None, None, control, watch),
        )?;
        let values = solved.values.as_deref();
        let found = values.and_then(|values| built.assignment(values));
        let offered = found.clone();
        let is_better = offered.is_some_and(|plan| incumbent.offer(plan.into()));
        take_bound(incumbent, &solved, found.is_some(), scale_ns);
        Ok(self.excluded.note(solved.stop, found, is_better))
    }
}
