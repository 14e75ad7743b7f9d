//! How much a search over pairs of ideals may still do.

use crate::exact::ideal_pairs::reached::{ReachedLayers, ReachedPair};
use crate::exact::tuning::TUNING;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Steps, memory and time of a search.
pub(super) struct Budget<'a> {
    control: &'a Control<'a>,
    /// Ideals looked at, and pairs that work allows, which count for more.
    pub steps: u64,
    /// The number of steps at which to give up.
    pub until: u64,
    /// What there is room for.
    pub room_bytes: usize,
}

impl<'a> Budget<'a> {
    /// Nothing done so far, and no steps allowed.
    pub(super) fn new(control: &'a Control<'a>) -> Self {
        Self {
            control,
            steps: 0,
            until: 0,
            room_bytes: control.room_bytes(),
        }
    }

    /// Allows so many steps from here on.
    pub(super) fn allow(&mut self, most_steps: u64) {
        self.until = self.steps.saturating_add(most_steps);
    }

    /// Steps left.
    pub(super) fn left(&self) -> u64 {
        self.until.saturating_sub(self.steps)
    }

    /// Whether there is room, time and effort left after so many steps.
    ///
    /// # Errors
    ///
    /// What there is none of.
    pub(super) fn check(&self, own: &ReachedLayers, steps: u64) -> Result<(), StoppedBy> {
        // A vector of pairs doubles as it grows.
        let bytes = own.seen.bytes + 2 * own.pairs.len() * size_of::<ReachedPair>();
        let is_large = own.seen.bytes > TUNING.most_bytes_of_met_pairs || bytes > self.room_bytes / 2;
        match self.control.must_stop() {
            _ if is_large || steps > self.until => Err(StoppedBy::SizeLimit),
            Some(stopped_by) => Err(stopped_by),
            None => Ok(()),
        }
    }
}
