//! Dynamic program over ideals and the devices behind them, for workers that differ.
#![doc = include_str!("../../../formulations/allocation_ideals.md")]

use std::collections::HashMap;

use crate::exact::bits;
use crate::exact::bounds::capacity::Capacity;
use crate::exact::heterogeneous::choices::{Choices, Fitting, is_within};
use crate::exact::heterogeneous::stage::{Holding, sides};
use crate::exact::ideals::growth::{self, Grown, Growth};
use crate::model::objective::Formula;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::StageCost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::Workers;
use crate::search::labels;
use crate::search::limits::Answer;

/// Looks for plans whose every stage keeps a limit, over ideals and the devices that the stages behind them take.
pub(crate) struct AllocationSearch<'a> {
    problem: &'a Problem,
    workers: &'a Workers,
    control: &'a Control<'a>,
    capacity: &'a Capacity,
    predecessors: Vec<Vec<usize>>,
    /// What each side of each transfer costs.
    sides: Vec<[StageCost; 2]>,
    choices: Choices<'a>,
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

/// What tells which labels dominate others.
struct Dominance {
    /// Whether plans have all stages.
    all_stages: bool,
    /// For an iteration, how stages make up its time.
    formula: Option<Formula>,
}

impl Dominance {
    /// Whether whatever can follow `other` can follow `label` too, at no more cost: no more devices gone, no more stages behind.
    fn dominates(&self, label: &Label, other: &Label) -> bool {
        let as_many = match self.all_stages {
            true => label.behind == other.behind,
            false => label.behind <= other.behind,
        };
        let formula = self.formula.as_ref();
        as_many
            && is_within(&label.taken, &other.taken)
            && formula.is_none_or(|formula| formula.dominates(&label.time, &other.time))
    }
}

/// Labels of all ideals at most.
/// Choices whose speeds are looked at in the time of a step.
const CHOICES_OF_A_STEP: usize = 16;
const MOST_LABELS: usize = 20_000_000;

/// What a label takes beside its devices, and an ideal beside its sets, with what tables leave free.
const BYTES_OF_A_LABEL: usize = 112;
const BYTES_OF_AN_IDEAL: usize = 288;

/// Labels looked at between two looks at the clock.
const PATIENCE: usize = 1 << 14;

impl<'a> AllocationSearch<'a> {
    /// Prepares a search that gives up after so many steps.
    pub(crate) fn new(
        problem: &'a Problem,
        workers: &'a Workers,
        capacity: &'a Capacity,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Self {
        Self {
            sides: sides(problem),
            choices: Choices::new(problem, workers, capacity),
            predecessors: growth::predecessors(problem),
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
    pub(crate) fn pass(&mut self, limit_ns: u64) -> Answer<Allocation> {
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
            dominance: Dominance {
                all_stages: self.problem.settings.all_stages,
                formula: self.choices.formula,
            },
            labels: 1,
            limit_ns,
            last: None,
            looked_at: 0,
            bytes_of_a_label: BYTES_OF_A_LABEL + 8 * self.workers.inventory.len(),
            bytes_of_an_ideal: BYTES_OF_AN_IDEAL + 2 * n.div_ceil(8),
            most_bytes: self.control.room_bytes(),
        };
        ideals.by_size[n].push(0);
        let mut growth = Growth::new(self.problem, self.control, &self.predecessors);
        let mut steps = 0;
        let mut stopped = None;
        'sizes: for size in (1..=n).rev() {
            for at in std::mem::take(&mut ideals.by_size[size]) {
                // A growth looks at the clock too, but most are short, and each may try many devices.
                if let Some(stopped_by) = self.control.must_stop() {
                    stopped = Some(stopped_by);
                    break 'sizes;
                }
                match self.leave(at, &mut ideals, &mut growth, &mut steps) {
                    Grown::All => {}
                    Grown::Accepted => break 'sizes,
                    Grown::Stopped(stopped_by) => {
                        stopped = Some(stopped_by);
                        break 'sizes;
                    }
                }
            }
        }
        self.ideals += ideals.all.len();
        self.steps += steps;
        let found = ideals.last.as_ref().map(|last| self.unwind(&ideals.all, last));
        match stopped {
            None => Answer::within(limit_ns, Ok(found)),
            Some(stopped_by) => {
                self.unfinished = found;
                Answer::Stopped(stopped_by)
            }
        }
    }

