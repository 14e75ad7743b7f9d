//! Local moves: items change to a neighbouring stage while that improves the plan.
//!
//! A move takes an item to the next stage, with all items of its stage that must not come before it, or to the previous
//! one with all that must not come after; or it takes an item alone to any stage with an item that it exchanges with, where the order
//! leaves it the choice. Ours; a plain hill climb, so it ends where no single move helps. The method slices the stages of what
//! it ends at once more, and climbs again from what is better.

use std::cmp::Ordering;

use petgraph::Direction::{self, Incoming, Outgoing};

use super::{Effort, Heuristic, MustStop, Run, if_feasible, orders, slicing};
use crate::problem::cost::allocation::{Allocation, StageWork, bottleneck_ns};
use crate::problem::cost::{self, StageCost};
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "local-moves",
    summary: "the best slicing, improved by moving items between stages and slicing again",
    source: "ours",
    exact_for: "chains, as slicing is",
    effort: Effort::Quick,
    run: Run::Homogeneous(|_| Ok(()), run),
};

/// Passes over all items after which the climb ends even if it could go on; most end after a handful.
const MOST_PASSES: usize = 50;

fn run(problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let (sliced, _) = slicing::best_slicing(problem, seed, must_stop)?;
    Some(improve_and_slice(problem, sliced, must_stop))
}

/// A plan no worse than a feasible one: [`improve`], and the best slicing of the orders that list its stages one after the other,
/// in turn while that helps.
pub(crate) fn improve_and_slice(
    problem: &Problem,
    assignment: Assignment,
    must_stop: MustStop<'_>,
) -> Assignment {
    let mut best = improve(problem, assignment, must_stop);
    let mut best_ns = cost::assignment_ns(problem, &best);
    while !must_stop() {
        let sliced = orders::within_stages(problem, &best)
            .iter()
            .filter_map(|order| slicing::slice_below(problem, order, best_ns, must_stop))
            .min_by_key(|(_, objective_ns)| *objective_ns);
        // Slicing knows nothing of memory that depends on two stages.
        let Some(plan) = sliced.and_then(|(plan, _)| if_feasible(problem, plan)) else {
            break;
        };
        let plan = improve(problem, plan, must_stop);
        let plan_ns = cost::assignment_ns(problem, &plan);
        if plan_ns >= best_ns {
            break;
        }
        (best, best_ns) = (plan, plan_ns);
    }
    best
}

/// A plan no worse than a feasible one, without empty stages.
///
/// A move is kept if it lowers the objective or, at the same objective, the sum of the squares of the stages' bottlenecks:
/// that evens out the other stages and makes room for moves to come. Deterministic: items in turn, forward move first. Stops
/// between items when it must.
///
/// # Complexity
///
/// O(n (m + q)) a pass for n items, m items that move together with their transfers, and q stages, times the stages that an item exchanges
/// with where the order leaves it the choice; m is all on two stages where transfers have many consumers; at most 50 passes. For a period
/// on workers that are alike, m is no more than the slack of a stage has room for.
pub fn improve(problem: &Problem, assignment: Assignment, must_stop: MustStop<'_>) -> Assignment {
    let compact = cost::without_empty_stages(&assignment).0;
    climb(Climb::new(problem, None, compact), must_stop)
}

/// The same where workers differ: moves items of a feasible plan, and leaves every stage its worker. With one global
/// share for all stages it weighs stages at their own best shares.
pub(crate) fn improve_on(
    problem: &Problem,
    workers: &Workers,
    allocation: &Allocation,
    must_stop: MustStop<'_>,
) -> Assignment {
    let crew = Crew {
        workers,
        choices: &allocation.choices,
    };
    let start = allocation.assignment.clone();
    climb(Climb::new(problem, Some(crew), start), must_stop)
}

fn climb(mut climb: Climb, must_stop: MustStop<'_>) -> Assignment {
    for _ in 0..MOST_PASSES {
        let mut improved = false;
        for item in 0..climb.problem.items.len() {
            if must_stop() {
                return climb.assignment;
            }
            improved |= climb.try_neighbour(item, Outgoing)
                || climb.try_neighbour(item, Incoming)
                || climb.try_partners(item);
        }
        if !improved {
            break;
        }
    }
    climb.assignment
}

/// Who runs the stages, where workers differ.
#[derive(Clone, Copy)]
struct Crew<'a> {
    workers: &'a Workers,
    choices: &'a [usize],
}

