//! Dynamic program over ideals and the devices behind them, for workers that differ.
#![doc = include_str!("../../../formulations/allocation_ideals.md")]

use std::collections::HashMap;

use crate::control::Control;
use crate::cost::StageCost;
use crate::cost::allocation::{Allocation, StageWork};
use crate::exact::bits;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::heterogeneous::stage::{Holding, sides};
use crate::exact::ideals::growth::{self, Grown, Growth};
use crate::exact::room;
use crate::labels;
use crate::objective::Formula;
use crate::plan::StoppedBy;
use crate::problem::Problem;
use crate::workers::Workers;

/// What a pass found.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// A plan whose every stage keeps the limit; for an iteration, the best plan below the objective to beat.
    Found(Allocation),
    /// There is none.
    Exhausted,
    /// Too many ideals or labels, or a limit of the search.
    Stopped(StoppedBy),
}

/// Looks for plans whose every stage keeps a limit, over ideals and the devices that the stages behind them take.
pub struct AllocationSearch<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    control: &'a Control<'a>,
    capacity: &'a Capacity,
    predecessors: Vec<Vec<usize>>,
    /// What each side of each transfer costs.
    sides: Vec<[StageCost; 2]>,
    /// Choices, the smallest groups first.
    smallest_first: Vec<usize>,
    /// Whether the bytes of a stage can matter.
    memory_binds: bool,
    /// For an iteration, how stages make up its time.
    formula: Option<Formula>,
    most_steps: u64,
    /// The best iteration of a pass that was stopped.
    pub unfinished: Option<Allocation>,
    /// Ideals met in all passes.
    pub ideals: usize,
    /// Steps taken in all passes: items decided, and choices tried.
    pub steps: u64,
}

/// An ideal and the ways to reach it.
struct Ideal {
    left: Box<[u64]>,
    weight: u64,
    labels: Vec<Label>,
}

/// A way to reach an ideal: so many stages behind it, which take so many devices and so much time.
struct Label {
    behind: usize,
    taken: Box<[usize]>,
    /// What the stages behind add to an iteration; nothing for a period, which the limit is for.
    time: labels::Label,
    choice: usize,
    /// Ideal and label before the last stage was taken off the end.
    parent: (usize, usize),
}

impl Label {
    /// Whether whatever can follow `other` can follow this too, at no more cost: no more devices gone, no more stages behind.
    fn dominates(&self, other: &Self, all_stages: bool, formula: Option<&Formula>) -> bool {
        let as_many = match all_stages {
            true => self.behind == other.behind,
            false => self.behind <= other.behind,
        };
        as_many
            && is_within(&self.taken, &other.taken)
            && formula.is_none_or(|formula| formula.dominates(&self.time, &other.time))
    }
}

fn is_within(devices: &[usize], most: &[usize]) -> bool {
    devices.iter().zip(most).all(|(n, most)| n <= most)
}

/// Labels of all ideals at most.
const MOST_LABELS: usize = 20_000_000;

/// What a label takes beside its devices, and an ideal beside its sets, with what tables leave free.
const BYTES_OF_A_LABEL: usize = 112;
const BYTES_OF_AN_IDEAL: usize = 288;

/// Labels looked at between two looks at the clock.
const PATIENCE: usize = 1 << 14;

