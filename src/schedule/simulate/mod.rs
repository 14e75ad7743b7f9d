//! The simulator: runs a plan micro-batch by micro-batch, on whole nanoseconds, to which it rounds the plan's times.
//!
//! # What it models
//!
//! A stage has a *worker* that does one task at a time, forward or backward propagation of one micro-batch; a concurrent
//! worker has a *channel* for each. Where communication is `overlapped`, a stage also has a *link in* and a *link out*;
//! where it is `blocking`, the worker receives, works and sends, one after the other; where it is `ignored`, nothing is
//! moved.
//!
//! * Forward of a micro-batch on stage k waits for that on stage k-1 and its transfer, backward on stage k for that on
//!   stage k+1 and its transfer, and on the last stage for its forward. Tensors that skip stages are charged where the plan
//!   charges them, at both ends.
//! * Both ends of an overlapped transfer work at the same time: the link in may start when the link out does, and what
//!   comes next waits for both.
//! * Replicas of a stage are devices of their own: micro-batch m runs on replica m modulo their number, from its forward to its backward
//!   pass, and takes there as long as one replica takes. A replica has its own worker and links, and an order of its own: that of the table,
//!   over its own micro-batches, with ⌈(d_k + .. + d_q) / d_k⌉ in flight for q-k+1. Plans state times between micro-batches, a replica's
//!   divided by the replicas. What replicas exchange they exchange once, when the last of them is done with its last micro-batch, while other
//!   stages may still work.
//! * Every resource works in an order fixed before the run, so that results do not depend on ties:
//!
//! | schedule | order on a worker |
//! |---|---|
//! | `gpipe` | all forward, then all backward with the last micro-batch first, as in Huang et al.; flush |
//! | `1f1b` | q-k+1 forward on stage k of q, then one backward, one forward in turn, then the remaining backward; flush |
//! | `pipedream` | as 1F1B, for one stream of micro-batches: nothing is flushed, M is where the simulation stops |
//! | `concurrent` | forward and backward each in order, side by side; 2(q-k+1) in flight |
//!
//! Published rules of the registry that hold one chunk a device and run the two gradients of a backward pass apart, `zb-h1` and `zb-h2`, are
//! [`Listed`] orders: gradients of weights wait for those of the input on the same stage, nothing waits for them, and a micro-batch is in
//! flight until they end. Transfers, traces and jitter are as for schedules; a link moves things in the worker's order.
//!
//! A link alternates as workers do. Where no iteration is asked for, overlapped transfers may need more micro-batches in flight than the table says:
//! [`InFlight`]. Why these numbers are enough, and why no lane can deadlock, is argued in [`schedule`].
//!
//! In inference there is no backward propagation, all schedules are the same, and nothing limits the micro-batches in flight.
//!
//! # What is known of the times
//!
//! Without trace and jitter, for T the time of the busiest resource for one micro-batch and L_k the load F_k + B_k:
//!
//! * **Period.** 1F1B, PipeDream and concurrent schedules reach the period T exactly: the plan's objective. With replicas, or with too
//!   few micro-batches in flight to hide transfers, it can be longer: it is the pace that the order comes to in the long run, computed
//!   from what waits for what (`pipeline::steady`), however few micro-batches are run. With a trace it is measured, and called exact where
//!   it repeats and is the pace of the speeds at the end; with jitter it is an average.
//! * **GPipe** has no steady state. With `blocking` or `ignored` communication an iteration takes exactly the formula's
//!   Σ L_k + (M-1)(max F_k + max B_k): either phase is a flow shop of identical jobs, backward starts on the last stage when its
//!   last forward ends, and every other stage has then done its forward passes.
//! * **1F1B**, same communication, M micro-batches on q stages: an iteration takes at least Σ L_k + (M-1) L_q, since the
//!   last stage alternates without a break of its own and the first micro-batch has to get there and the last one back; and
//!   at most F_1 + B_1 + (M+q-2) T, when the timetable of [`schedule`] ends. With equal loads both are the formula's
//!   Σ L_k + (M-1) max L_k. With unequal loads the formula lies in the same range but is neither bound: work of other stages
//!   hides behind the busiest one (shorter), and a warm-up of long forward passes before long backward passes
//!   elsewhere delays the first backward (longer). The two differ by at most (q-1) T, since both lie from M T to
//!   (M+q-1) T. `--objective iteration` minimises the simulated time itself: `formulations/iteration.md`.
//!
//! # Disturbances
//!
//! A [`Trace`] multiplies the work (not the transfers) of devices from given times on; a task takes the multiplier at its
//! start, and a replica of several devices the largest of theirs. [`Jitter`] multiplies every task by a random factor. For plans with
//! virtual stages [`ChunkTimes`] says the same of operations, which `schedules` runs in the order of the plan's schedule.

