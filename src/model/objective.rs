//! Objectives: what a plan minimises, as a formula of what its stages cost.
//!
//! All but times of runs that are [simulated](Objective::is_simulated) have the form
//!
//! ```text
//! once + weight * (sum of one or two bottlenecks)
//! ```
//!
//! | objective | once | weight | bottlenecks |
//! |---|---|---|---|
//! | period | 0 | 1 | stage |
//! | formula, 1F1B | Σ load | M - 1 | stage |
//! | formula, GPipe | Σ load | M - 1 | forward phase, backward phase |
//! | iteration, GPipe, or inference, without links | the same | | |
//! | latency, without links | Σ load | 0 | |
//!
//! Bounds, programs and dynamic programs ask the [`Formula`], not which objective it is: a new objective of this form is a
//! variant and its formula.
//!
//! Formulas of iterations: Y. Huang et al., *GPipe*, NeurIPS 2019, and D. Narayanan et al., *Efficient large-scale language
//! model training on GPU clusters*, SC 2021, for unequal stages. [`mod@crate::schedule::simulate`] says how close they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::named_values::named_values;
use crate::model::schedule::{Bottlenecks, Schedule};

named_values! {
    /// What a plan minimises.
    Objective {
        /// Time between micro-batches in steady state.
        Period = "period",
        /// Time that one iteration takes as simulated: M micro-batches, then a flush.
        Iteration = "iteration",
        /// Time of one micro-batch, or token, through all stages and in training back, alone: an iteration of one, as simulated.
        Latency = "latency",
        /// Tokens that the devices have room for, as many as possible; then a time.
        Tokens = "tokens",
        /// Time of one iteration by the standard formula: the sum of the loads and M - 1 times the busiest.
        Formula = "formula",
    }
}

impl Objective {
    /// Its formula under a schedule, for so many micro-batches, at least one. Where an iteration [has none](Self::is_simulated), the
    /// one that comes near it: a guide for heuristics, not what a plan costs.
    #[doc(hidden)]
    pub fn formula(self, schedule: Schedule, micro_batches: u64) -> Formula {
        match self {
            Self::Period | Self::Tokens => Formula {
                counts_loads: false,
                weight: 1,
                bottlenecks: Bottlenecks::Together,
            },
            Self::Latency => Formula {
                counts_loads: true,
                weight: 0,
                bottlenecks: Bottlenecks::Together,
            },
            Self::Iteration | Self::Formula => Formula {
                counts_loads: true,
                weight: micro_batches.saturating_sub(1),
                bottlenecks: schedule.bottlenecks(),
            },
        }
    }

    /// Whether it is what a simulation says, because no formula does: of a flow shop of identical jobs the formula is exact, which all
    /// forward passes and all backward passes are where the one end before the other start, or there are only the ones, and a stage
    /// does one thing at a time ([`mod@crate::schedule::simulate`]). One micro-batch alone waits for nobody: without links it takes what
    /// all stages do.
    pub fn is_simulated(self, schedule: Schedule, trains: bool, has_links: bool) -> bool {
        match self {
            Self::Period | Self::Tokens | Self::Formula => false,
            Self::Latency => has_links,
            Self::Iteration if schedule == Schedule::Concurrent => true,
            Self::Iteration => has_links || (trains && !schedule.is_all_forward_first()),
        }
    }

    /// Whether it is a time from one flush to the next: then there must be flushes, and a number of micro-batches between them.
    pub fn is_of_iterations(self) -> bool {
        match self {
            Self::Period | Self::Latency | Self::Tokens => false,
            Self::Iteration | Self::Formula => true,
        }
    }

    /// How many of so many micro-batches it is the time of.
    #[doc(hidden)]
    pub fn micro_batches(self, of: Option<u64>) -> u64 {
        match self {
            Self::Period | Self::Latency | Self::Tokens => 1,
            Self::Iteration | Self::Formula => of.unwrap_or(1),
        }
    }
}

/// An objective as a function of stages, see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formula {
    /// Whether the loads of all stages count once.
    pub counts_loads: bool,
    /// How often a bottleneck counts.
    pub weight: u64,
    /// Which bottlenecks.
    pub bottlenecks: Bottlenecks,
}

impl Formula {
    /// Whether the objective is the busiest stage and nothing else, so that a limit on one is a limit on the other.
    pub fn is_bottleneck(&self) -> bool {
        !self.counts_loads && self.weight == 1 && self.bottlenecks == Bottlenecks::Together
    }

    /// What a load adds to the objective beside the bottlenecks, in ns.
    pub fn once_ns(&self, load_ns: u64) -> u64 {
        if self.counts_loads { load_ns } else { 0 }
    }

    /// The objective of stages with so much that counts once and these bottlenecks, in ns.
    pub fn value_ns(&self, once_ns: u64, bottlenecks_ns: [u64; 2]) -> u64 {
        // An iteration of many micro-batches has no limit where it is not the objective.
        let again_ns = self.weight.saturating_mul(bottlenecks_ns[0] + bottlenecks_ns[1]);
        once_ns.saturating_add(again_ns)
    }
}
