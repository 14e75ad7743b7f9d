//! Dynamic program over pairs of cuts: separate forward and backward cuts of a chain, with transfers and memory.
//!
//! The first stages of a plan hold the first `f` forward and the first `b` backward passes. What the next stage costs, to
//! the cut `(f', b')`, depends on the passes in it alone: a transfer is paid on its producer's stage where some consumer is
//! elsewhere, and on every other stage that consumes it, whichever stages the others are. That holds for stashes and weights
//! of split layers as for tensors. So from the end, with the [labels](stagecut::labels) of the best ways:
//!
//! ```math
//! best_r(f, b) = \min_{f' \ge f,\; b' \ge b} cost(f..f', b..b') \oplus best_{r-1}(f', b')
//! ```
//!
//! Memory is a stage's own affair, too, where it is known from the stage's passes and its position `r` from the end. A
//! forward pass elsewhere leaves its layer's stash here, for as long as its micro-batches are away: that may depend on
//! where it is ([`Problem::bytes_apart`]). It does not with GPipe, where all `M` are away; with one micro-batch; with two stages,
//! where elsewhere is one place; and with no stash, but for PipeDream's versions. Other problems whose memory binds are refused.
//!
//! Source: textbook; the state follows the DP over ideals of Tarnawski et al., NeurIPS 2020, on two chains.

use super::two_chains::{NotCovered, TwoChains};
use stagecut::cost;
use stagecut::labels::Step;
use stagecut::objective::Formula;
use stagecut::problem::{Assignment, Pair, Problem};

/// A best plan and its objective in ns; `None` where there is none.
///
/// # Errors
///
/// [`NotCovered`]: workers that differ, no two chains, memory that a stage's own passes do not decide.
///
/// # Complexity
///
/// Time O(n² m² (D + q L²)) and space O(n m q L) for n forward and m backward passes, time D to cost a stage, q stages and L
/// labels in a state, which is 1 for the period.
pub fn solve(problem: &Problem) -> Result<Option<(Assignment, u64)>, NotCovered> {
    let chains = TwoChains::of(problem)?;
    if problem.memory_is_joint() && !memory_is_local(problem) {
        return Err(NotCovered::JointMemory);
    }
    let [n, m] = chains.all();
    let mut program = Program {
        problem,
        formula: problem.formula(),
        stages: problem.stages().min(n + m),
        steps: vec![vec![Vec::new(); problem.stages().min(n + m) + 1]; (n + 1) * (m + 1)],
        chains,
    };
    let all = program.state([n, m]);
    program.steps[all][0].push(Step::default());
    for to in (0..=n).rev().flat_map(|f| (0..=m).rev().map(move |b| [f, b])) {
        for from in (0..=to[0]).flat_map(|f| (0..=to[1]).map(move |b| [f, b])) {
            if from != to {
                program.put(from, to);
            }
        }
    }
    Ok(program.best())
}

/// Whether the bytes of a stage are known from its own passes and its position: whether it makes no difference to any layer
/// where its other pass is, once it is elsewhere.
fn memory_is_local(problem: &Problem) -> bool {
    let positions = || 1..=problem.stages();
    let same = |pair: &Pair, backward: usize| {
        let bytes = |forward| problem.bytes_apart(pair, forward, backward);
        let mut elsewhere = positions().filter(|&forward| forward != backward);
        elsewhere.all(|forward| bytes(forward) == bytes(other_than(backward)))
    };
    let mut pairs = problem.pairs.iter();
    pairs.all(|pair| positions().all(|backward| same(pair, backward)))
}

/// Some position that is not this one.
fn other_than(position: usize) -> usize {
    if position == 1 { 2 } else { 1 }
}

struct Program<'a> {
    problem: &'a Problem,
    chains: TwoChains,
    formula: Formula,
    stages: usize,
    /// For each cut, by r: the best ways to place everything behind it in exactly r stages.
    steps: Vec<Vec<Vec<Step>>>,
}

impl Program<'_> {
    fn state(&self, [forward, backward]: [usize; 2]) -> usize {
        forward * (self.chains.backward.len() + 1) + backward
    }

    /// Puts a stage between two cuts, in front of everything behind the second.
    fn put(&mut self, from: [usize; 2], to: [usize; 2]) {
        let (before, after) = (self.state(from), self.state(to));
        if self.steps[after].iter().all(Vec::is_empty) {
            return;
        }
        let members = self.chains.between(from, to);
        let inside = |item: usize| members.contains(&item);
        let stage = self
            .formula
            .stage(&cost::stage_cost(self.problem, &members, inside));
        for r in 1..=self.stages {
            if !self.fits(&members, r) {
                continue;
            }
            for step in 0..self.steps[after][r - 1].len() {
                let way = Step {
                    label: self.steps[after][r - 1][step].label.join(stage),
                    state: after,
                    step,
                };
                self.formula.insert(&mut self.steps[before][r], way);
            }
        }
    }

    /// Whether the r-th stage from the end can hold these passes, the others of their layers being elsewhere.
    fn fits(&self, members: &[usize], r: usize) -> bool {
        let Some(limit) = self.problem.settings.memory_limit else {
            return true;
        };
        let together = |&item: &usize| self.problem.memory_bytes(&self.problem.items[item], r);
        let apart = |pair: &Pair| {
            let inside = [pair.forward, pair.backward].map(|item| members.contains(&item));
            match inside {
                [true, false] => self.problem.bytes_apart(pair, r, other_than(r)).1 as i64,
                [false, true] => self.problem.bytes_apart(pair, other_than(r), r).0,
                _ => 0,
            }
        };
        let bytes: u64 = members.iter().map(together).sum();
        let more: i64 = self.problem.pairs.iter().map(apart).sum();
        bytes.saturating_add_signed(more) <= limit
    }

    fn best(&self) -> Option<(Assignment, u64)> {
        let fewest = match self.problem.settings.all_stages {
            true => self.problem.stages(),
            false => 1,
        };
        let ends = (fewest..=self.stages).flat_map(|r| self.steps[0][r].iter().map(move |end| (r, end)));
        let (stages, end) = ends.min_by_key(|(_, end)| self.formula.objective_ns(&end.label))?;
        let mut step = *end;
        let mut cuts = Vec::new();
        for r in (0..stages).rev() {
            let width = self.chains.backward.len() + 1;
            cuts.push([step.state / width, step.state % width]);
            if r > 0 {
                step = self.steps[step.state][r][step.step];
            }
        }
        Some((
            self.chains.assignment(&cuts),
            self.problem
                .settings
                .whole_ns(self.formula.objective_ns(&end.label)),
        ))
    }
}
