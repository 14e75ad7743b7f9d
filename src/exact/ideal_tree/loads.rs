//! The loads that one more station may take: all of them that are worth a look, none twice.

use std::ops::ControlFlow;

use crate::exact::bits::{self, Rows};
use crate::exact::ideal_tree::cycle::Cycle;
use crate::exact::ideal_tree::order::Order;

/// Why an enumeration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every load was visited.
    Complete,
    /// The work allowed is used up, or the caller asked to stop; loads may be missing.
    Early,
}

/// Enumerates full loads by depth-first search over the tasks that are ready.
///
/// Ready tasks stand in a list; a load takes tasks in the order of that list, and a task that becomes ready is appended. So each
/// load is built in one way (Hoffmann 1963; Sewell and Jacobson 2012). A task of the list is either chosen or skipped.
///
/// A load is visited only where the time that it leaves idle is no more than all stations may leave idle together, and less than
/// the time of any skipped task: else the load is not full. Full loads are enough: compare plans station by station by how many tasks
/// each station has. A task brought forward into a station with room makes the first station in which the two plans differ larger, and no other
/// fuller, so the largest plan has full loads only. The rule looks at nothing but the tasks done, so it may be used beside a
/// memory of such sets. It needs loads that do not depend on where other tasks stand. Where memory is limited, it is tested on
/// whole loads, bytes counted.
#[derive(Debug)]
pub(super) struct Loads {
    /// Ready tasks, in the order in which they became ready.
    list: Vec<usize>,
    /// Direct predecessors of each task that are neither done nor chosen.
    missing: Vec<usize>,
    chosen: Vec<u64>,
    /// Row `d`: tasks that may still join a load with `d` tasks.
    joinable: Rows,
    due: Vec<u64>,
    work: u64,
}

/// Where the enumeration stands: what is chosen so far, and what may follow.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Position in the list of the next task to decide on.
    at: usize,
    depth: usize,
    /// Time that is left in the station.
    room: u64,
    bytes: u64,
    /// The load must leave less time than this.
    idle_below: u64,
}

/// What an enumeration needs to know.
#[derive(Clone, Copy)]
pub(super) struct Station<'a> {
    pub order: &'a Order,
    pub cycle: &'a Cycle,
    /// Number of the station, from 0.
    pub at: usize,
    /// Tasks in the stations before.
    pub done: &'a [u64],
    /// Time that this station and those after it may leave idle together.
    pub idle: u64,
    /// Steps that the enumeration may take.
    pub work: u64,
    /// Asked every thousand steps or so.
    pub must_stop: &'a dyn Fn() -> bool,
}

impl Loads {
    /// Room for the loads of an order.
    pub(super) fn new(order: &Order) -> Self {
        let count = order.count();
        let empty = vec![0; bits::words(count)];
        Self {
            list: Vec::with_capacity(count),
            missing: vec![0; count],
            chosen: empty.clone(),
            joinable: Rows::new(count + 2, count),
            due: empty,
            work: 0,
        }
    }

    /// Calls `visit` with each load; returns how it ended and the steps that it took.
    pub(super) fn visit(
        &mut self,
        station: &Station<'_>,
        visit: &mut impl FnMut(&[u64]) -> ControlFlow<()>,
    ) -> (Ended, u64) {
        let order = station.order;
        self.work = 0;
        self.list.clear();
        self.chosen.fill(0);
        let open = station.cycle.open.row(station.at);
        let due = station.cycle.due.row(station.at);
        for word in 0..self.chosen.len() {
            self.joinable.row_mut(0)[word] = open[word] & !station.done[word];
            self.due[word] = due[word] & !station.done[word];
        }
        for task in 0..order.count() {
            self.missing[task] = order.entering[task];
        }
        for task in bits::iter(station.done) {
            order.next[task]
                .iter()
                .for_each(|later| self.missing[*later] -= 1);
        }
        let ready = bits::iter(self.joinable.row(0)).filter(|task| self.missing[*task] == 0);
        self.list.extend(ready);
        // What is due is decided first, since it cannot be skipped.
        let due = &self.due;
        self.list.sort_by_key(|task| !bits::contains(due, *task));
        let bytes = order.memory.unwrap_or(u64::MAX);
        let room = station.cycle.limit;
        let start = Step {
            at: 0,
            depth: 0,
            room,
            bytes,
            idle_below: station.idle + 1,
        };
        let ended = match self.decide(station, start, visit) {
            ControlFlow::Continue(()) => Ended::Complete,
            ControlFlow::Break(()) => Ended::Early,
        };
        (ended, self.work)
    }

