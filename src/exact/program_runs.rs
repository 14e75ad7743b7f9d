//! Mixed-integer programs that are solved again and again, each time for a plan better than the last, until there is none.
//!
//! Only a run that ends without any solution proves the incumbent. HiGHS 1.11 to 1.15.1 sometimes call a solution optimal that is not, when
//! their own heuristics found it during the run (6 of 20,000 small random programs, such as seed 1199 of `tests/exact/exact.rs`); asked for
//! anything better than that solution, they find it.

use std::ops::ControlFlow;

use crate::exact::bounds;
use crate::exact::incumbent::Incumbent;
use crate::exact::tuning::TUNING;
use crate::formulations::Program;
use crate::formulations::solver::{Report, Solved, SolverError, Stop};
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// A program that is solved again for each incumbent.
pub(super) trait ProgramRuns<'a> {
    /// What is known.
    fn incumbent(&mut self) -> &mut Incumbent<'a>;

    /// One run; goes on where it leaves a better plan to look for.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    fn run(&mut self) -> Result<ControlFlow<StoppedBy>, SolverError>;

    /// Runs until nothing is left to do, or a limit comes first.
    ///
    /// # Errors
    ///
    /// Those of a run.
    fn run_all(&mut self) -> Result<StoppedBy, SolverError> {
        while !self.incumbent().is_over() {
            if let Some(stopped_by) = self.incumbent().control.must_stop() {
                return Ok(stopped_by);
            }
            if let ControlFlow::Break(stopped_by) = self.run()? {
                return Ok(stopped_by);
            }
        }
        Ok(StoppedBy::Completed)
    }
}

/// Solves a program by one of the ways that the solver has, shows what it reports, in ns, and counts its nodes.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve_once<S>(
    incumbent: &mut Incumbent,
    program: Program,
    ns: impl Fn(f64) -> f64,
    solve: S,
) -> Result<Solved, SolverError>
where
    S: FnOnce(Program, &Control, &dyn Fn(Report)) -> Result<Solved, SolverError>,
{
    incumbent.statistics.binaries = program.binaries();
    let watch = |report: Report| {
        let is_found = report.primal_bound.is_finite();
        let found_ns = if is_found {
            ns(report.primal_bound) as u64
        } else {
            u64::MAX
        };
        let best_ns = incumbent.upper_ns.min(found_ns);
        let bound_ns = (ns(report.dual_bound) as u64)
            .max(incumbent.lower_ns)
            .min(best_ns);
        let shown_ns = (best_ns < u64::MAX).then_some(best_ns);
        incumbent.control.report(shown_ns, bound_ns);
    };
    let solved = solve(program, incumbent.control, &watch)?;
    incumbent.statistics.nodes += solved.nodes;
    Ok(solved)
}

/// Takes what a run has proved of plans of interest. What HiGHS proves around solutions of its own is not trusted.
pub(super) fn take_bound(incumbent: &mut Incumbent, solved: &Solved, has_found: bool, scale_ns: f64) {
    match solved.stop {
        Stop::Infeasible => incumbent.exhausted(BoundSource::Program),
        _ if has_found => {}
        _ => {
            let bound_ns = bounds::integral_bound(solved.bound, scale_ns);
            incumbent.raise(BoundSource::Program, bound_ns.min(incumbent.unproved_ns()));
        }
    }
}

/// Solutions that cost no less than the incumbent, counted again in whole ns: a row of its own leaves out each, since the solver's tolerance
/// proves nothing; after a few of them a search ends without a proof.
#[derive(Default)]
pub(super) struct Excluded(pub Vec<Assignment>);

impl Excluded {
    /// Notes what a run has found, and whether that is better than the incumbent; goes on where another may find more.
    pub(super) fn note(
        &mut self,
        stop: Stop,
        found: Option<Assignment>,
        is_better: bool,
    ) -> ControlFlow<StoppedBy> {
        match (stop, found) {
            (Stop::Limit(stopped_by), _) => return ControlFlow::Break(stopped_by),
            (Stop::Optimal, _) if is_better => self.0.clear(),
            (Stop::Optimal, Some(found)) if self.0.len() < TUNING.solutions_excluded => self.0.push(found),
            (Stop::Optimal | Stop::Infeasible, _) => return ControlFlow::Break(StoppedBy::Completed),
        }
        ControlFlow::Continue(())
    }
}
