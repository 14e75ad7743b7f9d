//! What makes tasks take other times than the plan's: a trace of device speeds, and jitter.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Request;
use super::trace::Trace;
use crate::model::units::ms_to_ns;
use crate::problem::pipeline::{Activity, Stream, Streams};
use crate::problem::plan::{Plan, PlanStage};

/// Random times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Every task takes its time times a factor from 1 - `fraction` to 1 + `fraction`, all equally likely. From 0 to 1.
    pub fraction: f64,
    /// The seed. A task's factor depends on it, the stage, the micro-batch and the phase, never on the order of events.
    pub seed: u64,
}

/// Trace and jitter of a run.
pub(super) struct Disturbance<'a> {
    pub trace: &'a Trace,
    /// The stages, whose devices are traced.
    pub stages: &'a [PlanStage],
    pub jitter: Option<Jitter>,
}

impl<'a> Disturbance<'a> {
    pub(super) fn new(plan: &'a Plan, request: &'a Request) -> Self {
        Self {
            trace: &request.trace,
            stages: &plan.stages,
            jitter: request.jitter,
        }
    }

    /// The times that streams come to have where nothing changes any more, after a time; `None` where there is no such: tasks differ by
    /// chance, or replicas of a stage by their devices.
    pub(super) fn settled(&self, streams: &Streams, after_ns: u64) -> Option<Streams> {
        if self.stages.iter().any(|stage| !stage.chunks_ms.is_empty()) {
            return None;
        }
        let mut settled = streams.clone();
        for stream in &mut settled.streams {
            let replicas = 0..self.stages[stream.stage].replicas();
            let mut parts = replicas.map(|replica| self.parts(stream, replica, after_ns));
            let first = parts.next()?;
            if self.jitter.is_some() || parts.any(|other| other != first) {
                return None;
            }
            stream.parts = first;
        }
        Some(settled)
    }

    /// The times of a task that starts now: to receive, work and send. Work takes the multiplier that holds at the start;
    /// each part is rounded to a whole nanosecond.
    pub(super) fn parts(&self, stream: &Stream, micro_batch: usize, now_ns: u64) -> [u64; 3] {
        let stage = &self.stages[stream.stage];
        let ns = |ms: f64| ms_to_ns(ms).unwrap_or(0);
        let moved = stage.chunk_transfers.get(micro_batch);
        let chunk = match stream.activity {
            Activity::Receive => moved.map(|moved| [ns(moved.in_ms), 0, 0]),
            Activity::Compute => stage.chunks_ms.get(micro_batch).map(|&ms| [0, ns(ms), 0]),
            Activity::Send => moved.map(|moved| [0, 0, ns(moved.out_ms)]),
        };
        let parts = chunk.unwrap_or(stream.parts);
        if self.jitter.is_none() && self.trace.is_empty() {
            return parts;
        }
        let factor = self
            .jitter
            .map_or(1.0, |jitter| factor(jitter, stream, micro_batch));
        let devices = stage.replica_devices(micro_batch % stage.replicas());
        let slow = self.trace.multiplier(devices, now_ns);
        let scaled = |ns: u64, by: f64| (ns as f64 * by).round() as u64;
        let [receive, work, send] = parts;
        [
            scaled(receive, factor),
            scaled(work, factor * slow),
            scaled(send, factor),
        ]
    }
}

fn factor(jitter: Jitter, stream: &Stream, micro_batch: usize) -> f64 {
    let task = [
        jitter.seed,
        stream.stage as u64,
        micro_batch as u64,
        (stream.phase as u64) << 8 | stream.activity as u64,
    ];
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip(task) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let unit: f64 = ChaCha8Rng::from_seed(key).random();
    1.0 + jitter.fraction * (2.0 * unit - 1.0)
}
