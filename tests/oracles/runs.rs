//! What runs take, by brute force: every plan of a handful of items, each as a graph of tasks in which every one waits for what it must.

use std::collections::HashMap;

use stagecut::cost::allocation::StageLoad;
use stagecut::cost::{self, PhaseCost, StageCost};
use stagecut::options::{Communication, Objective};
use stagecut::problem::{Assignment, Problem};

/// What a task is: its stage, whether it belongs to backward propagation, its micro-batch, and what it does.
type Task = (usize, bool, u64, Part);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Receive,
    Work,
    Send,
}

/// Stages and in which order they work.
pub struct Run<'a> {
    pub stages: &'a [StageCost],
    pub trains: bool,
    pub has_links: bool,
    pub all_forward_first: bool,
    pub micro_batches: u64,
    ends: HashMap<Task, [u64; 2]>,
}

impl<'a> Run<'a> {
    pub fn new(problem: &Problem, stages: &'a [StageCost]) -> Self {
        let settings = &problem.settings;
        Self {
            stages,
            trains: settings.mode.trains(),
            has_links: settings.communication == Communication::Overlapped,
            all_forward_first: settings.schedule.is_all_forward_first(),
            micro_batches: match settings.objective {
                Objective::Latency => 1,
                _ => settings.micro_batches.expect("a number of micro-batches"),
            },
            ends: HashMap::new(),
        }
    }

    /// When the last task ends, in ns.
    pub fn makespan_ns(self) -> u64 {
        self.ends_ns().into_iter().max().unwrap_or(0)
    }

    /// When the last task of each stage ends, in ns.
    pub fn ends_ns(mut self) -> Vec<u64> {
        let passes = [false, true].into_iter().take(1 + usize::from(self.trains));
        let places: Vec<(usize, bool)> = passes
            .flat_map(|is_backward| (0..self.stages.len()).map(move |stage| (stage, is_backward)))
            .collect();
        let all = self.micro_batches;
        let tasks = places.iter().flat_map(|&(stage, is_backward)| {
            let parts = [Part::Receive, Part::Work, Part::Send].into_iter();
            parts.flat_map(move |part| (0..all).map(move |m| (stage, is_backward, m, part)))
        });
        let mut ends = vec![0; self.stages.len()];
        for task in tasks {
            ends[task.0] = self.times(task)[1].max(ends[task.0]);
        }
        ends
    }

    fn cost(&self, (stage, is_backward, ..): Task) -> PhaseCost {
        match is_backward {
            true => self.stages[stage].backward,
            false => self.stages[stage].forward,
        }
    }

    fn takes_ns(&self, task: Task) -> u64 {
        let cost = self.cost(task);
        match task.3 {
            Part::Work => cost.work_ns + cost.communication_ns,
            Part::Receive => cost.link_in_ns,
            Part::Send => cost.link_out_ns,
        }
    }

    /// Whether there is a task at all: nothing is moved where that takes no time.
    fn is_task(&self, task: Task) -> bool {
        task.3 == Part::Work || (self.has_links && self.takes_ns(task) > 0)
    }

    /// The place before on the way of a micro-batch.
    fn place_before(&self, stage: usize, is_backward: bool) -> Option<(usize, bool)> {
        match is_backward {
            false => Some((stage.checked_sub(1)?, false)),
            true if stage + 1 == self.stages.len() => Some((stage, false)),
            true => Some((stage + 1, true)),
        }
    }

    /// What a worker or link does, one after the other.
    fn order(&self, stage: usize, part: Part) -> Vec<Task> {
        let forward = |m: u64| (stage, false, m, part);
        let backward = |m: u64| (stage, true, m, part);
        let all = self.micro_batches;
        let mut order = Vec::new();
        if !self.trains {
            order.extend((0..all).map(forward));
        } else if self.all_forward_first || all == 1 {
            order.extend((0..all).map(forward));
            order.extend((0..all).rev().map(backward));
        } else {
            assert!(!self.has_links, "how many are in flight depends on the links");
            let ahead = ((self.stages.len() - stage) as u64).min(all);
            order.extend((0..ahead).map(forward));
            for m in 0..all {
                order.push(backward(m));
                order.extend((ahead + m < all).then(|| forward(ahead + m)));
            }
        }
        order.retain(|&task| self.is_task(task));
        order
    }

    /// From when to when, in ns.
    fn times(&mut self, task: Task) -> [u64; 2] {
        if !self.is_task(task) {
            return [0, 0];
        }
        if let Some(&times) = self.ends.get(&task) {
            return times;
        }
        let (stage, is_backward, micro_batch, part) = task;
        let order = self.order(stage, part);
        let at = order
            .iter()
            .position(|&other| other == task)
            .expect("a task of the lane");
        let mut start = at.checked_sub(1).map_or(0, |before| self.times(order[before])[1]);
        let here = |part| (stage, is_backward, micro_batch, part);
        let before = self.place_before(stage, is_backward);
        let before = before.map(|(stage, is_backward)| {
            [Part::Work, Part::Send].map(|part| (stage, is_backward, micro_batch, part))
        });
        match (part, before) {
            (Part::Send, _) => start = start.max(self.times(here(Part::Work))[1]),
            (Part::Receive, Some([_, send])) if self.is_task(send) => start = start.max(self.times(send)[0]),
            (Part::Receive, Some([work, _])) => start = start.max(self.times(work)[1]),
            (Part::Receive, None) => {}
            (Part::Work, before) => {
                for other in before.into_iter().flatten().chain([here(Part::Receive)]) {
                    start = start.max(self.times(other)[1]);
                }
            }
        }
        let times = [start, start + self.takes_ns(task)];
        self.ends.insert(task, times);
        times
    }
}

