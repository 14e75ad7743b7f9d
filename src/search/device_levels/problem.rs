//! Which problems are lines of unlike devices, and what their plans are.

use std::iter;

use crate::model::options::WorkerMode;
use crate::model::units::gcd;
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::workers::{Choice, Class, Workers};
use crate::search::device_levels::line::Line;
use crate::search::device_levels::search::Stations;

/// A problem as the search takes it: times in parts that all are multiples of.
pub(crate) struct DeviceLine {
    /// Its items as tasks, by the same numbers.
    pub line: Line,
    /// Such a part, in ns.
    pub quantum_ns: u64,
    /// For each class, the choice of one of its devices.
    choices: Vec<usize>,
}

impl DeviceLine {
    /// `None` where a stage may cost anything but the sum of its items' times on one device, or numbers are too large.
    pub(crate) fn new(problem: &Problem, workers: &Workers) -> Option<Self> {
        if !is_line(problem, workers) {
            return None;
        }
        let classes = 0..workers.classes.len();
        let choices: Vec<usize> = classes
            .map(|class| single(workers, class))
            .collect::<Option<_>>()?;
        if workers.choices.len() != choices.len() {
            return None;
        }
        let counts: Vec<usize> = choices
            .iter()
            .map(|&choice| inventory_of_single(workers, &workers.choices[choice]))
            .collect::<Option<_>>()?;
        let (times, quantum_ns) = times_in_quanta(problem, workers);
        Some(Self {
            line: Line::new(&times, &counts, &successors(problem)).ok()?,
            quantum_ns,
            choices,
        })
    }

    /// What the stations run on in order, then what is left, for so many stages at most.
    pub(crate) fn all_choices(&self, stations: &Stations, stages: usize) -> Vec<usize> {
        let mut left = self.line.counts.clone();
        stations.iter().for_each(|&(class, _)| left[class] -= 1);
        let used = stations.iter().map(|&(class, _)| class);
        let unused = (0..left.len()).flat_map(|class| iter::repeat_n(class, left[class]));
        let classes = used.chain(unused).take(stages);
        classes.map(|class| self.choices[class]).collect()
    }

    /// The plan of some stations in order.
    pub(crate) fn allocation(&self, stations: &Stations, items: usize) -> Allocation {
        let mut assignment = vec![0; items];
        for (stage, (_, tasks)) in stations.iter().enumerate() {
            tasks.iter().for_each(|&task| assignment[task] = stage);
        }
        Allocation {
            assignment,
            choices: stations.iter().map(|&(class, _)| self.choices[class]).collect(),
            global: Vec::new(),
            modes: None,
        }
    }
}

/// Whether all that a stage costs is the sum of its items' times on one device.
fn is_line(problem: &Problem, workers: &Workers) -> bool {
    let is_whole = |class: &Class| match class.resources.as_slice() {
        [resource] => resource.forward_rate == 1.0 && resource.backward_rate == 1.0,
        _ => false,
    };
    let is_sequential = match problem.settings.worker {
        WorkerMode::Sequential => true,
        WorkerMode::Concurrent => false,
    };
    let is_free = problem.transfers.is_empty() && problem.memory_never_binds();
    is_free && is_sequential && !problem.settings.all_stages && workers.classes.iter().all(is_whole)
}

/// Items right behind each item.
fn successors(problem: &Problem) -> Vec<Vec<usize>> {
    let behind = |item: usize| problem.order.neighbors((item as u32).into());
    let items = 0..problem.items.len();
    items
        .map(|item| behind(item).map(|other| other.index()).collect())
        .collect()
}

/// Times by class and item in parts that all are multiples of, and such a part in ns.
fn times_in_quanta(problem: &Problem, workers: &Workers) -> (Vec<Vec<Option<u64>>>, u64) {
    let times = |class: usize| {
        let times = problem.items.iter().map(move |item| item.times[class]);
        times.map(|times| times.map(|times| times.forward_ns + times.backward_ns))
    };
    let classes = 0..workers.classes.len();
    let all = classes.clone().flat_map(times).flatten();
    let quantum_ns = all.fold(0, gcd).max(1);
    // Objectives are whole ns.
    let quantum_ns = match quantum_ns.is_multiple_of(problem.settings.ticks_per_ns) {
        true => quantum_ns,
        false => 1,
    };
    let in_quanta = |class| times(class).map(|time| Some(time? / quantum_ns)).collect();
    (classes.map(in_quanta).collect(), quantum_ns)
}

/// The choice of one device of a class alone.
fn single(workers: &Workers, class: usize) -> Option<usize> {
    let is_it = |choice: &Choice| workers.is_single(choice) && choice.devices[class] == 1;
    workers.choices.iter().position(is_it)
}

/// How many there are of what a choice takes one of; `None` where it takes more.
fn inventory_of_single(workers: &Workers, choice: &Choice) -> Option<usize> {
    let at = choice.takes.iter().position(|&takes| takes == 1)?;
    (choice.takes.iter().sum::<usize>() == 1).then(|| workers.inventory[at])
}
