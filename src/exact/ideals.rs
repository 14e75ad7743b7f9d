//! Dynamic program over ideals, pruned by an upper bound: the half of the engine that needs no solver.
#![doc = include_str!("../../formulations/ideals.md")]

use std::collections::HashSet;

use super::control::Control;
use crate::cost::{Side, StageCost};
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// What a pass over the ideals found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A plan whose every stage keeps the limit.
    Found(Assignment),
    /// There is none.
    Exhausted,
    /// Too many ideals, or a limit of the search.
    Stopped(StoppedBy),
}

/// Looks for a plan whose every stage keeps a limit, over all ideals that such plans can pass through.
pub struct IdealSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    predecessors: Vec<Vec<usize>>,
    /// What each side of each transfer adds to load, link in and link out, in ns.
    paid: Vec<[[u64; 3]; 2]>,
    most_steps: u64,
    /// Ideals met in all passes.
    pub ideals: usize,
}

/// An ideal on the way: what is still to place, and how it was reached.
struct State {
    /// Items still to place: bits of a down-closed set.
    left: Box<[u64]>,
    work_ns: u64,
    /// The state before the last stage was taken off the end.
    parent: usize,
}

impl<'a> IdealSearch<'a> {
    /// Prepares a search that gives up after so many extensions of a stage.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_steps: u64) -> Self {
        let side = |t: usize, side: Side| {
            let mut cost = StageCost::default();
            cost.add_transfer(problem.settings.communication, &problem.transfers[t], side);
            let both = cost.both();
            [both.communication_ns, both.link_in_ns, both.link_out_ns]
        };
        let paid = (0..problem.transfers.len())
            .map(|t| [side(t, Side::Producer), side(t, Side::Consumer)])
            .collect();
        let predecessors = (0..problem.items.len())
            .map(|item| {
                let before = problem
                    .order
                    .neighbors_directed((item as u32).into(), petgraph::Incoming);
                before.map(|v| v.index()).collect()
            })
            .collect();
        Self {
            problem,
            control,
            predecessors,
            paid,
            most_steps,
            ideals: 0,
        }
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one.
    ///
    /// Stages are taken off the end, so that the memory of the r-th from the end is known. Without `all_stages` an ideal
    /// need be left only once, with the fewest stages behind it: what can follow depends on the ideal alone, more stages
    /// left never hurt, and fewer stages behind means fewer micro-batches in flight.
    pub fn pass(&mut self, limit_ns: u64) -> Pass {
        let mut states = vec![self.everything()];
        let pass = self.layers(limit_ns, &mut states);
        self.ideals += states.len();
        pass
    }

    fn everything(&self) -> State {
        let n = self.problem.items.len();
        let mut left = vec![0u64; n.div_ceil(64)];
        (0..n).for_each(|item| left[item / 64] |= 1 << (item % 64));
        State {
            left: left.into(),
            work_ns: self.problem.work_ns(),
            parent: usize::MAX,
        }
    }

