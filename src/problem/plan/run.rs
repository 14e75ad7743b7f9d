//! How a plan runs where its schedule flushes and it is known how many micro-batches there are: fill and drain included.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plan's iteration, whatever its objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanRun {
    /// All micro-batches and the flush, as simulated.
    pub iteration_ms: f64,
    /// Time between micro-batches while the pipeline is full; where all forward passes come first, and where devices hold several
    /// chunks, what the busiest worker or link takes for one.
    pub period_ms: f64,
    /// The part of the iteration that is fill and drain: what it takes beyond as many periods as there are micro-batches.
    pub bubble_share: f64,
    /// Micro-batches, which are samples where each holds one, of an iteration in a second.
    pub micro_batches_per_s: f64,
}

impl PlanRun {
    /// Of an iteration of so many micro-batches, which takes some time.
    pub(crate) fn new(iteration_ms: f64, period_ms: f64, micro_batches: u64) -> Self {
        let full_ms = micro_batches as f64 * period_ms;
        Self {
            iteration_ms,
            period_ms,
            bubble_share: (1.0 - full_ms / iteration_ms).max(0.0),
            micro_batches_per_s: 1e3 * micro_batches as f64 / iteration_ms,
        }
    }
}
