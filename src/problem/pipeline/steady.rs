//! How fast a pipeline runs in the long run: the time between micro-batches that every run of its order comes to.
//!
//! A run starts every task as soon as its lane's order and what it waits for allow, so the start of a task is the latest of a few
//! sums: the start of another task, of a micro-batch some number before or behind, and a time. Such systems run, after a while, at
//! one pace for ever: the largest over all circles of waiting of the circle's time over the micro-batches that it advances by
//! (Baccelli, Cohen, Olsder, Quadrat, *Synchronization and Linearity*, 1992, theorem 3.109). The shortest circles are the lanes
//! themselves, which take as long as they are busy; longer ones go through micro-batches in flight. **Example**: a stage of 2 ns that
//! may have one micro-batch in flight, before a stage of 3 ns: no lane is busy for more than 3 ns a micro-batch, and the circle
//! through both takes 5.
//!
//! The largest ratio is found from below, as in Burns (*Performance analysis and optimization of asynchronous circuits*, 1991): under a
//! pace that is too fast some circle takes longer than it should; its own ratio is the next pace to try. All in whole numbers.

use std::cmp::Ordering;

use super::schedule::Leads;
use super::streams::{Activity, Streams};
use super::{Channels, Pipeline};

/// A time that passes while so many micro-batches go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub ns: i128,
    /// Above 0.
    pub micro_batches: i128,
}

impl Pace {
    /// ns a micro-batch.
    pub(crate) fn each_ns(self) -> f64 {
        self.ns as f64 / self.micro_batches as f64
    }

    /// The same in whole ns, rounded up.
    pub(crate) fn whole_ns(self) -> u64 {
        let (ns, micro_batches) = (self.ns, self.micro_batches);
        u64::try_from(ns / micro_batches + i128::from(ns % micro_batches > 0)).unwrap_or(u64::MAX)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ns: 0,
            micro_batches: 1,
        }
    }
}

impl Ord for Pace {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.ns * other.micro_batches).cmp(&(other.ns * self.micro_batches))
    }
}

impl PartialOrd for Pace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pace {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pace {}

/// A stream's task starts no sooner than so many ns after the start of another's, of a micro-batch so many before.
#[derive(Clone, Copy)]
struct Wait {
    from: usize,
    to: usize,
    ns: i128,
    before: i128,
}

/// The pace of the orders in the long run, undisturbed. The order must not be that of GPipe, which has none.
///
/// Time O(n w) for each pace that is tried, of which there are few, for n streams and w waits between them.
pub(crate) fn steady(pipeline: &Pipeline, streams: &Streams, leads: &Leads) -> Pace {
    let waits = waits(pipeline, streams, leads);
    let mut pace = streams.busiest();
    while let Some(slower) = slower_circle(streams.streams.len(), &waits, pace) {
        pace = slower;
    }
    pace
}

/// What tasks wait for, see the rules of the event loop.
fn waits(pipeline: &Pipeline, streams: &Streams, leads: &Leads) -> Vec<Wait> {
    let ns = |s: usize| i128::from(streams.streams[s].total_ns());
    let ends = |from: usize, to: usize, before: i128| Wait {
        from,
        to,
        ns: ns(from),
        before,
    };
    let mut waits = Vec::new();
    let mut last: Option<&super::Position> = None;
    for position in &streams.positions {
        if let Some(send) = position.send {
            waits.push(ends(position.compute, send, 0));
        }
        if let Some(receive) = position.receive {
            waits.push(ends(receive, position.compute, 0));
        }
        if let Some(last) = last {
            let leaves = last.send.unwrap_or(last.compute);
            waits.push(ends(leaves, position.compute, 0));
            if let Some(receive) = position.receive {
                // Both links work at the same time.
                let of_send = streams.streams[leaves].activity == Activity::Send;
                let ns = if of_send { 0 } else { ns(leaves) };
                waits.push(Wait {
                    ns,
                    ..ends(leaves, receive, 0)
                });
            }
        }
        last = Some(position);
    }
    for (lane, &lead) in streams.lanes.iter().zip(&leads.lanes) {
        if lane.replica > 0 {
            // All replicas are alike.
            continue;
        }
        let (each, lead) = (lane.replicas as i128, i128::from(lead));
        match (lane.forward, lane.backward) {
            (Some(forward), Some(backward)) => {
                waits.push(ends(backward, forward, lead * each));
                waits.push(ends(forward, backward, (1 - lead) * each));
            }
            (Some(only), None) | (None, Some(only)) => waits.push(ends(only, only, each)),
            (None, None) => {}
        }
    }
    if pipeline.trains && pipeline.channels == Channels::Split {
        let stages = pipeline.stages.len();
        for (k, &limit) in leads.in_flight.iter().enumerate() {
            let [forward, backward] = [k, 2 * stages - 1 - k].map(|at| streams.positions[at].compute);
            let before = i128::from(limit) * i128::from(pipeline.stages[k].replicas);
            waits.push(ends(backward, forward, before));
        }
    }
    waits
}

/// The pace of a circle that takes longer than a pace allows, if there is one.
fn slower_circle(streams: usize, waits: &[Wait], pace: Pace) -> Option<Pace> {
    let over = |wait: &Wait| wait.ns * pace.micro_batches - wait.before * pace.ns;
    let mut least = vec![0i128; streams];
    let mut last: Vec<Option<usize>> = vec![None; streams];
    loop {
        let mut changes = false;
        for (w, wait) in waits.iter().enumerate() {
            let start = least[wait.from] + over(wait);
            if start > least[wait.to] {
                least[wait.to] = start;
                last[wait.to] = Some(w);
                changes = true;
            }
        }
        if !changes {
            return None;
        }
        if let Some(circle) = circle(waits, &last) {
            return Some(circle);
        }
    }
}

/// A circle among the waits that decided last, and its pace: a circle of these always takes longer than allowed.
fn circle(waits: &[Wait], last: &[Option<usize>]) -> Option<Pace> {
    // By which walk a stream was seen first.
    let mut seen = vec![usize::MAX; last.len()];
    for first in 0..last.len() {
        let mut at = first;
        while seen[at] == usize::MAX {
            seen[at] = first;
            let Some(w) = last[at] else { break };
            at = waits[w].from;
        }
        if seen[at] == first && last[at].is_some() {
            return Some(pace_through(waits, last, at));
        }
    }
    None
}

/// The pace of the circle through a stream.
fn pace_through(waits: &[Wait], last: &[Option<usize>], through: usize) -> Pace {
    let mut pace = Pace {
        ns: 0,
        micro_batches: 0,
    };
    let mut at = through;
    while let Some(w) = last[at] {
        pace.ns += waits[w].ns;
        pace.micro_batches += waits[w].before;
        at = waits[w].from;
        if at == through {
            break;
        }
    }
    pace
}
