//! What a run shows: its period, how busy every lane is, and how many micro-batches are in flight.

use crate::problem::pipeline::{Lane, Pace, Position, Run, Streams, Task};

/// The time between micro-batches in steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    pub pace: Pace,
    /// Whether it is the same from some micro-batch on; otherwise it is an average.
    pub is_exact: bool,
}

/// Measures the period of a run from when micro-batches leave the pipeline, without the last `draining` of them.
///
/// If from the middle on the differences repeat after at most [`LONGEST_CYCLE`] micro-batches, or that many on every replica, the period
/// is their mean over one cycle; else over the second half. Few micro-batches can repeat what more of them do not keep. `None` where
/// fewer than four micro-batches are left.
pub(super) fn period(streams: &Streams, run: &Run, draining: usize) -> Option<Period> {
    let last = streams.positions.last()?.compute;
    let mut left: Vec<u64> = run[last].iter().map(Task::end_ns).collect();
    left.truncate(left.len().saturating_sub(draining));
    if left.len() < 4 {
        return None;
    }
    // Replicas may overtake each other.
    left.sort_unstable();
    let half = &left[left.len() / 2 - 1..];
    let mean = |from: usize| Pace {
        ns: (half[half.len() - 1] - half[from]).into(),
        micro_batches: (half.len() - 1 - from) as i128,
    };
    let repeats = |cycle: usize| {
        let difference = |at: usize| half[at + 1] - half[at];
        (0..half.len() - 1 - cycle).all(|at| difference(at) == difference(at + cycle))
    };
    let replicas = streams.lanes.iter().map(|lane| lane.replicas).max().unwrap_or(1);
    let longest = (LONGEST_CYCLE * replicas).min((half.len() - 1) / 2);
    let cycle = (1..=longest).find(|&cycle| repeats(cycle));
    Some(Period {
        pace: mean(cycle.map_or(0, |cycle| half.len() - 1 - cycle)),
        is_exact: cycle.is_some(),
    })
}

/// Cycles are short: one lane sets the pace, and it does the same for every micro-batch.
const LONGEST_CYCLE: usize = 16;

/// How long a lane was busy, in ns.
pub(super) fn busy_ns(lane: &Lane, run: &Run) -> u64 {
    let streams = [lane.forward, lane.backward, lane.weight].into_iter().flatten();
    let own = streams.flat_map(|s| run[s].iter().skip(lane.replica).step_by(lane.replicas));
    own.map(|task| task.parts.iter().sum::<u64>()).sum()
}

/// The most micro-batches that a replica of a stage had in flight: from the start of forward to the end of backward propagation, gradients
/// of weights included, or of forward propagation in inference.
pub(super) fn most_in_flight(streams: &Streams, run: &Run, stage: usize) -> u64 {
    let of_stage = |position: &&Position| streams.streams[position.compute].stage == stage;
    let mut positions = streams.positions.iter().filter(of_stage);
    let Some(first) = positions.next() else {
        return 0;
    };
    let last = positions.next().unwrap_or(first);
    let end = last.weight.unwrap_or(last.compute);
    let replicas = streams.lanes[streams.streams[first.compute].lane].replicas;
    let of_replica = |replica: usize| {
        let own = |s: usize| run[s].iter().skip(replica).step_by(replicas);
        let mut starts: Vec<u64> = own(first.compute).map(|task| task.start_ns).collect();
        let mut ends: Vec<u64> = own(end).map(Task::end_ns).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let in_flight = starts.iter().enumerate().map(|(at, start)| {
            let ended = ends.partition_point(|end| end <= start).min(at);
            at + 1 - ended
        });
        in_flight.max().unwrap_or(0) as u64
    };
    (0..replicas).map(of_replica).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::options::Schedule;
    use crate::problem::pipeline::schedule::InFlight;
    use crate::problem::pipeline::{Channels, Leads, PhaseTimes, Pipeline, StageTimes, Turns, run};

    /// The period in ns with one fewer in flight on every stage than a concurrent schedule has, or as many.
    fn period_ns(stages: usize, fewer: u64) -> f64 {
        let work = PhaseTimes {
            work_ns: 10,
            ..PhaseTimes::default()
        };
        let stage = StageTimes {
            forward: work,
            backward: work,
            weight_ns: 0,
            replicas: 1,
            once_ns: 0,
        };
        let pipeline = Pipeline {
            stages: vec![stage; stages],
            trains: true,
            channels: Channels::Split,
            has_links: false,
        };
        let streams = Streams::new(&pipeline);
        let mut leads = Leads::new(&pipeline, &streams, Schedule::Concurrent, InFlight::Standard, 100);
        leads.in_flight.iter_mut().for_each(|limit| *limit -= fewer);
        let turns = Turns::Leads {
            leads: &leads,
            reversed: false,
        };
        let run = run(&streams, &turns, 100, &|stream, _, _| stream.parts);
        let period = period(&streams, &run, leads.in_flight[0] as usize);
        period.expect("the run is long enough").pace.each_ns()
    }

    #[test]
    fn a_concurrent_stage_needs_two_in_flight_for_each_stage_to_the_end() {
        for stages in 1..=4 {
            assert_eq!(period_ns(stages, 0), 10.0);
            assert!(period_ns(stages, 1) > 10.0, "{stages} stages");
        }
        assert_eq!(period_ns(1, 1), 20.0);
    }
}
