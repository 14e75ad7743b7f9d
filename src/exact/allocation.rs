//! The exact engine for workers that differ: incumbents, bounds, and bisection of the period over ideals and devices.

use super::Method;
use super::allocation_ideals::{AllocationSearch, Pass};
use super::bounds::Bound;
use super::capacity::Capacity;
use super::control::Control;
use super::highs::SolverError;
use super::presolve;
use crate::cost;
use crate::heuristics::{self, Effort};
use crate::options::{Shares, WorkerMode};
use crate::plan::{Outcome, PROOF_TOLERANCE, Statistics, StoppedBy, is_proved};
use crate::problem::Problem;
use crate::units::{LARGEST_EXACT, ns_to_ms};
use crate::workers::{Allocation, Choice, Workers};

/// Steps after which the portfolio leaves a pass over ideals to the program: some seconds' work.
const STEPS_OF_PORTFOLIO: u64 = 400_000_000;

/// What a search for an allocation knows.
pub(super) struct Search<'a> {
    pub problem: &'a Problem,
    pub workers: &'a Workers,
    pub control: &'a Control<'a>,
    pub incumbent: Option<Allocation>,
    /// Its objective in ns; `u64::MAX` without a plan.
    pub upper_ns: u64,
    /// No plan is better than this, in ns; `u64::MAX` where there is none.
    pub lower_ns: u64,
    pub bound_source: &'static str,
    pub statistics: Statistics,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, workers: &'a Workers, control: &'a Control<'a>) -> Self {
        Self {
            problem,
            workers,
            control,
            incumbent: None,
            upper_ns: u64::MAX,
            lower_ns: 0,
            bound_source: "none",
            statistics: Statistics {
                items: problem.items.len(),
                items_after_presolve: problem.items.len(),
                ..Statistics::default()
            },
        }
    }

    /// Takes a plan if it is feasible and better; its objective is computed here, whatever its finder says.
    pub fn offer(&mut self, allocation: Allocation) {
        if !self.workers.is_feasible(self.problem, &allocation) {
            return;
        }
        let objective_ns = self.workers.objective_ns(self.problem, &allocation);
        if objective_ns < self.upper_ns {
            self.upper_ns = objective_ns;
            self.incumbent = Some(allocation);
            self.control.report(Some(self.upper_ns), self.lower_ns);
        }
    }

    /// Takes a bound.
    pub fn raise(&mut self, bound: Bound) {
        let ns = bound.bottleneck_ns;
        if ns < u64::MAX {
            self.statistics
                .bounds_ms
                .insert(bound.source.into(), ns_to_ms(ns));
        }
        if ns > self.lower_ns {
            self.lower_ns = ns;
            self.bound_source = bound.source;
        }
    }

    /// The largest period that is still of interest.
    pub fn target_ns(&self) -> u64 {
        match self.upper_ns {
            u64::MAX => LARGEST_EXACT,
            upper_ns => {
                let smallest_step = (upper_ns as f64 * PROOF_TOLERANCE / 2.0) as u64;
                upper_ns.saturating_sub(smallest_step.max(1))
            }
        }
    }

    /// Records that no plan keeps a period.
    pub fn exhausted(&mut self, source: &'static str, limit_ns: u64) {
        let nothing = self.incumbent.is_none() && limit_ns >= LARGEST_EXACT;
        let bottleneck_ns = if nothing { u64::MAX } else { limit_ns + 1 };
        self.raise(Bound {
            source,
            bottleneck_ns,
        });
    }

    /// Whether nothing is left to find, or it is proved that there is nothing.
    pub fn is_done(&self) -> bool {
        let gap = self.upper_ns.saturating_sub(self.lower_ns) as f64;
        match self.incumbent {
            None => self.lower_ns == u64::MAX,
            Some(_) => self.is_proved() || gap <= self.control.gap * self.upper_ns as f64,
        }
    }

    fn is_proved(&self) -> bool {
        self.incumbent.is_some() && is_proved(self.upper_ns, self.lower_ns)
    }

    fn finish(mut self, stopped_by: StoppedBy) -> Outcome {
        self.statistics.seconds = self.control.seconds();
        let stopped_by = match stopped_by {
            _ if self.is_proved() || self.lower_ns == u64::MAX => StoppedBy::Completed,
            _ if self.is_done() => StoppedBy::Gap,
            other => other,
        };
        Outcome {
            allocation: self.incumbent,
            bound_ns: self.lower_ns,
            bound_source: self.bound_source,
            stopped_by,
            statistics: self.statistics,
        }
    }
}

