//! Bounds and plans from problems that ask for less.
#![doc = include_str!("../../../formulations/relaxed.md")]

use std::collections::HashMap;

use crate::cost;
use crate::exact::bounds::Bound;
use crate::exact::portfolio::Step;
use crate::exact::portfolio::find_bounds;
use crate::exact::portfolio::take;
use crate::exact::search::Search;
use crate::options::Communication;
use crate::problem::{Assignment, Item, Problem, Transfer};
use crate::solver::SolverError;

/// Steps over pairs of ideals: some seconds of work.
const MOST_STEPS: u64 = 4_000_000_000;

/// Raises the bound of a period with overlapped transfers by the least one without transfers, and takes the plans for that.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(crate) fn work_alone(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let overlaps = search.problem.settings.communication == Communication::Overlapped;
    if !overlaps || search.problem.transfers.is_empty() || !search.control.switches.work_alone {
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
pub(crate) fn dead_ends(search: &mut Search, labels: &[String]) -> Result<(), SolverError> {
    let Some(limit_ns) = search
        .target_bottleneck_ns()
        .filter(|_| search.control.switches.dead_ends)
    else {
        return Ok(());
    };
    search.presolve(limit_ns);
    let reduced = search.reduced.clone();
    let Some(without) = WithoutDeadEnds::new(&reduced.problem, limit_ns) else {
        return Ok(());
    };
    let restrict = |plan: &Assignment| {
        let mut stage_of = vec![0; reduced.problem.items.len()];
        let stages = reduced.item_of.iter().zip(plan);
        stages.for_each(|(&item, &stage)| stage_of[item] = stage);
        without.restrict(&stage_of)
    };
    let extend = |plan: Assignment| {
        let plan = without.extend(&plan);
        reduced.lift(&without.settled(&reduced.problem, plan))
    };
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

/// A problem without its dead ends, whose hosts have what they cost at least added to their work.
pub struct WithoutDeadEnds {
    /// The problem of the other items.
    pub problem: Problem,
    /// These, in ascending order.
    kept: Vec<usize>,
    /// The dead ends, each before what hangs on it, with their hosts.
    hosts: Vec<(usize, usize)>,
}

/// Dead ends take so small a part of a stage at most.
const LITTLE: u64 = 100;

impl WithoutDeadEnds {
    /// The problem without dead ends, for stages of at most `limit_ns`; `None` if it has none, or if they may be all that a stage
    /// holds.
    pub fn new(problem: &Problem, limit_ns: u64) -> Option<Self> {
        let mut hosts: Vec<Option<usize>> = vec![None; problem.items.len()];
        let mut works_ns: Vec<u64> = problem.items.iter().map(Item::work_ns).collect();
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            for item in 0..hosts.len() {
                let little_ns = limit_ns / LITTLE;
                if hosts[item].is_none()
                    && let Some(host) = host(problem, &hosts, item)
                    && let Some(least_ns) =
                        least_beside(problem, &hosts, [item, host], works_ns[item], little_ns)
                {
                    works_ns[host] += least_ns;
                    hosts[item] = Some(host);
                    taken.push((item, host));
                }
            }
            if taken.len() == before {
                break;
            }
        }
        let kept: Vec<usize> = (0..hosts.len()).filter(|&item| hosts[item].is_none()).collect();
        if taken.is_empty() || problem.settings.all_stages {
            return None;
        }
        let mut left = problem.restricted(&kept);
        for (item, &old) in left.items.iter_mut().zip(&kept) {
            item.forward_ns += works_ns[old] - problem.items[old].work_ns();
        }
        taken.reverse();
        Some(Self {
            problem: left,
            kept,
            hosts: taken,
        })
    }

    /// A plan without the dead ends, and without stages that held nothing else.
    pub fn restrict(&self, plan: &Assignment) -> Assignment {
        let left: Assignment = self.kept.iter().map(|&item| plan[item]).collect();
        cost::without_empty_stages(&left).0
    }

    /// A plan of the problem with everything, better or the same: each dead end moves, with what hangs on it, to whatever stage is
    /// best for the objective, then for the sum of squares of the stages' bottlenecks.
    ///
    /// Time O(d q (n + t)) a round for d dead ends, q stages, n items and t transfers.
    pub fn settled(&self, problem: &Problem, mut plan: Assignment) -> Assignment {
        let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(item, host) in self.hosts.iter().rev() {
            let group = groups.entry(item).or_default();
            group.push(item);
            let group = group.clone();
            groups.entry(host).or_default().extend(group);
        }
        let value = |plan: &Assignment| {
            let stages = cost::stage_costs(problem, plan);
            let squares = stages
                .iter()
                .map(|stage| u128::from(stage.bottleneck_ns()).pow(2));
            (cost::objective_ns(problem, &stages), squares.sum::<u128>())
        };
        let mut best = value(&plan);
        loop {
            let before = best;
            for group in self.hosts.iter().map(|(item, _)| &groups[item]) {
                for stage in 0..problem.stages() {
                    let mut moved = plan.clone();
                    group.iter().for_each(|&item| moved[item] = stage);
                    if cost::is_feasible(problem, &moved) && value(&moved) < best {
                        best = value(&moved);
                        plan = moved;
                    }
                }
            }
            if best == before {
                return plan;
            }
        }
    }

    /// A plan with every dead end in the stage of its host.
    pub fn extend(&self, plan: &Assignment) -> Assignment {
        let mut stage_of = vec![0; self.kept.len() + self.hosts.len()];
        self.kept
            .iter()
            .zip(plan)
            .for_each(|(&item, &stage)| stage_of[item] = stage);
        for &(item, host) in &self.hosts {
            stage_of[item] = stage_of[host];
        }
        stage_of
    }
}

/// The only item directly before or behind one, beside those that hang on others.
fn host(problem: &Problem, hosts: &[Option<usize>], item: usize) -> Option<usize> {
    let neighbours = problem.order.neighbors_undirected((item as u32).into());
    let mut left = neighbours
        .map(|other| other.index())
        .filter(|&other| hosts[other].is_none());
    let first = left.next()?;
    left.all(|other| other == first).then_some(first)
}

/// What the stage of a host pays at least because of a dead end of so much work, with what hangs on it; `None` if it is none.
fn least_beside(
    problem: &Problem,
    hosts: &[Option<usize>],
    [item, host]: [usize; 2],
    work_ns: u64,
    little_ns: u64,
) -> Option<u64> {
    if work_ns == 0 {
        return Some(0);
    }
    let transfers = || problem.transfers_of[item].iter().map(|&t| &problem.transfers[t]);
    let hangs_here = |end: usize| end == item || hosts[end] == Some(item);
    let is_near = |transfer: &Transfer| {
        transfer.items().all(|end| end == item || end == host) || transfer.items().all(hangs_here)
    };
    let is_blocking = problem.settings.communication == Communication::Blocking;
    (is_blocking && work_ns <= little_ns && transfers().all(is_near)).then(|| {
        let to_host = transfers().filter(|transfer| transfer.items().any(|end| end == host));
        work_ns.min(to_host.map(Transfer::total_ns).sum())
    })
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
    let control = search.control.elsewhere();
    let relaxed = relaxed.in_ticks();
    let mut alone = Search::new(&relaxed, &control);
    find_bounds(&mut alone);
    search.plans.iter().for_each(|plan| alone.offer(restrict(plan)));
    let known = alone.plans.len();
    if !alone.is_over() {
        take(Step::IdealPairs(MOST_STEPS), &mut alone, labels)?;
    }
    search.raise_bottleneck(Bound {
        source,
        bottleneck_ns: alone.lower_ns.min(most_ns),
    });
    for plan in alone.plans.split_off(known).into_iter().map(extend) {
        search.offer(plan.clone());
        search.offer(search.improved(plan));
    }
    Ok(())
}