    /// Chooses or skips each task of the list from `step.at` on.
    fn decide(
        &mut self,
        station: &Station<'_>,
        mut step: Step,
        visit: &mut impl FnMut(&[u64]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let order = station.order;
        let fitting = order.times.partition_point(|time| *time > step.room);
        while step.at < self.list.len() {
            self.work += 1;
            if self.work > station.work || self.work.is_multiple_of(1024) && (station.must_stop)() {
                return ControlFlow::Break(());
            }
            if !self.can_fill(order, &step, fitting) {
                return ControlFlow::Continue(());
            }
            let task = self.list[step.at];
            step.at += 1;
            if order.times[task] <= step.room && order.bytes[task] <= step.bytes {
                self.choose(station, step, task, visit)?;
            }
            if !self.skip(order, &mut step, task) {
                return ControlFlow::Continue(());
            }
        }
        if step.room >= step.idle_below || order.memory.is_some() && !self.is_full(order, &step) {
            return ControlFlow::Continue(());
        }
        visit(&self.chosen)
    }

    /// Goes through the loads that have the task.
    fn choose(
        &mut self,
        station: &Station<'_>,
        step: Step,
        task: usize,
        visit: &mut impl FnMut(&[u64]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let order = station.order;
        let length = self.list.len();
        let (here, below) = self.joinable.pair_mut(step.depth);
        below.copy_from_slice(here);
        bits::remove(below, task);
        bits::insert(&mut self.chosen, task);
        for later in &order.next[task] {
            self.missing[*later] -= 1;
            if self.missing[*later] == 0 && bits::contains(below, *later) {
                self.list.push(*later);
            }
        }
        let next = Step {
            depth: step.depth + 1,
            room: step.room - order.times[task],
            bytes: step.bytes - order.bytes[task],
            ..step
        };
        let flow = self.decide(station, next, visit);
        order.next[task]
            .iter()
            .for_each(|later| self.missing[*later] += 1);
        self.list.truncate(length);
        bits::remove(&mut self.chosen, task);
        flow
    }

    /// Whether the tasks that may still join and fit, numbered from `fitting` on, leave little enough idle together.
    fn can_fill(&self, order: &Order, step: &Step, fitting: usize) -> bool {
        let Some(most_idle) = step.idle_below.checked_sub(1) else {
            return false;
        };
        let mut missing = step.room.saturating_sub(most_idle);
        if missing == 0 {
            return true;
        }
        let joinable = self.joinable.row(step.depth);
        for (at, &word) in joinable.iter().enumerate().skip(fitting / 64) {
            let mut word = match at == fitting / 64 {
                true => word & (u64::MAX << (fitting % 64)),
                false => word,
            };
            while word != 0 {
                let time = order.times[at * 64 + word.trailing_zeros() as usize];
                if time >= missing {
                    return true;
                }
                missing -= time;
                word &= word - 1;
            }
        }
        false
    }

    /// Leaves a ready task to later stations, and with it all that follow it; `false` if one of them is due here.
    fn skip(&mut self, order: &Order, step: &mut Step, task: usize) -> bool {
        let joinable = self.joinable.row_mut(step.depth);
        bits::remove(joinable, task);
        joinable
            .iter_mut()
            .zip(order.after.row(task))
            .for_each(|(word, after)| *word &= !after);
        if order.memory.is_none() {
            step.idle_below = step.idle_below.min(order.times[task]);
        }
        !bits::contains(&self.due, task)
    }

    /// Whether no skipped task fits beside the load, bytes counted.
    fn is_full(&self, order: &Order, step: &Step) -> bool {
        let mut skipped = self
            .list
            .iter()
            .filter(|task| !bits::contains(&self.chosen, **task));
        !skipped.any(|task| order.times[*task] <= step.room && order.bytes[*task] <= step.bytes)
    }
}
