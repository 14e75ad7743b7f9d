//! Stages that grow downwards from the end of an ideal, so that dynamic programs meet each of them once.

use petgraph::Incoming;

use crate::control::Control;
use crate::cost::Side;
use crate::exact::bits;
use crate::exact::tuning::TUNING;
use crate::plan::StoppedBy;
use crate::problem::{Problem, Transfer};

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
    /// Whatever joins, the stage goes on paying it.
    fn commit(&mut self, _transfer: usize, _side: Side) {}
    /// It may stop paying it again.
    fn release(&mut self, _transfer: usize, _side: Side) {}
    /// Whether no stage with all that is in it, and without all that it can no longer hold, could be of use.
    fn is_hopeless(&self) -> bool {
        false
    }
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

/// For each transfer, whether some consumer lies outside an ideal.
pub(crate) fn leaving(problem: &Problem, ideal: &[u64]) -> Vec<bool> {
    let is_outside = |&item: &usize| !bits::contains(ideal, item);
    let leaves = |transfer: &Transfer| transfer.consumers.iter().any(is_outside);
    problem.transfers.iter().map(leaves).collect()
}

/// A stage that grows downwards from the end of an ideal, one item at a time, and shrinks back.
///
/// `free` lists items in the order in which they came free: all their successors in the ideal have been taken. Each is
/// decided once, taken or left; what is left never frees what lies before it, so every up-closed part of the ideal is met
/// exactly once. What lies before an item that is left is barred from the stage, and what it sends there is paid for good.
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
    /// For each transfer, whether some consumer lies outside the ideal.
    leaves: Vec<bool>,
    /// Whether the stage can no longer hold an item.
    is_barred: Vec<bool>,
    /// All of these, in the order in which they became so.
    barred: Vec<usize>,
    /// How many there were before each item that is left.
    barred_before: Vec<usize>,
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
            leaves: leaving(problem, left),
            is_barred: vec![false; n],
            barred: Vec::new(),
            barred_before: Vec::new(),
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
            while self.taken.len() < self.free.len() && !self.tally.is_hopeless() {
                let item = self.free[self.taken.len()];
                let takes = self.tally.admits(item);
                match takes {
                    true => self.take(item),
                    false => self.leave(item),
                }
                self.taken.push(takes);
                self.steps += 1;
            }
            if self.size > 0 && !self.tally.is_hopeless() && leaf(&self.tally, &self.left) {
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
                    Some(false) => self.reconsider(),
                    Some(true) => {
                        let item = self.free[self.taken.len()];
                        self.put_back(item);
                        self.leave(item);
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

    /// Bars an item and all that comes before it.
    fn leave(&mut self, item: usize) {
        self.barred_before.push(self.barred.len());
        let mut next = self.barred.len();
        self.bar(item);
        while let Some(&item) = self.barred.get(next) {
            next += 1;
            for &before in &self.predecessors[item] {
                if !self.is_barred[before] {
                    self.bar(before);
                }
            }
        }
    }

    fn bar(&mut self, item: usize) {
        self.is_barred[item] = true;
        self.barred.push(item);
        for &t in &self.problem.transfers_of[item] {
            if self.problem.transfers[t].producer == item && self.ends[t].1 > 0 {
                self.tally.commit(t, Side::Consumer);
            }
        }
    }

    /// Takes back what barred the last item that was left.
    fn reconsider(&mut self) {
        let start = self.barred_before.pop().unwrap_or(0);
        for item in self.barred.drain(start..) {
            self.is_barred[item] = false;
            for &t in &self.problem.transfers_of[item] {
                if self.problem.transfers[t].producer == item && self.ends[t].1 > 0 {
                    self.tally.release(t, Side::Consumer);
                }
            }
        }
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
            let for_good = match item == transfer.producer {
                true => self.leaves[t].then_some(Side::Producer),
                false => (before.1.min(after.1) == 0 && self.is_barred[transfer.producer])
                    .then_some(Side::Consumer),
            };
            match (for_good, enters) {
                (Some(side), true) => self.tally.commit(t, side),
                (Some(side), false) => self.tally.release(t, side),
                (None, _) => {}
            }
        }
    }
}
