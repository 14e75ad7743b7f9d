//! Dynamic program over ideals, pruned by an upper bound: the half of the engine that needs no solver.
#![doc = include_str!("../../../formulations/ideals.md")]

pub(crate) mod growth;

use self::growth::{Grown, Growth, Tally};
use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, paid_by_sides};
use crate::exact::joint_memory::{JointMemory, Ledger, Seen};
use crate::exact::tuning::TUNING;
use crate::problem::confined::{Confined, Held};
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// Looks for a plan whose every stage keeps a limit, over all ideals that such plans can pass through.
pub struct IdealSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    predecessors: Vec<Vec<usize>>,
    /// What each side of each transfer adds to load, link in and link out, in ns.
    paid: Vec<[BusyTimes; 2]>,
    /// Where memory ties stages together.
    joint: Option<JointMemory<'a>>,
    most_steps: u64,
    /// Ideals met in all passes.
    pub ideals: usize,
}

/// An ideal on the way: what is still to place, and how it was reached.
struct ReachedIdeal {
    /// Items still to place: bits of a down-closed set.
    left: Box<[u64]>,
    work_ns: u64,
    /// What the stages taken leave open of their memory.
    ledger: Ledger,
    /// Position of the ideal before the last stage was taken off its end.
    parent: usize,
}

impl<'a> IdealSearch<'a> {
    /// Prepares a search that gives up after so many extensions of a stage.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_steps: u64) -> Self {
        Self {
            problem,
            control,
            predecessors: growth::predecessors(problem),
            paid: paid_by_sides(problem),
            joint: JointMemory::new(problem),
            most_steps,
            ideals: 0,
        }
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one.
    ///
    /// Stages are taken off the end, so that the memory of the r-th from the end is known. Without `all_stages` an ideal
    /// need be left only once, with the fewest stages behind it: what can follow depends on the ideal alone, more stages
    /// left never hurt, and fewer stages behind means fewer micro-batches in flight. Where memory ties stages together, it depends on the
    /// ledger too: one that is no worse must have been met.
    pub fn pass(&mut self, limit_ns: u64) -> Answer {
        let mut layers = Layers::new(self, limit_ns);
        let pass = layers.run();
        let ideals = layers.reached.len();
        self.ideals += ideals;
        pass
    }
}

/// The ideals that a pass has reached, layer after layer.
struct Layers<'s, 'a> {
    search: &'s IdealSearch<'a>,
    limit_ns: u64,
    reached: Vec<ReachedIdeal>,
    /// Stages off the end of one ideal after the other.
    growth: Growth<'s>,
    /// Ideals that need no second look.
    seen: Seen,
}

impl<'s, 'a> Layers<'s, 'a> {
    fn new(search: &'s IdealSearch<'a>, limit_ns: u64) -> Self {
        let everything = ReachedIdeal {
            left: bits::full(search.problem.items.len()),
            work_ns: search.problem.work_ns(),
            ledger: Ledger::default(),
            parent: usize::MAX,
        };
        Self {
            search,
            limit_ns,
            reached: vec![everything],
            growth: Growth::new(search.problem, search.control, &search.predecessors),
            seen: Seen::default(),
        }
    }

    /// Takes off one stage after the other, each from every ideal that the last one led to.
    fn run(&mut self) -> Answer {
        let (problem, control) = (self.search.problem, self.search.control);
        // Each ideal is kept twice, as reached and to be recognised, in tables that double.
        let words = self.reached[0].left.len();
        let most_reached = control.room_bytes() / (2 * 8 * words + TUNING.bytes_of_a_reached_ideal);
        let mut layer = 0..1;
        for from_end in 1..=problem.stages() {
            let start = self.reached.len();
            if problem.settings.all_stages {
                self.seen.clear();
            }
            for parent in layer {
                match self.take_stages(parent, from_end) {
                    Grown::Accepted => return Answer::Plan(unwind(problem.items.len(), &self.reached)),
                    Grown::Stopped(stopped_by) => return Answer::Stopped(stopped_by),
                    Grown::All => {}
                }
                if self.reached.len() > most_reached {
                    return Answer::Stopped(StoppedBy::SizeLimit);
                }
                if let Some(stopped_by) = control.must_stop() {
                    return Answer::Stopped(stopped_by);
                }
            }
            layer = start..self.reached.len();
        }
        Answer::none_within(self.limit_ns)
    }

