//! The loads of one stage: sets of items that are ready one after the other, as full as a limit allows.

use fixedbitset::FixedBitSet;

use super::line::Line;

/// Items looked at for the loads of one stage, for each item of the problem.
const EFFORT: u64 = 40;

/// Items that a stage may take.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// The items, in an order that they may be done in.
    pub items: Vec<usize>,
    /// How long they take, in ns.
    pub time_ns: u64,
    /// What they are worth.
    pub merit: f64,
}

/// Which loads are asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Loads of a worker of this kind.
    pub kind: usize,
    /// What they may take, in ns.
    pub limit_ns: u64,
    /// How many of them.
    pub most: usize,
}

/// Enumerates loads by depth-first search, each once: a load takes items in the order of a list of ready ones, and an item that becomes
/// ready is appended to it (Hoffmann 1963).
pub(super) struct Loads<'a> {
    line: &'a Line,
    /// Items right before each item that are neither done nor chosen.
    missing: Vec<usize>,
    /// Ready items.
    list: Vec<usize>,
    path: Vec<Chosen>,
    /// Items looked at so far.
    pub steps: u64,
}

/// An item of the load that is being built, and what to go back to without it.
struct Chosen {
    /// Position in the list.
    at: usize,
    /// Length of the list before.
    listed: usize,
    room_ns: u64,
    merit: f64,
}

impl<'a> Loads<'a> {
    /// Room for the loads of a line.
    pub(super) fn new(line: &'a Line) -> Self {
        Self {
            line,
            missing: Vec::new(),
            list: Vec::new(),
            path: Vec::new(),
            steps: 0,
        }
    }

    /// Some of the loads that are worth most by what each item is worth, the best first; those found with limited effort.
    pub(super) fn best(&mut self, done: &FixedBitSet, merits: &[f64], asked: Asked) -> Vec<Load> {
        let Asked { kind, limit_ns, most } = asked;
        let times = &self.line.times[kind];
        self.start(done, merits);
        let most_steps = self.steps + EFFORT * times.len() as u64;
        let mut best: Vec<Load> = Vec::new();
        let (mut at, mut room_ns, mut merit) = (0, limit_ns, 0.0);
        loop {
            while at < self.list.len() && self.steps < most_steps {
                self.steps += 1;
                let item = self.list[at];
                if let Some(time_ns) = times[item].filter(|&ns| ns <= room_ns) {
                    self.path.push(Chosen {
                        at,
                        listed: self.list.len(),
                        room_ns,
                        merit,
                    });
                    room_ns -= time_ns;
                    merit += merits[item];
                    self.take(item);
                }
                at += 1;
            }
            self.keep(&mut best, most, limit_ns - room_ns, merit);
            let Some(last) = self.path.pop().filter(|_| self.steps < most_steps) else {
                return best;
            };
            let item = self.list[last.at];
            self.line.next[item]
                .iter()
                .for_each(|&next| self.missing[next] += 1);
            self.list.truncate(last.listed);
            (at, room_ns, merit) = (last.at + 1, last.room_ns, last.merit);
        }
    }

    /// Puts an item into the load that is being built, and what it makes ready on the list.
    fn take(&mut self, item: usize) {
        for &next in &self.line.next[item] {
            self.missing[next] -= 1;
            if self.missing[next] == 0 {
                self.list.push(next);
            }
        }
    }

    /// Lists what is ready, the items worth most first.
    fn start(&mut self, done: &FixedBitSet, merits: &[f64]) {
        self.path.clear();
        self.missing.clone_from(&self.line.entering);
        for item in done.ones() {
            self.line.next[item]
                .iter()
                .for_each(|&next| self.missing[next] -= 1);
        }
        self.list.clear();
        let ready = (0..self.missing.len()).filter(|&item| self.missing[item] == 0 && !done.contains(item));
        self.list.extend(ready);
        self.list.sort_by(|&a, &b| merits[b].total_cmp(&merits[a]));
    }

    /// Keeps the load that is being built if it is among the best.
    fn keep(&self, best: &mut Vec<Load>, most: usize, time_ns: u64, merit: f64) {
        let rank = best.partition_point(|load| load.merit >= merit);
        if rank < most {
            let items = self.path.iter().map(|chosen| self.list[chosen.at]).collect();
            best.insert(
                rank,
                Load {
                    items,
                    time_ns,
                    merit,
                },
            );
            best.truncate(most);
        }
    }
}
