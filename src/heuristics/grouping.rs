//! Workers for the stages of a fixed partition.
//!
//! Greedy grouping: Duan and Wu, *Optimizing resource allocation in pipeline parallelism for distributed DNN training*,
//! ICPADS 2022, Algorithm 2, in our words (the listing was not available): all groups start empty; while devices remain,
//! take the group whose stage cost max{f(p_i, speed), g(p_i, speed)} is largest and give it the device that lowers that
//! cost most. For workers that take turns the cost is the stage's load. Ours: an empty group costs more than any other,
//! and of equal costs the stage with most work comes first, then the first stage; of equal devices the first class.
//! A device that does not lower the largest cost is not given: that stage already decides the period.
//!
//! Dealing: R. Graham, *Bounds on multiprocessing timing anomalies*, SIAM J. Applied Mathematics 17(2), 1969, longest
//! processing time first. Ours: the fastest device, or worker, to the stage that takes longest.
//!
//! With one global share for all stages, each stage is weighed at its own best shares here.

use std::cmp::Reverse;

use super::MustStop;
use crate::model::options::Groups;
use crate::problem::cost;
use crate::problem::cost::allocation::StageWork;
use crate::problem::workers::Workers;
use crate::problem::{Assignment, Problem};

/// A partition whose stages look for workers.
pub struct Grouping<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    works: Vec<StageWork>,
    bytes: Vec<u64>,
    /// Reference work of each stage in ns, which breaks ties.
    work_ns: Vec<u64>,
}

impl<'a> Grouping<'a> {
    /// Takes a partition into so many stages, none of them empty.
    pub fn new(problem: &'a Problem, workers: &'a Workers, assignment: &Assignment, stages: usize) -> Self {
        let mut work_ns = vec![0; stages];
        for (item, &stage) in assignment.iter().enumerate() {
            work_ns[stage] += problem.items[item].work_ns();
        }
        Self {
            problem,
            workers,
            works: workers.works(problem, assignment, stages),
            bytes: cost::stage_memory_bytes(problem, assignment, stages),
            work_ns,
        }
    }

    /// What a stage costs on a choice, in ns; `u64::MAX` where it cannot run or does not fit.
    pub fn cost_ns(&self, stage: usize, choice: usize) -> u64 {
        let choice = &self.workers.choices[choice];
        if self.bytes[stage] > self.workers.memory_bytes(&self.problem.settings, choice) {
            return u64::MAX;
        }
        let load = self.workers.load(self.problem, choice, &self.works[stage], &[]);
        load.map_or(u64::MAX, |load| load.bottleneck_ns)
    }

    /// Algorithm 2: a choice for every stage, or `None` where some stage is left without a worker that can run it.
    ///
    /// Where groups are given every stage takes one: the stage with most work first, what costs it least.
    /// Time O(d q + d c L) for d devices of c classes, q stages, and L to cost a stage.
    pub fn greedy(&self) -> Option<Vec<usize>> {
        match self.problem.settings.groups {
            Groups::Assign => self.fill(|grouping, stage, devices, left| {
                let with = |&class: &usize| grouping.ns_with_one_more(stage, devices, class);
                let classes = (0..left.len()).filter(|&class| left[class] > 0);
                classes.min_by_key(with)
            }),
            Groups::Given => self.one_each(),
        }
    }

    /// Longest processing time first: devices are dealt fastest first, each to the stage that then costs most.
    pub fn deal(&self) -> Option<Vec<usize>> {
        match self.problem.settings.groups {
            Groups::Assign => {
                let speeds: Vec<f64> = (0..self.workers.classes.len())
                    .map(|class| speed(self.problem, self.workers, class))
                    .collect();
                self.fill(|_, _, _, left| {
                    let classes = (0..left.len()).filter(|&class| left[class] > 0);
                    // The first of equals, which `max_by` would not give.
                    classes.min_by(|&a, &b| speeds[b].total_cmp(&speeds[a]))
                })
            }
            Groups::Given => self.one_each(),
        }
    }