    /// Takes off one stage after the other, each from every state that the last one led to.
    fn layers(&self, limit_ns: u64, states: &mut Vec<State>) -> Pass {
        let stages = self.problem.stages();
        let all_stages = self.problem.settings.all_stages;
        let words = states[0].left.len();
        // Each ideal is kept twice, as a state and to be recognised.
        let most_states = MOST_BYTES / (2 * 8 * words + 96);
        let mut seen: HashSet<Box<[u64]>> = HashSet::new();
        let mut layer = 0..1;
        let mut steps = 0;
        for from_end in 1..=stages {
            let may_leave_ns = (stages - from_end) as u128 * u128::from(limit_ns);
            let start = states.len();
            if all_stages {
                seen.clear();
            }
            for parent in layer {
                let mut stage = Stage::new(
                    self,
                    &states[parent].left,
                    from_end,
                    limit_ns,
                    self.most_steps - steps,
                );
                let parent_ns = states[parent].work_ns;
                let last = stage.each(&mut |left, stage_ns| {
                    let work_ns = parent_ns - stage_ns;
                    let is_empty = left.iter().all(|word| *word == 0);
                    // More work left than the remaining stages can carry, or stages left without an item.
                    let is_dead = u128::from(work_ns) > may_leave_ns;
                    let is_early = all_stages && is_empty && from_end < stages;
                    let is_late = from_end == stages && !is_empty;
                    if is_dead || is_early || is_late || seen.contains(left) {
                        return false;
                    }
                    seen.insert(left.into());
                    states.push(State {
                        left: left.into(),
                        work_ns,
                        parent,
                    });
                    is_empty
                });
                match last {
                    Grown::Accepted => return Pass::Found(unwind(self.problem.items.len(), states)),
                    Grown::Stopped(stopped_by) => return Pass::Stopped(stopped_by),
                    Grown::All => steps += stage.steps,
                }
                if states.len() > most_states {
                    return Pass::Stopped(StoppedBy::SizeLimit);
                }
                if let Some(stopped_by) = self.control.must_stop() {
                    return Pass::Stopped(stopped_by);
                }
            }
            layer = start..states.len();
        }
        Pass::Exhausted
    }
}

/// Memory that the ideals of a pass may take.
const MOST_BYTES: usize = 4 << 30;

/// How the growing of a stage ended.
enum Grown {
    /// Every stage was met.
    All,
    /// The last one met was what is looked for.
    Accepted,
    /// A limit came first.
    Stopped(StoppedBy),
}

/// Reads the stages off the chain of states that ends in the last one, the empty ideal.
fn unwind(n: usize, states: &[State]) -> Assignment {
    let mut assignment = vec![0; n];
    let mut at = states.len() - 1;
    let mut stage = 0;
    while states[at].parent != usize::MAX {
        let parent = states[at].parent;
        for (item, place) in assignment.iter_mut().enumerate() {
            if has(&states[parent].left, item) && !has(&states[at].left, item) {
                *place = stage;
            }
        }
        stage += 1;
        at = parent;
    }
    assignment
}

fn has(bits: &[u64], item: usize) -> bool {
    bits[item / 64] >> (item % 64) & 1 == 1
}

/// A stage that grows downwards from the end of an ideal, one item at a time, and shrinks back.
///
/// `free` lists items in the order in which they came free: all their successors in the ideal have been taken. Each is
/// decided once, taken or left; what is left never frees what lies before it, so every up-closed part of the ideal is met
/// exactly once.
struct Stage<'a, 'b> {
    search: &'b IdealSearch<'a>,
    left: Box<[u64]>,
    free: Vec<usize>,
    /// Whether the item at the same place of `free` was taken.
    taken: Vec<bool>,
    /// For each item, successors that are still in the ideal.
    waits_for: Vec<u32>,
    /// For each transfer, whether its producer is in the stage, and how many of its consumers are.
    ends: Vec<(bool, u32)>,
    from_end: usize,
    limit_ns: u64,
    work_ns: u64,
    paid_ns: [u64; 3],
    bytes: u64,
    size: usize,
    steps: u64,
    most_steps: u64,
}

impl<'a, 'b> Stage<'a, 'b> {
    fn new(
        search: &'b IdealSearch<'a>,
        left: &[u64],
        from_end: usize,
        limit_ns: u64,
        most_steps: u64,
    ) -> Self {
        let n = search.problem.items.len();
        let mut waits_for = vec![0; n];
        for item in (0..n).filter(|&item| has(left, item)) {
            for &before in &search.predecessors[item] {
                waits_for[before] += 1;
            }
        }
        let is_free = |&item: &usize| has(left, item) && waits_for[item] == 0;
        Self {
            free: (0..n).filter(is_free).collect(),
            search,
            left: left.into(),
            taken: Vec::new(),
            waits_for,
            ends: vec![(false, 0); search.problem.transfers.len()],
            from_end,
            limit_ns,
            work_ns: 0,
            paid_ns: [0; 3],
            bytes: 0,
            size: 0,
            steps: 0,
            most_steps,
        }
    }

