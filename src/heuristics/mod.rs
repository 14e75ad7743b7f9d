//! Heuristics: methods that give a plan without a proof, each in one file with its source.
//!
//! [`METHODS`] is the one list of them; the command line, the tests and the studies walk it.

pub mod binary_search;
pub mod block_partition;
pub mod brkga;
pub mod equal_layers;
pub mod fitting;
pub mod intervals;
pub mod local_moves;
pub mod orders;
pub mod slicing;

use crate::cost;
use crate::problem::{Assignment, Problem};

/// How long a heuristic takes, and so where it is worth running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A few passes over the items: the exact engine runs all of these first.
    Quick,
    /// A search of its own: for problems that quick plans and simple bounds leave open.
    Thorough,
}

/// A method that returns a plan or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Heuristic {
    /// Name on the command line, unique.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// For which problems its plan is optimal, in words.
    pub exact_for: &'static str,
    /// How long it takes.
    pub effort: Effort,
    /// Whether it can be asked at all, or why not.
    pub applies: fn(&Problem) -> Result<(), &'static str>,
    /// Runs it with a seed. Returns feasible plans only; the same problem and seed give the same plan.
    pub run: fn(&Problem, u64) -> Option<Assignment>,
}

/// All heuristics, the cheapest first.
pub const METHODS: &[Heuristic] = &[
    equal_layers::METHOD,
    block_partition::METHOD,
    binary_search::METHOD,
    slicing::METHOD,
    local_moves::METHOD,
    brkga::METHOD,
];

/// The heuristic of that name.
pub fn find(name: &str) -> Option<&'static Heuristic> {
    METHODS.iter().find(|method| method.name == name)
}

/// For methods that take any problem.
fn always(_: &Problem) -> Result<(), &'static str> {
    Ok(())
}

/// The plan, if it is one.
fn if_feasible(problem: &Problem, assignment: Assignment) -> Option<Assignment> {
    cost::is_feasible(problem, &assignment).then_some(assignment)
}

/// The plan that lays stages along an order: the item `order[k]` goes to stage `stages[k]`, and stages never go down.
/// Stages nobody uses are skipped.
///
/// Where every stage must be used, items at the end get stages of their own until all are: that splits stages and never
/// joins any, so no stage's work grows.
fn along(problem: &Problem, order: &[usize], stages: &[usize]) -> Assignment {
    let mut assignment = vec![0; order.len()];
    let mut stage = 0;
    for (position, &item) in order.iter().enumerate() {
        if position > 0 && stages[position] > stages[position - 1] {
            stage += 1;
        }
        let left = order.len() - position;
        assignment[item] = match problem.settings.all_stages {
            true => stage.max(problem.stages().saturating_sub(left)),
            false => stage,
        };
    }
    assignment
}
