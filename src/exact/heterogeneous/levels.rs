//! The search over ideals and free devices, level by level, as a step: periods of single devices without transfers.

use crate::bound_source::BoundSource;
use crate::cost::allocation::Allocation;
use crate::exact::device_levels::line::Line;
use crate::exact::device_levels::search::{self, Stations};
use crate::exact::heterogeneous::search::HeterogeneousSearch;
use crate::options::WorkerMode;
use crate::plan::StoppedBy;
use crate::problem::Problem;
use crate::units::gcd;
use crate::workers::{Choice, Class, Workers};

impl HeterogeneousSearch<'_> {
    /// Searches levels of ideals and devices with so many nodes at most.
    pub fn use_levels(&mut self, most_nodes: u64) -> StoppedBy {
        let (problem, control) = (self.incumbent.problem, self.incumbent.control);
        let Some(levels) = DeviceLine::new(problem, self.workers) else {
            return StoppedBy::SizeLimit;
        };
        let known = self
            .incumbent
            .has_plan()
            .then(|| self.incumbent.upper_ns.div_ceil(levels.quantum_ns));
        let must_stop = || control.must_stop().is_some();
        let found = search::search(&levels.line, problem.stages(), known, most_nodes, &must_stop);
        if let Some(stations) = &found.plan {
            self.incumbent
                .offer(levels.allocation(stations, problem.items.len()));
        }
        match found.lower {
            u64::MAX => self.incumbent.exhausted(BoundSource::DeviceLevels),
            lower => self
                .incumbent
                .raise(BoundSource::DeviceLevels, lower * levels.quantum_ns),
        }
        match self.incumbent.is_over() {
            true => StoppedBy::Completed,
            false => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
        }
    }
}

/// A problem as the search takes it: times in parts that all are multiples of.
struct DeviceLine {
    line: Line,
    quantum_ns: u64,
    /// For each class, the choice of one of its devices.
    choices: Vec<usize>,
}

impl DeviceLine {
    /// `None` where a stage may cost anything but the sum of its items' times on one device, or numbers are too large.
    fn new(problem: &Problem, workers: &Workers) -> Option<Self> {
        let is_whole = |class: &Class| {
            let [resource] = class.resources.as_slice() else {
                return false;
            };
            resource.forward_rate == 1.0 && resource.backward_rate == 1.0
        };
        let is_free = problem.transfers.is_empty() && problem.memory_never_binds();
        let is_sequential = match problem.settings.worker {
            WorkerMode::Sequential => true,
            WorkerMode::Concurrent => false,
        };
        let is_plain = is_free && is_sequential && !problem.settings.all_stages;
        if !is_plain || !workers.classes.iter().all(is_whole) {
            return None;
        }
        let classes = 0..workers.classes.len();
        let choices: Vec<usize> = classes
            .map(|class| single(workers, class))
            .collect::<Option<_>>()?;
        if workers.choices.len() != choices.len() {
            return None;
        }
        let time = |item: usize, class: usize| {
            problem.items[item].times[class].map(|times| times.forward_ns + times.backward_ns)
        };
        let items = 0..problem.items.len();
        let times: Vec<Vec<Option<u64>>> = (0..choices.len())
            .map(|class| items.clone().map(|item| time(item, class)).collect())
            .collect();
        let ticks = problem.settings.ticks_per_ns;
        let quantum_ns = times.iter().flatten().flatten().copied().fold(0, gcd).max(1);
        // Objectives are whole ns.
        let quantum_ns = if quantum_ns.is_multiple_of(ticks) {
            quantum_ns
        } else {
            1
        };
        let in_quanta = |row: &Vec<Option<u64>>| row.iter().map(|time| Some((*time)? / quantum_ns)).collect();
        let successors = |item: usize| {
            let after = problem.order.neighbors((item as u32).into());
            after.map(|other| other.index()).collect()
        };
        let successors: Vec<Vec<usize>> = items.clone().map(successors).collect();
        let counts: Vec<usize> = choices
            .iter()
            .map(|&choice| inventory(workers, &workers.choices[choice]))
            .collect::<Option<_>>()?;
        let times: Vec<Vec<Option<u64>>> = times.iter().map(in_quanta).collect();
        Some(Self {
            line: Line::new(&times, &counts, &successors).ok()?,
            quantum_ns,
            choices,
        })
    }

    /// The plan of some stations in order.
    fn allocation(&self, stations: &Stations, items: usize) -> Allocation {
        let mut assignment = vec![0; items];
        for (stage, (_, tasks)) in stations.iter().enumerate() {
            tasks.iter().for_each(|&task| assignment[task] = stage);
        }
        Allocation {
            assignment,
            choices: stations.iter().map(|&(class, _)| self.choices[class]).collect(),
            global: Vec::new(),
        }
    }
}

/// The choice of one device of a class alone.
fn single(workers: &Workers, class: usize) -> Option<usize> {
    let is_it = |choice: &Choice| workers.is_single(choice) && choice.devices[class] == 1;
    workers.choices.iter().position(is_it)
}

/// How many there are of what a choice takes one of; `None` where it takes more.
fn inventory(workers: &Workers, choice: &Choice) -> Option<usize> {
    let at = choice.takes.iter().position(|&takes| takes == 1)?;
    (choice.takes.iter().sum::<usize>() == 1).then(|| workers.inventory[at])
}
