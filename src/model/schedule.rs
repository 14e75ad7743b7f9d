//! Schedules: the order in which the stages of a pipeline work, and what follows from it.
//!
//! Each fact about a schedule is one exhaustive match here: a new schedule is a variant, and the compiler lists the facts.
//! [`mod@crate::check`] states on its own what a plan of a schedule holds and costs.
//!
//! Schedules of several chunks a device, and most others, are [rules] that write down what every device does, one
//! operation after the other. [`in_flight`] reads off such an order what devices hold.

mod chunks;
#[doc(hidden)]
pub mod in_flight;
mod order;
#[doc(hidden)]
pub mod rules;

pub use chunks::Placement;
#[doc(hidden)]
pub use chunks::{Chunk, Chunks};
#[doc(hidden)]
pub use order::{Operation, Order, Phase};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::communication::Communication;
use crate::model::named_values::named_values;

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
        /// 1F1B over several chunks a device in a loop.
        Interleaved = "interleaved",
        /// Two chunks a device in a V, with the memory of 1F1B.
        ZbV = "zb-v",
        /// Two chunks a device in a V, with half the memory of 1F1B.
        VHalf = "v-half",
        /// Two chunks a device in a V, with a third of the memory of 1F1B.
        VMin = "v-min",
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
    /// has stages; where they run at once, each phase of a stage takes up to a period. GPipe holds all there are. What devices of
    /// several chunks hold is no matter of stages: [`in_flight`]; here it is all there are, which is never too few.
    pub fn in_flight(self, forward: u64, backward: u64, all: u64) -> u64 {
        match self {
            Self::Gpipe | Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => all,
            Self::OneFOneB | Self::Pipedream => forward.max(backward),
            Self::Concurrent => forward + backward,
        }
    }

    /// Copies of the weights that a stage holds in training, `from_end` = 1 for the last stage: one, but with PipeDream's weight
    /// stashing one for each micro-batch in flight.
    pub fn weight_versions(self, from_end: u64) -> u64 {
        match self {
            Self::Pipedream => from_end,
            Self::Gpipe | Self::OneFOneB | Self::Concurrent => 1,
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => 1,
        }
    }

    /// Whether micro-batches come in iterations, with an update of the weights and an empty pipeline between two.
    pub fn flushes(self) -> bool {
        match self {
            Self::Pipedream => false,
            Self::Gpipe | Self::OneFOneB | Self::Concurrent => true,
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => true,
        }
    }

    /// Whether every forward pass of an iteration comes before every backward pass.
    pub fn is_all_forward_first(self) -> bool {
        match self {
            Self::Gpipe => true,
            Self::OneFOneB | Self::Pipedream | Self::Concurrent => false,
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => false,
        }
    }

    /// Whether it is for devices of several chunks and no others.
    pub fn needs_virtual_stages(self) -> bool {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::Pipedream | Self::Concurrent => false,
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => true,
        }
    }

    /// The rule that writes its orders, under the same name; `None` for what is no order of one operation after the other, or never
    /// ends.
    #[doc(hidden)]
    pub fn rule(self) -> Option<&'static rules::Rule> {
        match self {
            Self::Pipedream | Self::Concurrent => None,
            Self::Gpipe | Self::OneFOneB => rules::find(&self.to_string()),
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => rules::find(&self.to_string()),
        }
    }

    /// The bottlenecks that the time of an iteration weighs: of each phase, where one ends before the other starts.
    #[doc(hidden)]
    pub fn bottlenecks(self) -> Bottlenecks {
        match self.is_all_forward_first() {
            true => Bottlenecks::ByPhase,
            false => Bottlenecks::Together,
        }
    }

    /// How its workers run the two phases.
    pub fn worker(self) -> WorkerMode {
        match self {
            Self::Concurrent => WorkerMode::Concurrent,
            Self::Gpipe | Self::OneFOneB | Self::Pipedream => WorkerMode::Sequential,
            Self::Interleaved | Self::ZbV | Self::VHalf | Self::VMin => WorkerMode::Sequential,
        }
    }

    /// Where nothing is said: the schedule of such workers.
    pub fn default_for(worker: WorkerMode) -> Self {
        match worker {
            WorkerMode::Sequential => Self::OneFOneB,
            WorkerMode::Concurrent => Self::Concurrent,
        }
    }

    /// Where nothing is said and devices have several chunks: the schedule for such a placement.
    pub fn default_for_chunks(placement: Placement) -> Self {
        match placement {
            Placement::Loop => Self::Interleaved,
            Placement::V => Self::ZbV,
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
