//! How much a search over stages may still do.

use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Steps taken and allowed, and memory.
pub(super) struct Effort {
    pub steps: u64,
    pub most: u64,
    /// What there is room for.
    pub room_bytes: usize,
}

/// The effort and the limits of a search.
pub(super) struct Budget<'e> {
    effort: &'e mut Effort,
    control: &'e Control<'e>,
    /// What there is room for.
    pub room_bytes: usize,
    /// Steps since the last look at the clock.
    unchecked: u64,
}

impl<'e> Budget<'e> {
    /// What is left of an effort.
    pub(super) fn new(effort: &'e mut Effort, control: &'e Control<'e>) -> Self {
        Self {
            room_bytes: effort.room_bytes,
            effort,
            control,
            unchecked: 0,
        }
    }

    /// Takes so many steps.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub(super) fn take(&mut self, steps: u64) -> Result<(), StoppedBy> {
        const BETWEEN_CLOCK_LOOKS: u64 = 1 << 14;
        self.unchecked += steps;
        self.effort.steps += steps;
        if self.unchecked < BETWEEN_CLOCK_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        match self.control.must_stop() {
            Some(stopped_by) => Err(stopped_by),
            None if self.effort.steps > self.effort.most => Err(StoppedBy::SizeLimit),
            None => Ok(()),
        }
    }
}