    /// Takes every stage off the end of an ideal, on all devices that can run it in time.
    fn leave(&self, at: usize, ideals: &mut Ideals, growth: &mut Growth, steps: &mut u64) -> Grown {
        let mut leaving = self.leaving(at, ideals);
        growth.move_to(&ideals.all[at].left);
        // The fewer stages behind, the fewer micro-batches in flight.
        let behind = self.choices.memory_binds.then_some(leaving.behind[0]);
        let mut holding = Holding::new(self.problem, self.capacity, &self.sides, leaving.limit_ns, behind);
        let most_steps = self.most_steps.saturating_sub(*steps);
        let steps_before = growth.steps;
        let grown = growth.each(&mut holding, most_steps, &mut |holding, left| {
            self.take_off(holding, left, &mut leaving, ideals)
        });
        *steps += growth.steps - steps_before + leaving.tried;
        ideals.all[at].labels = leaving.labels;
        match (grown, leaving.stopped) {
            (Grown::Accepted, Some(stopped_by)) => Grown::Stopped(stopped_by),
            (Grown::All, _) if *steps > self.most_steps => Grown::Stopped(StoppedBy::SizeLimit),
            (other, _) => other,
        }
    }

    /// Begins to leave an ideal, whose labels stay with the leaving until it is over.
    fn leaving(&self, at: usize, ideals: &mut Ideals) -> Leaving {
        let limit_ns = self.stage_limit_ns(ideals.limit_ns);
        let labels = std::mem::take(&mut ideals.all[at].labels);
        let behind = || labels.iter().map(|label| label.behind);
        let carries = |label: &Label| {
            let stages_left = self.problem.stages() - label.behind;
            self.capacity
                .carries(&label.taken, stages_left.saturating_sub(1), limit_ns)
        };
        Leaving {
            at,
            weight: ideals.all[at].weight,
            behind: [behind().min().unwrap_or(0), behind().max().unwrap_or(0)],
            limit_ns,
            may_carry: labels.iter().map(carries).fold(0.0, f64::max),
            labels,
            tried: 0,
            next_look: ideals.looked_at + PATIENCE,
            stopped: None,
        }
    }

    /// Takes one stage off the ideal that is left, for each of its labels. Returns whether the leaving is over: a limit came, or
    /// there is a plan as good as is asked for.
    fn take_off(&self, holding: &Holding, items: &[u64], leaving: &mut Leaving, ideals: &mut Ideals) -> bool {
        let weight = leaving.weight - holding.weight;
        if weight as f64 > leaving.may_carry {
            return false;
        }
        let fitting = self.fitting_by_depth(holding, leaving);
        let is_empty = bits::is_empty(items);
        let rest = Rest {
            items,
            weight,
            is_empty,
        };
        for (l, label) in leaving.labels.iter().enumerate() {
            ideals.looked_at += 1;
            if ideals.looked_at > leaving.next_look {
                leaving.next_look = ideals.looked_at + PATIENCE;
                leaving.stopped = self.control.must_stop();
                if leaving.stopped.is_some() {
                    return true;
                }
            }
            let depth = match self.choices.memory_binds {
                true => label.behind - leaving.behind[0],
                false => 0,
            };
            leaving.tried += fitting[depth].len() as u64;
            let next = fitting[depth]
                .iter()
                .filter_map(|&fitting| self.after(label, fitting, (leaving.at, l)));
            if self.add_all(next, leaving.limit_ns, &rest, ideals) {
                return true;
            }
        }
        leaving.stopped = ideals.are_too_many().then_some(StoppedBy::SizeLimit);
        leaving.stopped.is_some()
    }

