//! What an exact search knows: the best plan, the best bound, and which bound that was.

use crate::control::Control;
use crate::cost;
use crate::cost::allocation::Allocation;
use crate::exact::bounds;
use crate::exact::presolve::{self, Reduced};
use crate::heuristics::local_moves;
use crate::plan::{Outcome, Statistics, StoppedBy, is_proved};
use crate::problem::{Assignment, Problem};

/// The state of a search.
#[derive(Clone)]
pub struct Search<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The problem as the current reductions leave it.
    pub reduced: Reduced,
    /// Limits and wishes.
    pub control: &'a Control<'a>,
    /// Every plan that was offered: their stages are known.
    pub plans: Vec<Assignment>,
    /// The best plan.
    pub incumbent: Option<Assignment>,
    /// Its objective in ns; `u64::MAX` without a plan.
    pub upper_ns: u64,
    /// No plan is better than this, in ns.
    pub lower_ns: u64,
    /// No plan's busiest stage is below this, in ns.
    pub lower_bottleneck_ns: u64,
    /// What every objective is a multiple of, in ns.
    pub grain_ns: u64,
    /// The bound that gave `lower_ns`.
    pub bound_source: &'static str,
    /// How it goes.
    pub statistics: Statistics,
}

impl<'a> Search<'a> {
    /// A search that knows nothing.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>) -> Self {
        Self {
            problem,
            reduced: Reduced::identity(problem),
            control,
            plans: Vec::new(),
            incumbent: None,
            upper_ns: u64::MAX,
            lower_ns: 0,
            lower_bottleneck_ns: 0,
            grain_ns: bounds::objective_grain_ns(problem),
            bound_source: "none",
            statistics: Statistics {
                items: problem.items.len(),
                items_after_presolve: problem.items.len(),
                ..Statistics::default()
            },
        }
    }

    /// A copy of this search that obeys another control.
    pub fn under<'b>(&self, control: &'b Control<'b>) -> Search<'b>
    where
        'a: 'b,
    {
        Search {
            control,
            ..self.clone()
        }
    }

    /// Goes on from where a copy has come to. What this search alone has counted stays in the statistics.
    pub fn continue_from(&mut self, copy: Search) {
        let ideals = self.statistics.ideals;
        let Search {
            problem: _,
            control: _,
            grain_ns: _,
            reduced,
            plans,
            incumbent,
            upper_ns,
            lower_ns,
            lower_bottleneck_ns,
            bound_source,
            statistics,
        } = copy;
        *self = Self {
            problem: self.problem,
            control: self.control,
            grain_ns: self.grain_ns,
            reduced,
            plans,
            incumbent,
            upper_ns,
            lower_ns,
            lower_bottleneck_ns,
            bound_source,
            statistics: Statistics { ideals, ..statistics },
        };
    }

    /// Takes a plan if it is feasible and better; its objective is computed here, whatever its finder says.
    pub fn offer(&mut self, assignment: Assignment) {
        if !cost::is_feasible(self.problem, &assignment) {
            return;
        }
        let objective_ns = cost::assignment_ns(self.problem, &assignment);
        self.plans.push(assignment.clone());
        if objective_ns < self.upper_ns {
            self.upper_ns = objective_ns;
            if self.control.known.is_some() {
                self.control
                    .show_plan(&Allocation::from(assignment.clone()), objective_ns);
            }
            self.incumbent = Some(assignment);
            self.control.report(Some(self.upper_ns), self.lower_ns);
        }
    }

    /// A plan after [local moves](local_moves), as far as there is time.
    pub fn improved(&self, plan: Assignment) -> Assignment {
        let control = self.control;
        local_moves::improve(self.problem, plan, &|| control.must_stop().is_some())
    }

    /// Takes a plan of the reduced problem.
    pub fn offer_reduced(&mut self, assignment: &Assignment) {
        self.offer(self.reduced.lift(assignment));
    }

    /// Reduces the problem for plans whose busiest stage is at most `limit_ns`.
    pub fn presolve(&mut self, limit_ns: u64) {
        self.reduced = presolve::reduce(self.problem, limit_ns, &self.control.switches);
        self.statistics.items_after_presolve = self.reduced.problem.items.len();
    }

    /// Takes a bound on the objective: no plan costs anything between it and the next multiple of the grain.
    pub fn raise(&mut self, source: &'static str, objective_ns: u64) {
        let objective_ns = objective_ns
            .checked_next_multiple_of(self.grain_ns)
            .unwrap_or(u64::MAX);
        if objective_ns < u64::MAX {
            let best_ms = self.statistics.bounds_ms.entry(source.into()).or_default();
            *best_ms = best_ms.max(self.problem.settings.ms(objective_ns));
        }
        if objective_ns > self.lower_ns {
            self.lower_ns = objective_ns;
            self.bound_source = source;
            self.control.show_bound(source, objective_ns);
        }
    }

    /// Takes a bound on the busiest stage.
    pub fn raise_bottleneck(&mut self, bound: bounds::Bound) {
        self.lower_bottleneck_ns = self.lower_bottleneck_ns.max(bound.bottleneck_ns);
        let objective_ns = bounds::objective_from_bottleneck(self.problem, bound.bottleneck_ns);
        self.raise(bound.source, objective_ns);
    }

    /// Whether nothing is left to find: the bound meets the incumbent, or the gap asked for.
    pub fn is_done(&self) -> bool {
        self.is_proved() || self.gap() <= self.control.gap
    }

    /// Whether nothing is left to do: [done](Self::is_done), or proved [infeasible](Self::is_infeasible).
    pub fn is_over(&self) -> bool {
        self.is_done() || self.is_infeasible()
    }

    /// Whether it is proved that there is no plan.
    pub fn is_infeasible(&self) -> bool {
        self.incumbent.is_none() && self.lower_ns == u64::MAX
    }

    /// Whether the incumbent is proved best.
    pub fn is_proved(&self) -> bool {
        self.incumbent.is_some() && is_proved(self.upper_ns, self.lower_ns)
    }

    fn gap(&self) -> f64 {
        match (self.incumbent.is_some(), self.upper_ns) {
            (false, _) => f64::INFINITY,
            (true, 0) => 0.0,
            (true, upper) => upper.saturating_sub(self.lower_ns) as f64 / upper as f64,
        }
    }

    /// The largest objective that is still of interest: one grain below the incumbent, or more where a gap is allowed.
    pub fn target_ns(&self) -> u64 {
        match self.incumbent {
            Some(_) => self.upper_ns.saturating_sub(self.grain_ns.max(self.allowed_ns())),
            None => u64::MAX,
        }
    }

    /// What the gap that is asked for leaves open below the incumbent.
    fn allowed_ns(&self) -> u64 {
        (self.upper_ns as f64 * self.control.gap) as u64
    }

    /// The largest bottleneck of a plan of interest; `None` if there can be no such plan.
    pub fn target_bottleneck_ns(&self) -> Option<u64> {
        let everything = bounds::all_in_one_ns(self.problem);
        match self.target_ns() {
            u64::MAX => Some(everything),
            target => {
                bounds::bottleneck_from_objective(self.problem, target).map(|limit| limit.min(everything))
            }
        }
    }

    /// Records that no plan costs at most [`Search::target_ns`].
    pub fn exhausted(&mut self, source: &'static str) {
        match self.target_ns() {
            u64::MAX => self.raise(source, u64::MAX),
            target if self.allowed_ns() > self.grain_ns => self.raise(source, target + 1),
            _ => self.raise(source, self.upper_ns),
        }
    }

    /// The largest bound that leaves the incumbent unproved: what a source may claim that is not trusted with a proof.
    pub fn unproved_ns(&self) -> u64 {
        self.target_ns().min(u64::MAX - self.grain_ns)
    }

    /// Ends the search.
    pub fn finish(mut self, stopped_by: StoppedBy) -> Outcome {
        self.statistics.seconds = self.control.seconds();
        let stopped_by = match stopped_by {
            StoppedBy::Completed if self.incumbent.is_some() && !self.is_proved() && self.is_done() => {
                StoppedBy::Gap
            }
            other => other,
        };
        Outcome {
            allocation: self.incumbent.map(Allocation::from),
            bound_ns: self.lower_ns,
            bound_source: self.bound_source,
            stopped_by,
            statistics: self.statistics,
        }
    }
}
