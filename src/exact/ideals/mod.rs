//! Dynamic program over ideals, pruned by an upper bound: the half of the engine that needs no solver.
#![doc = include_str!("../../../formulations/ideals.md")]

pub(crate) mod growth;

use std::collections::HashSet;

use self::growth::{Grown, Growth, Tally};
use crate::control::Control;
use crate::cost::{Side, StageCost};
use crate::exact::bits;
use crate::exact::room;
use crate::exact::tuning::TUNING;
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
struct ReachedIdeal {
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
        Self {
            problem,
            control,
            predecessors: growth::predecessors(problem),
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

    fn everything(&self) -> ReachedIdeal {
        ReachedIdeal {
            left: bits::full(self.problem.items.len()),
            work_ns: self.problem.work_ns(),
            parent: usize::MAX,
        }
    }

    /// Takes off one stage after the other, each from every state that the last one led to.
    fn layers(&self, limit_ns: u64, states: &mut Vec<ReachedIdeal>) -> Pass {
        let stages = self.problem.stages();
        let all_stages = self.problem.settings.all_stages;
        let words = states[0].left.len();
        // Each ideal is kept twice, as a state and to be recognised, in tables that double.
        let most_states = room::bytes() / (2 * 8 * words + TUNING.bytes_of_a_reached_ideal);
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
                let busy = StageTally {
                    search: self,
                    from_end,
                    limit_ns,
                    work_ns: 0,
                    paid_ns: [0; 3],
                    bytes: 0,
                };
                let (left, most_steps) = (&states[parent].left, self.most_steps - steps);
                let mut stage = Growth::new(
                    self.problem,
                    self.control,
                    &self.predecessors,
                    left,
                    busy,
                    most_steps,
                );
                let parent_ns = states[parent].work_ns;
                let last = stage.each(&mut |busy, left| {
                    if !busy.keeps_limit() {
                        return false;
                    }
                    let work_ns = parent_ns - busy.work_ns;
                    let is_empty = left.iter().all(|word| *word == 0);
                    // More work left than the remaining stages can carry, or stages left without an item.
                    let is_dead = u128::from(work_ns) > may_leave_ns;
                    let is_early = all_stages && is_empty && from_end < stages;
                    let is_late = from_end == stages && !is_empty;
                    if is_dead || is_early || is_late || seen.contains(left) {
                        return false;
                    }
                    seen.insert(left.into());
                    states.push(ReachedIdeal {
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

/// Reads the stages off the chain of states that ends in the last one, the empty ideal.
fn unwind(n: usize, states: &[ReachedIdeal]) -> Assignment {
    let mut assignment = vec![0; n];
    let mut at = states.len() - 1;
    let mut stage = 0;
    while states[at].parent != usize::MAX {
        let parent = states[at].parent;
        for (item, place) in assignment.iter_mut().enumerate() {
            if bits::contains(&states[parent].left, item) && !bits::contains(&states[at].left, item) {
                *place = stage;
            }
        }
        stage += 1;
        at = parent;
    }
    assignment
}

/// What a stage adds up to where workers are alike.
struct StageTally<'a, 'b> {
    search: &'b IdealSearch<'a>,
    from_end: usize,
    limit_ns: u64,
    work_ns: u64,
    /// Load, link in and link out beside the work.
    paid_ns: [u64; 3],
    bytes: u64,
}

impl StageTally<'_, '_> {
    fn keeps_limit(&self) -> bool {
        let [blocking, link_in, link_out] = self.paid_ns;
        (self.work_ns + blocking).max(link_in).max(link_out) <= self.limit_ns
    }

    fn bytes_of(&self, item: usize) -> u64 {
        let problem = self.search.problem;
        problem.memory_bytes(&problem.items[item], self.from_end)
    }
}

impl Tally for StageTally<'_, '_> {
    fn admits(&self, item: usize) -> bool {
        let problem = self.search.problem;
        let bytes = self.bytes + self.bytes_of(item);
        self.work_ns + problem.items[item].work_ns() <= self.limit_ns
            && problem.settings.memory_limit.is_none_or(|limit| bytes <= limit)
    }

    fn add(&mut self, item: usize) {
        self.work_ns += self.search.problem.items[item].work_ns();
        self.bytes += self.bytes_of(item);
    }

    fn remove(&mut self, item: usize) {
        self.work_ns -= self.search.problem.items[item].work_ns();
        self.bytes -= self.bytes_of(item);
    }

    fn pay(&mut self, transfer: usize, side: Side) {
        let paid = &self.search.paid[transfer][side as usize];
        (0..3).for_each(|r| self.paid_ns[r] += paid[r]);
    }

    fn stop_paying(&mut self, transfer: usize, side: Side) {
        let paid = &self.search.paid[transfer][side as usize];
        (0..3).for_each(|r| self.paid_ns[r] -= paid[r]);
    }
}
