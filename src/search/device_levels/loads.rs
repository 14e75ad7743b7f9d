//! All maximal loads of one station: what a device may do next, once some tasks are done.

use crate::search::device_levels::line::{Line, TaskSet, tasks};
use crate::search::device_levels::prices::{Prices, sort_by_rate};

/// How often a search asks whether it must stop, in nodes: a millisecond or so.
const ASK_EVERY: u64 = 1 << 11;

/// A search for the loads of one class.
///
/// A load is *maximal* if no task that is ready still fits. Others need not be tried: a ready task that fits can leave its later
/// station for this one, and no station's load grows beyond the period (Jackson 1956; it holds for unlike devices as well, as the
/// later station only loses a task).
pub(super) struct Loads<'a> {
    line: &'a Line,
    times: &'a [Option<u64>],
    period: u64,
    price: &'a [u64],
    must_stop: &'a dyn Fn() -> bool,
    done: TaskSet,
    /// Tasks that the load must have, since no device that is left can do them.
    forced: TaskSet,
    /// The least value of a load.
    need: u64,
    /// Tasks by price per time, highest first.
    order: Vec<usize>,
    /// Loads found.
    pub found: Vec<TaskSet>,
    /// Search nodes so far.
    pub work: u64,
    /// Nodes that the present search may still take.
    nodes_left: usize,
    /// Whether a search ran out of nodes, and some loads may be missing.
    pub narrow: bool,
    /// Whether it was stopped, and some loads may be missing.
    pub stopped: bool,
}

/// A load in the making.
#[derive(Clone, Copy)]
struct Load {
    set: TaskSet,
    /// Tasks that may still join.
    open: TaskSet,
    room: u64,
    value: u64,
}

impl<'a> Loads<'a> {
    /// Loads of a class at some prices.
    pub(super) fn new(
        line: &'a Line,
        class: usize,
        period: u64,
        prices: &'a Prices,
        must_stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let (times, price) = (&line.times[class], &prices.price);
        let mut order: Vec<usize> = (0..line.tasks()).filter(|&i| times[i].is_some()).collect();
        sort_by_rate(&mut order, times, |i| price[i]);
        Self {
            line,
            times,
            period,
            price,
            must_stop,
            done: 0,
            forced: 0,
            need: 0,
            order,
            found: Vec::new(),
            work: 0,
            nodes_left: 0,
            narrow: false,
            stopped: false,
        }
    }

    /// Finds all maximal loads, once `done` is done, that hold the tasks `forced` and are worth `need` or more.
    /// Takes at most `nodes` nodes, best loads first.
    pub(super) fn find(&mut self, done: TaskSet, forced: TaskSet, need: u64, nodes: usize) {
        (self.done, self.forced, self.need, self.nodes_left) = (done, forced, need, nodes);
        self.found.clear();
        let rest = self.line.all() & !done;
        let (times, period) = (self.times, self.period);
        let fits = |set: TaskSet| {
            tasks(set)
                .try_fold(period, |room, i| room.checked_sub(times[i]?))
                .is_some()
        };
        let open = tasks(rest)
            .filter(|&i| fits(self.line.before[i] & rest | 1 << i))
            .fold(0, |set, i| set | 1 << i);
        self.search(Load {
            set: 0,
            open,
            room: period,
            value: 0,
        });
    }

    /// Depth-first search: the ready task with most value per time first in, then out, and with it all tasks after it.
    fn search(&mut self, mut load: Load) {
        if self.nodes_left == 0 {
            self.narrow = true;
            return;
        }
        self.nodes_left -= 1;
        self.work += 1;
        self.stopped |= self.work.is_multiple_of(ASK_EVERY) && (self.must_stop)();
        for i in tasks(load.open) {
            if self.times[i].is_none_or(|time| time > load.room) {
                load.open &= !(self.line.after[i] | 1 << i);
            }
        }
        loop {
            if self.stopped || self.forced & !(load.set | load.open) != 0 || !self.can_earn(&load) {
                return;
            }
            let is_next = |&&i: &&usize| load.open >> i & 1 == 1 && self.is_ready(i, load.set);
            let Some(&i) = self.order.iter().find(is_next) else {
                break;
            };
            self.search(Load {
                set: load.set | 1 << i,
                open: load.open & !(1 << i),
                room: load.room - self.times[i].unwrap_or(0),
                value: load.value + self.price[i],
            });
            load.open &= !(self.line.after[i] | 1 << i);
        }
        if load.set != 0 && self.is_maximal(&load) {
            self.found.push(load.set);
        }
    }

    fn is_ready(&self, task: usize, set: TaskSet) -> bool {
        self.line.before[task] & !(self.done | set) == 0
    }

    fn is_maximal(&self, load: &Load) -> bool {
        let could_join =
            |i: usize| self.times[i].is_some_and(|time| time <= load.room) && self.is_ready(i, load.set);
        !tasks(self.line.all() & !self.done & !load.set).any(could_join)
    }

    /// Whether open tasks can still bring the value to `need`, the last one in part: the knapsack's linear relaxation. `O(n)`.
    fn can_earn(&self, load: &Load) -> bool {
        let (mut room, mut missing) = (load.room, self.need.saturating_sub(load.value));
        for &i in &self.order {
            if missing == 0 {
                return true;
            }
            if load.open >> i & 1 == 0 {
                continue;
            }
            let (time, price) = (self.times[i].unwrap_or(u64::MAX), self.price[i]);
            if time > room {
                return u128::from(price) * u128::from(room) >= u128::from(missing) * u128::from(time);
            }
            room -= time;
            missing = missing.saturating_sub(price);
        }
        missing == 0
    }
}