/// When the last pass ends of stages that run both phases at once and move nothing, in ns: the r-th from the end has at most 2r micro-batches in flight.
pub fn both_at_once_ns(stages: &[StageCost], micro_batches: usize) -> u64 {
    let count = stages.len();
    let mut forward = vec![vec![0; micro_batches]; count];
    let mut backward = forward.clone();
    for m in 0..micro_batches {
        let mut arrived = 0;
        for k in 0..count {
            let before = m.checked_sub(1).map_or(0, |m| forward[k][m]);
            let room = m.checked_sub(2 * (count - k)).map_or(0, |m| backward[k][m]);
            arrived = [arrived, before, room].into_iter().max().unwrap() + stages[k].forward.work_ns;
            forward[k][m] = arrived;
        }
        for k in (0..count).rev() {
            let before = m.checked_sub(1).map_or(0, |m| backward[k][m]);
            arrived = arrived.max(before) + stages[k].backward.work_ns;
            backward[k][m] = arrived;
        }
    }
    forward
        .iter()
        .chain(&backward)
        .flatten()
        .copied()
        .max()
        .unwrap_or(0)
}

/// A plan: stages, what each runs on where workers differ, and what each costs there.
pub type Costed = (Assignment, Vec<usize>, Vec<StageCost>);

/// Every plan of a problem; `None` beyond so many.
pub fn plans(problem: &Problem, most: usize) -> Option<Vec<Costed>> {
    let (items, stages) = (problem.items.len(), problem.stages());
    let mut found = Vec::new();
    let mut assignment = vec![0; items];
    loop {
        let used = assignment.iter().max().map_or(0, |most| most + 1);
        let is_dense = (0..used).all(|stage| assignment.contains(&stage));
        let is_enough = !problem.settings.all_stages || used == stages;
        if is_dense && is_enough && cost::keeps_order(problem, &assignment) {
            found.extend(staffed(problem, &assignment, used, most)?);
        }
        if found.len() > most {
            return None;
        }
        // The next number of so many digits.
        let Some(at) = assignment.iter().position(|&stage| stage + 1 < stages) else {
            return Some(found);
        };
        assignment[..at].fill(0);
        assignment[at] += 1;
    }
}

/// The same stages on everything that can run them and has memory for them; `None` beyond so many ways.
fn staffed(problem: &Problem, assignment: &Assignment, used: usize, most: usize) -> Option<Vec<Costed>> {
    let bytes = cost::stage_memory_bytes(problem, assignment, used);
    let Some(workers) = &problem.workers else {
        let limit = problem.settings.memory_limit.unwrap_or(u64::MAX);
        let mut costs = cost::stage_costs(problem, assignment);
        costs.truncate(used);
        let fits = bytes.iter().all(|&bytes| bytes <= limit);
        return Some(
            fits.then_some((assignment.clone(), Vec::new(), costs))
                .into_iter()
                .collect(),
        );
    };
    let works = workers.works(problem, assignment, used);
    let mut partial: Vec<(Vec<usize>, Vec<StageCost>)> = vec![(Vec::new(), Vec::new())];
    for (work, bytes) in works.iter().zip(&bytes) {
        let able = workers.choices.iter().enumerate().filter_map(|(at, choice)| {
            let fits = *bytes <= workers.memory_bytes(&problem.settings, choice);
            let load = workers.load(problem, choice, work, &[]);
            // A phase without a share never ends.
            let ends = |load: &StageLoad| load.bottleneck_ns < u64::MAX;
            load.filter(|load| fits && ends(load)).map(|load| (at, load.cost))
        });
        let longer = able.flat_map(|(at, cost)| {
            partial
                .iter()
                .map(move |(choices, costs)| ([&choices[..], &[at]].concat(), [&costs[..], &[cost]].concat()))
        });
        let is_left = |choices: &[usize]| {
            let taken = |kind: usize| {
                choices
                    .iter()
                    .map(move |&choice| workers.choices[choice].takes[kind])
            };
            (0..workers.inventory.len()).all(|kind| taken(kind).sum::<usize>() <= workers.inventory[kind])
        };
        partial = longer.filter(|(choices, _)| is_left(choices)).collect();
        if partial.len() > most {
            return None;
        }
    }
    let whole = partial.into_iter();
    Some(
        whole
            .map(|(choices, costs)| (assignment.clone(), choices, costs))
            .collect(),
    )
}
