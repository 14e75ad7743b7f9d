//! Dynamic program over ideals, plain.
//!
//! An ideal is a set of items that holds every predecessor of its members: just what the first stages of some plan can
//! hold together. A plan is a chain of ideals from the empty set to all items, and its stages are the differences.
//!
//! The memory of a stage depends on its position from the end, so the program runs from there: layer r holds the ideals
//! whose complement lies in exactly r non-empty stages, with the [labels](crate::search::labels) of the best ways to do it. What a
//! stage costs depends on its set alone.
//!
//! Source: J. Tarnawski, A. Phanishayee, N. Devanur, D. Mahajan, F. Nina Paravecino, *Efficient algorithms for device
//! placement of DNN graph operators*, NeurIPS 2020 (the DP over ideals). Ours: memory by position from the end, and labels
//! for iteration objectives.

use crate::problem::cost;
use crate::problem::{Assignment, Item, Problem};
use crate::search::ideals::{Ideals, IdealsError};
use crate::search::labels::Step;

/// A cap on the number of ideals that keeps the program below about a minute on small networks.
pub const DEFAULT_CAP: usize = 10_000;

/// What the program found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// A best plan and its objective in ns, or `None` where there is no plan at all.
    pub best: Option<(Assignment, u64)>,
    /// How many ideals there are.
    pub ideals: usize,
}

/// A best plan of a problem.
///
/// * `cap`: most ideals to look at, such as [`DEFAULT_CAP`];
/// * `stop`: polled between ideals; true ends the search.
///
/// # Errors
///
/// More ideals than `cap`, or `stop`.
///
/// # Complexity
///
/// Time O(P (n d + q L²)) for P pairs of nested ideals, at most the square of their number, n items of d transfers and
/// consumers each, q stages and L labels in a state, which is 1 for the period. Space O(N (n / 64 + q L)) for N ideals.
pub fn solve(problem: &Problem, cap: usize, stop: &dyn Fn() -> bool) -> Result<Solution, IdealsError> {
    let ideals = Ideals::enumerate(problem, cap, stop)?;
    let formula = problem.formula();
    let (empty, all) = (0, ideals.sets.len() - 1);
    let stages = problem.stages().min(problem.items.len());
    // steps[ideal][r]: the best ways to place all items outside the ideal in exactly r stages.
    let mut steps = vec![vec![Vec::new(); stages + 1]; ideals.sets.len()];
    steps[all][0].push(Step::default());

    // Ideals are numbered by size, so every state is final when the program comes to it.
    for after in (1..=all).rev() {
        if stop() {
            return Err(IdealsError::Interrupted);
        }
        let ways: Vec<Vec<Step>> = steps[after][..stages].to_vec();
        if ways.iter().all(Vec::is_empty) {
            continue;
        }
        for before in ideals.inside(after) {
            let members = ideals.between(before, after);
            if !problem.admits_together(&members) {
                continue;
            }
            let inside =
                |item: usize| ideals.sets[after].contains(item) && !ideals.sets[before].contains(item);
            let stage = formula.stage(&cost::stage_cost(problem, &members, inside));
            for (r, ways) in ways.iter().enumerate() {
                if !fits(problem, &members, r + 1) {
                    // Further from the end a stage holds no less.
                    break;
                }
                for (step, way) in ways.iter().enumerate() {
                    let label = way.label.join(stage);
                    let state = after;
                    formula.insert(&mut steps[before][r + 1], Step { label, state, step });
                }
            }
        }
    }

    let allowed = if problem.settings.all_stages {
        problem.stages()
    } else {
        0
    }..=stages;
    let ends = allowed.flat_map(|r| steps[empty][r].iter().map(move |end| (r, end)));
    let best = ends.min_by_key(|(_, end)| formula.objective_ns(&end.label));
    Ok(Solution {
        best: best.map(|(r, end)| {
            (
                assignment(&ideals, &steps, r, *end),
                problem.settings.whole_ns(formula.objective_ns(&end.label)),
            )
        }),
        ideals: ideals.sets.len(),
    })
}

/// Whether items fit a stage `from_end` stages from the end.
fn fits(problem: &Problem, members: &[usize], from_end: usize) -> bool {
    let bytes = |item: &Item| problem.memory_bytes(item, from_end);
    problem.settings.memory_limit.is_none_or(|limit| {
        members
            .iter()
            .map(|&item| bytes(&problem.items[item]))
            .sum::<u64>()
            <= limit
    })
}

/// Follows the steps from the empty ideal with r stages ahead.
fn assignment(ideals: &Ideals, steps: &[Vec<Vec<Step>>], r: usize, end: Step) -> Assignment {
    let mut assignment = vec![0; ideals.sets[ideals.sets.len() - 1].len()];
    let (mut ideal, mut step) = (0, end);
    for stage in 0..r {
        for item in ideals.between(ideal, step.state) {
            assignment[item] = stage;
        }
        ideal = step.state;
        step = steps[ideal][r - stage - 1][step.step];
    }
    assignment
}
