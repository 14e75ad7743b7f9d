//! The best pattern: least peak at a period, or least period within the room of the devices.
//!
//! The program is that of [`crate::formulations::cyclic`]. Patterns that come back are recomputed from the chunks by
//! [`Pattern::peaks`], which knows no program.

use std::sync::atomic::{AtomicBool, Ordering};

use super::patterns;
use crate::formulations::cyclic::{Asked, Cyclic, Goal};
use crate::formulations::solver::{self, Report, SolverError, Stop};
use crate::problem::control::Control;
use crate::problem::plan::{Status, StoppedBy};
use crate::schedule::{Chunks, Pattern, Phase};
use crate::search::in_time::{self, Ending, Latest};

/// Slots of a period where the grid is chosen: a finer grid loses less, and its program has more binaries.
const MOST_SLOTS: u64 = 48;

/// A bound of the solver that lies less than this below a whole number means that number, and one that meets a peak up to this part proves
/// it. Rows are exact to 1e-9, and numbers in them are 1000 at most.
const TOLERANCE: f64 = 1e-6;

/// What a search for patterns found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best pattern.
    pub pattern: Option<Pattern>,
    /// The most that each device holds with it; empty without one.
    pub peaks: Vec<u64>,
    /// No pattern on this grid is better: has a lower peak, or a shorter period in slots.
    pub bound: u64,
    /// What is proved of it.
    pub status: Status,
    /// Why the search stopped.
    pub stopped_by: StoppedBy,
}

impl Found {
    /// The most that any device holds.
    pub fn peak(&self) -> Option<u64> {
        self.peaks.iter().max().copied()
    }
}

/// A slot for these chunks: what all times are multiples of, where the busiest device then has no more than `MOST_SLOTS` of them;
/// else the one of up to so many that rounds the busiest device up least.
pub fn slot_ns(chunks: &Chunks) -> u64 {
    let phases = phases(chunks);
    let own = |c: usize| phases.iter().map(move |&phase| chunks.duration_ns(c, phase));
    let moved = |c: usize| {
        [
            chunks.chunks[c].forward_transfer_ns,
            chunks.chunks[c].backward_transfer_ns,
        ]
    };
    let times = (0..chunks.len()).flat_map(|c| own(c).chain(moved(c)));
    let common = times.fold(0, crate::model::units::gcd).max(1);
    let busiest_ns = chunks.least_period_ns();
    if busiest_ns / common <= MOST_SLOTS {
        return common;
    }
    let slots = (1..=MOST_SLOTS).map(|slots| busiest_ns.div_ceil(slots));
    let rounded_ns = |slot_ns: &u64| (least_period(chunks, *slot_ns) * slot_ns, u64::MAX - slot_ns);
    slots.min_by_key(rounded_ns).unwrap_or(common)
}

fn phases(chunks: &Chunks) -> &'static [Phase] {
    match chunks.may_split {
        true => &[Phase::Forward, Phase::InputGradient, Phase::WeightGradient],
        false => &[Phase::Forward, Phase::Backward],
    }
}

/// The slots that the busiest device needs for a micro-batch: the least period of any pattern on this grid, and some pattern
/// has it, as later micro-batches can make up for any wait.
pub fn least_period(chunks: &Chunks, slot_ns: u64) -> u64 {
    let of_chunk = |c: usize| -> u64 {
        let lengths = phases(chunks).iter();
        lengths
            .map(|&phase| Pattern::length(chunks, (c, phase), slot_ns))
            .sum()
    };
    let mut loads = vec![0; chunks.devices()];
    for (c, of) in chunks.chunks.iter().enumerate() {
        loads[of.device] += of_chunk(c);
    }
    loads.into_iter().max().unwrap_or(0).max(1)
}

/// A pattern of so many slots whose fullest device holds least. It is found in the time that `control` allows and a moment more, whatever HiGHS
/// does.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn least_peak(
    chunks: &Chunks,
    slot_ns: u64,
    period: u64,
    control: &Control,
) -> Result<Found, SolverError> {
    let own = chunks.clone();
    let search = move |control: &Control, latest: &Latest<Found>| {
        let asked = Asked {
            chunks: &own,
            slot_ns,
            period,
            goal: Goal::Peak,
        };
        peak(&asked, control, latest)
    };
    left_in_time(in_time::latest(control, search), least_held(chunks))
}

