//! What a run shows: its period, how busy every lane is, and how many micro-batches are in flight.

use super::engine::{Run, Task};
use super::streams::{Lane, Streams};

/// The time between micro-batches in steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    /// In ns.
    pub ns: f64,
    /// Whether the run is periodic, so that the value is exact; otherwise it is an average.
    pub is_exact: bool,
}

/// Measures the period from when micro-batches leave the pipeline, without the last `draining` of them.
///
/// If from the middle on the differences repeat after at most [`LONGEST_CYCLE`] micro-batches, the period is their mean over
/// one cycle; else over the second half. `None` where fewer than four micro-batches are left.
pub(super) fn period(streams: &Streams, run: &Run, draining: usize) -> Option<Period> {
    let last = streams.positions.last()?.compute;
    let left: Vec<u64> = run[last].iter().map(Task::end_ns).collect();
    let left = &left[..left.len().saturating_sub(draining)];
    if left.len() < 4 {
        return None;
    }
    let half = &left[left.len() / 2 - 1..];
    let mean = |from: usize| {
        let count = half.len() - 1 - from;
        (half[half.len() - 1] - half[from]) as f64 / count as f64
    };
    let repeats = |cycle: usize| {
        let difference = |at: usize| half[at + 1] - half[at];
        (0..half.len() - 1 - cycle).all(|at| difference(at) == difference(at + cycle))
    };
    let longest = LONGEST_CYCLE.min((half.len() - 1) / 2);
    let cycle = (1..=longest).find(|&cycle| repeats(cycle));
    Some(Period {
        ns: mean(cycle.map_or(0, |cycle| half.len() - 1 - cycle)),
        is_exact: cycle.is_some(),
    })
}

/// Cycles are short: one lane sets the pace, and it does the same for every micro-batch.
const LONGEST_CYCLE: usize = 16;

/// When the last task ends.
pub(super) fn makespan_ns(run: &Run) -> u64 {
    run.iter().flatten().map(Task::end_ns).max().unwrap_or(0)
}

/// How long a lane was busy, in ns.
pub(super) fn busy_ns(lane: &Lane, run: &Run) -> u64 {
    let streams = [lane.forward, lane.backward].into_iter().flatten();
    let tasks = streams.flat_map(|s| &run[s]);
    tasks.map(|task| task.parts.iter().sum::<u64>()).sum()
}

/// The most micro-batches that a stage had in flight: from the start of forward to the end of backward propagation, or of
/// forward propagation in inference.
pub(super) fn most_in_flight(streams: &Streams, run: &Run, stage: usize) -> u64 {
    let of_stage = |position: &&super::streams::Position| streams.streams[position.compute].stage == stage;
    let mut positions = streams.positions.iter().filter(of_stage);
    let Some(first) = positions.next() else {
        return 0;
    };
    let last = positions.next().unwrap_or(first);
    let mut starts: Vec<u64> = run[first.compute].iter().map(|task| task.start_ns).collect();
    let mut ends: Vec<u64> = run[last.compute].iter().map(Task::end_ns).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let in_flight = starts.iter().enumerate().map(|(at, start)| {
        let ended = ends.partition_point(|end| end <= start).min(at);
        at + 1 - ended
    });
    in_flight.max().unwrap_or(0) as u64
}