struct Climb<'a> {
    problem: &'a Problem,
    crew: Option<Crew<'a>>,
    assignment: Assignment,
    /// Items of each stage.
    members: Vec<Vec<usize>>,
    costs: Vec<StageCost>,
    value: Value,
    /// The last search that reached each item, so that no search has to clear its marks.
    reached_by: Vec<u64>,
    searches: u64,
}

/// What a climb lowers: the objective in ns, then the sum of squares.
type Value = (u64, u128);

impl<'a> Climb<'a> {
    fn new(problem: &'a Problem, crew: Option<Crew<'a>>, assignment: Assignment) -> Self {
        let stages = crew.map_or(problem.stages(), |crew| crew.choices.len());
        let mut members = vec![Vec::new(); stages];
        for (item, &stage) in assignment.iter().enumerate() {
            members[stage].push(item);
        }
        let mut climb = Self {
            problem,
            crew,
            reached_by: vec![0; assignment.len()],
            searches: 0,
            assignment,
            members,
            costs: Vec::new(),
            value: (0, 0),
        };
        climb.costs = (0..stages)
            .map(|stage| climb.stage_cost(stage, &climb.members[stage]))
            .collect();
        climb.value = climb.value();
        climb
    }

    /// Moves an item and what must go with it, to the next stage (`Outgoing`) or the previous one, if that is better.
    fn try_neighbour(&mut self, item: usize, direction: Direction) -> bool {
        let from = self.assignment[item];
        let to = match direction {
            Outgoing => Some(from + 1).filter(|&to| to < self.costs.len()),
            Incoming => from.checked_sub(1),
        };
        to.is_some_and(|to| {
            let moved = self.closure(item, direction, to);
            moved.is_some_and(|moved| self.try_move(&moved, to))
        })
    }

    /// Moves an item alone to a stage of one that it exchanges with, if the order allows it and it is better.
    fn try_partners(&mut self, item: usize) -> bool {
        let stages = |direction: Direction| {
            let others = self
                .problem
                .order
                .neighbors_directed((item as u32).into(), direction);
            others.map(|other| self.assignment[other.index()])
        };
        let least = stages(Incoming).max().unwrap_or(0);
        let most = stages(Outgoing).min().unwrap_or(self.costs.len() - 1);
        // A choice of two stages is one between neighbours.
        if most < least + 2 {
            return false;
        }
        let transfers = self.problem.transfers_of[item].iter();
        let partners = transfers.flat_map(|&t| self.problem.transfers[t].items());
        let mut partners: Vec<usize> = partners.map(|other| self.assignment[other]).collect();
        partners.sort_unstable();
        partners.dedup();
        let from = self.assignment[item];
        partners.retain(|&stage| least <= stage && stage <= most && stage != from);
        partners.into_iter().any(|to| self.try_move(&[item], to))
    }

    /// Moves items from the stage of them all, if that is better.
    fn try_move(&mut self, moved: &[usize], to: usize) -> bool {
        let from = self.assignment[moved[0]];
        let stages = [from, to];
        // Other stages see the same: what is elsewhere for them stays elsewhere.
        let before = stages.map(|stage| self.costs[stage]);
        let touched = self.touched(moved);
        let parts = |climb: &Self| stages.map(|stage| Some(climb.part(stage, moved, touched.as_deref()?)));
        let were = parts(self);
        moved.iter().for_each(|&item| self.assignment[item] = to);
        let are = parts(self);
        for (at, stage) in stages.into_iter().enumerate() {
            self.costs[stage] = match (were[at], are[at]) {
                (Some(was), Some(is)) => before[at].minus(was).plus(is),
                _ => self.stage_cost(stage, &self.now_on(stage, stages)),
            };
        }
        let value = self.value();
        if value.cmp(&self.value) == Ordering::Less && self.is_feasible() {
            self.value = value;
            let [left, grown] = stages.map(|stage| self.now_on(stage, stages));
            (self.members[from], self.members[to]) = (left, grown);
            return true;
        }
        [self.costs[from], self.costs[to]] = before;
        moved.iter().for_each(|&item| self.assignment[item] = from);
        false
    }

    /// Transfers of items; `None` where a stage is rather costed anew, since one has many consumers or workers differ.
    fn touched(&self, items: &[usize]) -> Option<Vec<usize>> {
        let transfers = items.iter().flat_map(|&item| &self.problem.transfers_of[item]);
        let mut touched: Vec<usize> = transfers.copied().collect();
        touched.sort_unstable();
        touched.dedup();
        let is_narrow = |&t: &usize| self.problem.transfers[t].consumers.len() <= cost::FEW_CONSUMERS;
        (self.crew.is_none() && touched.iter().all(is_narrow)).then_some(touched)
    }

