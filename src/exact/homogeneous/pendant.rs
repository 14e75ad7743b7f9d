//! Problems without their pendant items: those that hang on one other item alone.

use std::collections::HashMap;

use crate::exact::tuning::TUNING;
use crate::model::options::Communication;
use crate::problem::cost;
use crate::problem::{Assignment, Item, Problem, Transfer};

/// A problem without its pendant items, whose hosts have what they cost at least added to their work.
pub struct WithoutPendantItems {
    /// The problem of the other items.
    pub problem: Problem,
    /// These, in ascending order.
    kept: Vec<usize>,
    /// The pendant items, each before what hangs on it, with their hosts.
    hosts: Vec<(usize, usize)>,
}

impl WithoutPendantItems {
    /// The problem without pendant items, for stages of at most `limit_ns`; `None` if it has none, or if they may be all that a stage
    /// holds.
    pub fn new(problem: &Problem, limit_ns: u64) -> Option<Self> {
        let mut hosts: Vec<Option<usize>> = vec![None; problem.items.len()];
        let mut works_ns: Vec<u64> = problem.items.iter().map(Item::work_ns).collect();
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            for item in 0..hosts.len() {
                let little_ns = limit_ns / TUNING.pendant_share;
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

    /// A plan without the pendant items, and without stages that held nothing else.
    pub fn restrict(&self, plan: &Assignment) -> Assignment {
        let left: Assignment = self.kept.iter().map(|&item| plan[item]).collect();
        cost::without_empty_stages(&left).0
    }

    /// A plan of the problem with everything, better or the same: each pendant item moves, with what hangs on it, to whatever stage is
    /// best for the objective, then for the sum of squares of the stages' bottlenecks.
    ///
    /// Time O(d q (n + t)) a round for d pendant items, q stages, n items and t transfers.
    pub fn settled(&self, problem: &Problem, mut plan: Assignment) -> Assignment {
        let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(item, host) in self.hosts.iter().rev() {
            let group = groups.entry(item).or_default();
            group.push(item);
            let group = group.clone();
            groups.entry(host).or_default().extend(group);
        }
        let mut best = value(problem, &plan);
        loop {
            let before = best;
            for (item, _) in &self.hosts {
                best = move_to_best_stage(problem, &mut plan, &groups[item], best);
            }
            if best == before {
                return plan;
            }
        }
    }

    /// A plan with every pendant item in the stage of its host.
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

/// What is to be least where pendant items move: the objective, then the sum of squares of the stages' bottlenecks.
fn value(problem: &Problem, plan: &Assignment) -> (u64, u128) {
    let stages = cost::stage_costs(problem, plan);
    let squares = stages
        .iter()
        .map(|stage| u128::from(stage.bottleneck_ns()).pow(2));
    (cost::objective_ns(problem, &stages), squares.sum())
}

/// Moves a group of items of a plan of value `best` to whatever stage is best for it. Returns the value then.
fn move_to_best_stage(
    problem: &Problem,
    plan: &mut Assignment,
    group: &[usize],
    mut best: (u64, u128),
) -> (u64, u128) {
    for stage in 0..problem.stages() {
        let mut moved = plan.clone();
        group.iter().for_each(|&item| moved[item] = stage);
        if cost::is_feasible(problem, &moved) && value(problem, &moved) < best {
            best = value(problem, &moved);
            *plan = moved;
        }
    }
    best
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

/// What the stage of a host pays at least because of a pendant item of so much work, with what hangs on it; `None` if it is none.
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
