//! The least cycle time: plans from above, proofs from below.

use std::collections::BTreeMap;

use crate::exact::bits;
use crate::exact::ideal_tree::cycle::Cycle;
use crate::exact::ideal_tree::greedy;
use crate::exact::ideal_tree::order::Order;
use crate::exact::ideal_tree::question::Question;
use crate::exact::ideal_tree::{Fault, Line};
use crate::model::units::gcd;
use crate::search::limits::{Answer, least_left};

/// What is known before a search.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Station of each task in a plan.
    pub assignment: Option<Vec<usize>>,
    /// No plan has a smaller cycle time.
    pub lower: u64,
}

/// Why a search stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Bound and plan meet.
    Proved,
    /// There is no plan, whatever the cycle time: memory is too small.
    NoPlan,
    /// The caller asked.
    Stopped,
    /// The work allowed is used up.
    OutOfWork,
    /// No question left could be answered in the memory allowed.
    OutOfMemory,
}

/// The best plan and bound of a search.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Station of each task.
    pub assignment: Option<Vec<usize>>,
    /// Cycle time of that plan.
    pub upper: Option<u64>,
    /// No plan has a smaller cycle time.
    pub lower: u64,
    pub stopped_by: Ending,
}

/// How far a search may go.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Steps of enumeration, times the words of a set of tasks: both make up the time.
    pub work: u64,
    /// Bytes of memory for the states, about.
    pub bytes: usize,
}

impl Default for Effort {
    /// No limit of work, and a gibibyte.
    fn default() -> Self {
        Self {
            work: u64::MAX,
            bytes: 1 << 30,
        }
    }
}

/// Searches for the least cycle time.
///
/// First plans come from filling stations one after the other. Then rounds follow, each with twice the work a question: the
/// lower bound is raised (destructive improvement: Klein and Scholl 1999), and the range up to the plan is halved again and again.
/// So neither bound nor plan starves, and a question about the cycle time just below the plan closes the search from above.
/// `must_stop` is asked about every thousand steps; it decides nothing else, so the same work gives the same outcome.
///
/// # Errors
///
/// [`Fault`] where the line is not well-formed.
pub fn search(
    line: &Line,
    known: &Known,
    effort: Effort,
    must_stop: &dyn Fn() -> bool,
) -> Result<Outcome, Fault> {
    line.validate()?;
    let orders = [Order::new(line, false)?, Order::new(line, true)?];
    let mut state = Balance::new(line, orders, known, effort);
    let stopped_by = state.run(must_stop);
    Ok(Outcome {
        upper: state.plan.as_ref().map(|_| state.upper),
        assignment: state.plan,
        lower: state.lower,
        stopped_by,
    })
}

/// Bounds, plan and searches under way.
struct Balance<'a> {
    line: &'a Line,
    orders: [Order; 2],
    plan: Option<Vec<usize>>,
    /// Cycle time of the plan, or one more than any plan could have.
    upper: u64,
    lower: u64,
    /// Every cycle time worth asking about is a multiple of this.
    quantum: u64,
    /// Questions under way, by cycle time.
    questions: BTreeMap<u64, Question>,
    /// Steps that one state's loads may take at first, for cycle times whose questions did not fit in memory with more.
    efforts: BTreeMap<u64, u64>,
    effort: Effort,
    /// Work of questions so far.
    spent: u64,
}

/// Steps that one question may take in the first round; twice as many in each round after it.
const FIRST_WORK: u64 = 400_000;
/// Steps that the enumeration of one state's loads may take at first; a state that needs more waits until the others of its level are
/// done. A question that fills the memory is asked anew with an eighth: fewer states of more kinds.
const FIRST_EFFORT: u64 = 2_000;
/// Questions that may be in memory at once: two that wait, and the one at hand.
const QUESTIONS: usize = 3;

/// Weights of what follows a task, in thousandths, that first plans are sought with.
const FOLLOWING: [u64; 4] = [0, 5, 15, 50];

impl<'a> Balance<'a> {
    fn new(line: &'a Line, orders: [Order; 2], known: &Known, effort: Effort) -> Self {
        let total: u64 = line.times.iter().sum();
        let quantum = line.times.iter().copied().fold(0, gcd).max(1);
        let plan = known.assignment.clone().filter(|plan| line.allows(plan));
        let upper = plan
            .as_ref()
            .map_or(total + quantum, |plan| line.cycle_time(plan));
        let mean = total.div_ceil(line.stations as u64);
        let longest = line.times.iter().copied().max().unwrap_or(0);
        let lower = known
            .lower
            .min(total)
            .max(mean)
            .max(longest)
            .next_multiple_of(quantum);
        let questions = BTreeMap::new();
        Self {
            line,
            orders,
            plan,
            upper,
            lower,
            quantum,
            questions,
            efforts: BTreeMap::new(),
            effort,
            spent: 0,
        }
    }

    fn run(&mut self, must_stop: &dyn Fn() -> bool) -> Ending {
        self.raise_by_bounds();
        self.fill(must_stop);
        let mut work = FIRST_WORK;
        loop {
            if self.lower >= self.upper {
                return if self.plan.is_some() {
                    Ending::Proved
                } else {
                    Ending::NoPlan
                };
            }
            if must_stop() {
                return Ending::Stopped;
            }
            if self.spent >= self.effort.work {
                return Ending::OutOfWork;
            }
            let before = self.spent;
            self.raise(work, must_stop);
            self.bisect(work, must_stop);
            if self.spent == before && self.lower < self.upper && !must_stop() {
                return Ending::OutOfMemory;
            }
            work = work.saturating_mul(2);
        }
    }

