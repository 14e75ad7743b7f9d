//! Every assignment of a few items, in whole numbers: what is left where a program's tolerance, or costs of many sizes, leave a small problem
//! open.
//!
//! Items get a stage in the order of their numbers, which is one that stages keep. What those with a stage cost already, and what the others
//! work at least, is a bound: a branch that comes to no better plan is left.

use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::problem::bound_source::BoundSource;
use crate::problem::cost::{self, StageCost};
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// Of more items there are too many assignments, and each takes longer.
const MOST_ITEMS: usize = 40;

/// How often the clock is looked at: once in so many steps.
const LOOK: u64 = 1 << 10;

/// Tries every assignment that may be better than the incumbent, with so many steps at most.
pub(crate) fn over_assignments(search: &mut HomogeneousSearch, most_steps: u64) -> StoppedBy {
    let problem = search.problem();
    if problem.items.len() > MOST_ITEMS {
        return StoppedBy::SizeLimit;
    }
    let mut tree = Tree {
        search,
        problem,
        before: (0..problem.items.len())
            .map(|item| before(problem, item))
            .collect(),
        ahead_ns: work_behind(problem),
        stage_of: Vec::with_capacity(problem.items.len()),
        left: most_steps,
        stopped_by: None,
    };
    tree.descend();
    if let Some(stopped_by) = tree.stopped_by {
        return stopped_by;
    }
    search.incumbent.exhausted(BoundSource::ExhaustiveSearch);
    StoppedBy::Completed
}

/// Items that must not lie behind an item.
fn before(problem: &Problem, item: usize) -> Vec<usize> {
    let vertex = (item as u32).into();
    let before = problem
        .order
        .neighbors_directed(vertex, petgraph::Direction::Incoming);
    before.map(|vertex| vertex.index()).collect()
}

/// The work of each item and all of larger numbers, in ns.
fn work_behind(problem: &Problem) -> Vec<u64> {
    let mut sums = vec![0; problem.items.len() + 1];
    for (item, of) in problem.items.iter().enumerate().rev() {
        sums[item] = sums[item + 1] + of.work_ns();
    }
    sums
}

/// A search in depth.
struct Tree<'s, 'a> {
    search: &'s mut HomogeneousSearch<'a>,
    problem: &'a Problem,
    before: Vec<Vec<usize>>,
    ahead_ns: Vec<u64>,
    /// Stages of the first items.
    stage_of: Assignment,
    /// Steps that are left.
    left: u64,
    stopped_by: Option<StoppedBy>,
}

impl Tree<'_, '_> {
    /// Gives the next item every stage that it may have.
    fn descend(&mut self) {
        let item = self.stage_of.len();
        if item == self.problem.items.len() {
            // With an empty stage ahead of its last it is another assignment's plan.
            let (compact, _) = cost::without_empty_stages(&self.stage_of);
            if compact == self.stage_of {
                self.search.offer(compact);
            }
            return;
        }
        let first = self.before[item].iter().map(|&other| self.stage_of[other]).max();
        for stage in first.unwrap_or(0)..self.problem.stages() {
            let step = self.search.control().take_step(&mut self.left, LOOK);
            self.stopped_by = self.stopped_by.or(step.err());
            if self.stopped_by.is_some() {
                return;
            }
            self.stage_of.push(stage);
            if self.least_ns() <= self.search.incumbent.target_ns() && self.may_fit() {
                self.descend();
            }
            self.stage_of.pop();
        }
    }

    /// No plan with the stages so far takes less, in ns.
    fn least_ns(&self) -> u64 {
        let problem = self.problem;
        let mut stages = vec![StageCost::default(); problem.stages()];
        for (item, &stage) in self.stage_of.iter().enumerate() {
            stages[stage].add_item(problem, item);
        }
        let mode = problem.settings.communication;
        for transfer in &problem.transfers {
            let Some(&home) = self.stage_of.get(transfer.producer) else {
                continue;
            };
            let known = transfer
                .consumers
                .iter()
                .filter_map(|&to| self.stage_of.get(to).copied());
            let mut away: Vec<usize> = known.filter(|&stage| stage != home).collect();
            away.sort_unstable();
            away.dedup();
            if !away.is_empty() {
                stages[home].add_transfer(mode, transfer, cost::Side::Producer);
            }
            for stage in away {
                stages[stage].add_transfer(mode, transfer, cost::Side::Consumer);
            }
        }
        let formula = problem.formula();
        let left_ns = formula.once_ns(self.ahead_ns[self.stage_of.len()]);
        let ns = cost::formula_ns(formula, &stages).saturating_add(left_ns);
        problem.settings.whole_ns(ns)
    }

    /// Whether no stage holds too much by what does not depend on where others lie.
    fn may_fit(&self) -> bool {
        let Some(limit) = self.problem.settings.memory_limit else {
            return true;
        };
        let mut bytes = vec![0u64; self.problem.stages()];
        for (item, &stage) in self.stage_of.iter().enumerate() {
            bytes[stage] += self.problem.items[item].base_bytes;
        }
        bytes.into_iter().all(|bytes| bytes <= limit)
    }
}