/// Solves a problem whose workers differ.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(super) fn solve(
    problem: &Problem,
    workers: &Workers,
    method: Method,
    control: &Control,
) -> Result<Outcome, SolverError> {
    let capacity = Capacity::new(problem, workers);
    let mut search = Search::new(problem, workers, control);
    if method != Method::Textbook {
        capacity
            .bounds(problem, workers)
            .into_iter()
            .for_each(|bound| search.raise(bound));
        find_incumbents(&mut search);
        use_one_class(&mut search)?;
    }
    let mut stopped_by = StoppedBy::Completed;
    // One share for all stages ties them together, which states of one stage after the other cannot say.
    let is_global =
        problem.settings.worker == WorkerMode::Concurrent && problem.settings.shares == Shares::Global;
    if matches!(method, Method::Exact | Method::Ideals) && !is_global && !search.is_done() {
        let most_steps = match method {
            Method::Exact => STEPS_OF_PORTFOLIO,
            _ => u64::MAX,
        };
        stopped_by = bisect(&mut search, most_steps);
    }
    Ok(search.finish(stopped_by))
}

/// Bounds alone.
pub(super) fn bound(problem: &Problem, workers: &Workers, control: &Control) -> Outcome {
    let mut search = Search::new(problem, workers, control);
    let bounds = Capacity::new(problem, workers).bounds(problem, workers);
    bounds.into_iter().for_each(|bound| search.raise(bound));
    search.finish(StoppedBy::Completed)
}

/// Runs every heuristic for workers that differ, the quick ones first.
fn find_incumbents(search: &mut Search) {
    for effort in [Effort::Quick, Effort::Thorough] {
        for heuristic in heuristics::METHODS
            .iter()
            .filter(|heuristic| heuristic.effort == effort)
        {
            if search.is_done() || search.control.must_stop().is_some() {
                return;
            }
            if let Some(plan) = heuristic.plan(search.problem, search.control.seed) {
                search.offer(plan);
            }
        }
    }
}

/// Solves the problem for every class by itself, where that makes workers alike: often the best plan, and always one.
fn use_one_class(search: &mut Search) -> Result<(), SolverError> {
    for class in 0..search.workers.classes.len() {
        let Some(problem) = search.problem.on_class(class) else {
            continue;
        };
        let is_it = |choice: &Choice| choice.devices[class] == 1 && search.workers.is_single(choice);
        let Some(choice) = search.workers.choices.iter().position(is_it) else {
            continue;
        };
        let control = Control {
            progress: None,
            ..search.control.clone()
        };
        let labels: Vec<String> = (0..problem.items.len()).map(|item| item.to_string()).collect();
        let outcome = super::solve(&problem, Method::Exact, &labels, &control)?;
        if let Some(allocation) = outcome.allocation {
            let (assignment, used) = cost::without_empty_stages(&allocation.assignment);
            search.offer(Allocation {
                assignment,
                choices: vec![choice; used],
                global: Vec::new(),
            });
        }
    }
    Ok(())
}

/// Halves the range between bound and plan, each time by a pass over the ideals, until they meet.
///
/// Without a plan it starts at twice the bound and doubles: passes for short periods are quick, since few stages keep them.
fn bisect(search: &mut Search, most_steps: u64) -> StoppedBy {
    let mut visited = 0;
    let mut steps = 0;
    while !search.is_done() {
        let (low, high) = (search.lower_ns, search.target_ns());
        let limit_ns = match search.incumbent {
            None => low.max(1).saturating_mul(2).min(LARGEST_EXACT),
            Some(_) => low + (high - low) / 2,
        };
        search
            .control
            .report(search.incumbent.is_some().then_some(search.upper_ns), low);
        let reduced = presolve::reduce(search.problem, limit_ns, &search.control.reductions);
        search.statistics.items_after_presolve = reduced.problem.items.len();
        let capacity = Capacity::new(&reduced.problem, search.workers);
        let left = most_steps - steps;
        let mut ideals =
            AllocationSearch::new(&reduced.problem, search.workers, &capacity, search.control, left);
        let pass = ideals.pass(limit_ns);
        visited += ideals.ideals;
        steps += ideals.steps.min(left);
        search.statistics.ideals = Some(visited);
        match pass {
            Pass::Found(found) => search.offer(Allocation {
                assignment: reduced.lift(&found.assignment),
                ..found
            }),
            Pass::Exhausted => search.exhausted("ideals and devices", limit_ns),
            Pass::Stopped(stopped_by) => return search.control.must_stop().unwrap_or(stopped_by),
        }
    }
    StoppedBy::Completed
}