    /// Raises the lower bound to the least cycle time that the windows do not exclude.
    fn raise_by_bounds(&mut self) {
        let is_refuted = |times: u64| Cycle::both(&self.orders, times * self.quantum).is_none();
        let range = [self.lower, self.upper].map(|cycle| cycle / self.quantum);
        self.lower = least_left(range, is_refuted) * self.quantum;
    }

    /// Looks for first plans by halving the range of cycle times.
    fn fill(&mut self, must_stop: &dyn Fn() -> bool) {
        let mut low = self.lower / self.quantum;
        while low < self.upper / self.quantum && !must_stop() {
            let middle = low + (self.upper / self.quantum - low) / 2;
            let plan = Cycle::both(&self.orders, middle * self.quantum)
                .and_then(|cycles| self.first_plan(&cycles, must_stop));
            match plan {
                Some(plan) => self.take(plan),
                None => low = middle + 1,
            }
        }
    }

    /// A plan from either direction with any of the merits.
    fn first_plan(&self, cycles: &[Cycle; 2], must_stop: &dyn Fn() -> bool) -> Option<Vec<usize>> {
        let ways = (0..2).flat_map(|direction| FOLLOWING.map(|following| (direction, following)));
        ways.into_iter().find_map(|(direction, following)| {
            let order = &self.orders[direction];
            let stations = greedy::fill(
                order,
                &cycles[direction],
                &greedy::merits(order, following),
                must_stop,
            )?;
            Some(order.assignment(&stations))
        })
    }

    /// Raises the lower bound by longer and longer steps while the answer is no, and by the least one at the end.
    fn raise(&mut self, work: u64, must_stop: &dyn Fn() -> bool) {
        let mut step = (self.upper - self.lower) / 64 / self.quantum * self.quantum;
        while self.lower < self.upper && !must_stop() {
            let cycle = (self.lower + step).min(self.upper - self.quantum);
            match self.ask(cycle, work, must_stop) {
                Answer::NoPlan { .. } => step = 2 * step + self.quantum,
                Answer::Plan(()) => {}
                Answer::Undecided | Answer::Stopped(_) => break,
            }
        }
        if self.lower < self.upper && step > 0 && !must_stop() {
            self.ask(self.lower, work, must_stop);
        }
    }

    /// Looks for plans between the bounds, by halving the range above what was open.
    ///
    /// The last question is always about the largest cycle time that would be better. If it brings a plan, the range below is looked at again, twice as wide.
    fn bisect(&mut self, work: u64, must_stop: &dyn Fn() -> bool) {
        let mut low = self.lower / self.quantum;
        while low < self.upper / self.quantum && !must_stop() {
            let (least, high) = (self.lower / self.quantum, self.upper / self.quantum);
            let middle = if high - low <= (high - least) / 32 {
                high - 1
            } else {
                low + (high - low) / 2
            };
            match self.ask(middle * self.quantum, work, must_stop) {
                Answer::Plan(()) if middle + 1 == high => {
                    low = low.saturating_sub(2 * (high - low)).max(least)
                }
                Answer::Plan(()) => {}
                Answer::NoPlan { .. } | Answer::Undecided | Answer::Stopped(_) => low = middle + 1,
            }
        }
    }

    /// Asks for a plan with a cycle time.
    fn ask(&mut self, cycle: u64, work: u64, must_stop: &dyn Fn() -> bool) -> Answer<()> {
        let effort = self.efforts.get(&cycle).copied().unwrap_or(FIRST_EFFORT);
        if effort == 0 {
            return Answer::Undecided;
        }
        let bytes = self.effort.bytes / QUESTIONS;
        let question = self
            .questions
            .remove(&cycle)
            .or_else(|| Question::new(&self.orders, cycle, bytes, effort));
        let Some(mut question) = question else {
            return self.exclude(cycle);
        };
        let before = question.spent;
        let verdict = question.run(&self.orders, work, must_stop);
        self.spent += (question.spent - before) * bits::words(self.line.times.len()) as u64;
        match verdict {
            Answer::Plan((direction, stations)) => {
                self.take(self.orders[direction].assignment(&stations));
                Answer::Plan(())
            }
            Answer::NoPlan { .. } => self.exclude(cycle),
            Answer::Stopped(_) => {
                self.efforts.insert(cycle, effort / 8);
                Answer::Undecided
            }
            Answer::Undecided => {
                if cycle == self.lower || cycle + self.quantum == self.upper {
                    self.questions.insert(cycle, question);
                }
                Answer::Undecided
            }
        }
    }

    fn exclude(&mut self, cycle: u64) -> Answer<()> {
        self.lower = self.lower.max(cycle + self.quantum);
        let lower = self.lower;
        self.questions.retain(|key, _| *key >= lower);
        Answer::NoPlan { next_limit: lower }
    }

    fn take(&mut self, plan: Vec<usize>) {
        let cycle = self.line.cycle_time(&plan);
        if cycle < self.upper {
            self.upper = cycle;
            self.plan = Some(plan);
            self.questions.retain(|key, _| *key < cycle);
        }
    }
}
