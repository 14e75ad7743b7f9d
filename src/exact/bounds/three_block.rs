//! The three-block bound: no plan of interest where the blocks around one stage cannot keep the bottleneck.

use crate::exact::bounds;
use crate::exact::portfolio::program::integral_bound;
use crate::exact::search::Search;
use crate::formulations::three_block;
use crate::solver::{self, SolverError, Stop};

/// Branch-and-bound nodes of one program.
const MOST_NODES: u64 = 50;

/// Raises the bound of a search by the three blocks around each stage, the middle ones first.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn raise(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let Some(target_ns) = search
        .target_bottleneck_ns()
        .filter(|_| search.control.switches.three_block && !search.is_over())
    else {
        return Ok(());
    };
    search.presolve(target_ns);
    let labels = search.reduced.labels(labels);
    let stages = search.reduced.problem.stages();
    let three = search.reduced.problem.before_in_after();
    let control = search.control.elsewhere();
    let mut middles: Vec<usize> = (0..stages).collect();
    middles.sort_by_key(|&before| (2 * before + 1).abs_diff(stages));
    for before in middles {
        let program = three_block::build(&three, before, stages - 1 - before, target_ns, &labels);
        let scale_ns = program.scale_ns;
        let solved = solver::solve(program, None, Some(MOST_NODES), &control, &|_| ())?;
        match solved.stop {
            Stop::Infeasible => {
                search.exhausted(SOURCE);
                return Ok(());
            }
            Stop::Limit(_) if control.must_stop().is_some() => return Ok(()),
            Stop::Limit(_) | Stop::Optimal => {
                let bottleneck_ns = integral_bound(solved.bound, scale_ns).min(target_ns);
                let bound_ns = bounds::objective_from_bottleneck(search.problem, bottleneck_ns);
                search.raise(SOURCE, bound_ns.min(search.unproved_ns()));
            }
        }
    }
    Ok(())
}

/// Name in reports.
const SOURCE: &str = "three-block";
