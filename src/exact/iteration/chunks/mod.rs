//! Iterations of devices that hold several chunks: plans measured as the order of their schedule runs them, and what none of them beats.

mod asked;
mod branch;
mod every;
mod fit;
pub(super) mod kind;
mod moves;
mod options;
mod paths;
mod places;
mod ranges;
mod seats;
mod starts;
mod totals;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use petgraph::Direction::Incoming;

use self::options::{ChunkOptions, Plain};
use self::paths::PathSearch;
use super::super::incumbent::Incumbent;
use super::super::method::Method;
use super::super::virtual_stages;
use super::{SHARE_OF_GUIDES, TIME_OF_GUIDES};
use crate::exact::bounds::Bound;
use crate::formulations::solver::SolverError;
use crate::problem::Problem;
use crate::problem::bound_source::BoundSource;
use crate::problem::control::Control;
use crate::problem::plan::{Outcome, StoppedBy};
use crate::problem::virtual_stages::VirtualStages;

/// Moves take such a part of the time that is left, before and behind the programs.
const SHARE_OF_MOVES: f64 = 0.1;
/// A turn takes so long where there are other chunks.
const TIME_OF_A_TURN: Duration = Duration::from_millis(250);
/// Beyond so many rounds they take no longer.
const MOST_ROUNDS: u32 = 8;
/// When all come again, they take so many times as long.
const LONGER_AGAIN: u32 = 4;
/// And items in parts such a one.
const SHARE_OF_PARTS: f64 = 0.25;

/// The same control with such a part of the time that is left, where that has an end.
fn within<'a>(control: &Control<'a>, share: f64) -> Control<'a> {
    match control.remaining() {
        Some(left) => control.with_time(Some(left.mul_f64(share))),
        None => control.with_time(None),
    }
}

/// Solves a problem whose devices have several chunks and whose objective is an iteration.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub(in crate::exact) fn solve(
    problem: &Problem,
    of: &VirtualStages,
    method: Method,
    labels: &[String],
    control: &Control,
) -> Result<Outcome, SolverError> {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    if method != Method::Exact {
        return Ok(incumbent.finish(StoppedBy::NoMethod));
    }
    let mut runs = ChunkRuns::alone(Plain(problem, of));
    while !runs.is_done() {
        let share = runs.share();
        runs.take_turn(&mut incumbent, u64::MAX, labels, &within(control, share))?;
    }
    let stopped_by = control.must_stop().unwrap_or(StoppedBy::Completed);
    Ok(incumbent.finish(stopped_by))
}

/// What is done for chunks, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// What devices have time and memory for.
    Places,
    /// Plans that people write down, and all where there are few.
    Start,
    /// Moves from the best.
    Move,
    /// The plan of the least period.
    Period,
    /// The program of critical paths, for items in parts, or whole ones.
    Paths { is_whole: bool },
    /// What chunks may hold of whole items.
    Ranges,
}

/// Each with the share of the time that is left.
type Turns = &'static [(Turn, f64)];

/// Where there are no other chunks: plans first.
const ALONE: Turns = &[
    (Turn::Places, 1.0),
    (Turn::Start, 1.0),
    (Turn::Move, SHARE_OF_MOVES),
    (Turn::Period, SHARE_OF_GUIDES),
    (Turn::Paths { is_whole: false }, SHARE_OF_PARTS),
    (Turn::Ranges, SHARE_OF_PARTS),
    (Turn::Move, SHARE_OF_MOVES),
    (Turn::Paths { is_whole: true }, 1.0),
    (Turn::Move, 1.0),
];

/// Where there are others: bounds first, which most of them do not survive.
const AMONG_OTHERS: Turns = &[
    (Turn::Places, 1.0),
    (Turn::Start, 1.0),
    (Turn::Paths { is_whole: false }, 1.0),
    (Turn::Ranges, 1.0),
    (Turn::Move, 1.0),
    (Turn::Paths { is_whole: true }, 1.0),
    (Turn::Period, 1.0),
    (Turn::Move, 1.0),
];

/// How many of them are taken once: they take little time.
const TURNS_ONCE: usize = 2;

/// How far plans of some chunks have been looked for.
pub(super) struct ChunkRuns<'a> {
    options: Arc<dyn ChunkOptions + 'a>,
    paths: Option<PathSearch<'a>>,
    turns: Turns,
    next: usize,
    /// How often all turns were taken, and whether some ended for lack of time since.
    rounds: u32,
    is_limited: bool,
}

impl<'a> ChunkRuns<'a> {
    /// Those of a mode and number among others.
    pub(super) fn among_others(options: impl ChunkOptions + 'a) -> Self {
        Self {
            turns: AMONG_OTHERS,
            ..Self::alone(options)
        }
    }

    fn alone(options: impl ChunkOptions + 'a) -> Self {
        let options: Arc<dyn ChunkOptions + 'a> = Arc::new(options);
        Self {
            paths: PathSearch::new(options.clone()),
            options,
            turns: ALONE,
            next: 0,
            rounds: 0,
            is_limited: false,
        }
    }

    /// Whether nothing is left to try.
    pub(super) fn is_done(&self) -> bool {
        self.next >= self.turns.len()
    }

    /// How often all turns were taken and begun again.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// What the next turn may take of the time that is left.
    fn share(&self) -> f64 {
        self.turns.get(self.next).map_or(0.0, |(_, share)| *share)
    }

    /// What the next turn may take where there are plans of other chunks to look for: little at first.
    pub(super) fn time(&self, left: Option<Duration>) -> Duration {
        let most = TIME_OF_A_TURN * LONGER_AGAIN.saturating_pow(self.rounds.min(MOST_ROUNDS));
        left.map_or(most, |left| most.min(left))
    }

