//! Plans station by station: a beam search over (tasks done, devices free) that proves infeasibility where its width never binds.
//!
//! Level k holds the states after k stations. A state's children are the maximal loads of every class with a free device
//! ([`super::loads`]); of equal states one is kept. A state is dropped
//!
//! * by prices ([`super::prices`]): the devices free earn less than what is left to do. No plan goes through it;
//! * by dominance: another state has the same devices free and more tasks done. Drop those tasks from a plan through the first and
//!   it goes through the second;
//! * for width: searches for loads end after a multiple of the width, and only those states are kept whose free devices earn most beyond what is left to do.
//!
//! If none was dropped for width, an empty level proves that no plan has the period: branch, bound and remember (Sewell and Jacobson
//! 2012; for unlike devices Vila and Pereira 2014). If some were, it is a beam search (for unlike devices Borba and Ritt 2014). One
//! procedure serves for both. Prices as test and guide are ours.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::search::device_levels::line::{Line, TaskSet};
use crate::search::device_levels::loads::Loads;
use crate::search::device_levels::prices::Prices;
use crate::search::limits::Answer;

/// States that a state is compared with in the test of dominance.
const MOST_COMPARED: usize = 1000;
/// Nodes of a search for the loads of one state and class, as a multiple of the width.
const NODES_A_STATE: usize = 20;
/// After how many such tests it is asked whether the search must stop: a millisecond or so.
const ASK_EVERY: usize = 1 << 11;

/// Limits of a search.
pub(super) struct Limits<'a> {
    /// States kept on a level.
    pub width: usize,
    /// Nodes of all searches for loads.
    pub work: u64,
    /// Asked every few milliseconds.
    pub must_stop: &'a dyn Fn() -> bool,
}

/// What is done, which devices are free, and how that was reached.
#[derive(Clone, Copy)]
struct State {
    done: TaskSet,
    /// Free devices of each class, as digits of a number.
    free: u64,
    /// What the free devices earn beyond what is left to do.
    slack: u64,
    /// Position of its parent on the level before.
    parent: u32,
    /// Class of the last station.
    class: u32,
}

/// A search for a plan with one period.
pub(super) struct Levels<'a> {
    line: &'a Line,
    period: u64,
    prices: &'a Prices,
    limits: &'a Limits<'a>,
    /// `digit[class]`: weight of a class's digit in [`State::free`].
    digit: Vec<u64>,
    /// One search for loads for each class.
    loads: Vec<Loads<'a>>,
    /// Tasks that a class can do within the period.
    able: Vec<TaskSet>,
    levels: Vec<Vec<State>>,
    next: HashMap<(TaskSet, u64), State>,
    /// Least slack of a state that is kept on the next level.
    least_slack: u64,
    narrow: bool,
    goal: Option<State>,
}

impl<'a> Levels<'a> {
    /// A search for a plan with a period, at prices that hold for it.
    pub(super) fn new(line: &'a Line, period: u64, prices: &'a Prices, limits: &'a Limits<'a>) -> Self {
        let mut digit = vec![1; line.classes()];
        for class in 1..digit.len() {
            digit[class] = digit[class - 1] * (line.counts[class - 1] as u64 + 1);
        }
        let can = |class: usize, i: usize| line.times[class][i].is_some_and(|time| time <= period);
        let able = |class| {
            (0..line.tasks())
                .filter(|&i| can(class, i))
                .fold(0, |set, i| set | 1 << i)
        };
        Self {
            line,
            period,
            prices,
            limits,
            digit,
            loads: (0..line.classes())
                .map(|class| Loads::new(line, class, period, prices, limits.must_stop))
                .collect(),
            able: (0..line.classes()).map(able).collect(),
            levels: Vec::new(),
            next: HashMap::new(),
            least_slack: 0,
            narrow: false,
            goal: None,
        }
    }

    /// Search nodes so far.
    pub(super) fn work(&self) -> u64 {
        self.loads.iter().map(|loads| loads.work).sum()
    }

