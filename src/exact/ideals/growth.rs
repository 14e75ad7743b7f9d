//! Stages that grow downwards from the end of an ideal, so that dynamic programs meet each of them once.

use petgraph::Incoming;

use crate::control::Control;
use crate::cost::Side;
use crate::exact::bits;
use crate::exact::tuning::TUNING;
use crate::plan::StoppedBy;
use crate::problem::Problem;

/// What a stage adds up while it grows and shrinks.
pub(crate) trait Tally {
    /// Whether the item may join. False only if no stage with all that is in it and the item could be of use.
    fn admits(&self, item: usize) -> bool;
    /// The item joins.
    fn add(&mut self, item: usize);
    /// The item leaves.
    fn remove(&mut self, item: usize);
    /// The stage starts to pay one side of a transfer.
    fn pay(&mut self, transfer: usize, side: Side);
    /// The stage no longer pays it.
    fn stop_paying(&mut self, transfer: usize, side: Side);
}

/// How the growing of a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    /// Every stage was met.
    All,
    /// The last one met was what is looked for.
    Accepted,
    /// A limit came first.
    Stopped(StoppedBy),
}

/// Order pairs the other way round: for each item, those directly before it.
pub(crate) fn predecessors(problem: &Problem) -> Vec<Vec<usize>> {
    let before = |item: usize| problem.order.neighbors_directed((item as u32).into(), Incoming);
    let items = 0..problem.items.len();
    items
        .map(|item| before(item).map(|v| v.index()).collect())
        .collect()
}

/// Order pairs: for each item, those directly behind it, each once and in ascending order.
pub(crate) fn successors(problem: &Problem) -> Vec<Vec<usize>> {
    let behind = |item: usize| {
        let behind = problem.order.neighbors((item as u32).into());
        let mut behind: Vec<usize> = behind.map(|other| other.index()).collect();
        behind.sort_unstable();
        behind.dedup();
        behind
    };
    (0..problem.items.len()).map(behind).collect()
}

/// A stage that grows downwards from the end of an ideal, one item at a time, and shrinks back.
///
/// `free` lists items in the order in which they came free: all their successors in the ideal have been taken. Each is
/// decided once, taken or left; what is left never frees what lies before it, so every up-closed part of the ideal is met
/// exactly once.
pub(crate) struct Growth<'a, T> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    predecessors: &'a [Vec<usize>],
    left: Box<[u64]>,
    free: Vec<usize>,
    /// Whether the item at the same place of `free` was taken.
    taken: Vec<bool>,
    /// For each item, successors that are still in the ideal.
    waits_for: Vec<u32>,
    /// For each transfer, whether its producer is in the stage, and how many of its consumers are.
    ends: Vec<(bool, u32)>,
    size: usize,
    /// What the stage adds up to.
    pub tally: T,
    /// Items taken or left so far.
    pub steps: u64,
}

impl<'a, T: Tally> Growth<'a, T> {
    /// An empty stage at the end of the ideal `left`.
    pub(crate) fn new(
        problem: &'a Problem,
        control: &'a Control<'a>,
        predecessors: &'a [Vec<usize>],
        left: &[u64],
        tally: T,
    ) -> Self {
        let n = problem.items.len();
        let mut waits_for = vec![0; n];
        for item in (0..n).filter(|&item| bits::contains(left, item)) {
            for &before in &predecessors[item] {
                waits_for[before] += 1;
            }
        }
        let is_free = |&item: &usize| bits::contains(left, item) && waits_for[item] == 0;
        Self {
            free: (0..n).filter(is_free).collect(),
            problem,
            control,
            predecessors,
            left: left.into(),
            taken: Vec::new(),
            waits_for,
            ends: vec![(false, 0); problem.transfers.len()],
            size: 0,
            tally,
            steps: 0,
        }
    }

    /// Calls `leaf` with every non-empty stage: what it adds up to, and what is left without it. Ends when `leaf` accepts
    /// one, and gives up after so many steps.
    pub(crate) fn each(&mut self, most_steps: u64, leaf: &mut impl FnMut(&T, &[u64]) -> bool) -> Grown {
        let patience = TUNING.growth_steps_between_clock_looks;
        let mut next_look = patience;
        loop {
            while self.taken.len() < self.free.len() {
                let item = self.free[self.taken.len()];
                let takes = self.tally.admits(item);
                if takes {
                    self.take(item);
                }
                self.taken.push(takes);
                self.steps += 1;
            }
            if self.size > 0 && leaf(&self.tally, &self.left) {
                return Grown::Accepted;
            }
            if self.steps > most_steps {
                return Grown::Stopped(StoppedBy::SizeLimit);
            }
            if self.steps > next_look {
                next_look = self.steps + patience;
                if let Some(stopped_by) = self.control.must_stop() {
                    return Grown::Stopped(stopped_by);
                }
            }
            // The last item taken stays instead.
            loop {
                match self.taken.pop() {
                    None => return Grown::All,
                    Some(false) => {}
                    Some(true) => {
                        self.put_back(self.free[self.taken.len()]);
                        self.taken.push(false);
                        break;
                    }
                }
            }
        }
    }

    fn take(&mut self, item: usize) {
        self.move_item(item, true);
        bits::remove(&mut self.left, item);
        self.tally.add(item);
        self.size += 1;
        for &before in &self.predecessors[item] {
            self.waits_for[before] -= 1;
            if self.waits_for[before] == 0 {
                self.free.push(before);
            }
        }
    }

    fn put_back(&mut self, item: usize) {
        for &before in self.predecessors[item].iter().rev() {
            if self.waits_for[before] == 0 {
                self.free.pop();
            }
            self.waits_for[before] += 1;
        }
        self.size -= 1;
        self.tally.remove(item);
        bits::insert(&mut self.left, item);
        self.move_item(item, false);
    }

    /// Updates what the stage pays for the item's transfers as the item enters or leaves.
    fn move_item(&mut self, item: usize, enters: bool) {
        for &t in &self.problem.transfers_of[item] {
            let transfer = &self.problem.transfers[t];
            let paid = |(producer, consumers): (bool, u32)| match producer {
                true => ((consumers as usize) < transfer.consumers.len()).then_some(Side::Producer),
                false => (consumers > 0).then_some(Side::Consumer),
            };
            let before = self.ends[t];
            let mut after = before;
            if item == transfer.producer {
                after.0 = enters;
            } else if enters {
                after.1 += 1;
            } else {
                after.1 -= 1;
            }
            self.ends[t] = after;
            if let Some(side) = paid(before) {
                self.tally.stop_paying(t, side);
            }
            if let Some(side) = paid(after) {
                self.tally.pay(t, side);
            }
        }
    }
}