impl<'a> AllocationSearch<'a> {
    /// Prepares a search that gives up after so many steps.
    pub fn new(
        problem: &'a Problem,
        workers: &'a Workers,
        capacity: &'a Capacity,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Self {
        let mut smallest_first: Vec<usize> = (0..workers.choices.len()).collect();
        smallest_first.sort_by_key(|&choice| workers.choices[choice].takes.iter().sum::<usize>());
        Self {
            sides: sides(problem),
            formula: Some(problem.formula()).filter(|formula| !formula.is_bottleneck()),
            predecessors: growth::predecessors(problem),
            memory_binds: !problem.memory_never_binds(),
            smallest_first,
            problem,
            workers,
            control,
            capacity,
            most_steps,
            unfinished: None,
            ideals: 0,
            steps: 0,
        }
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one; for an iteration, the best plan that
    /// costs no more than that.
    ///
    /// Ideals are worked off from large to small, so that all ways to reach one are known before it is left.
    pub fn pass(&mut self, limit_ns: u64) -> Pass {
        let everything = Ideal {
            left: bits::full(self.problem.items.len()),
            weight: self.capacity.total_weight,
            labels: vec![Label {
                behind: 0,
                taken: vec![0; self.workers.inventory.len()].into(),
                time: labels::Label::default(),
                choice: usize::MAX,
                parent: (usize::MAX, usize::MAX),
            }],
        };
        let n = self.problem.items.len();
        let mut ideals = Ideals {
            position: HashMap::from([(everything.left.clone(), 0)]),
            all: vec![everything],
            by_size: vec![Vec::new(); n + 1],
            labels: 1,
            limit_ns,
            last: None,
            looked_at: 0,
            bytes_of_a_label: BYTES_OF_A_LABEL + 8 * self.workers.inventory.len(),
            bytes_of_an_ideal: BYTES_OF_AN_IDEAL + 2 * n.div_ceil(8),
            most_bytes: room::bytes(),
        };
        ideals.by_size[n].push(0);
        let mut steps = 0;
        let mut pass = Pass::Exhausted;
        'sizes: for size in (1..=n).rev() {
            for at in std::mem::take(&mut ideals.by_size[size]) {
                // A growth looks at the clock too, but most are short, and each may try many devices.
                if let Some(stopped_by) = self.control.must_stop() {
                    pass = Pass::Stopped(stopped_by);
                    break 'sizes;
                }
                match self.leave(at, &mut ideals, &mut steps) {
                    Grown::All => {}
                    Grown::Accepted => break 'sizes,
                    Grown::Stopped(stopped_by) => {
                        pass = Pass::Stopped(stopped_by);
                        break 'sizes;
                    }
                }
            }
        }
        self.ideals += ideals.all.len();
        self.steps += steps;
        let found = ideals.last.as_ref().map(|last| self.unwind(&ideals.all, last));
        match (found, pass) {
            (Some(found), Pass::Exhausted) => Pass::Found(found),
            (found, pass) => {
                self.unfinished = found;
                pass
            }
        }
    }

    /// Takes every stage off the end of an ideal, on all devices that can run it in time.
    fn leave(&self, at: usize, ideals: &mut Ideals, steps: &mut u64) -> Grown {
        let limit_ns = self.stage_limit_ns(ideals.limit_ns);
        let labels = std::mem::take(&mut ideals.all[at].labels);
        let left = ideals.all[at].left.clone();
        let weight = ideals.all[at].weight;
        let most_behind = labels.iter().map(|label| label.behind).max().unwrap_or(0);
        let least_behind = labels.iter().map(|label| label.behind).min().unwrap_or(0);
        // The fewer stages behind, the fewer micro-batches in flight.
        let behind = self.memory_binds.then_some(least_behind);
        let tally = Holding::new(self.problem, self.capacity, &self.sides, limit_ns, behind);
        let carries = |label: &Label| {
            let stages_left = self.problem.stages() - label.behind;
            self.capacity
                .carries(&label.taken, stages_left.saturating_sub(1), limit_ns)
        };
        let may_carry = labels.iter().map(carries).fold(0.0, f64::max);
        let most_steps = self.most_steps.saturating_sub(*steps);
        let mut stage = Growth::new(self.problem, self.control, &self.predecessors, &left, tally);
        let mut stopped = None;
        let mut next_look = ideals.looked_at + PATIENCE;
        let mut tried = 0;
        let grown = stage.each(most_steps, &mut |holding, left| {
            let weight_left = weight - holding.weight;
            if weight_left as f64 > may_carry {
                return false;
            }
            let work = holding.work();
            // Choices depend on what is behind only where memory binds.
            let depths = least_behind..=if self.memory_binds {
                most_behind
            } else {
                least_behind
            };
            let fitting: Vec<Vec<Fitting>> = depths
                .map(|behind| self.fitting(holding, &work, behind, limit_ns, &mut tried))
                .collect();
            let is_empty = left.iter().all(|word| *word == 0);
            for (l, label) in labels.iter().enumerate() {
                ideals.looked_at += 1;
                if ideals.looked_at > next_look {
                    next_look = ideals.looked_at + PATIENCE;
                    stopped = self.control.must_stop();
                    if stopped.is_some() {
                        return true;
                    }
                }
                let depth = if self.memory_binds {
                    label.behind - least_behind
                } else {
                    0
                };
                for &fitting in &fitting[depth] {
                    let next = self.after(label, fitting, (at, l));
                    let fits = |next: &Label| {
                        self.may_finish(next, weight_left, is_empty, limit_ns)
                            && self.least_ns(next, weight_left) <= ideals.limit_ns
                    };
                    let Some(next) = next.filter(fits) else { continue };
                    if !is_empty {
                        let all_stages = self.problem.settings.all_stages;
                        ideals.add(left, weight_left, next, all_stages, self.formula.as_ref());
                        continue;
                    }
                    // A better iteration may follow, a period within the limit is all that is asked.
                    ideals.limit_ns = ideals.limit_ns.min(self.least_ns(&next, 0).saturating_sub(1));
                    ideals.last = Some(next);
                    if self.formula.is_none() {
                        return true;
                    }
                }
            }
            stopped = ideals.are_too_many().then_some(StoppedBy::SizeLimit);
            stopped.is_some()
        });
        *steps += stage.steps + tried;
        ideals.all[at].labels = labels;
        match (grown, stopped) {
            (Grown::Accepted, Some(stopped_by)) => Grown::Stopped(stopped_by),
            (Grown::All, _) if *steps > self.most_steps => Grown::Stopped(StoppedBy::SizeLimit),
            (other, _) => other,
        }
    }

