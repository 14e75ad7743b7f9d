//! The exact engine where devices have several chunks: bounds, and the program. The page is that of
//! [`crate::formulations::virtual_stages`].

mod bounds;
mod program;

use super::bounds::Bound;
use super::incumbent::Incumbent;
use super::method::Method;
use crate::control::Control;
use crate::plan::{Outcome, StoppedBy};
use crate::problem::Problem;
use crate::solver::SolverError;
use crate::virtual_stages::VirtualStages;

/// Solves a problem with virtual stages.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    problem: &Problem,
    of: &VirtualStages,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut incumbent = Incumbent::new(problem, control);
    if method != Method::Textbook {
        raise_simple_bound(&mut incumbent, of);
    }
    let stopped_by = program::search(&mut incumbent, of, labels)?;
    Ok(incumbent.finish(stopped_by))
}

/// Lower bounds alone.
pub(super) fn bound(problem: &Problem, of: &VirtualStages, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    raise_simple_bound(&mut incumbent, of);
    incumbent.finish(StoppedBy::Completed)
}

/// The best bound that takes no search, and what it says of the period in ns.
pub(super) fn simple_bound(problem: &Problem, of: &VirtualStages) -> (Bound, u64) {
    let bound = bounds::simple(problem, of);
    (bound, problem.settings.whole_ns(bound.bottleneck_ns))
}

fn raise_simple_bound(incumbent: &mut Incumbent, of: &VirtualStages) {
    let (bound, bound_ns) = simple_bound(incumbent.problem, of);
    incumbent.raise(bound.source, bound_ns);
}
