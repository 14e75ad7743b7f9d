//! Local moves: items change to a neighbouring stage while that improves the plan.
//!
//! A move takes an item to the next stage, with all items of its stage that must not come before it, or to the previous
//! one with all that must not come after. Ours; a plain hill climb, so it ends where no single move helps.

use std::cmp::Ordering;

use petgraph::Direction::{self, Incoming, Outgoing};

use super::{Effort, Heuristic, Run, if_feasible, slicing};
use crate::cost::{self, StageCost};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub const METHOD: Heuristic = Heuristic {
    name: "local-moves",
    summary: "the best slicing, improved by moving items between neighbouring stages",
    source: "ours",
    exact_for: "chains, as slicing is",
    effort: Effort::Quick,
    run: Run::Alike(run),
};

/// Passes over all items after which the climb ends even if it could go on; most end after a handful.
const MOST_PASSES: usize = 50;

fn run(problem: &Problem, seed: u64) -> Option<Assignment> {
    let (sliced, _) = slicing::best_slicing(problem, seed)?;
    if_feasible(problem, improve(problem, sliced))
}

/// A plan no worse than a feasible one, without empty stages.
///
/// A move is kept if it lowers the objective or, at the same objective, the sum of the squares of the stages' bottlenecks:
/// that evens out the other stages and makes room for moves to come. Deterministic: items in turn, forward move first.
///
/// # Complexity
///
/// O(n m) a pass for n items and m items and transfers on two neighbouring stages; at most 50 passes.
pub fn improve(problem: &Problem, assignment: Assignment) -> Assignment {
    let mut climb = Climb::new(problem, cost::without_empty_stages(&assignment).0);
    for _ in 0..MOST_PASSES {
        let mut improved = false;
        for item in 0..problem.items.len() {
            improved |= climb.try_move(item, Outgoing) || climb.try_move(item, Incoming);
        }
        if !improved {
            break;
        }
    }
    climb.assignment
}

struct Climb<'a> {
    problem: &'a Problem,
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
    fn new(problem: &'a Problem, assignment: Assignment) -> Self {
        let costs = cost::stage_costs(problem, &assignment);
        let value = value(problem, &costs);
        let mut members = vec![Vec::new(); problem.stages()];
        for (item, &stage) in assignment.iter().enumerate() {
            members[stage].push(item);
        }
        Self {
            problem,
            reached_by: vec![0; assignment.len()],
            searches: 0,
            assignment,
            members,
            costs,
            value,
        }
    }

    /// Moves an item and what must go with it, to the next stage (`Outgoing`) or the previous one, if that is better.
    fn try_move(&mut self, item: usize, direction: Direction) -> bool {
        let from = self.assignment[item];
        let to = match direction {
            Outgoing => Some(from + 1).filter(|&to| to < self.problem.stages()),
            Incoming => from.checked_sub(1),
        };
        let Some(to) = to else {
            return false;
        };
        let moved = self.closure(item, direction);
        moved.iter().for_each(|&item| self.assignment[item] = to);
        // Other stages see the same: what is elsewhere for them stays elsewhere.
        let before = [self.costs[from], self.costs[to]];
        let [left, grown] = [from, to].map(|stage| self.now_on(stage, [from, to]));
        self.costs[from] = self.stage_cost(from, &left);
        self.costs[to] = self.stage_cost(to, &grown);
        let value = value(self.problem, &self.costs);
        if value.cmp(&self.value) == Ordering::Less && cost::is_feasible(self.problem, &self.assignment) {
            self.value = value;
            (self.members[from], self.members[to]) = (left, grown);
            return true;
        }
        [self.costs[from], self.costs[to]] = before;
        moved.iter().for_each(|&item| self.assignment[item] = from);
        false
    }

    /// The item and everything on its stage that the order puts after it, or before it.
    fn closure(&mut self, item: usize, direction: Direction) -> Vec<usize> {
        self.searches += 1;
        self.reached_by[item] = self.searches;
        let mut reached = vec![item];
        let mut next = 0;
        while let Some(&last) = reached.get(next) {
            next += 1;
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
        reached
    }

    /// Items that the assignment puts on a stage, all of which were on one of two.
    fn now_on(&self, stage: usize, among: [usize; 2]) -> Vec<usize> {
        let items = among.iter().flat_map(|&stage| &self.members[stage]).copied();
        items.filter(|&item| self.assignment[item] == stage).collect()
    }

    fn stage_cost(&self, stage: usize, members: &[usize]) -> StageCost {
        cost::stage_cost(self.problem, members, |item| self.assignment[item] == stage)
    }
}

fn value(problem: &Problem, costs: &[StageCost]) -> Value {
    let square = |cost: &StageCost| u128::from(cost.bottleneck_ns()).pow(2);
    (cost::objective_ns(problem, costs), costs.iter().map(square).sum())
}
