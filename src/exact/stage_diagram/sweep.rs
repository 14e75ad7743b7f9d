//! The items in the order in which a stage decides on them, and what it must remember on the way.

use std::cmp::Reverse;

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, paid_by_sides, sum};
use crate::exact::closure::{self, Closure};
use crate::exact::ideals::growth;
use crate::problem::Problem;
use crate::problem::cost::Side;

/// What is remembered of the items decided: bits.
pub(super) type State = [u64; WORDS];

const WORDS: usize = 4;

/// Whether the stage holds an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Outside = 0,
    Inside = 1,
}

/// Labels of an item that is decided, in two bits: inside, or outside and before something inside; 0 for others outside.
const INSIDE: u64 = 1;
const BARRED: u64 = 2;

/// What is decided of a transfer, in two bits: before its producer, whether consumers are inside, and outside; from then on whether the
/// producer is inside, and whether some consumer is on the other side.
const SOME_INSIDE: u64 = 1;
const SOME_OUTSIDE: u64 = 2;
const PRODUCER_INSIDE: u64 = 1;
const CROSSES: u64 = 2;

/// Which end of the pipeline stages are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Start,
    End,
}

/// All items, each after those that are taken no later.
pub(super) struct Sweep {
    pub from: From,
    /// The decisions in their order.
    pub steps: Vec<Step>,
    /// For each item, those that must be taken no later.
    pub first: Vec<Vec<usize>>,
}

/// The decision on one item.
#[derive(Default)]
pub(super) struct Step {
    /// The item.
    pub item: usize,
    work_ns: u64,
    /// Where the labels of those lie that must be taken no later.
    first: Vec<usize>,
    /// Where its own label lies, if it is asked for.
    own: Option<usize>,
    /// Where the transfers lie that it consumes, if their producers are not decided.
    consumed_early: Vec<usize>,
    /// Where the others lie, and those that it produces, with what either side pays.
    consumed: Vec<(usize, [BusyTimes; 2])>,
    produced: Vec<(usize, [BusyTimes; 2])>,
    /// Places that are free from here on.
    forgotten: State,
}

impl Sweep {
    /// `None` where there is more to remember than fits.
    ///
    /// The next item is one that lets more be forgotten than others do; of equals the one with more left to decide behind it.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let mut draft = Draft::new(problem);
        let mut free: Vec<usize> = (0..problem.items.len())
            .filter(|&item| draft.first[item].is_empty())
            .collect();
        let mut steps = Vec::with_capacity(problem.items.len());
        while let Some(at) = (0..free.len()).min_by_key(|&at| draft.rank(free[at])) {
            let item = free.swap_remove(at);
            steps.push(draft.decide(item)?);
            let behind = &draft.behind[item];
            free.extend(behind.iter().filter(|&&next| draft.first_left[next] == 0));
        }
        Some(Self {
            from: draft.from,
            steps,
            first: draft.first,
        })
    }
}

/// A sweep in the making.
struct Draft<'a> {
    problem: &'a Problem,
    from: From,
    /// Those directly before each item in the order of the sweep, and behind it, that no other leads to.
    first: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
    /// How many of them are not decided.
    first_left: Vec<usize>,
    behind_left: Vec<usize>,
    is_decided: Vec<bool>,
    /// Items that come behind each.
    all_behind: Vec<u32>,
    /// Ends of each transfer that are not decided.
    ends_left: Vec<usize>,
    /// What either side of each transfer pays.
    paid: Vec<[BusyTimes; 2]>,
    places: Places,
    place_of_item: Vec<Option<usize>>,
    place_of_transfer: Vec<Option<usize>>,
}

impl<'a> Draft<'a> {
    /// Nothing decided.
    fn new(problem: &'a Problem) -> Self {
        let n = problem.items.len();
        let closure = Closure::new(problem);
        let successors = needed_successors(problem, &closure);
        let predecessors = closure::reversed(&successors);
        let from = better_end(problem, &predecessors, &successors);
        let (first, behind, all_behind) = match from {
            From::Start => (predecessors, successors, &closure.descendants),
            From::End => (successors, predecessors, &closure.ancestors),
        };
        Self {
            problem,
            from,
            first_left: first.iter().map(Vec::len).collect(),
            behind_left: behind.iter().map(Vec::len).collect(),
            is_decided: vec![false; n],
            all_behind: (0..n).map(|item| bits::count(all_behind.row(item))).collect(),
            first,
            behind,
            ends_left: problem
                .transfers
                .iter()
                .map(|transfer| 1 + transfer.consumers.len())
                .collect(),
            paid: paid_by_sides(problem),
            places: Places::default(),
            place_of_item: vec![None; n],
            place_of_transfer: vec![None; problem.transfers.len()],
        }
    }

    /// What is to be remembered more with a decision on an item, and what tells equals apart.
    fn rank(&self, item: usize) -> (isize, Reverse<u32>, usize) {
        let mut more = isize::from(self.behind_left[item] > 0);
        for &first in &self.first[item] {
            more -= isize::from(self.behind_left[first] == 1);
        }
        for &t in &self.problem.transfers_of[item] {
            more += isize::from(self.place_of_transfer[t].is_none());
            more -= isize::from(self.ends_left[t] == 1);
        }
        (more, Reverse(self.all_behind[item]), item)
    }