    /// Gives devices to the stage that costs most, each of the class that `pick` takes of what is left, while they lower
    /// its cost. Every turn takes a device of the inventory.
    fn fill(&self, pick: impl Fn(&Self, usize, &[usize], &[usize]) -> Option<usize>) -> Option<Vec<usize>> {
        let stages = self.works.len();
        let mut left = self.workers.inventory.clone();
        let mut devices = vec![vec![0; left.len()]; stages];
        let mut costs = vec![u64::MAX; stages];
        while let Some(stage) = (0..stages).max_by_key(|&s| (costs[s], self.work_ns[s], Reverse(s))) {
            let Some(class) = pick(self, stage, &devices[stage], &left) else {
                break;
            };
            let cost_ns = self.ns_with_one_more(stage, &devices[stage], class);
            if cost_ns >= costs[stage] {
                break;
            }
            costs[stage] = cost_ns;
            devices[stage][class] += 1;
            left[class] -= 1;
        }
        self.runs(&costs).then_some(())?;
        devices
            .iter()
            .map(|devices| self.workers.choice_of(devices))
            .collect()
    }

    /// What a stage costs on these devices and one more of a class, in ns.
    fn ns_with_one_more(&self, stage: usize, devices: &[usize], class: usize) -> u64 {
        let mut devices = devices.to_vec();
        devices[class] += 1;
        let choice = self.workers.choice_of(&devices);
        choice.map_or(u64::MAX, |choice| self.cost_ns(stage, choice))
    }

    /// One choice for each stage, most work first, each what costs it least of what is left.
    fn one_each(&self) -> Option<Vec<usize>> {
        let mut left = self.workers.inventory.clone();
        let mut order: Vec<usize> = (0..self.works.len()).collect();
        order.sort_by_key(|&stage| (Reverse(self.work_ns[stage]), stage));
        let mut choices = vec![0; order.len()];
        let mut costs = vec![u64::MAX; order.len()];
        for stage in order {
            let free = (0..self.workers.choices.len()).filter(|&choice| is_left(self.workers, &left, choice));
            let choice = free.min_by_key(|&choice| self.cost_ns(stage, choice))?;
            take_devices(self.workers, &mut left, choice);
            (choices[stage], costs[stage]) = (choice, self.cost_ns(stage, choice));
        }
        self.runs(&costs).then_some(choices)
    }

    fn runs(&self, costs: &[u64]) -> bool {
        costs.iter().all(|&cost_ns| cost_ns < u64::MAX)
    }

    /// Local search on the workers: a device moves to another stage, two stages swap devices or workers, an idle one
    /// comes in, while that lowers the largest cost or, at the same largest cost, the sum of squares.
    ///
    /// Only moves that touch a busiest stage are tried: no other can lower the largest cost. Deterministic; the pair of largest
    /// cost and sum of squares falls in every step, so that no choices come back. Stops between moves when it must.
    pub fn improve(&self, choices: &mut [usize], must_stop: MustStop<'_>) {
        let mut costs: Vec<u64> = (0..choices.len())
            .map(|stage| self.cost_ns(stage, choices[stage]))
            .collect();
        // The largest cost and the sum of squares fall with every step.
        while let Some(step) = self.better_step(choices, &costs, must_stop) {
            for (stage, choice) in step {
                choices[stage] = choice;
                costs[stage] = self.cost_ns(stage, choice);
            }
        }
    }

    fn better_step(
        &self,
        choices: &[usize],
        costs: &[u64],
        must_stop: MustStop<'_>,
    ) -> Option<Vec<(usize, usize)>> {
        let busiest_ns = costs.iter().copied().max()?;
        let busiest = (0..costs.len()).filter(|&stage| costs[stage] == busiest_ns);
        let is_better = |step: &Vec<(usize, usize)>| {
            let mut after = costs.to_vec();
            for &(stage, choice) in step {
                after[stage] = self.cost_ns(stage, choice);
                if after[stage] > busiest_ns {
                    return false;
                }
            }
            value(&after) < value(costs)
        };
        busiest
            .flat_map(|stage| neighbours(self.problem, self.workers, choices, stage))
            .take_while(|_| !must_stop())
            .find(is_better)
    }
}

