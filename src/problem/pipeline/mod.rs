//! What runs when stages work: their times, lanes and orders, and an event loop that tells when every task takes place.
//!
//! [`mod@crate::schedule::simulate`] runs plans on it, under disturbances if asked, and says what it models; [`crate::problem::cost`] asks for the time of
//! an [iteration](iteration_ns) where that is the objective.

mod chunks;
mod engine;
mod operations;
pub mod schedule;
mod steady;
mod streams;

pub use crate::model::schedule::Phase;
pub use chunks::Moves;
pub(crate) use chunks::{chunks_as_laid, chunks_of_pipeline};
pub(crate) use engine::{Run, Task, Turns, run, try_run};
pub use operations::{ChunkTimes, Delay, Path, Sequence};
pub(crate) use schedule::Leads;
pub(crate) use steady::{Pace, steady};
pub use streams::{Activity, Resource};
pub(crate) use streams::{Lane, Position, Stream, Streams};

use crate::model::options::{Schedule, WorkerMode};
use crate::model::settings::Settings;
use schedule::InFlight;

/// A pipeline that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The stages, in pipeline order; at least one.
    pub stages: Vec<StageTimes>,
    /// Whether there is backward propagation.
    pub trains: bool,
    /// What forward and backward propagation of a stage run on.
    pub channels: Channels,
    /// Whether transfers run on links beside the work; otherwise the worker waits for them.
    pub has_links: bool,
}

/// What forward and backward propagation of a stage run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// One worker for both, which take turns.
    Shared,
    /// One channel each, which run at the same time: times are those under the worker's shares.
    Split,
}

/// Times of one stage for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes {
    /// Forward propagation.
    pub forward: PhaseTimes,
    /// Backward propagation.
    pub backward: PhaseTimes,
    /// The part of its work that is gradients of weights, in ns; 0 where nobody says.
    pub weight_ns: u64,
    /// Replicas, at least one, each with worker and links of its own. Micro-batch m runs on replica m modulo their number, and takes there
    /// the times that are said here.
    pub replicas: u64,
    /// What it does once, when the last task of all its replicas is done, in ns: they exchange their gradients.
    pub once_ns: u64,
}

/// Times of one stage in one phase, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Transfers received.
    pub in_ns: u64,
    /// Work.
    pub work_ns: u64,
    /// Transfers sent.
    pub out_ns: u64,
}

impl Pipeline {
    /// Stages of these times, which run as settings say.
    pub(crate) fn new(settings: &Settings, stages: Vec<StageTimes>) -> Self {
        Self {
            stages,
            trains: settings.mode.trains(),
            channels: match settings.worker {
                WorkerMode::Sequential => Channels::Shared,
                WorkerMode::Concurrent => Channels::Split,
            },
            has_links: settings.communication.has_links(),
        }
    }

    /// How far a stage is from the end, from 1, in micro-batches that one of its replicas takes: all replicas from here on, shared out
    /// among its own. Without replicas that is the number of stages.
    pub(crate) fn distance_from_end(&self, stage: usize) -> u64 {
        let replicas: u64 = self.stages[stage..].iter().map(|stage| stage.replicas).sum();
        replicas.div_ceil(self.stages[stage].replicas)
    }
}

impl PhaseTimes {
    /// All of it, in ns.
    pub fn total_ns(&self) -> u64 {
        self.in_ns + self.work_ns + self.out_ns
    }
}

/// Micro-batches in flight on every replica of every stage, as many as hide overlapped transfers, and never more than there are.
pub fn hiding_in_flight(pipeline: &Pipeline, order: Schedule, micro_batches: u64) -> Vec<u64> {
    let streams = Streams::new(pipeline);
    let leads = Leads::new(pipeline, &streams, order, InFlight::Hiding, micro_batches);
    let leads = leads.in_flight.into_iter();
    leads.map(|lead| lead.min(micro_batches)).collect()
}

/// The time of one iteration in ns, undisturbed.
pub fn iteration_ns(pipeline: &Pipeline, order: Schedule, in_flight: InFlight, micro_batches: u64) -> u64 {
    let streams = Streams::new(pipeline);
    let leads = Leads::new(pipeline, &streams, order, in_flight, micro_batches);
    let undisturbed = |stream: &Stream, _: usize, _: u64| stream.parts;
    let turns = Turns::Leads {
        leads: &leads,
        reversed: order.is_all_forward_first(),
    };
    let run = run(&streams, &turns, micro_batches as usize, &undisturbed);
    makespan_ns(pipeline, &streams, &run)
}

/// When the last task ends, and what stages do once after their own last one.
pub(crate) fn makespan_ns(pipeline: &Pipeline, streams: &Streams, run: &Run) -> u64 {
    let end_ns = |(stream, tasks): (&Stream, &Vec<Task>)| {
        let last = tasks.iter().map(Task::end_ns).max()?;
        Some(last + pipeline.stages[stream.stage].once_ns)
    };
    streams
        .streams
        .iter()
        .zip(run)
        .filter_map(end_ns)
        .max()
        .unwrap_or(0)
}
