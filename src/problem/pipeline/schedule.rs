//! In which order every lane works: fixed before the run, so that a run is deterministic and cannot deadlock.
//!
//! A lane with forward and backward tasks starts with *lead* forward ones, then strictly alternates, and ends with what is
//! left of the backward ones: 1F1B. With a lead of M it is GPipe.
//!
//! # How many micro-batches a schedule needs in flight
//!
//! A stage's lead is the number of micro-batches it has in flight. Let T be the time of the busiest lane for one
//! micro-batch. A *timetable* that repeats every T gives the leads: follow one micro-batch through the pipeline and put
//! every task at the first time at which it is ready and its lane is free, where the lane's other task of the same period
//! counts as taken. That is always possible, for the two together take at most T. The timetable says how many forward
//! tasks a lane has done before the first backward one, its lead. The timetable of micro-batch m is that of the first, mT
//! later, and it respects every order and precedence of the simulation. The simulation starts every task as early as the
//! same order allows, so it is never later than the timetable, and over many micro-batches its period is at most T; the
//! busiest lane says that it is at least T.
//!
//! * **1F1B and PipeDream without links** (`blocking`, `ignored`): stage k of q never needs more than q-k+1. By induction
//!   from the last stage, where forward ends at the time a + F and backward may start at once (1 in flight): if backward of
//!   stage k+1 starts at F + (q-k-1)T after its forward started, that of stage k is ready no later than F + (q-k)T after
//!   its own, since F + B <= T on stage k+1. The timetable here waits until that time, so that leads are exactly q-k+1,
//!   PipeDream's and Megatron's.
//! * **1F1B with links** (`overlapped`): a transfer takes time but no worker, and q-k+1 may be too few to hide it. Two
//!   stages with F = B = 1 and transfers of 1 each way: a micro-batch is away from stage 1 for 1 + 2 + 1 ms after its
//!   forward and its backward takes 1 more, 6 ms in all; with two in flight the period is 3 ms, with three it is the 2 ms
//!   of the plan. [`InFlight::Hiding`] takes as many as the timetable needs; [`InFlight::Standard`] keeps to q-k+1, as frameworks do, whose
//!   memory the plan has counted, and links carry things in the order in which the worker makes and needs them: nothing waits for a link that
//!   would not wait for the worker.
//! * **Concurrent**: a stage has forward of one and backward of another in work at the same time, so the r-th stage from
//!   the end needs 2r, counted from the start of forward to the end of backward: the micro-batch is away for
//!   Σ (F + B) <= 2rT. One fewer is not enough: a single stage with F = B = T and one in flight takes 2T a micro-batch.
//!   (2r-1 are enough if a stage may start the next forward as soon as the oldest backward has *started*.) `Standard` with links takes the
//!   orders of the shortest period found that needs no more.
//!
//! # Replicas
//!
//! Replicas of a stage take turns, each with a lane and an order of its own: its own micro-batches come in the order of the schedule. With
//! d_k replicas a micro-batch of stage k that is away for S_k T, where S_k = d_k + .. + d_q, is away for S_k / d_k turns of its replica, and
//! ⌈S_k / d_k⌉ is how many each replica holds: Tarnawski et al. (NeurIPS 2021) count so, and so does the memory of plans. In the timetable
//! a lane with replicas repeats every d_k T. No lane can wait for itself: a backward pass is behind forward passes up to that of the
//! micro-batch (⌈S_k / d_k⌉ - 1) d_k < S_k - d_k + d_k later, and on the stage before these wait for backward passes of micro-batches
//! that are earlier by more than that. But where d_k does not divide S_k a pass that is
//! ready waits for the turn of its replica, the stages before have it away for longer than they have micro-batches for, and the period
//! of the order is longer than the busiest lane's: `pipeline::steady` says how long. [`InFlight::Hiding`] holds more instead.
//!
//! The timetable: O(q) for q stages; `Standard` of concurrent workers with links tries O(log) periods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::streams::Streams;
use super::{Channels, Phase, Pipeline};
use crate::model::options::Schedule;
use crate::model::units::bisect;

/// How many micro-batches a stage may have in flight, where transfers are overlapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum InFlight {
    /// As many as hide the transfers, which may take more memory than the plan has counted
    Hiding,
    /// The schedule's own: q-k+1 at stage k, or 2(q-k+1) where forward and backward run at the same time
    Standard,
}