    /// What a stage may take within a plan of at most so many ns: no more work than the formula leaves for a bottleneck.
    fn stage_limit_ns(&self, limit_ns: u64) -> u64 {
        let once_ns =
            self.capacity
                .least_once_ns(self.problem, self.capacity.total_weight, self.problem.stages());
        let rounds = self.formula.map_or(1, |formula| formula.weight);
        let rest_ns = limit_ns.saturating_sub(once_ns);
        rest_ns.checked_div(rounds).unwrap_or(limit_ns).min(limit_ns)
    }

    /// What every plan with these last stages costs at least, as far as it is an iteration.
    fn least_ns(&self, label: &Label, weight_left: u64) -> u64 {
        let stages_left = self.problem.stages() - label.behind;
        let before_ns = self
            .capacity
            .least_once_ns(self.problem, weight_left, stages_left);
        let behind_ns = self
            .formula
            .map_or(0, |formula| formula.objective_ns(&label.time));
        behind_ns + before_ns
    }

    /// The label behind one more stage; `None` if the stock does not hold its devices.
    fn after(&self, label: &Label, (choice, time): Fitting, parent: (usize, usize)) -> Option<Label> {
        let takes = &self.workers.choices[choice].takes;
        let taken: Box<[usize]> = label.taken.iter().zip(takes).map(|(n, more)| n + more).collect();
        is_within(&taken, &self.workers.inventory).then_some(Label {
            behind: label.behind + 1,
            taken,
            time: label.time.join(time),
            choice,
            parent,
        })
    }

    /// Whether stages and devices that remain may do the rest.
    fn may_finish(&self, label: &Label, weight_left: u64, is_empty: bool, limit_ns: u64) -> bool {
        let stages_left = self.problem.stages() - label.behind;
        match (is_empty, stages_left) {
            (true, 0) => true,
            (true, _) => !self.problem.settings.all_stages,
            (false, 0) => false,
            (false, _) => self.capacity.carries(&label.taken, stages_left, limit_ns) >= weight_left as f64,
        }
    }