    /// Calls `leaf` with every non-empty stage that keeps the limit: what is left without it, and its work. Ends when
    /// `leaf` accepts one.
    fn each(&mut self, leaf: &mut impl FnMut(&[u64], u64) -> bool) -> Grown {
        /// Steps between two looks at the clock.
        const PATIENCE: u64 = 1 << 16;
        let mut next_look = PATIENCE;
        loop {
            while self.taken.len() < self.free.len() {
                let item = self.free[self.taken.len()];
                let takes = self.can_take(item);
                if takes {
                    self.take(item);
                }
                self.taken.push(takes);
                self.steps += 1;
            }
            let busiest = (self.work_ns + self.paid_ns[0])
                .max(self.paid_ns[1])
                .max(self.paid_ns[2]);
            if self.size > 0 && busiest <= self.limit_ns && leaf(&self.left, self.work_ns) {
                return Grown::Accepted;
            }
            if self.steps > self.most_steps {
                return Grown::Stopped(StoppedBy::SizeLimit);
            }
            if self.steps > next_look {
                next_look = self.steps + PATIENCE;
                if let Some(stopped_by) = self.search.control.must_stop() {
                    return Grown::Stopped(stopped_by);
                }
            }
            // The last item taken stays instead.
            loop {
                match self.taken.pop() {
                    None => return Grown::All,
                    Some(false) => {}
                    Some(true) => {
                        self.put_back(self.free[self.taken.len()]);
                        self.taken.push(false);
                        break;
                    }
                }
            }
        }
    }

    fn can_take(&self, item: usize) -> bool {
        let problem = self.search.problem;
        let bytes = self.bytes + problem.memory_bytes(&problem.items[item], self.from_end);
        self.work_ns + problem.items[item].work_ns() <= self.limit_ns
            && problem.settings.memory_limit.is_none_or(|limit| bytes <= limit)
    }

    fn take(&mut self, item: usize) {
        let problem = self.search.problem;
        self.move_item(item, true);
        self.left[item / 64] &= !(1 << (item % 64));
        self.work_ns += problem.items[item].work_ns();
        self.bytes += problem.memory_bytes(&problem.items[item], self.from_end);
        self.size += 1;
        for &before in &self.search.predecessors[item] {
            self.waits_for[before] -= 1;
            if self.waits_for[before] == 0 {
                self.free.push(before);
            }
        }
    }

    fn put_back(&mut self, item: usize) {
        let problem = self.search.problem;
        for &before in self.search.predecessors[item].iter().rev() {
            if self.waits_for[before] == 0 {
                self.free.pop();
            }
            self.waits_for[before] += 1;
        }
        self.size -= 1;
        self.bytes -= problem.memory_bytes(&problem.items[item], self.from_end);
        self.work_ns -= problem.items[item].work_ns();
        self.left[item / 64] |= 1 << (item % 64);
        self.move_item(item, false);
    }

    /// Updates what the stage pays for the item's transfers as the item enters or leaves.
    fn move_item(&mut self, item: usize, enters: bool) {
        let problem = self.search.problem;
        for &t in &problem.transfers_of[item] {
            let transfer = &problem.transfers[t];
            let paid = |(producer, consumers): (bool, u32)| match producer {
                true => ((consumers as usize) < transfer.consumers.len()).then_some(0),
                false => (consumers > 0).then_some(1),
            };
            let before = self.ends[t];
            let mut after = before;
            if item == transfer.producer {
                after.0 = enters;
            } else if enters {
                after.1 += 1;
            } else {
                after.1 -= 1;
            }
            self.ends[t] = after;
            if let Some(side) = paid(before) {
                (0..3).for_each(|r| self.paid_ns[r] -= self.search.paid[t][side][r]);
            }
            if let Some(side) = paid(after) {
                (0..3).for_each(|r| self.paid_ns[r] += self.search.paid[t][side][r]);
            }
        }
    }
}