/// What fixes the order of every lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leads {
    /// For every lane, how many forward tasks are ahead of the backward ones.
    pub lanes: Vec<u64>,
    /// For every stage, the most micro-batches in flight on each of its replicas.
    pub in_flight: Vec<u64>,
}

impl Leads {
    /// The orders of a schedule for so many micro-batches.
    pub(crate) fn new(
        pipeline: &Pipeline,
        streams: &Streams,
        order: Schedule,
        in_flight: InFlight,
        micro_batches: u64,
    ) -> Self {
        let stages = pipeline.stages.len();
        let own = |k: usize| {
            let distance = pipeline.distance_from_end(k);
            order.in_flight(distance, distance, micro_batches)
        };
        let standard: Vec<u64> = (0..stages).map(own).collect();
        if order.is_all_forward_first() || !pipeline.trains {
            return Self {
                lanes: vec![micro_batches; streams.lanes.len()],
                in_flight: vec![micro_batches; stages],
            };
        }
        if in_flight == InFlight::Standard && pipeline.channels == Channels::Shared {
            return Self {
                lanes: streams.lanes.iter().map(|lane| standard[lane.stage]).collect(),
                in_flight: standard,
            };
        }
        let at = |period_ns: u64| timetable(pipeline, streams, period_ns, &standard);
        let least = streams.busiest().whole_ns().max(1);
        if in_flight == InFlight::Hiding || at(least).in_flight == standard {
            return at(least);
        }
        // A long enough period hides everything under any number in flight.
        let is_hidden = |period_ns: u64| at(period_ns).in_flight == standard;
        let (mut short, mut long) = (least, 2 * least);
        while !is_hidden(long) {
            (short, long) = (long, 2 * long);
        }
        at(bisect([short, long], is_hidden))
    }
}

/// The leads of a timetable that repeats every `period_ns` and has at least `least` in flight on each stage.
fn timetable(pipeline: &Pipeline, streams: &Streams, period_ns: u64, least: &[u64]) -> Leads {
    let mut leads = Leads {
        lanes: vec![1; streams.lanes.len()],
        in_flight: vec![1; least.len()],
    };
    let mut starts: Vec<u64> = vec![0; streams.streams.len()];
    // When the position before starts to send, and when all of it has arrived.
    let (mut sends, mut arrives) = (0, 0);
    for position in &streams.positions {
        let mut put = |s: usize, ready_ns: u64, starts: &mut [u64]| -> u64 {
            let stream = &streams.streams[s];
            let lane = &streams.lanes[stream.lane];
            let turn_ns = period_ns * lane.replicas as u64;
            let mut start = ready_ns;
            if let (Phase::Backward, Some(f)) = (stream.phase, lane.forward) {
                let forward_ns = streams.streams[f].total_ns();
                let away_ns = ready_ns + stream.total_ns() - starts[f];
                let needed = away_ns.div_ceil(turn_ns).max(1);
                let is_worker = s == position.compute;
                let lead = if is_worker {
                    needed.max(least[stream.stage])
                } else {
                    needed
                };
                leads.lanes[stream.lane..stream.lane + lane.replicas].fill(lead);
                start = ready_ns.max(starts[f] + forward_ns + (lead - 1) * turn_ns);
            }
            starts[s] = start;
            start
        };
        let mut ready = arrives;
        if let Some(s) = position.receive {
            let start = put(s, sends, &mut starts);
            ready = ready.max(start + streams.streams[s].total_ns());
        }
        let start = put(position.compute, ready, &mut starts);
        let done = start + streams.streams[position.compute].total_ns();
        (sends, arrives) = (done, done);
        if let Some(s) = position.send {
            sends = put(s, done, &mut starts);
            arrives = sends + streams.streams[s].total_ns();
        }
    }
    let stages = least.len();
    for (k, limit) in leads.in_flight.iter_mut().enumerate() {
        let backward = streams.positions[2 * stages - 1 - k].compute;
        let forward = streams.positions[k].compute;
        *limit = match pipeline.channels {
            Channels::Shared => leads.lanes[streams.streams[backward].lane],
            Channels::Split => {
                let away_ns = starts[backward] + streams.streams[backward].total_ns() - starts[forward];
                away_ns
                    .div_ceil(period_ns * pipeline.stages[k].replicas)
                    .max(least[k])
            }
        };
    }
    leads
}
