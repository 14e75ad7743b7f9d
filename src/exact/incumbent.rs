//! What every exact search knows of its problem: the best plan, the best bound, and what is of interest between the two.

use crate::exact::bounds;
use crate::model::units::{LARGEST_EXACT, LARGEST_SUM};
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::{Outcome, Statistics, StoppedBy, is_proved};
use crate::search::limits::{Known, Open};

/// The best plan and the best bound of a search, for workers of all kinds.
///
/// It alone decides what is proved: plans are costed here, whatever their finder says, and all searches take from here what they
/// look for (`Incumbent::target_ns`) and record here what they have ruled out (`Incumbent::rule_out`).
#[derive(Clone)]
pub struct Incumbent<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Limits and wishes.
    pub control: &'a Control<'a>,
    /// The best plan.
    pub plan: Option<Allocation>,
    /// Its objective in ns; `u64::MAX` without a plan.
    pub upper_ns: u64,
    /// No plan is better than this, in ns; `u64::MAX` where there is none.
    pub lower_ns: u64,
    /// What every objective is a multiple of, in ns.
    pub quantum_ns: u64,
    /// What proved `lower_ns`.
    pub source: BoundSource,
    /// How it goes.
    pub statistics: Statistics,
}

impl<'a> Incumbent<'a> {
    /// Nothing known.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>) -> Self {
        Self {
            problem,
            control,
            plan: None,
            upper_ns: u64::MAX,
            lower_ns: 0,
            quantum_ns: bounds::objective_quantum_ns(problem),
            source: BoundSource::None,
            statistics: Statistics {
                items: problem.items.len(),
                items_after_presolve: problem.items.len(),
                ..Statistics::default()
            },
        }
    }

    /// The objective of a plan to beat, which is not at hand, and a bound that is known.
    pub(crate) fn beating(mut self, upper_ns: u64, lower_ns: u64) -> Self {
        self.upper_ns = upper_ns;
        self.lower_ns = lower_ns;
        self
    }

    /// A copy that obeys another control.
    pub(crate) fn under<'b>(&self, control: &'b Control<'b>) -> Incumbent<'b>
    where
        'a: 'b,
    {
        Incumbent {
            control,
            ..self.clone()
        }
    }

    /// Takes what a copy has found beside this search.
    pub(crate) fn join(&mut self, copy: Incumbent) {
        if let Some(plan) = copy.plan {
            self.offer(plan);
        }
        self.raise(copy.source, copy.lower_ns);
        let own = &mut self.statistics;
        own.nodes = own.nodes.max(copy.statistics.nodes);
        own.binaries = own.binaries.max(copy.statistics.binaries);
        own.ideals = own.ideals.max(copy.statistics.ideals);
        for (source, ms) in copy.statistics.bounds_ms {
            let best_ms = own.bounds_ms.entry(source).or_default();
            *best_ms = best_ms.max(ms);
        }
    }

    /// Whether there is a plan, at hand or to beat.
    pub(crate) fn has_plan(&self) -> bool {
        self.upper_ns < u64::MAX
    }

    /// What a plan costs, in ns; `None` where it is not feasible.
    pub(crate) fn measure(&self, plan: &Allocation) -> Option<u64> {
        feasible_ns(self.problem, plan)
    }

    /// Takes a plan if it is feasible and better; whether it was.
    pub(crate) fn offer(&mut self, plan: Allocation) -> bool {
        let Some(objective_ns) = feasible_ns(self.problem, &plan).filter(|&ns| ns < self.upper_ns) else {
            return false;
        };
        self.upper_ns = objective_ns;
        self.control.show_plan(&plan, objective_ns);
        self.plan = Some(plan);
        self.report();
        true
    }

    /// The same of a plan that there may be.
    pub(crate) fn offer_some(&mut self, plan: Option<Allocation>) -> bool {
        plan.is_some_and(|plan| self.offer(plan))
    }

    /// Takes a plan instead of the best one if it is feasible and as good.
    pub(crate) fn replace(&mut self, plan: Allocation) {
        if feasible_ns(self.problem, &plan).is_some_and(|ns| ns <= self.upper_ns) {
            self.plan = Some(plan);
        }
    }

    /// Tells whoever listens how far the search has come.
    pub(crate) fn report(&self) {
        self.control
            .report(self.has_plan().then_some(self.upper_ns), self.lower_ns);
    }

    /// Takes a bound on the objective: no plan costs anything between it and the next multiple of the quantum.
    pub(crate) fn raise(&mut self, source: BoundSource, objective_ns: u64) {
        let objective_ns = objective_ns
            .checked_next_multiple_of(self.quantum_ns)
            .unwrap_or(u64::MAX);
        if objective_ns < u64::MAX {
            let best_ms = self.statistics.bounds_ms.entry(source).or_default();
            *best_ms = best_ms.max(self.problem.settings.ms(objective_ns));
        }
        if objective_ns > self.lower_ns {
            self.lower_ns = objective_ns;
            self.source = source;
            self.control.show_bound(source, objective_ns);
        }
    }

    /// Records that no plan costs at most `limit_ns`; a limit that no objective exceeds means that there is none at all.
    pub(crate) fn rule_out(&mut self, source: BoundSource, limit_ns: u64) {
        // Searches for workers that differ, whose times are doubles, look no further.
        let most_ns = match self.problem.workers {
            Some(_) => LARGEST_EXACT,
            None => LARGEST_SUM,
        };
        let is_everything = !self.has_plan() && limit_ns >= most_ns;
        self.raise(source, if is_everything { u64::MAX } else { limit_ns + 1 });
    }

    /// Records that no plan is of interest: none costs at most [`Incumbent::target_ns`].
    pub(crate) fn exhausted(&mut self, source: BoundSource) {
        self.rule_out(source, self.target_ns());
    }

    /// The largest objective that is still of interest: a quantum below the best plan, or more where a gap is allowed;
    /// `u64::MAX` without a plan.
    pub(crate) fn target_ns(&self) -> u64 {
        match self.has_plan() {
            true => self
                .upper_ns
                .saturating_sub(self.quantum_ns.max(self.allowed_ns())),
            false => u64::MAX,
        }
    }

    /// What the gap that is asked for leaves open below the best plan.
    fn allowed_ns(&self) -> u64 {
        (self.upper_ns as f64 * self.control.gap) as u64
    }

    /// The largest bound that leaves the best plan unproved: what a source may claim that is not trusted with a proof.
    pub(crate) fn unproved_ns(&self) -> u64 {
        self.target_ns().min(LARGEST_EXACT)
    }

    /// Whether nothing is left to find: the bound meets the plan, or the gap asked for.
    pub(crate) fn is_done(&self) -> bool {
        self.is_proved() || self.gap() <= self.control.gap
    }

    /// Whether nothing is left to do: [done](Self::is_done), or proved [infeasible](Self::is_infeasible).
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() || self.is_infeasible()
    }

    /// Whether it is proved that there is no plan.
    pub(crate) fn is_infeasible(&self) -> bool {
        !self.has_plan() && self.lower_ns == u64::MAX
    }

    /// Whether the plan is proved best.
    pub(crate) fn is_proved(&self) -> bool {
        self.has_plan() && is_proved(self.upper_ns, self.lower_ns)
    }

    fn gap(&self) -> f64 {
        match (self.has_plan(), self.upper_ns) {
            (false, _) => f64::INFINITY,
            (true, 0) => 0.0,
            (true, upper) => upper.saturating_sub(self.lower_ns) as f64 / upper as f64,
        }
    }

    /// No plan costs more, or none that can be compared, in ns.
    fn most_ns(&self) -> u64 {
        match (&self.problem.modes, &self.problem.virtual_stages) {
            (Some(modes), _) => modes.longest(),
            (None, Some(_)) => bounds::all_in_one_ns(self.problem),
            (None, None) => LARGEST_EXACT,
        }
    }

    /// Counts ideals that one more pass has met.
    pub(crate) fn count_ideals(&mut self, more: usize) {
        *self.statistics.ideals.get_or_insert(0) += more;
    }

    /// Ends the search.
    pub(crate) fn finish(mut self, stopped_by: StoppedBy) -> Outcome {
        self.statistics.seconds = self.control.seconds();
        let stopped_by = match stopped_by {
            _ if self.is_proved() || self.is_infeasible() => StoppedBy::Completed,
            _ if self.is_done() => StoppedBy::Gap,
            other => other,
        };
        Outcome {
            allocation: self.plan,
            bound_ns: self.lower_ns,
            bound_source: self.source,
            stopped_by,
            statistics: self.statistics,
        }
    }
}

