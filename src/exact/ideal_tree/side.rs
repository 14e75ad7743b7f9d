//! One direction of the search for a plan with a given cycle time.
//!
//! A state is a set of tasks done and the stations that they took. From a state, one more station takes each of its full loads
//! ([`super::loads`]); a state that was reached before with as few stations is dropped ([`super::states`]), and so is one whose
//! rest cannot fit: all that is left must fit in the stations left, and what is due ([`super::cycle`]) in the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use crate::exact::bits;
use crate::exact::ideal_tree::cycle::Cycle;
use crate::exact::ideal_tree::greedy::merits;
use crate::exact::ideal_tree::loads::{Ended, Loads, Station};
use crate::exact::ideal_tree::order::Order;
use crate::exact::ideal_tree::states::{NONE, Offered, States};

/// By how much that grows each time when only such states are left.
const EFFORT_GROWTH: u64 = 8;
/// What must follow a task counts so many thousandths in the merit of a state.
const FOLLOWING: u64 = 2;

/// What became of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expanded {
    /// A plan: the tasks of each station.
    Plan(Vec<Vec<usize>>),
    /// Its successors wait.
    Done,
    /// There is no room for more states.
    Full,
}

/// In which order states are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All states with the fewest stations first: they complete a level, which bounds the other direction.
    Levels,
    /// The most promising state of each number of stations in turn (cyclic best-first search: Morrison, Sewell and Jacobson
    /// 2014): reaches whole plans early.
    Cyclic,
}

/// States of one direction.
#[derive(Debug)]
pub(super) struct Side {
    cycle: Cycle,
    states: States,
    levels: Vec<Level>,
    loads: Loads,
    merits: Vec<i64>,
    /// Level from which the cyclic search took a state last.
    last: usize,
    /// Levels up to this one hold every state that they will ever hold.
    complete: usize,
}

/// The states with one number of stations.
#[derive(Debug)]
struct Level {
    /// States that wait, the most promising first.
    waiting: BinaryHeap<(i64, Reverse<u32>)>,
    /// States with loads that were left out, to be looked at again.
    postponed: Vec<u32>,
    /// Steps that the enumeration of loads may take here.
    effort: u64,
    /// The most time done in any state that was reached.
    reach: u64,
}

impl Side {
    /// A search from the empty set. `bytes` bounds the memory of its states; `effort` is what one state's loads may take at first.
    pub(super) fn new(order: &Order, cycle: Cycle, bytes: usize, effort: u64) -> Self {
        let level = || Level {
            waiting: BinaryHeap::new(),
            postponed: Vec::new(),
            effort,
            reach: 0,
        };
        let mut side = Self {
            states: States::new(order.count(), bytes),
            levels: (0..=order.stations).map(|_| level()).collect(),
            loads: Loads::new(order),
            merits: merits(order, FOLLOWING),
            last: 0,
            complete: 0,
            cycle,
        };
        let nothing = vec![0; bits::words(order.count())];
        if let Offered::Kept(state) = side.states.offer(&nothing, 0, NONE) {
            side.levels[0].waiting.push((0, Reverse(state)));
        }
        side
    }

    /// For each number of stations from 0, a time that no plan exceeds in so many stations at this end together.
    ///
    /// Every plan can be turned into one that the search does not leave out, by bringing tasks forward ([`super::loads`]); that only
    /// adds to the first stations. So in as many stations as are complete, no plan does more than the states that were reached; each
    /// station after that adds a whole one at most. The bounds that prune a direction hold for every plan, so what was pruned never
    /// was part of one, and the two directions may use each other's reach at any time.
    pub(super) fn reach(&self) -> Vec<u64> {
        let mut most = 0_u64;
        let reach = self.levels.iter().enumerate().map(|(at, level)| {
            most = if at <= self.complete {
                most.max(level.reach)
            } else {
                most.saturating_add(self.cycle.limit)
            };
            most
        });
        reach.collect()
    }

    /// Most steps that completing the next level may take, as it looks now; `None` where no state is left.
    pub(super) fn cost(&self) -> Option<u64> {
        let level = self.levels.iter().find(|level| level.is_open())?;
        Some(((level.waiting.len() + level.postponed.len()) as u64).saturating_mul(level.effort))
    }

    /// Takes one state whose loads may take `most` steps at most, and adds a station to it in every way. Returns what became of it and
    /// the steps that it took; `None` where the strategy has no such state.
    ///
    /// `room` is the [`Side::reach`] of the other direction.
    pub(super) fn advance(
        &mut self,
        order: &Order,
        (strategy, most): (Strategy, u64),
        room: &[u64],
        must_stop: &dyn Fn() -> bool,
    ) -> Option<(Expanded, u64)> {
        let state = match strategy {
            Strategy::Levels => self.pop_first(most),
            Strategy::Cyclic => self.pop_next(most),
        }?;
        Some(self.expand(order, state, room, must_stop))
    }

    /// Whether another level was completed since the last call.
    pub(super) fn completed(&mut self) -> bool {
        let open = self
            .levels
            .iter()
            .position(Level::is_open)
            .unwrap_or(self.levels.len());
        std::mem::replace(&mut self.complete, open) < open
    }

    /// The most promising of the states with the fewest stations.
    fn pop_first(&mut self, most: u64) -> Option<u32> {
        loop {
            let at = self.levels.iter().position(Level::is_open)?;
            if self.levels[at].waiting.is_empty() {
                self.levels[at].take_up_postponed();
            }
            if self.levels[at].effort > most {
                return None;
            }
            let state = self.pop_from(at);
            if state.is_some() {
                return state;
            }
        }
    }

