//! Dynamic program over ideals and the devices behind them, for workers that differ.
#![doc = include_str!("../../formulations/allocation_ideals.md")]

use std::collections::HashMap;

use super::capacity::Capacity;
use super::control::Control;
use super::growth::{self, Grown, Growth, Tally, has};
use crate::cost::{Side, StageCost};
use crate::plan::StoppedBy;
use crate::problem::Problem;
use crate::workers::{Allocation, StageWork, Workers};

/// What a pass found.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// A plan whose every stage keeps the limit.
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
    most_steps: u64,
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

/// A way to reach an ideal: so many stages behind it, which take so many devices.
struct Label {
    behind: usize,
    taken: Box<[usize]>,
    choice: usize,
    /// Ideal and label before the last stage was taken off the end.
    parent: (usize, usize),
}

impl Label {
    /// Whether whatever can follow `other` can follow this too: no more devices gone, no more stages behind.
    fn dominates(&self, other: &Self, all_stages: bool) -> bool {
        let as_many = match all_stages {
            true => self.behind == other.behind,
            false => self.behind <= other.behind,
        };
        as_many && is_within(&self.taken, &other.taken)
    }
}

fn is_within(devices: &[usize], most: &[usize]) -> bool {
    devices.iter().zip(most).all(|(n, most)| n <= most)
}

/// Labels of all ideals at most: some GiB.
const MOST_LABELS: usize = 20_000_000;

