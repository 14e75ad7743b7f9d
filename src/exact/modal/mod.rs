//! The exact engine where stages have modes: a dynamic program over ideals, devices and replicas.
#![doc = include_str!("../../../formulations/modal.md")]

mod ahead;
mod behind;
mod field;
mod items;
mod labels;
mod lattice;
mod plans;
mod round;
mod search;
mod space;
mod stages;
mod watched;

use self::search::{ModalSearch, Question};
use crate::exact::incumbent::Incumbent;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, Knapsack, Modes};
use crate::problem::plan::{Outcome, Statistics, StoppedBy};
use crate::search::limits::Answer;

/// Solves a problem with modes, of which something may be known.
pub(super) fn solve(incumbent: Incumbent, modes: &Modes) -> Outcome {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let mut solver = Solver {
        incumbent,
        search: ModalSearch::new(problem, modes, control),
        control,
    };
    let stopped_by = solver.run().err().unwrap_or(StoppedBy::Completed);
    solver.incumbent.statistics.ideals = Some(solver.search.ideals());
    solver.incumbent.finish(stopped_by)
}

/// The plan of Piper's program: the same search, but each stage decides what it computes again by [`Knapsack::Greedy`]. Its bound is the one
/// that needs no search.
pub(super) fn piper(problem: &Problem, modes: &Modes, control: &Control) -> Outcome {
    let greedy = modes.clone().deciding_by(Knapsack::Greedy);
    let mut solver = Solver {
        incumbent: Incumbent::new(problem, control),
        search: ModalSearch::new(problem, &greedy, control),
        control,
    };
    let stopped_by = solver.run().err().unwrap_or(StoppedBy::Completed);
    let Outcome {
        allocation,
        statistics,
        ..
    } = solver.incumbent.finish(stopped_by);
    let bound = bound(problem, modes, control);
    Outcome {
        allocation,
        stopped_by,
        statistics: Statistics {
            bounds_ms: bound.statistics.bounds_ms.clone(),
            ..statistics
        },
        ..bound
    }
}

/// The bound that needs no search.
pub(super) fn bound(problem: &Problem, modes: &Modes, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    raise_to_least(&mut incumbent, &ModalSearch::new(problem, modes, control));
    incumbent.finish(StoppedBy::Completed)
}

/// Raises the bound to what all devices take that share the work evenly; whether there may be a plan.
fn raise_to_least(incumbent: &mut Incumbent, search: &ModalSearch) -> bool {
    match search.least() {
        Some(least) => incumbent.raise(BoundSource::WorkPerStage, least),
        None => incumbent.rule_out(BoundSource::WorkPerStage, u64::MAX - 1),
    }
    search.least().is_some()
}

/// The first step beyond the bound is a part of it, one in so many.
const FIRST_STEP: u64 = 16;

struct Solver<'a> {
    incumbent: Incumbent<'a>,
    search: ModalSearch<'a>,
    control: &'a Control<'a>,
}

impl Solver<'_> {
    /// Stages along the numbering of the items first, which are few; then all stages; then, of all best plans, one that computes least
    /// again.
    fn run(&mut self) -> Result<(), StoppedBy> {
        if !raise_to_least(&mut self.incumbent, &self.search) {
            return Ok(());
        }
        let is_chain = self.search.is_chain();
        if !is_chain {
            self.narrow(true)?;
        }
        self.narrow(is_chain)?;
        if self.incumbent.is_proved() && self.again() > 0 {
            self.compute_less_again(is_chain)?;
        }
        Ok(())
    }

    /// Narrows what is open, over all stages or those in order; what is proved of the latter is a bound for chains alone.
    fn narrow(&mut self, in_order: bool) -> Result<(), StoppedBy> {
        // Stages that are costed by a rule of thumb prove nothing.
        let is_bound = (!in_order || self.search.is_chain()) && self.search.is_exact();
        let mut low = self.incumbent.lower_ns;
        // The least limit at which the search finds something: a plan, or what only the levels of its links make longer.
        let mut open = self.incumbent.upper_ns;
        // Without a plan, steps beyond the bound double.
        let mut step = (low / FIRST_STEP).max(1);
        let mut limit = match open {
            u64::MAX => low.saturating_add(step),
            open => open.saturating_sub(1),
        };
        let most = self.search.most();
        // Passes without a plan since the last plan.
        let mut failed = 0;
        while low < open && !self.incumbent.is_done() {
            limit = limit.clamp(low, most.max(low));
            let question = Question {
                limit,
                ceiling: self.incumbent.upper_ns,
                in_order,
                least_again: false,
            };
            match self.search.ask(question) {
                Answer::Plan((assignment, modes)) => {
                    self.offer(assignment, modes);
                    open = open.min(limit).min(self.incumbent.upper_ns);
                    failed = 0;
                }
                Answer::NoPlan { next_limit: next } => {
                    failed += 1;
                    low = match limit >= most {
                        true => u64::MAX,
                        false => next.max(limit + 1).min(most + 1),
                    };
                    if is_bound {
                        self.incumbent.raise(BoundSource::IdealsAndModes, low.min(open));
                    }
                }
                Answer::Undecided => return Err(StoppedBy::SizeLimit),
                Answer::Stopped(stopped) => return Err(stopped),
            }
            self.incumbent.report();
            limit = match open {
                u64::MAX => {
                    step = step.saturating_mul(2);
                    limit.saturating_add(step)
                }
                open => {
                    // The best plan is often found long before it is proved: each failure is a reason to ask nearer to it.
                    let last = open.saturating_sub(1);
                    last - (last.saturating_sub(low) >> (2 * failed + 1).min(63))
                }
            };
        }
        Ok(())
    }

    fn offer(&mut self, assignment: Vec<usize>, modes: Chosen) {
        self.incumbent.offer(Allocation {
            modes: Some(modes),
            ..Allocation::from(assignment)
        });
    }

    /// Time that the best plan computes again, beyond the fastest ways of its layers.
    fn again(&self) -> u64 {
        let plan = self.incumbent.plan.as_ref();
        plan.map_or(0, |plan| self.search.again(plan))
    }

    /// Looks for a plan that is as good and computes less again.
    fn compute_less_again(&mut self, in_order: bool) -> Result<(), StoppedBy> {
        let question = Question {
            limit: self.incumbent.upper_ns,
            ceiling: self.incumbent.upper_ns,
            in_order,
            least_again: true,
        };
        let (assignment, modes) = match self.search.ask(question) {
            Answer::Plan((assignment, modes)) => (assignment, modes),
            Answer::NoPlan { .. } | Answer::Undecided => return Ok(()),
            Answer::Stopped(stopped) => return Err(stopped),
        };
        let plan = Allocation {
            modes: Some(modes),
            ..Allocation::from(assignment)
        };
        if self.search.again(&plan) < self.again() {
            self.incumbent.replace(plan);
        }
        self.control.check_limits()
    }
}
