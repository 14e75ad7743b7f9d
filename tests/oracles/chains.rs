//! Dynamic program over prefixes and devices used, for chains whose workers differ.
//!
//! On a chain the first stages hold a prefix, and all that later stages can see of their workers is what they took from
//! the inventory. The memory of a stage depends on its position from the end, so the program runs from there:
//!
//! ```math
//! best_r(s, u) = \min_{e > s,\; c} \max\{ cost(s..e, c),\; best_{r-1}(e, u - takes_c) \}
//! ```
//!
//! is the least bottleneck of laying everything from position `s` on in `r` stages that take `u` from the inventory, over ends
//! `e` of the first of them and choices `c` of its worker, which must hold what the `r`-th stage from the end holds. The
//! period is monotone in each bottleneck, so nothing else need be remembered. One global share ties all stages together
//! and is not covered.
//!
//! Source: textbook; the state follows the DP over ideals of Tarnawski et al., NeurIPS 2020, on a chain.

use std::ops::Range;

use stagecut::cost;
use stagecut::cost::allocation::{Allocation, StageWork};
use stagecut::options::{Shares, WorkerMode};
use stagecut::problem::Problem;
use stagecut::workers::Workers;

/// Why the program does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainsError {
    /// Some items may be laid either way round.
    #[error("found a network with a choice of order, expected a chain")]
    NoChain,
    /// One share for all stages.
    #[error("found one global share for all stages, expected another policy")]
    GlobalShares,
}

/// A best plan and its objective in ns; `None` where there is none.
///
/// # Errors
///
/// A network that is no chain, and global shares.
///
/// # Complexity
///
/// Time O(n² C (L + q S)) and space O(n q S) for n items, C choices, S = Π (inventory + 1) states of it, q stages, and
/// time L to cost a stage.
pub fn solve(problem: &Problem, workers: &Workers) -> Result<Option<(Allocation, u64)>, ChainsError> {
    let n = problem.items.len();
    let next_to = |item: usize| {
        let at = |item: usize| (item as u32).into();
        problem.order.contains_edge(at(item), at(item + 1))
    };
    // Items are numbered along the order.
    if !(0..n.saturating_sub(1)).all(next_to) {
        return Err(ChainsError::NoChain);
    }
    if problem.settings.worker == WorkerMode::Concurrent && problem.settings.shares == Shares::Global {
        return Err(ChainsError::GlobalShares);
    }
    let mut program = Program::new(problem, workers);
    for end in (1..=n).rev() {
        for start in (0..end).rev() {
            program.put(start, end);
        }
    }
    Ok(program.best())
}

/// The best way to lay everything from a position on in a number of stages with some of the inventory.
#[derive(Clone, Copy)]
struct Way {
    bottleneck_ns: u64,
    /// Where the first of the stages ends, and its choice.
    end: usize,
    choice: usize,
}

const NO_WAY: Way = Way {
    bottleneck_ns: u64::MAX,
    end: 0,
    choice: 0,
};

/// A stage of consecutive items on a choice.
struct Stage {
    items: Range<usize>,
    choice: usize,
    cost_ns: u64,
}

struct Program<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    stages: usize,
    /// What one more of each part of the inventory adds to a state's number, and the number of states.
    digit: Vec<usize>,
    states: usize,
    /// At `(stages * (n + 1) + start) * states + used`.
    ways: Vec<Way>,
}

impl<'a> Program<'a> {
    fn new(problem: &'a Problem, workers: &'a Workers) -> Self {
        let n = problem.items.len();
        let stages = problem.stages().min(n);
        let mut states = 1;
        let digit = workers
            .inventory
            .iter()
            .map(|count| {
                let digit = states;
                states *= count + 1;
                digit
            })
            .collect();
        let mut program = Self {
            problem,
            workers,
            stages,
            digit,
            states,
            ways: vec![NO_WAY; (stages + 1) * (n + 1) * states],
        };
        let nothing_left = program.at(0, n, 0);
        program.ways[nothing_left].bottleneck_ns = 0;
        program
    }

