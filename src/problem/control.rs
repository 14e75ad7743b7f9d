//! What steers a search from outside: limits, seed, interrupts, and where progress goes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::problem::bound_source::BoundSource;
use crate::problem::cost::allocation::Allocation;
use crate::problem::memory;
use crate::problem::plan::{Outcome, Statistics, StoppedBy};
use crate::problem::switches::Switches;

/// Limits and wishes of a search.
#[derive(Clone)]
pub struct Control<'a> {
    /// When the search started.
    pub started: Instant,
    /// How long it may take.
    pub time_limit: Option<Duration>,
    /// Resident memory that the process may take, in bytes; `None` for what it has and three quarters of what the machine has free.
    pub memory_bytes: Option<u64>,
    /// Relative gap at which it may stop.
    pub gap: f64,
    /// Plans that take as long, in ns, are of no use: a better one is known of another problem with the same objective. Only searches for plans in
    /// modes whose iterations are simulated, and for prompts, look for less from the start.
    pub beat_ns: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Switches and bounds it may use.
    pub switches: Switches,
    /// Set by Ctrl-C or a caller: stop with the best plan so far.
    pub interrupt: &'a AtomicBool,
    /// Set by the search itself where a part of it is no longer needed.
    pub cancelled: Option<&'a AtomicBool>,
    /// Called now and then, from any thread.
    pub progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
    /// Where the best plan and bound go as they are found, for whoever may not wait for the end.
    pub known: Option<&'a Known>,
    /// Counts how often searches ask whether to stop: each does after as many steps of its own, so that with one thread the number is the
    /// same on every machine.
    pub looks: Option<&'a AtomicU64>,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Wall-clock seconds since the start.
    pub seconds: f64,
    /// Objective of the best plan, in ns.
    pub incumbent_ns: Option<u64>,
    /// The best bound, in ns.
    pub bound_ns: u64,
}

/// What a search has found so far: its best plan and bound.
#[derive(Debug, Default)]
pub struct Known(Mutex<Best>);

#[derive(Debug)]
struct Best {
    allocation: Option<Allocation>,
    objective_ns: u64,
    bound_ns: u64,
    bound_source: BoundSource,
}

impl Default for Best {
    fn default() -> Self {
        Self {
            allocation: None,
            objective_ns: u64::MAX,
            bound_ns: 0,
            bound_source: BoundSource::None,
        }
    }
}

impl Known {
    /// What a search that shows no more has come to.
    pub fn outcome(&self, stopped_by: StoppedBy, statistics: Statistics) -> Outcome {
        let best = self.0.lock().map(|mut best| std::mem::take(&mut *best));
        let best = best.unwrap_or_default();
        Outcome {
            allocation: best.allocation,
            bound_ns: best.bound_ns,
            bound_source: best.bound_source,
            stopped_by,
            statistics,
        }
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for Control<'_> {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            time_limit: None,
            memory_bytes: None,
            gap: 0.0,
            beat_ns: None,
            seed: 0,
            switches: Switches::default(),
            interrupt: &NEVER,
            cancelled: None,
            progress: None,
            known: None,
            looks: None,
        }
    }
}

impl Control<'_> {
    /// The limits and wishes alone, for a search on a thread of its own: nothing that is borrowed.
    pub(crate) fn detached(&self) -> Control<'static> {
        Control {
            started: self.started,
            time_limit: self.time_limit,
            memory_bytes: self.memory_bytes,
            gap: self.gap,
            beat_ns: self.beat_ns,
            seed: self.seed,
            switches: self.switches,
            ..Control::default()
        }
    }

    /// The same limits for another problem: what is found there is no plan of this one, and no bound.
    pub fn elsewhere(&self) -> Self {
        Self {
            progress: None,
            known: None,
            beat_ns: None,
            ..self.clone()
        }
    }

    /// The same with so much time from now on; without a limit where nothing is said.
    pub fn with_time(&self, time_limit: Option<Duration>) -> Self {
        Self {
            started: Instant::now(),
            time_limit,
            ..self.clone()
        }
    }

    /// Whether Ctrl-C or a caller ends the search.
    pub fn is_interrupted(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(self.interrupt) || self.cancelled.is_some_and(is_set)
    }

    /// Why the search must stop now, if it must. Searches ask in every loop that may take long.
    pub fn must_stop(&self) -> Option<StoppedBy> {
        if let Some(looks) = self.looks {
            looks.fetch_add(1, Ordering::Relaxed);
        }
        self.limit()
    }

    /// The same, asked by the clock and not by steps: by whoever waits for a search, and by HiGHS.
    pub(crate) fn limit(&self) -> Option<StoppedBy> {
        if self.is_interrupted() {
            return Some(StoppedBy::Interrupt);
        }
        match self.remaining() {
            Some(left) if left.is_zero() => Some(StoppedBy::TimeLimit),
            _ => None,
        }
    }

    /// [`must_stop`](Self::must_stop) as an error.
    ///
    /// # Errors
    ///
    /// Why the search must stop now.
    pub(crate) fn check_limits(&self) -> Result<(), StoppedBy> {
        self.must_stop().map_or(Ok(()), Err)
    }

    /// Takes one of the steps that are left, and looks at the limits once in so many.
    ///
    /// # Errors
    ///
    /// Why the search must stop now.
    pub(crate) fn take_step(&self, left: &mut u64, between_looks: u64) -> Result<(), StoppedBy> {
        *left = left.checked_sub(1).ok_or(StoppedBy::SizeLimit)?;
        match left.is_multiple_of(between_looks) {
            true => self.check_limits(),
            false => Ok(()),
        }
    }

    /// Time left, if there is a limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.time_limit
            .map(|limit| limit.saturating_sub(self.started.elapsed()))
    }

    /// Bytes for whatever grows while the search goes on.
    pub(crate) fn room_bytes(&self) -> usize {
        memory::room_bytes(self.memory_bytes)
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Shows a plan and its objective in ns, the best so far.
    pub fn show_plan(&self, allocation: &Allocation, objective_ns: u64) {
        let Some(Ok(mut best)) = self.known.map(|known| known.0.lock()) else {
            return;
        };
        if objective_ns < best.objective_ns {
            best.objective_ns = objective_ns;
            best.allocation = Some(allocation.clone());
        }
    }

    /// Shows a bound in ns, the best so far.
    pub fn show_bound(&self, source: BoundSource, bound_ns: u64) {
        let Some(Ok(mut best)) = self.known.map(|known| known.0.lock()) else {
            return;
        };
        if bound_ns > best.bound_ns {
            (best.bound_ns, best.bound_source) = (bound_ns, source);
        }
    }

    /// Tells whoever listens how far the search has come.
    pub fn report(&self, incumbent_ns: Option<u64>, bound_ns: u64) {
        if let Some(progress) = self.progress {
            progress(&Progress {
                seconds: self.seconds(),
                incumbent_ns,
                bound_ns,
            });
        }
    }
}
