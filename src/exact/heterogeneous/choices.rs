//! Which devices may run a stage.

use crate::exact::bounds::capacity::Capacity;
use crate::model::objective::Formula;
use crate::problem::Problem;
use crate::problem::cost::allocation::{StageWork, bottleneck_ns};
use crate::problem::workers::{Choice, Workers};
use crate::search::labels;

/// A choice for a stage, and what the stage then adds to an iteration; nothing to a period.
pub(super) type Fitting = (usize, labels::Label);

/// All choices of a problem.
pub(super) struct Choices<'a> {
    problem: &'a Problem,
    /// The workers.
    pub workers: &'a Workers,
    capacity: &'a Capacity,
    /// Choices, the smallest groups first.
    smallest_first: Vec<usize>,
    /// For each class, how many of its devices these hold.
    devices_of_class: Vec<Vec<f64>>,
    /// For each kind of device, how many they take.
    takes_of_kind: Vec<Vec<usize>>,
    /// Those that no other holds.
    largest: Vec<usize>,
    /// Whether transfers cost every choice time.
    all_pay: bool,
    /// Whether the bytes of a stage can matter.
    pub memory_binds: bool,
    /// For an iteration, how stages make up its time.
    pub formula: Option<Formula>,
}

impl<'a> Choices<'a> {
    pub(super) fn new(problem: &'a Problem, workers: &'a Workers, capacity: &'a Capacity) -> Self {
        let mut smallest_first: Vec<usize> = (0..workers.choices.len()).collect();
        smallest_first.sort_by_key(|&choice| workers.choices[choice].takes.iter().sum::<usize>());
        let takes = |choice: usize| &workers.choices[choice].takes;
        let is_largest = |&choice: &usize| {
            let mut others = (0..workers.choices.len()).filter(|&other| takes(other) != takes(choice));
            others.all(|other| !is_within(takes(choice), takes(other)))
        };
        let of_class = |choice: usize, class: usize| workers.choices[choice].devices[class] as f64;
        Self {
            largest: (0..workers.choices.len()).filter(is_largest).collect(),
            devices_of_class: (0..workers.classes.len())
                .map(|class| {
                    smallest_first
                        .iter()
                        .map(|&choice| of_class(choice, class))
                        .collect()
                })
                .collect(),
            takes_of_kind: (0..workers.inventory.len())
                .map(|kind| smallest_first.iter().map(|&choice| takes(choice)[kind]).collect())
                .collect(),
            all_pay: workers.classes.iter().all(|class| class.pays_communication),
            smallest_first,
            memory_binds: !problem.memory_never_binds(),
            formula: Some(problem.formula()).filter(|formula| !formula.is_bottleneck()),
            problem,
            workers,
            capacity,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.smallest_first.len()
    }

    /// Whether the devices of a choice have room for so many bytes each.
    pub(super) fn holds(&self, choice: usize, bytes: u64) -> bool {
        !self.memory_binds
            || bytes
                <= self
                    .workers
                    .memory_bytes(&self.problem.settings, &self.workers.choices[choice])
    }

    /// Whether no choice could do the work of a stage within the limit.
    pub(super) fn is_too_much(&self, work: &StageWork, limit_ns: u64) -> bool {
        let pace = Pace::of(work);
        let mut largest = self.largest.iter();
        largest.all(|&choice| self.is_too_slow(choice, &pace, limit_ns))
    }

    fn is_too_slow(&self, choice: usize, pace: &Pace, limit_ns: u64) -> bool {
        let choice = &self.workers.choices[choice];
        self.capacity
            .too_slow(choice, &pace.inverse, &pace.idle, limit_ns)
    }

    /// Whether each choice is, the smallest first.
    fn all_too_slow(&self, pace: &Pace, limit_ns: u64) -> Vec<bool> {
        if pace.idle.iter().any(|idle| idle[0] || idle[1]) {
            let choices = self.smallest_first.iter();
            return choices
                .map(|&choice| self.is_too_slow(choice, pace, limit_ns))
                .collect();
        }
        self.capacity
            .all_too_slow(&self.devices_of_class, &pace.inverse, limit_ns)
    }

    /// Marks the choices that hold another.
    fn leave_out_larger(&self, choice: &Choice, is_out: &mut [bool]) {
        let mut kinds = choice
            .takes
            .iter()
            .zip(&self.takes_of_kind)
            .filter(|(takes, _)| **takes > 0);
        let Some((&takes, of_first)) = kinds.next() else {
            return;
        };
        let mut is_larger: Vec<bool> = of_first.iter().map(|&n| n >= takes).collect();
        for (&takes, of_kind) in kinds {
            let both = is_larger.iter_mut().zip(of_kind);
            both.for_each(|(is_larger, &n)| *is_larger &= n >= takes);
        }
        let both = is_out.iter_mut().zip(is_larger);
        both.for_each(|(is_out, is_larger)| *is_out |= is_larger);
    }

    /// The smallest groups that run a stage of so many bytes within the limit: none holds another, since devices that are not needed
    /// may as well stay free. For an iteration every group that may be in a plan, since a faster stage may be worth its devices.
    pub(super) fn fitting(&self, work: &StageWork, bytes: u64, limit_ns: u64) -> Vec<Fitting> {
        self.fitting_among(work, bytes, limit_ns, |_| true)
    }

    /// The same among some choices.
    pub(super) fn fitting_among(
        &self,
        work: &StageWork,
        bytes: u64,
        limit_ns: u64,
        is_among: impl Fn(usize) -> bool,
    ) -> Vec<Fitting> {
        let mut fitting: Vec<Fitting> = Vec::new();
        let transfers_ns = bottleneck_ns(&self.problem.settings, &work.transfers);
        if self.all_pay && self.formula.is_none() && transfers_ns > limit_ns {
            return fitting;
        }
        let mut is_out = self.all_too_slow(&Pace::of(work), limit_ns);
        for (place, &at) in self.smallest_first.iter().enumerate() {
            let choice = &self.workers.choices[at];
            if is_out[place] || !is_among(at) || !self.holds(at, bytes) {
                continue;
            }
            let Some(load) = self.workers.load(self.problem, choice, work, &[]) else {
                continue;
            };
            match self.formula {
                // Whether it is cheap enough depends on the stages behind.
                Some(formula) => fitting.push((at, formula.stage(&load.cost))),
                None if load.bottleneck_ns <= limit_ns => {
                    fitting.push((at, labels::Label::default()));
                    self.leave_out_larger(choice, &mut is_out);
                }
                None => {}
            }
        }
        fitting
    }
}

/// How fast a stage is done by class and phase.
struct Pace {
    /// One over its times.
    inverse: Vec<[f64; 2]>,
    /// Whether they are zero.
    idle: Vec<[bool; 2]>,
}

impl Pace {
    fn of(work: &StageWork) -> Self {
        let inverse = |ns: u64| 1.0 / ns.max(1) as f64;
        let times = work.times_ns.iter();
        Self {
            inverse: times
                .clone()
                .map(|times| times.map_or([0.0; 2], |times| times.map(inverse)))
                .collect(),
            idle: times
                .map(|times| times.unwrap_or_default().map(|ns| ns == 0))
                .collect(),
        }
    }
}

/// Whether some devices are among others.
pub(super) fn is_within(devices: &[usize], most: &[usize]) -> bool {
    devices.iter().zip(most).all(|(n, most)| n <= most)
}
