//! The mixed-integer program, solved until nothing better is left.

use crate::exact::bounds;
use crate::exact::incumbent::Incumbent;
use crate::exact::tuning::TUNING;
use crate::formulations;
use crate::formulations::solver::{self, Report, SolverError, Stop};
use crate::formulations::virtual_stages::ChunkProgram;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;

/// Solves the program again and again, each time for a plan better than the last, until there is none.
///
/// As in [`crate::exact::homogeneous::program`]: only a run that ends without any solution proves the incumbent, and a solution that
/// costs no less, counted again in whole ns, is excluded.
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
    let mut excluded: Vec<Assignment> = Vec::new();
    while !incumbent.is_over() {
        if let Some(stopped_by) = incumbent.control.must_stop() {
            return Ok(stopped_by);
        }
        let before_ns = incumbent.upper_ns;
        let (stop, found) = run(incumbent, of, labels, &excluded)?;
        match (stop, found) {
            (Stop::Limit(stopped_by), _) => return Ok(stopped_by),
            (Stop::Infeasible, _) => return Ok(StoppedBy::Completed),
            (Stop::Optimal, _) if incumbent.upper_ns < before_ns => excluded.clear(),
            (Stop::Optimal, Some(assignment)) if excluded.len() < TUNING.solutions_excluded => {
                excluded.push(assignment);
            }
            (Stop::Optimal, _) => return Ok(StoppedBy::Completed),
        }
    }
    Ok(StoppedBy::Completed)
}

/// One run for plans better than the incumbent, but for some; why it stopped, and the solution.
fn run(
    incumbent: &mut Incumbent,
    of: &VirtualStages,
    labels: &[String],
    excluded: &[Assignment],
) -> Result<(Stop, Option<Assignment>), SolverError> {
    let problem = incumbent.problem;
    let target_ns = incumbent.target_ns();
    // Midway to what the next plan may cost.
    let at_most_ns = match incumbent.has_plan() {
        true => target_ns as f64 + incumbent.quantum_ns as f64 / 2.0,
        false => bounds::all_in_one_ns(problem) as f64,
    };
    let mut built = ChunkProgram::build(problem, of, at_most_ns, labels);
    for (at, assignment) in excluded.iter().enumerate() {
        built.exclude(at, assignment);
    }
    incumbent.statistics.binaries = built.program.binaries();
    let scale_ns = built.program.scale_ns;
    let (known_ns, lower_ns) = (incumbent.upper_ns, incumbent.lower_ns);
    let control = incumbent.control;
    let watch = |report: Report| {
        let found = report.primal_bound * scale_ns;
        let best_ns = match found.is_finite() {
            true => known_ns.min(found as u64),
            false => known_ns,
        };
        let bound_ns = (report.dual_bound * scale_ns).max(0.0) as u64;
        let bound_ns = bound_ns.max(lower_ns).min(best_ns);
        control.report((best_ns < u64::MAX).then_some(best_ns), bound_ns);
    };
    let solved = solver::solve(built.program.clone(), None, None, control, &watch)?;
    incumbent.statistics.nodes += solved.nodes;
    let found = solved
        .values
        .as_deref()
        .and_then(|values| built.assignment(values));
    if let Some(assignment) = &found {
        incumbent.offer(assignment.clone().into());
    }
    match solved.stop {
        Stop::Infeasible => incumbent.exhausted(BoundSource::Program),
        // What HiGHS proves around solutions of its own is not trusted.
        _ if found.is_some() => {}
        _ => {
            let bound_ns = bounds::integral_bound(solved.bound, scale_ns).min(target_ns);
            let bound_ns = bound_ns.min(incumbent.unproved_ns());
            incumbent.raise(BoundSource::Program, bound_ns);
        }
    }
    Ok((solved.stop, found))
}