    /// The decision on an item, after those before it.
    fn decide(&mut self, item: usize) -> Option<Step> {
        let mut step = Step {
            item,
            work_ns: self.problem.items[item].work_ns(),
            ..Step::default()
        };
        for &first in &self.first[item] {
            let place = self.place_of_item[first]?;
            step.first.push(place);
            self.behind_left[first] -= 1;
            if self.behind_left[first] == 0 {
                self.places.forget(place, &mut step.forgotten);
            }
        }
        for &t in &self.problem.transfers_of[item] {
            let place = match self.place_of_transfer[t] {
                Some(place) => place,
                None => *self.place_of_transfer[t].insert(self.places.take()?),
            };
            let producer = self.problem.transfers[t].producer;
            if producer == item {
                step.produced.push((place, self.paid[t]));
            } else if self.is_decided[producer] {
                step.consumed.push((place, self.paid[t]));
            } else {
                step.consumed_early.push(place);
            }
            self.ends_left[t] -= 1;
            if self.ends_left[t] == 0 {
                self.places.forget(place, &mut step.forgotten);
            }
        }
        if self.behind_left[item] > 0 {
            step.own = Some(self.places.take()?);
            self.place_of_item[item] = step.own;
        }
        for &next in &self.behind[item] {
            self.first_left[next] -= 1;
        }
        self.is_decided[item] = true;
        self.places.release();
        Some(step)
    }
}

/// The end that fewer items may come from first; the end of the pipeline, where memory depends on the stages behind.
fn better_end(problem: &Problem, predecessors: &[Vec<usize>], successors: &[Vec<usize>]) -> From {
    let ends = |beside: &[Vec<usize>]| beside.iter().filter(|beside| beside.is_empty()).count();
    let is_alike = problem.memory_is_alike() && !problem.memory_is_joint();
    match is_alike && ends(predecessors) < ends(successors) {
        true => From::Start,
        false => From::End,
    }
}

impl Step {
    /// What is remembered after a choice, and what it adds to a stage; `None` where it is not possible.
    pub(super) fn after(&self, mut state: State, choice: Choice) -> Option<(State, BusyTimes)> {
        let mut is_barred = false;
        for &place in &self.first {
            let label = read(&state, place);
            if label == BARRED && choice == Choice::Inside {
                return None;
            }
            is_barred |= label != 0;
        }
        let mut busy = [0; 3];
        if choice == Choice::Inside {
            busy[0] += self.work_ns;
        }
        for &place in &self.consumed_early {
            let seen = if choice == Choice::Inside {
                SOME_INSIDE
            } else {
                SOME_OUTSIDE
            };
            write(&mut state, place, seen);
        }
        for &(place, paid) in &self.produced {
            if let Some(side) = produce(&mut state, place, choice) {
                busy = sum(busy, paid[side as usize]);
            }
        }
        for &(place, paid) in &self.consumed {
            if let Some(side) = consume(&mut state, place, choice) {
                busy = sum(busy, paid[side as usize]);
            }
        }
        (0..WORDS).for_each(|word| state[word] &= !self.forgotten[word]);
        if let Some(place) = self.own {
            let label = match choice {
                Choice::Inside => INSIDE,
                Choice::Outside if is_barred => BARRED,
                Choice::Outside => 0,
            };
            write(&mut state, place, label);
        }
        Some((state, busy))
    }
}

/// The side of a transfer that a stage pays for consumers before its producer, which is decided.
fn produce(state: &mut State, place: usize, choice: Choice) -> Option<Side> {
    let consumers = read(state, place);
    clear(state, place);
    let (others, side, known) = match choice {
        Choice::Inside => (SOME_OUTSIDE, Side::Producer, PRODUCER_INSIDE),
        Choice::Outside => (SOME_INSIDE, Side::Consumer, 0),
    };
    let crosses = consumers & others != 0;
    write(state, place, known | if crosses { CROSSES } else { 0 });
    crosses.then_some(side)
}

/// The side of a transfer that a stage pays from a consumer on, where it paid none for the producer and earlier consumers.
fn consume(state: &mut State, place: usize, choice: Choice) -> Option<Side> {
    let known = read(state, place);
    let by_producer = known & PRODUCER_INSIDE != 0;
    if known & CROSSES != 0 || by_producer == (choice == Choice::Inside) {
        return None;
    }
    write(state, place, CROSSES);
    Some(if by_producer {
        Side::Producer
    } else {
        Side::Consumer
    })
}

/// Direct successors of each item that no other leads to.
fn needed_successors(problem: &Problem, closure: &Closure) -> Vec<Vec<usize>> {
    let mut successors = growth::successors(problem);
    for own in &mut successors {
        let all = own.clone();
        let leads_to = |one: usize, item: usize| bits::contains(closure.descendants.row(one), item);
        own.retain(|&item| !all.iter().any(|&other| leads_to(other, item)));
    }
    successors
}

/// Places of two bits in a state.
#[derive(Default)]
struct Places {
    is_taken: Vec<bool>,
    /// Those that the next step may take.
    forgotten: Vec<usize>,
}

impl Places {
    fn take(&mut self) -> Option<usize> {
        let free = self.is_taken.iter().position(|is_taken| !is_taken);
        let place = free.unwrap_or(self.is_taken.len());
        if free.is_none() {
            self.is_taken.push(true);
        }
        self.is_taken[place] = true;
        (place < WORDS * 32).then_some(place)
    }

    fn forget(&mut self, place: usize, forgotten: &mut State) {
        forgotten[place / 32] |= 3 << (2 * (place % 32));
        self.forgotten.push(place);
    }

    fn release(&mut self) {
        for place in self.forgotten.drain(..) {
            self.is_taken[place] = false;
        }
    }
}

fn read(state: &State, place: usize) -> u64 {
    state[place / 32] >> (2 * (place % 32)) & 3
}

fn clear(state: &mut State, place: usize) {
    state[place / 32] &= !(3 << (2 * (place % 32)));
}

/// Adds bits.
fn write(state: &mut State, place: usize, bits: u64) {
    state[place / 32] |= bits << (2 * (place % 32));
}
