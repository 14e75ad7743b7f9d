//! Destructive lower bounds by the search over pairs of ideals: limits that no plan keeps, from below, until one is kept.

use crate::exact::bounds;
use crate::exact::closure::Closure;
use crate::exact::homogeneous::limits::Limits;
use crate::exact::homogeneous::search::HomogeneousSearch;
use crate::exact::ideal_pairs::PairSearch;
use crate::exact::tuning::TUNING;
use crate::model::options::Communication;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;
use crate::search::limits::{self, Answer, Decider, Open};

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
    let lower_ns = search.lower_bottleneck_ns;
    let communication = search.problem().settings.communication;
    let quantum_ns = bounds::quantum_ns(search.problem());
    let limits = Limits::new(lower_ns, most_ns, quantum_ns, communication);
    let mut passes = Passes {
        pairs,
        limits,
        most_steps,
        allowed: 0,
        lower_ns,
        quanta_ns: match communication {
            Communication::Ignored => [quantum_ns, 1],
            Communication::Overlapped => [1, quantum_ns],
            Communication::Blocking => [1, 1],
        },
    };
    if passes.pairs.is_large() {
        // A plan that is best far around itself is mostly nearly best.
        passes.limits.asks_for_better = passes.improve_nearby(search);
    }
    Some(match limits::search(search, &mut passes) {
        StoppedBy::Completed if !search.incumbent.is_over() => StoppedBy::SizeLimit,
        stopped_by => stopped_by,
    })
}

/// Passes over pairs of ideals of the reduced problem, with limits from below. A pass that takes much longer than those before is given up: its
/// limit was too loose, and lower ones tell more.
struct Passes<'p> {
    pairs: PairSearch<'p>,
    limits: Limits,
    /// Steps of all passes, at most.
    most_steps: u64,
    /// Steps of the next pass.
    allowed: u64,
    /// No plan is below.
    lower_ns: u64,
    /// What bottlenecks are multiples of, and what work alone is one of.
    quanta_ns: [u64; 2],
}

impl Decider<HomogeneousSearch<'_>> for Passes<'_> {
    fn source(&self) -> Option<BoundSource> {
        Some(BoundSource::IdealPairs)
    }

    fn next(&mut self, open: Open) -> Option<u64> {
        self.lower_ns = open.lower;
        let most_ns = open.upper.min(self.pairs.most_ns());
        if open.lower > most_ns {
            return None;
        }
        let (limit_ns, steps) = self.limits.next(open.lower, most_ns);
        self.allowed = steps;
        // No more work fits a limit before the next quantum.
        Some(limit_ns.next_multiple_of(self.quanta_ns[1]).min(most_ns))
    }

    fn decide(&mut self, search: &mut HomogeneousSearch, limit_ns: u64) -> Answer {
        // Every pass takes of the steps that are left.
        let left = self.most_steps.saturating_sub(self.pairs.steps());
        let answer = self.pairs.pass(limit_ns, self.allowed.min(left));
        search.incumbent.statistics.ideals = Some(self.pairs.ideals);
        match answer {
            Answer::NoPlan { next_limit } => {
                self.limits.ruled_out();
                let next_limit = next_limit.next_multiple_of(self.quanta_ns[0]);
                Answer::NoPlan { next_limit }
            }
            Answer::Stopped(StoppedBy::SizeLimit) if self.allowed < left => {
                self.limits.gave_up(self.lower_ns, limit_ns);
                Answer::Undecided
            }
            Answer::Plan(plan) => {
                if !search.offer(search.improved(search.reduced.lift(&plan))) {
                    // The plan is not what the pass took it for: others must tell.
                    return Answer::Stopped(StoppedBy::SizeLimit);
                }
                if self.pairs.is_large() && !self.limits.asks_for_better {
                    self.improve_nearby(search);
                }
                self.limits.found();
                Answer::Undecided
            }
            answer => answer,
        }
    }
}

impl Passes<'_> {
    /// Looks for better plans near the incumbent, in corridors that widen where there are none. Whether there is none in the widest
    /// one: then the incumbent is mostly nearly best.
    fn improve_nearby(&mut self, search: &mut HomogeneousSearch) -> bool {
        let mut is_best = false;
        for (at, &(width, most_halvings)) in TUNING.corridors.iter().enumerate() {
            // Where there was nothing better in a narrower one, there seldom is.
            let halvings = if at == 0 { 0 } else { most_halvings };
            match self.improve_within(search, width, [halvings, most_halvings]) {
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
        search: &mut HomogeneousSearch,
        width: usize,
        [mut halvings, most_halvings]: [usize; 2],
    ) -> Option<bool> {
        let mut low_ns = self.lower_ns;
        let mut too_loose_ns = u64::MAX;
        let mut stops = 0;
        // A better plan comes, what is open is halved so many times at most, or one of few stops is counted.
        while let (Some(target_ns), Some(best)) = (search.target_bottleneck_ns(), search.best()) {
            let most_ns = target_ns.min(too_loose_ns.saturating_sub(1));
            let open_ns = most_ns.saturating_sub(low_ns);
            let asks_for_better = open_ns < target_ns / TUNING.not_halved_nearby || halvings == most_halvings;
            let limit_ns = match asks_for_better {
                true => most_ns,
                false => low_ns + open_ns / 2,
            };
            let near = search.reduced.lower(best);
            match self.pairs.near(&near, width, limit_ns, TUNING.steps_nearby) {
                Answer::Plan(plan) if search.offer(search.improved(search.reduced.lift(&plan))) => {
                    halvings = 0
                }
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
