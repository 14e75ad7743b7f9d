//! Local moves: items change to a neighbouring stage while that improves the plan.
//!
//! A move takes an item to the next stage, with all items of its stage that must not come before it, or to the previous
//! one with all that must not come after. Ours; a plain hill climb, so it ends where no single move helps.

use std::cmp::Ordering;

use fixedbitset::FixedBitSet;
use petgraph::Direction::{self, Incoming, Outgoing};

use super::{Effort, Heuristic, always, if_feasible, slicing};
use crate::cost::{self, StageCost};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub const METHOD: Heuristic = Heuristic {
    name: "local-moves",
    summary: "the best slicing, improved by moving items between neighbouring stages",
    source: "ours",
    exact_for: "chains, as slicing is",
    effort: Effort::Quick,
    applies: always,
    run,
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
/// O(n m) a pass for n items and m items and transfers on two stages; at most 50 passes.
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
    costs: Vec<StageCost>,
    value: Value,
}

/// What a climb lowers: the objective in ns, then the sum of squares.
type Value = (u64, u128);

impl<'a> Climb<'a> {
    fn new(problem: &'a Problem, assignment: Assignment) -> Self {
        let costs = cost::stage_costs(problem, &assignment);
        let value = value(problem, &costs);
        Self {
            problem,
            assignment,
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
        self.costs[from] = self.stage_cost(from);
        self.costs[to] = self.stage_cost(to);
        let value = value(self.problem, &self.costs);
        if value.cmp(&self.value) == Ordering::Less && cost::is_feasible(self.problem, &self.assignment) {
            self.value = value;
            return true;
        }
        [self.costs[from], self.costs[to]] = before;
        moved.iter().for_each(|&item| self.assignment[item] = from);
        false
    }

    /// The item and everything on its stage that the order puts after it, or before it.
    fn closure(&self, item: usize, direction: Direction) -> Vec<usize> {
        let mut seen = FixedBitSet::with_capacity(self.assignment.len());
        seen.insert(item);
        let mut reached = vec![item];
        let mut next = 0;
        while let Some(&last) = reached.get(next) {
            next += 1;
            for neighbour in self
                .problem
                .order
                .neighbors_directed((last as u32).into(), direction)
            {
                let neighbour = neighbour.index();
                if self.assignment[neighbour] == self.assignment[item] && !seen.put(neighbour) {
                    reached.push(neighbour);
                }
            }
        }
        reached
    }

    fn stage_cost(&self, stage: usize) -> StageCost {
        let members: Vec<usize> = (0..self.assignment.len())
            .filter(|&item| self.assignment[item] == stage)
            .collect();
        cost::stage_cost(self.problem, &members, |item| self.assignment[item] == stage)
    }
}

fn value(problem: &Problem, costs: &[StageCost]) -> Value {
    let square = |cost: &StageCost| u128::from(cost.bottleneck_ns()).pow(2);
    (cost::objective_ns(problem, costs), costs.iter().map(square).sum())
}
