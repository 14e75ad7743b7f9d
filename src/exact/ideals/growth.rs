//! Stages that grow downwards from the end of an ideal, so that dynamic programs meet each of them once.

use petgraph::Incoming;

use crate::exact::bits;
use crate::exact::tuning::TUNING;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;

/// What a stage adds up while it grows and shrinks.
pub(crate) trait Tally {
    /// Whether the item may join. False only if no stage with all that is in it and the item could be of use.
    fn admits(&self, item: usize) -> bool;
    /// The item joins.
    fn add(&mut self, item: usize);
    /// The item leaves.
    fn remove(&mut self, item: usize);
    /// The stage starts to pay one side of a transfer, all of which may lie inside the ideal that the stage is taken off.
    fn pay(&mut self, transfer: usize, side: Side, is_inside: bool);
    /// The stage no longer pays it.
    fn stop_paying(&mut self, transfer: usize, side: Side, is_inside: bool);
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

/// A stage that grows downwards from the end of an ideal, one item at a time, and shrinks back.
///
/// `free` lists items in the order in which they came free: all their successors in the ideal have been taken. Each is
/// decided once, taken or left; what is left never frees what lies before it, so every up-closed part of the ideal is met
/// exactly once. What lies before an item that is left is barred from the stage, and what it sends there is paid for good.
///
/// It [moves](Growth::move_to) from ideal to ideal in the time of what they differ in: searches reach as many ideals as there are items and
/// more, and neighbours differ in few.
pub(crate) struct Growth<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    predecessors: &'a [Vec<usize>],
    /// The ideal.
    ideal: Box<[u64]>,
    /// Its items without a successor in it.
    ends_of_ideal: Box<[u64]>,
    /// For each transfer, how many of its consumers lie outside the ideal.
    outside: Vec<u32>,
    /// Transfers from items of the ideal to some outside.
    leaving: Box<[u64]>,
    /// The ideal without the stage.
    left: Box<[u64]>,
    free: Vec<usize>,
    /// Whether the item at the same place of `free` was taken.
    taken: Vec<bool>,
    /// For each item, successors that are still in the ideal.
    waits_for: Vec<u32>,
    /// For each transfer, whether its producer is in the stage, and how many of its consumers are.
    ends: Vec<(bool, u32)>,
    /// Whether the stage can no longer hold an item, as far as that was looked at.
    is_barred: Vec<bool>,
    /// All of these, in the order in which they became so.
    barred: Vec<usize>,
    /// How many there were before each item that is left.
    barred_before: Vec<usize>,
    size: usize,
    /// Items taken or left so far, of all ideals.
    pub steps: u64,
}

impl<'a> Growth<'a> {
    /// An empty stage at the end of the ideal of no items, which somebody knows the [predecessors] of.
    pub(crate) fn new(
        problem: &'a Problem,
        control: &'a Control<'a>,
        predecessors: &'a [Vec<usize>],
    ) -> Self {
        let n = problem.items.len();
        let transfers = &problem.transfers;
        let nothing = || -> Box<[u64]> { vec![0; bits::words(n)].into() };
        Self {
            problem,
            control,
            predecessors,
            ideal: nothing(),
            ends_of_ideal: nothing(),
            outside: transfers.iter().map(|t| t.consumers.len() as u32).collect(),
            leaving: vec![0; bits::words(transfers.len())].into(),
            left: nothing(),
            free: Vec::new(),
            taken: Vec::new(),
            waits_for: vec![0; n],
            ends: vec![(false, 0); transfers.len()],
            is_barred: vec![false; n],
            barred: Vec::new(),
            barred_before: Vec::new(),
            size: 0,
            steps: 0,
        }
    }

    /// Goes on to the end of another ideal. The stage must be empty: it is after [`Grown::All`].
    ///
    /// Time O(n / 64 + d) for n items, and d order pairs and ends of transfers of items in which the two differ.
    pub(crate) fn move_to(&mut self, ideal: &[u64]) {
        for (word, &members) in ideal.iter().enumerate() {
            let changed = self.ideal[word] ^ members;
            self.ideal[word] = members;
            for item in bits::members([changed]) {
                self.turn(word * 64 + item);
            }
        }
        self.left.copy_from_slice(ideal);
    }

    /// Takes note of an item that has come into the ideal, or has gone.
    fn turn(&mut self, item: usize) {
        let enters = bits::contains(&self.ideal, item);
        for &before in &self.predecessors[item] {
            match enters {
                true => self.waits_for[before] += 1,
                false => self.waits_for[before] -= 1,
            }
        }
        for &at in std::iter::once(&item).chain(&self.predecessors[item]) {
            let is_end = self.waits_for[at] == 0 && bits::contains(&self.ideal, at);
            bits::set(&mut self.ends_of_ideal, at, is_end);
        }
        for &t in &self.problem.transfers_of[item] {
            let producer = self.problem.transfers[t].producer;
            match enters {
                _ if producer == item => {}
                true => self.outside[t] -= 1,
                false => self.outside[t] += 1,
            }
            let leaves = self.outside[t] > 0 && bits::contains(&self.ideal, producer);
            bits::set(&mut self.leaving, t, leaves);
        }
    }

