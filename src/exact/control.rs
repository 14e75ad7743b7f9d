//! What steers a search from outside: limits, seed, interrupts, and where progress goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::presolve::Reductions;
use crate::plan::StoppedBy;

/// Limits and wishes of a search.
#[derive(Clone)]
pub struct Control<'a> {
    /// When the search started.
    pub started: Instant,
    /// How long it may take.
    pub time_limit: Option<Duration>,
    /// Relative gap at which it may stop.
    pub gap: f64,
    /// Seed of everything random.
    pub seed: u64,
    /// Reductions and bounds it may use.
    pub reductions: Reductions,
    /// Set by Ctrl-C or a caller: stop with the best plan so far.
    pub interrupt: &'a AtomicBool,
    /// Set by the search itself where a part of it is no longer needed.
    pub cancelled: Option<&'a AtomicBool>,
    /// Called now and then, from any thread.
    pub progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
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

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for Control<'_> {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            time_limit: None,
            gap: 0.0,
            seed: 0,
            reductions: Reductions::default(),
            interrupt: &NEVER,
            cancelled: None,
            progress: None,
        }
    }
}

impl Control<'_> {
    /// Why the search must stop now, if it must.
    pub fn must_stop(&self) -> Option<StoppedBy> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is_set(self.interrupt) || self.cancelled.is_some_and(is_set) {
            return Some(StoppedBy::Interrupt);
        }
        match self.remaining() {
            Some(left) if left.is_zero() => Some(StoppedBy::TimeLimit),
            _ => None,
        }
    }

    /// Time left, if there is a limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.time_limit
            .map(|limit| limit.saturating_sub(self.started.elapsed()))
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
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
