//! Better placements by local search, where links bind: machines move among stages between boundaries, and boundaries move.
//!
//! Late acceptance: a change is kept if what passes is no less than now, or than some changes ago.
//!
//! Source: E. Burke, Y. Bykov, *The late acceptance hill-climbing heuristic*, European Journal of Operational Research 258 (2017).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Known, flow, rules};
use crate::problem::control::Control;
use crate::problem::placement::{Held, Serving};

/// Changes that are tried from each beginning, for a machine and layer, and at most.
const CHANGES_EACH: usize = 60;
const MOST_CHANGES: usize = 12_000;

/// How many changes ago what passed is compared with.
const LATE: usize = 60;

/// Beginnings that are changed: those of even stages through which most passes.
const BEGINNINGS: usize = 6;

/// Takes what comes of even stages of various numbers, and of the best placement.
pub(super) fn improve(known: &mut Known, control: &Control) {
    let serving = known.serving;
    let stages = 1..=serving.layers.min(serving.machines());
    let mut beginnings: Vec<Vec<Held>> = stages.map(|stages| rules::filled(serving, stages)).collect();
    beginnings.sort_by_key(|held| std::cmp::Reverse(flow::rate(serving, held)));
    beginnings.truncate(BEGINNINGS);
    beginnings.push(known.best.held.clone());
    for (seed, held) in beginnings.iter().enumerate().filter(|(_, held)| !held.is_empty()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed as u64);
        let changes = (CHANGES_EACH * serving.machines() * serving.layers).min(MOST_CHANGES);
        let mut now = Stages::new(serving, held);
        let mut rate = flow::rate(serving, &now.held(serving));
        let mut best = (rate, now.clone());
        let mut late = [rate; LATE];
        for change in 0..changes {
            if change % LATE == 0 && control.must_stop().is_some() {
                break;
            }
            let next = now.changed(&mut rng);
            let found = flow::rate(serving, &next.held(serving));
            if found >= rate || found >= late[change % LATE] {
                (now, rate) = (next, found);
                if rate > best.0 {
                    best = (rate, now.clone());
                }
            }
            late[change % LATE] = rate;
        }
        known.take(&best.1.held(serving));
    }
}

/// Boundaries, and between which two of them each machine stands.
#[derive(Clone)]
struct Stages {
    boundaries: Vec<usize>,
    machines: Vec<Machine>,
}

#[derive(Clone, Copy)]
struct Machine {
    kind: usize,
    /// Positions of its first boundary and its last; the same where it holds nothing.
    from: usize,
    to: usize,
}

impl Stages {
    fn new(serving: &Serving, held: &[Held]) -> Self {
        let ends = held.iter().flat_map(|own| [own.start, own.end()]);
        let mut boundaries: Vec<usize> = ends.chain([0, serving.layers]).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        let position = |at: usize| boundaries.partition_point(|&boundary| boundary < at);
        let mut machines = Vec::new();
        for (kind, alike) in serving.kinds.iter().enumerate() {
            let mut own = held.iter().filter(|own| own.kind == kind);
            machines.extend((0..alike.count).map(|_| {
                let at = own
                    .next()
                    .map_or((0, 0), |own| (position(own.start), position(own.end())));
                Machine {
                    kind,
                    from: at.0,
                    to: at.1,
                }
            }));
        }
        Self { boundaries, machines }
    }

    /// What machines hold, of those that hold what fits them.
    fn held(&self, serving: &Serving) -> Vec<Held> {
        let held = self
            .machines
            .iter()
            .filter(|own| own.from < own.to)
            .map(|own| Held {
                kind: own.kind,
                start: self.boundaries[own.from],
                layers: self.boundaries[own.to] - self.boundaries[own.from],
            });
        held.filter(|own| serving.usable(own) > 0).collect()
    }

    /// The same with a change: a machine elsewhere, two that change places, a boundary that moves, comes or goes.
    fn changed(&self, rng: &mut ChaCha8Rng) -> Self {
        let mut next = self.clone();
        let last = next.boundaries.len() - 1;
        let machine = rng.random_range(0..next.machines.len());
        match rng.random_range(0..10) {
            0..5 => {
                let from = rng.random_range(0..last);
                // Mostly one stage, sometimes several.
                let to = if rng.random_bool(0.7) {
                    from + 1
                } else {
                    rng.random_range(from..=last)
                };
                (next.machines[machine].from, next.machines[machine].to) = (from, to);
            }
            5 | 6 => {
                let other = rng.random_range(0..next.machines.len());
                let [a, b] = [machine, other].map(|at| (next.machines[at].from, next.machines[at].to));
                (next.machines[machine].from, next.machines[machine].to) = b;
                (next.machines[other].from, next.machines[other].to) = a;
            }
            7 | 8 if last > 1 => {
                let at = rng.random_range(1..last);
                let between = next.boundaries[at - 1] + 1..next.boundaries[at + 1];
                next.boundaries[at] = rng.random_range(between);
            }
            9 if last > 1 && rng.random_bool(0.5) => next.merge(rng.random_range(1..last)),
            _ => next.split(rng.random_range(0..last), rng),
        }
        next
    }

    /// Takes a boundary away; machines that end or start there do so at the next one.
    fn merge(&mut self, at: usize) {
        self.boundaries.remove(at);
        let moved = |position: usize| if position > at { position - 1 } else { position };
        for own in &mut self.machines {
            (own.from, own.to) = (moved(own.from), moved(own.to));
        }
    }

    /// Parts a stage in two; its machines go to either.
    fn split(&mut self, stage: usize, rng: &mut ChaCha8Rng) {
        let (first, behind) = (self.boundaries[stage], self.boundaries[stage + 1]);
        if behind - first < 2 {
            return;
        }
        self.boundaries
            .insert(stage + 1, rng.random_range(first + 1..behind));
        for own in &mut self.machines {
            let is_inside = (own.from, own.to) == (stage, stage + 1);
            let moved = |position: usize| if position > stage { position + 1 } else { position };
            (own.from, own.to) = (moved(own.from), moved(own.to));
            if is_inside {
                match rng.random_bool(0.5) {
                    true => own.to = stage + 1,
                    false => own.from = stage + 1,
                }
            }
        }
    }
}