    fn at(&self, stages: usize, start: usize, used: usize) -> usize {
        (stages * (self.problem.items.len() + 1) + start) * self.states + used
    }

    /// Puts a stage of items start..end in front of everything from `end` on, on each choice.
    fn put(&mut self, start: usize, end: usize) {
        let (problem, workers) = (self.problem, self.workers);
        let members: Vec<usize> = (start..end).collect();
        let mut work = StageWork::empty(workers.classes.len());
        work.transfers = cost::stage_cost(problem, &members, |item| (start..end).contains(&item));
        (work.transfers.forward.work_ns, work.transfers.backward.work_ns) = (0, 0);
        members.iter().for_each(|&item| work.add_item(problem, item));
        for (at, choice) in workers.choices.iter().enumerate() {
            let load = workers.load(problem, choice, &work, &[]);
            let cost_ns = load.map_or(u64::MAX, |load| load.bottleneck_ns);
            if cost_ns == u64::MAX {
                continue;
            }
            let stage = Stage {
                items: start..end,
                choice: at,
                cost_ns,
            };
            let limit = workers.memory_bytes(&problem.settings, choice);
            for r in 1..=self.stages {
                let bytes = |&item: &usize| problem.memory_bytes(&problem.items[item], r);
                if members.iter().map(bytes).sum::<u64>() <= limit {
                    self.join(&stage, r);
                }
            }
        }
    }

    /// Joins a stage, the r-th from the end, with every way behind it that leaves its choice in the inventory.
    fn join(&mut self, stage: &Stage, r: usize) {
        let (start, end) = (stage.items.start, stage.items.end);
        let takes = &self.workers.choices[stage.choice].takes;
        let step: usize = takes
            .iter()
            .zip(&self.digit)
            .map(|(takes, digit)| takes * digit)
            .sum();
        for used in 0..self.states {
            let behind = self.ways[self.at(r - 1, end, used)];
            if behind.bottleneck_ns == u64::MAX || !self.is_left(used, takes) {
                continue;
            }
            let bottleneck_ns = behind.bottleneck_ns.max(stage.cost_ns);
            let here = self.at(r, start, used + step);
            if bottleneck_ns < self.ways[here].bottleneck_ns {
                self.ways[here] = Way {
                    bottleneck_ns,
                    end,
                    choice: stage.choice,
                };
            }
        }
    }

    fn is_left(&self, used: usize, takes: &[usize]) -> bool {
        let parts = self.workers.inventory.iter().zip(&self.digit).zip(takes);
        let mut parts = parts.map(|((count, digit), takes)| used / digit % (count + 1) + takes <= *count);
        parts.all(|enough| enough)
    }

    fn best(&self) -> Option<(Allocation, u64)> {
        let fewest = match self.problem.settings.all_stages {
            true => self.problem.stages(),
            false => 1,
        };
        let ends = (fewest..=self.stages).flat_map(|r| (0..self.states).map(move |used| (r, used)));
        let objective_ns = |&(r, used): &(usize, usize)| self.ways[self.at(r, 0, used)].bottleneck_ns;
        let best = ends.min_by_key(objective_ns)?;
        if objective_ns(&best) == u64::MAX {
            return None;
        }
        let (stages, mut used) = best;
        let mut plan = Allocation::from(Vec::new());
        for stage in 0..stages {
            let way = self.ways[self.at(stages - stage, plan.assignment.len(), used)];
            plan.assignment.resize(way.end, stage);
            plan.choices.push(way.choice);
            let takes = &self.workers.choices[way.choice].takes;
            used -= takes
                .iter()
                .zip(&self.digit)
                .map(|(takes, digit)| takes * digit)
                .sum::<usize>();
        }
        Some((plan, self.problem.settings.whole_ns(objective_ns(&best))))
    }
}
