//! Times of the operations of chunks, where a plan has virtual stages and its order is run as it is (`schedules::run`).

use super::disturbance::Disturbance;
use super::{Pipeline, Request, check_size};
use crate::model::fault::InputError;
use crate::model::schedule::Operation;
use crate::problem::pipeline::{Activity, Phase, PhaseTimes, Stream, Streams};
use crate::problem::plan::Plan;

/// What operations of a plan's chunks take under a trace and jitter: as tasks of stages do, see [`simulate`](super::simulate()).
pub struct ChunkTimes<'a> {
    pipeline: Pipeline,
    disturbance: Disturbance<'a>,
}

impl<'a> ChunkTimes<'a> {
    /// Those of a plan, for a run of so many micro-batches under the trace and the jitter of a request.
    ///
    /// # Errors
    ///
    /// Those of [`Pipeline::from_plan`], and more tasks or longer times than can be counted exactly.
    pub fn new(plan: &'a Plan, request: &'a Request, micro_batches: u64) -> Result<Self, InputError> {
        let pipeline = Pipeline::from_plan(plan)?;
        check_size(&Streams::new(&pipeline), micro_batches, request)?;
        Ok(Self {
            pipeline,
            disturbance: Disturbance::new(plan, request),
        })
    }

    /// What an operation takes that starts then, in ns: its work, and its transfers where the device waits for them.
    pub fn duration_ns(&self, operation: Operation, start_ns: u64) -> u64 {
        let times = &self.pipeline.stages[operation.chunk];
        let whole = times.backward;
        let of = match operation.phase {
            Phase::Forward => times.forward,
            Phase::Backward => whole,
            Phase::InputGradient => PhaseTimes {
                work_ns: whole.work_ns - times.weight_ns,
                ..whole
            },
            Phase::WeightGradient => PhaseTimes {
                work_ns: times.weight_ns,
                ..PhaseTimes::default()
            },
        };
        let parts = match self.pipeline.has_links {
            true => [0, of.work_ns, 0],
            false => [of.in_ns, of.work_ns, of.out_ns],
        };
        self.disturbed(operation, Activity::Compute, parts, start_ns)
    }

    /// What a transfer takes behind an operation, in ns, which would take `ns` undisturbed. Traces slow down work alone.
    pub fn delay_ns(&self, after: Operation, ns: u64) -> u64 {
        self.disturbed(after, Activity::Send, [0, 0, ns], 0)
    }

    fn disturbed(&self, of: Operation, activity: Activity, parts: [u64; 3], start_ns: u64) -> u64 {
        let stream = Stream {
            stage: of.chunk,
            phase: of.phase,
            activity,
            lane: 0,
            parts,
        };
        let parts = self.disturbance.parts(&stream, of.micro_batch, start_ns);
        parts.iter().sum()
    }
}
