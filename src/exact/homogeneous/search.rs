//! What a search for workers that are all alike knows beside its incumbent.

use crate::exact::bounds::{self, Bound, dual_feasible};
use crate::exact::homogeneous::resumed::Resumed;
use crate::exact::incumbent::Incumbent;
use crate::exact::presolve::{self, Reduced};
use crate::heuristics::local_moves;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost;
use crate::problem::{Assignment, Problem};
use crate::search::limits::{Known, Open};

/// The state of a search.
#[derive(Clone)]
pub(crate) struct HomogeneousSearch<'a> {
    /// The best plan and bound.
    pub incumbent: Incumbent<'a>,
    /// The problem as the current reductions leave it.
    pub reduced: Reduced,
    /// Every feasible plan that was offered: their stages are known.
    pub plans: Vec<Assignment>,
    /// No plan's busiest stage is below this, in ns.
    pub lower_bottleneck_ns: u64,
    /// No plan's busiest stage is below this without its transfers, in ns.
    pub work_alone_ns: u64,
    /// How far the search over stages of a diagram has come.
    pub diagram: Resumed,
    /// What is known of a problem that asks for less, and that all searches over ideals apply to.
    pub looser: Looser,
}

/// What is known of a problem that asks for less.
#[derive(Clone, Default)]
pub(crate) struct Looser {
    /// No plan of it has a shorter period, in ns.
    pub lower_ns: u64,
    /// Its best plan, which may be none of the problem itself.
    pub plan: Option<Assignment>,
    /// Whether its least period is known.
    pub is_solved: bool,
}

impl<'a> HomogeneousSearch<'a> {
    /// A search that knows nothing.
    pub(crate) fn new(problem: &'a Problem, control: &'a Control<'a>) -> Self {
        Self {
            incumbent: Incumbent::new(problem, control),
            reduced: Reduced::identity(problem),
            plans: Vec::new(),
            lower_bottleneck_ns: 0,
            work_alone_ns: 0,
            diagram: Resumed::default(),
            looser: Looser::default(),
        }
    }

    /// A copy of this search that obeys another control.
    pub(crate) fn under<'b>(&self, control: &'b Control<'b>) -> HomogeneousSearch<'b>
    where
        'a: 'b,
    {
        HomogeneousSearch {
            incumbent: self.incumbent.under(control),
            ..self.clone()
        }
    }

    /// Takes what a copy has found beside this search, from the time on when both had so many plans.
    pub(crate) fn join(&mut self, copy: HomogeneousSearch, known: usize) {
        for plan in copy.plans.into_iter().skip(known) {
            self.offer(plan);
        }
        self.lower_bottleneck_ns = self.lower_bottleneck_ns.max(copy.lower_bottleneck_ns);
        self.diagram.join(copy.diagram);
        if copy.looser.is_solved || copy.looser.lower_ns > self.looser.lower_ns {
            self.looser = copy.looser;
        }
        self.incumbent.join(copy.incumbent);
    }

    /// The problem.
    pub(crate) fn problem(&self) -> &'a Problem {
        self.incumbent.problem
    }

    /// Limits and wishes.
    pub(crate) fn control(&self) -> &'a Control<'a> {
        self.incumbent.control
    }

    /// The best plan's stages.
    pub(crate) fn best(&self) -> Option<&Assignment> {
        self.incumbent.plan.as_ref().map(|plan| &plan.assignment)
    }

    /// Takes a plan if it is feasible; whether it is better than all before.
    pub(crate) fn offer(&mut self, plan: Assignment) -> bool {
        if !cost::is_feasible(self.problem(), &plan) {
            return false;
        }
        self.plans.push(plan.clone());
        self.incumbent.offer(plan.into())
    }

    /// Takes a plan of the reduced problem; whether it is better than all before.
    pub(crate) fn offer_reduced(&mut self, plan: &Assignment) -> bool {
        self.offer(self.reduced.lift(plan))
    }

    /// A plan after [local moves](local_moves), as far as there is time.
    pub(crate) fn improved(&self, plan: Assignment) -> Assignment {
        let control = self.control();
        local_moves::improve(self.problem(), plan, &|| control.must_stop().is_some())
    }

    /// Reduces the problem for plans whose busiest stage is at most `limit_ns`.
    pub(crate) fn presolve(&mut self, limit_ns: u64) {
        self.reduced = presolve::reduce(self.problem(), limit_ns, &self.control().switches);
        self.incumbent.statistics.items_after_presolve = self.reduced.problem.items.len();
    }

    /// Takes a bound on the busiest stage.
    pub(crate) fn raise_bottleneck(&mut self, bound: Bound) {
        self.lower_bottleneck_ns = self.lower_bottleneck_ns.max(bound.bottleneck_ns);
        let objective_ns = bounds::objective_from_bottleneck(self.problem(), bound.bottleneck_ns);
        self.incumbent.raise(bound.source, objective_ns);
    }

    /// Takes the bounds that need no search.
    pub(crate) fn raise_simple_bounds(&mut self) {
        for bound in bounds::simple(self.problem()) {
            self.raise_bottleneck(bound);
        }
        if self.control().switches.dual_feasible {
            let bound = dual_feasible::bound(self.problem());
            // Mostly it is that of work per stage.
            if bound.bottleneck_ns > self.lower_bottleneck_ns {
                self.raise_bottleneck(bound);
            }
        }
    }

    /// The largest bottleneck of a plan of interest; `None` if there can be no such plan.
    pub(crate) fn target_bottleneck_ns(&self) -> Option<u64> {
        let everything = bounds::all_in_one_ns(self.problem());
        match self.incumbent.plan {
            None => Some(everything),
            Some(_) => bounds::bottleneck_from_objective(self.problem(), self.incumbent.target_ns())
                .map(|limit| limit.min(everything)),
        }
    }
}

/// Limits are of the busiest stage.
impl Known for HomogeneousSearch<'_> {
    type Plan = Assignment;

    fn open(&mut self) -> Option<Open> {
        self.incumbent.report();
        let upper = self.target_bottleneck_ns();
        if upper.is_none() {
            self.incumbent.exhausted(BoundSource::WorkPerStage);
        }
        upper.filter(|_| !self.incumbent.is_over()).map(|upper| Open {
            lower: self.lower_bottleneck_ns,
            upper,
            has_plan: self.incumbent.has_plan(),
        })
    }

    fn take(&mut self, plan: Assignment) -> bool {
        self.offer(plan)
    }

    fn exclude(&mut self, source: BoundSource, limit_ns: u64) {
        let is_open = |target_ns| limit_ns < target_ns;
        match self.target_bottleneck_ns().is_some_and(is_open) {
            true => self.raise_bottleneck(Bound {
                source,
                bottleneck_ns: limit_ns + 1,
            }),
            false => self.incumbent.exhausted(source),
        }
    }
}
