//! The steps of a search for heterogeneous workers that use one part of the engine each.

use crate::exact::bounds::capacity::Capacity;
use crate::exact::heterogeneous::choices::Choices;
use crate::exact::heterogeneous::coarse::{AllIdeals, CoarseSearch};
use crate::exact::heterogeneous::ideals::AllocationSearch;
use crate::exact::heterogeneous::program::{self, Form};
use crate::exact::heterogeneous::tree;
use crate::exact::incumbent::Incumbent;
use crate::exact::presolve::{self, Reduced};
use crate::exact::tuning::TUNING;
use crate::exact::unordered_items::UnorderedSearch;
use crate::formulations::solver::SolverError;
use crate::formulations::staging::Windows;
use crate::heuristics::{self, Effort};
use crate::model::units::LARGEST_EXACT;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::Workers;
use crate::search::limits::{self, Answer, Asked, Halving};

/// The state of a search.
pub(crate) struct HeterogeneousSearch<'a> {
    /// The best plan and bound.
    pub incumbent: Incumbent<'a>,
    /// The workers of its problem.
    pub workers: &'a Workers,
    /// A name for each item.
    pub labels: &'a [String],
}

impl<'a> HeterogeneousSearch<'a> {
    /// A search that knows nothing.
    pub(super) fn new(
        problem: &'a Problem,
        workers: &'a Workers,
        labels: &'a [String],
        control: &'a Control<'a>,
    ) -> Self {
        Self {
            incumbent: Incumbent::new(problem, control),
            workers,
            labels,
        }
    }

    /// A copy of this search that obeys another control.
    pub(super) fn under<'b>(&self, control: &'b Control<'b>) -> HeterogeneousSearch<'b>
    where
        'a: 'b,
    {
        HeterogeneousSearch {
            incumbent: self.incumbent.under(control),
            workers: self.workers,
            labels: self.labels,
        }
    }

    /// The largest objective of interest that all totals can be compared with.
    pub(super) fn target_ns(&self) -> u64 {
        self.incumbent.target_ns().min(LARGEST_EXACT)
    }

    /// The problem, as plans of at most so many ns leave it.
    pub(super) fn reduced(&self, limit_ns: u64) -> Reduced {
        presolve::reduce(self.incumbent.problem, limit_ns, &self.incumbent.control.switches)
    }

    /// Takes a plan of a reduced problem; whether it is better than all before.
    fn offer_reduced(&mut self, reduced: &Reduced, plan: Allocation) -> bool {
        self.incumbent.offer(Allocation {
            assignment: reduced.lift(&plan.assignment),
            ..plan
        })
    }

    /// Takes the bounds that need no search.
    pub(super) fn raise_simple_bounds(&mut self) {
        let problem = self.incumbent.problem;
        let capacity = Capacity::new(problem, self.workers);
        for bound in capacity.bounds(problem, self.workers) {
            let objective_ns = capacity.objective_from_bottleneck(problem, bound.bottleneck_ns);
            self.incumbent.raise(bound.source, objective_ns);
        }
    }

    /// Runs every heuristic of one kind.
    pub(super) fn find_incumbents(&mut self, effort: Effort) {
        let control = self.incumbent.control;
        let must_stop = || control.must_stop().is_some();
        let of_effort = heuristics::METHODS
            .iter()
            .filter(|heuristic| heuristic.effort == effort);
        for heuristic in of_effort {
            if self.incumbent.is_done() || must_stop() {
                return;
            }
            if let Some(plan) = heuristic.plan(self.incumbent.problem, control.seed, &must_stop) {
                self.incumbent.offer(plan);
            }
        }
    }

    /// Passes over ideals and devices, with so many steps at most.
    pub(super) fn use_ideals(&mut self, most_steps: u64) -> StoppedBy {
        let control = self.incumbent.control;
        let mut left = most_steps;
        self.pass_by_pass(TUNING.asked_at_once, |known, reduced, workers, limit_ns| {
            let capacity = Capacity::new(&reduced.problem, workers);
            let mut ideals = AllocationSearch::new(&reduced.problem, workers, &capacity, control, left);
            let answer = ideals.pass(limit_ns);
            left = left.saturating_sub(ideals.steps);
            known.count_ideals(ideals.ideals);
            answer
        })
    }

    /// Passes over ideals of the ordered items, sets of the unordered ones, and devices, with so many steps at most.
    pub(super) fn use_unordered_items(&mut self, most_steps: u64) -> StoppedBy {
        let control = self.incumbent.control;
        let mut left = most_steps;
        self.pass_by_pass(TUNING.asked_at_once, |known, reduced, _, limit_ns| {
            let Some(mut states) = UnorderedSearch::new(&reduced.problem, control, left) else {
                return Answer::Stopped(StoppedBy::SizeLimit);
            };
            let answer = states.pass(limit_ns);
            left = left.saturating_sub(states.steps);
            known.count_ideals(states.reached);
            answer
        })
    }

