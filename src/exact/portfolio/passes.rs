//! Searches over ideals, by one dynamic program for periods and by another, with labels, for iterations.

use crate::exact::bounds::{self, Bound};
use crate::exact::ideal_pairs::PairSearch;
use crate::exact::ideal_pairs::coarse;
use crate::exact::ideals::{IdealSearch, Pass};
use crate::exact::labelled_ideals;
use crate::exact::presolve::Reduced;
use crate::exact::search::Search;
use crate::options::Communication;
use crate::plan::StoppedBy;
use crate::problem::Assignment;

/// Passes over the ideals, each for a better plan than the last, until there is none.
pub(crate) fn over_ideals(search: &mut Search, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    let mut ideals = IdealSearch::new(&reduced.problem, search.control, most_steps);
    // Every turn but the last finds a better plan.
    loop {
        let Some(limit_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        search.control.report(
            (search.upper_ns < u64::MAX).then_some(search.upper_ns),
            search.lower_ns,
        );
        let pass = ideals.pass(limit_ns);
        search.statistics.ideals = Some(ideals.ideals);
        match pass {
            Pass::Found(assignment) => {
                let before_ns = search.upper_ns;
                search.offer_reduced(&assignment);
                if search.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
            }
            Pass::Exhausted => {
                search.exhausted("ideals");
                return StoppedBy::Completed;
            }
            Pass::Stopped(stopped_by) => return stopped_by,
        }
        if search.is_done() {
            return StoppedBy::Completed;
        }
    }
}

/// Steps of a pass over pairs of ideals at first: hundredths of a second's work, and about a second's with blocking transfers, where
/// the time of a pass grows steadily with its limit, so that lower ones tell less.
const STEPS_OF_A_PASS: u64 = 10_000_000;
const STEPS_IF_BLOCKING: u64 = 200_000_000;

/// How many times as many steps a pass may take where no lower limit tells more.
const MORE: u64 = 8;

/// Of the incumbent, what is open before the next pass asks for anything better.
const SMALL: u64 = 1 << 20;

/// How many times as many it may take that asks for anything better: it may be the last.
const OF_THE_LAST: u64 = 4;

/// Corridors around an incumbent: ideals on either side, and limits without a plan after which anything better is asked for.
const CORRIDORS: [(usize, usize); 3] = [(64, 7), (256, 5), (1024, 4)];

/// Steps of a pass in one, some tenths of a second's work, and passes that may take longer.
const STEPS_NEAR: u64 = 20_000_000;
const MOST_STOPS: usize = 3;

/// Of the incumbent, what is no longer halved there.
const SETTLED: u64 = 4096;

/// Halvings of what is open without a plan, after which it does so too; and with blocking transfers, where all take as long.
const PATIENCE: usize = 8;
const PATIENCE_IF_BLOCKING: usize = 3;

/// Limits of passes over pairs of ideals, from below: each pass tells the bound or the incumbent, so that none asks for much
/// more than the optimum, where pairs are few.
struct Ladder {
    /// What a limit lies above the bound. It starts from nothing: where work alone counts, optima lie some ns above the bound, and
    /// hardly any pair keeps a limit there.
    step_ns: u64,
    /// From here it only doubles.
    doubles_from_ns: u64,
    /// The least limit whose pass took too long. The time of a pass grows with what its limit lies above the optimum, so limits
    /// below this one halve the orders of magnitude that are left.
    too_loose_ns: u64,
    /// The bound when a pass first took too long.
    base_ns: u64,
    halvings: usize,
    /// Below this, what is open is asked for at once.
    small_ns: u64,
    /// Steps of a pass.
    steps: u64,
    /// Whether the time of a pass hardly depends on its limit.
    is_blocking: bool,
    /// Whether the next pass asks for anything better than the incumbent.
    asks_for_better: bool,
    /// Whether some pass has found a plan.
    has_found: bool,
}

impl Ladder {
    /// Where transfers are no part of a load, hardly any plan lies between two multiples of the work's grain.
    fn new(lower_ns: u64, most_ns: u64, grain_ns: u64, communication: Communication) -> Self {
        let is_blocking = communication == Communication::Blocking;
        Self {
            step_ns: 0,
            doubles_from_ns: most_ns.saturating_sub(lower_ns) / 1024,
            too_loose_ns: u64::MAX,
            base_ns: lower_ns,
            halvings: 0,
            small_ns: match is_blocking {
                true => most_ns / SMALL,
                false => grain_ns.max(most_ns / SMALL),
            },
            steps: match is_blocking {
                true => STEPS_IF_BLOCKING,
                false => STEPS_OF_A_PASS,
            },
            is_blocking,
            asks_for_better: false,
            has_found: false,
        }
    }

    /// The next limit, between the bound and what is asked for at most, and the steps that its pass may take.
    fn next(&mut self, lower_ns: u64, target_ns: u64) -> (u64, u64) {
        let small_ns = self.small_ns;
        let patience = match self.is_blocking {
            true => PATIENCE_IF_BLOCKING,
            false => PATIENCE,
        };
        let is_last = |open_ns: u64, halvings: usize| open_ns < small_ns || halvings > patience;
        if self.too_loose_ns <= target_ns {
            if !is_last(self.too_loose_ns.saturating_sub(lower_ns), self.halvings) {
                return (self.between(lower_ns), self.steps);
            }
            self.steps = self.steps.saturating_mul(MORE);
            self.step_ns = self.too_loose_ns.saturating_sub(lower_ns);
            self.too_loose_ns = u64::MAX;
            self.halvings = 0;
        }
        let open_ns = target_ns.saturating_sub(lower_ns);
        self.halvings += usize::from(self.step_ns > open_ns / 2);
        match is_last(open_ns, self.halvings) || self.asks_for_better {
            true if !self.is_blocking => (target_ns, u64::MAX),
            true => (target_ns, self.steps.saturating_mul(OF_THE_LAST)),
            // Limits without a plan are cheaper than those far above the optimum.
            false if self.is_blocking => (lower_ns + self.step_ns.min(open_ns / 4), self.steps),
            false => (lower_ns + self.step_ns.min(open_ns / 2), self.steps),
        }
    }

    fn between(&mut self, lower_ns: u64) -> u64 {
        let [from_ns, to_ns] = [lower_ns, self.too_loose_ns].map(|ns| ns.saturating_sub(self.base_ns).max(1));
        match to_ns / from_ns < 4 || self.is_blocking {
            true => {
                self.halvings += 1;
                lower_ns + self.too_loose_ns.saturating_sub(lower_ns) / 2
            }
            false => self.base_ns + ((from_ns as f64 * to_ns as f64).sqrt() as u64),
        }
    }

    /// A pass has found a plan.
    fn fall(&mut self) {
        self.halvings = 0;
        self.has_found = true;
        self.asks_for_better = self.is_blocking;
    }

    /// No plan keeps the last limit.
    fn rise(&mut self) {
        // Passes for something between take as long as one for anything better.
        self.asks_for_better = self.is_blocking && self.has_found;
        self.step_ns = match self.step_ns < self.doubles_from_ns / MORE {
            true => self.step_ns.max(1) * MORE,
            false => self.step_ns.saturating_mul(2).max(self.doubles_from_ns).max(1),
        };
    }

    /// The pass with the last limit took too long.
    fn give_up(&mut self, lower_ns: u64, limit_ns: u64) {
        if self.too_loose_ns == u64::MAX {
            self.base_ns = lower_ns;
        }
        self.too_loose_ns = limit_ns;
        self.asks_for_better = false;
    }
}

/// Passes over pairs of ideals, with so many steps at most; `None` if these are too many.
pub(crate) fn over_ideal_pairs(search: &mut Search, most_steps: u64) -> Option<StoppedBy> {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.exhausted("work per stage");
        return Some(StoppedBy::Completed);
    };
    let reduced = search.reduced.clone();
    let pairs = PairSearch::new(&reduced.problem, search.control, most_ns)?;
    Some(climb(search, pairs, None, most_steps))
}

