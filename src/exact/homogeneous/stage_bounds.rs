//! Bounds from one stage at a time: what no stage of a plan can do, no plan can.

use crate::exact::bounds::anchored::{self, KnownStages, refutes, whole_stages};
use crate::exact::bounds::{self, Bound};
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::tuning::TUNING;
use crate::formulations::solver::{self, SolverError, Stop};
use crate::formulations::three_block;
use crate::problem::bound_source::BoundSource;

/// Raises the bound of a search by the items whose every known stage is as busy as the incumbent.
///
/// Proves the incumbent where some item has no stage that is less busy.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn raise_by_anchors(search: &mut HomogeneousSearch, labels: &[String]) -> Result<(), SolverError> {
    let Some(target_ns) = search.target_bottleneck_ns() else {
        return Ok(());
    };
    search.presolve(target_ns);
    // Of plans beyond the target the reduced problem says nothing.
    let least_ns = anchored::by_cuts(&search.reduced.problem, search.control());
    search.raise_bottleneck(Bound {
        source: BoundSource::AnchoredStage,
        bottleneck_ns: least_ns.min(target_ns + 1),
    });
    if search.incumbent.is_over() {
        return Ok(());
    }
    let problem = &search.reduced.problem;
    let labels = &search.reduced.labels(labels);
    let mut known = KnownStages::of_anchors(problem, |_| true);
    for plan in &search.plans {
        whole_stages(&search.reduced, plan)
            .iter()
            .for_each(|stage| known.learn(problem, stage));
    }
    if refutes(problem, labels, known, target_ns, search.control())? {
        search.incumbent.exhausted(BoundSource::AnchoredStage);
    }
    Ok(())
}

/// Raises the bound of a search by the three blocks around each stage, the middle ones first.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn raise_by_three_blocks(
    search: &mut HomogeneousSearch,
    labels: &[String],
) -> Result<(), SolverError> {
    let Some(target_ns) = search.target_bottleneck_ns() else {
        return Ok(());
    };
    search.presolve(target_ns);
    let labels = search.reduced.labels(labels);
    let stages = search.reduced.problem.stages();
    let three = search.reduced.problem.before_in_after();
    let control = search.control().elsewhere();
    let mut middles: Vec<usize> = (0..stages).collect();
    middles.sort_by_key(|&before| (2 * before + 1).abs_diff(stages));
    for before in middles {
        let program = three_block::build(&three, before, stages - 1 - before, target_ns, &labels);
        let scale_ns = program.scale_ns;
        let most_nodes = Some(TUNING.nodes_of_three_blocks);
        let solved = solver::solve(program, None, most_nodes, &control, &|_| ())?;
        match solved.stop {
            Stop::Infeasible => {
                search.incumbent.exhausted(BoundSource::ThreeBlock);
                return Ok(());
            }
            Stop::Limit(_) if control.must_stop().is_some() => return Ok(()),
            Stop::Limit(_) | Stop::Optimal => {
                let bottleneck_ns = bounds::integral_bound(solved.bound, scale_ns).min(target_ns);
                let bound_ns = bounds::objective_from_bottleneck(search.problem(), bottleneck_ns);
                let unproved_ns = search.incumbent.unproved_ns();
                search
                    .incumbent
                    .raise(BoundSource::ThreeBlock, bound_ns.min(unproved_ns));
            }
        }
    }
    Ok(())
}
