//! Destructive lower bounds by the search over pairs of ideals: limits that no plan keeps, from below, until one is kept.

use std::ops::ControlFlow;

use crate::exact::bounds::{self, Bound};
use crate::exact::closure::Closure;
use crate::exact::homogeneous::limits::Limits;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::ideal_pairs::PairSearch;
use crate::exact::tuning::TUNING;
use crate::model::options::Communication;
use crate::problem::Assignment;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::Answer;

/// Passes over pairs of ideals, with so many steps at most; `None` if these are too many.
pub(crate) fn over_ideal_pairs(search: &mut HomogeneousSearch, most_steps: u64) -> Option<StoppedBy> {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.incumbent.exhausted(BoundSource::WorkPerStage);
        return Some(StoppedBy::Completed);
    };
    let reduced = search.reduced.clone();
    if !Closure::has_room(&reduced.problem, search.control()) {
        return None;
    }
    let pairs = PairSearch::new(&reduced.problem, search.control(), most_ns)?;
    Some(Passes { search, pairs }.run(most_steps))
}

/// Passes over pairs of ideals of the reduced problem.
struct Passes<'s, 'a, 'p> {
    search: &'s mut HomogeneousSearch<'a>,
    pairs: PairSearch<'p>,
}

impl Passes<'_, '_, '_> {
    /// Passes with limits from below. A pass that takes much longer than those before is given up: its limit was too loose, and
    /// lower ones tell more.
    fn run(mut self, most_steps: u64) -> StoppedBy {
        let communication = self.search.problem().settings.communication;
        let Some(most_ns) = self.search.target_bottleneck_ns() else {
            return StoppedBy::Completed;
        };
        let mut lower_ns = self.search.lower_bottleneck_ns;
        let quantum_ns = bounds::quantum_ns(self.search.problem());
        let mut limits = Limits::new(lower_ns, most_ns, quantum_ns, communication);
        // What bottlenecks are multiples of, and what work alone is one of.
        let [bound_quantum_ns, limit_quantum_ns] = match communication {
            Communication::Ignored => [quantum_ns, 1],
            Communication::Overlapped => [1, quantum_ns],
            Communication::Blocking => [1, 1],
        };
        if self.pairs.is_large() {
            // A plan that is best far around itself is mostly nearly best.
            limits.asks_for_better = self.improve_nearby(lower_ns);
        }
        // Every pass takes of the steps that are left.
        while !self.search.incumbent.is_over() {
            lower_ns = lower_ns.max(self.search.lower_bottleneck_ns);
            let Some(target_ns) = self.search.target_bottleneck_ns() else {
                self.search.incumbent.exhausted(BoundSource::WorkPerStage);
                return StoppedBy::Completed;
            };
            let most_ns = target_ns.min(self.pairs.most_ns());
            if lower_ns > most_ns {
                return StoppedBy::SizeLimit;
            }
            let (limit_ns, steps) = limits.next(lower_ns, most_ns);
            // No more work fits a limit before the next quantum.
            let limit_ns = limit_ns.next_multiple_of(limit_quantum_ns).min(most_ns);
            let left = most_steps.saturating_sub(self.pairs.steps());
            let pass = self.pairs.pass(limit_ns, steps.min(left));
            self.search.incumbent.statistics.ideals = Some(self.pairs.ideals);
            let after = match pass {
                Answer::Plan(plan) => self.found(&plan, &mut limits, lower_ns),
                Answer::NoPlan { .. } if limit_ns >= target_ns => self.nothing_better(),
                Answer::NoPlan { .. } => {
                    lower_ns = (limit_ns + 1).next_multiple_of(bound_quantum_ns);
                    self.raise(lower_ns);
                    limits.ruled_out();
                    ControlFlow::Continue(())
                }
                Answer::Stopped(StoppedBy::SizeLimit) if steps < left => {
                    limits.gave_up(lower_ns, limit_ns);
                    ControlFlow::Continue(())
                }
                Answer::Stopped(stopped_by) => ControlFlow::Break(stopped_by),
                Answer::Undecided => ControlFlow::Break(StoppedBy::SizeLimit),
            };
            if let ControlFlow::Break(stopped_by) = after {
                return stopped_by;
            }
        }
        StoppedBy::Completed
    }

    fn found(&mut self, plan: &Assignment, limits: &mut Limits, lower_ns: u64) -> ControlFlow<StoppedBy> {
        if !self.offer(plan) {
            // The plan is not what the pass took it for: others must tell.
            return ControlFlow::Break(StoppedBy::SizeLimit);
        }
        if self.pairs.is_large() && !limits.asks_for_better {
            self.improve_nearby(lower_ns);
        }
        limits.found();
        ControlFlow::Continue(())
    }

    fn nothing_better(&mut self) -> ControlFlow<StoppedBy> {
        self.search.incumbent.exhausted(BoundSource::IdealPairs);
        ControlFlow::Break(StoppedBy::Completed)
    }

    fn raise(&mut self, bottleneck_ns: u64) {
        self.search.raise_bottleneck(Bound {
            source: BoundSource::IdealPairs,
            bottleneck_ns,
        });
    }

    /// Offers a plan of the reduced problem; whether it is better than the incumbent.
    fn offer(&mut self, plan: &Assignment) -> bool {
        let plan = self.search.reduced.lift(plan);
        self.search.offer(self.search.improved(plan))
    }

    /// Looks for better plans near the incumbent, in corridors that widen where there are none. Whether there is none in the widest
    /// one: then the incumbent is mostly nearly best.
    fn improve_nearby(&mut self, lower_ns: u64) -> bool {
        let mut is_best = false;
        for (at, &(width, most_halvings)) in TUNING.corridors.iter().enumerate() {
            // Where there was nothing better in a narrower one, there seldom is.
            let halvings = if at == 0 { 0 } else { most_halvings };
            match self.improve_within(width, [halvings, most_halvings], lower_ns) {
                Some(best) => is_best = best,
                None => return false,
            }
        }
        is_best
    }

    /// The same in one corridor, where limits halve what is open so many times until anything better is asked for. Whether there is
    /// nothing better; `None` where a pass has taken a plan for what it is not.
    fn improve_within(
        &mut self,
        width: usize,
        [mut halvings, most_halvings]: [usize; 2],
        mut low_ns: u64,
    ) -> Option<bool> {
        let mut too_loose_ns = u64::MAX;
        let mut stops = 0;
        // A better plan comes, what is open is halved so many times at most, or one of few stops is counted.
        while let (Some(target_ns), Some(best)) = (self.search.target_bottleneck_ns(), self.search.best()) {
            let most_ns = target_ns.min(too_loose_ns.saturating_sub(1));
            let open_ns = most_ns.saturating_sub(low_ns);
            let asks_for_better = open_ns < target_ns / TUNING.not_halved_nearby || halvings == most_halvings;
            let limit_ns = match asks_for_better {
                true => most_ns,
                false => low_ns + open_ns / 2,
            };
            let near = self.search.reduced.lower(best);
            match self.pairs.near(&near, width, limit_ns, TUNING.steps_nearby) {
                Answer::Plan(plan) if self.offer(&plan) => halvings = 0,
                Answer::Plan(_) => return None,
                Answer::NoPlan { .. } if asks_for_better => return Some(most_ns == target_ns),
                Answer::NoPlan { .. } => {
                    low_ns = limit_ns;
                    halvings += 1;
                }
                Answer::Stopped(StoppedBy::SizeLimit) if stops < TUNING.stops_nearby => {
                    stops += 1;
                    too_loose_ns = limit_ns;
                    halvings = 0;
                }
                Answer::Undecided | Answer::Stopped(_) => return Some(false),
            }
        }
        Some(false)
    }
}
