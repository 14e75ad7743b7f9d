//! The tree search over ideals as a step: periods of problems without transfers.

use crate::exact::bounds::Bound;
use crate::exact::closure::Closure;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::ideal_tree::Line;
use crate::exact::ideal_tree::search::{self, Effort, Ending, Known};
use crate::exact::ideals::growth;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;

/// Searches the tree of ideals with so much work at most.
pub(crate) fn over_ideals(search: &mut HomogeneousSearch, most_work: u64) -> StoppedBy {
    let Some(limit_ns) = search.target_bottleneck_ns() else {
        search.incumbent.exhausted(BoundSource::WorkPerStage);
        return StoppedBy::Completed;
    };
    search.presolve(limit_ns);
    let has_room = Closure::has_room(&search.reduced.problem, search.control());
    let Some(line) = line(&search.reduced.problem).filter(|_| has_room) else {
        return StoppedBy::SizeLimit;
    };
    let known = Known {
        assignment: search.best().map(|plan| search.reduced.lower(plan)),
        lower: search.lower_bottleneck_ns,
    };
    let control = search.control();
    let effort = Effort {
        work: most_work,
        bytes: control.room_bytes() / 2,
    };
    let must_stop = || control.must_stop().is_some();
    let Ok(found) = search::search(&line, &known, effort, &must_stop) else {
        return StoppedBy::SizeLimit;
    };
    if let Some(plan) = &found.assignment {
        search.offer_reduced(plan);
    }
    // Presolve keeps plans within the limit alone: nothing is said of others.
    if found.lower > limit_ns {
        search.incumbent.exhausted(BoundSource::IdealTree);
    }
    search.raise_bottleneck(Bound {
        source: BoundSource::IdealTree,
        bottleneck_ns: found.lower.min(limit_ns.saturating_add(1)),
    });
    match found.stopped_by {
        Ending::Proved | Ending::NoPlan => StoppedBy::Completed,
        Ending::Stopped => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
        Ending::OutOfWork | Ending::OutOfMemory => StoppedBy::SizeLimit,
    }
}

/// Whether the tree search can take a problem: no stage pays for transfers, or holds more or less in another place.
pub(crate) fn is_line(problem: &Problem) -> bool {
    let may_hold = problem.memory_is_alike() && !problem.memory_is_joint();
    problem.transfers.is_empty() && !problem.settings.all_stages && may_hold
}

/// A problem as the tree search takes it, if it can.
fn line(problem: &Problem) -> Option<Line> {
    let is_free = problem.memory_never_binds();
    let bytes = problem.items.iter().map(|item| problem.memory_bytes(item, 1));
    is_line(problem).then(|| Line {
        times: problem.items.iter().map(|item| item.work_ns()).collect(),
        bytes: if is_free { Vec::new() } else { bytes.collect() },
        successors: growth::successors(problem),
        stations: problem.stages(),
        memory: problem.settings.memory_limit.filter(|_| !is_free),
    })
}
