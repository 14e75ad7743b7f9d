//! Schedules: the order in which the stages of a pipeline work, and what follows from it.
//!
//! Each fact about a schedule is one exhaustive match here: a new schedule is a variant, and the compiler lists the facts.
//! [`mod@crate::check`] states on its own what a plan of a schedule holds and costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::communication::Communication;
use crate::named_values::named_values;

named_values! {
    /// The order in which the stages work.
    Schedule {
        /// All forward passes of an iteration, then all backward passes.
        Gpipe = "gpipe",
        /// One forward, one backward in steady state.
        OneFOneB = "1f1b",
        /// 1F1B without a flush, with a weight version for every micro-batch in flight.
        Pipedream = "pipedream",
        /// Forward and backward at once, on shares of each worker.
        Concurrent = "concurrent",
    }
}

named_values! {
    /// How a worker runs the two phases.
    WorkerMode {
        /// They take turns.
        Sequential = "sequential",
        /// Both at once, on shares of its resources.
        Concurrent = "concurrent",
    }
}

/// The bottlenecks that a formula adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottlenecks {
    /// The busiest stage, both phases together.
    Together,
    /// The stage that is busiest in forward propagation, and the one that is in backward propagation.
    ByPhase,
}

impl Schedule {
    /// Micro-batches of `all` whose stash a layer holds in training, if its forward pass lies `forward` and its backward pass
    /// `backward` stages from the end, from 1; more than `all` where few are.
    ///
    /// A micro-batch passes the last `forward` stages forwards and the last `backward` ones backwards. Where phases take
    /// turns, no stage is busy with both for more than a period, so that it is away for as many periods as the longer way
    /// has stages; where they run at once, each phase of a stage takes up to a period. GPipe holds all there are.
    pub fn in_flight(self, forward: u64, backward: u64, all: u64) -> u64 {
        match self {
            Self::Gpipe => all,
            Self::OneFOneB | Self::Pipedream => forward.max(backward),
            Self::Concurrent => forward + backward,
        }
    }

    /// Copies of the weights that a stage holds in training, `from_end` = 1 for the last stage: one, but with PipeDream's weight
    /// stashing one for each micro-batch in flight.
    pub fn weight_versions(self, from_end: u64) -> u64 {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::Concurrent => 1,
            Self::Pipedream => from_end,
        }
    }

    /// Whether micro-batches come in iterations, with an update of the weights and an empty pipeline between two.
    pub fn flushes(self) -> bool {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::Concurrent => true,
            Self::Pipedream => false,
        }
    }

    /// Whether every forward pass of an iteration comes before every backward pass.
    pub fn is_all_forward_first(self) -> bool {
        match self {
            Self::Gpipe => true,
            Self::OneFOneB | Self::Pipedream | Self::Concurrent => false,
        }
    }

    /// The bottlenecks that the time of an iteration weighs: of each phase, where one ends before the other starts.
    pub fn bottlenecks(self) -> Bottlenecks {
        match self.is_all_forward_first() {
            true => Bottlenecks::ByPhase,
            false => Bottlenecks::Together,
        }
    }

    /// How its workers run the two phases.
    pub fn worker(self) -> WorkerMode {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::Pipedream => WorkerMode::Sequential,
            Self::Concurrent => WorkerMode::Concurrent,
        }
    }

    /// Where nothing is said: the schedule of such workers.
    pub fn default_for(worker: WorkerMode) -> Self {
        match worker {
            WorkerMode::Sequential => Self::OneFOneB,
            WorkerMode::Concurrent => Self::Concurrent,
        }
    }

    /// Where nothing is said: how transfers cost time on its workers.
    pub fn default_communication(self) -> Communication {
        match self.worker() {
            WorkerMode::Sequential => Communication::Blocking,
            WorkerMode::Concurrent => Communication::Overlapped,
        }
    }
}