mod chunks;
mod disturbance;
mod listed;
mod measure;
mod outcome;
mod pipeline;
mod trace;

pub use crate::problem::pipeline::schedule::{self, InFlight};
pub use crate::problem::pipeline::{
    Activity, Channels, Phase, PhaseTimes, Pipeline, Resource, StageTimes, hiding_in_flight, iteration_ns,
};
#[doc(hidden)]
pub use chunks::ChunkTimes;
pub use disturbance::Jitter;
#[doc(hidden)]
pub use listed::Listed;
pub use outcome::{Event, Lane, OrderName, SCHEMA, Simulation, StageInFlight};
pub use trace::{COLUMNS, Trace};

use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::{Schedule, WorkerMode};
use crate::model::setting;
use crate::model::units::{LARGEST_EXACT, NS_PER_MS, ns_to_ms};
use crate::model::words::words;
use crate::problem::pipeline::{Leads, Run, Streams, Turns, steady, try_run};
use crate::problem::plan::{Plan, PlanRun, PlanStage};
use disturbance::Disturbance;
use outcome::Simulated;

/// What to simulate of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Micro-batches. Default: the plan's, else [`default_micro_batches`].
    pub micro_batches: Option<u64>,
    /// The schedule. Default: the plan's.
    pub order: Option<Schedule>,
    /// An order of operations in place of a schedule's.
    #[doc(hidden)]
    pub listed: Option<Listed>,
    /// How many micro-batches may be in flight. Default: the schedule's own number where the plan says how many an iteration has, or has no memory for more; else
    /// enough to hide overlapped transfers.
    pub in_flight: Option<InFlight>,
    /// Device speeds over time.
    pub trace: Trace,
    /// Random times.
    pub jitter: Option<Jitter>,
}

/// Micro-batches where neither plan nor user says: four a stage, or a replica where it has several, and at least eight, so that the
/// pipeline is full for most of the time and the timeline can still be read.
pub fn default_micro_batches(stages: usize) -> u64 {
    (stages as u64).saturating_mul(4).max(8)
}

/// Micro-batches that are run of a plan: those asked for, the plan's, or [`default_micro_batches`].
pub fn micro_batches(plan: &Plan, asked: Option<u64>) -> u64 {
    asked
        .or(plan.problem.micro_batches)
        .unwrap_or_else(|| default_micro_batches(plan.workers()))
}

/// Simulates a plan.
///
/// # Errors
///
/// A plan with virtual stages, without stages or with times that are none ([`Pipeline::from_plan`]), a schedule that its workers cannot
/// run, an order that is not one of the plan's stages, and more tasks or longer times than can be counted exactly.
pub fn simulate(plan: &Plan, request: &Request) -> Result<Simulation, InputError> {
    refuse_virtual_stages(plan)?;
    let pipeline = Pipeline::from_plan(plan)?;
    if let Some(listed) = &request.listed {
        return listed::simulate(plan, &pipeline, listed, request);
    }
    let order = order_of(plan, &pipeline, request.order)?;
    let micro_batches = micro_batches(plan, request.micro_batches);
    check_chunks(plan, micro_batches)?;
    let streams = Streams::new(&pipeline);
    check_size(&streams, micro_batches, request)?;
    let in_flight = request.in_flight.unwrap_or(in_flight_of(plan));
    let leads = Leads::new(&pipeline, &streams, order, in_flight, micro_batches);
    let turns = Turns::Leads {
        leads: &leads,
        reversed: order.is_all_forward_first(),
    };
    // Orders of leads can always be run.
    let run = disturbed(plan, &streams, &turns, micro_batches, request).unwrap_or_default();
    let simulated = Simulated {
        plan,
        pipeline: &pipeline,
        order: OrderName::Schedule(order),
        micro_batches,
        streams: &streams,
        leads: Some(&leads),
        request,
        run: &run,
    };
    Ok(Simulation::new(&simulated))
}

