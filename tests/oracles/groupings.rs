//! Brute force over workers: every way to give a fixed partition its devices.

use stagecut::cost;
use stagecut::cost::allocation::{Allocation, StageWork};
use stagecut::options::Shares;
use stagecut::problem::{Assignment, Problem};
use stagecut::workers::Workers;

/// Most devices, or given groups, that brute force deals out.
pub const MOST_DEVICES: usize = 8;

/// Why brute force over groupings was not tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupingsError {
    /// Too many devices to try every grouping.
    #[error("found {devices} devices, expected at most {MOST_DEVICES} for brute force over groupings")]
    TooManyDevices {
        /// Devices, or given groups, in the inventory.
        devices: usize,
    },
    /// Stages that share a decision cannot be costed one by one.
    #[error("found one global share for all stages, expected another policy")]
    GlobalShares,
}

/// The best choice for each of so many stages of a partition, and the objective in ns; `None` where there is none. Of
/// equals the lexicographically smallest.
///
/// The partition keeps the order and has no empty stage: only the workers are looked at here.
///
/// # Errors
///
/// More than [`MOST_DEVICES`], or global shares.
///
/// # Complexity
///
/// O(C^q) groupings for C choices and q stages, fewer for the inventory.
pub fn solve(
    problem: &Problem,
    workers: &Workers,
    assignment: &Assignment,
    stages: usize,
) -> Result<Option<(Allocation, u64)>, GroupingsError> {
    let devices = workers.inventory.iter().sum();
    if devices > MOST_DEVICES {
        return Err(GroupingsError::TooManyDevices { devices });
    }
    if problem.settings.shares == Shares::Global {
        return Err(GroupingsError::GlobalShares);
    }
    let mut search = Search {
        problem,
        workers,
        works: workers.works(problem, assignment, stages),
        bytes: cost::stage_memory_bytes(problem, assignment, stages),
        left: workers.inventory.clone(),
        choices: Vec::new(),
        best: None,
    };
    search.give_next(0);
    let allocation = |(choices, objective_ns)| {
        let allocation = Allocation {
            choices,
            ..Allocation::from(assignment.clone())
        };
        (allocation, objective_ns)
    };
    Ok(search.best.map(allocation))
}

struct Search<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    works: Vec<StageWork>,
    bytes: Vec<u64>,
    left: Vec<usize>,
    choices: Vec<usize>,
    best: Option<(Vec<usize>, u64)>,
}

impl Search<'_> {
    /// Tries every choice for the first stage without one, where those before cost so much at most.
    fn give_next(&mut self, busiest_ns: u64) {
        let stage = self.choices.len();
        if stage == self.works.len() {
            if self.best.as_ref().is_none_or(|(_, best)| busiest_ns < *best) {
                self.best = Some((self.choices.clone(), busiest_ns));
            }
            return;
        }
        let workers = self.workers;
        for (at, choice) in workers.choices.iter().enumerate() {
            let enough = choice
                .takes
                .iter()
                .zip(&self.left)
                .all(|(takes, left)| takes <= left);
            let fits = self.bytes[stage] <= workers.memory_bytes(&self.problem.settings, choice);
            let load = workers.load(self.problem, choice, &self.works[stage], &[]);
            let cost_ns = load.map_or(u64::MAX, |load| load.bottleneck_ns);
            if !enough || !fits || cost_ns == u64::MAX {
                continue;
            }
            self.left
                .iter_mut()
                .zip(&choice.takes)
                .for_each(|(left, takes)| *left -= takes);
            self.choices.push(at);
            self.give_next(busiest_ns.max(cost_ns));
            self.choices.pop();
            self.left
                .iter_mut()
                .zip(&choice.takes)
                .for_each(|(left, takes)| *left += takes);
        }
    }
}