    /// Takes off every stage from one ideal; accepts one that leaves nothing.
    fn take_stages(&mut self, parent: usize, from_end: usize) -> Grown {
        let search = self.search;
        let stages = search.problem.stages();
        let all_stages = search.problem.settings.all_stages;
        let ReachedIdeal {
            left,
            work_ns,
            ledger,
            ..
        } = &self.reached[parent];
        let parent_ns = *work_ns;
        let joint = search.joint.as_ref();
        let before = joint.map(|joint| (joint, left.clone(), ledger.clone()));
        let growth = &mut self.growth;
        growth.move_to(left);
        let mut tally = StageTally::new(search, self.limit_ns, from_end, parent_ns, growth);
        let (seen, reached) = (&mut self.seen, &mut self.reached);
        growth.each(
            &mut tally,
            search.most_steps - growth.steps,
            &mut |tally, left| {
                if !tally.keeps_limit() || !tally.others_may_keep_limit() {
                    return false;
                }
                let work_ns = parent_ns - tally.work_ns;
                let is_empty = bits::is_empty(left);
                // Stages left without an item, or items without a stage.
                let is_early = all_stages && is_empty && from_end < stages;
                let is_late = from_end == stages && !is_empty;
                if is_early || is_late {
                    return false;
                }
                let ledger = match &before {
                    None => Some(Ledger::default()),
                    Some((joint, before, ledger)) => {
                        let outside = |all: &[u64]| -> Box<[u64]> {
                            all.iter().zip(left).map(|(&all, &left)| all & !left).collect()
                        };
                        let taken = outside(&bits::full(search.problem.items.len()));
                        joint.with_stage(ledger, &outside(before), &taken, from_end)
                    }
                };
                let Some(ledger) = ledger.filter(|ledger| !seen.contains(left, ledger)) else {
                    return false;
                };
                seen.insert(left, &ledger);
                reached.push(ReachedIdeal {
                    left: left.into(),
                    work_ns,
                    ledger,
                    parent,
                });
                is_empty
            },
        )
    }
}

