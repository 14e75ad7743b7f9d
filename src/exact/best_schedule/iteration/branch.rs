//! Branch and bound: exact for small iterations.
//!
//! A node is what has been started so far. Of all operations that could start next take one that would end first, on its device: the
//! next operation of that device starts before that end, or the one taken could come first and delay nothing
//! (Giffler and Thompson, Operations Research 1960). Room breaks this argument for forward passes alone, as one that comes earlier
//! may take the room of another: so there is one more branch, in which those forward passes wait until their device has done
//! something else. Two nodes with the same operations done are compared: if one has every device and every result no later than the
//! other, that is dropped (ours; dominance of states as in Held and Karp, 1962).

use std::collections::HashMap;

use super::bound::{Job, Lengths, preemptive_ns};
use super::tasks::{Kind, Lists, Tasks};
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;

/// Nodes after which it stops.
const MOST_NODES: usize = 3_000_000;
/// States that are remembered: some hundred bytes each.
const MOST_STATES: usize = 300_000;

/// What it came to.
pub(super) struct Searched {
    /// Lists that end earlier than what was known.
    pub lists: Option<Lists>,
    /// Why it stopped before everything was tried; `None` if nothing ends earlier.
    pub stopped_by: Option<StoppedBy>,
}

/// Looks for lists that end before `known_ns`, until the best of them is proved or they end at `bound_ns`.
pub(super) fn search(
    tasks: &Tasks,
    tails: &Lengths,
    known_ns: u64,
    bound_ns: u64,
    control: &Control,
) -> Searched {
    let mut search = OrderSearch {
        tasks,
        tails,
        bound_ns,
        best_ns: known_ns,
        best: None,
        seen: HashMap::new(),
        states: 0,
        nodes: 0,
        stopped_by: None,
        control,
    };
    search.visit(&mut Node::new(tasks));
    Searched {
        lists: search.best,
        stopped_by: search.stopped_by,
    }
}

struct OrderSearch<'a> {
    tasks: &'a Tasks,
    tails: &'a Lengths,
    bound_ns: u64,
    best_ns: u64,
    best: Option<Lists>,
    /// For what is done and what waits, the times that nodes had.
    seen: HashMap<Vec<u16>, Vec<Vec<u64>>>,
    states: usize,
    nodes: usize,
    stopped_by: Option<StoppedBy>,
    control: &'a Control<'a>,
}

/// What has been started.
struct Node {
    lists: Lists,
    done: Vec<usize>,
    ends: Vec<Vec<u64>>,
    free_ns: Vec<u64>,
    held: Vec<u64>,
    /// Kinds of forward passes that wait until their device has done something else.
    waits: Vec<bool>,
}

impl Node {
    fn new(tasks: &Tasks) -> Self {
        Self {
            lists: vec![Vec::new(); tasks.devices],
            done: vec![0; tasks.kinds.len()],
            ends: vec![Vec::new(); tasks.kinds.len()],
            free_ns: vec![0; tasks.devices],
            held: vec![0; tasks.devices],
            waits: vec![false; tasks.kinds.len()],
        }
    }

    /// When the next operation of a kind can start, if all that it waits for is done and there is room.
    fn earliest(&self, tasks: &Tasks, k: usize) -> Option<u64> {
        let (kind, m) = (&tasks.kinds[k], self.done[k]);
        let fits = tasks.room[kind.device].is_none_or(|room| self.held[kind.device] + kind.takes <= room);
        if m == tasks.micro_batches || !fits || self.waits[k] {
            return None;
        }
        kind.start_ns(m, self.free_ns[kind.device], &self.ends)
    }

    /// What is done and what waits: nodes that have this in common can be compared.
    fn key(&self) -> Vec<u16> {
        let waits = self.waits.iter().map(|&waits| u16::from(waits));
        let done = self.done.iter().map(|&done| done as u16);
        done.chain(waits).collect()
    }

    /// When devices are free, and when what is still waited for is there.
    fn times(&self, tasks: &Tasks) -> Vec<u64> {
        let mut times = self.free_ns.clone();
        for (k, kind) in tasks.kinds.iter().enumerate() {
            let used = kind.after.iter().map(|&(after, _)| self.done[after]).min();
            times.extend(&self.ends[k][used.unwrap_or(self.done[k]).min(self.done[k])..]);
        }
        times
    }
}