/// A run under the trace and jitter that are asked for.
fn disturbed(
    plan: &Plan,
    streams: &Streams,
    turns: &Turns,
    micro_batches: u64,
    request: &Request,
) -> Option<Run> {
    let disturbance = Disturbance::new(plan, request);
    let parts = |stream: &_, micro_batch, now_ns| disturbance.parts(stream, micro_batch, now_ns);
    try_run(streams, turns, micro_batches as usize, &parts)
}

/// How many micro-batches a plan lets be in flight: in iterations of which it says how many they have the schedule's own number, as in a stream without end
/// where some stage has no memory for more, or replicas, for which nobody has asked, would hold it; else as many as hide overlapped transfers.
fn in_flight_of(plan: &Plan) -> InFlight {
    let takes_turns = plan.stages.iter().any(|stage| stage.replicas() > 1);
    let flushes = plan.problem.schedule.is_some_and(|schedule| schedule.flushes());
    let has_iterations = flushes && plan.problem.micro_batches.is_some();
    match plan.overruns.is_empty() && !takes_turns && !has_iterations {
        true => InFlight::Hiding,
        false => InFlight::Standard,
    }
}

/// Micro-batches in flight on every replica of every stage of a plan, as many as hide overlapped transfers: what [`InFlight::Hiding`] lets the
/// simulation have, and never more than there are.
///
/// # Errors
///
/// Those of [`simulate`] with times beyond what can be counted exactly.
pub fn in_flight(plan: &Plan) -> Result<Vec<u64>, InputError> {
    refuse_virtual_stages(plan)?;
    let pipeline = Pipeline::from_plan(plan)?;
    let order = order_of(plan, &pipeline, None)?;
    let streams = Streams::new(&pipeline);
    check_times(&streams, 2.0, 1.0)?;
    let micro_batches = plan.problem.micro_batches.unwrap_or(u64::MAX);
    Ok(hiding_in_flight(&pipeline, order, micro_batches))
}

/// How a plan runs by its own schedule, with as many micro-batches as it says; `None` where that is not told, or too much to be run.
pub(crate) fn run_of(plan: &Plan) -> Option<PlanRun> {
    /// A moment for each plan that is checked.
    const MOST_TASKS: u64 = 100_000;
    let micro_batches = plan
        .problem
        .micro_batches
        .filter(|_| plan.problem.chunks.is_none())?;
    plan.problem.schedule.filter(|schedule| schedule.flushes())?;
    if plan.order.is_some() || plan.virtual_stages().is_some() {
        return None;
    }
    let pipeline = Pipeline::from_plan(plan).ok()?;
    let order = order_of(plan, &pipeline, None).ok()?;
    let streams = Streams::new(&pipeline);
    let tasks = micro_batches.saturating_mul(streams.streams.len() as u64);
    if !(1..=MOST_TASKS).contains(&tasks) || check_times(&streams, micro_batches as f64, 1.0).is_err() {
        return None;
    }
    let in_flight = InFlight::Standard;
    let iteration_ns = iteration_ns(&pipeline, order, in_flight, micro_batches);
    let pace = match pipeline.trains && order.is_all_forward_first() {
        true => streams.busiest(),
        false => {
            let leads = Leads::new(&pipeline, &streams, order, in_flight, micro_batches);
            steady(&pipeline, &streams, &leads)
        }
    };
    (iteration_ns > 0)
        .then(|| PlanRun::new(ns_to_ms(iteration_ns), pace.each_ns() / NS_PER_MS, micro_batches))
}

/// Refuses a plan whose devices have several chunks: these run in the order of a rule, see `schedules`.
fn refuse_virtual_stages(plan: &Plan) -> Result<(), InputError> {
    let Some(chunks) = plan.virtual_stages() else {
        return Ok(());
    };
    let kind = FaultKind::Unsupported {
        found: format!("{chunks} virtual stages on every device").into(),
        expected: "a stage a device; the command `simulate` runs the order of the plan's schedule".into(),
    };
    Err(InputError {
        path: None,
        faults: vec![Fault::new("the plan", kind)],
    })
}