    /// The smallest groups that run a stage within the limit: none holds another, since devices that are not needed may as
    /// well stay free. For an iteration every group that may be in a plan, since a faster stage may be worth its devices.
    fn fitting(
        &self,
        holding: &Holding,
        work: &StageWork,
        behind: usize,
        limit_ns: u64,
        tried: &mut u64,
    ) -> Vec<Fitting> {
        let mut fitting: Vec<Fitting> = Vec::new();
        let is_larger = |fitting: &[Fitting], takes: &[usize]| {
            let holds = |&(smaller, _): &Fitting| is_within(&self.workers.choices[smaller].takes, takes);
            self.formula.is_none() && fitting.iter().any(holds)
        };
        let bytes = holding.bytes_on(behind + 1);
        let inverse: Vec<[f64; 2]> = work
            .times_ns
            .iter()
            .map(|times| times.map_or([0.0; 2], |times| times.map(|ns| 1.0 / ns.max(1) as f64)))
            .collect();
        let idle: Vec<[bool; 2]> = work
            .times_ns
            .iter()
            .map(|times| times.unwrap_or_default().map(|ns| ns == 0))
            .collect();
        for &at in &self.smallest_first {
            let choice = &self.workers.choices[at];
            *tried += 1;
            if self.capacity.too_slow(choice, &inverse, &idle, limit_ns)
                || is_larger(&fitting, &choice.takes)
                || (self.memory_binds && bytes > self.workers.memory_bytes(&self.problem.settings, choice))
            {
                continue;
            }
            let Some(load) = self.workers.load(self.problem, choice, work, &[]) else {
                continue;
            };
            match self.formula {
                // Whether it is cheap enough depends on the stages behind.
                Some(formula) => fitting.push((at, formula.stage(&load.cost))),
                None if load.bottleneck_ns <= limit_ns => fitting.push((at, labels::Label::default())),
                None => {}
            }
        }
        fitting
    }

    /// Reads stages and choices off the labels that end in the last one, with nothing left before its stage.
    fn unwind(&self, ideals: &[Ideal], last: &Label) -> Allocation {
        let mut assignment = vec![0; self.problem.items.len()];
        let mut choices = Vec::new();
        let mut before: &[u64] = &vec![0; self.problem.items.len().div_ceil(64)];
        let mut label = last;
        while label.choice != usize::MAX {
            let parent = &ideals[label.parent.0];
            for (item, stage) in assignment.iter_mut().enumerate() {
                if bits::contains(&parent.left, item) && !bits::contains(before, item) {
                    *stage = choices.len();
                }
            }
            choices.push(label.choice);
            (before, label) = (&parent.left, &parent.labels[label.parent.1]);
        }
        Allocation {
            assignment,
            choices,
            global: Vec::new(),
        }
    }
}

/// A choice for a stage, and what the stage then adds to an iteration.
type Fitting = (usize, labels::Label);

/// All ideals of a pass.
struct Ideals {
    position: HashMap<Box<[u64]>, usize>,
    all: Vec<Ideal>,
    /// Ideals still to leave, by number of items.
    by_size: Vec<Vec<usize>>,
    labels: usize,
    /// The largest objective of interest: it falls as iterations are found.
    limit_ns: u64,
    /// The label at the first stage of the best plan.
    last: Option<Label>,
    /// Labels looked at to tell which dominate others.
    looked_at: usize,
    bytes_of_a_label: usize,
    bytes_of_an_ideal: usize,
    /// What all of it may take.
    most_bytes: usize,
}

impl Ideals {
    /// Whether there are more than memory has room for.
    fn are_too_many(&self) -> bool {
        let bytes = self.labels * self.bytes_of_a_label + self.all.len() * self.bytes_of_an_ideal;
        self.labels > MOST_LABELS || bytes > self.most_bytes
    }

    /// Adds a way to reach an ideal, unless another is as good; drops those that are no better.
    fn add(&mut self, left: &[u64], weight: u64, label: Label, all_stages: bool, formula: Option<&Formula>) {
        let at = match self.position.get(left) {
            Some(&at) => at,
            None => {
                let at = self.all.len();
                let size: u32 = left.iter().map(|word| word.count_ones()).sum();
                self.position.insert(left.into(), at);
                self.by_size[size as usize].push(at);
                self.all.push(Ideal {
                    left: left.into(),
                    weight,
                    labels: Vec::new(),
                });
                at
            }
        };
        let labels = &mut self.all[at].labels;
        self.looked_at += labels.len();
        if labels
            .iter()
            .any(|other| other.dominates(&label, all_stages, formula))
        {
            return;
        }
        let before = labels.len();
        labels.retain(|other| !label.dominates(other, all_stages, formula));
        labels.push(label);
        self.labels = self.labels + labels.len() - before;
    }
}