    /// The most promising state of the next level that has one.
    fn pop_next(&mut self, most: u64) -> Option<u32> {
        loop {
            if self.levels.iter().all(|level| level.waiting.is_empty()) {
                self.levels.iter_mut().for_each(Level::take_up_postponed);
            }
            for _ in 0..self.levels.len() {
                self.last = (self.last + 1) % self.levels.len();
                if self.levels[self.last].effort > most {
                    continue;
                }
                let state = self.pop_from(self.last);
                if state.is_some() {
                    return state;
                }
            }
            let takes_too_long = self.levels.iter().any(|level| !level.waiting.is_empty());
            if takes_too_long || self.levels.iter().all(|level| level.postponed.is_empty()) {
                return None;
            }
        }
    }

    /// The most promising state of a level that was not reached with fewer stations meanwhile.
    fn pop_from(&mut self, at: usize) -> Option<u32> {
        std::iter::from_fn(|| self.levels[at].waiting.pop())
            .map(|(_, Reverse(state))| state)
            .find(|state| self.states.stations(*state) == at)
    }

    fn expand(
        &mut self,
        order: &Order,
        state: u32,
        room: &[u64],
        must_stop: &dyn Fn() -> bool,
    ) -> (Expanded, u64) {
        let at = self.states.stations(state);
        let done = self.states.done(state).to_vec();
        let rest: Vec<usize> = (0..order.count())
            .filter(|task| !bits::contains(&done, *task))
            .collect();
        let total = |amounts: &[u64]| -> u64 { rest.iter().map(|task| amounts[*task]).sum() };
        let (time, left) = (total(&order.times), order.stations - at);
        if left == 0 || time > room[left] {
            return (Expanded::Done, 1);
        }
        // What the stations after this one cannot do must be done here.
        let idle = self
            .cycle
            .limit
            .saturating_sub(time.saturating_sub(room[left - 1]));
        let effort = self.levels[at].effort;
        let station = Station {
            order,
            cycle: &self.cycle,
            at,
            done: &done,
            idle,
            work: effort,
            must_stop,
        };
        let mut children = Children {
            states: &mut self.states,
            level: &mut self.levels[at + 1],
            parent: state,
            merits: &self.merits,
            room: room[left - 1],
            bytes: total(&order.bytes),
            time,
            after: vec![0; done.len()],
            station: &station,
            found: None,
            full: false,
        };
        let (ended, steps) = self.loads.visit(&station, &mut |load| children.offer(load));
        if let Some(last) = children.found {
            let mut path = self.states.path(state);
            path.extend(last);
            return (Expanded::Plan(path), steps);
        }
        if children.full {
            return (Expanded::Full, steps);
        }
        if ended == Ended::Early {
            self.levels[at].postponed.push(state);
        }
        (Expanded::Done, steps)
    }
}

impl Level {
    fn is_open(&self) -> bool {
        !self.waiting.is_empty() || !self.postponed.is_empty()
    }

    fn take_up_postponed(&mut self) {
        if !self.postponed.is_empty() {
            self.effort = self.effort.saturating_mul(EFFORT_GROWTH);
            self.waiting
                .extend(self.postponed.drain(..).map(|state| (0, Reverse(state))));
        }
    }
}

/// Takes the loads of one state and keeps what may still lead to a plan.
struct Children<'a> {
    station: &'a Station<'a>,
    states: &'a mut States,
    level: &'a mut Level,
    parent: u32,
    merits: &'a [i64],
    /// Time that the stations after this one can do.
    room: u64,
    /// Time of the tasks not done before this station.
    time: u64,
    /// Bytes of those tasks.
    bytes: u64,
    /// Tasks done with the load at hand.
    after: Vec<u64>,
    found: Option<Vec<Vec<usize>>>,
    full: bool,
}

impl Children<'_> {
    /// Looks at one load.
    fn offer(&mut self, load: &[u64]) -> ControlFlow<()> {
        let Station { order, at, done, .. } = *self.station;
        self.after.copy_from_slice(load);
        bits::unite(&mut self.after, done);
        let (mut time, mut bytes) = (self.time, self.bytes);
        for task in bits::iter(load) {
            time -= order.times[task];
            bytes -= order.bytes[task];
        }
        let left = order.stations - at - 1;
        if self.finishes(time, bytes, left) {
            let rest = (0..order.count())
                .filter(|task| !bits::contains(&self.after, *task))
                .collect();
            self.found = Some(vec![bits::iter(load).collect(), rest]);
            return ControlFlow::Break(());
        }
        let held = order
            .memory
            .is_none_or(|memory| bytes <= memory.saturating_mul(left as u64));
        if time > self.room || !held || left == 0 {
            return ControlFlow::Continue(());
        }
        match self.states.offer(&self.after, at + 1, self.parent) {
            Offered::Known => ControlFlow::Continue(()),
            Offered::Full => {
                self.full = true;
                ControlFlow::Break(())
            }
            Offered::Kept(state) => {
                let merit = bits::iter(&self.after).map(|task| self.merits[task]).sum();
                self.level.waiting.push((merit, Reverse(state)));
                self.level.reach = self.level.reach.max(order.total - time);
                ControlFlow::Continue(())
            }
        }
    }

    /// Whether what is left, if anything, fits in one more station.
    fn finishes(&self, time: u64, bytes: u64, left: usize) -> bool {
        let Station { order, cycle, .. } = *self.station;
        bits::count(&self.after) as usize == order.count()
            || left > 0 && time <= cycle.limit && order.memory.is_none_or(|memory| bytes <= memory)
    }
}