    /// What a stage costs for items, which are all on it or all elsewhere, and for their transfers.
    fn part(&self, stage: usize, items: &[usize], transfers: &[usize]) -> StageCost {
        let mut part = StageCost::default();
        let is_here = |item: usize| self.assignment[item] == stage;
        for &item in items.iter().filter(|&&item| is_here(item)) {
            part.add_item(self.problem, item);
        }
        for transfer in transfers.iter().map(|&t| &self.problem.transfers[t]) {
            if let Some(side) = cost::side_of(transfer, is_here) {
                part.add_transfer(self.problem.settings.communication, transfer, side);
            }
        }
        part
    }

    /// The item and everything on its stage that the order puts after it, or before it; `None` where their work alone makes the stage
    /// that they would move to busier than any is now: most items of a large stage take too many others along.
    fn closure(&mut self, item: usize, direction: Direction, to: usize) -> Option<Vec<usize>> {
        self.searches += 1;
        self.reached_by[item] = self.searches;
        let mut reached = vec![item];
        let mut next = 0;
        let mut least = StageCost::default();
        least.forward.work_ns = self.costs[to].forward.work_ns;
        least.backward.work_ns = self.costs[to].backward.work_ns;
        while let Some(&last) = reached.get(next) {
            next += 1;
            least.add_item(self.problem, last);
            if self.is_too_busy(&least) {
                return None;
            }
            let neighbours = self
                .problem
                .order
                .neighbors_directed((last as u32).into(), direction);
            for neighbour in neighbours.map(|v| v.index()) {
                let is_here = self.assignment[neighbour] == self.assignment[item];
                if is_here && self.reached_by[neighbour] != self.searches {
                    self.reached_by[neighbour] = self.searches;
                    reached.push(neighbour);
                }
            }
        }
        Some(reached)
    }

    /// Whether a stage of at least this cost makes any plan worse, whatever its other stages are.
    fn is_too_busy(&self, stage: &StageCost) -> bool {
        let settings = &self.problem.settings;
        let is_judged_alone = self.crew.is_none() && self.problem.formula().is_bottleneck();
        is_judged_alone && settings.whole_ns(bottleneck_ns(settings, stage)) > self.value.0
    }

    /// Items that the assignment puts on a stage, all of which were on one of two.
    fn now_on(&self, stage: usize, among: [usize; 2]) -> Vec<usize> {
        let items = among.iter().flat_map(|&stage| &self.members[stage]).copied();
        items.filter(|&item| self.assignment[item] == stage).collect()
    }

    /// Cost of a stage of these members; more than any plan's where its worker cannot run them.
    fn stage_cost(&self, stage: usize, members: &[usize]) -> StageCost {
        let mut transfers = cost::stage_cost(self.problem, members, |item| self.assignment[item] == stage);
        let Some(Crew { workers, choices }) = self.crew else {
            return transfers;
        };
        (transfers.forward.work_ns, transfers.backward.work_ns) = (0, 0);
        let mut work = StageWork {
            transfers,
            ..StageWork::empty(workers.classes.len())
        };
        members.iter().for_each(|&item| work.add_item(self.problem, item));
        let load = workers.load(self.problem, &workers.choices[choices[stage]], &work, &[]);
        load.map_or_else(unable, |load| load.cost)
    }

    fn value(&self) -> Value {
        let bottleneck_ns = |cost: &StageCost| bottleneck_ns(&self.problem.settings, cost);
        let square = |cost: &StageCost| u128::from(bottleneck_ns(cost)).pow(2);
        let objective_ns = match self.crew {
            None => cost::objective_ns(self.problem, &self.costs),
            Some(_) => self.costs.iter().map(bottleneck_ns).max().unwrap_or(0),
        };
        (
            objective_ns,
            self.costs.iter().map(square).fold(0, u128::saturating_add),
        )
    }

    fn is_feasible(&self) -> bool {
        match self.crew {
            None => cost::is_feasible(self.problem, &self.assignment),
            Some(Crew { workers, choices }) => {
                let allocation = Allocation {
                    choices: choices.to_vec(),
                    ..Allocation::from(self.assignment.clone())
                };
                workers.is_feasible(self.problem, &allocation)
            }
        }
    }
}

/// What a stage costs whose worker cannot run it.
fn unable() -> StageCost {
    let mut cost = StageCost::default();
    cost.forward.work_ns = u64::MAX;
    cost
}