/// Passes over pairs of ideals of a coarser problem: where work alone counts, its plans often meet the bound.
pub(crate) fn over_coarse_pairs(search: &mut Search) -> StoppedBy {
    /// Ideals of a part: enough for plans near the bound.
    const MOST_IDEALS: usize = 100_000;
    /// Some tenths of a second's work.
    const MOST_STEPS: u64 = 50_000_000;
    if search.problem.settings.communication == Communication::Blocking {
        // What is joined weighs too much there.
        return StoppedBy::SizeLimit;
    }
    let coarse = coarse::coarsened(&search.reduced.problem, MOST_IDEALS);
    let Some((coarse, most_ns)) = coarse.zip(search.target_bottleneck_ns()) else {
        return StoppedBy::SizeLimit;
    };
    match PairSearch::new(&coarse.problem, search.control, most_ns) {
        Some(pairs) => climb(search, pairs, Some(&coarse), MOST_STEPS),
        None => StoppedBy::SizeLimit,
    }
}

/// Passes with limits from below. A pass that takes much longer than those before is given up: its limit was too loose, and
/// lower ones tell more. What a coarser problem has no plan for, the problem may have one for.
fn climb(search: &mut Search, mut pairs: PairSearch, coarse: Option<&Reduced>, most_steps: u64) -> StoppedBy {
    let communication = search.problem.settings.communication;
    let Some(most_ns) = search.target_bottleneck_ns() else {
        return StoppedBy::Completed;
    };
    let mut lower_ns = search.lower_bottleneck_ns;
    let grain_ns = bounds::grain_ns(search.problem);
    let mut ladder = Ladder::new(lower_ns, most_ns, grain_ns, communication);
    // What bottlenecks are multiples of, and what work alone is one of.
    let [bound_grain_ns, limit_grain_ns] = match communication {
        Communication::Ignored => [grain_ns, 1],
        Communication::Overlapped => [1, grain_ns],
        Communication::Blocking => [1, 1],
    };
    if pairs.is_large() {
        // A plan that is best far around itself is mostly nearly best.
        ladder.asks_for_better = settle(search, &mut pairs, lower_ns);
    }
    // Every pass takes of the steps that are left.
    while !search.is_over() {
        lower_ns = lower_ns.max(search.lower_bottleneck_ns);
        let Some(target_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        let reach_ns = target_ns.min(pairs.most_ns());
        if lower_ns > reach_ns {
            return StoppedBy::SizeLimit;
        }
        let (limit_ns, steps) = ladder.next(lower_ns, reach_ns);
        // No more work fits a limit before the next grain.
        let limit_ns = limit_ns.next_multiple_of(limit_grain_ns).min(reach_ns);
        let left = most_steps.saturating_sub(pairs.steps());
        let pass = pairs.pass(limit_ns, steps.min(left));
        search.statistics.ideals = Some(pairs.ideals);
        match pass {
            Pass::Found(assignment) => {
                let before_ns = search.upper_ns;
                offer(search, coarse, &assignment);
                if search.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
                if pairs.is_large() && !ladder.asks_for_better {
                    settle(search, &mut pairs, lower_ns);
                }
                ladder.fall();
            }
            Pass::Exhausted if limit_ns >= target_ns => {
                return match coarse {
                    Some(_) => StoppedBy::SizeLimit,
                    None => {
                        search.exhausted("pairs of ideals");
                        StoppedBy::Completed
                    }
                };
            }
            Pass::Exhausted => {
                lower_ns = (limit_ns + 1).next_multiple_of(bound_grain_ns);
                if coarse.is_none() {
                    search.raise_bottleneck(Bound {
                        source: "pairs of ideals",
                        bottleneck_ns: lower_ns,
                    });
                }
                ladder.rise();
            }
            Pass::Stopped(StoppedBy::SizeLimit) if steps < left => ladder.give_up(lower_ns, limit_ns),
            Pass::Stopped(stopped_by) => return stopped_by,
        }
    }
    StoppedBy::Completed
}

/// Offers a plan of the reduced problem, or of a coarser one.
fn offer(search: &mut Search, coarse: Option<&Reduced>, assignment: &Assignment) {
    let plan = match coarse {
        Some(coarse) => search.reduced.lift(&coarse.lift(assignment)),
        None => search.reduced.lift(assignment),
    };
    search.offer(search.improved(plan));
}

/// Looks for better plans near the incumbent, in corridors that widen where there are none: limits halve what is open. Whether there
/// is none in the widest one: then the incumbent is mostly nearly best.
fn settle(search: &mut Search, pairs: &mut PairSearch, lower_ns: u64) -> bool {
    let mut has_settled = false;
    for (corridor, (width, most_halvings)) in CORRIDORS.into_iter().enumerate() {
        let mut low_ns = lower_ns;
        let mut too_loose_ns = u64::MAX;
        let mut stops = 0;
        // Where there was nothing better in a narrower one, there seldom is.
        let mut halvings = if corridor == 0 { 0 } else { most_halvings };
        has_settled = false;
        // A better plan comes, what is open is halved so many times at most, or one of few stops is counted.
        while let (Some(target_ns), Some(incumbent)) = (search.target_bottleneck_ns(), &search.incumbent) {
            let reach_ns = target_ns.min(too_loose_ns.saturating_sub(1));
            let open_ns = reach_ns.saturating_sub(low_ns);
            let asks_for_better = open_ns < target_ns / SETTLED || halvings == most_halvings;
            let limit_ns = match asks_for_better {
                true => reach_ns,
                false => low_ns + open_ns / 2,
            };
            match pairs.near(&search.reduced.lower(incumbent), width, limit_ns, STEPS_NEAR) {
                Pass::Found(assignment) => {
                    let before_ns = search.upper_ns;
                    offer(search, None, &assignment);
                    if search.upper_ns == before_ns {
                        return false;
                    }
                    halvings = 0;
                }
                Pass::Exhausted if asks_for_better => {
                    has_settled = reach_ns == target_ns;
                    break;
                }
                Pass::Exhausted => {
                    low_ns = limit_ns;
                    halvings += 1;
                }
                Pass::Stopped(StoppedBy::SizeLimit) if stops < MOST_STOPS => {
                    stops += 1;
                    too_loose_ns = limit_ns;
                    halvings = 0;
                }
                Pass::Stopped(_) => break,
            }
        }
    }
    has_settled
}

/// The dynamic program over ideals with labels, which weighs sums and maxima together: iterations need that, and pay for it.
pub(crate) fn over_labelled_ideals(search: &mut Search) -> StoppedBy {
    let control = search.control;
    let solved = labelled_ideals::solve(search.problem, labelled_ideals::DEFAULT_CAP, &|| {
        control.must_stop().is_some()
    });
    match solved {
        Ok(solution) => {
            search.statistics.ideals = Some(solution.ideals);
            if let Some((assignment, _)) = solution.best {
                search.offer(assignment);
            }
            search.exhausted("ideals");
            StoppedBy::Completed
        }
        Err(_) => control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}