/// Reads the stages off the chain of ideals that ends in the last one reached, the empty one.
fn unwind(n: usize, reached: &[ReachedIdeal]) -> Assignment {
    let mut assignment = vec![0; n];
    let mut at = reached.len() - 1;
    let mut stage = 0;
    while reached[at].parent != usize::MAX {
        let parent = reached[at].parent;
        for (item, place) in assignment.iter_mut().enumerate() {
            if bits::contains(&reached[parent].left, item) && !bits::contains(&reached[at].left, item) {
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
    limit_ns: u64,
    from_end: usize,
    /// What the stages before it can carry, in ns.
    capacity_ns: u64,
    /// Work of the ideal that the stage is taken off, in ns.
    ideal_ns: u64,
    work_ns: u64,
    /// Load, link in and link out beside the work.
    paid_ns: [u64; 3],
    /// The part of it that is paid whatever joins.
    committed_ns: [u64; 3],
    /// What producers in the stages before it pay at least, in the same way: some consumer is in the stage or behind it.
    before_ns: [u64; 3],
    bytes: u64,
    /// What it holds, as far as constraints care.
    held: Option<Held>,
}

impl<'a, 'b> StageTally<'a, 'b> {
    /// Of an empty stage at the end of the ideal of a growth, with so much work.
    fn new(
        search: &'b IdealSearch<'a>,
        limit_ns: u64,
        from_end: usize,
        ideal_ns: u64,
        growth: &Growth,
    ) -> Self {
        let problem = search.problem;
        let mut tally = Self {
            search,
            limit_ns,
            from_end,
            capacity_ns: ((problem.stages() - from_end) as u64).saturating_mul(limit_ns),
            ideal_ns,
            work_ns: 0,
            paid_ns: [0; 3],
            committed_ns: [0; 3],
            before_ns: [0; 3],
            bytes: 0,
            held: problem.confined.as_ref().map(Confined::nothing),
        };
        for t in growth.leaving() {
            plus(&mut tally.before_ns, &search.paid[t][Side::Producer as usize]);
        }
        tally
    }

    fn keeps_limit(&self) -> bool {
        let [blocking, link_in, link_out] = self.paid_ns;
        (self.work_ns + blocking).max(link_in).max(link_out) <= self.limit_ns
    }

    /// Whether the stages before it can carry the work that is left, and what its producers send to later stages.
    fn others_may_keep_limit(&self) -> bool {
        let [blocking, link_in, link_out] = self.before_ns;
        let load_ns = self.ideal_ns - self.work_ns + blocking;
        load_ns.max(link_in).max(link_out) <= self.capacity_ns
    }

    /// The constraints, and what the stage holds of them.
    fn confined(&mut self) -> Option<(&Confined, &mut Held)> {
        self.search.problem.confined.as_ref().zip(self.held.as_mut())
    }

    fn bytes_of(&self, item: usize) -> u64 {
        let problem = self.search.problem;
        problem.memory_bytes(&problem.items[item], self.from_end)
    }
}

fn plus(sum: &mut [u64; 3], paid: &[u64; 3]) {
    (0..3).for_each(|r| sum[r] += paid[r]);
}

fn minus(sum: &mut [u64; 3], paid: &[u64; 3]) {
    (0..3).for_each(|r| sum[r] -= paid[r]);
}

impl Tally for StageTally<'_, '_> {
    fn admits(&self, item: usize) -> bool {
        let problem = self.search.problem;
        let bytes = self.bytes + self.bytes_of(item);
        self.work_ns + problem.items[item].work_ns() <= self.limit_ns
            && problem.settings.memory_limit.is_none_or(|limit| bytes <= limit)
            && (problem.confined.as_ref().zip(self.held.as_ref()))
                .is_none_or(|(confined, held)| confined.admits(held, item))
    }

    fn add(&mut self, item: usize) {
        self.work_ns += self.search.problem.items[item].work_ns();
        self.bytes += self.bytes_of(item);
        if let Some((confined, held)) = self.confined() {
            confined.add(held, item);
        }
    }

    fn remove(&mut self, item: usize) {
        self.work_ns -= self.search.problem.items[item].work_ns();
        self.bytes -= self.bytes_of(item);
        if let Some((confined, held)) = self.confined() {
            confined.remove(held, item);
        }
    }

    fn pay(&mut self, transfer: usize, side: Side, is_inside: bool) {
        let paid = &self.search.paid[transfer];
        plus(&mut self.paid_ns, &paid[side as usize]);
        if side == Side::Consumer && is_inside {
            plus(&mut self.before_ns, &paid[Side::Producer as usize]);
        }
    }

    fn stop_paying(&mut self, transfer: usize, side: Side, is_inside: bool) {
        let paid = &self.search.paid[transfer];
        minus(&mut self.paid_ns, &paid[side as usize]);
        if side == Side::Consumer && is_inside {
            minus(&mut self.before_ns, &paid[Side::Producer as usize]);
        }
    }

    fn commit(&mut self, transfer: usize, side: Side) {
        let paid = &self.search.paid[transfer][side as usize];
        plus(&mut self.committed_ns, paid);
        if side == Side::Producer {
            minus(&mut self.before_ns, paid);
        }
    }

    fn release(&mut self, transfer: usize, side: Side) {
        let paid = &self.search.paid[transfer][side as usize];
        minus(&mut self.committed_ns, paid);
        if side == Side::Producer {
            plus(&mut self.before_ns, paid);
        }
    }

    /// Whether the stage is too dear for good, or then too small for what the stages before it can carry.
    fn is_hopeless(&self) -> bool {
        let [blocking, link_in, link_out] = self.committed_ns;
        let largest_ns = self.limit_ns.saturating_sub(blocking);
        self.work_ns > largest_ns
            || link_in.max(link_out) > self.limit_ns
            || self.ideal_ns > self.capacity_ns.saturating_add(largest_ns)
    }
}
