//! Searches over ideals, by the dynamic program for periods and by the oracle for iterations.

use super::bounds::{self, Bound};
use super::coarse;
use super::ideal_pairs::PairSearch;
use super::ideals::{IdealSearch, Pass};
use super::search::Search;
use crate::heuristics::local_moves;
use crate::options::Communication;
use crate::oracles;
use crate::plan::StoppedBy;

/// Passes over the ideals, each for a better plan than the last, until there is none.
pub(super) fn over_ideals(search: &mut Search, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    // The reduction for this incumbent stays right for better ones.
    let reduced = search.reduced.clone();
    let mut ideals = IdealSearch::new(&reduced.problem, search.control, most_steps);
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
            Pass::Found(assignment) => search.offer_reduced(&assignment),
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

/// Steps of a pass over pairs of ideals at first: hundredths of a second's work. With blocking transfers the time of a pass grows
/// steadily with its limit, and lower ones tell less.
const STEPS_OF_A_PASS: u64 = 10_000_000;
const STEPS_IF_BLOCKING: u64 = 2_000_000_000;

/// How many times as many steps a pass may take where no lower limit tells more.
const MORE: u64 = 8;

/// Of the incumbent, what is open before the next pass asks for anything better.
const SMALL: u64 = 1 << 20;

/// Halvings of what is open without a plan, after which it does so too.
const PATIENCE: usize = 8;

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
    fn new(lower_ns: u64, most_ns: u64, communication: Communication) -> Self {
        let is_blocking = communication == Communication::Blocking;
        Self {
            step_ns: 0,
            doubles_from_ns: most_ns.saturating_sub(lower_ns) / 1024,
            too_loose_ns: u64::MAX,
            base_ns: lower_ns,
            halvings: 0,
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
        let is_last = |open_ns: u64, halvings: usize| open_ns < target_ns / SMALL || halvings > PATIENCE;
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
            true => (target_ns, self.steps),
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
        self.asks_for_better = false;
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

/// Passes over pairs of ideals with limits from below. A pass that takes much longer than those before is given up: its limit was
/// too loose, and lower ones tell more.
pub(super) fn over_ideal_pairs(search: &mut Search, most_steps: u64) -> StoppedBy {
    if let Some(limit_ns) = search.target_bottleneck_ns() {
        search.presolve(limit_ns);
    }
    let reduced = search.reduced.clone();
    let Some(most_ns) = search.target_bottleneck_ns() else {
        search.exhausted("work per stage");
        return StoppedBy::Completed;
    };
    let Some(mut pairs) = PairSearch::new(&reduced.problem, search.control, most_ns) else {
        return over_coarse_pairs(search, most_ns);
    };
    let mut ladder = Ladder::new(
        search.lower_bottleneck_ns,
        most_ns,
        search.problem.settings.communication,
    );
    let grain_ns = match search.problem.settings.communication {
        // Bottlenecks are work alone.
        Communication::Ignored => bounds::grain_ns(search.problem),
        Communication::Blocking | Communication::Overlapped => 1,
    };
    while !search.is_over() {
        let Some(target_ns) = search.target_bottleneck_ns() else {
            search.exhausted("work per stage");
            return StoppedBy::Completed;
        };
        let (limit_ns, steps) = ladder.next(search.lower_bottleneck_ns, target_ns);
        let left = most_steps.saturating_sub(pairs.steps);
        let pass = pairs.pass(limit_ns, steps.min(left));
        search.statistics.ideals = Some(pairs.ideals);
        match pass {
            Pass::Found(assignment) => {
                ladder.fall();
                let before_ns = search.upper_ns;
                let plan = search.reduced.lift(&assignment);
                search.offer(local_moves::improve(search.problem, plan));
                if search.upper_ns == before_ns {
                    // The plan is not what the pass took it for: others must tell.
                    return StoppedBy::SizeLimit;
                }
            }
            Pass::Exhausted if limit_ns == target_ns => {
                search.exhausted("pairs of ideals");
                return StoppedBy::Completed;
            }
            Pass::Exhausted => {
                search.raise_bottleneck(Bound {
                    source: "pairs of ideals",
                    bottleneck_ns: (limit_ns + 1).next_multiple_of(grain_ns),
                });
                ladder.rise();
            }
            Pass::Stopped(StoppedBy::SizeLimit) if steps < left => {
                ladder.give_up(search.lower_bottleneck_ns, limit_ns);
            }
            Pass::Stopped(stopped_by) => return stopped_by,
        }
    }
    StoppedBy::Completed
}

/// Passes over pairs of ideals of a coarser problem, until one finds a plan: where work alone counts, it often meets the bound.
fn over_coarse_pairs(search: &mut Search, most_ns: u64) -> StoppedBy {
    /// Ideals of a part: enough for plans near the bound.
    const MOST_IDEALS: usize = 100_000;
    let reduced = search.reduced.clone();
    let Some(coarse) = coarse::coarsened(&reduced.problem, MOST_IDEALS) else {
        return StoppedBy::SizeLimit;
    };
    let Some(mut pairs) = PairSearch::new(&coarse.problem, search.control, most_ns) else {
        return StoppedBy::SizeLimit;
    };
    let mut step_ns = 0;
    loop {
        let limit_ns = most_ns.min(search.lower_bottleneck_ns + step_ns);
        match pairs.pass(limit_ns, STEPS_OF_A_PASS) {
            Pass::Found(assignment) => {
                let plan = reduced.lift(&coarse.lift(&assignment));
                search.offer(local_moves::improve(search.problem, plan));
                return StoppedBy::SizeLimit;
            }
            Pass::Exhausted | Pass::Stopped(StoppedBy::SizeLimit) if limit_ns < most_ns => {
                step_ns = step_ns.max(1) * MORE;
            }
            Pass::Exhausted => return StoppedBy::SizeLimit,
            Pass::Stopped(stopped_by) => return stopped_by,
        }
    }
}

/// The oracle over ideals, which weighs sums and maxima together: iterations need that, and pay for it.
pub(super) fn over_labelled_ideals(search: &mut Search) -> StoppedBy {
    let control = search.control;
    let solved = oracles::ideals::solve(search.problem, oracles::ideals::DEFAULT_CAP, &|| {
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
