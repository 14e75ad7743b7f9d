//! The exact engine where stages have modes: a dynamic program over ideals, devices and replicas.
#![doc = include_str!("../../../formulations/modal.md")]

mod ahead;
mod aims;
mod behind;
mod field;
mod items;
mod labels;
mod lattice;
mod plans;
mod round;
mod rows;
mod search;
mod space;
mod stages;
mod watched;

use self::aims::{LeastByFormula, SoonestThrough};
pub(super) use self::plans::plan_of;
use self::search::{ModalSearch, Question};
pub(super) use self::stages::{Side, payment};
use crate::exact::incumbent::Incumbent;
use crate::heuristics::{self, Effort};
use crate::model::options::Objective;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, Knapsack, Modes, StageMode};
use crate::problem::plan::{Outcome, Statistics, StoppedBy};
use crate::problem::{Assignment, Problem};
use crate::search::limits::{self, Answer, Asked, Halving};

/// Solves a problem with modes, of which something may be known.
pub(super) fn solve(incumbent: Incumbent, modes: &Modes) -> Outcome {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let quick = quick_plan(&incumbent);
    let mut solver = Solver {
        incumbent,
        search: ModalSearch::new(problem, modes, control),
        control,
    };
    let stopped_by = solver.run().err().unwrap_or(StoppedBy::Completed);
    // The search looks for its own plan, which computes least again, and leaves this one where it has none as good.
    if let Some(plan) = quick {
        solver.incumbent.offer(plan);
    }
    solver.incumbent.statistics.ideals = Some(solver.search.ideals());
    solver.incumbent.finish(stopped_by)
}

/// The best plan of the quick heuristics, shown to whoever waits for one.
fn quick_plan(known: &Incumbent) -> Option<Allocation> {
    let (problem, control) = (known.problem, known.control);
    if !control.switches.incumbents {
        return None;
    }
    let must_stop = || control.must_stop().is_some();
    let mut incumbent = known.clone();
    for heuristic in heuristics::METHODS
        .iter()
        .filter(|heuristic| heuristic.effort == Effort::Quick)
    {
        if let Some(plan) = heuristic.plan(problem, control.seed, &must_stop) {
            incumbent.offer(plan);
        }
    }
    incumbent.plan
}

/// Looks for the plan that one micro-batch passes soonest, in forward propagation: a shortest path over ideals and rows of devices. Where a tensor may skip
/// a stage over links that differ, what is proved stays a bound.
///
/// * `modes`: those that stages may have together.
/// * `named`: tells which of the problem's modes each of these is.
pub(super) fn find_soonest(
    incumbent: &mut Incumbent,
    modes: &Modes,
    named: &dyn Fn(StageMode) -> StageMode,
) -> Result<u64, StoppedBy> {
    let (problem, control) = (incumbent.problem, incumbent.control);
    let limit = incumbent.target_ns();
    match ModalSearch::new(problem, modes, control).least_of::<SoonestThrough>(limit, false)? {
        None => Ok(limit.saturating_add(1)),
        Some((least, found)) => {
            let plan = found.map(|(assignment, mut chosen)| {
                chosen.stages.iter_mut().for_each(|mode| *mode = named(*mode));
                allocation(assignment, chosen)
            });
            incumbent.offer_some(plan);
            Ok(least)
        }
    }
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

/// No stage of a plan takes less for a micro-batch: all devices share the work evenly. `None` where some item runs at no degree.
pub(super) fn least(problem: &Problem, modes: &Modes, control: &Control) -> Option<u64> {
    ModalSearch::new(problem, modes, control).least()
}

/// Raises the bound to what all devices take that share the work evenly, for each micro-batch but one where all count; whether there may be a plan.
fn raise_to_least(incumbent: &mut Incumbent, search: &ModalSearch) -> bool {
    let others = search.modes.micro_batches() - 1;
    let least = search.least().zip(search.least_once());
    let least = least.map(|(period, once)| match incumbent.problem.settings.objective {
        Objective::Formula => once.saturating_add(others.saturating_mul(period)),
        _ => period,
    });
    match least {
        Some(least) => incumbent.raise(BoundSource::WorkPerStage, least),
        None => incumbent.rule_out(BoundSource::WorkPerStage, u64::MAX - 1),
    }
    least.is_some()
}

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
        if self.incumbent.problem.settings.objective == Objective::Formula {
            if !is_chain {
                self.look_by_formula(true)?;
            }
            return self.look_by_formula(is_chain);
        }
        if !is_chain {
            self.narrow(true)?;
        }
        self.narrow(is_chain)?;
        if self.incumbent.is_proved() && self.again() > 0 {
            self.compute_less_again(is_chain)?;
        }
        Ok(())
    }

    /// Narrows what is open, over all stages or those in order; what is proved of the latter is a bound for chains alone, and nothing is of stages
    /// that are costed by a rule of thumb.
    fn narrow(&mut self, in_order: bool) -> Result<(), StoppedBy> {
        let is_bound = self.search.is_bound(in_order);
        let search = &mut self.search;
        let mut passes = Asked {
            source: is_bound.then_some(BoundSource::IdealsAndModes),
            halving: Some(Halving::near_plans()),
            decide: |incumbent: &mut Incumbent, limit| {
                let question = Question {
                    limit,
                    ceiling: incumbent.upper_ns,
                    in_order,
                    least_again: false,
                };
                match search.ask(question) {
                    // It may take longer than the limit, by the levels of its links alone: then smaller limits come next.
                    Answer::Plan((assignment, modes)) => {
                        incumbent.offer(allocation(assignment, modes));
                        Answer::Undecided
                    }
                    // Every plan keeps the largest limit: nothing is said of all plans before that was asked for.
                    Answer::NoPlan { next_limit } => Answer::NoPlan {
                        next_limit: next_limit.min(search.most()).max(limit + 1),
                    },
                    Answer::Undecided => Answer::Undecided,
                    Answer::Stopped(stopped_by) => Answer::Stopped(stopped_by),
                }
            },
        };
        match limits::search(&mut self.incumbent, &mut passes) {
            StoppedBy::Completed => Ok(()),
            stopped_by => Err(stopped_by),
        }
    }

    /// Looks for the plan of the least iteration by the formula, over all stages or those in order: what is proved of the latter is a bound for chains alone.
    fn look_by_formula(&mut self, in_order: bool) -> Result<(), StoppedBy> {
        let limit = self.incumbent.target_ns();
        let found = self.search.least_of::<LeastByFormula>(limit, in_order)?;
        let least = found
            .as_ref()
            .map_or(limit.saturating_add(1), |(least, _)| *least);
        if let Some((_, Some((assignment, modes)))) = found {
            self.incumbent.offer(allocation(assignment, modes));
        }
        if self.search.is_bound(in_order) {
            self.incumbent
                .raise(BoundSource::IdealsAndModes, least.min(self.incumbent.upper_ns));
        }
        Ok(())
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
        let plan = allocation(assignment, modes);
        if self.search.again(&plan) < self.again() {
            self.incumbent.replace(plan);
        }
        self.control.check_limits()
    }
}

/// A plan in modes.
fn allocation(assignment: Assignment, modes: Chosen) -> Allocation {
    Allocation {
        modes: Some(modes),
        ..Allocation::from(assignment)
    }
}