impl OrderSearch<'_> {
    fn visit(&mut self, node: &mut Node) {
        self.nodes += 1;
        if self.nodes.is_multiple_of(256) && self.stopped_by.is_none() {
            self.stopped_by = self.control.must_stop();
        }
        if self.nodes > MOST_NODES {
            self.stopped_by = self.stopped_by.or(Some(StoppedBy::SizeLimit));
        }
        if self.stopped_by.is_some() || self.best_ns <= self.bound_ns {
            return;
        }
        let tasks = self.tasks;
        if node.done.iter().all(|&done| done == tasks.micro_batches) {
            let end_ns = node.free_ns.iter().max().copied().unwrap_or(0);
            if end_ns < self.best_ns {
                self.best_ns = end_ns;
                self.best = Some(node.lists.clone());
            }
            return;
        }
        if self.least_ns(node) >= self.best_ns || self.is_dominated(node) {
            return;
        }
        self.branch(node);
    }

    fn branch(&mut self, node: &mut Node) {
        let tasks = self.tasks;
        let can: Vec<(usize, u64)> = (0..tasks.kinds.len())
            .filter_map(|k| Some((k, node.earliest(tasks, k)?)))
            .collect();
        let end = |&(k, start_ns): &(usize, u64)| start_ns + tasks.kinds[k].duration_ns;
        let Some(&first) = can.iter().min_by_key(|can| (end(can), can.1)) else {
            return;
        };
        let device = tasks.kinds[first.0].device;
        let mut next: Vec<(usize, u64)> = can
            .into_iter()
            .filter(|can| tasks.kinds[can.0].device == device && (can.1 < end(&first) || can.0 == first.0))
            .collect();
        let tail = |&(k, start_ns): &(usize, u64)| (start_ns, u64::MAX - self.tails[k][node.done[k]]);
        next.sort_by_key(tail);
        for &(k, start_ns) in &next {
            self.start(node, k, start_ns);
        }
        let may_wait = |k: usize| tasks.kinds[k].takes > 0 && tasks.room[device].is_some();
        if may_wait(first.0) {
            let held_back: Vec<usize> = next.iter().map(|next| next.0).filter(|&k| may_wait(k)).collect();
            held_back.iter().for_each(|&k| node.waits[k] = true);
            self.visit(node);
            held_back.iter().for_each(|&k| node.waits[k] = false);
        }
    }

    /// Visits the node that starts an operation, and goes back.
    fn start(&mut self, node: &mut Node, k: usize, start_ns: u64) {
        let Kind {
            device,
            duration_ns,
            takes,
            frees,
            ..
        } = self.tasks.kinds[k];
        let (free_ns, held) = (node.free_ns[device], node.held[device]);
        let own = self.tasks.of_device[device].iter().copied();
        let waited: Vec<usize> = own.filter(|&other| node.waits[other]).collect();
        waited.iter().for_each(|&other| node.waits[other] = false);
        node.lists[device].push(k);
        node.done[k] += 1;
        node.ends[k].push(start_ns + duration_ns);
        node.free_ns[device] = start_ns + duration_ns;
        node.held[device] = held + takes - frees;
        self.visit(node);
        node.held[device] = held;
        node.free_ns[device] = free_ns;
        node.ends[k].pop();
        node.done[k] -= 1;
        node.lists[device].pop();
        waited.iter().for_each(|&other| node.waits[other] = true);
    }

    /// No iteration that goes on from a node takes less: every device alone, with what is left to do.
    fn least_ns(&self, node: &Node) -> u64 {
        let tasks = self.tasks;
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); tasks.devices];
        let mut ends: Vec<Vec<u64>> = node.ends.clone();
        for m in 0..tasks.micro_batches {
            for (k, kind) in tasks.kinds.iter().enumerate() {
                if m < node.done[k] {
                    continue;
                }
                let own = m.checked_sub(1).map_or(0, |before| ends[k][before]);
                let within = kind
                    .before
                    .iter()
                    .map(|&(before, delay_ns)| ends[before][m] + delay_ns);
                let head_ns = within.fold(own.max(node.free_ns[kind.device]), u64::max);
                ends[k].push(head_ns + kind.duration_ns);
                jobs[kind.device].push(Job {
                    head_ns,
                    duration_ns: kind.duration_ns,
                    tail_ns: self.tails[k][m],
                });
            }
        }
        let free_ns = node.free_ns.iter().max().copied().unwrap_or(0);
        let devices = jobs.into_iter().map(preemptive_ns);
        devices.fold(free_ns, u64::max)
    }

    /// Whether another node with the same operations done had all no later. If not, this one is remembered.
    fn is_dominated(&mut self, node: &Node) -> bool {
        let times = node.times(self.tasks);
        let no_later =
            |one: &Vec<u64>, other: &Vec<u64>| one.iter().zip(other).all(|(one, other)| one <= other);
        let seen = self.seen.entry(node.key()).or_default();
        if seen.iter().any(|other| no_later(other, &times)) {
            return true;
        }
        self.states -= seen.len();
        seen.retain(|other| !no_later(&times, other));
        if self.states < MOST_STATES {
            seen.push(times);
        }
        self.states += seen.len();
        false
    }
}