    /// Passes over ideals and devices from coarse to fine.
    pub(super) fn use_cells(&mut self) -> StoppedBy {
        let control = self.incumbent.control;
        // All ideals of the last problem.
        let mut last: Option<(Reduced, AllIdeals)> = None;
        self.pass_by_pass(
            TUNING.asked_at_once_over_cells,
            |known, reduced, workers, limit_ns| {
                let problem = &reduced.problem;
                let (_, all) = match last.take().filter(|(last, _)| last.is_alike(reduced)) {
                    Some(known_still) => last.insert(known_still),
                    None => match AllIdeals::new(problem, workers, control) {
                        Ok(all) => last.insert((reduced.clone(), all)),
                        Err(stopped_by) => return Answer::Stopped(stopped_by),
                    },
                };
                let capacity = Capacity::new(problem, workers);
                let choices = Choices::new(problem, workers, &capacity);
                let Some(mut cells) = CoarseSearch::new(problem, choices, all, control, limit_ns) else {
                    return Answer::Stopped(StoppedBy::SizeLimit);
                };
                let answer = cells.pass();
                known.count_ideals(cells.cells);
                answer
            },
        )
    }

    /// Passes over what presolve leaves for each limit, half-way between bound and plan.
    fn pass_by_pass<F>(&mut self, at_once: u64, mut pass: F) -> StoppedBy
    where
        F: FnMut(&mut Incumbent, &Reduced, &Workers, u64) -> Answer<Allocation>,
    {
        let workers = self.workers;
        let mut passes = Asked {
            source: Some(BoundSource::IdealsAndDevices),
            halving: Some(Halving::down_to(at_once)),
            decide: |known: &mut Incumbent, limit_ns: u64| {
                // A bound may lie beyond what doubles tell apart: all plans there are keep this.
                let limit_ns = limit_ns.min(LARGEST_EXACT);
                let reduced = presolve::reduce(known.problem, limit_ns, &known.control.switches);
                known.statistics.items_after_presolve = reduced.problem.items.len();
                pass(known, &reduced, workers, limit_ns).map(|plan| Allocation {
                    assignment: reduced.lift(&plan.assignment),
                    ..plan
                })
            },
        };
        let stopped_by = limits::search(&mut self.incumbent, &mut passes);
        match stopped_by {
            StoppedBy::Completed => stopped_by,
            _ => self.incumbent.control.must_stop().unwrap_or(stopped_by),
        }
    }

    /// Looks for the best iteration by a pass over ideals and devices.
    pub(super) fn use_labels(&mut self) -> StoppedBy {
        let (problem, control) = (self.incumbent.problem, self.incumbent.control);
        let capacity = Capacity::new(problem, self.workers);
        let mut ideals = AllocationSearch::new(problem, self.workers, &capacity, control, u64::MAX);
        let pass = ideals.pass(self.below_ns());
        self.incumbent.statistics.ideals = Some(ideals.ideals);
        match pass {
            Answer::Plan(found) => {
                self.incumbent.offer(found);
            }
            Answer::NoPlan { .. } => {}
            Answer::Undecided => return StoppedBy::SizeLimit,
            Answer::Stopped(stopped_by) => {
                if let Some(plan) = ideals.unfinished.take() {
                    self.incumbent.offer(plan);
                }
                return control.must_stop().unwrap_or(stopped_by);
            }
        }
        self.incumbent
            .rule_out(BoundSource::IdealsAndDevices, self.below_ns());
        StoppedBy::Completed
    }

    /// Just below the best plan.
    fn below_ns(&self) -> u64 {
        self.incumbent.upper_ns.saturating_sub(1).min(LARGEST_EXACT)
    }

    /// Searches exhaustively for better plans.
    pub(super) fn use_tree(&mut self, most_steps: u64) -> StoppedBy {
        let Incumbent {
            problem,
            control,
            upper_ns,
            ..
        } = self.incumbent;
        let searched = tree::search(problem, self.workers, control, upper_ns, most_steps);
        if let Some(plan) = searched.found {
            self.incumbent.offer(plan);
        }
        if searched.stopped_by == StoppedBy::Completed {
            let open_ns = searched.open_ns.saturating_sub(1);
            let limit_ns = self.below_ns().min(open_ns);
            self.incumbent.rule_out(BoundSource::ExhaustiveSearch, limit_ns);
        }
        searched.stopped_by
    }

    /// Solves the program of what presolve leaves for better plans.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn use_program(&mut self, presolve: bool) -> Result<StoppedBy, SolverError> {
        let reduced = match presolve {
            true => self.reduced(self.target_ns()),
            false => Reduced::identity(self.incumbent.problem),
        };
        self.incumbent.statistics.items_after_presolve = reduced.problem.items.len();
        let form = Form::new(&reduced.problem, self.workers).map_err(|reason| SolverError {
            doing: "building the program",
            what: reason.into(),
        })?;
        let windows = Windows::all(&reduced.problem);
        // Plans of the reduced problem are no plans of this one.
        let control = Control {
            known: None,
            ..self.incumbent.control.clone()
        };
        let Incumbent {
            upper_ns, lower_ns, ..
        } = self.incumbent;
        let known = Incumbent::new(&reduced.problem, &control).beating(upper_ns, lower_ns);
        let labels = reduced.labels(self.labels);
        let solved = program::solve(&form, &windows, presolve, known, &labels)?;
        self.incumbent.statistics.nodes += solved.statistics.nodes;
        self.incumbent.statistics.binaries = solved.statistics.binaries;
        if let Some(found) = solved.allocation {
            self.offer_reduced(&reduced, found);
        }
        self.incumbent.raise(BoundSource::Program, solved.bound_ns);
        Ok(solved.stopped_by)
    }
}
