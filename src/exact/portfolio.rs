//! What runs the steps of a method: one after the other, until a step or a limit ends the search.

use crate::control::Control;
use crate::exact::incumbent::Incumbent;
use crate::plan::StoppedBy;
use crate::solver::SolverError;

/// A search that is made of steps.
pub(super) trait Portfolio {
    /// What it is made of. A step ends the search, or leaves it to the next.
    type Step: Copy;

    /// What is known so far.
    fn incumbent(&self) -> &Incumbent<'_>;

    /// Takes a step; returns why it stopped.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down.
    fn take(&mut self, step: Self::Step) -> Result<StoppedBy, SolverError>;

    /// Takes steps in their order until nothing is left to do, or a limit comes first; returns why the last one stopped. The clock is
    /// looked at behind each, so that the first is always begun.
    ///
    /// # Errors
    ///
    /// Those of [`Portfolio::take`].
    fn take_all(&mut self, steps: &[Self::Step], control: &Control) -> Result<StoppedBy, SolverError> {
        let mut stopped_by = StoppedBy::Completed;
        for &step in steps {
            stopped_by = self.take(step)?;
            if self.incumbent().is_over() {
                return Ok(StoppedBy::Completed);
            }
            if let Some(limit) = control.must_stop() {
                return Ok(limit);
            }
        }
        Ok(stopped_by)
    }
}
