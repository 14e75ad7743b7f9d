//! Bounds and plans from problems that ask for less: what is proved of one holds for the other, and its plans often do.

use super::bounds::Bound;
use super::control::Control;
use super::highs::SolverError;
use super::search::Search;
use super::{Step, take};
use crate::cost;
use crate::heuristics::local_moves;
use crate::options::Communication;
use crate::problem::{Assignment, Problem};

/// Steps over pairs of ideals: some seconds of work.
const MOST_STEPS: u64 = 4_000_000_000;

/// Raises the bound of a period with overlapped transfers by the least one without transfers, and takes the plans for that.
///
/// The same plans are feasible for both. A stage with overlapped transfers is as busy as the busiest of its worker and its
/// links, so no plan's busiest stage is below the least period without transfers. Where links are fast enough, the plan that
/// attains it often keeps them less busy than its workers, and is best for both. Without transfers problems are smaller:
/// more items follow others freely (`presolve.md`), and bounds are whole grains.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn work_alone(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let overlaps = search.problem.settings.communication == Communication::Overlapped;
    if !overlaps || search.problem.transfers.is_empty() || !search.control.reductions.work_alone {
        return Ok(());
    }
    let relaxed = search.problem.without_transfers();
    raise(
        search,
        "work alone",
        &relaxed,
        u64::MAX,
        Assignment::clone,
        |plan| plan,
        labels,
    )
}

/// Raises the bound of a period by the least one without dead ends, and takes the plans for that.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn dead_ends(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let Some(limit_ns) = search
        .target_bottleneck_ns()
        .filter(|_| search.control.reductions.dead_ends)
    else {
        return Ok(());
    };
    search.presolve(limit_ns);
    let reduced = search.reduced.clone();
    let Some(without) = WithoutDeadEnds::new(&reduced.problem) else {
        return Ok(());
    };
    let restrict = |plan: &Assignment| {
        let mut stage_of = vec![0; reduced.problem.items.len()];
        let stages = reduced.item_of.iter().zip(plan);
        stages.for_each(|(&item, &stage)| stage_of[item] = stage);
        without.restrict(&stage_of)
    };
    let extend = |plan: Assignment| reduced.lift(&without.extend(&plan));
    // Presolve keeps plans of interest alone: of others the bound says nothing.
    let most_ns = search.incumbent.as_ref().map_or(u64::MAX, |_| limit_ns + 1);
    raise(
        search,
        "without dead ends",
        &without.problem,
        most_ns,
        restrict,
        extend,
        labels,
    )
}

/// A problem without its *dead ends*: items without work that have one item directly before them and none behind, or the other
/// way round.
///
/// A plan without these items is still in order, no stage of it is busier and none holds more: what a transfer costs a stage
/// does not depend on how many of its consumers lie elsewhere. So no plan is below the least period without them. Each may lie
/// in any of a number of stages, which multiplies ideals, while few plans care.
pub struct WithoutDeadEnds {
    /// The problem of the other items.
    pub problem: Problem,
    /// These, in ascending order.
    kept: Vec<usize>,
    /// For each item the one that it hangs on, if it is a dead end.
    hosts: Vec<Option<usize>>,
}

impl WithoutDeadEnds {
    /// The problem without dead ends; `None` if it has none, or if they may be all that a stage holds.
    pub fn new(problem: &Problem) -> Option<Self> {
        let items = 0..problem.items.len();
        let hosts: Vec<Option<usize>> = items.clone().map(|item| host(problem, item)).collect();
        let kept: Vec<usize> = items.filter(|&item| hosts[item].is_none()).collect();
        (kept.len() < hosts.len() && !problem.settings.all_stages).then(|| Self {
            problem: problem.restricted(&kept),
            kept,
            hosts,
        })
    }

    /// A plan without the dead ends, and without stages that held nothing else.
    pub fn restrict(&self, plan: &Assignment) -> Assignment {
        let left: Assignment = self.kept.iter().map(|&item| plan[item]).collect();
        cost::without_empty_stages(&left).0
    }

    /// A plan with every dead end in the stage of what it hangs on.
    pub fn extend(&self, plan: &Assignment) -> Assignment {
        let mut stage_of = vec![0; self.hosts.len()];
        self.kept
            .iter()
            .zip(plan)
            .for_each(|(&item, &stage)| stage_of[item] = stage);
        for (item, host) in self.hosts.iter().enumerate() {
            if let Some(host) = *host {
                stage_of[item] = stage_of[host];
            }
        }
        stage_of
    }
}

/// What an item hangs on, if it is a dead end.
fn host(problem: &Problem, item: usize) -> Option<usize> {
    let neighbours = |item: usize| problem.order.neighbors_undirected((item as u32).into());
    let mut hosts = neighbours(item);
    let host = hosts.next().filter(|_| hosts.next().is_none())?.index();
    // Of two that hang on each other, neither is one.
    let is_idle = problem.items[item].work_ns() == 0;
    (is_idle && neighbours(host).nth(1).is_some()).then_some(host)
}

/// Solves a relaxed problem by the search over pairs of ideals; what it proves counts up to `most_ns`. `restrict` makes a plan of it
/// from one of the problem, and `extend` the other way round.
fn raise(
    search: &mut Search,
    source: &'static str,
    relaxed: &Problem,
    most_ns: u64,
    restrict: impl Fn(&Assignment) -> Assignment,
    extend: impl Fn(Assignment) -> Assignment,
    labels: &[String],
) -> Result<(), SolverError> {
    let control = Control {
        progress: None,
        ..search.control.clone()
    };
    let mut alone = Search::new(relaxed, &control);
    search.plans.iter().for_each(|plan| alone.offer(restrict(plan)));
    let known = alone.plans.len();
    for step in [Step::Bounds, Step::IdealPairs(MOST_STEPS)] {
        take(step, &mut alone, labels)?;
        if alone.is_over() {
            break;
        }
    }
    search.raise_bottleneck(Bound {
        source,
        bottleneck_ns: alone.lower_ns.min(most_ns),
    });
    for plan in alone.plans.split_off(known).into_iter().map(extend) {
        search.offer(plan.clone());
        search.offer(local_moves::improve(search.problem, plan));
    }
    Ok(())
}
