//! Is there a plan within a limit? Every search that is asked so gives one kind of answer.

use crate::problem::Assignment;
use crate::problem::plan::StoppedBy;

/// What a search knows of plans whose every stage keeps a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<P = Assignment> {
    /// There is one.
    Plan(P),
    /// There is none, nor for any limit below the next one that is worth asking about.
    NoPlan {
        /// That limit, which is larger than the one that was asked about.
        next_limit: u64,
    },
    /// Not known: what was left out, for width or for steps, may lead to one.
    Undecided,
    /// Not known: a limit of the search came first.
    Stopped(StoppedBy),
}

impl<P> Answer<P> {
    /// The answer about a limit by a search that is complete unless it stops.
    pub fn within(limit: u64, found: Result<Option<P>, StoppedBy>) -> Self {
        match found {
            Ok(Some(plan)) => Self::Plan(plan),
            Ok(None) => Self::none_within(limit),
            Err(stopped_by) => Self::Stopped(stopped_by),
        }
    }

    /// No plan keeps a limit, and nothing is known of larger ones.
    pub fn none_within(limit: u64) -> Self {
        let next_limit = limit.saturating_add(1);
        Self::NoPlan { next_limit }
    }

    /// Whether there is no plan.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::NoPlan { .. })
    }
}
