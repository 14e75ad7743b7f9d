//! The event loop: tasks start as soon as their lane's order and what they wait for allow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Phase;
use super::schedule::Leads;
use super::streams::{Activity, Stream, Streams};

/// When a task took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Task {
    pub start_ns: u64,
    /// ns to receive, work and send, as they came to be.
    pub parts: [u64; 3],
}

impl Task {
    pub(crate) fn end_ns(&self) -> u64 {
        self.start_ns + self.parts.iter().sum::<u64>()
    }
}

/// The tasks of a run: for every stream, one a micro-batch.
pub(crate) type Run = Vec<Vec<Task>>;

/// The times of a task of a stream, for a micro-batch, that starts at a time in ns: to receive, work and send.
pub(crate) type Parts<'a> = &'a dyn Fn(&Stream, usize, u64) -> [u64; 3];

/// In which order every lane works.
#[derive(Clone, Copy)]
pub(crate) enum Turns<'a> {
    /// Forward and backward tasks in turn, so many forward ones ahead. `reversed` has backward propagation begin with the last
    /// micro-batch.
    Leads { leads: &'a Leads, reversed: bool },
    /// As listed: for every lane, streams and micro-batches.
    Listed(&'a [Vec<(usize, usize)>]),
}

/// Runs so many micro-batches, in an order that can be run: those of leads can.
///
/// Events are the ends of tasks, in a heap. Time O(n log l) for n tasks on l lanes.
pub(crate) fn run(streams: &Streams, turns: &Turns, micro_batches: usize, parts_of: Parts<'_>) -> Run {
    try_run(streams, turns, micro_batches, parts_of).unwrap_or_default()
}

/// The same for any order; `None` where some task is not done in the end, since it is not listed or lanes wait for each other.
pub(crate) fn try_run(
    streams: &Streams,
    turns: &Turns,
    micro_batches: usize,
    parts_of: Parts<'_>,
) -> Option<Run> {
    let mut state = State {
        streams,
        turns: *turns,
        micro_batches,
        position_of: positions(streams),
        lanes_of: lanes_of(streams),
        next: vec![[0, 0]; streams.lanes.len()],
        busy: vec![None; streams.lanes.len()],
        progress: vec![vec![Progress::Waiting; micro_batches]; streams.streams.len()],
        run: vec![vec![Task::default(); micro_batches]; streams.streams.len()],
    };
    let mut ends = BinaryHeap::new();
    let mut wake: Vec<usize> = (0..streams.lanes.len()).collect();
    let mut now_ns = 0;
    loop {
        while let Some(lane) = wake.pop() {
            if let Some((s, m)) = state.startable(lane) {
                let parts = parts_of(&streams.streams[s], m, now_ns);
                let task = Task {
                    start_ns: now_ns,
                    parts,
                };
                ends.push(Reverse((task.end_ns(), lane)));
                state.start(lane, s, m, task);
                if streams.streams[s].activity == Activity::Send {
                    // The receiving link works at the same time.
                    wake.extend(state.lanes_after(s, m));
                }
            }
        }
        let Some(Reverse((end_ns, lane))) = ends.pop() else {
            let mut all = state.progress.iter().flatten();
            return all.all(|&task| task == Progress::Done).then_some(state.run);
        };
        now_ns = end_ns;
        if let Some((s, m)) = state.busy[lane].take() {
            state.progress[s][m] = Progress::Done;
            wake.extend(state.lanes_after(s, m));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waiting,
    Started,
    Done,
}

struct State<'a> {
    streams: &'a Streams,
    turns: Turns<'a>,
    micro_batches: usize,
    /// Position of every stream.
    position_of: Vec<usize>,
    /// Lanes of every replica of every stage.
    lanes_of: Vec<Vec<Vec<usize>>>,
    /// For every lane, how many forward and how many backward tasks it has begun.
    next: Vec<[usize; 2]>,
    /// What every lane is doing: stream and micro-batch.
    busy: Vec<Option<(usize, usize)>>,
    progress: Vec<Vec<Progress>>,
    run: Run,
}

impl State<'_> {
    /// The task that an idle lane may start now.
    fn startable(&self, lane: usize) -> Option<(usize, usize)> {
        if self.busy[lane].is_some() {
            return None;
        }
        let (s, m) = self.next_of(lane)?;
        self.is_ready(s, m).then_some((s, m))
    }

    /// The task whose turn it is: forward while fewer than `lead` are ahead.
    fn next_of(&self, lane: usize) -> Option<(usize, usize)> {
        let [forward_done, backward_done] = self.next[lane];
        let (lead, reversed) = match self.turns {
            Turns::Listed(lists) => return lists[lane].get(forward_done + backward_done).copied(),
            Turns::Leads { leads, reversed } => (leads.lanes[lane] as usize, reversed),
        };
        let lane = &self.streams.lanes[lane];
        let share = lane.share_of(self.micro_batches);
        let of = |stream: Option<usize>, done: usize| stream.filter(|_| done < share);
        let forward = of(lane.forward, forward_done);
        let backward = of(lane.backward, backward_done);
        let (s, turn) = match (forward, backward) {
            (Some(s), None) => (s, forward_done),
            (Some(s), Some(_)) if forward_done < backward_done.saturating_add(lead) => (s, forward_done),
            (_, Some(s)) if reversed => (s, share - 1 - backward_done),
            (_, Some(s)) => (s, backward_done),
            (None, None) => return None,
        };
        Some((s, lane.micro_batch(turn)))
    }

    fn is_ready(&self, s: usize, m: usize) -> bool {
        let is_done = |s: usize| self.progress[s][m] == Progress::Done;
        let at = self.position_of[s];
        let position = self.streams.positions[at];
        let before = at.checked_sub(1).map(|before| self.streams.positions[before]);
        match self.streams.streams[s].activity {
            Activity::Send => is_done(position.compute),
            Activity::Receive => before.is_none_or(|before| match before.send {
                Some(send) => self.progress[send][m] != Progress::Waiting,
                None => is_done(before.compute),
            }),
            Activity::Compute if position.weight == Some(s) => is_done(position.compute),
            Activity::Compute => {
                before.is_none_or(|before| is_done(before.send.unwrap_or(before.compute)))
                    && position.receive.is_none_or(is_done)
                    && self.has_room(s, m)
            }
        }
    }

    /// Whether the replica may take one more micro-batch in flight.
    fn has_room(&self, s: usize, m: usize) -> bool {
        let stream = &self.streams.streams[s];
        let Turns::Leads { leads, .. } = self.turns else {
            // The order itself says how many there are.
            return true;
        };
        let replicas = self.streams.lanes[stream.lane].replicas;
        let limit = (leads.in_flight[stream.stage] as usize).saturating_mul(replicas);
        if stream.phase != Phase::Forward || m < limit {
            return true;
        }
        let backward = self.streams.positions.len() - 1 - self.position_of[s];
        self.progress[self.streams.positions[backward].compute][m - limit] == Progress::Done
    }

    fn start(&mut self, lane: usize, s: usize, m: usize, task: Task) {
        let pass = usize::from(self.streams.streams[s].phase != Phase::Forward);
        self.next[lane][pass] += 1;
        self.busy[lane] = Some((s, m));
        self.progress[s][m] = Progress::Started;
        self.run[s][m] = task;
    }

    /// Lanes that may wait for a task: those of the micro-batch on its stage and on the next position's.
    fn lanes_after(&self, s: usize, m: usize) -> impl Iterator<Item = usize> + '_ {
        let stage = self.streams.streams[s].stage;
        let after = self.streams.positions.get(self.position_of[s] + 1);
        let after = after.map(|position| self.streams.streams[position.compute].stage);
        let stages = std::iter::once(stage).chain(after.filter(move |&after| after != stage));
        stages.flat_map(move |stage| {
            let of_stage = &self.lanes_of[stage];
            of_stage[m % of_stage.len()].iter().copied()
        })
    }
}

fn positions(streams: &Streams) -> Vec<usize> {
    let mut position_of = vec![0; streams.streams.len()];
    for (at, position) in streams.positions.iter().enumerate() {
        let compute = Some(position.compute);
        let of_position = [position.receive, compute, position.send, position.weight];
        of_position
            .into_iter()
            .flatten()
            .for_each(|s| position_of[s] = at);
    }
    position_of
}

fn lanes_of(streams: &Streams) -> Vec<Vec<Vec<usize>>> {
    let stages = streams.lanes.iter().map(|lane| lane.stage + 1).max().unwrap_or(0);
    let mut lanes = vec![Vec::new(); stages];
    for (at, lane) in streams.lanes.iter().enumerate() {
        lanes[lane.stage].resize(lane.replicas, Vec::new());
        lanes[lane.stage][lane.replica].push(at);
    }
    lanes
}