/// The schedule asked for, or the plan's, if the plan's workers can run it.
fn order_of(plan: &Plan, pipeline: &Pipeline, asked: Option<Schedule>) -> Result<Schedule, InputError> {
    let worker = match pipeline.channels {
        Channels::Split => WorkerMode::Concurrent,
        Channels::Shared => WorkerMode::Sequential,
    };
    let order = asked
        .or(plan.problem.schedule)
        .unwrap_or(Schedule::default_for(worker));
    let of_chunks = order.needs_virtual_stages();
    if order.worker() == worker && !of_chunks {
        return Ok(order);
    }
    let (found, expected) = match worker {
        WorkerMode::Sequential if of_chunks => (
            "one chunk a device",
            words!(
                "{}, `1f1b`, `pipedream`, `zb-h1` or `zb-h2`, or a plan with virtual stages",
                setting::SCHEDULE.given("gpipe")
            ),
        ),
        WorkerMode::Concurrent => (
            "workers that run both phases at once",
            words!("{}", setting::SCHEDULE.given("concurrent")),
        ),
        WorkerMode::Sequential => (
            "workers without shares",
            words!("{}, `1f1b` or `pipedream`", setting::SCHEDULE.given("gpipe")),
        ),
    };
    Err(InputError::option(
        setting::SCHEDULE,
        FaultKind::Contradiction {
            found: format!("`{order}` for a plan with {found}").into(),
            expected,
        },
    ))
}

/// Refuses micro-batches that are not the chunks of a prompt, and chunks that take longer than can be counted.
fn check_chunks(plan: &Plan, micro_batches: u64) -> Result<(), InputError> {
    if plan.problem.chunks.is_none() {
        return Ok(());
    }
    let lengths = |stage: &PlanStage| {
        let moved = Some(stage.chunk_transfers.len()).filter(|&count| count > 0);
        [Some(stage.chunks_ms.len()), moved].into_iter().flatten()
    };
    let mut lengths = plan.stages.iter().flat_map(lengths).map(|count| count as u64);
    if let Some(other) = lengths.find(|&chunks| chunks != micro_batches) {
        let found = format!("{micro_batches} of a prompt whose stages have times of {other} chunks").into();
        let expected = words!("as many as there are {}, or nothing", setting::CHUNKS);
        return Err(InputError::option(
            setting::MICRO_BATCHES,
            FaultKind::Contradiction { found, expected },
        ));
    }
    let work_ms = plan.stages.iter().flat_map(|stage| &stage.chunks_ms);
    let moved = plan.stages.iter().flat_map(|stage| &stage.chunk_transfers);
    let all_ms = work_ms.sum::<f64>() + moved.map(|moved| moved.in_ms + moved.out_ms).sum::<f64>();
    let (found, most, unit) = (all_ms * NS_PER_MS, LARGEST_EXACT, "ns");
    match found <= most as f64 {
        true => Ok(()),
        false => Err(InputError::option(
            setting::CHUNKS,
            FaultKind::Overflow { found, most, unit },
        )),
    }
}

/// Refuses what would not fit memory or whole nanoseconds.
fn check_size(streams: &Streams, micro_batches: u64, request: &Request) -> Result<(), InputError> {
    /// Tasks; each has up to three events, of some hundred bytes until they are written.
    const MOST_TASKS: f64 = 5e5;
    let tasks = streams.streams.len() as f64 * micro_batches as f64;
    if micro_batches == 0 || tasks > MOST_TASKS {
        return Err(InputError::option(
            setting::MICRO_BATCHES,
            FaultKind::BadNumber {
                found: micro_batches as f64,
                expected: "a whole number from 1, and no more than 500000 tasks in all",
            },
        ));
    }
    let slowest = request.trace.largest() * (1.0 + request.jitter.map_or(0.0, |jitter| jitter.fraction));
    check_times(streams, micro_batches as f64, slowest)
}

/// Refuses times that so many micro-batches push out of the exact range, when every task takes `slowest` times as long.
fn check_times(streams: &Streams, micro_batches: f64, slowest: f64) -> Result<(), InputError> {
    let once: u64 = streams
        .streams
        .iter()
        .map(|stream| stream.total_ns())
        .fold(0, u64::saturating_add);
    let rounds = micro_batches + 2.0 * streams.positions.len() as f64;
    let found = once as f64 * rounds * slowest;
    match found > LARGEST_EXACT as f64 {
        true => Err(InputError {
            path: None,
            faults: vec![Fault::new(
                "the simulation",
                FaultKind::Overflow {
                    found,
                    most: LARGEST_EXACT,
                    unit: "ns",
                },
            )],
        }),
        false => Ok(()),
    }
}