    /// Transfers from items of the ideal to some outside.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = usize> + '_ {
        bits::iter(&self.leaving)
    }

    /// Whether producer and consumers lie in the ideal.
    fn is_inside(&self, transfer: usize) -> bool {
        let producer = self.problem.transfers[transfer].producer;
        self.outside[transfer] == 0 && bits::contains(&self.ideal, producer)
    }

    /// Calls `leaf` with every non-empty stage: what it adds up to, and what is left without it. Ends when `leaf` accepts
    /// one, and gives up after so many steps of this ideal. `tally` is that of an empty stage.
    pub(crate) fn each<T: Tally>(
        &mut self,
        tally: &mut T,
        most_steps: u64,
        leaf: &mut impl FnMut(&T, &[u64]) -> bool,
    ) -> Grown {
        let patience = TUNING.growth_steps_between_clock_looks;
        let most_steps = self.steps.saturating_add(most_steps);
        let mut next_look = self.steps + patience;
        self.free.clear();
        self.free.extend(bits::iter(&self.ends_of_ideal));
        loop {
            while self.taken.len() < self.free.len() && !tally.is_hopeless() {
                let item = self.free[self.taken.len()];
                let takes = tally.admits(item);
                match takes {
                    true => self.take(tally, item),
                    false => self.leave(tally, item),
                }
                self.taken.push(takes);
                self.steps += 1;
            }
            if self.size > 0 && !tally.is_hopeless() && leaf(tally, &self.left) {
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
                    Some(false) => self.reconsider(tally),
                    Some(true) => {
                        let item = self.free[self.taken.len()];
                        self.put_back(tally, item);
                        self.leave(tally, item);
                        self.taken.push(false);
                        break;
                    }
                }
            }
        }
    }

    fn take(&mut self, tally: &mut impl Tally, item: usize) {
        self.move_item(tally, item, true);
        bits::remove(&mut self.left, item);
        tally.add(item);
        self.size += 1;
        for &before in &self.predecessors[item] {
            self.waits_for[before] -= 1;
            if self.waits_for[before] == 0 {
                self.free.push(before);
            }
        }
    }

    fn put_back(&mut self, tally: &mut impl Tally, item: usize) {
        for &before in self.predecessors[item].iter().rev() {
            if self.waits_for[before] == 0 {
                self.free.pop();
            }
            self.waits_for[before] += 1;
        }
        self.size -= 1;
        tally.remove(item);
        bits::insert(&mut self.left, item);
        self.move_item(tally, item, false);
    }

    /// Bars an item and what comes before it, the nearest first: the stage holds and neighbours few items, and a network has many.
    fn leave(&mut self, tally: &mut impl Tally, item: usize) {
        let start = self.barred.len();
        self.barred_before.push(start);
        self.bar(tally, item);
        for next in start..start + TUNING.items_barred_at_once {
            let Some(&item) = self.barred.get(next) else {
                break;
            };
            for &before in &self.predecessors[item] {
                if !self.is_barred[before] {
                    self.bar(tally, before);
                }
            }
        }
    }

    fn bar(&mut self, tally: &mut impl Tally, item: usize) {
        self.is_barred[item] = true;
        self.barred.push(item);
        for &t in &self.problem.transfers_of[item] {
            if self.problem.transfers[t].producer == item && self.ends[t].1 > 0 {
                tally.commit(t, Side::Consumer);
            }
        }
    }

    /// Takes back what barred the last item that was left.
    fn reconsider(&mut self, tally: &mut impl Tally) {
        let start = self.barred_before.pop().unwrap_or(0);
        for item in self.barred.drain(start..) {
            self.is_barred[item] = false;
            for &t in &self.problem.transfers_of[item] {
                if self.problem.transfers[t].producer == item && self.ends[t].1 > 0 {
                    tally.release(t, Side::Consumer);
                }
            }
        }
    }

    /// Updates what the stage pays for the item's transfers as the item enters or leaves.
    fn move_item(&mut self, tally: &mut impl Tally, item: usize, enters: bool) {
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
            let is_inside = self.is_inside(t);
            if let Some(side) = paid(before) {
                tally.stop_paying(t, side, is_inside);
            }
            if let Some(side) = paid(after) {
                tally.pay(t, side, is_inside);
            }
            let for_good = match item == transfer.producer {
                true => (self.outside[t] > 0).then_some(Side::Producer),
                false => (before.1.min(after.1) == 0 && self.is_barred[transfer.producer])
                    .then_some(Side::Consumer),
            };
            match (for_good, enters) {
                (Some(side), true) => tally.commit(t, side),
                (Some(side), false) => tally.release(t, side),
                (None, _) => {}
            }
        }
    }
}