/// Largest cost, then the sum of squares.
fn value(costs: &[u64]) -> (u64, u128) {
    let squares = costs.iter().map(|&cost_ns| u128::from(cost_ns).pow(2));
    (
        costs.iter().copied().max().unwrap_or(0),
        squares.fold(0, u128::saturating_add),
    )
}

/// Changes of the choices that touch a stage, each the stages and their new choices: workers swapped with another stage,
/// a choice taken that is free, and where groups are assigned a device moved to or from another stage or swapped.
pub(crate) fn neighbours(
    problem: &Problem,
    workers: &Workers,
    choices: &[usize],
    stage: usize,
) -> Vec<Vec<(usize, usize)>> {
    let mut steps = Vec::new();
    let others = || (0..choices.len()).filter(move |&other| other != stage);
    for other in others().filter(|&other| choices[other] != choices[stage]) {
        steps.push(vec![(stage, choices[other]), (other, choices[stage])]);
    }
    let mut left = workers.inventory.clone();
    choices
        .iter()
        .for_each(|&choice| take_devices(workers, &mut left, choice));
    if problem.settings.groups == Groups::Given {
        let free = (0..workers.choices.len()).filter(|&choice| is_left(workers, &left, choice));
        steps.extend(free.map(|choice| vec![(stage, choice)]));
        return steps;
    }
    let of = |stage: usize| &workers.choices[choices[stage]].devices;
    // Gives and takes a device of a class, or none.
    let changed = |stage: usize, gives: Option<usize>, takes: Option<usize>| {
        let mut devices = of(stage).clone();
        if let Some(class) = gives {
            devices[class] = devices[class].checked_sub(1)?;
        }
        takes.into_iter().for_each(|class| devices[class] += 1);
        Some((stage, workers.choice_of(&devices)?))
    };
    let classes = 0..workers.classes.len();
    let some_or_none = || std::iter::once(None).chain(classes.clone().map(Some));
    for gives in some_or_none() {
        for takes in some_or_none().filter(|&takes| takes != gives) {
            if takes.is_none_or(|class| left[class] > 0) {
                steps.extend(changed(stage, gives, takes).map(|step| vec![step]));
            }
            for other in others() {
                let both = changed(stage, gives, takes).zip(changed(other, takes, gives));
                steps.extend(both.map(|(a, b)| vec![a, b]));
            }
        }
    }
    steps
}

/// Choices that the inventory still allows beside these.
pub(crate) fn free_choices(workers: &Workers, choices: &[usize]) -> Vec<usize> {
    let left = devices_left(workers, choices);
    let all = 0..workers.choices.len();
    all.filter(|&choice| is_left(workers, &left, choice)).collect()
}

/// What choices leave of the inventory.
fn devices_left(workers: &Workers, choices: &[usize]) -> Vec<usize> {
    let mut left = workers.inventory.clone();
    choices
        .iter()
        .for_each(|&choice| take_devices(workers, &mut left, choice));
    left
}

fn is_left(workers: &Workers, left: &[usize], choice: usize) -> bool {
    let takes = workers.choices[choice].takes.iter();
    takes.zip(left).all(|(takes, left)| takes <= left)
}

/// Takes the devices of a choice off those left.
fn take_devices(workers: &Workers, left: &mut [usize], choice: usize) {
    let takes = workers.choices[choice].takes.iter();
    left.iter_mut()
        .zip(takes)
        .for_each(|(left, takes)| *left -= takes);
}

/// Speed of a device of a class at all items that it can run, relative to their reference work.
fn speed(problem: &Problem, workers: &Workers, class: usize) -> f64 {
    let (mut reference_ns, mut own_ns) = (0.0, 0.0);
    let resources = &workers.classes[class].resources;
    let forward_rate: f64 = resources.iter().map(|resource| resource.forward_rate).sum();
    let backward_rate: f64 = resources.iter().map(|resource| resource.backward_rate).sum();
    for item in &problem.items {
        if let Some(times) = item.times[class] {
            reference_ns += item.work_ns() as f64;
            own_ns += times.forward_ns as f64 / forward_rate + times.backward_ns as f64 / backward_rate;
        }
    }
    reference_ns / f64::max(own_ns, 1.0)
}