    /// Takes the next turn, from the best plan of these chunks that is known.
    ///
    /// * `beat_ns`: plans that take longer are of no interest, and bounds above it say no more.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    pub(super) fn take_turn(
        &mut self,
        incumbent: &mut Incumbent,
        beat_ns: u64,
        labels: &[String],
        within: &Control,
    ) -> Result<(), SolverError> {
        let (turn, options) = (self.turns[self.next].0, &*self.options);
        self.next += 1;
        let switches = &incumbent.control.switches;
        // Of a row it says nothing more when it is asked again.
        let is_said = turn == Turn::Period && self.rounds > 0 && is_row(options.row());
        match turn {
            _ if incumbent.is_over() || incumbent.lower_ns > beat_ns => self.next = self.turns.len(),
            _ if is_said => {}
            Turn::Places => {
                let of_kinds_ns = self.paths.as_ref().map_or(0, PathSearch::least_ns);
                let least_ns = places::least_ns(options).max(of_kinds_ns);
                incumbent.raise(BoundSource::WorkOverDevices, least_ns);
            }
            Turn::Start => {
                starts::offer_even(incumbent, options);
                let is_few = switches.exhaustive && every::applies(options);
                if is_few && every::look_at_all(incumbent, options) == StoppedBy::Completed {
                    self.next = self.turns.len();
                }
            }
            Turn::Move => {
                let turn = self.rounds as usize * self.turns.len() + self.next;
                moves::improve(incumbent, options, within, turn as u64);
            }
            Turn::Period => ask_period(incumbent, options, labels, within)?,
            Turn::Ranges => {
                if let Some(paths) = self.paths.as_mut().filter(|_| switches.count_ranges) {
                    ranges::prove(paths, incumbent, (beat_ns, within));
                }
            }
            Turn::Paths { is_whole } => {
                if let Some(paths) = self.paths.as_mut().filter(|_| switches.program) {
                    paths.run(incumbent, is_whole, (beat_ns, within))?;
                }
            }
        }
        self.is_limited |= within.must_stop().is_some();
        Ok(())
    }

    /// Begins again where all turns are taken and some had too little time; whether it did.
    pub(super) fn begin_again(&mut self, is_closed: bool) -> bool {
        let is_left = self.is_done() && self.is_limited && !is_closed;
        if is_left {
            (self.next, self.is_limited) = (TURNS_ONCE, false);
            self.rounds += 1;
        }
        is_left
    }
}

/// Lower bounds alone.
pub(in crate::exact) fn bound(problem: &Problem, of: &VirtualStages, control: &Control) -> Outcome {
    let mut incumbent = Incumbent::new(problem, control);
    let (bound, bound_ns) = simple_bound(problem, of);
    incumbent.raise(bound.source, bound_ns);
    let guide = period_without_links(problem);
    let period = virtual_stages::bound(&guide, of, &control.elsewhere());
    incumbent.raise(
        period.bound_source,
        micro_batches(problem).saturating_mul(period.bound_ns),
    );
    incumbent.finish(StoppedBy::Completed)
}

/// The best bound that takes no search, and what it says of an iteration in ns: the page's `busy`, and the way of one micro-batch.
pub(in crate::exact) fn simple_bound(problem: &Problem, of: &VirtualStages) -> (Bound, u64) {
    let (bound, period_ns) = virtual_stages::simple_bound(&period_without_links(problem), of);
    let way_ns: u64 = (problem.items.iter())
        .map(|item| item.work_ns() - item.weight_ns)
        .sum();
    (bound, way_ns.max(micro_batches(problem) * period_ns))
}

/// Whether items follow each other in a row, so that plans are where it is cut.
fn is_row(problem: &Problem) -> bool {
    (1..problem.items.len()).all(|item| {
        let before = problem.order.neighbors_directed((item as u32).into(), Incoming);
        before.into_iter().any(|u| u.index() + 1 == item)
    })
}

fn micro_batches(problem: &Problem) -> u64 {
    problem.settings.run_micro_batches()
}

/// The problem of the period, in which links are never busy: in a run, any number of transfers may be under way.
fn period_without_links(problem: &Problem) -> Problem {
    match problem.settings.communication.has_links() {
        true => problem.for_the_period().without_transfers(),
        false => problem.for_the_period(),
    }
}

/// Takes the plan of the least period, and what that says of iterations: some device is busy for as long with each micro-batch.
fn ask_period(
    incumbent: &mut Incumbent,
    options: &dyn ChunkOptions,
    labels: &[String],
    within: &Control,
) -> Result<(), SolverError> {
    let (row, of) = (options.row(), options.laid());
    let mut within = within.elsewhere();
    within.gap = 0.0;
    if within.time_limit.is_none() {
        within = within.with_time(Some(TIME_OF_GUIDES));
    }
    let guide = period_without_links(row);
    let period = virtual_stages::solve(&guide, of, Method::Exact, labels, &within)?;
    if let Some(plan) = period.allocation {
        incumbent.offer_some(options.plan(plan.assignment));
    }
    // What is infeasible is so under any objective.
    let again_ns = |chunks: &Vec<usize>| -> u64 {
        let own = chunks.iter().filter_map(|&chunk| options.again_ns(chunk));
        own.sum()
    };
    let least_again_ns = of.chunks_of.iter().map(again_ns).min().unwrap_or(0);
    match period.bound_ns {
        u64::MAX => incumbent.raise(period.bound_source, u64::MAX),
        bound_ns => {
            let busy_ns = bound_ns + least_again_ns;
            incumbent.raise(BoundSource::Period, micro_batches(row).saturating_mul(busy_ns));
        }
    }
    Ok(())
}