    /// Searches for a plan of at most `stations` stations, level by level: class and tasks of each, in order. Undecided where states were dropped for
    /// width, work is used up, or the search was stopped.
    pub(super) fn run(&mut self, stations: usize) -> Answer<Vec<(usize, TaskSet)>> {
        let free = self
            .digit
            .iter()
            .zip(&self.line.counts)
            .map(|(digit, &count)| digit * count as u64)
            .sum();
        let mut states = vec![State {
            done: 0,
            free,
            slack: 0,
            parent: 0,
            class: 0,
        }];
        for left in (0..stations).rev() {
            for (at, state) in states.iter().enumerate() {
                self.expand(at, state, left);
                if let Some(goal) = self.goal {
                    self.levels.push(states);
                    return Answer::Plan(self.plan(goal));
                }
                if self.loads.iter().any(|loads| loads.stopped) || self.work() > self.limits.work {
                    return Answer::Undecided;
                }
            }
            self.levels.push(states);
            states = self.close_level();
            if states.is_empty() {
                break;
            }
        }
        if self.narrow || self.loads.iter().any(|loads| loads.narrow) {
            Answer::Undecided
        } else {
            Answer::none_within(self.period)
        }
    }

    /// The next level: its states that are not dominated, most slack first, as many as its width allows.
    fn close_level(&mut self) -> Vec<State> {
        let mut states = self.undominated();
        states.sort_unstable_by_key(|state| (Reverse(state.slack), state.done, state.free));
        self.narrow |= states.len() > self.limits.width;
        states.truncate(self.limits.width);
        self.least_slack = 0;
        states
    }

    /// States of the next level such that none has the same devices free and fewer tasks done than another. A
    /// state is compared with a limited number of others, and with none after a stop.
    fn undominated(&mut self) -> Vec<State> {
        let mut states: Vec<State> = self.next.drain().map(|(_, state)| state).collect();
        states.sort_unstable_by_key(|state| (Reverse(state.done.count_ones()), state.done, state.free));
        let mut kept: HashMap<u64, Vec<TaskSet>> = HashMap::new();
        let (mut compared, mut stopped) = (0usize, false);
        states.retain(|state| {
            let others = kept.entry(state.free).or_default();
            stopped |= compared.is_multiple_of(ASK_EVERY) && (self.limits.must_stop)();
            compared += 1;
            let mut most_done = others.iter().take(if stopped { 0 } else { MOST_COMPARED });
            let is_dominated = most_done.any(|&done| state.done & !done == 0);
            if !is_dominated {
                others.push(state.done);
            }
            !is_dominated
        });
        states
    }

    /// Adds the children of a state; `left` stations may follow theirs.
    fn expand(&mut self, at: usize, state: &State, left: usize) {
        let digits = self.digit.iter().zip(&self.line.counts);
        let mut free: Vec<usize> = digits
            .map(|(&digit, &count)| (state.free / digit) as usize % (count + 1))
            .collect();
        let rest = self.line.all() & !state.done;
        let owed = self.prices.sum(rest);
        for class in 0..free.len() {
            if free[class] == 0 {
                continue;
            }
            free[class] -= 1;
            let able = (0..free.len())
                .filter(|&k| left > 0 && free[k] > 0)
                .fold(0, |set, k| set | self.able[k]);
            let earned = self.prices.most(&free, left);
            let need = owed.saturating_sub(earned);
            self.loads[class].find(state.done, rest & !able, need, NODES_A_STATE * self.limits.width);
            for set in std::mem::take(&mut self.loads[class].found) {
                self.insert(State {
                    done: state.done | set,
                    free: state.free - self.digit[class],
                    slack: (earned + self.prices.sum(set)).saturating_sub(owed),
                    parent: at as u32,
                    class: class as u32,
                });
            }
            free[class] += 1;
        }
    }

    /// Keeps a state, unless enough states with more slack are known: once there are four times as many as the width, all but the
    /// best half are dropped.
    fn insert(&mut self, state: State) {
        if state.done == self.line.all() {
            self.goal = Some(state);
            return;
        }
        if state.slack < self.least_slack {
            self.narrow = true;
            return;
        }
        self.next.entry((state.done, state.free)).or_insert(state);
        if self.next.len() > 4 * self.limits.width {
            let key = |state: &State| (Reverse(state.slack), state.done, state.free);
            let mut keys: Vec<_> = self.next.values().map(key).collect();
            let (_, &mut last, _) = keys.select_nth_unstable(2 * self.limits.width);
            self.next.retain(|_, state| key(state) <= last);
            self.least_slack = last.0.0;
            self.narrow = true;
        }
    }

    /// The plan that ends with a state, a child of the last level.
    fn plan(&self, goal: State) -> Vec<(usize, TaskSet)> {
        let mut stations = Vec::new();
        let mut state = goal;
        for level in self.levels.iter().rev() {
            let parent = level[state.parent as usize];
            stations.push((state.class as usize, state.done & !parent.done));
            state = parent;
        }
        stations.reverse();
        stations
    }
}