impl Known for Incumbent<'_> {
    type Plan = Allocation;

    fn open(&mut self) -> Option<Open> {
        self.report();
        (!self.is_over()).then(|| Open {
            lower: self.lower_ns,
            // A bound between two multiples of the quantum leaves itself open, where the best plan is none of one.
            upper: self.target_ns().min(self.most_ns()).max(self.lower_ns),
            has_plan: self.has_plan(),
        })
    }

    fn take(&mut self, plan: Allocation) -> bool {
        self.offer(plan)
    }

    fn exclude(&mut self, source: BoundSource, limit_ns: u64) {
        let target_ns = self.target_ns();
        let is_all = limit_ns >= target_ns.min(self.most_ns());
        self.rule_out(source, if is_all { limit_ns.max(target_ns) } else { limit_ns });
    }
}

/// The objective of a plan in ns; `None` where it is not feasible.
pub(crate) fn feasible_ns(problem: &Problem, plan: &Allocation) -> Option<u64> {
    if let Some(modes) = &problem.modes {
        return cost::modal_ns(problem, modes, plan);
    }
    match &problem.workers {
        None => cost::is_feasible(problem, &plan.assignment)
            .then(|| cost::assignment_ns(problem, &plan.assignment)),
        Some(workers) => workers
            .is_feasible(problem, plan)
            .then(|| workers.objective_ns(problem, plan)),
    }
}