/// What a search found, or what it had found when it was left.
fn left_in_time(ending: Ending<Result<Found, SolverError>, Found>, bound: u64) -> Result<Found, SolverError> {
    let (found, stopped_by) = match ending {
        Ending::Ended(found) => return found,
        Ending::Left(found, stopped_by) => (found, stopped_by),
    };
    let found = found.unwrap_or(Found {
        pattern: None,
        peaks: Vec::new(),
        bound,
        status: Status::Unknown,
        stopped_by,
    });
    Ok(match found.status {
        Status::Optimal | Status::Infeasible => found,
        Status::Feasible | Status::Unknown => Found { stopped_by, ..found },
    })
}

fn peak(asked: &Asked, control: &Control, latest: &Latest<Found>) -> Result<Found, SolverError> {
    let chunks = asked.chunks;
    let least = least_held(chunks);
    let merit = |peaks: &[u64]| [peaks.iter().max().copied().unwrap_or(0), peaks.iter().sum()];
    let times = [asked.slot_ns, asked.period];
    let quick = patterns::good(chunks, times, &merit, least, &part_of(control));
    let quick = recomputed(chunks, quick);
    latest.show(of_peak(quick.clone(), least, StoppedBy::Completed));
    let cyclic = Cyclic::build(asked);
    let solved = solver::solve(cyclic.program.clone(), None, None, control, &|_| {})?;
    let solution = solved.values.as_deref().map(|values| cyclic.pattern(values));
    let found = [solution.and_then(|pattern| recomputed(chunks, pattern)), quick];
    let best = found
        .into_iter()
        .flatten()
        .min_by_key(|(_, peaks)| peaks.iter().max().copied());
    let units = (solved.bound - TOLERANCE).max(0.0);
    // A stash that is no multiple of the unit makes the peak no whole number of units.
    let bound = match cyclic.is_whole() {
        true => (units.ceil() as u64).saturating_mul(cyclic.unit),
        false => (units * cyclic.unit as f64) as u64,
    };
    let stopped_by = match solved.stop {
        Stop::Limit(stopped_by) => stopped_by,
        Stop::Optimal | Stop::Infeasible => StoppedBy::Completed,
    };
    Ok(of_peak(best, bound.max(least), stopped_by))
}

/// A pattern with its peaks, held against a bound on the largest of them.
fn of_peak(best: Option<(Pattern, Vec<u64>)>, bound: u64, stopped_by: StoppedBy) -> Found {
    let (pattern, peaks) = best.unzip();
    let peaks = peaks.unwrap_or_default();
    let peak = peaks.iter().max().copied();
    let is_met = peak.is_some_and(|peak| peak as f64 <= bound as f64 * (1.0 + TOLERANCE));
    Found {
        pattern,
        peaks,
        bound,
        status: match peak {
            Some(_) if is_met => Status::Optimal,
            Some(_) => Status::Feasible,
            None => Status::Unknown,
        },
        stopped_by: match is_met {
            true => StoppedBy::Completed,
            false => stopped_by,
        },
    }
}

fn least_held(chunks: &Chunks) -> u64 {
    let mut held = vec![0; chunks.devices()];
    for of in &chunks.chunks {
        held[of.device] += of.stash;
    }
    held.into_iter().max().unwrap_or(0)
}

/// A pattern with its peaks, once it has been recomputed.
fn recomputed(chunks: &Chunks, pattern: Pattern) -> Option<(Pattern, Vec<u64>)> {
    let peaks = pattern.peaks(chunks).ok()?;
    Some((pattern, peaks))
}

/// What a search without a program may take of the time.
fn part_of<'a>(control: &Control<'a>) -> Control<'a> {
    const PART: u32 = 8;
    control.with_time(control.remaining().map(|left| left / PART))
}

/// A pattern of the least period among those that the devices have room for.
///
/// A longer period is never harder: a pattern keeps its peaks if every period gets one more idle slot at its end. So periods
/// are halved between one that is proved too short and one that has a pattern.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn least_period_within_room(
    chunks: &Chunks,
    slot_ns: u64,
    control: &Control,
) -> Result<Found, SolverError> {
    let own = chunks.clone();
    let search = move |control: &Control, latest: &Latest<Found>| {
        let search = PatternSearch {
            chunks: &own,
            slot_ns,
            control,
            latest,
            best: None,
            bound: least_period(&own, slot_ns),
            stopped_by: StoppedBy::Completed,
        };
        search.find()
    };
    left_in_time(in_time::latest(control, search), least_period(chunks, slot_ns))
}

