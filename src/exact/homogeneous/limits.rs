//! Which limit the next pass of a destructive bound takes, and how long it may take.

use crate::exact::tuning::TUNING;
use crate::model::options::Communication;

/// Limits of passes over pairs of ideals, from below: each pass tells the bound or the incumbent, so that none asks for much
/// more than the optimum, where pairs are few.
pub(super) struct Limits {
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
    asked_at_once_ns: u64,
    /// Steps of a pass.
    steps: u64,
    /// Whether the time of a pass hardly depends on its limit.
    is_blocking: bool,
    /// Whether the next pass asks for anything better than the incumbent.
    pub asks_for_better: bool,
    /// Whether some pass has found a plan.
    has_found: bool,
}

impl Limits {
    /// Limits from `lower_ns` up to `most_ns`. Where transfers are no part of a load, hardly any plan lies between two multiples of the
    /// work's quantum.
    pub(super) fn new(lower_ns: u64, most_ns: u64, quantum_ns: u64, communication: Communication) -> Self {
        let is_blocking = communication == Communication::Blocking;
        let little_ns = most_ns / TUNING.asked_at_once;
        let (asked_at_once_ns, steps) = match is_blocking {
            true => (little_ns, TUNING.steps_of_a_blocking_pass),
            false => (quantum_ns.max(little_ns), TUNING.steps_of_a_pass),
        };
        Self {
            step_ns: 0,
            doubles_from_ns: most_ns.saturating_sub(lower_ns) / 1024,
            too_loose_ns: u64::MAX,
            base_ns: lower_ns,
            halvings: 0,
            asked_at_once_ns,
            steps,
            is_blocking,
            asks_for_better: false,
            has_found: false,
        }
    }

    /// The next limit, between the bound and what is asked for at most, and the steps that its pass may take.
    pub(super) fn next(&mut self, lower_ns: u64, target_ns: u64) -> (u64, u64) {
        if self.too_loose_ns <= target_ns {
            if !self.is_last(self.too_loose_ns.saturating_sub(lower_ns)) {
                return (self.between(lower_ns), self.steps);
            }
            self.steps = self.steps.saturating_mul(TUNING.growth_of_passes);
            self.step_ns = self.too_loose_ns.saturating_sub(lower_ns);
            self.too_loose_ns = u64::MAX;
            self.halvings = 0;
        }
        let open_ns = target_ns.saturating_sub(lower_ns);
        self.halvings += usize::from(self.step_ns > open_ns / 2);
        match self.is_last(open_ns) || self.asks_for_better {
            true if !self.is_blocking => (target_ns, u64::MAX),
            true => (
                target_ns,
                self.steps.saturating_mul(TUNING.growth_of_last_blocking_pass),
            ),
            // Limits without a plan are cheaper than those far above the optimum.
            false if self.is_blocking => (lower_ns + self.step_ns.min(open_ns / 4), self.steps),
            false => (lower_ns + self.step_ns.min(open_ns / 2), self.steps),
        }
    }

    /// Whether nothing is to be halved any more.
    fn is_last(&self, open_ns: u64) -> bool {
        let most_halvings = match self.is_blocking {
            true => TUNING.halvings_if_blocking,
            false => TUNING.halvings,
        };
        open_ns < self.asked_at_once_ns || self.halvings > most_halvings
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
    pub(super) fn found(&mut self) {
        self.halvings = 0;
        self.has_found = true;
        self.asks_for_better = self.is_blocking;
    }

    /// No plan keeps the last limit.
    pub(super) fn ruled_out(&mut self) {
        // Passes for something between take as long as one for anything better.
        self.asks_for_better = self.is_blocking && self.has_found;
        let growth = TUNING.growth_of_passes;
        self.step_ns = match self.step_ns < self.doubles_from_ns / growth {
            true => self.step_ns.max(1) * growth,
            false => self.step_ns.saturating_mul(2).max(self.doubles_from_ns).max(1),
        };
    }

    /// The pass with the last limit took too long.
    pub(super) fn gave_up(&mut self, lower_ns: u64, limit_ns: u64) {
        if self.too_loose_ns == u64::MAX {
            self.base_ns = lower_ns;
        }
        self.too_loose_ns = limit_ns;
        self.asks_for_better = false;
    }
}