impl<'a> AllocationSearch<'a> {
    /// Prepares a search that gives up after so many steps.
    pub fn new(
        problem: &'a Problem,
        workers: &'a Workers,
        capacity: &'a Capacity,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Self {
        let side = |t: usize, side: Side| {
            let mut cost = StageCost::default();
            cost.add_transfer(problem.settings.communication, &problem.transfers[t], side);
            cost
        };
        let transfers = 0..problem.transfers.len();
        let mut smallest_first: Vec<usize> = (0..workers.choices.len()).collect();
        smallest_first.sort_by_key(|&choice| workers.choices[choice].takes.iter().sum::<usize>());
        Self {
            sides: transfers
                .map(|t| [side(t, Side::Producer), side(t, Side::Consumer)])
                .collect(),
            predecessors: growth::predecessors(problem),
            memory_binds: !problem.memory_never_binds(),
            smallest_first,
            problem,
            workers,
            control,
            capacity,
            most_steps,
            ideals: 0,
            steps: 0,
        }
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one.
    ///
    /// Ideals are worked off from large to small, so that all ways to reach one are known before it is left.
    pub fn pass(&mut self, limit_ns: u64) -> Pass {
        let everything = Ideal {
            left: growth::everything(self.problem),
            weight: self.capacity.total_weight,
            labels: vec![Label {
                behind: 0,
                taken: vec![0; self.workers.stock.len()].into(),
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
                match self.leave(at, limit_ns, &mut ideals, &mut steps) {
                    Grown::All => {}
                    Grown::Accepted => {
                        pass = Pass::Found(self.unwind(&ideals.all));
                        break 'sizes;
                    }
                    Grown::Stopped(stopped_by) => {
                        pass = Pass::Stopped(stopped_by);
                        break 'sizes;
                    }
                }
            }
        }
        self.ideals += ideals.all.len();
        self.steps += steps;
        pass
    }

    /// Takes every stage off the end of an ideal, on all devices that can run it in time.
    fn leave(&self, at: usize, limit_ns: u64, ideals: &mut Ideals, steps: &mut u64) -> Grown {
        let labels = std::mem::take(&mut ideals.all[at].labels);
        let left = ideals.all[at].left.clone();
        let weight = ideals.all[at].weight;
        let most_behind = labels.iter().map(|label| label.behind).max().unwrap_or(0);
        let least_behind = labels.iter().map(|label| label.behind).min().unwrap_or(0);
        let tally = Holding {
            search: self,
            limit: limit_ns as f64 + 1.0,
            weight: 0,
            sums: vec![[0; 2]; self.workers.classes.len()],
            cannot: vec![0; self.workers.classes.len()],
            transfers: StageCost::default(),
            bytes: [0; 3],
            // The fewer stages behind, the fewer micro-batches in flight.
            behind: least_behind,
        };
        let carries = |label: &Label| {
            let stages_left = self.problem.stages() - label.behind;
            self.capacity
                .carries(&label.taken, stages_left.saturating_sub(1), limit_ns)
        };
        let may_carry = labels.iter().map(carries).fold(0.0, f64::max);
        let most_steps = self.most_steps.saturating_sub(*steps);
        let mut stage = Growth::new(
            self.problem,
            self.control,
            &self.predecessors,
            &left,
            tally,
            most_steps,
        );
        let mut most_labels = false;
        let mut tried = 0;
        let grown = stage.each(&mut |holding, left| {
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
            let fitting: Vec<Vec<usize>> = depths
                .map(|behind| self.fitting(holding, &work, behind, limit_ns, &mut tried))
                .collect();
            let is_empty = left.iter().all(|word| *word == 0);
            for (l, label) in labels.iter().enumerate() {
                let depth = if self.memory_binds {
                    label.behind - least_behind
                } else {
                    0
                };
                for &choice in &fitting[depth] {
                    let next = self.after(label, choice, (at, l));
                    let fits = next
                        .as_ref()
                        .is_some_and(|next| self.may_finish(next, weight_left, is_empty, limit_ns));
                    if let (Some(next), true) = (next, fits) {
                        ideals.add(left, weight_left, next, self.problem.settings.all_stages);
                        if is_empty {
                            return true;
                        }
                    }
                }
            }
            most_labels = ideals.labels > MOST_LABELS;
            most_labels
        });
        *steps += stage.steps + tried;
        ideals.all[at].labels = labels;
        match grown {
            Grown::Accepted if most_labels => Grown::Stopped(StoppedBy::SizeLimit),
            Grown::All if *steps > self.most_steps => Grown::Stopped(StoppedBy::SizeLimit),
            other => other,
        }
    }

    /// The label behind one more stage; `None` if the stock does not hold its devices.
    fn after(&self, label: &Label, choice: usize, parent: (usize, usize)) -> Option<Label> {
        let takes = &self.workers.choices[choice].takes;
        let taken: Box<[usize]> = label.taken.iter().zip(takes).map(|(n, more)| n + more).collect();
        is_within(&taken, &self.workers.stock).then_some(Label {
            behind: label.behind + 1,
            taken,
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
    /// well stay free.
    fn fitting(
        &self,
        holding: &Holding,
        work: &StageWork,
        behind: usize,
        limit_ns: u64,
        tried: &mut u64,
    ) -> Vec<usize> {
        let mut fitting: Vec<usize> = Vec::new();
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
                || fitting
                    .iter()
                    .any(|&smaller| is_within(&self.workers.choices[smaller].takes, &choice.takes))
                || (self.memory_binds && bytes > self.workers.memory_bytes(&self.problem.settings, choice))
            {
                continue;
            }
            let load = self.workers.load(self.problem, choice, work, &[]);
            if load.is_some_and(|load| load.bottleneck_ns <= limit_ns) {
                fitting.push(at);
            }
        }
        fitting
    }

    /// Reads stages and choices off the labels that end in the last one, at the empty ideal.
    fn unwind(&self, ideals: &[Ideal]) -> Allocation {
        let mut assignment = vec![0; self.problem.items.len()];
        let mut choices = Vec::new();
        let mut at = ideals.len() - 1;
        let mut label = &ideals[at].labels[ideals[at].labels.len() - 1];
        while label.choice != usize::MAX {
            let parent = label.parent.0;
            for (item, stage) in assignment.iter_mut().enumerate() {
                if has(&ideals[parent].left, item) && !has(&ideals[at].left, item) {
                    *stage = choices.len();
                }
            }
            choices.push(label.choice);
            (at, label) = (parent, &ideals[parent].labels[label.parent.1]);
        }
        Allocation {
            assignment,
            choices,
            global: Vec::new(),
        }
    }
}

/// All ideals of a pass.
struct Ideals {
    position: HashMap<Box<[u64]>, usize>,
    all: Vec<Ideal>,
    /// Ideals still to leave, by number of items.
    by_size: Vec<Vec<usize>>,
    labels: usize,
}

impl Ideals {
    /// Adds a way to reach an ideal, unless another is as good; drops those that are no better. The ideal without items is
    /// the last one then.
    fn add(&mut self, left: &[u64], weight: u64, label: Label, all_stages: bool) {
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
        if labels.iter().any(|other| other.dominates(&label, all_stages)) {
            return;
        }
        let before = labels.len();
        labels.retain(|other| !label.dominates(other, all_stages));
        labels.push(label);
        self.labels = self.labels + labels.len() - before;
    }
}

/// What a growing stage holds.
struct Holding<'a, 'b> {
    search: &'b AllocationSearch<'a>,
    /// The limit with half a ns of rounding for either phase.
    limit: f64,
    weight: u64,
    /// Forward and backward time by class, over the items it can run.
    sums: Vec<[u64; 2]>,
    /// Items that the class cannot run.
    cannot: Vec<usize>,
    transfers: StageCost,
    /// Bytes held once, of one further version of the weights, and of one micro-batch in flight.
    bytes: [u64; 3],
    behind: usize,
}

impl Holding<'_, '_> {
    fn bytes_on(&self, from_end: usize) -> u64 {
        let settings = &self.search.problem.settings;
        let [base, parameters, stash] = self.bytes;
        base + (settings.weight_versions(from_end) - 1) * parameters + settings.in_flight(from_end) * stash
    }

    fn work(&self) -> StageWork {
        let times = |(&sums, &cannot): (&[u64; 2], &usize)| (cannot == 0).then_some(sums);
        StageWork {
            times_ns: self.sums.iter().zip(&self.cannot).map(times).collect(),
            transfers: self.transfers,
            parameter_bytes: self.bytes[1],
        }
    }

    fn change(&mut self, item: usize, joins: bool) {
        let turn = |sum: &mut u64, by: u64| *sum = if joins { *sum + by } else { *sum - by };
        let of = &self.search.problem.items[item];
        turn(&mut self.weight, self.search.capacity.weights[item]);
        for ((sums, cannot), times) in self.sums.iter_mut().zip(&mut self.cannot).zip(&of.times) {
            match times {
                Some(times) => {
                    turn(&mut sums[0], times.forward_ns);
                    turn(&mut sums[1], times.backward_ns);
                }
                None if joins => *cannot += 1,
                None => *cannot -= 1,
            }
        }
        for (sum, by) in self
            .bytes
            .iter_mut()
            .zip([of.base_bytes, of.parameter_bytes, of.stash_bytes])
        {
            turn(sum, by);
        }
    }
}

impl Tally for Holding<'_, '_> {
    /// Work that the strongest worker could still carry, bytes that the largest could still hold.
    fn admits(&self, item: usize) -> bool {
        let search = self.search;
        let heaviest = search.capacity.strongest * self.limit;
        let fits = || {
            let one = search
                .problem
                .memory_bytes(&search.problem.items[item], self.behind + 1);
            self.bytes_on(self.behind + 1) + one <= search.capacity.most_bytes
        };
        (self.weight + search.capacity.weights[item]) as f64 <= heaviest && (!search.memory_binds || fits())
    }

    fn add(&mut self, item: usize) {
        self.change(item, true);
    }

    fn remove(&mut self, item: usize) {
        self.change(item, false);
    }

    fn pay(&mut self, transfer: usize, side: Side) {
        self.transfers = self.transfers.plus(self.search.sides[transfer][side as usize]);
    }

    fn stop_paying(&mut self, transfer: usize, side: Side) {
        self.transfers = self.transfers.minus(self.search.sides[transfer][side as usize]);
    }
}