/// A search over periods.
struct PatternSearch<'a> {
    chunks: &'a Chunks,
    slot_ns: u64,
    control: &'a Control<'a>,
    latest: &'a Latest<Found>,
    /// The pattern of the shortest period so far, with its peaks.
    best: Option<(Pattern, Vec<u64>)>,
    /// No shorter period has a pattern.
    bound: u64,
    stopped_by: StoppedBy,
}

impl PatternSearch<'_> {
    fn find(mut self) -> Result<Found, SolverError> {
        let chunks = self.chunks;
        let has_room =
            |device: usize| chunks.room[device].is_none_or(|room| chunks.least_held(device) <= room);
        match (0..chunks.devices()).all(has_room) {
            true => self.run()?,
            false => {
                return Ok(Found {
                    status: Status::Infeasible,
                    ..self.found()
                });
            }
        }
        Ok(self.found())
    }

    /// What is known.
    fn found(&self) -> Found {
        let (pattern, peaks) = self.best.clone().unzip();
        Found {
            status: match &pattern {
                Some(pattern) if pattern.period == self.bound => Status::Optimal,
                Some(_) => Status::Feasible,
                None => Status::Unknown,
            },
            pattern,
            peaks: peaks.unwrap_or_default(),
            bound: self.bound,
            stopped_by: self.stopped_by,
        }
    }

    fn run(&mut self) -> Result<(), SolverError> {
        let mut step = 0;
        while self
            .best
            .as_ref()
            .is_none_or(|(best, _)| best.period > self.bound)
        {
            let next = match &self.best {
                Some((best, _)) => self.bound + (best.period - self.bound) / 2,
                None => self.bound + step,
            };
            step = (2 * step).max(1);
            self.latest.show(self.found());
            if !self.ask(next)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn has_room(&self, peaks: &[u64]) -> bool {
        let mut both = peaks.iter().zip(&self.chunks.room);
        both.all(|(peak, room)| room.is_none_or(|room| *peak <= room))
    }

    /// A pattern that fits, where one is found without the program.
    fn quick(&self, period: u64) -> Option<(Pattern, Vec<u64>)> {
        let merit = |peaks: &[u64]| {
            let rooms = peaks.iter().zip(&self.chunks.room);
            let excess = rooms.map(|(&peak, room)| room.map_or(0, |room| peak.saturating_sub(room)));
            [excess.max().unwrap_or(0), peaks.iter().sum()]
        };
        let control = part_of(self.control);
        let pattern = patterns::good(self.chunks, [self.slot_ns, period], &merit, 0, &control);
        recomputed(self.chunks, pattern).filter(|(_, peaks)| self.has_room(peaks))
    }

    /// Whether there was an answer before a limit came.
    ///
    /// The solver stops as soon as it is known whether a pattern fits: one that has no excess is found, or the bound on the excess
    /// is above nothing.
    fn ask(&mut self, period: u64) -> Result<bool, SolverError> {
        if let Some(quick) = self.quick(period) {
            self.best = Some(quick);
            return Ok(true);
        }
        let asked = Asked {
            chunks: self.chunks,
            slot_ns: self.slot_ns,
            period,
            goal: Goal::Excess,
        };
        let cyclic = Cyclic::build(&asked);
        let is_known = AtomicBool::new(false);
        let watch = |report: Report| {
            if report.dual_bound > TOLERANCE || report.primal_bound < TOLERANCE {
                is_known.store(true, Ordering::Relaxed);
            }
        };
        let control = Control {
            cancelled: Some(&is_known),
            ..self.control.clone()
        };
        let solved = solver::solve(cyclic.program.clone(), None, None, &control, &watch)?;
        let solution = solved.values.as_deref().map(|values| cyclic.pattern(values));
        match (
            solution.and_then(|pattern| recomputed(self.chunks, pattern)),
            solved.stop,
        ) {
            (Some((pattern, peaks)), _) if self.has_room(&peaks) => self.best = Some((pattern, peaks)),
            _ if solved.bound > TOLERANCE => self.bound = period + 1,
            (_, Stop::Limit(stopped_by)) => {
                self.stopped_by = stopped_by;
                return Ok(false);
            }
            (_, Stop::Optimal | Stop::Infeasible) => {
                self.stopped_by = StoppedBy::SolverError;
                return Ok(false);
            }
        }
        Ok(true)
    }
}