    /// What can run a stage, by the number of stages behind it from the fewest on. Choices depend on that only where memory binds.
    fn fitting_by_depth(&self, holding: &Holding, leaving: &mut Leaving) -> Vec<Vec<Fitting>> {
        let [least_behind, most_behind] = leaving.behind;
        let depths = match self.choices.memory_binds {
            true => least_behind..=most_behind,
            false => least_behind..=least_behind,
        };
        let work = holding.work();
        let fitting = depths.map(|behind| {
            self.choices
                .fitting(&work, holding.bytes_on(behind + 1), leaving.limit_ns)
        });
        let fitting: Vec<Vec<Fitting>> = fitting.collect();
        leaving.tried += (fitting.len() * self.choices.len().div_ceil(CHOICES_OF_A_STEP)) as u64;
        fitting
    }

    /// Adds those labels of what is left that may lead to a plan of interest; where nothing is left, they are such plans. Returns
    /// whether there is one as good as is asked for.
    fn add_all(
        &self,
        labels: impl Iterator<Item = Label>,
        limit_ns: u64,
        rest: &Rest,
        ideals: &mut Ideals,
    ) -> bool {
        for label in labels {
            if !self.may_finish(&label, rest, limit_ns)
                || self.least_ns(&label, rest.weight) > ideals.limit_ns
            {
                continue;
            }
            if !rest.is_empty {
                ideals.add(rest.items, rest.weight, label);
                continue;
            }
            // A better iteration may follow, a period within the limit is all that is asked.
            ideals.limit_ns = ideals.limit_ns.min(self.least_ns(&label, 0).saturating_sub(1));
            ideals.last = Some(label);
            if self.choices.formula.is_none() {
                return true;
            }
        }
        false
    }

    /// What a stage may take within a plan of at most so many ns: no more work than the formula leaves for a bottleneck.
    fn stage_limit_ns(&self, limit_ns: u64) -> u64 {
        let once_ns =
            self.capacity
                .least_once_ns(self.problem, self.capacity.total_weight, self.problem.stages());
        let rounds = self.choices.formula.map_or(1, |formula| formula.weight);
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
            .choices
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
    fn may_finish(&self, label: &Label, rest: &Rest, limit_ns: u64) -> bool {
        let stages_left = self.problem.stages() - label.behind;
        match (rest.is_empty, stages_left) {
            (true, 0) => true,
            (true, _) => !self.problem.settings.all_stages,
            (false, 0) => false,
            (false, _) => self.capacity.carries(&label.taken, stages_left, limit_ns) >= rest.weight as f64,
        }
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
            modes: None,
        }
    }
}

/// The leaving of one ideal: what its labels have in common, and how far it got.
struct Leaving {
    /// Position of the ideal.
    at: usize,
    weight: u64,
    labels: Vec<Label>,
    /// Fewest and most stages behind it.
    behind: [usize; 2],
    /// What a stage may take.
    limit_ns: u64,
    /// Most work that stages and devices which remain to some label can do.
    may_carry: f64,
    /// Choices tried.
    tried: u64,
    /// Labels looked at when the clock is due.
    next_look: usize,
    stopped: Option<StoppedBy>,
}

/// What is left of an ideal without its last stage.
struct Rest<'a> {
    items: &'a [u64],
    weight: u64,
    is_empty: bool,
}

/// All ideals of a pass.
struct Ideals {
    position: HashMap<Box<[u64]>, usize>,
    all: Vec<Ideal>,
    /// Ideals still to leave, by number of items.
    by_size: Vec<Vec<usize>>,
    dominance: Dominance,
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
    fn add(&mut self, left: &[u64], weight: u64, label: Label) {
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
        let (labels, dominance) = (&mut self.all[at].labels, &self.dominance);
        self.looked_at += labels.len();
        if labels.iter().any(|other| dominance.dominates(other, &label)) {
            return;
        }
        let before = labels.len();
        labels.retain(|other| !dominance.dominates(&label, other));
        labels.push(label);
        self.labels = self.labels + labels.len() - before;
    }
}
