//! Brute force where workers differ: every plan of a handful of items on every choice of devices.

use std::collections::HashMap;

use super::each_assignment;
use super::shares::{self, Stage};
use stagecut::cost;
use stagecut::cost::allocation::{Allocation, StageWork, bottleneck_ns, objective_of};
use stagecut::options::{Shares, WorkerMode};
use stagecut::problem::{Assignment, Problem};
use stagecut::workers::Workers;

/// Most items that brute force takes.
pub const MOST_ITEMS: usize = 10;

/// Most choices of devices for a stage.
pub const MOST_CHOICES: usize = 100;

/// Why brute force refuses a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many items or choices to try every plan.
    #[error(
        "found {items} items and {choices} choices of devices, expected at most {MOST_ITEMS} and {MOST_CHOICES} for brute force"
    )]
    TooMany {
        /// Items of the problem.
        items: usize,
        /// Choices of devices.
        choices: usize,
    },
}

/// A best plan and its objective in ns, or `None` where there is no plan at all.
///
/// Shares are those of the policy. Where they are chosen, so that they are the best for each plan, they are found by trying every
/// level and every vertex of a linear program, and the objective is reckoned from them here.
///
/// # Errors
///
/// [`Refusal`].
///
/// # Complexity
///
/// O((q c)^n) plans for n items, q stages and c choices, fewer for order pairs, inventory and plans that are already worse.
pub fn solve(problem: &Problem, workers: &Workers) -> Result<Option<(Allocation, u64)>, Refusal> {
    solve_among(problem, workers, &|_| true)
}

/// The same of plans whose assignments are admitted.
///
/// # Errors
///
/// [`Refusal`].
pub fn solve_among(
    problem: &Problem,
    workers: &Workers,
    admits: &dyn Fn(&[usize]) -> bool,
) -> Result<Option<(Allocation, u64)>, Refusal> {
    let (items, choices) = (problem.items.len(), workers.choices.len());
    if items > MOST_ITEMS || choices > MOST_CHOICES {
        return Err(Refusal::TooMany { items, choices });
    }
    let mut search = Search {
        problem,
        workers,
        admits,
        phases_ns: HashMap::new(),
        assignment: Vec::with_capacity(items),
        best: None,
    };
    each_assignment(problem, problem.stages(), &mut |assignment| {
        search.assignment.clone_from(assignment);
        search.choose_all();
    });
    Ok(search.best)
}

/// The best shares for all stages of a plan, as [`Allocation::global`] has them, and the time of the slowest phase in ns; `None`
/// where some worker cannot run its stage.
pub fn best_global(workers: &Workers, works: &[StageWork], choices: &[usize]) -> Option<(Vec<f64>, u64)> {
    let pairs = works.iter().zip(choices);
    let stages: Option<Vec<Stage>> = pairs
        .map(|(work, &choice)| Stage::new(workers, &workers.choices[choice], work))
        .collect();
    Some(shares::best_global(workers.resource_names.len(), &stages?))
}

struct Search<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    admits: &'a dyn Fn(&[usize]) -> bool,
    /// By items of a stage and its choice, the time of the slower phase of a concurrent worker.
    phases_ns: HashMap<(u64, usize), Option<u64>>,
    assignment: Assignment,
    best: Option<(Allocation, u64)>,
}

/// What every stage costs on every choice at best, in ns; `u64::MAX` where it cannot run.
type Costs = Vec<Vec<u64>>;

impl Search<'_> {
    /// Tries every choice for the stages of the assignment, unless one of them is empty.
    fn choose_all(&mut self) {
        let used = self.assignment.iter().max().map_or(0, |most| most + 1);
        if (0..used).any(|stage| !self.assignment.contains(&stage)) || !(self.admits)(&self.assignment) {
            return;
        }
        let works = self.workers.works(self.problem, &self.assignment, used);
        let memory = cost::stage_memory_bytes(self.problem, &self.assignment, used);
        let mut costs = Costs::new();
        for stage in 0..used {
            let mut of_choices = Vec::new();
            for choice in 0..self.workers.choices.len() {
                let fits = memory[stage] <= self.memory_bytes(choice);
                let cost_ns = fits.then(|| self.cost_ns(stage, &works[stage], choice));
                of_choices.push(cost_ns.flatten().unwrap_or(u64::MAX));
            }
            costs.push(of_choices);
        }
        let left = self.workers.inventory.clone();
        self.choose_next(&works, &costs, &mut Vec::new(), &left);
    }

    fn memory_bytes(&self, choice: usize) -> u64 {
        let choice = &self.workers.choices[choice];
        self.workers.memory_bytes(&self.problem.settings, choice)
    }

    /// What a stage costs on a choice in ns; `None` where it cannot run.
    fn cost_ns(&mut self, stage: usize, work: &StageWork, choice: usize) -> Option<u64> {
        let settings = &self.problem.settings;
        let on = &self.workers.choices[choice];
        let load = self.workers.load(self.problem, on, work, &[])?;
        if settings.worker == WorkerMode::Sequential {
            return Some(objective_of(self.problem, &[&load]));
        }
        let mut links = load.cost;
        (links.forward.work_ns, links.backward.work_ns) = (0, 0);
        let items = (0..self.assignment.len()).filter(|&item| self.assignment[item] == stage);
        let items = items.map(|item| 1 << item).sum();
        let phases_ns = || Some(Stage::new(self.workers, on, work)?.ns(settings.shares));
        let phases_ns = *self.phases_ns.entry((items, choice)).or_insert_with(phases_ns);
        Some(phases_ns?.max(bottleneck_ns(settings, &links)))
    }

    fn choose_next(&mut self, works: &[StageWork], costs: &Costs, chosen: &mut Vec<usize>, left: &[usize]) {
        let best_ns = self.best.as_ref().map_or(u64::MAX, |&(_, ns)| ns);
        let stage = chosen.len();
        if stage == costs.len() {
            return self.keep_if_better(works, costs, chosen);
        }
        for (at, choice) in self.workers.choices.iter().enumerate() {
            let takes = left.iter().zip(&choice.takes);
            let left: Option<Vec<usize>> = takes.map(|(left, takes)| left.checked_sub(*takes)).collect();
            if let Some(left) = left.filter(|_| costs[stage][at] < best_ns) {
                chosen.push(at);
                self.choose_next(works, costs, chosen, &left);
                chosen.pop();
            }
        }
    }

    fn keep_if_better(&mut self, works: &[StageWork], costs: &Costs, choices: &[usize]) {
        let settings = &self.problem.settings;
        let mut allocation = Allocation {
            choices: choices.to_vec(),
            ..Allocation::from(self.assignment.clone())
        };
        let of_stages = choices.iter().zip(costs).map(|(&choice, costs)| costs[choice]);
        let mut objective_ns = match settings.worker {
            WorkerMode::Sequential => self.workers.objective_ns(self.problem, &allocation),
            WorkerMode::Concurrent => of_stages.max().unwrap_or(0),
            other => unreachable!("{other} is no mode that brute force knows"),
        };
        if settings.worker == WorkerMode::Concurrent && settings.shares == Shares::Global {
            let Some((global, phases_ns)) = best_global(self.workers, works, choices) else {
                return;
            };
            allocation.global = global;
            objective_ns = objective_ns.max(phases_ns);
        }
        objective_ns = settings.whole_ns(objective_ns);
        let is_better = self.best.as_ref().is_none_or(|&(_, best)| objective_ns < best);
        if is_better && objective_ns < u64::MAX && self.workers.is_feasible(self.problem, &allocation) {
            self.best = Some((allocation, objective_ns));
        }
    }
}
